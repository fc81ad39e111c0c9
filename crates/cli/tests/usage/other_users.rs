//! Files, links and names that another user made, in directories where root runs numaio.

use crate::support::{skipped, Home};
use std::fs;
use std::os::unix::fs::{chown, lchown, symlink, FileTypeExt, PermissionsExt};
use std::path::Path;

const OTHER: u32 = 65_534;

/// Returns a home in which the directory `theirs` belongs to another user; none without root.
fn home_with_other_user() -> Option<Home> {
    let home = Home::new();
    let theirs = home.0.join("theirs");
    fs::create_dir(&theirs).expect("a directory");
    if chown(&theirs, Some(OTHER), None).is_err() {
        skipped("only root can create files of other users");
        return None;
    }
    Some(home)
}

/// Plants a link of the other user.
fn plant(target: &Path, link: &Path) {
    symlink(target, link).expect("a link");
    lchown(link, Some(OTHER), None).expect("another owner");
}

#[test]
fn no_command_writes_through_a_link_of_another_user() {
    let Some(home) = home_with_other_user() else { return };
    let victim = home.file("victim", "precious");
    let (file, link) = (home.path("theirs/file"), home.0.join("theirs/file"));
    let source = home.file("source", "x");
    let machine = ["--machine", "intel-r820"];
    let exported = [&machine[..], &["export", "--format", "hwloc-xml", "-o", &file]].concat();
    let commands: [&[&str]; 5] = [
        &["metrics", "--quiet", "--format", "prometheus", "-o", &file],
        &["record", "--no-measure", "-o", &file],
        &exported,
        &["copy", "--no-job", "--log-file", &file, &source, "copied"],
        &["copy", "--no-job", "--manifest", &file, &source, "copied"],
    ];
    for command in commands {
        for target in [home.0.join("victim"), home.0.join("missing"), "/dev/null".into()] {
            plant(&target, &link);
            let output = home.run(command);
            assert_ne!(output.code, Some(0), "{command:?} {}", target.display());
            assert!(output.err.contains("belongs to user 65534"), "{command:?}: {}", output.err);
            assert!(link.is_symlink() && !home.0.join("missing").exists(), "{command:?}");
            fs::remove_file(&link).expect("removed");
        }
    }
    assert_eq!(fs::read_to_string(victim).expect("a file"), "precious");
    assert_eq!(fs::read_dir(home.0.join("theirs")).expect("a directory").count(), 0);
    assert!(!fs::metadata("/dev/null").expect("a device").file_type().is_file());
}

#[test]
fn own_links_devices_and_descriptors_are_written() {
    let home = Home::new();
    fs::create_dir(home.0.join("far")).expect("a directory");
    symlink("far/sums", home.0.join("sums")).expect("a link");
    let args = ["--machine", "intel-r820", "export", "--format", "hwloc-xml", "-o"];
    let export = |file: &str| home.run(&[&args[..], &[file]].concat());
    export("sums").ok();
    assert!(home.0.join("sums").is_symlink() && home.0.join("far/sums").is_file());
    let written = fs::read_to_string(home.0.join("far/sums")).expect("a file");
    export("/dev/null").ok();
    assert!(fs::metadata("/dev/null").expect("a device").file_type().is_char_device());
    assert_eq!(export("/dev/stdout").ok(), written);
    let stdout = fs::File::create(home.0.join("output")).expect("a file");
    let mut command = home.numaio(&[&args[..], &["/proc/self/fd/1"]].concat());
    assert!(command.stdout(stdout).status().expect("numaio").success());
    assert_eq!(fs::read_to_string(home.0.join("output")).expect("a file"), written);
}

#[test]
fn locks_of_settings_do_not_truncate_the_target_of_a_link() {
    let Some(home) = home_with_other_user() else { return };
    let victim = home.file("victim", "precious");
    let receipts = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&receipts).expect("a directory");
    for owner in [0, OTHER] {
        let link = receipts.join("balance.lock");
        symlink(&victim, &link).expect("a link");
        lchown(&link, Some(owner), None).expect("an owner");
        let process = std::process::id().to_string();
        let output = home.run(&["balance", "--once", &process]);
        assert_eq!(output.err.contains("belongs to user 65534"), owner == OTHER, "{}", output.err);
        fs::remove_file(link).expect("removed");
    }
    assert_eq!(fs::read_to_string(victim).expect("a file"), "precious");
}

