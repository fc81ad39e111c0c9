//! Files that `numaio copy --delete` must keep.

use crate::support::{skipped, CommandOutput, Home};
use std::fs;

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy", "--no-job", "-r", "--delete"], args].concat())
}

/// Creates a source with a file and a subdirectory.
fn source(home: &Home, at: &str) {
    fs::create_dir_all(home.0.join(at).join("below")).expect("a folder");
    home.file(&format!("{at}/app"), "a file");
    home.file(&format!("{at}/below/x"), "x");
}

fn is_complete(home: &Home, at: &str) -> bool {
    let content = |name| fs::read_to_string(home.0.join(at).join(name)).unwrap_or_default();
    (content("app"), content("below/x")) == ("a file".to_owned(), "x".to_owned())
}

#[test]
fn keeps_a_source_in_place_of_a_file() {
    let home = Home::new();
    source(&home, "to/app");
    copy(&home, &["to/app/", "to"]).failed(3, &["a directory with this name exists"]);
    assert!(is_complete(&home, "to/app"));
}

/// The source path `app/x` becomes `x` at the destination, and `app` itself is also a source path.
#[test]
fn keeps_a_source_that_contains_a_directory_of_its_own_name() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("to/app/app")).expect("folders");
    home.file("to/app/large", "is not moved");
    home.file("to/app/app/x", "x");
    copy(&home, &["--max-size", "5", "to/app/", "to"])
        .failed(3, &["app/large", "it is a source directory, or contains or is inside one"]);
    assert!(home.0.join("to/app/large").exists() && home.0.join("to/app/app/x").exists());
    assert_eq!(fs::read_to_string(home.0.join("to/app/x")).unwrap_or_default(), "x");
}

/// The directory is part of the source, which is still to be read.
#[test]
fn does_not_replace_a_directory_of_the_source_by_a_file() {
    for is_link in [false, true] {
        let home = Home::new();
        fs::create_dir_all(home.0.join("to/app/X")).expect("folders");
        fs::create_dir_all(home.0.join("to/app/app")).expect("folders");
        home.file("to/app/X/y", "y");
        home.file("to/app/app/X", "a file");
        if is_link {
            fs::hard_link(home.0.join("to/app/app/X"), home.0.join("to/app/app/A")).expect("a link");
        }
        copy(&home, &["to/app/", "to"]).failed(3, &["a directory with this name exists"]);
        assert_eq!(fs::read_to_string(home.0.join("to/app/X/y")).unwrap_or_default(), "y");
    }
}

/// An exclude rule silences the error.
#[test]
fn keeps_an_excluded_source() {
    let home = Home::new();
    source(&home, "to/source");
    copy(&home, &["--exclude=/source/", "to/source/", "to"]).ok();
    assert!(is_complete(&home, "to/source") && is_complete(&home, "to"));
}

#[test]
fn keeps_a_source_inside_the_destination_and_its_parents() {
    for dry in [&["-n"][..], &[]] {
        for at in ["to/source", "to/deep/er/source"] {
            let home = Home::new();
            source(&home, at);
            home.file("to/old", "old");
            let from = format!("{at}/");
            copy(&home, &[dry, &[&from, "to"]].concat())
                .failed(3, &["it is a source directory, or contains or is inside one"]);
            assert!(is_complete(&home, at), "{at}");
            assert_eq!(home.0.join("to/old").exists(), !dry.is_empty(), "{at}");
            assert_eq!(is_complete(&home, "to"), dry.is_empty(), "{at}");
        }
    }
}

/// With a rule that may protect its contents, and in a dry run.
#[test]
fn reports_a_directory_in_place_of_a_hard_link() {
    for options in [&["--exclude=zz"][..], &["-n", "--exclude=zz"]] {
        let home = Home::new();
        fs::create_dir_all(home.0.join("from")).expect("a folder");
        fs::create_dir_all(home.0.join("to/b")).expect("a folder");
        home.file("to/b/kept", "kept");
        home.file("from/a", "a");
        fs::hard_link(home.0.join("from/a"), home.0.join("from/b")).expect("a link");
        fs::hard_link(home.0.join("from/a"), home.0.join("from/c")).expect("a link");
        let output = copy(&home, &[options, &["from/", "to"]].concat());
        output.failed(3, &["a directory with this name exists"]);
        assert!(home.0.join("to/b/kept").exists());
    }
}

/// A file that fails makes no doubt about what the source has.
#[test]
fn deletes_despite_files_that_fail() {
    let home = Home::new();
    source(&home, "from");
    fs::create_dir_all(home.0.join("to/app/kept")).expect("a folder");
    home.file("to/old", "old");
    let rules = ["--exclude=kept"];
    copy(&home, &[&rules[..], &["from/", "to"]].concat())
        .failed(3, &["app: a directory with this name exists"]);
    assert!(home.0.join("to/app/kept").exists() && !home.0.join("to/old").exists());
}

