//! What `numaio copy --delete` does not remove.

use crate::support::{Home, Said};
use std::fs;

fn copy(home: &Home, args: &[&str]) -> Said {
    home.run(&[&["copy", "--no-job", "-r", "--delete"], args].concat())
}

/// A source with a file and a folder of its own name.
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
fn a_source_in_the_place_of_a_file_stays() {
    let home = Home::new();
    source(&home, "to/app");
    copy(&home, &["to/app/", "to"]).failed(3, &["a directory with this name exists"]);
    assert!(is_complete(&home, "to/app"));
}

/// What is read as `app/x` is at the destination as `x`, and `app` is among what is read, too.
#[test]
fn a_source_with_a_folder_of_its_own_name_stays() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("to/app/app")).expect("folders");
    home.file("to/app/large", "is not moved");
    home.file("to/app/app/x", "x");
    copy(&home, &["--max-size", "5", "to/app/", "to"]).failed(3, &["app/large", "it lies in the source"]);
    assert!(home.0.join("to/app/large").exists() && home.0.join("to/app/app/x").exists());
    assert_eq!(fs::read_to_string(home.0.join("to/app/x")).unwrap_or_default(), "x");
}

/// It is part of the source, and read as such later.
#[test]
fn a_folder_of_the_source_is_not_cleared_away_for_a_file() {
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

/// Nothing is told of it where a rule says so.
#[test]
fn a_source_that_a_rule_leaves_out_stays() {
    let home = Home::new();
    source(&home, "to/source");
    copy(&home, &["--exclude=/source/", "to/source/", "to"]).ok();
    assert!(is_complete(&home, "to/source") && is_complete(&home, "to"));
}

#[test]
fn a_source_at_the_destination_stays_with_what_holds_it() {
    for dry in [&["-n"][..], &[]] {
        for at in ["to/source", "to/deep/er/source"] {
            let home = Home::new();
            source(&home, at);
            home.file("to/old", "old");
            let from = format!("{at}/");
            copy(&home, &[dry, &[&from, "to"]].concat())
                .failed(3, &["it lies in the source, is it or holds it"]);
            assert!(is_complete(&home, at), "{at}");
            assert_eq!(home.0.join("to/old").exists(), !dry.is_empty(), "{at}");
            assert_eq!(is_complete(&home, "to"), dry.is_empty(), "{at}");
        }
    }
}

/// Without a wish to remove it, or with a rule; told by a rehearsal, too.
#[test]
fn a_folder_in_the_place_of_a_further_name_is_told() {
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
