//! `numaio copy` of local trees: copied files, reports, and the state after a kill.

use crate::slow_copy::start_slow_copy;
use crate::support::{content, CommandOutput, Home, Limited};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy"], args].concat())
}

/// Maps every path below a directory to its content and metadata, without following links.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut tree = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        let found = fs::symlink_metadata(&path).expect("a file");
        let kind = found.file_type();
        let content = if kind.is_file() {
            format!("{:?}", blake(&path))
        } else if kind.is_symlink() {
            format!("{:?}", fs::read_link(&path).expect("a link"))
        } else {
            format!("{kind:?} {}", found.rdev())
        };
        let mode = if kind.is_symlink() { 0 } else { found.mode() };
        let time = (found.mtime(), found.mtime_nsec());
        let links = if kind.is_dir() { 0 } else { found.nlink() };
        let name = path.strip_prefix(root).expect("below").to_owned();
        let text = format!("{mode:o} {time:?} {} {} {links} {content}", found.uid(), found.gid());
        tree.insert(name, text);
        if kind.is_dir() {
            rest.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
    tree
}

fn blake(path: &Path) -> String {
    let content = fs::read(path).unwrap_or_default();
    let digest = numaio_mover::hash::HashKind::Blake3.function()(&content);
    format!("{} {:?}", content.len(), &digest.0[..8])
}

fn same(home: &Home, one: &str, other: &str) {
    let (one, other) = (tree(&home.0.join(one)), tree(&home.0.join(other)));
    let names = |tree: &BTreeMap<PathBuf, String>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (name, what) in &one {
        assert_eq!(Some(what), other.get(name), "{}", name.display());
    }
}

/// Creates a tree with every kind of object that an unprivileged user can create.
fn everything(home: &Home) {
    let src = home.0.join("src");
    for folder in ["d/e", "empty", "closed"] {
        fs::create_dir_all(src.join(folder)).expect("a folder");
    }
    for (name, size) in
        [("a", 3), ("zero", 0), ("d/block", 1 << 20), ("d/more", (1 << 20) + 1), ("d/big", 5_000_000)]
    {
        fs::write(src.join(name), content(size, size as u8)).expect("a file");
    }
    for index in 0..200 {
        fs::write(src.join(format!("d/e/{index}")), content(index * 7, 1)).expect("a file");
    }
    fs::write(src.join(OsStr::from_bytes(b"\xff\n\x1b[2J ")), b"odd").expect("a name of bytes");
    let sparse = fs::File::create(src.join("sparse")).expect("a file");
    sparse.set_len(50 << 20).expect("a hole");
    std::os::unix::fs::FileExt::write_at(&sparse, b"data", 20_000_000).expect("written");
    fs::File::create(src.join("hole")).and_then(|hole| hole.set_len(30 << 20)).expect("a hole");
    symlink("a", src.join("link")).expect("a link");
    symlink("/nowhere/at/all", src.join("d/out")).expect("a link");
    fs::hard_link(src.join("a"), src.join("d/hard")).expect("a link");
    let made = Command::new("mkfifo").arg(src.join("pipe")).limited_status().expect("mkfifo");
    assert!(made.success());
    for (name, mode) in [("a", 0o4711), ("d/big", 0o400), ("closed", 0o555), ("d/e", 0o700)] {
        fs::set_permissions(src.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let old = std::time::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for name in ["d/e/5", "d/e", "d"] {
        fs::File::open(src.join(name)).and_then(|file| file.set_modified(old)).expect("a time");
    }
}

#[test]
fn copies_everything_and_nothing_twice() {
    let home = Home::new();
    everything(&home);
    let output = copy(&home, &["-a", "src/", "dst"]).ok();
    assert!(output.contains(" moved, ") && !output.contains("failed"), "{output}");
    same(&home, "src", "dst");
    let allocated = fs::metadata(home.0.join("dst/sparse")).expect("a file").blocks() * 512;
    assert!(allocated < 1 << 20, "{allocated} bytes of a file with holes");
    let rsync = home.command("rsync", &["-aHXin", "--delete", "src/", "dst/"]).limited_output();
    match rsync {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "", "rsync reports differences"),
        Err(_) => skipped("no rsync to check the copy"),
    }
    let again = copy(&home, &["-a", "src/", "dst"]).ok();
    assert!(again.starts_with("0 moved, "), "{again}");
    // Attributes alone.
    fs::set_permissions(home.0.join("src/d/more"), fs::Permissions::from_mode(0o640)).expect("a mode");
    let attributes_set = copy(&home, &["-av", "src/", "dst"]).ok();
    assert!(attributes_set.starts_with("attributes: d/more\n1 moved"), "{attributes_set}");
    same(&home, "src", "dst");
}

#[test]
fn trailing_slashes_mean_what_they_mean_to_rsync() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/d")).expect("a folder");
    home.file("src/d/x", "x");
    home.file("one", "1");
    home.file("two", "2");
    let there = |name: &str| home.0.join(name).exists();
    copy(&home, &["-r", "src/d", "to"]).ok();
    assert!(there("to/d/x"));
    copy(&home, &["-r", "src/d/", "to2"]).ok();
    assert!(there("to2/x") && !there("to2/d"));
    copy(&home, &["one", "other"]).ok();
    assert_eq!(fs::read(home.0.join("other")).ok(), Some(b"1".to_vec()));
    copy(&home, &["one", "two", "both"]).ok();
    assert!(there("both/one") && there("both/two"));
    copy(&home, &["one", "new/"]).ok();
    assert!(there("new/one"));
    copy(&home, &["-r", "src/d", "one", "to2"]).ok();
    assert!(there("to2/d/x") && there("to2/one"));
    let output = copy(&home, &["src/d", "nothing"]);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(output.err.contains("is a directory"), "{}", output.err);
    let output = copy(&home, &["absent", "to"]);
    assert!(
        output.code == Some(3) && output.err.contains("absent: no such file or directory (source)"),
        "{}",
        output.err
    );
}

