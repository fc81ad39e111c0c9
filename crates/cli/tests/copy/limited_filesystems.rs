//! `numaio copy` to file systems that lack abilities of local ones, as stores of objects do.

use crate::slow_copy::start_slow_copy;
use crate::support::{content, kill, skipped, until, with_children, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A FUSE file system over a directory; its text lists what it can lack.
const SERVER: &str = include_str!("limited_filesystem.py");

/// A mounted file system: `mounted`, over `stored`.
struct LimitedVolume {
    server: Child,
    path: PathBuf,
}

impl LimitedVolume {
    /// `None`, after reporting why, where FUSE cannot be mounted.
    fn mount(home: &Home, lacks: &[&str]) -> Option<Self> {
        let path = home.0.join("mounted");
        for folder in ["mounted", "stored"] {
            fs::create_dir_all(home.0.join(folder)).expect("a folder");
        }
        let log = home.0.join("mounted.log");
        let mut command = Command::new("python3");
        command.arg(home.file("server.py", SERVER)).arg(home.path("stored")).arg(home.path("mounted"));
        command.args(lacks).stdin(Stdio::null()).stdout(fs::File::create(&log).expect("a log"));
        let mut server = command.stderr(Stdio::null()).spawn().expect("python3");
        let has_ended = std::cell::RefCell::new(&mut server);
        until(
            || {
                fs::read_to_string(&log).unwrap_or_default().contains("mounted")
                    || has_ended.borrow_mut().try_wait().expect("a child").is_some()
            },
            || "the FUSE server does not start",
        );
        if server.try_wait().expect("a child").is_some() {
            skipped("FUSE: cannot be mounted");
            return None;
        }
        Some(Self { server, path })
    }
}

impl Drop for LimitedVolume {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l".as_ref(), self.path.as_os_str()]).limited_status();
        let _ = self.server.kill();
        let _ = self.server.limited_status();
    }
}

const ORDER: &str = "accepts data in order only";
const RENAMES: &str = "destination does not rename files";

/// A home with files of all kinds of sizes.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from/below")).expect("a folder");
    for (name, length) in [("empty", 0), ("one", 1), ("block", 1 << 20), ("below/large", (5 << 20) + 3)] {
        fs::write(home.0.join("from").join(name), content(length, 7)).expect("a file");
    }
    let sparse = fs::File::create(home.0.join("from/sparse")).expect("a file");
    sparse.write_all_at(b"middle", (3 << 20) + 5).expect("written");
    sparse.write_all_at(b"end", 6 << 20).expect("written");
    sparse.set_len((7 << 20) + 9).expect("a size");
    home
}

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.copy_by_local_ssh(&[&["--no-job"], args].concat())
}

/// Checks that a directory has exactly the source's files.
fn is_copied(home: &Home, to: &str) {
    let differs = home.command("diff", &["-r", "from", to]).limited_output().expect("diff");
    assert!(differs.status.success(), "{}", String::from_utf8_lossy(&differs.stdout));
}

/// Checks that all temporary files that stay are named in the output, and removes them.
fn remove_named_files(home: &Home, output: &str) {
    for entry in fs::read_dir(home.0.join("stored")).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        if name.starts_with(".numaio") {
            assert!(output.contains(&name), "{name} is not named: {output}");
            fs::remove_file(entry.path()).expect("removed");
        }
    }
}

