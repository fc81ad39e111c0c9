//! Hard links affected by options, failures, or objects at the destination.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::fs;
use std::io::Write;
use std::time::{Duration, SystemTime};

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy"], args].concat())
}

/// A source in which `a` and `b/c` are hard links to a file with this content, and a destination.
fn linked(content: &str) -> Home {
    let home = Home::new();
    for folder in ["from/b", "to/b"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    home.file("from/a", content);
    fs::hard_link(home.0.join("from/a"), home.0.join("from/b/c")).expect("a link");
    home
}

fn content(home: &Home, name: &str) -> Option<String> {
    fs::read_to_string(home.0.join(name)).ok()
}

/// Sets the mtime of a file to `hours` hours ago.
fn set_age(home: &Home, name: &str, hours: u64) {
    let file = fs::File::options().write(true).open(home.0.join(name)).expect("a file");
    let time = SystemTime::now() - Duration::from_secs(3_600 * hours);
    file.set_modified(time).expect("a time");
}

#[test]
fn size_limits_exclude_all_hard_links_of_a_file() {
    for limit in ["--max-size=10", "--min-size=1K"] {
        let home = linked("twenty bytes or more");
        home.file("to/a", "other");
        home.file("to/b/c", "precious");
        copy(&home, &["-r", limit, "from/", "to/"]).ok();
        assert_eq!(content(&home, "to/a").as_deref(), Some("other"), "{limit}");
        assert_eq!(content(&home, "to/b/c").as_deref(), Some("precious"), "{limit}");
        fs::remove_file(home.0.join("to/b/c")).expect("removed");
        copy(&home, &["-r", limit, "from/", "to/"]).ok();
        assert_eq!(content(&home, "to/b/c"), None, "{limit}");
    }
}

/// The directory is removed only if the link replaces it.
#[test]
fn delete_keeps_a_directory_if_its_link_is_not_created() {
    let home = linked("twenty bytes or more");
    fs::create_dir(home.0.join("to/b/c")).expect("a folder");
    home.file("to/b/c/precious", "precious");
    copy(&home, &["-r", "--delete", "--max-size=10", "from/", "to/"]).ok();
    assert!(home.0.join("to/b/c/precious").exists());
    home.file("to/a", "newer");
    set_age(&home, "from/a", 2);
    copy(&home, &["-r", "--delete", "--update", "from/", "to/"]).failed(3, &["is newer here"]);
    assert!(home.0.join("to/b/c/precious").exists());
    fs::remove_file(home.0.join("to/a")).expect("removed");
    copy(&home, &["-r", "--delete", "from/", "to/"]).ok();
    assert_eq!(content(&home, "to/b/c").as_deref(), Some("twenty bytes or more"));
}

/// The source reports that the file is unreadable before the destination requests its data.
#[test]
fn link_to_an_unreadable_file_leaves_the_destination_unchanged() {
    let home = linked("content");
    home.file("to/a", "older 1");
    home.file("to/b/c", "older 2");
    // Root can read every file.
    let script = format!(
        "chmod 0 from/a; setpriv --reuid=65534 --regid=65534 --clear-groups {} copy -r -c from/ to/; echo code $?",
        env!("CARGO_BIN_EXE_numaio")
    );
    drop(home.command("chown", &["-R", "65534:65534", "."]).limited_output());
    let output = CommandOutput::of(home.command("sh", &["-c", &script]).limited_output().expect("a shell"));
    if !output.out.contains("code 3") {
        let _ = writeln!(std::io::stderr(), "skipped: another user: needs root and setpriv: {}", output.err);
        return;
    }
    assert_eq!(content(&home, "to/b/c").as_deref(), Some("older 2"), "{}", output.err);
}

#[test]
fn update_keeps_a_newer_file_in_place_of_a_link() {
    let home = linked("of the source");
    set_age(&home, "from/a", 2);
    home.file("to/b/c", "newer work");
    copy(&home, &["-r", "--update", "from/", "to/"]).ok();
    assert_eq!(content(&home, "to/a").as_deref(), Some("of the source"));
    assert_eq!(content(&home, "to/b/c").as_deref(), Some("newer work"));
    // The destination's version of the first name differs from the source's content of the second.
    let home = linked("of the source");
    set_age(&home, "from/a", 2);
    home.file("to/a", "newer work");
    let message = "not linked: 'a' is newer here";
    copy(&home, &["-r", "--update", "from/", "to/"]).failed(3, &["b/c: ", message]);
    assert_eq!(content(&home, "to/b/c"), None);
}

#[test]
fn link_to_a_failed_file_leaves_the_destination_unchanged() {
    // An empty file has no data; for a file that a directory blocks, none is requested.
    for source in ["", "content"] {
        let home = linked(source);
        fs::create_dir(home.0.join("to/a")).expect("a folder");
        for there in [None, Some("older")] {
            there.iter().for_each(|older| drop(home.file("to/b/c", older)));
            let output = copy(&home, &["-r", "from/", "to/"]);
            let messages = ["a: a directory with this name exists", "b/c: not linked: 'a' failed"];
            output.failed(3, &messages);
            assert_eq!(content(&home, "to/b/c").as_deref(), there, "{source}");
        }
    }
}

/// A hard link cannot cross file systems.
#[test]
fn manifest_lists_copies_in_place_of_links() {
    let home = linked("content");
    let script =
        "mount -t tmpfs none to/b || exit 99; $NUMAIO copy -r --manifest list from/ to/; echo code $?; cat list";
    let Some(output) = home.run_unshared("-rm", &[script]) else {
        return skipped("no permission to mount a small file system");
    };
    assert!(
        output.out.contains("code 0\n") && output.err.contains("b/c: "),
        "{}\n{}",
        output.out,
        output.err
    );
    let listed: Vec<&str> = output.out.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
    assert_eq!(listed, ["a", "b/c"]);
}

/// Runs a script as root with mounts of its own; None if that is impossible here.
fn with_mounts(home: &Home, script: &str) -> Option<CommandOutput> {
    home.run_unshared("-m", &[script])
}

/// link(2) fails between two mounts.
#[test]
fn copies_a_file_whose_hard_link_is_refused() {
    for content in ["", "content", &"large ".repeat(700_000)] {
        let home = linked(content);
        std::os::unix::fs::symlink("x", home.0.join("from/s")).expect("a link");
        fs::hard_link(home.0.join("from/s"), home.0.join("from/b/s")).expect("a link");
        let script = "
            mount -t tmpfs none to/b && trap 'umount to/b' EXIT || exit 99
            chmod 640 from/a; touch -d 2020-01-01T00:00:00Z from/a
            for run in 1 2; do $NUMAIO copy --no-job -a from/ to/; echo code $?; done
            cmp from/b/c to/b/c && TZ=UTC stat -c '%a %y %h' to/b/c && readlink to/b/s && ls -A to to/b
        ";
        let Some(output) = with_mounts(&home, script) else { return skipped("mounts: needs root") };
        let lines: Vec<&str> = output.out.lines().filter(|line| !line.contains(" moved,")).collect();
        let expected = [
            "code 0",
            "code 0",
            "640 2020-01-01 00:00:00.000000000 +0000 1",
            "x",
            "to:",
            "a",
            "b",
            "s",
            "",
            "to/b:",
            "c",
            "s",
        ];
        assert_eq!(lines, expected, "{}", output.err);
        assert!(output.out.contains("\n0 moved"), "the second run copies nothing: {}", output.out);
        assert_eq!(output.err.matches("not kept as a hard link, but as a copy").count(), 2, "{}", output.err);
    }
}

/// ext4 has at most 65,000 links of a file (`EXT4_LINK_MAX`).
#[test]
fn copies_a_file_with_too_many_hard_links() {
    let home = Home::new();
    let script = "
        truncate -s 128M image && mkfs.ext4 -q image && mkdir to from && mount image to && trap 'umount to' EXIT &&
            mount -t tmpfs none from || exit 99
        echo content >from/0
        perl -e 'link \"from/0\", \"from/$_\" or die for 1..65010' || exit 99
        $NUMAIO copy --no-job -r from/ to/; echo code $?
        find to -name '[0-9]*' | wc -l; cat to/65010 to/1
    ";
    let Some(output) = with_mounts(&home, script) else { return skipped("ext4: needs root and mkfs.ext4") };
    assert!(output.out.ends_with("code 0\n65011\ncontent\ncontent\n"), "{}\n{}", output.out, output.err);
    assert!(output.err.contains("too many links (and "), "{}", output.err);
}

#[test]
fn no_hard_links_copies_each_name() {
    let home = linked("content");
    copy(&home, &["-r", "--no-hard-links", "from/", "to/"]).ok();
    let number =
        |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(home.0.join(name)).expect("a file"));
    assert_eq!(
        (content(&home, "to/a"), content(&home, "to/b/c")),
        (Some("content".into()), Some("content".into()))
    );
    assert_ne!(number("to/a"), number("to/b/c"));
}

/// The backup has moved the earlier copy away.
#[test]
fn refused_hard_links_survive_backups() {
    let home = linked("content");
    let script = "
        mount -t tmpfs none to/b && trap 'umount to/b' EXIT || exit 99
        for run in 1 2; do $NUMAIO copy --no-job -r -b from/ to/; echo code $?; done
        cat to/a to/b/c
    ";
    let Some(output) = with_mounts(&home, script) else { return skipped("mounts: needs root") };
    assert!(output.out.ends_with("code 0\ncontentcontent"), "{}\n{}", output.out, output.err);
}
