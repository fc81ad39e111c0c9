//! Options that select what is copied, compared with rsync.

use crate::support::{skipped, CommandOutput, Home, Limited};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::Path;
use std::process::Command;

/// Runs a script in a mount namespace, in the home. `$numaio` is the program, with an ssh that runs
/// commands here. `None` without the right to mount.
fn with_mounts(home: &Home, script: &str) -> Option<CommandOutput> {
    let ssh = home.local_ssh();
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).current_dir(&home.0);
    command.env("HOME", &home.0).env("numaio", env!("CARGO_BIN_EXE_numaio")).env("NUMAIO_SSH", ssh);
    let output = CommandOutput::of(command.limited_output().ok()?);
    if output.code == Some(99) || output.err.starts_with("unshare:") {
        skipped(format_args!("a mount namespace: {}", output.err));
        return None;
    }
    Some(output)
}

#[test]
fn one_file_system_copies_mount_points_as_empty_directories() {
    let home = Home::new();
    for folder in ["src/a/mounted", "src/b", "rsync", "numaio", "remote", "back/a/mounted"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    home.file("src/b/f", "f");
    home.file("back/a/mounted/kept", "kept");
    home.file("back/a/extra", "extra");
    let script = "mount -t tmpfs none src/a/mounted || exit 99
echo inside > src/a/mounted/inside
for to in numaio remote rsync; do
    case $to in
        rsync) command -v rsync > rsync-found || { cp -r numaio rsync; continue; }; rsync -rx src/ rsync;;
        remote) $numaio copy -rqx --remote-numaio $numaio src/ host:remote;;
        numaio) $numaio copy -rqx src/ numaio;;
    esac
    (cd $to && find . | sort | tr '\\n' ' ')
    echo
done
$numaio copy -rqx --delete src/ back || exit
find back | sort | tr '\\n' ' '; echo
$numaio copy -rqx src/a/mounted/ inside || exit
ls inside";
    let Some(output) = with_mounts(&home, script) else { return };
    let tree = ". ./a ./a/mounted ./b ./b/f ";
    let back = "back back/a back/a/mounted back/a/mounted/kept back/b back/b/f ";
    assert_eq!(output.ok(), format!("{tree}\n{tree}\n{tree}\n{back}\ninside\n"));
}

/// Lists the entries below a directory, with the contents of files and the targets of links.
fn contents(root: &Path) -> Vec<String> {
    fn add(root: &Path, folder: &str, lines: &mut Vec<String>) {
        for entry in fs::read_dir(root.join(folder)).expect("a folder").map(|entry| entry.expect("an entry"))
        {
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() {
                lines.push(format!("{name}/"));
                add(root, &format!("{name}/"), lines);
            } else if kind.is_symlink() {
                lines.push(format!("{name} -> {}", fs::read_link(entry.path()).expect("a link").display()));
            } else {
                lines.push(format!("{name}: {}", fs::read_to_string(entry.path()).expect("a file")));
            }
        }
    }
    let mut lines = Vec::new();
    add(root, "", &mut lines);
    lines.sort_unstable();
    lines
}

/// Copies `src/` to a copy of `dst` by rsync, numaio, and numaio by ssh, and checks that all have
/// the same result.
fn same_as_rsync(home: &Home, args: &[&str], expected: &[&str]) {
    let ssh = home.local_ssh();
    for (to, program) in [("rsync", "rsync"), ("local", "numaio"), ("remote", "numaio"), ("back", "numaio")] {
        CommandOutput::of(home.command("cp", &["-a", "dst", to]).limited_output().expect("cp")).ok();
        let remote = ["--remote-numaio", env!("CARGO_BIN_EXE_numaio")];
        let mut command = match to {
            "rsync" => home.command(program, &[args, &["src/", to]].concat()),
            "remote" => home.numaio(&[&["copy"], args, &remote, &["src/", "host:remote"]].concat()),
            "back" => home.numaio(&[&["copy"], args, &remote, &["host:src/", to]].concat()),
            _ => home.numaio(&[&["copy"], args, &["src/", to]].concat()),
        };
        match command.env("NUMAIO_SSH", &ssh).limited_output() {
            Ok(output) => {
                drop(CommandOutput::of(output).ok());
                assert_eq!(contents(&home.0.join(to)), expected, "{to} {args:?}");
            }
            Err(_) => skipped("no rsync to compare with"),
        }
        fs::remove_dir_all(home.0.join(to)).expect("removed");
    }
}

