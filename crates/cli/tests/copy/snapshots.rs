//! `--link-dest`: unchanged files of earlier snapshots become hard links.

use super::image::run_tool;
use crate::support::{skipped, CommandOutput, Home, Limited};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Maps the names of files below a directory to their inode numbers.
fn inodes(root: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(folder) = rest.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let metadata = entry.metadata().expect("a file");
            match metadata.is_dir() {
                true => rest.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(root).expect("below").to_string_lossy().into_owned();
                    found.insert(name, metadata.ino());
                }
            }
        }
    }
    found
}

/// Creates `src` and its snapshots `one` and `two`, each of which lacks something.
fn snapshots(home: &Home) {
    fs::create_dir_all(home.0.join("src/d")).expect("folders");
    for name in ["same", "d/same", "changed", "mode", "only-one", "only-two", "empty"] {
        home.file(&format!("src/{name}"), if name == "empty" { "" } else { name });
    }
    fs::write(home.0.join("src/large"), vec![7; 3 << 20]).expect("a file");
    fs::hard_link(home.0.join("src/same"), home.0.join("src/z-same")).expect("a link");
    ["one", "two"].iter().for_each(|to| drop(home.run(&["copy", "-a", "src/", to]).ok()));
    fs::remove_file(home.0.join("one/only-two")).expect("removed");
    fs::remove_file(home.0.join("two/only-one")).expect("removed");
    home.file("src/changed", "other content");
    home.file("src/new", "new");
    fs::set_permissions(home.0.join("src/mode"), PermissionsExt::from_mode(0o600)).expect("a mode");
}

#[test]
fn unchanged_files_are_hard_links_to_the_first_snapshot() {
    let home = Home::new();
    snapshots(&home);
    let (one, two) = (inodes(&home.0.join("one")), inodes(&home.0.join("two")));
    let linked = |name: &str| match name {
        "changed" | "mode" | "new" => None,
        "only-two" => two.get(name),
        name => one.get(name),
    };
    let options = ["-a", "--link-dest=../one", "--link-dest", "../two"];
    for ends in [["src/", "three"], ["src/", "host:three"], ["host:src/", "three"]] {
        let ours = home.copy_by_local_ssh(&[&options[..], &["-q", "--stats"], &ends].concat()).ok();
        // The others have 5 + 4 + 3 bytes of other content.
        assert!(ours.contains("Number of regular files transferred: 3\n"), "{ours}");
        let three = inodes(&home.0.join("three"));
        assert_eq!(three.len(), 10);
        for (name, inode) in &three {
            assert_eq!(linked(name).is_some_and(|linked| linked == inode), linked(name).is_some(), "{name}");
            assert_eq!(
                fs::read(home.0.join("three").join(name)).expect("a file"),
                fs::read(home.0.join("src").join(name)).expect("a file")
            );
        }
        assert!(home
            .copy_by_local_ssh(&[&options[..], &ends].concat())
            .ok()
            .starts_with("0 moved, 12 unchanged"));
        // rsync links the same files.
        fs::remove_dir_all(home.0.join("three")).expect("removed");
        match home.command("rsync", &[&["-H"], &options[..], &["src/", "three"]].concat()).limited_output() {
            Ok(output) => {
                drop(CommandOutput::of(output).ok());
                let theirs = inodes(&home.0.join("three"));
                let is_linked = |inodes: &BTreeMap<String, u64>, name: &str| linked(name) == inodes.get(name);
                assert!(three.keys().all(|name| is_linked(&three, name) == is_linked(&theirs, name)));
                fs::remove_dir_all(home.0.join("three")).expect("removed");
            }
            Err(_) => skipped("no rsync to compare with"),
        }
    }
    // The snapshots are unchanged.
    assert_eq!((inodes(&home.0.join("one")), inodes(&home.0.join("two"))), (one, two));
}

#[test]
fn dry_run_and_missing_snapshots_link_nothing() {
    let home = Home::new();
    snapshots(&home);
    let options = ["-a", "--link-dest=../one", "--link-dest=../two", "src/", "three"];
    fs::create_dir(home.0.join("three")).expect("a folder");
    let dry = home.copy_by_local_ssh(&[&["-n"], &options[..]].concat()).ok();
    assert!(dry.contains("would be made: large\n") && dry.contains("would be copied: changed\n"), "{dry}");
    assert!(inodes(&home.0.join("three")).is_empty());
    for (from, to, host) in [("src/", "three", ""), ("h:src/", "three", ""), ("src/", "h:three", "h: ")] {
        let output = home.copy_by_local_ssh(&["-a", "--link-dest=../none", from, to]);
        let remark = format!("numaio: {host}--link-dest: directory 'three/../none' does not exist\n");
        assert_eq!(output.err.matches("--link-dest").count(), 1, "{}", output.err);
        assert!(output.err.contains(&remark), "{}", output.err);
        drop(output.ok());
    }
    let linked = inodes(&home.0.join("three"));
    assert!(linked.len() == 10 && linked["large"] != inodes(&home.0.join("one"))["large"]);
    home.copy_by_local_ssh(&["-ac", "--link-dest=../one", "src/", "no"]).failed(2, &["cannot be used with"]);
}

#[test]
fn other_file_systems_get_copies() {
    let home = Home::new();
    snapshots(&home);
    let script = "mkdir mounted && mount -t tmpfs none mounted || exit 99
$NUMAIO copy -a -v --link-dest=$PWD/one src/ mounted/three || exit
stat -c %h mounted/three/large; cmp src/large mounted/three/large";
    let Some(output) = home.run_unshared("-rm", &[script]) else { return skipped("a mount namespace") };
    assert!(output.ok().contains("copied: large\n"));
}

#[test]
fn refused_hard_links_become_clones() {
    let home = Home::new();
    let image = home.path("image");
    fs::File::create(&image).and_then(|file| file.set_len(400 << 20)).expect("an image");
    fs::create_dir(home.0.join("mount")).expect("a folder");
    let made =
        run_tool("mkfs.xfs", &["-q", &image]).and_then(|_| run_tool("mount", &[&image, &home.path("mount")]));
    if made.is_none() {
        return skipped("an XFS: needs root and mkfs.xfs");
    }
    let mount = home.0.join("mount");
    fs::create_dir_all(mount.join("one")).expect("a folder");
    fs::create_dir_all(mount.join("src")).expect("a folder");
    fs::write(mount.join("src/f"), vec![7; 2 << 20]).expect("a file");
    home.run(&["copy", "-a", "mount/src/", "mount/one"]).ok();
    // An immutable file cannot get hard links.
    let is_immutable = run_tool("chattr", &["+i", &home.path("mount/one/f")]).is_some();
    let text = home.run(&["copy", "-av", "--link-dest=../one", "mount/src/", "mount/two"]);
    let two = fs::metadata(mount.join("two/f")).map(|it| (it.nlink(), it.mtime(), it.len()));
    let one = fs::metadata(mount.join("one/f")).map(|it| (it.nlink(), it.mtime(), it.len()));
    let shared = run_tool("filefrag", &["-v", &home.path("mount/two/f")]).unwrap_or_default();
    run_tool("chattr", &["-i", &home.path("mount/one/f")]);
    run_tool("umount", &[&home.path("mount")]);
    if !is_immutable {
        return skipped("an immutable file: not supported by the file system");
    }
    assert!(text.ok().contains("made: f\n"));
    assert_eq!(two.expect("a file"), one.expect("a file"));
    assert!(shared.contains("shared"), "{shared}");
}
