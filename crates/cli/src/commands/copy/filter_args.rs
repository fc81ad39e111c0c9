//! The options `--include`, `--exclude` and their files, in the order of the command line.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Where a rule comes from.
#[derive(Debug, Clone)]
pub enum RuleSource {
    /// A pattern on the command line, and whether it includes.
    Pattern(bool, Vec<u8>),
    /// A file with a pattern on each line, and whether they include.
    File(bool, PathBuf),
}

/// Rules in order; the first match decides.
#[derive(Debug, Clone, Default)]
pub struct FilterArgs {
    pub rules: Vec<RuleSource>,
}

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";
const INCLUDE_FROM: &str = "include-from";
const EXCLUDE_FROM: &str = "exclude-from";

fn option(name: &'static str, help: &'static str) -> Arg {
    let is_file = name == INCLUDE_FROM || name == EXCLUDE_FROM;
    Arg::new(name)
        .long(name)
        .value_name(if is_file { "FILE" } else { "PATTERN" })
        .help(help)
        .action(ArgAction::Append)
        .value_parser(clap::value_parser!(OsString))
}

impl Args for FilterArgs {
    fn augment_args(command: Command) -> Command {
        command
            .arg(option(
                INCLUDE,
                "Transfer matching files even if a later --exclude matches; patterns as in rsync",
            ))
            .arg(option(
                EXCLUDE,
                "Skip matching files and everything below them; the first matching rule decides",
            ))
            .arg(option(
                INCLUDE_FROM,
                "Read patterns to --include from a file, one per line; - for standard input",
            ))
            .arg(option(
                EXCLUDE_FROM,
                "Read patterns to --exclude from a file, one per line; - for standard input",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules: Vec<(usize, RuleSource)> = Vec::new();
        for name in [INCLUDE, EXCLUDE, INCLUDE_FROM, EXCLUDE_FROM] {
            let values = matches.get_many::<OsString>(name).into_iter().flatten();
            for (index, value) in matches.indices_of(name).into_iter().flatten().zip(values) {
                let typed = |include| RuleSource::Pattern(include, value.as_bytes().to_vec());
                let from = match name {
                    INCLUDE => typed(true),
                    EXCLUDE => typed(false),
                    name => RuleSource::File(name == INCLUDE_FROM, PathBuf::from(value)),
                };
                rules.push((index, from));
            }
        }
        rules.sort_by_key(|(index, _)| *index);
        Ok(Self { rules: rules.into_iter().map(|(_, rule)| rule).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
