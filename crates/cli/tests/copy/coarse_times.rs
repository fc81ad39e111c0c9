//! Destinations whose timestamps are coarser than those of the source.

use crate::image::Image;
use crate::support::{skipped, Home};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::time::{Duration, Instant, UNIX_EPOCH};

const SECONDS: u64 = 1_577_836_800;
const FINE: u32 = 734_512_345;
/// Long enough for an event with a chance of 1 in 100 per try.
const ENOUGH: Duration = Duration::from_secs(10);

/// A file with this content and time.
fn file(home: &Home, name: &str, content: &str, nanoseconds: u32) {
    let path = home.0.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, content).expect("a file");
    let time = UNIX_EPOCH + Duration::new(SECONDS, nanoseconds);
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
}

fn content(home: &Home, name: &str) -> String {
    fs::read_to_string(home.0.join(name)).expect("a file")
}

/// Nanoseconds of the mtime and of the ctime of a file.
fn times(home: &Home, name: &str) -> (i64, i64) {
    let found = fs::metadata(home.0.join(name)).expect("a file");
    (found.mtime_nsec(), found.ctime_nsec())
}

/// Runs a copy, and returns how many entries it changed.
fn changed(home: &Home, args: &[&str]) -> usize {
    let text = home.run(&[&["copy", "--no-job", "--json"], args].concat()).ok();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events.filter(|event| event["event"] == "did").count()
}

/// scp and tar set whole seconds, so such a file may be older than a source of the same second.
#[test]
fn whole_second_time_differs_where_nanoseconds_are_supported() {
    let home = Home::new();
    for update in [false, true] {
        file(&home, "from/f", "BBBB", FINE);
        file(&home, "to/f", "AAAA", 0);
        if times(&home, "to/f").1 % 10_000_000 == 0 {
            return skipped("timestamps with nanoseconds, which the file system of this test does not have");
        }
        let args: &[&str] = if update { &["-a", "-u", "from/", "to"] } else { &["-a", "from/", "to"] };
        assert!(changed(&home, args) > 0);
        assert_eq!((&*content(&home, "to/f"), times(&home, "to/f").0), ("BBBB", FINE.into()));
        assert_eq!(changed(&home, args), 0);
    }
}

#[test]
fn nothing_is_copied_twice_to_a_file_system_with_coarse_times() {
    let home = Home::new();
    // Inodes too small for nanoseconds.
    let Some(mut image) = Image::with(&home, &["-I", "128"]) else {
        return skipped("an ext4 with small inodes on a loop device: it needs mkfs.ext4, losetup and root");
    };
    file(&home, "from/f", "AAAA", FINE);
    file(&home, "from/below/g", "CCCC", FINE);
    symlink("f", home.0.join("from/link")).expect("a link");
    fs::hard_link(home.0.join("from/f"), home.0.join("from/further")).expect("a link");
    let copy = ["-a", "from/", "mount/to"];
    assert!(changed(&home, &copy) > 0);
    assert_eq!(times(&home, "mount/to/f"), (0, 0), "its times are coarse");
    for reattached in [false, true] {
        assert!(!reattached || image.reattach(), "cannot reattach the disk");
        for option in ["-r", "-a", "-au"] {
            assert_eq!(changed(&home, &[option, "from/", "mount/to"]), 0, "{option} {reattached}");
        }
    }
    fs::set_permissions(home.0.join("from/f"), fs::Permissions::from_mode(0o640)).expect("a mode");
    assert_eq!((changed(&home, &copy), changed(&home, &copy)), (1, 0), "the mode alone");
    file(&home, "from/below/g", "DDDDD", FINE);
    assert!(changed(&home, &copy) > 0);
    assert_eq!((&*content(&home, "mount/to/below/g"), changed(&home, &copy)), ("DDDDD", 0));
}

/// By chance, one file in ten with fine times looks as if their resolution were 100 ns.
#[test]
fn file_that_matches_by_rounded_time_keeps_its_time() {
    let home = Home::new();
    file(&home, "from/f", "BBBB", 123_456_789);
    file(&home, "to/f", "AAAA", 123_456_700);
    fs::set_permissions(home.0.join("from/f"), fs::Permissions::from_mode(0o640)).expect("a mode");
    let is_coarse = || {
        fs::set_permissions(home.0.join("to/f"), fs::Permissions::from_mode(0o600)).expect("a mode");
        times(&home, "to/f").1 % 100 == 0
    };
    // On some file systems the kernel's clock advances in steps of milliseconds.
    let start = Instant::now();
    if !std::iter::repeat_with(is_coarse).take_while(|_| start.elapsed() < ENOUGH).any(|is_coarse| is_coarse)
        || times(&home, "to/f").0 != 123_456_700
    {
        return skipped("a ctime that is by chance a multiple of 100 ns, on a file system with fine times");
    }
    // The file changes, and so does the directory, since the test wrote to it.
    assert!(changed(&home, &["-a", "from/", "to"]) > 0);
    let mode = fs::metadata(home.0.join("to/f")).expect("a file").mode() & 0o7777;
    assert_eq!((mode, times(&home, "to/f").0, &*content(&home, "to/f")), (0o640, 123_456_700, "AAAA"));
}