#[test]
fn existing_and_ignore_existing_select_as_rsync_does() {
    let home = Home::new();
    for folder in ["src/both/new", "src/only/deep", "dst/both", "dst/extra"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    let files = ["src/both/f", "src/both/g", "src/both/new/h", "src/only/deep/i", "src/j"];
    files.iter().for_each(|name| drop(home.file(name, "new content")));
    ["dst/both/f", "dst/extra/k", "dst/j"].iter().for_each(|name| drop(home.file(name, "old")));
    symlink("target", home.0.join("src/both/link")).expect("a link");
    fs::hard_link(home.0.join("src/j"), home.0.join("src/both/second")).expect("a link");
    let existing = ["both/", "both/f: new content", "extra/", "extra/k: old", "j: new content"];
    same_as_rsync(&home, &["-rlH", "--existing"], &existing);
    same_as_rsync(&home, &["-rlHc", "--existing"], &existing);
    let deleted = [&existing[..2], &existing[4..]].concat();
    same_as_rsync(&home, &["-rlH", "--existing", "--delete"], &deleted);
    let unchanged = ["both/", "both/f: old", "extra/", "extra/k: old", "j: old"];
    same_as_rsync(&home, &["-rlH", "--existing", "--ignore-existing"], &unchanged);
    fs::remove_file(home.0.join("src/both/second")).expect("removed");
    let ignored = [
        "both/",
        "both/f: old",
        "both/g: new content",
        "both/link -> target",
        "both/new/",
        "both/new/h: new content",
        "extra/",
        "extra/k: old",
        "j: old",
        "only/",
        "only/deep/",
        "only/deep/i: new content",
    ];
    same_as_rsync(&home, &["-rl", "--ignore-existing"], &ignored);
    // Nothing exists there, so that not even the destination is created.
    home.run(&["copy", "-r", "--existing", "--fsync", "end", "src/", "none"]).ok();
    assert!(!home.0.join("none").exists());
}

#[test]
fn hard_links_to_skipped_files_are_not_created() {
    let home = Home::new();
    ["src", "dst"].iter().for_each(|folder| fs::create_dir(home.0.join(folder)).expect("a folder"));
    home.file("src/a", "new content");
    fs::hard_link(home.0.join("src/a"), home.0.join("src/b")).expect("a link");
    home.file("dst/a", "old");
    let refused = ["b: not linked: 'a' was skipped"];
    home.run(&["copy", "-r", "--ignore-existing", "src/", "dst"]).failed(3, &refused);
    assert_eq!(fs::read_to_string(home.0.join("dst/a")).expect("a file"), "old");
    fs::rename(home.0.join("dst/a"), home.0.join("dst/b")).expect("renamed");
    home.run(&["copy", "-r", "--existing", "src/", "dst"]).failed(3, &refused);
    assert_eq!(fs::read_to_string(home.0.join("dst/b")).expect("a file"), "old");
}

#[test]
fn copied_links_become_their_targets() {
    let home = Home::new();
    for folder in ["src/folder/deep", "outside/sub", "dst"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    home.file("src/folder/deep/f", "f");
    home.file("outside/sub/g", "g");
    fs::write(home.0.join("outside/large"), vec![b'x'; 3 << 20]).expect("a file");
    for (name, target) in [
        ("file", "folder/deep/f"),
        ("chain", "file"),
        ("directory", "folder"),
        ("relative", "../outside/sub"),
        ("absolute", &home.path("outside/large")),
        ("folder/up", "deep/f"),
    ] {
        symlink(target, home.0.join("src").join(name)).expect("a link");
    }
    let large = format!("absolute: {}", "x".repeat(3 << 20));
    let expected = [
        &large,
        "chain: f",
        "directory/",
        "directory/deep/",
        "directory/deep/f: f",
        "directory/up: f",
        "file: f",
        "folder/",
        "folder/deep/",
        "folder/deep/f: f",
        "folder/up: f",
        "relative/",
        "relative/g: g",
    ];
    for args in [&["-rL"][..], &["-aL"], &["-rL", "-c"]] {
        same_as_rsync(&home, args, &expected);
    }
    let listed = home.file("list", "directory/up\nchain\nrelative\n");
    let args = ["-rL", "--files-from", &listed];
    let copied = ["chain: f", "directory/", "directory/up: f", "relative/", "relative/g: g"];
    home.run(&[&["copy"], &args[..], &["src/", "listed"]].concat()).ok();
    assert_eq!(contents(&home.0.join("listed")), copied);
    // A link as the source.
    home.run(&["copy", "-L", "src/chain", "one"]).ok();
    home.run(&["copy", "-rL", "src/directory", "two"]).ok();
    assert_eq!(fs::read_to_string(home.0.join("one")).expect("a file"), "f");
    assert!(home.0.join("two/directory/up").is_file() && !home.0.join("one").is_symlink());
}

#[test]
fn copied_links_keep_extended_attributes_and_hard_links() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src")).expect("a folder");
    home.file("one", "content");
    fs::hard_link(home.0.join("one"), home.0.join("two")).expect("a link");
    let set = rustix::fs::setxattr(home.0.join("one"), "user.x", b"value", XattrFlags::empty());
    symlink("../one", home.0.join("src/a")).expect("a link");
    symlink("../two", home.0.join("src/b")).expect("a link");
    home.run(&["copy", "-aL", "src/", "dst"]).ok();
    let [a, b] = ["dst/a", "dst/b"].map(|name| fs::symlink_metadata(home.0.join(name)).expect("a file"));
    assert!(a.is_file() && a.ino() == b.ino() && a.nlink() == 2);
    if set == Err(Errno::NOTSUP) {
        return skipped("extended attributes: not supported by the file system");
    }
    let mut value = [0; 10];
    assert_eq!(rustix::fs::getxattr(home.0.join("dst/b"), "user.x", &mut value), Ok(5));
}

#[test]
fn broken_and_circular_links_fail_alone() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/folder/deep")).expect("a folder");
    home.file("src/f", "f");
    for (name, target) in [
        ("dangling", "none"),
        ("self", "self"),
        ("ping", "pong"),
        ("pong", "ping"),
        ("folder/root", ".."),
        ("folder/deep/above", "../../folder"),
        ("through", "f/x"),
    ] {
        symlink(target, home.0.join("src").join(name)).expect("a link");
    }
    let messages = [
        "dangling: the target of this symbolic link does not exist",
        "through: the target of this symbolic link does not exist",
        "self: this symbolic link is part of a loop",
        "ping: this symbolic link is part of a loop",
        "folder/root: this symbolic link leads to a directory that contains it",
        "folder/deep/above: this symbolic link leads to a directory that contains it",
    ];
    home.run(&["copy", "-rL", "src/", "dst"]).failed(3, &messages);
    assert_eq!(contents(&home.0.join("dst")), ["f: f", "folder/", "folder/deep/"]);
    home.run(&["copy", "-L", "src/dangling", "to"]).failed(3, &messages[..1]);
    // The source is reached through a link into itself.
    let args = ["copy", "-rL", "src/folder/deep/above/", "again"];
    home.run(&args).failed(3, &["numaio: deep/above: this symbolic link leads to a directory"]);
    assert_eq!(contents(&home.0.join("again")), ["deep/", "root/", "root/f: f"]);
}