/// The source directory may be the mount point of an unmounted file system.
#[test]
fn deletes_nothing_for_an_empty_source_unless_allowed() {
    for from in ["from/", "from"] {
        let home = Home::new();
        fs::create_dir_all(home.0.join("from")).expect("a folder");
        source(&home, "to/from");
        source(&home, "to/other");
        home.file("to/from/old", "old");
        let to = if from.ends_with('/') { "to/from" } else { "to" };
        for dry in [&["-n"][..], &[]] {
            let output = copy(&home, &[dry, &[from, to]].concat());
            assert_eq!(output.code, Some(3));
            assert_eq!(output.err.matches("the source directory is empty").count(), 1, "{}", output.err);
            assert!(is_complete(&home, "to/from") && is_complete(&home, "to/other"), "{from}");
        }
        copy(&home, &["--allow-empty-source", from, to]).ok();
        assert_eq!(fs::read_dir(home.0.join("to/from")).expect("a folder").count(), 0, "{from}");
    }
}

#[test]
fn deletes_at_most_the_given_number() {
    let home = Home::new();
    source(&home, "from");
    source(&home, "to/extra");
    (0..10).for_each(|number| drop(home.file(&format!("to/{number}"), "old")));
    let count = |home: &Home| {
        let all = home.run(&["copy", "--no-job", "-rnv", "to/", "none"]).out;
        all.lines().filter(|line| line.starts_with("would be copied")).count()
    };
    let before = count(&home);
    let output = copy(&home, &["--max-delete=4", "from/", "to"]);
    assert!(output.code == Some(3) && output.err.contains("--max-delete"), "{}", output.err);
    assert!(output.out.contains(" 4 removed"), "{}", output.out);
    // The new files are two, and a directory counts when nothing is left in it.
    assert!(count(&home) >= before + 2 - 4 && count(&home) < before + 2, "{before} {}", count(&home));
    copy(&home, &["--max-delete=13", "from/", "to"]).ok();
    assert_eq!(count(&home), 2);
    home.run(&["copy", "-r", "--max-delete=1", "from/", "to"]).failed(2, &["--max-delete needs --delete"]);
}

/// One pass deletes, another one copies; both are one transfer in the output.
#[test]
fn delete_before_frees_space_first() {
    let home = Home::new();
    source(&home, "from");
    fs::write(home.0.join("from/large"), vec![1; 3 << 20]).expect("a file");
    let script = "
        mkdir to && mount -t tmpfs -o size=4m none to || exit 99
        trap 'umount to' EXIT
        head -c 3M /dev/zero >to/old
        $NUMAIO copy --no-job -r --delete-before --json from/ to >events; echo code $?
        cmp from/large to/large && ls to
        $NUMAIO copy --no-job -r --delete-before from/ to/new; echo code $?
    ";
    let Some(output) = home.run_unshared("-m", &[script]) else { return skipped("tmpfs: needs root") };
    assert!(output.out.starts_with("code 0\napp\nbelow\nlarge\n"), "{}\n{}", output.out, output.err);
    let events = fs::read_to_string(home.0.join("events")).expect("events");
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ends: Vec<_> = events.iter().filter(|event| event["event"] == "end").collect();
    assert_eq!(ends.len(), 1);
    assert_eq!((&ends[0]["removed"], &ends[0]["failed"]), (&1.into(), &0.into()), "{:?}", ends[0]);
}

/// A source with excluded entries, and a destination with others of the same names.
fn with_excluded() -> (Home, [&'static str; 4]) {
    let home = Home::new();
    source(&home, "from");
    for directory in ["from/cache", "to/cache/deep"] {
        fs::create_dir_all(home.0.join(directory)).expect("folders");
    }
    home.file("from/cache/c", "not copied");
    home.file("to/cache/deep/old", "old");
    home.file("to/a.tmp", "old");
    (home, ["--exclude=*.tmp", "--exclude=/cache/", "from/", "to"])
}

#[test]
fn removes_excluded_entries_only_on_request() {
    let (home, args) = with_excluded();
    let remains = |name: &str| home.0.join("to").join(name).exists();
    let run = |more: &[&str]| home.run(&[&["copy", "--no-job", "-r"], more, &args].concat());
    run(&["--delete"]).ok();
    assert!(is_complete(&home, "to") && remains("a.tmp") && remains("cache/deep/old"));
    let dry = run(&["--delete-excluded", "-n"]).ok();
    assert!(dry.contains("a.tmp") && dry.contains("cache/deep/old"), "{dry}");
    assert!(remains("a.tmp") && remains("cache/deep/old"));
    run(&["--delete-excluded", "--max-delete", "1"]).failed(3, &["than --max-delete allows"]);
    assert!(remains("a.tmp") != remains("cache/deep/old"), "one was removed");
    run(&["--delete-excluded"]).ok();
    assert!(is_complete(&home, "to") && !remains("a.tmp") && !remains("cache"));
    assert!(home.0.join("from/cache/c").exists());
}

#[test]
fn keeps_excluded_entries_of_a_source_that_is_empty_or_inside_the_destination() {
    let (home, args) = with_excluded();
    fs::create_dir(home.0.join("empty")).expect("a folder");
    copy(&home, &["--delete-excluded", args[0], "empty/", "to"]).failed(3, &["empty"]);
    assert!(home.0.join("to/a.tmp").exists());
    source(&home, "to/source");
    copy(&home, &["--delete-excluded", "--exclude=/source/", "to/source/", "to"])
        .failed(3, &["it is a source directory, or contains or is inside one"]);
    assert!(is_complete(&home, "to/source"));
}
