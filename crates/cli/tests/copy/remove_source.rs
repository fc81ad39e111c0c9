//! `--remove-source-files`: files leave the source only when their copies are complete.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Lists the files below a directory, and its directories with a slash.
fn names(root: &Path) -> Vec<String> {
    fn add(root: &Path, folder: &str, names: &mut Vec<String>) {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            names.push(if is_directory { format!("{name}/") } else { name.clone() });
            if is_directory {
                add(root, &format!("{name}/"), names);
            }
        }
    }
    let mut all = Vec::new();
    add(root, "", &mut all);
    all.sort_unstable();
    all
}

/// Creates a source with many kinds of entries.
fn source(home: &Home) {
    let _ = fs::remove_dir_all(home.0.join("src"));
    fs::create_dir_all(home.0.join("src/d/e")).expect("folders");
    (0..700).for_each(|number| drop(home.file(&format!("src/d/{number}"), "content")));
    fs::write(home.0.join("src/large"), vec![7; 5 << 20]).expect("a file");
    fs::File::create(home.0.join("src/holes")).and_then(|file| file.set_len(3 << 20)).expect("a file");
    home.file("src/empty", "");
    home.file("src/d/e/first", "linked");
    fs::hard_link(home.0.join("src/d/e/first"), home.0.join("src/second")).expect("a link");
    symlink("large", home.0.join("src/link")).expect("a link");
}

#[test]
fn removes_all_but_directories_from_any_source() {
    for (ends, options) in [
        (["src/", "to"], &["-r"][..]),
        (["src/", "to"], &["-r", "--fsync", "end"]),
        (["src/", "to"], &["-r", "--fsync", "file", "-c"]),
        (["src/", "host:to"], &["-r"]),
        (["host:src/", "to"], &["-r"]),
        (["host:src/", "host:to"], &["-r", "--tunnel"]),
        (["src/", "host:to"], &["-r", "--tunnel", "--fsync", "end"]),
    ] {
        // To a new destination, and where everything exists already.
        let home = Home::new();
        for step in ["new", "existing"] {
            source(&home);
            let all = names(&home.0.join("src"));
            home.copy_by_local_ssh(&[options, &["-n", "--remove-source-files"], &ends].concat()).ok();
            assert_eq!(names(&home.0.join("src")), all, "{ends:?} {options:?} {step}");
            home.copy_by_local_ssh(&[options, &["-q", "--remove-source-files"], &ends].concat()).ok();
            assert_eq!(names(&home.0.join("src")), ["d/", "d/e/"], "{ends:?} {options:?} {step}");
            assert_eq!(names(&home.0.join("to")), all, "{ends:?} {options:?} {step}");
        }
        assert_eq!(fs::read(home.0.join("to/large")).expect("a file"), vec![7; 5 << 20]);
    }
}

#[test]
fn keeps_what_is_not_copied() {
    let home = Home::new();
    for folder in ["src", "to", "to/blocked"] {
        fs::create_dir(home.0.join(folder)).expect("a folder");
    }
    for name in ["newer", "large", "excluded", "blocked", "linked", "moved"] {
        home.file(&format!("src/{name}"), "content of the source");
    }
    home.file("src/large", &"x".repeat(1_000));
    fs::hard_link(home.0.join("src/blocked"), home.0.join("src/linked-to-blocked")).expect("a link");
    home.file("to/newer", "newer");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(home.0.join("src/newer")).and_then(|file| file.set_modified(old)).expect("a time");
    let args = ["-ru", "--remove-source-files", "--max-size=100", "--exclude=excluded", "src/"];
    home.copy_by_local_ssh(&[&args[..], &["to"]].concat()).failed(3, &["blocked"]);
    let kept = ["blocked", "excluded", "large", "linked-to-blocked", "newer"];
    let left = names(&home.0.join("src"));
    assert_eq!(left, kept);
    assert_eq!(names(&home.0.join("to")), ["blocked/", "linked", "moved", "newer"]);
    // Without a destination, nothing is stored.
    home.copy_by_local_ssh(&["-r", "--remove-source-files", "--existing", "src/", "none"]).ok();
    assert_eq!(names(&home.0.join("src")), left);
    // Files that exist, and are not compared.
    home.file("to/excluded", "other");
    home.copy_by_local_ssh(&["-r", "--remove-source-files", "--ignore-existing", "src/excluded", "to"]).ok();
    assert!(home.0.join("src/excluded").exists());
}