#[test]
fn copies_many_small_files() {
    let home = Home::new();
    for folder in 0..50 {
        let folder = home.0.join(format!("src/{folder}"));
        fs::create_dir_all(&folder).expect("a folder");
        for file in 0..100 {
            fs::write(folder.join(file.to_string()), content(file * 40, file as u8)).expect("a file");
        }
    }
    let output = copy(&home, &["-r", "--hash", "blake3", "src/", "dst"]).ok();
    assert!(output.starts_with("5051 moved, 0 unchanged"), "{output}");
    let content = |tree: BTreeMap<PathBuf, String>| {
        tree.into_iter().map(|(name, what)| (name, what.split(' ').skip(6).collect::<String>()))
    };
    assert!(content(tree(&home.0.join("src"))).eq(content(tree(&home.0.join("dst")))));
}

#[test]
fn filters_deletions_and_dry_runs() {
    let home = Home::new();
    for name in ["src/keep", "src/skip.o", "src/keep.o", "src/d/x", "dst/own", "dst/own.o", "dst/d/y"] {
        fs::create_dir_all(home.0.join(name).parent().expect("a folder")).expect("a folder");
        home.file(name, name);
    }
    let rules = ["--include", "keep.o", "--exclude", "*.o", "--delete", "-r"];
    let before = tree(&home.0.join("dst"));
    let would = copy(&home, &[&["-n"], &rules[..], &["src/", "dst"]].concat()).ok();
    for line in
        ["would be copied: keep.o", "would be copied: d/x", "would be removed: own", "would be removed: d/y"]
    {
        assert!(would.contains(&format!("{line}\n")), "{line} is not in {would}");
    }
    assert!(!would.contains("skip.o") && !would.contains("own.o"), "{would}");
    assert_eq!(tree(&home.0.join("dst")), before, "the dry run changed the destination");
    let did = copy(&home, &[&rules[..], &["--json", "src/", "dst"]].concat()).ok();
    let lines: Vec<serde_json::Value> =
        did.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let removed = lines.iter().filter(|line| line["action"] == "removed").count();
    let end = lines.last().expect("an end");
    assert_eq!((removed, &end["removed"], &end["done"]), (2, &2.into(), &true.into()));
    let mut names: Vec<String> =
        tree(&home.0.join("dst")).into_keys().map(|name| name.to_string_lossy().into()).collect();
    names.sort();
    assert_eq!(names, ["", "d", "d/x", "keep", "keep.o", "own.o"]);
    // Newer at the destination, with --update.
    fs::write(home.0.join("dst/keep"), "newer").expect("a file");
    copy(&home, &["-ru", "src/", "dst"]).ok();
    assert_eq!(fs::read(home.0.join("dst/keep")).ok(), Some(b"newer".to_vec()));
    // In place, so that its hard links change, too.
    let inode = fs::metadata(home.0.join("dst/keep")).expect("a file").ino();
    copy(&home, &["-r", "--inplace", "src/", "dst"]).ok();
    assert_eq!(fs::read(home.0.join("dst/keep")).ok(), Some(b"src/keep".to_vec()));
    assert_eq!(fs::metadata(home.0.join("dst/keep")).expect("a file").ino(), inode);
}