#[test]
fn files_are_written_in_order_where_other_writes_are_refused() {
    let cases: [&[&str]; 5] = [
        &["offsets"],
        &["offsets", "renames"],
        &["offsets", "sizes", "times", "modes"],
        &["offsets", "replacing"],
        &["offsets", "locks", "inodes"],
    ];
    for lacks in cases {
        let home = home();
        let Some(_volume) = LimitedVolume::mount(&home, lacks) else { return };
        let is_in_place = lacks.contains(&"renames");
        let again = |to: &str, options: &[&str]| {
            let output =
                copy(&home, &[options, &["-r", "--delete", "--hash=blake3", "-i", "from/", to]].concat());
            assert_eq!(output.code, Some(0), "{lacks:?}: {}", output.err);
            assert_eq!(output.err.matches(ORDER).count(), 1, "{}", output.err);
            let is_reported = is_in_place && options.is_empty();
            assert_eq!(output.err.matches(RENAMES).count(), usize::from(is_reported), "{}", output.err);
            is_copied(&home, "stored");
            output.out
        };
        again("mounted", &[]);
        let second = again("mounted", &[]);
        assert!(!second.contains(">f"), "{lacks:?} copies again: {second}");
        fs::write(home.0.join("from/block"), content((2 << 20) + 1, 5)).expect("a file");
        fs::remove_file(home.0.join("from/one")).expect("removed");
        let far = format!("host:{}", home.path("mounted"));
        let third = again(&far, if is_in_place { &["--inplace"] } else { &[] });
        assert_eq!(third.matches(">f").count() + third.matches("<f").count(), 1, "{lacks:?}: {third}");
    }
}

#[test]
fn pulls_and_tunnels_write_in_order_too() {
    let home = home();
    let Some(_volume) = LimitedVolume::mount(&home, &["offsets"]) else { return };
    for (options, from, to) in [
        (&["--tunnel"][..], format!("host:{}/", home.path("from")), "mounted".to_owned()),
        (&["--compress=zstd"], format!("host:{}/", home.path("from")), "mounted".to_owned()),
        (&["--streams=4", "--mode=stripe"], "from/".to_owned(), format!("host:{}", home.path("mounted"))),
    ] {
        let output = copy(&home, &[&["-rI", "--delete"], options, &[&from, &to]].concat());
        assert_eq!(output.code, Some(0), "{options:?}: {}", output.err);
        assert_eq!(output.err.matches(ORDER).count(), 1, "{}", output.err);
        is_copied(&home, "stored");
    }
}

