//! Times at the destination that are coarser than those of the source.

use crate::image::Image;
use crate::support::{skipped, Home};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::time::{Duration, Instant, UNIX_EPOCH};

const SECONDS: u64 = 1_577_836_800;
const FINE: u32 = 734_512_345;
/// In so long one in a hundred comes to pass.
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

/// Nanoseconds beyond the second in which a file got its content, and of those in which anything of it was changed.
fn times(home: &Home, name: &str) -> (i64, i64) {
    let found = fs::metadata(home.0.join(name)).expect("a file");
    (found.mtime_nsec(), found.ctime_nsec())
}

/// Copies, and tells how much was moved or changed.
fn changed(home: &Home, args: &[&str]) -> usize {
    let text = home.run(&[&["copy", "--no-job", "--json"], args].concat()).ok();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events.filter(|event| event["event"] == "did").count()
}

/// What scp or tar brought there has whole seconds, and may be older than what the source has since, in the same second.
#[test]
fn a_time_without_nanoseconds_is_another_one_where_the_file_system_has_them() {
    let home = Home::new();
    for update in [false, true] {
        file(&home, "from/f", "BBBB", FINE);
        file(&home, "to/f", "AAAA", 0);
        if times(&home, "to/f").1 % 10_000_000 == 0 {
            return skipped("fine times, which the file system of this folder does not have");
        }
        let args: &[&str] = if update { &["-a", "-u", "from/", "to"] } else { &["-a", "from/", "to"] };
        assert!(changed(&home, args) > 0);
        assert_eq!((&*content(&home, "to/f"), times(&home, "to/f").0), ("BBBB", FINE.into()));
        assert_eq!(changed(&home, args), 0);
    }
}

#[test]
fn where_the_file_system_has_coarser_times_nothing_is_moved_twice() {
    let home = Home::new();
    // Inodes without room for nanoseconds.
    let Some(mut image) = Image::with(&home, &["-I", "128"]) else {
        return skipped("an ext4 with small inodes on a loop device: it needs mkfs.ext4, losetup and root");
    };
    file(&home, "from/f", "AAAA", FINE);
    file(&home, "from/below/g", "CCCC", FINE);
    symlink("f", home.0.join("from/link")).expect("a link");
    fs::hard_link(home.0.join("from/f"), home.0.join("from/further")).expect("a further name");
    let copy = ["-a", "from/", "mount/to"];
    assert!(changed(&home, &copy) > 0);
    assert_eq!(times(&home, "mount/to/f"), (0, 0), "its times are coarse");
    for reattached in [false, true] {
        assert!(!reattached || image.reattach(), "mounted once more");
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

/// With fine times one file in ten is by chance taken for one on a file system that keeps 100 ns.
#[test]
fn what_is_taken_for_the_same_by_a_rounded_time_does_not_get_a_finer_one() {
    let home = Home::new();
    file(&home, "from/f", "BBBB", 123_456_789);
    file(&home, "to/f", "AAAA", 123_456_700);
    fs::set_permissions(home.0.join("from/f"), fs::Permissions::from_mode(0o640)).expect("a mode");
    let is_coarse = || {
        fs::set_permissions(home.0.join("to/f"), fs::Permissions::from_mode(0o600)).expect("a mode");
        times(&home, "to/f").1 % 100 == 0
    };
    // The kernel's time goes on by milliseconds at some file systems.
    let start = Instant::now();
    if !std::iter::repeat_with(is_coarse).take_while(|_| start.elapsed() < ENOUGH).any(|is_coarse| is_coarse)
        || times(&home, "to/f").0 != 123_456_700
    {
        return skipped("a last change that is at a multiple of 100 ns by chance, where times are fine");
    }
    // The file, and the directory, which was written to.
    assert!(changed(&home, &["-a", "from/", "to"]) > 0);
    let mode = fs::metadata(home.0.join("to/f")).expect("a file").mode() & 0o7777;
    assert_eq!((mode, times(&home, "to/f").0, &*content(&home, "to/f")), (0o640, 123_456_700, "AAAA"));
}