/// An entry lists only large holes: small ones within a block are sent as zeros and recreated.
#[test]
fn preserves_many_holes() {
    let home = Home::new();
    let file = fs::File::create(home.0.join("sparse")).expect("a file");
    let pages: Vec<u64> =
        (0..40).flat_map(|far| (0..128).map(move |near| (far << 23) + (near << 13))).collect();
    for &page in &pages {
        file.write_all_at(&content(4_096, (page >> 13) as u8 | 1), page).expect("a page");
    }
    file.set_len(330 << 20).expect("a hole at the end");
    copy(&home, &["sparse", "there"]).ok();
    copy(&home, &["--inplace", "--update", "sparse", "in-place"]).failed(2, &["cannot be used with"]);
    copy(&home, &["--inplace", "sparse", "in-place"]).ok();
    let blocks = |name: &str| fs::metadata(home.0.join(name)).expect("a file").blocks();
    for name in ["there", "in-place"] {
        assert!(blocks(name) <= blocks("sparse") * 21 / 20, "{} of {}", blocks(name), blocks("sparse"));
        let same = home.command("cmp", &["sparse", name]).limited_status().expect("cmp");
        assert!(same.success(), "{name} differs");
    }
}

/// Blocks allocated beyond the end of a file are not data.
#[test]
fn preserves_holes_of_a_file_with_blocks_beyond_its_end() {
    let home = Home::new();
    fs::File::create(home.0.join("src")).expect("a file").set_len(50 << 20).expect("a hole");
    let preallocate = ["-n", "-o", "52428800", "-l", "52428800", "src"];
    let made = home.command("fallocate", &preallocate).limited_status();
    let blocks = |name: &str| fs::metadata(home.0.join(name)).expect("a file").blocks() * 512;
    if !made.is_ok_and(|made| made.success()) || blocks("src") < 50 << 20 {
        return skipped(
            "blocks beyond the end of a file: needs fallocate and a file system that supports it",
        );
    }
    copy(&home, &["src", "there"]).ok();
    assert_eq!((fs::metadata(home.0.join("there")).expect("a file").len(), blocks("there")), (50 << 20, 0));
}

#[test]
fn accepts_options_anywhere_and_redundant_ones() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/file", "content");
    copy(&home, &["src/", "-aHAXS", "dst", "-v"]).ok();
    assert!(home.0.join("dst/file").exists());
    copy(&home, &["-rX", "src/", "dst"]).failed(2, &["--archive"]);
}

#[test]
fn reports_usage_errors() {
    let home = Home::new();
    home.file("f", "f");
    for (args, message) in [
        (&["f"][..], "expected SRC and DST"),
        (&["--delete", "f", "g"], "--delete needs directories"),
        (&["a:f", "b:f", "g"], "the sources are on different hosts"),
        (&["-oProxyCommand=x:f", "g"], "unexpected"),
        (&["--", "-oProxyCommand=x:f", "g"], "names no host"),
        (&["--exclude", "", "f", "g"], "pattern"),
        (&["--threads", "129", "f", "g"], "expected an integer from 1 to 128"),
        (&["--machine", "amd-2p", "f", "g"], "cannot be combined with --machine"),
    ] {
        let output = copy(&home, args);
        assert!(
            output.code == Some(2) && output.err.contains(message),
            "{args:?}: {:?} {}",
            output.code,
            output.err
        );
    }
    let output = copy(&home, &["-r", "f", "f/g/"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
}

#[test]
fn reports_unreadable_files_and_copies_the_others() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/locked")).expect("a folder");
    home.file("src/secret", "secret");
    home.file("src/open", "open");
    for name in ["src/secret", "src/locked"] {
        fs::set_permissions(home.0.join(name), fs::Permissions::from_mode(0o0)).expect("a mode");
    }
    let mut command = as_unprivileged_user(&home, &["copy", "-r", "src/", "dst"]);
    let Ok(output) = command.limited_output() else { return skipped("another user: needs setpriv") };
    if !home.0.join("dst").exists() {
        return skipped("another user cannot access the directory of the test");
    }
    let output = CommandOutput::of(output);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(
        output.err.contains("secret: cannot open for reading: permission denied (source)"),
        "{}",
        output.err
    );
    assert!(
        output.err.contains("locked: cannot list directory: permission denied (source)"),
        "{}",
        output.err
    );
    assert!(home.0.join("dst/open").exists() && !home.0.join("dst/secret").exists());
    fs::set_permissions(home.0.join("src/locked"), fs::Permissions::from_mode(0o700)).expect("a mode");
}

/// Root bypasses permissions, so this runs as another user, which becomes the owner of the home.
fn as_unprivileged_user(home: &Home, args: &[&str]) -> Command {
    if home.command("id", &["-u"]).limited_output().expect("id").stdout != b"0\n" {
        return home.numaio(args);
    }
    for path in tree(&home.0).into_keys() {
        drop(std::os::unix::fs::lchown(home.0.join(path), Some(65_534), Some(65_534)));
    }
    home.command_by(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], args)
}

