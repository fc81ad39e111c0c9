//! One directory as source and destination, reached in two ways: nothing in it is lost.

use crate::support::{skipped, CommandOutput, Home};
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
        for options in [&["--inplace"][..], &["--inplace", "--tunnel"], &["--delete"]] {
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

#[test]
fn refuses_to_truncate_a_source_reached_by_a_mount() {
    for mount in ["mount --bind d m", "unionfs-fuse d=RW m"] {
        let home = home();
        let script = format!(
            "mkdir m && {mount} || exit 99
            trap 'umount m' EXIT
            $NUMAIO copy --no-job -r -I --inplace d/ m/; echo code $?
            $NUMAIO copy --no-job -r -I --inplace m/ d; echo code $?
            $NUMAIO copy --no-job -r -I --inplace d/big m/; echo code $?"
        );
        let Some(output) = home.run_unshared("-m", &[&script]) else {
            skipped(format!("{mount}: needs root and the program"));
            continue;
        };
        assert_eq!(output.out, "code 2\n".repeat(3), "{mount}: {}", output.err);
        assert!(is_unchanged(&home), "{mount}");
    }
}
