//! `numaio copy` to and from exFAT, which ignores the case of names and stores neither owners nor
//! inode numbers.

use crate::support::{skipped, CommandOutput, Home};
use std::fs;

/// Mounts exFAT at `to`, and runs a script.
const EXFAT: &str = "
truncate -s 64M image && mkfs.exfat image && mkdir to && device=$(losetup --find --show image) || exit 99
trap 'umount to; losetup --detach $device' EXIT
mount.exfat-fuse -o uid=1234 $device to || exit 99
eval \"$0\"
";

/// Output of a script with exFAT mounted at `to`; None if it cannot be mounted.
fn on_exfat(home: &Home, script: &str) -> Option<CommandOutput> {
    home.run_unshared("-m", &[EXFAT, script])
}

fn skip_without_exfat() {
    skipped("exFAT: needs mkfs.exfat, mount.exfat-fuse, losetup and root");
}

#[test]
fn reports_case_insensitive_duplicates_and_loses_nothing() {
    let home = Home::new();
    for folder in ["from/Dir", "from/dir", "same/Dir"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    for (name, content) in [
        ("from/FILE", "f"),
        ("from/file", "file"),
        ("from/Dir/x", "x"),
        ("from/dir/y", "y"),
        ("same/Dir/x", "x"),
    ] {
        home.file(name, content);
    }
    let script = "
        $NUMAIO copy -r --delete from/ to/a; echo code $?
        (cd to/a && find . -type f | sort && cat FILE && echo)
        $NUMAIO copy -nr --delete from/ to/a >dry-run; echo code $?
        mkdir -p to/b/dIR && touch to/b/dIR/X to/b/old
        $NUMAIO copy -r --delete same/ to/b >last; echo code $?
        (cd to/b && find . -type f && cat Dir/x)
    ";
    let Some(output) = on_exfat(&home, script) else {
        return skip_without_exfat();
    };
    let lines: Vec<&str> = output.out.lines().skip_while(|line| !line.contains("moved")).skip(1).collect();
    let [code, x, y, file, content, dry_run, last, kept, of_it] = lines[..] else { panic!("{}", output.out) };
    assert_eq!((code, x, y), ("code 3", "./Dir/x", "./Dir/y"));
    // The order of inodes determines which duplicate is the first.
    assert!(file.eq_ignore_ascii_case("./file") && ["f", "file"].contains(&content), "{}", output.out);
    assert_eq!(dry_run, "code 3");
    assert!(last == "code 0" && kept.eq_ignore_ascii_case("./dir/x") && of_it == "x", "{}", output.out);
    assert_eq!(output.err.matches("case-insensitive duplicate").count(), 4, "{}", output.err);
}

/// Only the file system mounted below the destination ignores case.
#[test]
fn does_not_delete_a_file_whose_name_differs_in_case() {
    let home = Home::new();
    for folder in ["from/usb", "all/usb"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    home.file("from/usb/Foo", "same");
    home.file("from/new", "new");
    home.file("all/old", "old");
    let script = "
        cp --preserve=timestamps from/usb/Foo to/foo && mount --bind to all/usb || exit 99
        $NUMAIO copy -r --delete from/ all; echo code $?
        (cd all && find . -type f | sort); umount all/usb
    ";
    let Some(output) = on_exfat(&home, script) else { return skip_without_exfat() };
    assert!(output.out.ends_with("code 3\n./new\n./usb/foo\n"), "{}\n{}", output.out, output.err);
    assert!(
        output.err.contains("usb/foo") && output.err.contains("not deleted: this directory ignores case"),
        "{}",
        output.err
    );
}

/// Partial files and journals there do not belong to the user who wrote them.
#[test]
fn resumes_large_files_where_all_files_have_one_owner() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    fs::write(home.0.join("from/large"), vec![7; 40 << 20]).expect("a file");
    let script = "
        $NUMAIO copy -r --bwlimit 20M from/ to/a & running=$!
        until [ $(du -k to/a | cut -f1) -ge 24000 ]; do kill -0 $running && sleep 0.02 || exit 1; done
        kill -KILL $running; wait $running
        $NUMAIO copy -r from/ to/a; echo code $?; cmp from/large to/a/large && ls -A to/a
    ";
    let Some(output) = on_exfat(&home, script) else { return skip_without_exfat() };
    assert!(
        output.out.contains(" resumed") && output.out.ends_with("code 0\nlarge\n"),
        "{}\n{}",
        output.out,
        output.err
    );
}

/// A remount makes the kernel drop cached inodes, as a shortage of memory does.
#[test]
fn changed_inode_number_is_not_a_changed_file() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    (0..2_000)
        .for_each(|index| fs::write(home.0.join(format!("from/{index}")), vec![7; 5_000]).expect("a file"));
    let script = "
        cp -r from to/there
        (while sleep 0.02; do mount -o remount to; done) & forgets=$!
        $NUMAIO copy -r --bwlimit 5M to/there/ back; echo code $?
        kill $forgets; diff -r from back && echo same
    ";
    let Some(output) = on_exfat(&home, script) else { return skip_without_exfat() };
    assert!(output.out.contains("code 0\nsame\n"), "{}\n{}", output.out, output.err);
}