/// An unprivileged user can set the groups that the user belongs to.
#[test]
fn unprivileged_user_sets_own_groups() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/file", "content");
    copy(&home, &["-r", "src/", "dst"]).ok();
    let mut command = as_unprivileged_user(&home, &["copy", "-a", "src/", "dst"]);
    let again: Vec<_> = command
        .get_args()
        .map(|arg| match arg.to_str() {
            Some("--clear-groups") => "--groups=65534,65533".into(),
            _ => arg.to_owned(),
        })
        .collect();
    let program = command.get_program().to_owned();
    if !again.iter().any(|arg| arg == "--groups=65534,65533") || command.limited_output().is_err() {
        return skipped("another user: needs setpriv");
    }
    std::os::unix::fs::chown(home.0.join("src/file"), None, Some(65_533)).expect("a group");
    let again = again.iter().map(|arg| arg.to_str().expect("text")).collect::<Vec<_>>();
    let output = CommandOutput::of(
        home.command(program.to_str().expect("text"), &again).limited_output().expect("numaio"),
    );
    if output.err.contains("dst: ") {
        return skipped("another user cannot access the directory of the test");
    }
    output.ok();
    assert_eq!(fs::metadata(home.0.join("dst/file")).expect("a file").gid(), 65_533);
}

#[test]
fn fills_read_only_directories_and_keeps_their_mode() {
    for option in ["-r", "-a"] {
        let home = Home::new();
        for folder in ["src/d", "dst/d"] {
            fs::create_dir_all(home.0.join(folder)).expect("a folder");
        }
        home.file("src/d/file", "content");
        let set = |mode| {
            let set = |folder| fs::set_permissions(home.0.join(folder), fs::Permissions::from_mode(mode));
            ["src/d", "dst/d"].into_iter().try_for_each(set).expect("a mode");
        };
        set(0o555);
        let Ok(output) = as_unprivileged_user(&home, &["copy", option, "src/", "dst"]).limited_output()
        else {
            return skipped("another user: needs setpriv");
        };
        let output = CommandOutput::of(output);
        if output.err.contains("dst: ") {
            return skipped("another user cannot access the directory of the test");
        }
        output.ok();
        let mode = |folder| fs::metadata(home.0.join(folder)).expect("a folder").permissions().mode() & 0o777;
        assert_eq!((mode("dst/d"), home.0.join("dst/d/file").exists()), (0o555, true), "{option}");
        set(0o755);
    }
}

#[test]
fn full_disk_is_reported_and_leaves_no_partial_files() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src")).expect("a folder");
    for index in 0..8 {
        fs::write(home.0.join(format!("src/{index}")), content(700_000 + index * 300_000, index as u8))
            .expect("a file");
    }
    fs::create_dir_all(home.0.join("small")).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=5m none small || exit 99; {} copy -r src/ small; echo code $?; cd small; ls -A; \
         for f in [0-9]*; do cmp $f ../src/$f || echo differs $f; done",
        env!("CARGO_BIN_EXE_numaio")
    );
    let output = CommandOutput::of(
        home.command("unshare", &["-rm", "sh", "-c", &script]).limited_output().expect("unshare"),
    );
    if !output.out.contains("code ") {
        return skipped("no permission to mount a small file system");
    }
    assert!(
        output.out.contains("code 3\n") && !output.out.contains("differs"),
        "{}\n{}",
        output.out,
        output.err
    );
    assert!(output.err.contains("no space left on device (destination)"), "{}", output.err);
    assert!(!output.out.contains(".numaio"), "{}", output.out);
}

