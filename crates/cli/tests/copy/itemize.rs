//! `--itemize-changes`, `--stats` and `--log-file`, compared with rsync.

use crate::support::{skipped, CommandOutput, Home, Limited};
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::time::{Duration, SystemTime};

/// Sets the time of modification of a file or directory, in seconds before a fixed time. rsync
/// compares full seconds.
fn age(home: &Home, name: &str, seconds: u64) {
    let file = fs::File::open(home.0.join(name)).expect("a file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds);
    file.set_modified(time).expect("a time");
}

/// Creates `src` and `dst` that differ in many ways.
fn trees(home: &Home) {
    for folder in ["src/new", "src/same", "src/mode", "dst/same", "dst/mode", "dst/extra"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    for (name, content) in [
        ("src/new/f", "new"),
        ("src/same/f", "same"),
        ("dst/same/f", "same"),
        ("src/larger", "content"),
        ("dst/larger", "con"),
        ("src/touched", "same"),
        ("dst/touched", "same"),
        ("src/closed", "same"),
        ("dst/closed", "same"),
        ("src/was-link", "file"),
        ("dst/was-file", "file"),
        ("src/linked", "content"),
        ("dst/extra/f", "extra"),
    ] {
        home.file(name, content);
    }
    symlink("target", home.0.join("src/link")).expect("a link");
    symlink("other", home.0.join("dst/link")).expect("a link");
    symlink("other", home.0.join("dst/was-link")).expect("a link");
    symlink("larger", home.0.join("src/was-file")).expect("a link");
    fs::hard_link(home.0.join("src/linked"), home.0.join("src/linked-too")).expect("a link");
    home.command("mkfifo", &["src/pipe"]).limited_status().expect("mkfifo");
    let links = ["-h", "-d", "@1600000000", "src/link", "dst/link"];
    home.command("touch", &links).limited_status().expect("touch");
    let mode = |name: &str, mode| {
        fs::set_permissions(home.0.join(name), PermissionsExt::from_mode(mode)).expect("a mode");
    };
    mode("dst/closed", 0o600);
    mode("dst/mode", 0o700);
    let folders = ["src/new", "src/same", "src/mode", "src", "dst/same", "dst/mode", "dst"];
    let files = ["src/new/f", "src/same/f", "dst/same/f", "src/larger", "src/touched", "src/closed"];
    let files = [&files[..], &["dst/closed", "src/was-link", "src/linked"]].concat();
    files.iter().for_each(|name| age(home, name, 3_000));
    folders.iter().for_each(|name| age(home, name, 2_000));
    age(home, "dst/touched", 1_000);
    age(home, "dst/larger", 1_000);
    age(home, "dst", 1_000);
}

/// Returns the itemized lines of a copy of `src/` to a copy of `dst`, sorted.
fn items(home: &Home, program: &str, args: &[&str], ends: [&str; 2]) -> Option<Vec<String>> {
    let _ = fs::remove_dir_all(home.0.join("to"));
    CommandOutput::of(home.command("cp", &["-a", "dst", "to"]).limited_output().expect("cp")).ok();
    let remote = ["--remote-numaio", env!("CARGO_BIN_EXE_numaio")];
    let mut command = match program {
        "rsync" => home.command(program, &[args, &ends].concat()),
        _ => home.numaio(&[&["copy", "-q"], args, &remote, &ends].concat()),
    };
    let output = command.env("NUMAIO_SSH", home.local_ssh()).limited_output().ok()?;
    let mut lines: Vec<String> = CommandOutput::of(output).ok().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    // rsync transfers another one of several hard links.
    let is_linked = |line: &String| line.contains("f+++++++++ linked");
    let link = "hf+++++++++ linked-too => linked";
    assert!(program == "rsync" || !lines.iter().any(is_linked) || lines.iter().any(|line| line == link));
    lines.retain(|line| !is_linked(line));
    Some(lines)
}

#[test]
fn items_have_the_letters_of_rsync() {
    let home = Home::new();
    trees(&home);
    if numaio_linux::process::is_super_user() {
        chown(home.0.join("dst/closed"), Some(1), Some(2)).expect("an owner");
    }
    let set = rustix::fs::setxattr(home.0.join("src/closed"), "user.x", b"value", XattrFlags::empty());
    let kinds: &[&[&str]] =
        &[&["-aHAXi", "--delete"], &["-aHAXin", "--delete"], &["-rlHti", "--exclude=pipe"], &["-aHAXic"]];
    for args in kinds {
        let Some(expected) = items(&home, "rsync", args, ["src/", "to"]) else {
            return skipped("no rsync to compare with");
        };
        assert!(expected.len() > 7 && expected.iter().any(|line| line.contains("f+++++++++ new/f")));
        assert_eq!(items(&home, "numaio", args, ["src/", "to"]).expect("numaio"), expected, "{args:?}");
        assert_eq!(items(&home, "numaio", args, ["host:src/", "to"]).expect("numaio"), expected, "{args:?}");
        let sent: Vec<String> = expected.iter().map(|line| line.replacen('>', "<", 1)).collect();
        let mut sent: Vec<String> = sent
            .into_iter()
            .zip(&expected)
            .map(|(sent, line)| if line.starts_with('>') { sent } else { line.clone() })
            .collect();
        sent.sort_unstable();
        assert_eq!(items(&home, "numaio", args, ["src/", "host:to"]).expect("numaio"), sent, "{args:?}");
    }
    if set.is_err() {
        skipped("extended attributes: not supported by the file system");
    }
    // A new destination.
    fs::remove_dir_all(home.0.join("dst")).expect("removed");
    let rsync =
        home.command("rsync", &["-rlHi", "--exclude=pipe", "src/", "new"]).limited_output().expect("rsync");
    let mut expected: Vec<String> = CommandOutput::of(rsync).ok().lines().map(str::to_owned).collect();
    expected.sort_unstable();
    expected.retain(|line| !line.starts_with("created directory") && !line.contains(" linked"));
    fs::remove_dir_all(home.0.join("new")).expect("removed");
    let ours = home.run(&["copy", "-rlHqi", "--exclude=pipe", "src/", "new"]).ok();
    let mut ours: Vec<&str> = ours.lines().filter(|line| !line.contains(" linked")).collect();
    ours.sort_unstable();
    assert_eq!(ours, expected);
}

#[test]
fn statistics_are_those_of_rsync() {
    let home = Home::new();
    trees(&home);
    let kept = ["Number of", "Total file size", "Total transferred file size"];
    let lines = |lines: Vec<String>| -> Vec<String> {
        lines.into_iter().filter(|line| kept.iter().any(|begin| line.starts_with(begin))).collect()
    };
    for args in [&["-aH", "--stats"][..], &["-aH", "--stats", "--delete"], &["-aHn", "--stats"]] {
        let Some(expected) = items(&home, "rsync", args, ["src/", "to"]) else {
            return skipped("no rsync to compare with");
        };
        // rsync counts the bytes of a file for each of its hard links.
        let expected: Vec<String> = lines(expected)
            .into_iter()
            .map(|line| match line.strip_prefix("Total file size: ") {
                None => line,
                Some(bytes) => {
                    let bytes: u64 = bytes.trim_end_matches(" bytes").parse().expect("a number");
                    format!("Total file size: {} bytes", bytes - "content".len() as u64)
                }
            })
            .collect();
        assert!(expected.len() == 6 && expected[0].starts_with("Number of created files: "), "{expected:?}");
        for ends in [["src/", "to"], ["host:src/", "to"], ["src/", "host:to"], ["host:src/", "host:to"]] {
            assert_eq!(lines(items(&home, "numaio", args, ends).expect("numaio")), expected, "{args:?}");
        }
    }
    let text = home.run(&["copy", "-a", "--stats", "src/", "all"]).ok();
    assert!(text.contains("Transferred data: 33 bytes\n") && text.contains(" bytes/sec\n"), "{text}");
}

#[test]
fn log_file_has_changes_failures_and_the_summary() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/f", "content");
    for (ends, letter) in
        [(["src/", "one"], '>'), (["src/", "host:two"], '<'), (["host:src/", "host:three"], '>')]
    {
        let remote = ["--remote-numaio", env!("CARGO_BIN_EXE_numaio")];
        let args = [&["copy", "-rq", "--log-file", "log"], &remote[..], &ends].concat();
        let ssh = home.local_ssh();
        CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", ssh).limited_output().expect("numaio")).ok();
        let log = fs::read_to_string(home.0.join("log")).expect("a log");
        let lines: Vec<&str> = log.lines().collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.split_once("] ").expect("a process").1).collect();
        assert!(texts.contains(&format!("{letter}f+++++++++ f").as_str()), "{log}");
        assert!(texts.last().is_some_and(|text| text.starts_with("2 moved, 0 unchanged; 7 B in ")), "{log}");
        let (date, rest) = lines[0].split_at(19);
        assert!(rest.starts_with(" [") && date.as_bytes()[4] == b'/' && date.as_bytes()[13] == b':', "{log}");
    }
    // It is appended to, and failures are in it, too.
    let before = fs::read_to_string(home.0.join("log")).expect("a log").lines().count();
    home.run(&["copy", "-rq", "--log-file", "log", "src", "none", "four"]).failed(3, &["none: no such file"]);
    let log = fs::read_to_string(home.0.join("log")).expect("a log");
    assert!(log.lines().count() > before + 2 && log.contains("] numaio: none: no such file"), "{log}");
    home.run(&["copy", "-r", "--log-file", "none/log", "src", "five"]).failed(1, &["none/log"]);
    assert!(!home.0.join("five").exists());
}
