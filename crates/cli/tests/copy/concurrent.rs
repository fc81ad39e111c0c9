//! `numaio copy` to a directory where another copy was interrupted or is running.

use crate::slow_copy::start_slow_copy;
use crate::support::{Home, Limited};
use std::fs;
use std::time::{Duration, SystemTime};

/// A home with two large files and an empty destination.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir(home.0.join("to")).expect("a folder");
    fs::create_dir(home.0.join("other")).expect("a folder");
    for (name, seed) in [("one", 3), ("other/two", 7)] {
        let content: Vec<u8> =
            (0..60_usize << 20).map(|index| (index * seed + (index >> 11)) as u8).collect();
        fs::write(home.0.join(name), content).expect("a file");
    }
    home
}

fn same(home: &Home, one: &str, other: &str) {
    let read = |name: &str| fs::read(home.0.join(name)).expect("a file");
    assert!(read(one) == read(other), "{one} and {other} differ");
}

/// Temporary files of numaio that remain at the destination.
fn leftovers(home: &Home) -> Vec<String> {
    let names = fs::read_dir(home.0.join("to")).expect("a folder").flatten();
    names.filter_map(|name| name.file_name().into_string().ok()).filter(|n| n.starts_with('.')).collect()
}

/// Starts a copy to `to`, and kills it.
fn interrupt_copy(home: &Home, what: &[&str]) {
    let mut child = start_slow_copy(home, what, "to", "20M", 36 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    assert_eq!(
        leftovers(home).len(),
        if what.len() == 1 { 2 } else { 1 },
        "killed too late: the copy was complete"
    );
}

#[test]
fn resumes_after_another_copy_to_the_same_directory() {
    let home = home();
    interrupt_copy(&home, &["one"]);
    home.run(&["copy", "other/two", "to"]).ok();
    assert_eq!(leftovers(&home).len(), 2, "a journal and a partial file remain");
    let output = home.run(&["copy", "one", "to"]).ok();
    assert!(output.contains(" resumed"), "{output}");
    same(&home, "one", "to/one");
    same(&home, "other/two", "to/two");
    assert_eq!(leftovers(&home), [""; 0]);
}

#[test]
fn delete_removes_old_partial_files_and_their_journal() {
    let home = home();
    fs::create_dir(home.0.join("small")).expect("a folder");
    let delete = || home.run(&["copy", "-r", "--delete", "--allow-empty-source", "small/", "to"]).ok();
    interrupt_copy(&home, &["one"]);
    delete();
    assert_eq!(leftovers(&home).len(), 2, "the partial file may be in use");
    let output = home.run(&["copy", "one", "to"]).ok();
    assert!(output.contains(" resumed"), "{output}");
    fs::remove_file(home.0.join("to/one")).expect("removed");
    interrupt_copy(&home, &["one"]);
    let part = leftovers(&home).into_iter().find(|name| name.contains("part")).expect("a partial file");
    let file = fs::File::options().write(true).open(home.0.join("to").join(part)).expect("a file");
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("an old file");
    delete();
    assert_eq!(leftovers(&home), [""; 0]);
}

#[test]
fn delete_keeps_partial_files_in_excluded_directories() {
    let home = home();
    fs::create_dir(home.0.join("small")).expect("a folder");
    interrupt_copy(&home, &["-r", "other"]);
    home.run(&["copy", "-r", "--delete", "--allow-empty-source", "--exclude", "/other/", "small/", "to"])
        .ok();
    let output = home.run(&["copy", "-r", "other", "to"]).ok();
    assert!(output.contains(" resumed"), "{output}");
    same(&home, "other/two", "to/other/two");
}

#[test]
fn removes_the_partial_file_of_a_name_that_is_now_a_directory() {
    let home = home();
    interrupt_copy(&home, &["one"]);
    fs::rename(home.0.join("one"), home.0.join("other/one")).expect("renamed");
    fs::create_dir(home.0.join("one")).expect("a folder");
    home.run(&["copy", "-r", "one", "to"]).ok();
    assert!(home.0.join("to/one").is_dir());
    assert_eq!(leftovers(&home), [""; 0]);
}

#[test]
fn does_not_write_to_hard_links_of_partial_files() {
    for with_part in [false, true] {
        let home = home();
        interrupt_copy(&home, &["one"]);
        let mut names = leftovers(&home);
        names.retain(|name| with_part || name.ends_with("-journal"));
        let read = |folder: &str| -> Vec<Vec<u8>> {
            names.iter().map(|name| fs::read(home.0.join(folder).join(name)).expect("a file")).collect()
        };
        let before = read("to");
        fs::create_dir(home.0.join("backup")).expect("a folder");
        for name in &names {
            fs::hard_link(home.0.join("to").join(name), home.0.join("backup").join(name)).expect("a link");
        }
        let output = home.run(&["copy", "one", "to"]).ok();
        assert_eq!(output.contains(" resumed"), !with_part, "{output}");
        assert!(read("backup") == before, "the backup was changed");
        same(&home, "one", "to/one");
        assert_eq!(leftovers(&home), [""; 0]);
    }
}

#[test]
fn delete_keeps_recent_partial_files_of_other_copies() {
    let home = home();
    fs::create_dir(home.0.join("small")).expect("a folder");
    let delete = || home.run(&["copy", "-rv", "--delete", "--allow-empty-source", "small/", "to"]).ok();
    let mut child = start_slow_copy(&home, &["one"], "to", "10M", 12 << 20);
    delete();
    assert!(child.limited_status().expect("ended").success(), "its partial file was deleted");
    same(&home, "one", "to/one");
    // No process writes to it.
    let part = home.0.join("to/.numaio-part-0123456789abcdef0123456789abcdef");
    let old = fs::File::create(&part).expect("a file");
    delete();
    assert!(part.exists());
    old.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("an old file");
    let output = delete();
    assert!(!output.contains(".numaio"), "{output}");
    assert_eq!(leftovers(&home), [""; 0]);
}
