//! The end of a copy in which too many files fail.

use crate::support::{CommandOutput, Home};
use serde_json::Value;
use std::fs;

/// A source with a file that takes seconds, and four that fail, because directories have their
/// names at the destination.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    fs::write(home.0.join("from/large"), vec![7; 8 << 20]).expect("a file");
    for name in ["a", "b", "c", "d"] {
        home.file(&format!("from/{name}"), name);
        fs::create_dir_all(home.0.join("to").join(name).join("blocks")).expect("folders");
    }
    home
}

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.copy_by_local_ssh(&[&["-r", "--bwlimit", "1M"], args].concat())
}

#[test]
fn copy_ends_after_a_number_of_failed_files() {
    for (from, to) in [("from/", "to"), ("from/", "host:to"), ("host:from/", "to"), ("one:from/", "two:to")] {
        let home = home();
        let output = copy(&home, &["--json", "--max-errors", "2", from, to]);
        let events: Vec<Value> =
            output.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        let end = events.last().expect("an end");
        let failed = end["failed"].as_u64().expect("a number");
        assert!(end["done"] == false && (2..=4).contains(&failed), "{from} {to}: {end}");
        let words = format!("the number of failed files has reached --max-errors: {failed}");
        output.failed(1, &[&words, "hint: run the same command again to resume"]);
        assert!(!home.0.join("to/large").exists(), "{from} {to}");
        for name in ["a", "b", "c", "d"] {
            fs::remove_dir_all(home.0.join("to").join(name)).expect("removed");
        }
        home.copy_by_local_ssh(&["-r", "--max-errors", "1", from, to]).ok();
        assert_eq!(fs::read_to_string(home.0.join("to/d")).ok().as_deref(), Some("d"));
    }
}

#[test]
fn fewer_failed_files_end_no_copy() {
    let home = home();
    home.run(&["copy", "-r", "--max-errors", "5", "from/", "to"]).failed(3, &[]);
    assert!(home.0.join("to/large").exists());
    home.run(&["copy", "-r", "--max-errors", "0", "from/", "to"]).failed(2, &["--max-errors"]);
}
