//! Options by which several processes copy one tree together.

use super::delete_args::DeleteArgs;
use super::selection_args::SelectionArgs;
use crate::failure::Failure;
use clap::Args;
use numaio_mover::shard::Shard;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Value of `--shard` without a value.
const FROM_SLURM: &str = "slurm";
/// The hint for options that apply to all files.
const FINISH_HINT: &str = "after all shards, pass it to a last run with --finish in place of --shard";

/// Options by which several processes copy one tree together.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Shards")]
pub struct ShardArgs {
    /// Copy only part K of N of the files, while other processes or hosts copy the others; without
    /// a value K and N come from the task of Slurm's srun
    ///
    /// A hash of its name assigns each file to a part; hard links stay together. All parts create
    /// directories, which get no times and stay writable for their owner until --finish.
    #[arg(long, value_name = "K/N", num_args = 0..=1, require_equals = true,
          default_missing_value = FROM_SLURM, value_parser = parse)]
    shard: Option<ShardSource>,
    /// Complete a tree after all runs with --shard: copy what they left, and set times and modes of
    /// directories
    ///
    /// This is a run without --shard that fails while a shard is running, as far as it finds locks,
    /// and removes what interrupted shards left. Only this run takes --delete.
    #[arg(long)]
    pub finish: bool,
}

/// Where the numbers of a shard come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShardSource {
    /// The command line.
    Typed(Shard),
    /// The environment of a task of Slurm.
    Slurm,
}

fn parse(text: &str) -> Result<ShardSource, String> {
    match text {
        FROM_SLURM => Ok(ShardSource::Slurm),
        text => text.parse().map(ShardSource::Typed).map_err(|error| error.to_string()),
    }
}

impl ShardArgs {
    /// Returns the shard, if this run copies one only.
    ///
    /// # Errors
    /// Slurm's variables are missing or invalid.
    pub fn shard(self) -> Result<Option<Shard>, Failure> {
        match self.shard {
            None => Ok(None),
            Some(ShardSource::Typed(shard)) => Ok(Some(shard)),
            Some(ShardSource::Slurm) => slurm_shard(|name| std::env::var(name).ok()).map(Some),
        }
    }

    /// Returns the shard as an option of another command line, if it is valid.
    pub fn typed_option(self) -> Option<OsString> {
        Some(format!("--shard={}", self.shard().ok()??).into())
    }

    /// Returns words of a command line in which an option that needs Slurm is replaced by the
    /// shard.
    pub fn resolve_in(self, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let is_bare = |word: &OsString| word == "--shard" || *word == *format!("--shard={FROM_SLURM}");
        let mut is_option = true;
        let mut resolve = |word: OsString| {
            is_option &= word != "--";
            let option = (is_option && is_bare(&word)).then(|| self.typed_option()).flatten();
            option.unwrap_or(word)
        };
        words.map(&mut resolve).collect()
    }

    /// Checks what clap cannot express, given the words of the command line.
    ///
    /// # Errors
    /// The shard is unknown, or an option applies to all files.
    pub fn check(
        self,
        words: &[OsString],
        (deletion, selection): (DeleteArgs, &SelectionArgs),
        manifest: Option<&PathBuf>,
    ) -> Result<(), Failure> {
        if let Some(path) = words.windows(2).find_map(path_like_shard) {
            return Err(Failure::usage(format!("the value of --shard needs '=': '{path}' would be a path"))
                .hint(format!("write --shard={path}, or ./{path} for a path")));
        }
        let Some(shard) = self.shard()? else { return Ok(()) };
        let options = [
            ("--finish", self.finish),
            ("--delete", deletion.deletes()),
            ("--remove-source-files", selection.remove_source_files),
            ("--manifest", manifest.is_some()),
        ];
        match options.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some(("--finish", _)) => Err(Failure::usage("--finish cannot be combined with --shard")
                .hint("run the command once more with --finish in place of --shard, after all shards")),
            Some((option, _)) => Err(Failure::usage(format!(
                "{option} cannot be combined with --shard: shard {shard} has only a part of the files"
            ))
            .hint(FINISH_HINT)),
        }
    }
}

