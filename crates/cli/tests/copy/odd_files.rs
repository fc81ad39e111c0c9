//! Files that change while they are read, objects that cannot be copied, and very deep directories.

use crate::slow_copy::start_slow_copy;
use crate::support::{content, CommandOutput, Home, Limited};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy", "--no-job"], args].concat())
}

/// A log is always written to; the copy has what it contained at the start.
#[test]
fn active_files_are_copied_as_they_were_read() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from")).expect("a folder");
    fs::create_dir_all(home.0.join("to")).expect("a folder");
    let content = content(12 << 20, 1);
    fs::write(home.0.join("from/log"), &content).expect("a file");
    for (how, code, arrives) in [("fail", 4, false), ("copy", 4, true)] {
        let args = ["-r", "--active-files", how, "from/"];
        let mut child = start_slow_copy(&home, &args, "to", "6M", 3 << 20);
        let mut log = fs::File::options().append(true).open(home.0.join("from/log")).expect("a file");
        log.write_all(b"another line\n").expect("written");
        assert_eq!(child.limited_status().expect("ended").code(), Some(code), "{how}");
        let size = content.len() + if arrives { 13 } else { 0 };
        let there = fs::read(home.0.join("to/log")).ok();
        assert_eq!(there.is_some(), arrives, "{how}");
        assert!(there.is_none_or(|there| there.len() == size && there[..content.len()] == content), "{how}");
    }
    // The time differs, so that the next run copies the rest.
    copy(&home, &["-r", "from/", "to"]).ok();
    assert!(fs::read(home.0.join("to/log")).ok() == fs::read(home.0.join("from/log")).ok());
}

/// As logs are when they are rotated: they are reported once, and copied up to the new end.
#[test]
fn truncated_files_are_copied_up_to_their_end() {
    for end in [(7 << 20) + 3, 1 << 20, 0] {
        let home = Home::new();
        ["from", "to"].iter().for_each(|name| fs::create_dir(home.0.join(name)).expect("a folder"));
        let content = content(12 << 20, 1);
        fs::write(home.0.join("from/log"), &content).expect("a file");
        let args = ["-r", "--active-files", "copy", "--log-file", "report", "from/"];
        let mut child = start_slow_copy(&home, &args, "to", "6M", 3 << 20);
        let log = fs::File::options().write(true).open(home.0.join("from/log")).expect("a file");
        log.set_len(end as u64).expect("truncated");
        let status = child.limited_status().expect("ended");
        let report = fs::read_to_string(home.0.join("report")).expect("a report");
        assert_eq!((status.code(), report.matches("numaio: log: ").count()), (Some(4), 1), "{report}");
        let there = fs::read(home.0.join("to/log")).expect("a copy");
        assert!(there == content[..end], "{} of {end} bytes", there.len());
    }
}

/// In a tree sockets are skipped; a named one is the whole request.
#[test]
fn named_objects_that_cannot_be_copied_are_reported() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from")).expect("a folder");
    let _socket = UnixListener::bind(home.0.join("from/socket")).expect("a socket");
    home.file("from/.numaio-journal-0123456789abcdef", "x");
    copy(&home, &["from/socket", "to"]).failed(3, &["socket: sockets are not copied"]);
    copy(&home, &["from/.numaio-journal-0123456789abcdef", "to"])
        .failed(3, &["this name is reserved for numaio"]);
    copy(&home, &["-r", "from/", "to"]).ok();
    assert_eq!(fs::read_dir(home.0.join("to")).expect("a folder").count(), 0);
}

/// A path has at most 4,095 bytes; deeper objects are removed with their directory.
#[test]
fn deletes_directories_deeper_than_a_path() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from")).expect("a folder");
    fs::create_dir_all(home.0.join("to/extra")).expect("a folder");
    home.file("from/file", "x");
    let script = "cd to/extra; for i in $(seq 30); do d=$(printf 'd%.0s' $(seq 200)); mkdir $d; cd -P $d; done; : >file";
    let made = home.command("sh", &["-c", script]).limited_status().expect("a shell").success();
    assert!(made);
    copy(&home, &["-r", "from/", "to", "--delete"]).ok();
    assert!(!home.0.join("to/extra").exists() && home.0.join("to/file").exists());
}

/// scp and cp copy the target of a named link; -r and -a keep links, as those of rsync.
#[test]
fn named_links_are_followed_without_recursion() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from/to-directory-target")).expect("a folder");
    fs::create_dir_all(home.0.join("to")).expect("a folder");
    home.file("from/archive-1.2.tar.gz", "content");
    let link =
        |target: &str, name: &str| std::os::unix::fs::symlink(target, home.0.join(name)).expect("a link");
    link("archive-1.2.tar.gz", "from/link.tar.gz");
    link("nowhere", "from/dangling");
    link("to-directory-target", "from/directory");
    copy(&home, &["from/link.tar.gz", "to"]).ok();
    let kept = |name: &str| fs::symlink_metadata(home.0.join(name)).expect("a file").is_symlink();
    assert_eq!(fs::read_to_string(home.0.join("to/link.tar.gz")).expect("a file"), "content");
    assert!(!kept("to/link.tar.gz"));
    copy(&home, &["from/link.tar.gz", "to/renamed"]).ok();
    assert!(!kept("to/renamed"));
    copy(&home, &["from/dangling", "to"]).failed(3, &["the target of this symbolic link does not exist"]);
    copy(&home, &["from/directory", "to"]).failed(3, &["is a directory: use -r or -a to copy it"]);
    for options in [&["-l"][..], &["-r"], &["-a"]] {
        let _ = fs::remove_file(home.0.join("to/link.tar.gz"));
        copy(&home, &[options, &["from/link.tar.gz", "from/dangling", "to"]].concat()).ok();
        assert!(kept("to/link.tar.gz") && kept("to/dangling"), "{options:?}");
    }
    let script = "\"$NUMAIO\" copy --no-job /dev/fd/5 to/f 5<fifo & : >fifo; wait $!";
    assert!(home.command("mkfifo", &["fifo"]).limited_status().expect("mkfifo").success());
    let mut command = home.command("bash", &["-c", script]);
    let output = command.env("NUMAIO", env!("CARGO_BIN_EXE_numaio")).limited_output().expect("a shell");
    CommandOutput::of(output).failed(3, &["is not a regular file"]);
}
