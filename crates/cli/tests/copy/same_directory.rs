//! One directory as source and destination, reached in two ways: nothing in it is lost.

use crate::slow_copy::start_slow_copy;
use crate::support::{kill, skipped, with_children, CommandOutput, Home, Limited};
use std::fs;

const CONTENT: &str = "content that must not be truncated";

/// A home with a directory.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("d/below")).expect("a folder");
    for name in ["d/big", "d/below/file"] {
        home.file(name, CONTENT);
    }
    home
}

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.copy_by_local_ssh(&[&["--no-job", "-r", "-I"], args].concat())
}

fn is_unchanged(home: &Home) -> bool {
    let names = fs::read_dir(home.0.join("d")).expect("a folder").count();
    let read = |name| fs::read_to_string(home.0.join(name)).unwrap_or_default();
    names == 2 && ["d/big", "d/below/file"].iter().all(|name| read(*name) == CONTENT)
}

#[test]
fn refuses_to_truncate_a_source_reached_by_ssh() {
    let home = home();
    let here = home.path("d");
    let above = home.path("");
    for (from, to) in [
        ("d/".to_owned(), format!("h:{here}/")),
        ("d".to_owned(), format!("h:{above}")),
        (format!("h:{here}/"), "d".to_owned()),
        (format!("h:{here}/big"), "d/big".to_owned()),
        ("d/big".to_owned(), format!("h:{here}/big")),
        ("d/big".to_owned(), format!("h:{here}/")),
    ] {
        for options in [
            &["--inplace"][..],
            &["--inplace", "--tunnel"],
            &["--delete"],
            &["--delete-before"],
            &["--remove-source-files"],
            &["--backup-dir=../old"],
        ] {
            let output = copy(&home, &[options, &[&from, &to]].concat());
            assert!(matches!(output.code, Some(1 | 2)), "{options:?} {from} {to}: {}", output.err);
            assert!(output.err.contains("is source and destination"), "{}", output.err);
            assert!(is_unchanged(&home), "{options:?} {from} {to}");
        }
    }
}

/// Other names and other directories are no danger.
#[test]
fn copies_in_place_beside_the_source() {
    let home = home();
    let here = home.path("d");
    fs::create_dir_all(home.0.join("e/below")).expect("a folder");
    home.file("e/old", "old");
    copy(&home, &["--inplace", "d/big", &format!("h:{here}/copy")]).ok();
    assert_eq!(fs::read_to_string(home.0.join("d/copy")).expect("a file"), CONTENT);
    fs::remove_file(home.0.join("d/copy")).expect("removed");
    for (from, to) in
        [(format!("h:{here}/"), "e".to_owned()), ("d/".to_owned(), format!("h:{}", home.path("e")))]
    {
        copy(&home, &["--inplace", "--delete", &from, &to]).ok();
        let names = fs::read_dir(home.0.join("e")).expect("a folder").count();
        assert_eq!(
            (names, fs::read_to_string(home.0.join("e/big")).expect("a file")),
            (2, CONTENT.to_owned())
        );
        home.file("e/old", "old");
    }
    assert!(is_unchanged(&home));
}

