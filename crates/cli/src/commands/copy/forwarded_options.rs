//! The typed options of a copy, to forward them to a remote numaio.

use super::shard_args::ShardArgs;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsString;

/// Options that are not forwarded: those for local output and job records, those that a remote
/// numaio gets anyway, and no-ops.
const NOT_FORWARDED: [&str; 9] = [
    "json",
    "progress",
    "no_job",
    "attached",
    "is_retry",
    "forward_agent",
    "human_readable",
    "rsync_noop",
    "rsync_noop_with_archive",
];

/// Options in the order of the command line, as `--name` or `--name=value`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardedOptions {
    pub options: Vec<OsString>,
    /// Options with a FILE value, which names a local file.
    pub files: Vec<String>,
}

impl ForwardedOptions {
    /// Returns the options of a parsed command line of `command`.
    pub fn of(command: &Command, matches: &ArgMatches) -> Self {
        let mut options: Vec<(usize, OsString)> = Vec::new();
        let mut files = Vec::new();
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let long = match id {
                "compress_auto" => Some("compress=auto"),
                // The log is local, and needs the changes.
                "log_file" => Some("itemize-changes"),
                _ => arg.get_long(),
            };
            let Some(long) = long.filter(|_| !NOT_FORWARDED.contains(&id)) else { continue };
            if !matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
            {
                continue;
            }
            if id == "shard" {
                // Another host has other variables of Slurm.
                let shard = ShardArgs::from_arg_matches(matches).ok().and_then(ShardArgs::typed_option);
                options.extend(matches.index_of(id).zip(shard));
                continue;
            }
            let is_local = id == "log_file";
            if !is_local && arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "FILE"))
            {
                files.push(format!("--{long}"));
            }
            let indices = matches.indices_of(id).into_iter().flatten();
            if is_local || matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count) {
                options.extend(indices.map(|index| (index, format!("--{long}").into())));
                continue;
            }
            let values = matches.get_raw(id).into_iter().flatten();
            options.extend(indices.zip(values).map(|(index, value)| {
                let mut option = OsString::from(format!("--{long}="));
                option.push(value);
                (index, option)
            }));
        }
        options.sort();
        Self { options: options.into_iter().map(|(_, option)| option).collect(), files }
    }
}

impl Args for ForwardedOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::copy_command;
    use super::super::args::CopyArgs;
    use super::*;
    use clap::Arg;
    use numaio_mover::compression::CompressMode;

    #[test]
    fn keeps_the_order_and_drops_local_options() {
        let words = "copy -a --exclude x --bwlimit 10M --include=y --exclude z --json --no-job -hn a b";
        let command = copy_command();
        let matches = command.try_get_matches_from(words.split(' ')).expect("options");
        let typed = CopyArgs::from_arg_matches(&matches).expect("options").forwarded;
        let wanted = ["--archive", "--exclude=x", "--bwlimit=10M", "--include=y", "--exclude=z", "--dry-run"];
        assert_eq!(typed.options, wanted.map(OsString::from));
        assert!(typed.files.is_empty());
    }

    #[test]
    fn accepts_no_op_options_without_forwarding_them() {
        let words = "copy -a -tlHSAX --times --links --hard-links --sparse --acls --xattrs a b";
        let command = copy_command();
        let matches = command.clone().try_get_matches_from(words.split(' ')).expect("options");
        let typed = CopyArgs::from_arg_matches(&matches).expect("options").forwarded;
        assert_eq!(typed.options, ["--archive", "--links"]);
        // As in rsync, --acls needs --archive here.
        assert!(command.try_get_matches_from(["copy", "-r", "--acls", "a", "b"]).is_err());
    }

    #[test]
    fn repeated_options_override_and_lists_accumulate() {
        let words = "copy -avv -aP --progress --bwlimit 1M --exclude x --bwlimit 2M --exclude y --via a,b --via c a b";
        let command = copy_command();
        let matches = command.try_get_matches_from(words.split(' ')).expect("options");
        let args = CopyArgs::from_arg_matches(&matches).expect("options");
        let wanted =
            ["--archive", "--exclude=x", "--bwlimit=2M", "--exclude=y", "--via=a", "--via=b", "--via=c"];
        assert_eq!(args.forwarded.options, wanted.map(OsString::from));
        assert_eq!((args.transfer.bwlimit, args.filters.rules.len()), (Some(2 << 20), 2));
    }

    #[test]
    fn forwards_z_as_compress_auto() {
        let compress = |words: &str| {
            let command = copy_command();
            let matches = command.try_get_matches_from(words.split(' ')).expect("options");
            let args = CopyArgs::from_arg_matches(&matches).expect("options");
            (args.transfer.compress(), args.forwarded.options)
        };
        let forwarded = |how: &str| vec![OsString::from(format!("--compress={how}"))];
        assert_eq!(compress("copy -Pvz a b"), (CompressMode::Auto, forwarded("auto")));
        assert_eq!(compress("copy -z --compress zstd a b"), (CompressMode::Zstd, forwarded("zstd")));
        assert_eq!(compress("copy --compress none -z a b"), (CompressMode::Auto, forwarded("auto")));
    }

    #[test]
    fn finds_options_with_local_files() {
        let command = Command::new("copy").arg(Arg::new("list").long("list").value_name("FILE"));
        let matches = command.clone().try_get_matches_from(["copy", "--list=names"]).expect("options");
        assert_eq!(ForwardedOptions::of(&command, &matches).files, ["--list"]);
    }
}