/// Mountpoint for S3 by default: nothing but new files.
#[test]
fn store_of_new_objects_is_filled_once() {
    let home = home();
    let lacks = ["offsets", "renames", "removal", "times", "modes"];
    let Some(_volume) = LimitedVolume::mount(&home, &lacks) else { return };
    let first = copy(&home, &["-r", "from/", "mounted"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    remove_named_files(&home, &first.err);
    is_copied(&home, "stored");
    let second = copy(&home, &["-ri", "from/", "mounted"]);
    assert_eq!(second.code, Some(0), "{}", second.err);
    assert!(!second.out.contains(">f"), "{}", second.out);
}

#[test]
fn killed_copy_in_order_starts_again() {
    let home = home();
    let Some(_volume) = LimitedVolume::mount(&home, &["offsets"]) else { return };
    fs::write(home.0.join("from/below/large"), content(30 << 20, 3)).expect("a file");
    let mut child = start_slow_copy(&home, &["from/below/large"], "mounted", "10M", 12 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    assert!(!home.0.join("stored/large").exists());
    let output = copy(&home, &["-r", "--delete", "from/", "mounted"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let names = fs::read_dir(home.0.join("stored")).expect("a folder").flatten();
    let journals = names.filter(|name| name.file_name().to_string_lossy().contains("-journal"));
    assert_eq!(journals.count(), 0);
    let read = |name: &str| fs::read(home.0.join(name)).expect("a file");
    assert!(read("from/below/large") == read("stored/below/large"));
}

#[test]
fn interrupted_copy_in_order_removes_its_partial_files() {
    let home = home();
    let Some(_volume) = LimitedVolume::mount(&home, &["offsets"]) else { return };
    fs::write(home.0.join("large"), content(30 << 20, 3)).expect("a file");
    let mut child = start_slow_copy(&home, &["large"], "mounted", "10M", 12 << 20);
    for process in with_children(child.id()) {
        kill("-INT", process);
    }
    assert_eq!(child.limited_status().expect("ended").code(), Some(130));
    assert_eq!(fs::read_dir(home.0.join("stored")).expect("a folder").count(), 0);
}

/// The destination takes random writes: only the renames are missing. An existing file is replaced
/// with `--inplace` only, which proves that it is not the source.
#[test]
fn files_get_their_names_at_once_without_renames() {
    for lacks in [&["renames"][..], &["renames", "removal"], &["replacing"]] {
        let home = home();
        let Some(_volume) = LimitedVolume::mount(&home, lacks) else { return };
        for round in 0..2 {
            fs::write(home.0.join("from/block"), content((2 << 20) + round, 5)).expect("a file");
            let mut output = copy(&home, &["-r", "from/", "mounted"]);
            let is_in_place = lacks.contains(&"renames");
            assert_eq!(output.err.matches(RENAMES).count(), usize::from(is_in_place), "{}", output.err);
            if is_in_place && round > 0 {
                assert_eq!(output.code, Some(3), "{lacks:?}: {}", output.err);
                assert!(output.err.contains("block: it exists, and its file system does not rename files"));
                let old = fs::read(home.0.join("stored/block")).expect("a file");
                assert!(old == content(2 << 20, 5));
                let refused = output.err;
                output = copy(&home, &["-r", "--inplace", "from/", "mounted"]);
                output.err += &refused;
            }
            assert_eq!(output.code, Some(0), "{lacks:?}: {}", output.err);
            assert!(!output.err.contains(ORDER), "{}", output.err);
            remove_named_files(&home, &output.err);
            is_copied(&home, "stored");
        }
    }
}

#[test]
fn journal_is_locked_where_inode_numbers_change() {
    let home = home();
    let Some(_volume) = LimitedVolume::mount(&home, &["inodes"]) else { return };
    fs::write(home.0.join("large"), content(40 << 20, 3)).expect("a file");
    let mut child = start_slow_copy(&home, &["large"], "mounted", "20M", 24 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    let output = copy(&home, &["large", "mounted"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(
        output.out.contains(" resumed") && !output.err.contains("in use"),
        "{}{}",
        output.out,
        output.err
    );
    assert_eq!(fs::read_dir(home.0.join("stored")).expect("a folder").count(), 1);
}

#[test]
fn missing_locks_are_reported_once_and_leave_no_journal() {
    let home = home();
    let Some(_volume) = LimitedVolume::mount(&home, &["locks"]) else { return };
    for _ in 0..2 {
        let output = copy(&home, &["-rI", "from/", "mounted"]);
        assert_eq!(output.code, Some(0), "{}", output.err);
        let text = "an interrupted run cannot be resumed: the file system of the destination has no locks";
        assert_eq!(output.err.matches(text).count(), 1, "{}", output.err);
        is_copied(&home, "stored");
    }
}

#[test]
fn directory_that_is_copied_into_itself_by_ssh_does_not_grow_without_end() {
    for to in ["from/below/inner", "from/below"] {
        let home = home();
        let far = format!("host:{}", home.path(to));
        let output = copy(&home, &["-r", "from/", &far]);
        assert_eq!(output.code, Some(3), "{to}: {}", output.err);
        assert!(output.err.contains("cannot be copied into itself"), "{}", output.err);
        let pulled = copy(&home, &["-r", &format!("host:{}/", home.path("from")), to]);
        assert_eq!(pulled.code, Some(3), "{to}: {}", pulled.err);
        let copies = home.command("find", &["from", "-name", "block"]).limited_output().expect("find");
        assert_eq!(String::from_utf8_lossy(&copies.stdout).lines().count(), 2, "{to}");
    }
}

/// All files are the same: nothing is copied, and nothing refused.
#[test]
fn directory_that_is_copied_onto_itself_by_ssh_does_not_change() {
    let home = home();
    let here = home.path("from");
    for (from, to) in [("from/".to_owned(), format!("host:{here}")), (format!("host:{here}/"), here.clone())]
    {
        let output = copy(&home, &["-r", &from, &to]);
        assert_eq!(output.code, Some(0), "{}", output.err);
        assert!(output.out.contains("0 moved"), "{}", output.out);
    }
}