#[test]
fn a_configuration_that_others_control_is_not_read() {
    let Some(home) = home_with_other_user() else { return };
    let folder = home.0.join(".config/numaio");
    fs::create_dir_all(&folder).expect("a directory");
    let file = folder.join("config.toml");
    let show = || home.run(&["config", "show"]).ok();
    fs::write(&file, "ssh = \"/tmp/evil\"").expect("a file");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
    mode(0o644);
    assert!(show().contains("/tmp/evil"));
    for bits in [0o664, 0o646, 0o622] {
        mode(bits);
        let shown = show();
        assert!(!shown.contains("/tmp/evil") && shown.contains("not read, since"), "{bits:o}: {shown}");
    }
    mode(0o644);
    let elsewhere = folder.join("mine");
    fs::rename(&file, &elsewhere).expect("renamed");
    plant(&elsewhere, &file);
    assert!(show().contains("not read, since"), "a link of another user");
    fs::remove_file(&file).expect("removed");
    fs::rename(&elsewhere, &file).expect("renamed");
    chown(&file, Some(OTHER), None).expect("another owner");
    assert!(show().contains("not read, since"), "a file of another user");
}

#[test]
fn receipts_of_other_users_are_listed_and_not_applied() {
    let Some(home) = home_with_other_user() else { return };
    let topology = home.run(&["topology", "--json"]).ok();
    let document = numaio_schema::TopologyDocument::from_json(&topology).expect("a topology");
    let fingerprint = document.topology.identity.fingerprint;
    let receipts = home.0.join("state/numaio/receipts");
    fs::create_dir_all(&receipts).expect("a directory");
    let receipt = numaio_schema::Receipt::planned(&fingerprint, None, 1, Vec::new());
    let text = serde_json::to_string(&receipt).expect("JSON");
    let name = |id: &str| receipts.join(format!("{fingerprint}-{id}.json"));
    for id in ["irq-1", "irq\u{1b}[2J\u{202e}-2"] {
        fs::write(name(id), &text).expect("a receipt");
        chown(name(id), Some(OTHER), None).expect("another owner");
    }
    fs::write(receipts.join("own"), &text).expect("a receipt");
    plant(&receipts.join("own"), &name("irq-3"));
    for args in [&["undo", "--list"][..], &["undo"], &["undo", "--all"], &["undo", "irq-1"]] {
        let output = home.run(args);
        let text = output.out + &output.err;
        assert!(text.contains("irq-1") && text.contains("it belongs to user 65534"), "{args:?}: {text}");
        assert!(text.contains("the symbolic link"), "{args:?}: {text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{args:?}: {text:?}");
        assert_eq!(output.code == Some(0), args != ["undo", "irq-1"], "{args:?}: {text}");
    }
    assert!(name("irq-1").exists() && name("irq-3").is_symlink());
}

#[test]
fn names_in_errors_neither_add_lines_nor_control_the_terminal() {
    let home = Home::new();
    let name = "x\nnumaio: done\r\u{1b}[2J\u{202e}\u{2066}\u{9b}";
    let commands: [&[&str]; 6] = [
        &["undo", name],
        &["topology", "--machine", name],
        &["fleet", "show", name],
        &["fleet", "status", name],
        &["copy", "--no-job", name, "copied"],
        &["report", "--output", "report.html", name],
    ];
    for command in commands {
        let output = home.run(command);
        let (code, text) = (output.code, output.out + &output.err);
        assert!(matches!(code, Some(1..=3)) && text.contains("numaio: done"), "{command:?}: {text}");
        assert!(!text.contains("\nnumaio: done"), "{command:?}: {text}");
        assert!(!text.contains(['\r', '\u{1b}', '\u{202e}', '\u{2066}', '\u{9b}']), "{command:?}: {text:?}");
    }
}
