//! `numaio copy --dry-run`: its report for local and remote endpoints, and that it changes nothing.

use crate::support::{CommandOutput, Home, Limited};
use crate::trees;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// A program in place of ssh that runs the peer on this machine.
const SSH: &str = "#!/bin/sh
[ \"$1\" = -G ] && { echo hostname 127.0.0.1; exit; }
while [ \"$1\" != -- ]; do shift; done
shift 2
exec sh -c \"$*\"
";

/// Prefixes of source and destination: both local, one of them remote, both remote.
const ENDPOINTS: [(&str, &str); 4] = [("", ""), ("", "host:"), ("host:", ""), ("one:", "two:")];

fn home() -> Home {
    let home = Home::new();
    home.script("ssh", SSH);
    home
}

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    let args = [&["copy", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    let mut command = home.numaio(&args);
    CommandOutput::of(command.env("NUMAIO_SSH", home.0.join("ssh")).limited_output().expect("numaio"))
}

/// A source, and a destination with some equal, some different and some extra files.
fn trees_that_differ(home: &Home) {
    for folder in ["src/d/e", "src/deleted"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    for (name, size) in
        [("same", 9), ("other", 70_000), ("mode", 1), ("d/large", 3 << 20), ("d/e/x", 5), ("deleted/x", 1)]
    {
        fs::write(home.0.join("src").join(name), vec![7; size]).expect("a file");
    }
    symlink("same", home.0.join("src/link")).expect("a link");
    home.file("src/twin", "one");
    fs::hard_link(home.0.join("src/twin"), home.0.join("src/twin-too")).expect("a link");
    copy(home, &["-a", "src/", "dst"]).ok();
    fs::remove_dir_all(home.0.join("src/deleted")).expect("removed");
    fs::remove_dir_all(home.0.join("dst/d/e")).expect("removed");
    home.file("src/other", "of another length");
    // Its hard link at the destination keeps the old content, unless it is recreated.
    home.file("src/twin", "another");
    fs::set_permissions(home.0.join("src/mode"), fs::Permissions::from_mode(0o604)).expect("a mode");
    symlink("other", home.0.join("src/new-link")).expect("a link");
    fs::hard_link(home.0.join("src/same"), home.0.join("src/same-too")).expect("a link");
    let hole = fs::File::create(home.0.join("src/d/hole")).expect("a file");
    hole.set_len(10 << 20).expect("a hole");
    std::os::unix::fs::FileExt::write_at(&hole, &[1; 4096], 5 << 20).expect("written");
    assert!(Command::new("mkfifo")
        .arg(home.0.join("src/d/pipe"))
        .limited_status()
        .expect("mkfifo")
        .success());
    home.file("dst/own", "its own");
    // Changes within one tick of the kernel's clock have equal times.
    for folder in ["dst", "dst/d"] {
        let folder = fs::File::open(home.0.join(folder)).expect("a folder");
        folder.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).expect("a time");
    }
}

/// Lines of a report in order, without the data after a semicolon.
fn names(text: &str) -> Vec<String> {
    sorted(text).iter().map(|line| line.split(';').next().unwrap_or_default().to_owned()).collect()
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Events of single entries in order, and the last event without its duration.
fn events(text: &str) -> (Vec<String>, Value) {
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let mut events: Vec<Value> = events.filter(|event| event["event"] != "placement").collect();
    let mut end = events.pop().expect("an end");
    end.as_object_mut().expect("fields").remove("seconds");
    let mut lines: Vec<String> =
        events.iter().filter(|event| event["event"] != "progress").map(Value::to_string).collect();
    lines.sort();
    (lines, end)
}

#[test]
fn dry_run_reports_the_same_for_all_endpoints_and_changes_nothing() {
    let home = home();
    trees_that_differ(&home);
    fs::remove_dir_all(home.0.join("state")).expect("the job of the first copy");
    let before = ["src", "dst"].map(|tree| trees::snapshot(&home.0.join(tree)));
    let expected = [
        "12 would be moved, 3 unchanged, 3 would be removed; 1 MiB of data",
        "would be attributes: .",
        "would be attributes: d",
        "would be attributes: mode",
        "would be copied: d/e/x",
        "would be copied: d/hole",
        "would be copied: other",
        "would be copied: twin",
        "would be made: d/e",
        "would be made: d/pipe",
        "would be made: new-link",
        "would be made: same-too",
        "would be made: twin-too",
        "would be removed: deleted",
        "would be removed: deleted/x",
        "would be removed: own",
    ];
    let mut expected_events = None;
    for (from, to) in ENDPOINTS {
        let (from, to) = (format!("{from}src/"), format!("{to}dst"));
        for options in ["-an", "-anv"] {
            let output = copy(&home, &[options, "--delete", &from, &to]);
            assert!(output.err.is_empty() || options.contains('v'), "{from} {to}: {}", output.err);
            assert_eq!(sorted(&output.ok()), expected, "{from} {to}");
        }
        let output = events(&copy(&home, &["-an", "--json", "--delete", &from, &to]).ok());
        assert_eq!(&output, expected_events.get_or_insert_with(|| output.clone()), "{from} {to}");
        let after = ["src", "dst"].map(|tree| trees::snapshot(&home.0.join(tree)));
        assert_eq!(before, after, "{from} {to}");
    }
    let (lines, end) = expected_events.expect("events");
    let bytes = |name: &str| {
        let name = format!("\"name\":\"{name}\"");
        let line = lines.iter().find(|line| line.contains(&name)).expect("a line");
        serde_json::from_str::<Value>(line).expect("an event")["bytes"].clone()
    };
    assert_eq!([bytes("other"), bytes("d/hole"), bytes("own")], [17, 1 << 20, 0].map(Value::from));
    assert_eq!(end["size"], 17 + 5 + 7 + (1 << 20));
    assert!(!home.0.join("state").exists(), "the dry run recorded a job");
}

#[test]
fn copy_does_what_the_dry_run_reported() {
    for (from, to) in ENDPOINTS {
        let home = home();
        trees_that_differ(&home);
        let (from, to) = (format!("{from}src/"), format!("{to}dst"));
        let planned = copy(&home, &["-an", "--delete", &from, &to]).ok();
        let actual = copy(&home, &["-av", "--delete", &from, &to]).ok();
        assert_eq!(names(&planned.replace("would be ", "")), names(&actual), "{from} {to}");
        let again = copy(&home, &["-av", "--delete", &from, &to]).ok();
        assert!(again.starts_with("0 moved, 15 unchanged; 0 B"), "{from} {to}: {again}");
    }
}

#[test]
fn dry_run_does_not_create_a_missing_destination() {
    let home = home();
    fs::create_dir_all(home.0.join("src/d")).expect("a folder");
    home.file("src/d/x", "x");
    for (from, to) in ENDPOINTS {
        let (from, to) = (format!("{from}src/"), format!("{to}dst"));
        let output = copy(&home, &["-rn", "--delete", &from, &to]).ok();
        let expected = [
            "3 would be moved, 0 unchanged; 1 B of data",
            "would be copied: d/x",
            "would be made: .",
            "would be made: d",
        ];
        assert_eq!(sorted(&output), expected, "{from} {to}");
        assert!(!home.0.join("dst").exists(), "{from} {to}");
        let actual = copy(&home, &["-rv", "--delete", &from, &to]).ok();
        assert_eq!(names(&actual), names(&output.replace("would be ", "")), "{from} {to}");
        fs::remove_dir_all(home.0.join("dst")).expect("removed");
        // A single file gets the name of the destination.
        let one = copy(&home, &["-n", &format!("{from}d/x"), &to]).ok();
        assert_eq!(sorted(&one), ["1 would be moved, 0 unchanged; 1 B of data", "would be copied: dst"]);
    }
}
