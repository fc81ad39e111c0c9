//! `--backup`: replaced files are kept.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;

/// Runs a copy; every host name leads to this machine.
fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$*\"\n";
    let ssh = home.file("ssh", script);
    fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).expect("a mode");
    let args = [&["copy", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", &ssh).limited_output().expect("numaio"))
}

/// Maps the names below a directory to contents of files, targets of links, and nothing.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(folder) = rest.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a type"));
            let text = match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => String::new(),
                (_, true) => fs::read_link(&path).expect("a link").display().to_string(),
                _ => fs::read_to_string(&path).expect("a file"),
            };
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            found.insert(name, text);
            if kind.is_dir() {
                rest.push(path);
            }
        }
    }
    found
}

/// Creates `src`, and `dst` with older versions of some of it.
fn trees(home: &Home) {
    for folder in ["src/d/e", "dst/d/e"] {
        fs::create_dir_all(home.0.join(folder)).expect("folders");
    }
    for (name, content) in [
        ("src/f", "new content"),
        ("dst/f", "old"),
        ("src/d/e/g", "new content"),
        ("dst/d/e/g", "old"),
        ("src/empty", ""),
        ("dst/empty", "old"),
        ("src/new", "new"),
        ("dst/same", "same"),
        ("dst/second", "old second"),
        ("dst/first", "old first"),
        ("src/first", "linked"),
        ("dst/link", "was a file"),
        ("dst/f~", "an older backup"),
    ] {
        home.file(name, content);
    }
    fs::write(home.0.join("src/large"), "y".repeat(3 << 20)).expect("a file");
    home.file("dst/large", "old");
    CommandOutput::of(home.command("cp", &["-a", "dst/same", "src"]).limited_output().expect("cp")).ok();
    fs::hard_link(home.0.join("src/first"), home.0.join("src/second")).expect("a link");
    symlink("target", home.0.join("src/link")).expect("a link");
}

#[test]
fn replaced_files_are_kept_as_by_rsync() {
    for options in [
        &["-b"][..],
        &["--backup", "--suffix=.old"],
        &["--backup-dir=../old"],
        &["-b", "--backup-dir=kept", "--suffix", ".bak"],
    ] {
        for ends in [["src/", "to/dst"], ["src/", "host:to/dst"], ["host:src/", "to/dst"]] {
            let home = Home::new();
            trees(&home);
            for to in ["to", "rsync"] {
                fs::create_dir(home.0.join(to)).expect("a folder");
                CommandOutput::of(home.command("cp", &["-a", "dst", to]).limited_output().expect("cp")).ok();
            }
            let before = tree(&home.0.join("to"));
            copy(&home, &[&["-rn", "-q"], options, &ends].concat()).ok();
            assert_eq!(tree(&home.0.join("to")), before, "{options:?} {ends:?}");
            copy(&home, &[&["-rq"], options, &ends].concat()).ok();
            let ours = tree(&home.0.join("to"));
            let args = [&["-rlHt"], options, &["src/", "rsync/dst"]].concat();
            match home.command("rsync", &args).limited_output() {
                Ok(output) => {
                    drop(CommandOutput::of(output).ok());
                    assert_eq!(ours, tree(&home.0.join("rsync")), "{options:?} {ends:?}");
                }
                Err(_) => skipped("no rsync to compare with"),
            }
            let kept = ours.values().filter(|content| content.starts_with("old")).count();
            assert_eq!((kept, &*ours["dst/f"]), (6, "new content"), "{ours:?}");
            // Nothing is replaced, and the backups stay.
            copy(&home, &[&["-rq"], options, &ends].concat()).ok();
            assert_eq!(tree(&home.0.join("to")), ours, "{options:?} {ends:?}");
        }
    }
}

#[test]
fn a_file_without_a_backup_is_not_replaced() {
    let home = Home::new();
    trees(&home);
    // Directories are in the place of backups.
    for name in ["f~", "link~", "second~", "empty~", "large~"] {
        let _ = fs::remove_file(home.0.join("dst").join(name));
        fs::create_dir(home.0.join("dst").join(name)).expect("a folder");
    }
    let output = copy(&home, &["-rbq", "src/", "dst"]);
    for name in ["f", "link", "second", "empty", "large"] {
        assert!(output.err.contains(&format!("numaio: {name}: ")), "{name}: {}", output.err);
    }
    output.failed(3, &[]);
    let dst = tree(&home.0.join("dst"));
    let old = |name: &str, content: &str| assert_eq!(dst[name], content, "{name}");
    old("f", "old");
    old("link", "was a file");
    old("second", "old second");
    old("empty", "old");
    old("large", "old");
    old("first", "linked");
    old("first~", "old first");
    for option in ["--delete", "--inplace"] {
        copy(&home, &["-rb", option, "src/", "dst"]).failed(2, &["cannot be used with"]);
    }
    copy(&home, &["-rb", "--suffix=a/b", "src/", "dst"]).failed(2, &["expected a suffix without slashes"]);
}
