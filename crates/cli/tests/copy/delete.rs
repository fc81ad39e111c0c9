//! What `numaio copy --delete` must keep.

use crate::support::{CommandOutput, Home};
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
