//! Who is not root, and his own directories that are closed to himself.

mod support;

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use support::{skipped, Home, Said};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// Makes directories with a file in each, and closes them.
fn closed(home: &Home, modes: &[(&str, u32)]) {
    for (name, _) in modes {
        fs::create_dir_all(home.0.join(name)).expect("a folder");
        home.file(&format!("{name}/file"), name);
    }
    for (name, mode) in modes.iter().rev() {
        fs::set_permissions(home.0.join(name), fs::Permissions::from_mode(*mode)).expect("a mode");
    }
}

/// What a script says that runs in a home as somebody to whom all in it belongs, and who is not root; none where nobody can be that.
fn as_another(home: &Home, script: &str) -> Option<Said> {
    if is_root(home) {
        home.command("chown", &["-Rh", "65534:65534", "."]).output().ok()?;
    }
    run(home, script)
}

/// What a script says that runs as somebody who is not root.
fn run(home: &Home, script: &str) -> Option<Said> {
    let script = format!("[ -x \"$NUMAIO\" ] && : >reached || exit 99\n{script}");
    let user: &[&str] =
        if is_root(home) { &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] } else { &[] };
    let command = [user, &["sh", "-c", &script]].concat();
    let said = Said::of(home.command(command[0], &command[1..]).env("NUMAIO", NUMAIO).output().ok()?);
    (said.code != Some(99)).then_some(said)
}

fn is_root(home: &Home) -> bool {
    home.command("id", &["-u"]).output().is_ok_and(|told| told.stdout == b"0\n")
}

fn nobody() {
    skipped("another user, as it needs root and setpriv, and a folder that others reach");
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).map_or(0, |found| found.mode() & 0o7777)
}

#[test]
fn own_directories_are_removed_also_where_nothing_may_be_written_to_them() {
    let home = Home::new();
    closed(
        &home,
        &[
            ("to/cache", 0o555),
            ("to/cache/module", 0o555),
            ("to/cache/module/below", 0o500),
            ("to/kept", 0o555),
            ("to/kept/old", 0o555),
        ],
    );
    // It has the place of something else, and is removed at once.
    closed(
        &home,
        &[("to/place", 0o555), ("to/place/a", 0o555), ("to/place/a/closed", 0), ("to/place/b", 0o444)],
    );
    fs::create_dir_all(home.0.join("from/kept")).expect("a folder");
    home.file("from/kept/file", "to/kept");
    home.file("from/place", "a file");
    fs::create_dir(home.0.join("outside")).expect("a folder");
    symlink("../outside", home.0.join("to/link")).expect("a link");
    fs::set_permissions(home.0.join("outside"), fs::Permissions::from_mode(0o555)).expect("a mode");
    let script = "
$NUMAIO copy --no-job -n -r --delete from/ to; echo code $?
$NUMAIO copy --no-job -r --delete from/ to; echo code $?
find to | sort";
    let Some(said) = as_another(&home, script) else { return nobody() };
    let told: Vec<&str> =
        said.out.lines().filter(|line| line.starts_with("code") || line.starts_with("to")).collect();
    let left = ["to", "to/kept", "to/kept/file", "to/place"];
    assert_eq!(told, [&["code 0", "code 0"], &left[..]].concat(), "{}\n{}", said.out, said.err);
    assert_eq!((mode_of(&home.0.join("to/kept")), mode_of(&home.0.join("outside"))), (0o555, 0o555));
}

/// That of somebody else is not opened, and told.
#[test]
fn directories_of_others_stay_closed() {
    let home = Home::new();
    closed(&home, &[("to/others", 0o755)]);
    fs::create_dir(home.0.join("from")).expect("a folder");
    let given = as_another(&home, "[ $(id -u) != 0 ] || exit 99");
    let taken = std::os::unix::fs::chown(home.0.join("to/others"), Some(0), Some(0));
    let (Some(_), Ok(())) = (given, taken) else { return nobody() };
    let Some(said) = run(&home, "$NUMAIO copy --no-job --json -r --delete from/ to; echo code $?") else {
        return nobody();
    };
    assert!(said.out.ends_with("code 3\n"), "{}\n{}", said.out, said.err);
    assert!(
        said.out.contains("others/file") && said.out.contains("remove it: permission denied"),
        "{}",
        said.out
    );
    assert_eq!((mode_of(&home.0.join("to/others")), home.0.join("to/others/file").exists()), (0o755, true));
}

#[test]
fn directories_can_be_filled_whatever_a_umask_takes_from_their_owner() {
    let home = Home::new();
    closed(&home, &[("from/a", 0o755), ("from/a/b", 0o755)]);
    for (mask, mode) in [("0277", "500"), ("0477", "300")] {
        let script = format!("(umask {mask}; $NUMAIO copy --no-job -r from/ {mask}; echo code $?)");
        let Some(said) = as_another(&home, &script) else { return nobody() };
        assert!(said.out.contains("code 0\n"), "{}\n{}", said.out, said.err);
        // What it is in the end is what the umask leaves.
        let names = ["", "a", "a/b"].map(|name| home.0.join(mask).join(name));
        assert_eq!(names.map(|name| format!("{:o}", mode_of(&name))), [mode; 3]);
        assert!(home.0.join(mask).join("a/b/file").exists());
    }
}
