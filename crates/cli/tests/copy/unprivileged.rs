//! Copies without root, and directories that are closed to their own owner.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// Creates directories with a file in each, then sets their modes.
fn make_closed_dirs(home: &Home, modes: &[(&str, u32)]) {
    for (name, _) in modes {
        fs::create_dir_all(home.0.join(name)).expect("a folder");
        home.file(&format!("{name}/file"), name);
    }
    for (name, mode) in modes.iter().rev() {
        fs::set_permissions(home.0.join(name), fs::Permissions::from_mode(*mode)).expect("a mode");
    }
}

/// Runs a script without root, as the owner of everything in the home, and returns its output; None
/// if that is impossible here.
pub fn run_as_other_user(home: &Home, script: &str) -> Option<CommandOutput> {
    if is_root(home) {
        home.command("chown", &["-Rh", "65534:65534", "."]).limited_output().ok()?;
    }
    run(home, script)
}

/// Runs a script without root, and returns its output; None if it did not start or exited with
/// status 99.
fn run(home: &Home, script: &str) -> Option<CommandOutput> {
    let reached = home.0.join("reached");
    let _ = fs::remove_file(&reached);
    let script = format!("[ -x \"$NUMAIO\" ] && : >reached || exit 99\n{script}");
    let user: &[&str] =
        if is_root(home) { &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] } else { &[] };
    let command = [user, &["sh", "-c", &script]].concat();
    let output = CommandOutput::of(
        home.command(command[0], &command[1..]).env("NUMAIO", NUMAIO).limited_output().ok()?,
    );
    // If setpriv fails, the script did not start, whatever the status.
    (reached.exists() && output.code != Some(99)).then_some(output)
}

pub fn is_root(home: &Home) -> bool {
    home.command("id", &["-u"]).limited_output().is_ok_and(|output| output.stdout == b"0\n")
}

pub fn skip_without_other_user() {
    skipped("another user: needs root and setpriv, and a directory that other users can access");
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).map_or(0, |found| found.mode() & 0o7777)
}

#[test]
fn deletes_own_read_only_directories() {
    let home = Home::new();
    make_closed_dirs(
        &home,
        &[
            ("to/cache", 0o555),
            ("to/cache/module", 0o555),
            ("to/cache/module/below", 0o500),
            ("to/kept", 0o555),
            ("to/kept/old", 0o555),
        ],
    );
    // A file replaces this tree, so it is removed immediately.
    make_closed_dirs(
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
    let Some(output) = run_as_other_user(&home, script) else { return skip_without_other_user() };
    let lines: Vec<&str> =
        output.out.lines().filter(|line| line.starts_with("code") || line.starts_with("to")).collect();
    let left = ["to", "to/kept", "to/kept/file", "to/place"];
    assert_eq!(lines, [&["code 0", "code 0"], &left[..]].concat(), "{}\n{}", output.out, output.err);
    assert_eq!((mode_of(&home.0.join("to/kept")), mode_of(&home.0.join("outside"))), (0o555, 0o555));
}

/// A directory of another user is not made writable, and the error is reported.
#[test]
fn does_not_open_directories_of_other_users() {
    let home = Home::new();
    make_closed_dirs(&home, &[("to/others", 0o755)]);
    fs::create_dir(home.0.join("from")).expect("a folder");
    let given = run_as_other_user(&home, "[ $(id -u) != 0 ] || exit 99");
    let taken = std::os::unix::fs::chown(home.0.join("to/others"), Some(0), Some(0));
    let (Some(_), Ok(())) = (given, taken) else { return skip_without_other_user() };
    let Some(output) =
        run(&home, "$NUMAIO copy --no-job --json -r --delete --allow-empty-source from/ to; echo code $?")
    else {
        return skip_without_other_user();
    };
    assert!(output.out.ends_with("code 3\n"), "{}\n{}", output.out, output.err);
    assert!(
        output.out.contains("others/file") && output.out.contains("cannot remove: permission denied"),
        "{}",
        output.out
    );
    assert_eq!((mode_of(&home.0.join("to/others")), home.0.join("to/others/file").exists()), (0o755, true));
}

#[test]
fn fills_directories_under_a_umask_that_closes_them_to_their_owner() {
    let home = Home::new();
    make_closed_dirs(&home, &[("from/a", 0o755), ("from/a/b", 0o755)]);
    for (mask, mode) in [("0277", "500"), ("0477", "300")] {
        let script = format!("(umask {mask}; $NUMAIO copy --no-job -r from/ {mask}; echo code $?)");
        let Some(output) = run_as_other_user(&home, &script) else { return skip_without_other_user() };
        assert!(output.out.contains("code 0\n"), "{}\n{}", output.out, output.err);
        // The final mode is what the umask permits.
        let names = ["", "a", "a/b"].map(|name| home.0.join(mask).join(name));
        assert_eq!(names.map(|name| format!("{:o}", mode_of(&name))), [mode; 3]);
        assert!(home.0.join(mask).join("a/b/file").exists());
    }
}

/// Large files are opened several times.
#[test]
fn writes_large_files_under_a_umask_that_closes_them_to_their_owner() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    fs::write(home.0.join("from/large"), vec![7; 5 << 20]).expect("a file");
    for (to, option) in [("to", ""), ("in-place", "--inplace")] {
        let script = format!("umask 0277; $NUMAIO copy --no-job -r {option} from/ {to}; echo code $?");
        let Some(output) = run_as_other_user(&home, &script) else { return skip_without_other_user() };
        assert!(output.out.contains("code 0\n"), "{}\n{}", output.out, output.err);
        let name = format!("{to}/large");
        assert_eq!((mode_of(&home.0.join(&name)), len(&home, &name)), (0o400, 5 << 20), "{to}");
    }
}