/// Runs a script for each way to show the directory `d` at `m` and `d/below` at `s`. Its function
/// `copy` runs numaio and prints its status and messages. Returns the homes and outputs.
fn by_each_mount(script: &str) -> Vec<(Home, String)> {
    let mut all = Vec::new();
    for mount in ["mount --bind d m", "unionfs-fuse d=RW m", "bindfs d m"] {
        let home = home();
        let below = mount.replace("d m", "d/below s").replace("d=RW m", "d/below=RW s");
        let script = format!(
            "mkdir m s && {mount} && {below} || exit 99
            trap 'umount m s' EXIT
            copy() {{ $NUMAIO copy --no-job -r -I \"$@\" 2>&1 | grep '^numaio: '; }}
            {script}"
        );
        match home.run_unshared("-m", &[&script]) {
            None => skipped(format!("{mount}: needs root and the program")),
            Some(output) => all.push((home, format!("{mount}:\n{}{}", output.out, output.err))),
        }
    }
    all
}

#[test]
fn refuses_to_destroy_a_source_reached_by_a_mount() {
    for options in ["--inplace", "--remove-source-files", "--delete", "--backup-dir=../old"] {
        let script = format!(
            "copy {options} d/ m/; copy {options} m/ d; copy {options} d/big m/; copy {options} s/ d/below"
        );
        for (home, output) in by_each_mount(&script) {
            assert_eq!(output.matches("is source and destination\n").count(), 4, "{options} {output}");
            assert!(is_unchanged(&home), "{options} {output}");
        }
    }
}

#[test]
fn keeps_a_source_below_the_destination() {
    let is_kept =
        |home: &Home| fs::read_to_string(home.0.join("d/below/file")).unwrap_or_default() == CONTENT;
    // A mount of the destination, and a mount of the source alone.
    for (home, output) in by_each_mount("copy --delete m/below/ d; copy --delete s/ d") {
        let kept = ["is inside the destination", "is a source directory"].map(|why| output.contains(why));
        assert!(is_kept(&home) && kept.contains(&true), "{output}");
    }
    let home = home();
    let (here, below) = (home.path("d"), home.path("d/below"));
    for (from, to) in [("d/below/".to_owned(), format!("h:{here}")), (format!("h:{below}/"), "d".to_owned())]
    {
        let output = copy(&home, &["--delete", &from, &to]);
        assert!(output.err.contains("d/below' is inside the destination"), "{}", output.err);
        assert!(is_unchanged(&home), "{from} {to}");
    }
    // A copy would overwrite files of the source that are not copied yet.
    fs::create_dir(home.0.join("d/below/below")).expect("a folder");
    let output = copy(&home, &["--inplace", "d/below/", &format!("h:{here}")]);
    assert!(output.err.contains("d/below' is inside the destination"), "{}", output.err);
    assert!(is_unchanged(&home));
}

#[test]
fn does_not_copy_a_destination_below_the_source_into_itself() {
    let why = "below: the destination cannot be copied into itself";
    let is_copied =
        |home: &Home| home.0.join("d/below/big").exists() && !home.0.join("d/below/below/big").exists();
    for (home, output) in
        by_each_mount("copy --inplace d/ m/below; copy --inplace m/ d/below; copy --inplace d/ s")
    {
        let is_known = output.starts_with("mount --bind");
        assert_eq!(output.matches(why).count(), if is_known { 0 } else { 3 }, "{output}");
        assert!(is_copied(&home), "{output}");
    }
    for options in [&["--inplace"][..], &["--delete", "--tunnel"], &["--remove-source-files"]] {
        let home = home();
        let here = home.path("d");
        for (from, to) in
            [("d/".to_owned(), format!("h:{here}/below")), (format!("h:{here}/"), "d/below".to_owned())]
        {
            copy(&home, &[options, &[&from, &to]].concat()).failed(3, &[why]);
            home.file("d/big", CONTENT);
            // What is excluded is not listed.
            copy(&home, &[options, &["--exclude=/below/", &from, &to]].concat()).ok();
            home.file("d/big", CONTENT);
        }
        assert!(is_copied(&home) && home.0.join("d/below/file").exists() == (options[0] != "--delete"));
    }
}

/// Replaced objects would replace the files of the source.
#[test]
fn refuses_backups_in_the_source() {
    let home = home();
    fs::create_dir(home.0.join("to")).expect("a folder");
    home.file("to/big", "old");
    let here = home.path("d");
    for to in ["to".to_owned(), format!("h:{}", home.path("to"))] {
        copy(&home, &[&format!("--backup-dir={here}"), "d/", &to])
            .failed(2, &["'d' is inside the directory of backups"]);
    }
    copy(&home, &["--backup-dir=../d", &format!("h:{here}/"), "to"])
        .failed(1, &["is inside the directory of backups"]);
    assert!(is_unchanged(&home));
    assert_eq!(fs::read_to_string(home.0.join("to/big")).expect("a file"), "old");
    // A directory beside them is not affected.
    copy(&home, &["--backup-dir=../old", "d/", "to"]).ok();
    assert_eq!(fs::read_to_string(home.0.join("old/big")).expect("a file"), "old");
}

/// Returns the markers in a directory.
fn markers(home: &Home, directory: &str) -> Vec<String> {
    let names = fs::read_dir(home.0.join(directory)).expect("a folder").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(".numaio-marker-")).collect()
}

#[test]
fn next_transfer_removes_the_marker_of_a_killed_one() {
    for options in [&["-r", "--inplace"][..], &["-r", "--remove-source-files"]] {
        let home = Home::new();
        fs::create_dir_all(home.0.join("src")).expect("a folder");
        fs::create_dir_all(home.0.join("to")).expect("a folder");
        fs::write(home.0.join("src/f"), vec![7; 20 << 20]).expect("a file");
        let mut child = start_slow_copy(&home, &[options, &["src/"]].concat(), "to", "5M", 1 << 20);
        assert_eq!(markers(&home, "to").len(), 1);
        with_children(child.id()).into_iter().rev().for_each(|process| kill("-KILL", process));
        child.limited_status().expect("ended");
        assert_eq!(markers(&home, "to").len(), 1, "it cannot be removed by a killed process");
        // A marker is not copied.
        copy(&home, &["to/", "other"]).ok();
        assert_eq!(markers(&home, "other"), [""; 0]);
        home.run(&[&["copy"], options, &["src/", "to"]].concat()).ok();
        assert_eq!(markers(&home, "to"), [""; 0]);
        assert_eq!(fs::read(home.0.join("to/f")).expect("a file"), vec![7; 20 << 20]);
    }
}

/// Subvolumes of Btrfs have the same inode number, and a FUSE file system shows one device.
#[test]
fn volumes_with_equal_numbers_are_different_directories() {
    let home = Home::new();
    let script = "truncate -s 300M i && mkfs.btrfs -q i >&2 && mkdir b v && mount -o loop i b || exit 99
        trap 'umount v; umount b' EXIT
        for name in one two one/inner; do btrfs -q subvolume create b/$name || exit 99; done
        echo 1 >b/one/f; echo 2 >b/one/inner/g; bindfs b v || exit 99
        [ $(stat -c %d:%i v/one) = $(stat -c %d:%i v/two) ] || exit 99
        $NUMAIO copy --no-job -r v/one v/two >&2; echo $?; cat b/two/one/f b/two/one/inner/g
        $NUMAIO copy --no-job -r --inplace v/one/ v/two >&2; echo $?; cat b/two/f b/two/inner/g
        $NUMAIO copy --no-job -rL v/one/ to >&2; echo $?; cat to/f to/inner/g
        ln -s .. b/one/inner/up; $NUMAIO copy --no-job -rL v/one/ loop >&2; echo $?; ls loop/inner";
    let Some(output) = home.run_unshared("-m", &[script]) else {
        return skipped("subvolumes by FUSE: needs root, btrfs and bindfs");
    };
    assert_eq!(output.out, "0\n1\n2\n0\n1\n2\n0\n1\n2\n3\ng\n", "{}", output.err);
    assert!(output.err.contains("inner/up: this symbolic link leads to a directory that contains it"));
}
