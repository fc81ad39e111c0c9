//! Options that change attributes on the way, compared with rsync.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;

/// Maps the names below a directory to their modes and owners.
fn attributes(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = fs::symlink_metadata(&path).expect("a file");
        let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
        let text = format!("{:o} {}:{}", metadata.mode(), metadata.uid(), metadata.gid());
        found.insert(name, text);
        if metadata.is_dir() {
            rest.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
    found
}

/// Creates `src` with objects of several modes.
fn source(home: &Home) {
    for (folder, mode) in [("src", 0o755), ("src/d", 0o2750)] {
        fs::create_dir(home.0.join(folder)).expect("a folder");
        fs::set_permissions(home.0.join(folder), PermissionsExt::from_mode(mode)).expect("a mode");
    }
    for (name, mode) in [("src/run", 0o755), ("src/d/plain", 0o640), ("src/d/odd", 0o4711)] {
        home.file(name, name);
        fs::set_permissions(home.0.join(name), PermissionsExt::from_mode(mode)).expect("a mode");
    }
    symlink("run", home.0.join("src/link")).expect("a link");
}

/// Checks that rsync and numaio set the same attributes, in a new and in an existing copy.
fn same_as_rsync(home: &Home, args: &[&str]) {
    for step in ["new", "existing"] {
        home.run(&[&["copy"], args, &["src/", "numaio"]].concat()).ok();
        let Ok(output) = home.command("rsync", &[args, &["src/", "rsync"]].concat()).limited_output() else {
            return skipped("no rsync to compare with");
        };
        CommandOutput::of(output).ok();
        assert_eq!(attributes(&home.0.join("numaio")), attributes(&home.0.join("rsync")), "{step} {args:?}");
        // Attributes that were set are not set again.
        let again = home.run(&[&["copy"], args, &["src/", "numaio"]].concat()).ok();
        assert!(again.starts_with("0 moved"), "{args:?}: {again}");
        for made in ["numaio", "rsync"] {
            fs::set_permissions(home.0.join(made).join("run"), PermissionsExt::from_mode(0o600))
                .expect("a mode");
        }
    }
    ["numaio", "rsync"].iter().for_each(|made| fs::remove_dir_all(home.0.join(made)).expect("removed"));
}

#[test]
fn chmod_changes_modes_as_rsync_does() {
    let home = Home::new();
    source(&home);
    for changes in ["D2755,F644", "Dg+s,ug+w,Fo-w,+X", "u=rwX,go=", "g=u", "a-x,+X", "Fu+x,F+w"] {
        // Without -t, rsync would send the files again.
        for kind in ["-a", "-rlt"] {
            same_as_rsync(&home, &[kind, "--chmod", changes]);
        }
    }
    same_as_rsync(&home, &["-a", "--chmod=D700", "--chmod=F600"]);
    home.run(&["copy", "-a", "--chmod", "u=rwz", "src/", "no"])
        .failed(2, &["--chmod", "expected changes such as"]);
    assert!(!home.0.join("no").exists());
}

#[test]
fn chmod_applies_at_the_source_of_any_host() {
    let home = Home::new();
    source(&home);
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"umask 077; $*\"\n";
    let ssh = home.script("ssh", script);
    // The umask of the user counts, not that of the other host.
    let args = ["copy", "-a", "--chmod", "a=r,+w,D+x", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")];
    for ends in [["host:src/", "from"], ["src/", "host:to"]] {
        let args = [&args[..], &ends].concat();
        CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", &ssh).limited_output().expect("numaio")).ok();
    }
    home.run(&["copy", "-a", "--chmod", "a=r,+w,D+x", "src/", "local"]).ok();
    let local = attributes(&home.0.join("local"));
    assert!(local["run"].starts_with("100644 ") && local["d"].starts_with("42755 "), "{local:?}");
    assert_eq!(attributes(&home.0.join("from")), local);
    assert_eq!(attributes(&home.0.join("to")), local);
}

#[test]
fn chown_sets_owners_as_rsync_does() {
    let home = Home::new();
    source(&home);
    if !numaio_linux::process::is_super_user() {
        return skipped("only root sets owners");
    }
    for owner in ["1234:2345", "sys", ":2345", "root:root", "daemon:"] {
        for kind in ["-a", "-rlt"] {
            same_as_rsync(&home, &[kind, "--chown", owner]);
        }
    }
    home.run(&["copy", "-r", "--chown", "no-such-user", "src/", "no"])
        .failed(1, &["the destination has no user 'no-such-user'"]);
    home.run(&["copy", "-r", "--chown", ":no-such-group", "src/", "no"])
        .failed(1, &["the destination has no group 'no-such-group'"]);
    home.run(&["copy", "-r", "--chown", ":", "src/", "no"])
        .failed(2, &["expected USER, USER:GROUP or :GROUP"]);
}