#[test]
fn keeps_a_file_that_is_its_own_copy() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/f", "content");
    let words = ["'src' is source and destination"];
    for ends in [["src/", "src"], ["src/f", "src"], ["src/f", "src/f"]] {
        home.copy_by_local_ssh(&[&["-r", "--remove-source-files"], &ends[..]].concat()).failed(2, &words);
    }
    // Below other directories, the file is recognized.
    fs::create_dir(home.0.join("to")).expect("a folder");
    fs::hard_link(home.0.join("src/f"), home.0.join("to/f")).expect("a link");
    home.copy_by_local_ssh(&["-r", "--remove-source-files", "src/", "to"])
        .failed(3, &["f: not removed at the source: it is the same file as its copy"]);
    fs::remove_dir_all(home.0.join("to")).expect("removed");
    assert_eq!(fs::read_to_string(home.0.join("src/f")).expect("a file"), "content");
    // A single file under another name.
    home.copy_by_local_ssh(&["--remove-source-files", "src/f", "src/g"]).ok();
    assert_eq!(names(&home.0.join("src")), ["g"]);
    // --delete could remove copies whose sources an interrupted run has removed.
    home.copy_by_local_ssh(&["-r", "--remove-source-files", "--delete", "src/", "to"])
        .failed(2, &["cannot be used with"]);
}

#[test]
fn keeps_a_file_that_changes_after_it_was_read() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    ["a", "b"].iter().for_each(|name| {
        fs::write(home.0.join("src").join(name), vec![7; 3 << 20]).expect("a file");
    });
    // One copy is complete before the other one; both sources are removed at the end.
    let args = ["copy", "-rq", "--remove-source-files", "--fsync=end", "--bwlimit=2M", "--threads=1"];
    let mut command = home.numaio(&[&args[..], &["src/", "to"]].concat());
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("numaio");
    let first = || ["a", "b"].into_iter().find(|name| home.0.join("to").join(name).exists());
    crate::support::until(|| first().is_some(), || "no copy");
    let first = first().expect("a copy");
    home.file(&format!("src/{first}"), "changed meanwhile");
    let output = CommandOutput::of(child.wait_with_output().expect("numaio"));
    let words = format!("{first}: not removed at the source: file changed during the transfer");
    output.failed(4, &[&words]);
    assert_eq!(names(&home.0.join("src")), [first]);
    assert_eq!(fs::read(home.0.join("to").join(first)).expect("a file"), vec![7; 3 << 20]);
}

#[test]
fn keeps_what_the_source_may_not_remove() {
    if !numaio_linux::process::is_super_user() {
        return skipped("an immutable directory: needs root");
    }
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/f", "content");
    let chattr =
        |flag: &str| home.command("chattr", &[flag, "src"]).limited_status().is_ok_and(|it| it.success());
    if !chattr("+i") {
        return skipped("an immutable directory: not supported by the file system");
    }
    let outputs: Vec<CommandOutput> = [["src/", "to"], ["host:src/", "to"], ["src/", "host:to"]]
        .map(|ends| home.copy_by_local_ssh(&[&["-r", "--remove-source-files"], &ends[..]].concat()))
        .into();
    assert!(chattr("-i"));
    let words = ["f: not removed at the source: cannot remove", "not permitted"];
    outputs.into_iter().for_each(|output| output.failed(3, &words));
    assert_eq!((names(&home.0.join("src")), names(&home.0.join("to"))), (vec!["f".into()], vec!["f".into()]));
}
