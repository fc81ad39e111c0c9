//! Every file that the program writes or trusts is opened by `linux::user_files`.

use crate::tree::{assert_none, crates, relative, rust_files, shipped};

/// The module, which resolves a path without symbolic links of other users.
const MODULE: &str = "crates/linux/src/user_files/";

/// Folders and files with another rule.
const EXCEPTIONS: [(&str, &str); 9] = [
    ("crates/mover-linux/", "files of a transfer: below descriptors of its roots"),
    ("crates/linux/src/root/", "files of /sys and /proc: below a descriptor of their root"),
    (
        "crates/linux/src/io/claim.rs",
        "targets of a benchmark: created with O_EXCL, or devices that it claims",
    ),
    ("crates/linux/src/io/disk_facts.rs", "devices, to query them"),
    ("crates/linux/src/child_group.rs", "/dev/tty"),
    ("crates/linux/src/interrupt.rs", "/dev/null"),
    ("crates/linux/src/cuda/driver.rs", "devices of /dev that only root creates"),
    ("crates/transfer/src/daemon/local_users.rs", "a socket in the daemon's own directory"),
    ("crates/sim/src/write.rs", "the tree of a simulated machine"),
];

/// Functions that open, create, change or remove a file by its name.
const OPENERS: [&str; 24] = [
    "File::create",
    "File::open",
    "File::options",
    "OpenOptions",
    "DirBuilder",
    "fs::write(",
    "fs::read(",
    "fs::read_to_string",
    "fs::copy(",
    "fs::rename",
    "fs::hard_link",
    "fs::soft_link",
    "fs::symlink(",
    "fs::create_dir",
    "fs::remove_file",
    "fs::remove_dir",
    "fs::set_permissions",
    "fs::chown",
    "fs::open(",
    "fs::openat",
    "fs::unlink",
    "fs::mkdir",
    "fs::chmod",
    "generate_to(",
];

/// Returns whether a line calls one of [`OPENERS`], not `LogFile::open`.
fn has_opener(line: &str) -> bool {
    let is_call = |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    OPENERS.iter().any(|opener| line.match_indices(opener).any(|(at, _)| is_call(at)))
}

#[test]
fn only_user_files_opens_files() {
    let mut found = Vec::new();
    for (path, text) in crates().iter().flat_map(|(_, dir)| rust_files(&dir.join("src"))) {
        let name = relative(&path);
        if name.starts_with(MODULE) || EXCEPTIONS.iter().any(|(allowed, _)| name.starts_with(allowed)) {
            continue;
        }
        let lines = shipped(&path, &text).filter(|(_, line)| has_opener(line));
        found.extend(
            lines.map(|(number, line)| format!("{name}:{number}: {} (use linux::user_files)", line.trim())),
        );
    }
    assert_none(found);
}

#[test]
fn every_exception_is_needed() {
    let opens = |allowed: &str| {
        crates().iter().flat_map(|(_, dir)| rust_files(&dir.join("src"))).any(|(path, text)| {
            relative(&path).starts_with(allowed) && shipped(&path, &text).any(|(_, line)| has_opener(line))
        })
    };
    let idle = EXCEPTIONS.iter().filter(|(allowed, _)| !opens(allowed));
    assert_none(idle.map(|(allowed, _)| format!("{allowed} opens no file: remove its exception")).collect());
}
