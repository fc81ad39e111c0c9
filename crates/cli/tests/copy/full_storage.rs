//! A tree of small files and a large one, copied to storage with room for half of it.

use crate::support::{content, CommandOutput, Home};
use std::fs;
use std::io::Write;

/// Copies to `dst`, which `$1` mounts, checks its files, enlarges it by `$2`, and copies again. The
/// large file exceeds the total space, so it always fails; which others fail depends on the write
/// order.
const FILL: &str = "
count() { find dst -type f \"$@\" | wc -l; }
$NUMAIO copy -a --json src/ dst >events; echo code $?
(cd dst && find . -type f ! -name '.numaio*' -exec cmp {} ../src/{} ';') && echo complete
echo leftovers $(count -name '.numaio*') large $(count -name large) finished $(count ! -name '.numaio*')
eval \"$2\" || exit 99
$NUMAIO copy -a --json src/ dst >again; echo code $?
diff -r -x lost+found src dst && echo same
echo leftovers $(count -name '.numaio*')
";

/// Runs the script with these shell commands; None without permission to mount.
fn fill(home: &Home, mount: &str, enlarge: &str) -> Option<CommandOutput> {
    let script = format!("eval \"$1\" || exit 99\n{FILL}");
    home.run_unshared("-m", &[&script, "sh", mount, enlarge])
}

/// The last event of a run.
fn end(home: &Home, events: &str) -> serde_json::Value {
    let text = fs::read_to_string(home.0.join(events)).expect("events");
    let end = text.lines().last().expect("an event");
    serde_json::from_str(end).expect("JSON")
}

fn check_full_storage(mount: &str, enlarge: &str) {
    let home = Home::new();
    for (folder, seed) in [("a", 1), ("b", 2), ("c", 3)] {
        fs::create_dir_all(home.0.join("src").join(folder)).expect("a folder");
        for index in 0..40u8 {
            let content = vec![index ^ (seed << 6); 20_000 + usize::from(index)];
            fs::write(home.0.join(format!("src/{folder}/{index}")), content).expect("a file");
        }
    }
    fs::write(home.0.join("src/b/large"), content(40 << 20, 1)).expect("a file");
    fs::create_dir(home.0.join("dst")).expect("a folder");
    let Some(output) = fill(&home, mount, enlarge) else {
        let _ = writeln!(std::io::stderr(), "skipped: no permission to mount a small file system: {mount}");
        return;
    };
    let lines: Vec<&str> = output.out.lines().collect();
    let first = end(&home, "events");
    let failed = first["failed"].as_u64().expect("a number");
    let finished = format!("leftovers 0 large 0 finished {}", 121 - failed);
    assert_eq!(
        lines,
        ["code 3", "complete", &finished, "code 0", "same", "leftovers 0"],
        "{}\n{}",
        output.out,
        output.err
    );
    // All files fail if parts of the large one fill the storage first.
    assert!((1..=121).contains(&failed) && first["done"] == true, "{first}");
    let events = fs::read_to_string(home.0.join("events")).expect("events");
    let problems: Vec<&str> = events.lines().filter(|line| line.contains("\"problem\"")).collect();
    assert_eq!(problems.len() as u64, failed, "each failure is reported once");
    assert!(problems.iter().any(|line| line.contains("b/large")), "{problems:?}");
    let is_full = |line: &&str| line.contains("no space left on device") && line.contains("destination");
    assert!(problems.iter().all(is_full), "{problems:?}");
    // Finished files are not sent again.
    let again = end(&home, "again");
    assert_eq!((&again["moved"], &again["failed"]), (&failed.into(), &0.into()), "{again}");
}

#[test]
fn full_tmpfs_keeps_finished_files_and_no_partial_ones() {
    check_full_storage("mount -t tmpfs -o size=24m none dst", "mount -o remount,size=100m dst");
}

#[test]
fn full_disk_keeps_finished_files_and_no_partial_ones() {
    check_full_storage(
        "truncate -s 32M image && mkfs.ext4 -q image && mount -o loop image dst",
        "umount dst && e2fsck -fp image >&2 && truncate -s 100M image && resize2fs image >&2 2>&1 && \
         mount -o loop image dst",
    );
}
