//! Options of rsync that are not there, and what to do instead: the likeness of their names says nothing about that.

use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, Error};

/// Spellings, of which those with a `=` take a value, and what is said of them.
const ABSENT: [(&[&str], &str); 23] = [
    (&["-e", "--rsh="], "options of ssh stand in ~/.ssh/config, or in NUMAIO_SSH='ssh -p 2222'"),
    (&["--port="], "Port in ~/.ssh/config, NUMAIO_SSH='ssh -p 2222', or numaio://HOST:PORT/ for a daemon"),
    (&["--rsync-path="], "--remote-numaio names the path of numaio on the other host"),
    (&["--password-file="], "a daemon knows its users by keys: numaio keygen makes one, --key names it"),
    (
        &[
            "-L",
            "--copy-links",
            "--copy-unsafe-links",
            "--safe-links",
            "-k",
            "--copy-dirlinks",
            "-K",
            "--keep-dirlinks",
        ],
        "links are moved as links, and none is followed",
    ),
    (&["-x", "--one-file-system"], "other file systems are entered; --exclude leaves them out"),
    (&["-R", "--relative"], "--files-from keeps the directories on the way of names below SRC"),
    (&["-b", "--backup", "--backup-dir=", "--suffix="], "what is replaced is gone; copy it elsewhere before"),
    (
        &["-p", "--perms", "-g", "--group", "-o", "--owner", "-D", "--devices", "--specials"],
        "--archive (-a) keeps modes, groups and, as root, users and devices",
    ),
    (
        &["--no-perms", "--no-owner", "--no-group", "--no-devices"],
        "--recursive (-r) keeps none of these, --archive (-a) all",
    ),
    (&["-W", "--whole-file"], "it always is so: there is no delta"),
    (
        &["-f", "-F", "--filter=", "-C", "--cvs-exclude"],
        "--include and --exclude have patterns, --exclude-from files of them",
    ),
    (
        &["--partial-dir=", "--append", "--append-verify"],
        "a run that was cut is continued by the same command, without an option",
    ),
    (&["-T", "--temp-dir="], "files are written beside their names"),
    (
        &["--del", "--delete-before", "--delete-during", "--delete-delay", "--delete-after"],
        "--delete removes at the end, if nothing failed",
    ),
    (&["--ignore-errors"], "--delete removes nothing where something failed"),
    (&["--delete-excluded"], "--delete spares what rules leave out; remove that by hand"),
    (
        &["-i", "--itemize-changes", "--stats", "--info=", "--out-format=", "--log-file="],
        "--verbose names what is made or changed, --json tells all; numaio jobs keeps totals and failures",
    ),
    (&["--timeout="], "a connection that is lost is made anew for as long as --retry says"),
    (&["--mkpath"], "the last directory of DST is made; mkdir -p makes those above it"),
    (&["--size-only"], "--checksum compares what is as large by its content"),
    (
        &["--ignore-existing", "--existing", "--ignore-non-existing"],
        "there is nothing like it: --update replaces what is older at the destination, and makes what is new",
    ),
    (
        &[
            "--remove-source-files",
            "--link-dest=",
            "--compare-dest=",
            "--copy-dest=",
            "--copy-devices",
            "--max-delete=",
            "--chmod=",
            "--chown=",
            "--usermap=",
            "--groupmap=",
            "--contimeout=",
            "--ignore-missing-args",
            "--delete-missing-args",
            "--list-only",
            "-m",
            "--prune-empty-dirs",
        ],
        "there is nothing like it; docs/copy/from-rsync.md compares the options with those of rsync",
    ),
];

/// Takes out of an error that one of them is like what was typed: it is not there either.
pub fn not_proposed(error: &mut Error) {
    let is_absent = |name: &str| {
        let spellings = ABSENT.iter().flat_map(|(spellings, _)| *spellings);
        spellings.map(|spelling| spelling.trim_end_matches('=')).any(|spelling| spelling == name)
    };
    if matches!(error.get(ContextKind::SuggestedArg), Some(ContextValue::String(name)) if is_absent(name)) {
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

/// A command that knows them, so that each is refused with a word on it. It takes longer to make: for words that are refused anyway.
pub fn with_absent(command: Command) -> Command {
    let each = |(spellings, tip): (&'static [&'static str], &'static str)| {
        spellings.iter().map(move |spelling| arg(spelling, tip))
    };
    command.args(ABSENT.into_iter().flat_map(each))
}

#[cfg(test)]
mod tests {
    use super::super::CopyArgs;
    use super::*;
    use clap::error::ErrorKind;
    use clap::Args;

    #[test]
    fn none_is_proposed() {
        for (typed, proposed) in
            [("--no-permissions", None), ("--dele", None), ("--recursiv", Some("--recursive"))]
        {
            let command = with_absent(CopyArgs::augment_args(Command::new("copy")));
            let mut error = command.try_get_matches_from(["copy", typed, "a", "b"]).expect_err(typed);
            not_proposed(&mut error);
            let of = |error: &Error| error.get(ContextKind::SuggestedArg).map(ToString::to_string);
            assert_eq!(of(&error).as_deref(), proposed, "{error}");
        }
    }

    #[test]
    fn each_is_refused_with_its_word_and_no_help_has_it() {
        let command = || with_absent(CopyArgs::augment_args(Command::new("copy")));
        let help = command().render_long_help().to_string();
        for (spelling, tip) in ABSENT.iter().flat_map(|(all, tip)| all.iter().map(move |one| (*one, tip))) {
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
