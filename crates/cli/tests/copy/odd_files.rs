//! Files that change while they are read, objects that cannot be copied, and very deep directories.

use crate::slow_copy::start_slow_copy;
use crate::support::{CommandOutput, Home, Limited};
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
    let content: Vec<u8> = (0..12u32 << 20).map(|index| (index * 31 + (index >> 9)) as u8).collect();
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

/// In a tree sockets are skipped; a named one is the whole request.
#[test]
fn named_objects_that_cannot_be_copied_are_reported() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from")).expect("a folder");
    let _socket = UnixListener::bind(home.0.join("from/socket")).expect("a socket");
    home.file("from/.numaio-journal", "x");
    copy(&home, &["from/socket", "to"]).failed(3, &["socket: sockets are not copied"]);
    copy(&home, &["from/.numaio-journal", "to"]).failed(3, &["this name is reserved for numaio"]);
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