/// Mounts unionfs-fuse (libfuse 2) at `to`, and runs a script.
const UNIONFS: &str = "
mkdir lower upper to && unionfs-fuse -o cow upper=RW:lower=RO to || exit 99
trap 'umount to' EXIT
eval \"$0\"
";

/// libfuse 2 ignores `UTIME_OMIT`: times were lost, and every run copied everything again.
#[test]
fn keeps_times_on_file_systems_of_libfuse_2() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    home.file("from/old", "content");
    let script = "
        touch -d 2020-01-01T00:00:00Z from/old from
        $NUMAIO copy -r from/ to/a; echo code $?
        TZ=UTC stat -c %y to/a/old to/a
        $NUMAIO copy -r from/ to/a; echo code $?
    ";
    let output = home.run_unshared("-m", &[UNIONFS, script]);
    let Some(output) = output else { return skipped("unionfs-fuse: needs unionfs-fuse and root") };
    assert_eq!(output.out.matches("2020-01-01 00:00:00").count(), 2, "{}\n{}", output.out, output.err);
    assert!(output.out.contains("0 moved, 2 unchanged"), "{}", output.out);
}

/// Mounts a directory at `to` with rclone, which has no hard links, modes, owners and attributes,
/// and reports I/O errors for them.
const RCLONE: &str = "
mkdir stored to && rclone mount $PWD/stored to --vfs-cache-mode CACHE_MODE --vfs-write-back 0s --config /dev/null --daemon || exit 99
trap 'umount to' EXIT
eval \"$0\"
";

#[test]
fn data_is_complete_on_rclone_mounts() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from/d")).expect("folders");
    home.file("from/a", "one");
    home.file("from/x", "two");
    fs::hard_link(home.0.join("from/a"), home.0.join("from/d/b")).expect("a link");
    let script = "
        touch -d 2020-01-01T00:00:00Z from/a from/x; chmod 640 from/x; setfattr -n user.k -v v from/x
        for options in -r -r -a -a; do $NUMAIO copy --no-job $options from/ to/at; echo code $?; done
        diff -r from to/at && echo same; TZ=UTC stat -c %y to/at/a to/at/d/b to/at/x
        $NUMAIO copy --no-job -a to/at/ back; echo code $?; diff -r from back && echo same
    ";
    let output = home.run_unshared("-m", &[&RCLONE.replace("CACHE_MODE", "writes"), script]);
    let Some(output) = output else { return skipped("rclone: needs rclone, fusermount and root") };
    assert_eq!(output.out.matches("code 0\n").count(), 5, "{}\n{}", output.out, output.err);
    assert_eq!(output.out.matches("same\n").count(), 2, "{}\n{}", output.out, output.err);
    assert_eq!(output.out.matches("2020-01-01 00:00:00").count(), 3, "{}", output.out);
    assert_eq!(output.out.matches("\n0 moved, ").count(), 3, "later runs copy nothing: {}", output.out);
    assert!(output.err.contains("not kept as a hard link, but as a copy"), "{}", output.err);
}

/// Without a cache of writes, rclone accepts data in order only.
#[test]
fn large_files_are_copied_to_rclone_mounts_without_a_cache() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    fs::write(home.0.join("from/large"), vec![7; (5 << 20) + 3]).expect("a file");
    home.file("from/small", "content");
    let script = "
        for options in -r -r; do $NUMAIO copy --no-job $options from/ to/; echo code $?; done
        sleep 1; diff -r from stored && echo same
    ";
    let output = home.run_unshared("-m", &[&RCLONE.replace("CACHE_MODE", "off"), script]);
    let Some(output) = output else { return skipped("rclone: needs rclone, fusermount and root") };
    assert_eq!(output.out.matches("code 0\n").count(), 2, "{}\n{}", output.out, output.err);
    assert!(output.out.contains("\n0 moved, ") && output.out.contains("same\n"), "{}", output.out);
    assert_eq!(output.err.matches("accepts data in order only").count(), 2, "{}", output.err);
}
