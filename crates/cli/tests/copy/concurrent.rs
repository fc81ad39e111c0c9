//! `numaio copy` to a directory where another copy was interrupted or is running.

use crate::slow_copy::start_slow_copy;
use crate::support::{content, Home, Limited};
use std::fs;
use std::time::{Duration, SystemTime};

/// A home with two large files and an empty destination.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir(home.0.join("to")).expect("a folder");
    fs::create_dir(home.0.join("other")).expect("a folder");
    for (name, seed) in [("one", 3), ("other/two", 7)] {
        fs::write(home.0.join(name), content(60 << 20, seed)).expect("a file");
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
        names.retain(|name| with_part || name.contains("-journal"));
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

/// Each run has a journal of its own, so that none takes over the partial files of another.
#[test]
fn interrupted_copies_that_ran_at_once_all_resume() {
    let home = home();
    let runs = [&["one"][..], &["other/two"]];
    let mut running: Vec<_> =
        runs.iter().map(|what| start_slow_copy(&home, what, "to", "20M", 36 << 20)).collect();
    crate::support::until(
        || leftovers(&home).iter().filter(|name| name.contains("-part-")).count() == 2,
        || "no second copy",
    );
    for child in &mut running {
        std::thread::sleep(Duration::from_millis(500));
        child.kill().expect("killed");
        child.limited_status().expect("ended");
    }
    let journals = leftovers(&home).iter().filter(|name| name.contains("-journal-")).count();
    assert_eq!(journals, 2, "{:?}", leftovers(&home));
    for what in runs {
        let output = home.run(&[&["copy"], what, &["to"]].concat()).ok();
        assert!(output.contains(" resumed"), "{what:?}: {output}");
    }
    same(&home, "one", "to/one");
    same(&home, "other/two", "to/two");
    assert_eq!(leftovers(&home), [""; 0]);
}

/// All of them create the same parent directories, links and pipes.
#[test]
fn copies_of_many_lists_to_one_directory_do_not_disturb_each_other() {
    const RUNS: usize = 6;
    let home = Home::new();
    for round in 0..4 {
        for directory in 0..40 {
            let below = home.0.join(format!("from{round}/{directory}/deep/er"));
            fs::create_dir_all(&below).expect("a folder");
            std::os::unix::fs::symlink("x", below.join("link")).expect("a link");
            (0..RUNS).for_each(|run| fs::write(below.join(run.to_string()), "x").expect("a file"));
        }
        for run in 0..RUNS {
            let names =
                (0..40).map(|directory| format!("{directory}/deep/er/{run}\n{directory}/deep/er/link\n"));
            home.file(&format!("list{run}"), &names.collect::<String>());
        }
        let (from, to) = (format!("from{round}/"), format!("to{round}"));
        let copy = |run: usize| {
            let list = format!("list{run}");
            home.numaio(&["copy", "--no-job", "-a", "--files-from", &list, &from, &to])
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("numaio")
        };
        fs::create_dir(home.0.join(&to)).expect("a folder");
        let mut running: Vec<_> = (0..RUNS).map(copy).collect();
        for child in &mut running {
            assert!(child.limited_status().expect("ended").success(), "round {round}");
        }
        let differs =
            home.command("diff", &["-r", "--no-dereference", &from, &to]).limited_output().expect("diff");
        assert!(
            differs.status.success() && differs.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&differs.stdout)
        );
    }
}

#[test]
fn reports_a_journal_that_prevents_resuming() {
    let home = home();
    let journal = {
        interrupt_copy(&home, &["one"]);
        let all = leftovers(&home);
        all.into_iter().find(|name| name.contains("-journal-")).expect("a journal")
    };
    fs::remove_file(home.0.join("to").join(&journal)).expect("removed");
    assert!(home.command("mkfifo", &[&format!("to/{journal}")]).limited_status().expect("mkfifo").success());
    let output = home.run(&["copy", "one", "to"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("cannot be resumed: journal belongs to another user"), "{}", output.err);
    same(&home, "one", "to/one");
}

/// A byte of a partial file may change between two runs: a bad disk, or another program.
#[test]
fn damaged_partial_file_is_repaired_when_it_is_resumed() {
    let home = home();
    interrupt_copy(&home, &["one"]);
    let part = leftovers(&home).into_iter().find(|name| name.contains("-part-")).expect("a partial file");
    let at = home.0.join("to").join(part);
    let modified = fs::metadata(&at).and_then(|found| found.modified()).expect("a time");
    let file = fs::File::options().read(true).write(true).open(&at).expect("a file");
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 5_000_000).expect("a byte");
    std::os::unix::fs::FileExt::write_all_at(&file, &[byte[0] ^ 1], 5_000_000).expect("written");
    file.set_modified(modified).expect("a time");
    let output = home.run(&["copy", "one", "to"]).ok();
    assert!(output.contains(" resumed"), "{output}");
    same(&home, "one", "to/one");
}
