//! Rate-limited copies that a test can interrupt.

use crate::support::{until, Home};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// Starts a copy of `args` to `to` at `rate`, and waits until `to` contains `bytes` bytes.
pub fn start_slow_copy(home: &Home, args: &[&str], to: &str, rate: &str, bytes: u64) -> Child {
    let mut command = home.numaio(&[&["copy", "--bwlimit", rate], args, &[to]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
    until(|| written(&home.0.join(to)) >= bytes, || "the copy wrote too little");
    child
}

/// Allocated bytes of all files below a directory.
fn written(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let each = entries.filter_map(|entry| entry.metadata().ok().map(|found| (entry.path(), found)));
    each.map(|(path, found)| if found.is_dir() { written(&path) } else { found.blocks() * 512 }).sum()
}