#[test]
fn killed_copy_leaves_no_partial_names_and_resumes() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src")).expect("a folder");
    fs::write(home.0.join("src/large"), content(60 << 20, 1)).expect("a file");
    for index in 0..50 {
        fs::write(home.0.join(format!("src/{index}")), content(10_000 + index, index as u8)).expect("a file");
    }
    let mut child = start_slow_copy(&home, &["-a", "src/"], "dst", "20M", 24 << 20);
    child.kill().expect("killed");
    child.limited_status().expect("ended");
    assert!(!home.0.join("dst/large").exists(), "killed too late: the copy was complete");
    for index in 0..50 {
        let name = home.0.join(format!("dst/{index}"));
        assert!(!name.exists() || blake(&name) == blake(&home.0.join(format!("src/{index}"))));
    }
    // A dry run does not change the partial copy.
    let names = || fs::read_dir(home.0.join("dst")).expect("a folder").flatten().map(|name| name.file_name());
    let left: Vec<_> = names().collect();
    copy(&home, &["-an", "src/", "dst"]).ok();
    assert_eq!(names().collect::<Vec<_>>(), left);
    let output = copy(&home, &["-a", "src/", "dst"]).ok();
    assert!(output.contains(" resumed"), "{output}");
    same(&home, "src", "dst");
    // The same after an interrupt; also after two in quick succession, as timeout(1) sends them.
    let mut child = start_slow_copy(&home, &["-a", "src/"], "dst2", "20M", 24 << 20);
    let both = format!("kill -TERM {0}; kill -TERM {0}", child.id());
    assert!(home.command("sh", &["-c", &both]).limited_status().expect("a shell").success());
    assert_eq!(child.limited_output().expect("ended").status.code(), Some(130));
    copy(&home, &["-a", "src/", "dst2"]).ok();
    same(&home, "src", "dst2");
}

#[test]
fn copies_to_and_from_another_host() {
    let home = Home::new();
    everything(&home);
    let ssh = home.local_ssh();
    let remote_copy = |args: &[&str]| home.copy_by_local_ssh(args);
    let output = remote_copy(&["-a", "src/", "host:dst"]).ok();
    assert!(!output.contains("failed"), "{output}");
    same(&home, "src", "dst");
    remote_copy(&["-a", "host:src/", "back"]).ok();
    same(&home, "src", "back");
    remote_copy(&["host:src/d/big", "renamed"]).ok();
    assert_eq!(blake(&home.0.join("renamed")), blake(&home.0.join("src/d/big")));
    let output = remote_copy(&["host:absent", "here"]);
    assert!(output.code == Some(3) && output.err.contains("absent"), "{:?} {}", output.code, output.err);
    let output = remote_copy(&["src/a", "host:no/such/folder/"]);
    assert!(output.code == Some(1) && output.err.contains("no/such/folder"), "{}", output.err);
    let args = ["copy", "--remote-numaio", "/no/numaio", "src/a", "host:x"];
    let output =
        CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", &ssh).limited_output().expect("numaio"));
    assert!(output.code == Some(1) && output.err.contains("no numaio answers on host"), "{}", output.err);
}

#[test]
fn does_not_follow_links_at_the_destination() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/d/e")).expect("a folder");
    home.file("src/d/e/x", "new");
    home.file("src/f", "new");
    fs::create_dir_all(home.0.join("outside/e")).expect("a folder");
    home.file("outside/e/x", "old");
    home.file("outside/f", "old");
    fs::create_dir_all(home.0.join("dst")).expect("a folder");
    symlink("../outside", home.0.join("dst/d")).expect("a link");
    symlink("../outside/f", home.0.join("dst/f")).expect("a link");
    let before = tree(&home.0.join("outside"));
    copy(&home, &["-a", "src/", "dst"]).ok();
    assert_eq!(tree(&home.0.join("outside")), before);
    same(&home, "src", "dst");
    assert!(fs::metadata(home.0.join("src")).is_ok_and(|found| !found.file_type().is_fifo()));
}
