//! Copies that take long.

use super::support::{until, Home};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};

/// Starts a copy of `args` to a folder at so much a second, and waits until there are so many bytes in it.
pub fn slow(home: &Home, args: &[&str], to: &str, rate: &str, bytes: u64) -> Child {
    let mut command = home.command_by(&[], &[&["copy", "--bwlimit", rate], args, &[to]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
    let written = || {
        let entries = fs::read_dir(home.0.join(to)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * 512).sum::<u64>()
    };
    until(|| written() >= bytes, || "so much is written");
    child
}
