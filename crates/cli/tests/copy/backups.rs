//! `--backup`: replaced files are kept.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

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
            home.copy_by_local_ssh(&[&["-rn", "-q"], options, &ends].concat()).ok();
            assert_eq!(tree(&home.0.join("to")), before, "{options:?} {ends:?}");
            home.copy_by_local_ssh(&[&["-rq"], options, &ends].concat()).ok();
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
            home.copy_by_local_ssh(&[&["-rq"], options, &ends].concat()).ok();
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
    let output = home.copy_by_local_ssh(&["-rbq", "src/", "dst"]);
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
        home.copy_by_local_ssh(&["-rb", option, "src/", "dst"]).failed(2, &["cannot be used with"]);
    }
    home.copy_by_local_ssh(&["-rb", "--suffix=a/b", "src/", "dst"])
        .failed(2, &["expected a suffix without slashes"]);
}