/// Returns the word after `--shard` if it looks like a shard, and would be a path.
fn path_like_shard(pair: &[OsString]) -> Option<&str> {
    let [option, word] = pair else { return None };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let word = word.to_str().filter(|_| option == OsStr::new("--shard"))?;
    let (number, count) = word.split_once('/')?;
    (digits(number) && digits(count)).then_some(word)
}

/// Returns the shard of a task of Slurm: its rank, from 0, and the number of tasks of its step.
fn slurm_shard(variable: impl Fn(&str) -> Option<String>) -> Result<Shard, Failure> {
    let hint = "run it by srun, or write --shard=K/N";
    let integer = |name: &str| {
        let missing = || Failure::usage(format!("--shard needs K/N: {name} is not set")).hint(hint);
        let text = variable(name).ok_or_else(missing)?;
        let invalid = |_| Failure::usage(format!("--shard: invalid value '{text}' of {name}")).hint(hint);
        text.parse::<u32>().map_err(invalid)
    };
    let (count, rank) = (integer("SLURM_NTASKS")?, integer("SLURM_PROCID")?);
    // Slurm sets both variables also in the batch script, which runs once.
    if variable("SLURM_JOB_ID").is_some() && variable("SLURM_STEP_ID").is_none() && count > 1 {
        let text = format!("--shard: this process is the batch script, not one of the {count} tasks");
        return Err(Failure::usage(text).hint("start it by srun: srun numaio copy --shard ..."));
    }
    Shard::new(rank.saturating_add(1), count).map_err(|error| {
        let text = format!("--shard: SLURM_PROCID={rank} of SLURM_NTASKS={count} is not a shard: {error}");
        Failure::usage(text).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::copy_command;
    use super::super::args::CopyArgs;
    use super::*;
    use clap::FromArgMatches;

    fn args(line: &str) -> CopyArgs {
        let matches = copy_command().try_get_matches_from(line.split(' ')).expect("options");
        CopyArgs::from_arg_matches(&matches).expect("options")
    }

    fn slurm(variables: &[(&str, &str)]) -> Result<String, String> {
        let value = |name: &str| Some(variables.iter().find(|(found, _)| *found == name)?.1.to_owned());
        slurm_shard(value).map(|shard| shard.to_string()).map_err(|failure| failure.message)
    }

    #[test]
    fn shard_comes_from_the_task_of_slurm() {
        let task =
            [("SLURM_NTASKS", "4"), ("SLURM_PROCID", "3"), ("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")];
        assert_eq!(slurm(&task).as_deref(), Ok("4/4"));
        assert_eq!(slurm(&task[..2]).as_deref(), Ok("4/4"));
        let batch = slurm(&task[..3]).expect_err("a batch script");
        assert!(batch.contains("batch script"), "{batch}");
        let missing = slurm(&task[..1]).expect_err("a missing variable");
        assert!(missing.contains("SLURM_PROCID is not set"), "{missing}");
        let invalid = slurm(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "4")]).expect_err("too large");
        assert!(invalid.contains("SLURM_PROCID=4"), "{invalid}");
        assert!(slurm(&[("SLURM_NTASKS", "x"), ("SLURM_PROCID", "0")]).is_err());
    }

    #[test]
    fn value_needs_an_equals_sign_and_never_takes_a_path() {
        let typed = args("copy -a --shard=2/8 from to");
        assert_eq!(
            (typed.shards.shard, typed.paths.len()),
            (Some(ShardSource::Typed(Shard::new(2, 8).expect("a shard"))), 2)
        );
        let bare = args("copy -a --shard from to");
        assert_eq!((bare.shards.shard, bare.paths.len()), (Some(ShardSource::Slurm), 2));
        assert!(copy_command().try_get_matches_from(["copy", "--shard=0/4", "a", "b"]).is_err());
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(words("--shard 1/4 a").windows(2).find_map(path_like_shard), Some("1/4"));
        assert_eq!(words("--shard a/4 1/4").windows(2).find_map(path_like_shard), None);
    }

    #[test]
    fn recorded_and_forwarded_options_have_the_shard() {
        let typed = args("copy -a --shard=2/8 from to");
        assert!(typed.forwarded.options.contains(&"--shard=2/8".into()), "{:?}", typed.forwarded);
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let resolved = typed.shards.resolve_in(words("copy --shard=slurm --shard -- --shard b").into_iter());
        assert_eq!(resolved, words("copy --shard=2/8 --shard=2/8 -- --shard b"));
    }
}
