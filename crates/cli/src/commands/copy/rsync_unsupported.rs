//! Options of rsync that numaio does not support, with alternatives.

use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, Error};

/// Option spellings with their tip; a trailing `=` means that the option has a value.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (&["-e", "--rsh="], "set ssh options in ~/.ssh/config, or by NUMAIO_SSH='ssh -p 2222'"),
    (&["--port="], "Port in ~/.ssh/config, NUMAIO_SSH='ssh -p 2222', or numaio://HOST:PORT/ for a daemon"),
    (&["--rsync-path="], "use --remote-numaio for the command that starts numaio on the other host"),
    (
        &["--password-file="],
        "daemons authenticate users by keys: generate one by numaio keygen, and pass it by --key",
    ),
    (
        &["--copy-unsafe-links", "--safe-links", "-k", "--copy-dirlinks", "-K", "--keep-dirlinks"],
        "links are copied as links; --copy-links (-L) copies what they lead to",
    ),
    (&["-R", "--relative"], "use --files-from to keep the directories of names below SRC"),
    (
        &["-p", "--perms", "-g", "--group", "-o", "--owner", "-D", "--devices", "--specials"],
        "--archive (-a) keeps modes, groups and, as root, users and devices",
    ),
    (&["--no-devices"], "--recursive (-r) copies no devices, --archive (-a) does as root"),
    (&["-W", "--whole-file"], "files are always transferred without deltas"),
    (
        &["-f", "-F", "--filter=", "-C", "--cvs-exclude"],
        "use --include and --exclude for patterns, --exclude-from for files of patterns",
    ),
    (
        &["--partial-dir=", "--append", "--append-verify"],
        "run the same command again to resume an interrupted run",
    ),
    (&["-T", "--temp-dir="], "temporary files are in the directory of the final file"),
    (
        &["--info=", "--out-format=", "--log-file-format="],
        "use --verbose for the names of changed files, -i for their attributes, --json for all events",
    ),
    (&["--size-only"], "use --checksum to compare files of the same size by content"),
    (
        &[
            "--compare-dest=",
            "--copy-dest=",
            "--copy-devices",
            "--usermap=",
            "--groupmap=",
            "--contimeout=",
            "--ignore-missing-args",
            "--delete-missing-args",
            "--list-only",
            "-m",
            "--prune-empty-dirs",
        ],
        "not supported; docs/copy/from-rsync.md compares the options with those of rsync",
    ),
];

/// Removes an unsupported option from the suggestions of an error.
pub fn remove_unsupported_suggestion(error: &mut Error) {
    let is_unsupported = |name: &str| {
        let spellings = UNSUPPORTED.iter().flat_map(|(spellings, _)| *spellings);
        spellings.map(|spelling| spelling.trim_end_matches('=')).any(|spelling| spelling == name)
    };
    if matches!(error.get(ContextKind::SuggestedArg), Some(ContextValue::String(name)) if is_unsupported(name))
    {
        error.remove(ContextKind::SuggestedArg);
    }
}

fn arg(spelling: &'static str, tip: &'static str) -> Arg {
    let arg = Arg::new(spelling).hide(true).value_parser(UnknownArgumentValueParser::suggest(tip));
    let name = spelling.trim_start_matches('-').trim_end_matches('=');
    let arg = match spelling.strip_prefix("--") {
        Some(_) => arg.long(name),
        None => arg.short(name.chars().next()),
    };
    match spelling.ends_with('=') {
        true => arg.num_args(0..=1).require_equals(true).default_missing_value("").value_name("VALUE"),
        false => arg.action(ArgAction::SetTrue),
    }
}

/// Adds the unsupported options to a command, so that using one fails with its tip.
///
/// Building the command is slow, so call this only after a parse error.
pub fn with_unsupported_options(command: Command) -> Command {
    let each = |(spellings, tip): (&'static [&'static str], &'static str)| {
        spellings.iter().map(move |spelling| arg(spelling, tip))
    };
    command.args(UNSUPPORTED.iter().copied().flat_map(each))
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::copy_command;
    use super::*;
    use clap::error::ErrorKind;

    #[test]
    fn suggests_only_supported_options() {
        for (typed, proposed) in
            [("--no-device", None), ("--dele", Some("--del")), ("--recursiv", Some("--recursive"))]
        {
            let command = with_unsupported_options(copy_command());
            let mut error = command.try_get_matches_from(["copy", typed, "a", "b"]).expect_err(typed);
            remove_unsupported_suggestion(&mut error);
            let of = |error: &Error| error.get(ContextKind::SuggestedArg).map(ToString::to_string);
            assert_eq!(of(&error).as_deref(), proposed, "{error}");
        }
    }

    #[test]
    fn unsupported_options_fail_with_their_tip_and_are_not_in_the_help() {
        let command = || with_unsupported_options(copy_command());
        let help = command().render_long_help().to_string();
        for (spelling, tip) in
            UNSUPPORTED.iter().flat_map(|(all, tip)| all.iter().map(move |one| (*one, tip)))
        {
            let typed = if spelling.ends_with('=') { format!("{spelling}x") } else { spelling.to_owned() };
            let name = typed.trim_end_matches("=x");
            for words in [&["copy", "-r", &typed, "a", "b"][..], &["copy", "a", "b", name]] {
                let error = command().try_get_matches_from(words).expect_err(spelling);
                assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{error}");
                assert!(error.to_string().contains(tip) && error.to_string().contains(name), "{error}");
            }
            assert!(help
                .lines()
                .all(|line| line.split([' ', ',']).find(|word| !word.is_empty()) != Some(name)));
        }
    }
}
