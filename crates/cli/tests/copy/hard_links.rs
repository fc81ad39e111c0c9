//! Further names of files where options, faults or what is at the destination stand against them.

use crate::support::{Home, Limited, Said};
use std::fs;
use std::io::Write;
use std::time::{Duration, SystemTime};

fn copy(home: &Home, args: &[&str]) -> Said {
    home.run(&[&["copy"], args].concat())
}

/// A source in which `a` and `b/c` are one file with this content, and an empty destination.
fn linked(content: &str) -> Home {
    let home = Home::new();
    for folder in ["from/b", "to/b"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    home.file("from/a", content);
    fs::hard_link(home.0.join("from/a"), home.0.join("from/b/c")).expect("a link");
    home
}

fn content(home: &Home, name: &str) -> Option<String> {
    fs::read_to_string(home.0.join(name)).ok()
}

/// Sets when a file was changed: so many hours ago, or later.
fn set_age(home: &Home, name: &str, hours: u64) {
    let file = fs::File::options().write(true).open(home.0.join(name)).expect("a file");
    let time = SystemTime::now() - Duration::from_secs(3_600 * hours);
    file.set_modified(time).expect("a time");
}

#[test]
fn a_file_that_is_left_out_by_its_size_is_left_out_by_all_its_names() {
    for limit in ["--max-size=10", "--min-size=1K"] {
        let home = linked("twenty bytes or more");
        home.file("to/a", "other");
        home.file("to/b/c", "precious");
        copy(&home, &["-r", limit, "from/", "to/"]).ok();
        assert_eq!(content(&home, "to/a").as_deref(), Some("other"), "{limit}");
        assert_eq!(content(&home, "to/b/c").as_deref(), Some("precious"), "{limit}");
        fs::remove_file(home.0.join("to/b/c")).expect("removed");
        copy(&home, &["-r", limit, "from/", "to/"]).ok();
        assert_eq!(content(&home, "to/b/c"), None, "{limit}");
    }
}

/// It goes only where the name is made.
#[test]
fn a_folder_stays_where_no_further_name_is_made() {
    let home = linked("twenty bytes or more");
    fs::create_dir(home.0.join("to/b/c")).expect("a folder");
    home.file("to/b/c/precious", "precious");
    copy(&home, &["-r", "--delete", "--max-size=10", "from/", "to/"]).ok();
    assert!(home.0.join("to/b/c/precious").exists());
    home.file("to/a", "newer");
    set_age(&home, "from/a", 2);
    copy(&home, &["-r", "--delete", "--update", "from/", "to/"]).failed(3, &["is newer here"]);
    assert!(home.0.join("to/b/c/precious").exists());
    fs::remove_file(home.0.join("to/a")).expect("removed");
    copy(&home, &["-r", "--delete", "from/", "to/"]).ok();
    assert_eq!(content(&home, "to/b/c").as_deref(), Some("twenty bytes or more"));
}

/// The source tells that it cannot be read before anything is asked of it.
#[test]
fn a_name_of_what_could_not_be_compared_is_left_as_it_is() {
    let home = linked("content");
    home.file("to/a", "older 1");
    home.file("to/b/c", "older 2");
    // Who is root reads all.
    let script = format!(
        "chmod 0 from/a; setpriv --reuid=65534 --regid=65534 --clear-groups {} copy -r -c from/ to/; echo code $?",
        env!("CARGO_BIN_EXE_numaio")
    );
    drop(home.command("chown", &["-R", "65534:65534", "."]).limited_output());
    let output = Said::of(home.command("sh", &["-c", &script]).limited_output().expect("a shell"));
    if !output.out.contains("code 3") {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: another user, as it needs root and setpriv: {}",
            output.err
        );
        return;
    }
    assert_eq!(content(&home, "to/b/c").as_deref(), Some("older 2"), "{}", output.err);
}

#[test]
fn what_is_newer_here_stays_also_where_it_is_a_further_name_there() {
    let home = linked("of the source");
    set_age(&home, "from/a", 2);
    home.file("to/b/c", "newer work");
    copy(&home, &["-r", "--update", "from/", "to/"]).ok();
    assert_eq!(content(&home, "to/a").as_deref(), Some("of the source"));
    assert_eq!(content(&home, "to/b/c").as_deref(), Some("newer work"));
    // What the first name has here is not what the source has under the second.
    let home = linked("of the source");
    set_age(&home, "from/a", 2);
    home.file("to/a", "newer work");
    let words = "not linked: 'a' is newer here";
    copy(&home, &["-r", "--update", "from/", "to/"]).failed(3, &["b/c: ", words]);
    assert_eq!(content(&home, "to/b/c"), None);
}

#[test]
fn a_name_of_what_failed_is_left_as_it_is() {
    // Of an empty file no data comes; where a folder is in the way, none is asked for.
    for source in ["", "content"] {
        let home = linked(source);
        fs::create_dir(home.0.join("to/a")).expect("a folder");
        for there in [None, Some("older")] {
            there.iter().for_each(|older| drop(home.file("to/b/c", older)));
            let output = copy(&home, &["-r", "from/", "to/"]);
            let words = ["a: a directory with this name exists", "b/c: not linked: 'a' failed"];
            output.failed(3, &words);
            assert_eq!(content(&home, "to/b/c").as_deref(), there, "{source}");
        }
    }
}

/// A link cannot lead to another file system.
#[test]
fn a_manifest_has_no_name_that_could_not_be_made() {
    let home = linked("content");
    let script = format!(
        "mount -t tmpfs none to/b || exit 99; {} copy -r --manifest list from/ to/; echo code $?; cat list",
        env!("CARGO_BIN_EXE_numaio")
    );
    let output = home.command("unshare", &["-rm", "sh", "-c", &script]).limited_output().expect("unshare");
    let output = Said::of(output);
    if output.code == Some(99) || output.err.contains("unshare: ") {
        let _ = writeln!(std::io::stderr(), "skipped: no right to mount a small file system");
        return;
    }
    assert!(
        output.out.contains("code 3\n") && output.err.contains("b/c: "),
        "{}\n{}",
        output.out,
        output.err
    );
    let listed: Vec<&str> = output.out.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
    assert_eq!(listed, ["a"]);
}
