//! Existing objects at the destination: what replaces them, and which of them stay.

use crate::slow_copy::start_slow_copy;
use crate::support::{skipped, CommandOutput, Home, Limited};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{chown, symlink, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy"], args].concat())
}

/// Creates files whose content is their name, and their parent directories.
fn files(home: &Home, names: &[&str]) {
    for name in names {
        fs::create_dir_all(home.0.join(name).parent().expect("a folder")).expect("a folder");
        home.file(name, name);
    }
}

fn exists(home: &Home, name: &str) -> bool {
    fs::symlink_metadata(home.0.join(name)).is_ok()
}

fn mode(home: &Home, name: &str) -> u32 {
    fs::symlink_metadata(home.0.join(name)).expect("a file").permissions().mode() & 0o7777
}

fn set_mode(home: &Home, name: &str, mode: u32) {
    fs::set_permissions(home.0.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
}

fn fifo(home: &Home, name: &str) {
    assert!(Command::new("mkfifo").arg(home.path(name)).limited_status().expect("mkfifo").success());
}

/// With all other options, and in a dry run.
#[test]
fn delete_keeps_excluded_files_in_directories_absent_from_the_source() {
    for (rules, kept) in [
        (&["--exclude=*.key"][..], &["to/extra/x.key", "to/extra/deep/y.key"][..]),
        (&["--exclude=/extra/deep/"], &["to/extra/deep/y.key", "to/extra/deep/b"]),
        (
            &["--include=*/", "--include=*.key", "--exclude=*"],
            &["to/extra/a", "to/extra/deep/b", "to/other/c"],
        ),
        (&["--exclude=nothing"], &[]),
        (&[], &[]),
    ] {
        let home = Home::new();
        let extra = ["to/extra/x.key", "to/extra/a", "to/extra/deep/y.key", "to/extra/deep/b", "to/other/c"];
        files(&home, &["from/file"]);
        files(&home, &extra);
        let args = |more: &[&'static str]| [more, &["-r", "--delete"], rules, &["from/", "to/"]].concat();
        let planned = copy(&home, &args(&["-n", "-v"])).ok();
        assert!(extra.iter().all(|name| exists(&home, name)), "{rules:?}: a dry run deleted a file");
        let output = copy(&home, &args(&["-v"])).ok();
        let removed = |text: &str| text.lines().filter(|line| line.contains("removed: ")).count();
        assert_eq!(removed(&planned), removed(&output), "{rules:?}: {planned} {output}");
        for name in extra {
            assert_eq!(exists(&home, name), kept.contains(&name), "{rules:?}: {name} after {output}");
        }
        let holds = |folder: &str| kept.iter().any(|name| name.starts_with(folder));
        for folder in ["to/extra", "to/extra/deep", "to/other"] {
            assert_eq!(exists(&home, folder), holds(folder), "{rules:?}: {folder} after {output}");
        }
        assert_eq!(removed(&copy(&home, &args(&["-v"])).ok()), 0, "{rules:?}: the second run deleted more");
    }
}

/// Needs `--delete`, and no rule that may protect its contents.
#[test]
fn delete_replaces_a_directory_by_another_kind_of_file() {
    let home = Home::new();
    files(&home, &["from/file", "from/last"]);
    symlink("last", home.0.join("from/link")).expect("a link");
    fifo(&home, "from/fifo");
    fs::hard_link(home.0.join("from/last"), home.0.join("from/other-name")).expect("a link");
    let old = ["to/file/a/b", "to/link/a", "to/fifo/a", "to/last/a", "to/other-name/a", "to/old"];
    files(&home, &old);
    copy(&home, &["-a", "from/", "to/"]).failed(3, &["file: a directory with this name exists"]);
    copy(&home, &["-a", "--delete", "--exclude=b", "--exclude=old", "from/", "to/"])
        .failed(3, &["link: a directory with this name exists, and filter rules may protect its contents"]);
    let planned = copy(&home, &["-a", "-n", "--delete", "from/", "to/"]).ok();
    assert!(planned.contains("6 would be removed"), "{planned}");
    assert!(old.iter().all(|name| exists(&home, name)));
    let output = copy(&home, &["-a", "--delete", "from/", "to/"]).ok();
    assert!(output.contains("6 removed"), "{output}");
    let number = |name: &str| fs::symlink_metadata(home.0.join(name)).expect("a file").ino();
    assert_eq!(number("to/last"), number("to/other-name"));
    assert_eq!(fs::read(home.0.join("to/file")).expect("a file"), b"from/file");
    assert_eq!(fs::read_link(home.0.join("to/link")).expect("a link"), Path::new("last"));
    assert!(!exists(&home, "to/old") && exists(&home, "to/fifo") && !home.0.join("to/fifo").is_dir());
}

#[test]
fn file_that_replaces_a_link_or_pipe_gets_the_source_mode() {
    let home = Home::new();
    files(&home, &["from/link", "from/fifo", "from/file", "to/file"]);
    ["link", "fifo", "file"].iter().for_each(|name| set_mode(&home, &format!("from/{name}"), 0o600));
    symlink("nowhere", home.0.join("to/link")).expect("a link");
    fifo(&home, "to/fifo");
    set_mode(&home, "to/fifo", 0o666);
    set_mode(&home, "to/file", 0o644);
    copy(&home, &["-r", "-I", "from/", "to/"]).ok();
    assert_eq!(
        ["link", "fifo", "file"].map(|name| mode(&home, &format!("to/{name}"))),
        [0o600, 0o600, 0o644]
    );
}

#[test]
fn file_always_replaces_a_link_or_pipe() {
    for option in ["--update", "--inplace", "-I"] {
        let home = Home::new();
        files(&home, &["from/link", "from/fifo"]);
        fs::create_dir(home.0.join("to")).expect("a folder");
        symlink("nowhere", home.0.join("to/link")).expect("a link");
        fifo(&home, "to/fifo");
        copy(&home, &["-r", option, "from/", "to/"]).ok();
        for name in ["link", "fifo"] {
            let found = fs::symlink_metadata(home.0.join("to").join(name)).expect("something");
            assert!(found.is_file(), "{option}: {name} is {:?}", found.file_type());
        }
        let content = fs::read(home.0.join("to/link")).expect("a file");
        assert_eq!(content, b"from/link", "{option}");
        assert!(!exists(&home, "to/nowhere"), "{option}: it wrote through the link");
    }
}

/// An in-place copy would truncate the file before reading it.
#[test]
fn rejects_inplace_copy_of_a_file_onto_itself() {
    let home = Home::new();
    files(&home, &["from/file", "other"]);
    fs::hard_link(home.0.join("from/file"), home.0.join("same")).expect("a link");
    symlink("from", home.0.join("link")).expect("a link");
    for (from, to) in [
        ("from/file", "same"),
        ("same", "./same"),
        ("from/", "link/"),
        ("from", "."),
        ("from/file", "from"),
        ("link/", "from"),
    ] {
        copy(&home, &["-r", "-I", "--inplace", from, to]).failed(2, &["is source and destination"]);
        assert_eq!(fs::read(home.0.join("same")).expect("a file"), b"from/file", "{from} {to}");
        copy(&home, &["-r", "-I", from, to]).ok();
    }
    fs::remove_file(home.0.join("same")).expect("removed");
    home.file("list", "file");
    let listed = ["-I", "--inplace", "--files-from", "list", "from", "./from/../from"];
    copy(&home, &listed).failed(2, &["is source and destination"]);
    assert_eq!(fs::read(home.0.join("from/file")).expect("a file"), b"from/file");
    copy(&home, &["-I", "--inplace", "from/file", "other"]).ok();
}

/// A link is copied as a link, and its target may be the only copy of the data.
#[test]
fn link_does_not_replace_its_own_target() {
    let home = Home::new();
    files(&home, &["dot/.rc", "plain"]);
    symlink("dot/.rc", home.0.join(".rc")).expect("a link");
    symlink("plain", home.0.join("to-plain")).expect("a link");
    for (from, to) in [(".rc", "dot/"), (".rc", "dot/.rc"), ("to-plain", "plain")] {
        for options in [&[][..], &["-a"], &["-n"], &["-a", "--inplace"]] {
            copy(&home, &[options, &[from, to]].concat()).failed(2, &["is source and destination"]);
        }
    }
    copy(&home, &["-r", ".rc", "to-plain", "dot/"]).failed(2, &["'.rc' is source and destination"]);
    for name in ["dot/.rc", "plain"] {
        assert_eq!(fs::read_to_string(home.0.join(name)).expect("a file"), name);
    }
    // Into its own directory, and into another one.
    copy(&home, &["-l", ".rc", "."]).ok();
    copy(&home, &[".rc", "."]).failed(2, &["is source and destination"]);
    copy(&home, &["-l", "to-plain", "dot"]).ok();
    assert!(home.0.join("dot/to-plain").is_symlink() && home.0.join(".rc").is_symlink());
}

/// Also for links below SRC: the link would point to itself, and its former target would be lost.
#[test]
fn link_below_the_source_does_not_replace_its_own_target() {
    let home = Home::new();
    files(&home, &["from/other", "to/file", "to/folder/in", "to/replaced"]);
    for name in ["file", "folder"] {
        symlink(home.0.join("to").join(name), home.0.join("from").join(name)).expect("a link");
    }
    symlink("other", home.0.join("from/replaced")).expect("a link");
    // The directory contains nothing but the link's target.
    files(&home, &["to/versions/v1"]);
    symlink(home.0.join("to/versions/v1"), home.0.join("from/versions")).expect("a link");
    fs::write(home.0.join("list"), "file\nfolder\n").expect("a list");
    for (args, failed) in [
        (&["-r", "--delete", "--dry-run", "from/", "to/"][..], 3),
        (&["-r", "--delete", "from/", "to/"], 3),
        (&["-r", "--ignore-times", "from/", "to/"], 3),
        (&["--files-from", "list", "from/", "to/"], 2),
    ] {
        let output = copy(&home, args);
        assert_eq!(output.code, Some(3), "{args:?}: {}", output.err);
        assert_eq!(
            output.err.matches("this link points to the object that it would replace").count(),
            failed,
            "{}",
            output.err
        );
        let stays = ["to/folder/in", "to/versions/v1"].map(|name| exists(&home, name));
        assert!(stays == [true; 2] && home.0.join("to/file").is_file(), "{args:?}");
    }
    assert!(home.0.join("to/replaced").is_symlink(), "a link with another target replaces the file");
    // Replacing the file is safe only if the link points to another hard link of it.
    for name in ["from/folder", "from/versions"] {
        fs::remove_file(home.0.join(name)).expect("a link");
    }
    fs::hard_link(home.0.join("to/file"), home.0.join("to/name")).expect("a name");
    let output = copy(&home, &["-r", "from/", "to/"]);
    assert!(output.code == Some(3) && ["to/file", "to/name"].map(|name| exists(&home, name)) == [true; 2]);
    assert!(home.0.join("to/file").is_file(), "{}", output.err);
    fs::remove_file(home.0.join("from/file")).expect("a link");
    symlink("name", home.0.join("from/file")).expect("a link");
    copy(&home, &["-r", "from/", "to/"]).ok();
    assert!(home.0.join("to/file").is_symlink() && home.0.join("to/name").is_file());
}

/// A retry that another host started: the previous attempt may still be finishing.
#[test]
fn retry_waits_for_the_previous_attempt() {
    let home = Home::new();
    files(&home, &["src/small"]);
    fs::write(home.0.join("src/large"), vec![b'a'; 40 << 20]).expect("a file");
    let mut first = start_slow_copy(&home, &["-r", "src/"], "dst", "12M", 16 << 20);
    let mut retry = home.numaio(&["copy", "--attached", "--retry-attempt", "--json", "-r", "src/", "dst"]);
    let retry = retry.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut retry = retry.spawn().expect("numaio");
    // It exits when its standard input closes.
    let (held, mut output) = (retry.stdin.take(), String::new());
    retry.stdout.take().expect("a pipe").read_to_string(&mut output).expect("events");
    assert!(first.limited_status().expect("ended").success(), "{output}");
    assert!(retry.limited_status().expect("ended").success() && output.contains("\"moved\":0"), "{output}");
    drop(held);
}

/// Two versions with the same size and time must not be mixed in one file.
#[test]
fn does_not_resume_a_replaced_file_of_equal_size_and_time() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    let version = |content: u8, name: &str| {
        let file = fs::File::create(home.0.join(name)).expect("a file");
        (&file).write_all(&vec![content; 60 << 20]).expect("written");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("a time");
    };
    version(b'a', "src/file");
    let mut child = start_slow_copy(&home, &["-r", "src/"], "dst", "20M", 24 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    version(b'b', "other");
    fs::rename(home.0.join("other"), home.0.join("src/file")).expect("another version");
    copy(&home, &["-r", "src/", "dst"]).ok();
    let there = fs::read(home.0.join("dst/file")).expect("a file");
    assert!(
        there == vec![b'b'; 60 << 20],
        "{} bytes of the first version",
        there.iter().filter(|b| **b == b'a').count()
    );
}

/// Writing to a file in place also changes its other hard links: here the source and a snapshot.
#[test]
fn inplace_does_not_write_to_hard_links_outside_the_destination() {
    let home = Home::new();
    files(&home, &["from/file", "to/old", "live/log"]);
    fs::hard_link(home.0.join("from/file"), home.0.join("to/file")).expect("a link");
    copy(&home, &["-r", "-I", "--inplace", "from/", "to/"]).ok();
    let content = |name: &str| fs::read_to_string(home.0.join(name)).expect("a file");
    assert_eq!(["from/file", "to/file"].map(content), ["from/file"; 2]);
    fs::create_dir(home.0.join("snapshot")).expect("a folder");
    fs::hard_link(home.0.join("live/log"), home.0.join("snapshot/log")).expect("a link");
    fs::rename(home.0.join("live/log"), home.0.join("live/log.1")).expect("rotated");
    home.file("live/log", "new");
    copy(&home, &["-r", "--inplace", "live/", "snapshot/"]).ok();
    let names = ["live/log", "live/log.1", "snapshot/log", "snapshot/log.1"];
    assert_eq!(names.map(content), ["new", "live/log", "new", "live/log"]);
}

/// Set-ID bits apply to the owner of the old file; the new file may have another owner.
#[test]
fn replaced_file_does_not_pass_on_its_set_id_bits() {
    let home = Home::new();
    files(&home, &["from/tool", "to/tool"]);
    set_mode(&home, "to/tool", 0o6755);
    home.file("from/tool", "new");
    copy(&home, &["-r", "from/", "to/"]).ok();
    assert_eq!(mode(&home, "to/tool"), 0o755);
}

#[test]
fn new_destination_gets_the_mode_of_the_source() {
    let home = Home::new();
    files(&home, &["private/file"]);
    set_mode(&home, "private", 0o700);
    copy(&home, &["-r", "private/", "new"]).ok();
    assert_eq!(mode(&home, "new"), 0o700);
}

/// `numaio copy FILE /dev/null` would remove the device.
#[test]
fn does_not_replace_a_pipe_or_socket_named_as_destination() {
    let home = Home::new();
    files(&home, &["from"]);
    fifo(&home, "pipe");
    copy(&home, &["from", "pipe"]).failed(3, &["pipe: a pipe with this name exists"]);
    let socket = UnixListener::bind(home.0.join("socket")).expect("a socket");
    copy(&home, &["from", "socket"]).failed(3, &["socket: a socket with this name exists"]);
    drop(socket);
}

#[test]
fn does_not_copy_the_destination_into_itself() {
    let home = Home::new();
    files(&home, &["tree/a", "tree/sub/b", "tree/to/old"]);
    for (from, to) in [("tree/", "tree/to"), ("tree", "tree/to"), ("tree/", "tree/new")] {
        copy(&home, &["-r", from, to]).ok();
    }
    assert!(exists(&home, "tree/to/sub/b") && exists(&home, "tree/to/tree/sub/b"));
    assert!(!exists(&home, "tree/to/to") && !exists(&home, "tree/to/tree/to"));
    assert!(exists(&home, "tree/new/to/tree/a") && !exists(&home, "tree/new/new"));
}

/// As mkdir(2) does, unless the copy preserves groups.
#[test]
fn new_directories_inherit_setgid() {
    let home = Home::new();
    files(&home, &["from/folder/below/file", "to/old"]);
    set_mode(&home, "to", 0o2775);
    copy(&home, &["-r", "from/", "to/"]).ok();
    assert_eq!(["to/folder", "to/folder/below"].map(|name| mode(&home, name) & 0o7000), [0o2000; 2]);
    fs::create_dir(home.0.join("kept")).expect("a folder");
    set_mode(&home, "kept", 0o2775);
    copy(&home, &["-a", "from/", "kept/"]).ok();
    assert_eq!(mode(&home, "kept/folder") & 0o7000, 0);
}

#[test]
fn first_of_several_sources_with_the_same_name_wins() {
    let home = Home::new();
    files(&home, &["one/q/f", "two/q/f", "two/q/g", "q"]);
    for (round, sources) in
        [["one/q", "two/q"], ["one/", "two/"], ["two/q/", "one/q/"]].iter().cycle().take(30).enumerate()
    {
        let to = format!("to{round}");
        fs::create_dir(home.0.join(&to)).expect("a folder");
        copy(&home, &["-r", sources[0], sources[1], &to]).ok();
        let found = ["q/f", "f"].iter().find_map(|name| fs::read(home.0.join(&to).join(name)).ok());
        let first = if sources[0].starts_with("one") { "one/q/f" } else { "two/q/f" };
        assert_eq!(found.as_deref(), Some(first.as_bytes()), "{sources:?}");
    }
}

#[test]
fn missing_source_creates_nothing() {
    let home = Home::new();
    copy(&home, &["absent", "new"]).failed(3, &["absent: no such file or directory"]);
    assert!(!exists(&home, "new"));
    files(&home, &["absent"]);
    copy(&home, &["absent", "new"]).ok();
    assert!(home.0.join("new").is_file());
}

#[test]
fn skips_sockets() {
    let home = Home::new();
    files(&home, &["from/file", "to/old"]);
    let _socket = UnixListener::bind(home.0.join("from/socket")).expect("a socket");
    copy(&home, &["-a", "--delete", "from/", "to/"]).ok();
    assert!(exists(&home, "to/file") && !exists(&home, "to/old") && !exists(&home, "to/socket"));
}

#[test]
fn manifest_is_written_through_links_and_pipes() {
    let home = Home::new();
    files(&home, &["from/file", "real"]);
    symlink("real", home.0.join("link")).expect("a link");
    fs::set_permissions(home.0.join("real"), fs::Permissions::from_mode(0o604)).expect("a mode");
    // Only root can change its owner.
    let _ = chown(home.0.join("real"), Some(65_534), Some(65_534));
    let owner =
        || fs::metadata(home.0.join("real")).map(|it| (it.uid(), it.gid(), it.mode())).expect("a file");
    let before = owner();
    copy(&home, &["-r", "--manifest", "link", "from/", "to/"]).ok();
    assert_eq!(owner(), before);
    assert!(fs::symlink_metadata(home.0.join("link")).expect("a link").is_symlink());
    let manifest = fs::read_to_string(home.0.join("real")).expect("a manifest");
    assert!(manifest.ends_with("  file\n"), "{manifest}");
    // The manifest goes to standard output, so other output goes to standard error.
    let output = copy(&home, &["-rv", "--manifest", "-", "from/", "to/"]);
    assert_eq!((output.code, &output.out, exists(&home, "-")), (Some(0), &manifest, false));
    assert!(output.err.contains("unchanged"), "{}", output.err);
    copy(&home, &["-r", "--json", "--manifest", "-", "from/", "to/"]).failed(2, &["standard output"]);
    fifo(&home, "fifo");
    let mut reader =
        home.command("cat", &["fifo"]).stdout(std::process::Stdio::piped()).spawn().expect("cat");
    copy(&home, &["-r", "--manifest", "fifo", "from/", "to/"]).ok();
    let read = reader.limited_output().expect("cat").stdout;
    assert_eq!(String::from_utf8_lossy(&read), manifest);
}

#[test]
fn delete_keeps_a_manifest_inside_the_destination() {
    let home = Home::new();
    files(&home, &["from/file", "to/old", "to/sums.part"]);
    for _ in 0..2 {
        copy(&home, &["-r", "--delete", "--manifest", "to/sums", "from/", "to/"]).ok();
        let manifest = fs::read_to_string(home.0.join("to/sums")).expect("a manifest");
        assert!(manifest.ends_with("  file\n"), "{manifest}");
        assert_eq!(fs::read_dir(home.0.join("to")).expect("a folder").count(), 2);
    }
}

#[test]
fn bwlimit_of_zero_means_no_limit() {
    let home = Home::new();
    home.file("large", &"x".repeat(3 << 20));
    copy(&home, &["--bwlimit", "0", "large", "there"]).ok();
    assert_eq!(fs::metadata(home.0.join("there")).expect("a file").len(), 3 << 20);
}

/// A program that ran as its owner must not run as the user who copied it.
#[test]
fn set_id_bits_need_the_owner() {
    let home = Home::new();
    files(&home, &["from/program", "from/plain"]);
    let is_root = fs::metadata(home.0.join("from")).expect("a folder").uid() == 0;
    let without = ["setpriv", "--bounding-set=-chown", "--inh-caps=-chown"];
    let can = is_root
        && Command::new("setpriv")
            .args([without[1], without[2], "true"])
            .limited_status()
            .is_ok_and(|done| done.success());
    if !can {
        return skipped("set-ID bits of owners that cannot be set: needs root and setpriv");
    }
    for name in ["from/program", "from/plain"] {
        std::os::unix::fs::chown(home.0.join(name), Some(1000), Some(1000)).expect("an owner");
    }
    set_mode(&home, "from/program", 0o6755);
    set_mode(&home, "from/plain", 0o750);
    let by = home.command_by(&without, &["copy", "-a", "from/", "to/"]).limited_output().expect("numaio");
    CommandOutput::of(by).failed(5, &["cannot set owner"]);
    assert_eq!((mode(&home, "to/program"), mode(&home, "to/plain")), (0o755, 0o750));
    copy(&home, &["-a", "from/", "to/"]).ok();
    assert_eq!(mode(&home, "to/program"), 0o6755, "once the owner can be set, the mode is complete");
}

/// Without root, numaio cannot set owners; a program that ran as root must not run as another user.
#[test]
fn unprivileged_copy_drops_set_id_bits_of_other_owners() {
    const OTHER_ID: u32 = 65_534;
    let home = Home::new();
    let programs =
        [("roots", 0, 5, 0o755), ("own", OTHER_ID, OTHER_ID, 0o6755), ("group", 0, OTHER_ID, 0o2755)];
    let given = programs.iter().all(|(name, user, group, _)| {
        files(&home, &[&format!("from/{name}")]);
        let given = chown(home.0.join("from").join(name), Some(*user), Some(*group)).is_ok();
        set_mode(&home, &format!("from/{name}"), 0o6755);
        given
    });
    fs::create_dir(home.0.join("to")).expect("a folder");
    if !given || chown(home.0.join("to"), Some(OTHER_ID), Some(OTHER_ID)).is_err() {
        return skipped("files of several users: needs root");
    }
    let by = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !home.command_by(&by, &["--version"]).limited_output().is_ok_and(|output| output.status.success()) {
        return skipped("another user: needs setpriv, and a numaio that other users can run");
    }
    let again = || home.command_by(&by, &["copy", "--no-job", "-a", "from/", "to/"]).limited_output();
    CommandOutput::of(again().expect("numaio")).ok();
    let modes = || programs.map(|(name, ..)| mode(&home, &format!("to/{name}")));
    assert_eq!(modes(), programs.map(|(.., mode)| mode));
    let changed = |name| fs::metadata(home.0.join("to").join(name)).expect("a file").ctime_nsec();
    let before = programs.map(|(name, ..)| changed(name));
    CommandOutput::of(again().expect("numaio")).ok();
    assert_eq!(programs.map(|(name, ..)| changed(name)), before, "the second run changed a file");
}

#[test]
fn file_beyond_the_size_limit_fails_alone() {
    let home = Home::new();
    files(&home, &["from/small", "from/other"]);
    home.file("from/large", &"x".repeat(3 << 20));
    let output =
        home.command_by(&["prlimit", "--fsize=1000000"], &["copy", "-r", "from/", "to/"]).limited_output();
    CommandOutput::of(output.expect("prlimit")).failed(3, &["large: cannot write: file too large"]);
    assert!(!exists(&home, "to/large") && exists(&home, "to/small") && exists(&home, "to/other"));
}

#[test]
fn messages_contain_no_terminal_escapes() {
    let home = Home::new();
    let output = copy(&home, &["\u{1b}]0;own\u{7}:y", "to"]);
    assert!(!output.err.contains(['\u{1b}', '\u{7}']) && output.err.contains("hint"), "{:?}", output.err);
    assert!(!Path::new(&home.path("to")).exists());
}

/// An interrupted run leaves no mode that a later one takes for its own.
#[test]
fn keeps_the_mode_of_existing_directories() {
    for bits in [0o1700, 0o3700, 0o1777, 0o2750, 0o555, 0o700] {
        let home = Home::new();
        files(&home, &["from/p/file"]);
        files(&home, &["to/p/old"]);
        set_mode(&home, "to/p", bits);
        copy(&home, &["-r", "from/", "to"]).ok();
        assert_eq!(mode(&home, "to/p"), bits, "{bits:o}");
    }
}
