//! A tree of small files with a large one in its midst, to storage that takes the half of it.

use crate::support::{Home, Limited, Said};
use std::fs;
use std::io::Write;

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// Fills `dst`, which `$1` mounted, tells what is there, has `$2` make room, and copies once more. The large file is larger than
/// all room at first, so it fails whatever comes before it; which others do depends on what is written first.
const FILL: &str = "
count() { find dst -type f \"$@\" | wc -l; }
$NUMAIO copy -a --json src/ dst >events; echo code $?
(cd dst && find . -type f ! -name '.numaio*' -exec cmp {} ../src/{} ';') && echo whole
echo left $(count -name '.numaio*') large $(count -name large) finished $(count ! -name '.numaio*')
eval \"$2\" || exit 99
$NUMAIO copy -a --json src/ dst >again; echo code $?
diff -r -x lost+found src dst && echo same
echo left $(count -name '.numaio*')
";

/// What `mount` and `room` leave to be told, by somebody who may mount; none where nobody may.
fn fill(home: &Home, mount: &str, room: &str) -> Option<Said> {
    let script = format!("eval \"$1\" || exit 99\n{FILL}");
    let mut command = home.command("unshare", &["-m", "sh", "-c", &script, "sh", mount, room]);
    let output = Said::of(command.env("NUMAIO", NUMAIO).limited_output().ok()?);
    (output.code != Some(99) && !output.err.contains("unshare: ")).then_some(output)
}

/// The last event of a run.
fn end(home: &Home, events: &str) -> serde_json::Value {
    let text = fs::read_to_string(home.0.join(events)).expect("events");
    let end = text.lines().last().expect("an event");
    serde_json::from_str(end).expect("JSON")
}

fn test(mount: &str, room: &str) {
    let home = Home::new();
    for (folder, seed) in [("a", 1), ("b", 2), ("c", 3)] {
        fs::create_dir_all(home.0.join("src").join(folder)).expect("a folder");
        for index in 0..40u8 {
            let content = vec![index ^ (seed << 6); 20_000 + usize::from(index)];
            fs::write(home.0.join(format!("src/{folder}/{index}")), content).expect("a file");
        }
    }
    let large: Vec<u8> = (0..40u32 << 20).map(|index| (index * 31 + (index >> 11)) as u8).collect();
    fs::write(home.0.join("src/b/large"), large).expect("a file");
    fs::create_dir(home.0.join("dst")).expect("a folder");
    let Some(output) = fill(&home, mount, room) else {
        let _ = writeln!(std::io::stderr(), "skipped: no right to mount a small file system: {mount}");
        return;
    };
    let lines: Vec<&str> = output.out.lines().collect();
    let first = end(&home, "events");
    let failed = first["failed"].as_u64().expect("a number");
    let finished = format!("left 0 large 0 finished {}", 121 - failed);
    assert_eq!(
        lines,
        ["code 3", "whole", &finished, "code 0", "same", "left 0"],
        "{}\n{}",
        output.out,
        output.err
    );
    // All, where what comes of the large one is there before all small ones.
    assert!((1..=121).contains(&failed) && first["done"] == true, "{first}");
    let events = fs::read_to_string(home.0.join("events")).expect("events");
    let problems: Vec<&str> = events.lines().filter(|line| line.contains("\"problem\"")).collect();
    assert_eq!(problems.len() as u64, failed, "each is told once");
    assert!(problems.iter().any(|line| line.contains("b/large")), "{problems:?}");
    let is_full = |line: &&str| line.contains("no space left on device") && line.contains("destination");
    assert!(problems.iter().all(is_full), "{problems:?}");
    // What was finished is not sent again.
    let again = end(&home, "again");
    assert_eq!((&again["moved"], &again["failed"]), (&failed.into(), &0.into()), "{again}");
}

#[test]
fn memory_that_is_full_keeps_what_is_finished_and_no_halves() {
    test("mount -t tmpfs -o size=24m none dst", "mount -o remount,size=100m dst");
}

#[test]
fn a_disk_that_is_full_keeps_what_is_finished_and_no_halves() {
    test(
        "truncate -s 32M image && mkfs.ext4 -q image && mount -o loop image dst",
        "umount dst && e2fsck -fp image >&2 && truncate -s 100M image && resize2fs image >&2 2>&1 && \
         mount -o loop image dst",
    );
}