#[test]
fn resumes_under_a_umask_that_closes_files_to_their_owner() {
    let home = Home::new();
    fs::create_dir(home.0.join("from")).expect("a folder");
    fs::write(home.0.join("from/large"), vec![7; 48 << 20]).expect("a file");
    let script = "
umask 0277
$NUMAIO copy --no-job -r --bwlimit 16M from/ to & copy=$!
noted() { stat -c %s to/.numaio-journal-* 2>/dev/null || echo 0; }
until [ $(noted) -gt 40 ]; do kill -0 $copy && sleep 0.02 || exit 1; done
kill -9 $copy; wait $copy
$NUMAIO copy --no-job -r --json from/ to; echo code $?";
    let Some(output) = run_as_other_user(&home, script) else { return skip_without_other_user() };
    assert!(output.out.contains("code 0\n"), "{}\n{}", output.out, output.err);
    let end = output.out.lines().find(|line| line.contains(r#""event":"end""#)).unwrap_or_default();
    assert!(end.contains(r#""resumed":"#) && !end.contains(r#""resumed":0"#), "{end}");
    assert_eq!(len(&home, "to/large"), 48 << 20);
    let left: Vec<_> = fs::read_dir(home.0.join("to")).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// The executable file of a running program cannot be written to.
#[test]
fn failed_inplace_write_keeps_the_mode() {
    let home = Home::new();
    for folder in ["from", "to"] {
        fs::create_dir(home.0.join(folder)).expect("a folder");
    }
    home.file("from/program", "new");
    let script = "
cp \"$(command -v sleep)\" to/program && chmod 555 to/program && to/program 0 || exit 99
to/program 60 & program=$!
until [ \"$(readlink /proc/$program/exe)\" = \"$PWD/to/program\" ]; do kill -0 $program || exit 1; done
$NUMAIO copy --no-job -r --inplace from/ to; echo code $?
kill $program";
    let Some(output) = run_as_other_user(&home, script) else { return skip_without_other_user() };
    assert!(output.out.contains("code 3\n"), "{}\n{}", output.out, output.err);
    assert_eq!(mode_of(&home.0.join("to/program")), 0o555);
}

#[test]
fn inplace_writes_to_own_read_only_files() {
    let home = Home::new();
    for (name, length) in [("small", 9), ("large", 3 << 20)] {
        for (folder, more) in [("from", 1), ("to", 0)] {
            fs::create_dir_all(home.0.join(folder)).expect("a folder");
            let path = home.0.join(folder).join(name);
            fs::write(&path, vec![7; length + more]).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("a mode");
        }
    }
    for option in ["-r", "-a"] {
        let script = format!(
            "touch -d 2020-01-01 to/*; $NUMAIO copy --no-job --inplace {option} from/ to; echo code $?"
        );
        let Some(output) = run_as_other_user(&home, &script) else { return skip_without_other_user() };
        assert!(output.out.contains("code 0\n"), "{}\n{}", output.out, output.err);
        for (name, length) in [("to/small", 10), ("to/large", (3 << 20) + 1)] {
            assert_eq!((mode_of(&home.0.join(name)), len(&home, name)), (0o444, length), "{name}");
        }
    }
}

fn len(home: &Home, name: &str) -> u64 {
    fs::metadata(home.0.join(name)).map_or(0, |found| found.len())
}

/// The mode alone would grant the group the permissions that the ACL grants to another user.
#[test]
fn replaced_file_keeps_its_acl() {
    let home = Home::new();
    for folder in ["from", "to"] {
        fs::create_dir(home.0.join(folder)).expect("a folder");
        home.file(&format!("{folder}/secret"), folder);
        fs::set_permissions(home.0.join(folder).join("secret"), fs::Permissions::from_mode(0o600))
            .expect("a mode");
    }
    let entry = |tag: u8, bits: u8, id: u32| [&[tag, 0, bits, 0][..], &id.to_le_bytes()].concat();
    let acl_entries =
        [(1, 6, u32::MAX), (2, 6, 1_000), (4, 0, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
    let acl = [vec![2, 0, 0, 0], acl_entries.map(|(tag, bits, id)| entry(tag, bits, id)).concat()].concat();
    let (at, name) = (home.0.join("to/secret"), "system.posix_acl_access");
    if rustix::fs::setxattr(&at, name, &acl, rustix::fs::XattrFlags::empty()).is_err() {
        return skipped("ACLs, which the file system of this test does not support");
    }
    home.run(&["copy", "--no-job", "-r", "from/", "to"]).ok();
    let mut there = [0; 64];
    let length = rustix::fs::getxattr(&at, name, &mut there).expect("an ACL");
    assert_eq!((fs::read_to_string(&at).expect("a file"), mode_of(&at)), ("from".to_owned(), 0o660));
    assert_eq!(there[..length], acl);
    // A file without an ACL does not inherit the default ACL of its directory.
    rustix::fs::setxattr(
        home.0.join("to"),
        "system.posix_acl_default",
        &acl,
        rustix::fs::XattrFlags::empty(),
    )
    .expect("an ACL");
    rustix::fs::removexattr(&at, name).expect("an ACL");
    fs::set_permissions(&at, fs::Permissions::from_mode(0o640)).expect("a mode");
    home.file("from/secret", "another");
    home.run(&["copy", "--no-job", "-r", "from/", "to"]).ok();
    assert_eq!((fs::read_to_string(&at).expect("a file"), mode_of(&at)), ("another".to_owned(), 0o640));
    assert!(rustix::fs::getxattr(&at, name, &mut there).is_err());
}

/// On a file and a directory, the ACL denies the owner the access that other attributes need.
#[test]
fn sets_attributes_before_a_restrictive_acl() {
    let home = Home::new();
    fs::create_dir_all(home.0.join("from/d")).expect("a folder");
    home.file("from/f", "f");
    let id_bytes = |id: u32| id.to_le_bytes();
    let entry = |tag: u8, bits: u8, id: u32| [&[tag, 0, bits, 0][..], &id_bytes(id)].concat();
    let no_id = u32::MAX;
    for (name, bits) in [("from/f", 4), ("from/d", 5)] {
        let acl = [
            vec![2, 0, 0, 0],
            entry(1, bits, no_id),
            entry(2, bits, 1_000),
            entry(4, bits, no_id),
            entry(16, bits, no_id),
            entry(32, bits, no_id),
        ]
        .concat();
        let path = home.0.join(name);
        let set = |attribute: &str, value: &[u8]| {
            rustix::fs::setxattr(&path, attribute, value, rustix::fs::XattrFlags::empty())
        };
        if set("user.k", b"v").and_then(|()| set("system.posix_acl_access", &acl)).is_err() {
            return skipped("ACLs, which the file system of this test does not support");
        }
    }
    for value in ["v", "other"] {
        for name in ["from/f", "from/d"] {
            let set = rustix::fs::setxattr(
                home.0.join(name),
                "user.k",
                value.as_bytes(),
                rustix::fs::XattrFlags::empty(),
            );
            if set.is_err() {
                return skip_without_other_user();
            }
        }
        let Some(output) = run_as_other_user(&home, "$NUMAIO copy --no-job -a from/ to; echo code $?") else {
            return skip_without_other_user();
        };
        assert!(output.out.contains("code 0\n"), "{}\n{}", output.out, output.err);
        for name in ["to/f", "to/d"] {
            let mut there = [0; 64];
            let length = rustix::fs::getxattr(home.0.join(name), "user.k", &mut there).expect("an attribute");
            assert_eq!(&there[..length], value.as_bytes(), "{name}");
            assert!(rustix::fs::getxattr(home.0.join(name), "system.posix_acl_access", &mut there).is_ok());
        }
    }
}

/// If names of attributes are readable but values are not, the copy fails instead of dropping them.
#[test]
fn reports_unreadable_attributes() {
    let home = Home::new();
    for folder in ["from/d", "from/closed"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    for name in ["from/f", "from/d/g", "from/closed"] {
        if name != "from/closed" {
            home.file(name, "content");
        }
        let set = rustix::fs::setxattr(home.0.join(name), "user.k", b"v", rustix::fs::XattrFlags::empty());
        if set.is_err() {
            return skipped("extended attributes, which the file system of this test does not support");
        }
    }
    let script = "
$NUMAIO copy --no-job -a from/ to; echo code $?
chmod 0 from/f from/closed
$NUMAIO copy --no-job -a --json --exclude=/closed from/ to; echo code $?";
    let Some(output) = run_as_other_user(&home, script) else { return skip_without_other_user() };
    assert!(
        output.out.contains("code 0\n") && output.out.ends_with("code 3\n"),
        "{}\n{}",
        output.out,
        output.err
    );
    assert_eq!(output.out.matches("cannot read its extended attributes").count(), 1, "{}", output.out);
    let mut there = [0; 8];
    assert!(rustix::fs::getxattr(home.0.join("to/f"), "user.k", &mut there).is_ok());
}

/// Only the owner may set the times of a directory. Data is complete, so this is one warning.
#[test]
fn attributes_of_a_directory_of_another_user_are_one_warning() {
    let home = Home::new();
    make_closed_dirs(&home, &[("from", 0o755), ("from/shared", 0o777), ("to", 0o777), ("to/shared", 0o777)]);
    fs::remove_file(home.0.join("to/file")).expect("a file");
    fs::remove_file(home.0.join("to/shared/file")).expect("a file");
    let given = run_as_other_user(&home, "[ $(id -u) != 0 ] || exit 99");
    let taken = ["to", "to/shared"].map(|name| std::os::unix::fs::chown(home.0.join(name), Some(0), Some(0)));
    let (Some(_), [Ok(()), Ok(())]) = (given, taken) else { return skip_without_other_user() };
    let script = "
$NUMAIO copy --no-job -r from/ to; echo code $?
$NUMAIO copy --no-job -a from/ to; echo code $?
$NUMAIO copy --no-job -r -O from/ to; echo code $?
$NUMAIO copy --no-job -a --no-times --no-perms --no-group from/ to; echo code $?
diff -r from to && echo same";
    let Some(output) = run(&home, script) else { return skip_without_other_user() };
    let codes: Vec<&str> = output.out.lines().filter(|line| line.starts_with("code")).collect();
    assert_eq!(codes, ["code 0", "code 5", "code 0", "code 0"], "{}\n{}", output.out, output.err);
    assert!(output.out.ends_with("same\n"), "{}", output.out);
    assert_eq!(output.err.matches("cannot set time: operation not permitted").count(), 2, "{}", output.err);
    assert!(output.err.contains("and 1 other entry"), "{}", output.err);
}

#[test]
fn only_root_sets_other_owners() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/f", "f");
    let script = "$NUMAIO copy -r --chown root src/ to && exit 98
$NUMAIO copy -r --chown :root src/ to && exit 97
$NUMAIO copy -q -r --chown $(id -u):$(id -g) src/ to";
    let Some(output) = run_as_other_user(&home, script) else { return skip_without_other_user() };
    for kind in ["user", "group"] {
        let words = format!("cannot set the {kind} 'root': numaio does not run as root at the destination");
        assert!(output.err.contains(&words), "{}", output.err);
    }
    output.ok();
    assert!(home.0.join("to/f").exists());
}
