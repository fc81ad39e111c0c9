//! The time limit for a peer that gives no sign of life: before, during and between attempts.

use super::hung_storage::HungVolume;
use crate::support::limits::read_line;
use crate::support::{kill, until, with_children, CommandOutput, Home, Limited};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// A home with a program in place of ssh that runs `login` and then the remote command. It appends
/// its process ID to `pids`.
fn home(login: &str) -> Home {
    let home = Home::new();
    home.file("file", "content");
    fs::write(home.0.join("large"), vec![7; 24 << 20]).expect("a file");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -G ] && exit 1\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\n\
         echo $$ >>{}\n{login}\nexec sh -c \"$*\"\n",
        home.path("pids")
    );
    home.script("ssh", &script);
    home
}

fn start(home: &Home, args: &[&str]) -> Child {
    let mut command: Command = home.numaio(&[&["copy", "--remote-numaio", NUMAIO], args].concat());
    command.env("NUMAIO_SSH", home.0.join("ssh")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("numaio")
}

fn run(home: &Home, args: &[&str]) -> CommandOutput {
    CommandOutput::of(start(home, args).limited_output().expect("an end"))
}

fn pids(home: &Home) -> Vec<String> {
    let text = fs::read_to_string(home.0.join("pids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn runs(pid: &str) -> bool {
    let root = numaio_linux::Root::live().expect("a root");
    numaio_machine::process::start_time(&root, pid.parse().expect("a number")).is_some()
}

/// Waits until the destination has received some data, and stops the remote process.
fn stop_peer(home: &Home, to: &str) -> String {
    let written = || {
        let files = fs::read_dir(home.0.join(to)).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum::<u64>()
    };
    until(|| written() > 0, || "nothing was copied");
    let pid = pids(home).pop().expect("a process");
    stop(&pid);
    pid
}

/// Stops a process and its children: the shell may have started numaio in one.
fn stop(pid: &str) {
    for pid in with_children(pid.parse().expect("a number")) {
        kill("-STOP", pid);
    }
}

#[test]
fn login_that_never_answers_is_ended() {
    let cases: [&[&str]; 5] = [
        &["file", "host:to"],
        &["host:file", "to"],
        &["--tunnel", "file", "host:to"],
        &["--bootstrap", "file", "host:to"],
        &["host:file", "other:to"],
    ];
    for (args, login) in
        cases.into_iter().zip(["exec sleep 3600", "cat >/dev/null; exec sleep 3600"].repeat(3))
    {
        let home = home(login);
        run(&home, &[&["--timeout", "1"], args].concat())
            .failed(1, &["numaio: host did not answer within ", " s\n", "--timeout sets the limit"]);
        assert!(pids(&home).iter().all(|pid| !runs(pid)), "the remote process still runs");
    }
}

#[test]
fn long_login_is_reported() {
    let home = home("exec sleep 3600");
    for (args, limit) in
        [(["file", "host:to"], "60"), (["host:file", "other:to"], "60"), (["host:file", "to"], "0")]
    {
        let mut child = start(&home, &[&["--timeout", limit], &args[..]].concat());
        let line = read_line(child.stderr.take().expect("a pipe"));
        let wanted = if limit == "0" { "" } else { ", for up to 60 s (--timeout)" };
        assert_eq!(line, format!("numaio: waiting for host to answer{wanted}"));
        kill("-TERM", child.id());
        assert_eq!(child.limited_status().expect("an end").code(), Some(130));
    }
}

#[test]
fn remote_storage_that_does_not_respond_is_ended() {
    let cases: [(&str, &[&str]); 3] = [
        ("open", &["-r", "host:hung/", "to"]),
        ("read", &["--tunnel", "host:hung/file", "to"]),
        ("read", &["host:hung/file", "other:to"]),
    ];
    for (hung, args) in cases {
        let home = home("");
        let Some(volume) = HungVolume::mount(&home, hung) else { return };
        run(&home, &[&["--timeout", "1"], args].concat())
            .failed(1, &["the storage has not responded for 1 s (--timeout)"]);
        assert!(volume.is_hung());
    }
}

/// The remote side sends keep-alives while it waits for a slow transfer or its own work.
#[test]
fn busy_peer_is_not_ended() {
    let home = home("");
    // The source sends nothing for longer than the limit.
    for options in [&[][..], &["--tunnel"]] {
        let args = [&["--timeout", "1", "--bwlimit", "200K"], options, &["host:slow", "to"]].concat();
        fs::write(home.0.join("slow"), vec![7; 800 << 10]).expect("a file");
        run(&home, &args).ok();
        fs::remove_file(home.0.join("to")).expect("a file");
    }
}

#[test]
fn stopped_peer_is_noticed_within_the_limit() {
    let cases: [&[&str]; 4] = [
        &["./large", "host:to"],
        &["host:large", "to"],
        &["--tunnel", "./large", "host:to"],
        &["--tunnel", "host:large", "to"],
    ];
    for args in cases {
        let home = home("");
        fs::create_dir(home.0.join("to")).expect("a folder");
        let mut child =
            start(&home, &[&["--timeout", "2", "--retry", "0", "--bwlimit", "2M"], args].concat());
        let pid = stop_peer(&home, "to");
        let stopped = Instant::now();
        let output = CommandOutput::of(child.limited_output().expect("an end"));
        output.failed(1, &["no sign of life for 2 s (--timeout)"]);
        // Far below the limits of the kernel and of sshd.
        assert!(stopped.elapsed() < Duration::from_secs(25), "{args:?}: {:?}", stopped.elapsed());
        until(|| !runs(&pid), || "the remote process still runs");
    }
}

#[test]
fn retry_completes_after_a_peer_vanished() {
    let home = home("");
    fs::create_dir(home.0.join("to")).expect("a folder");
    let mut child = start(&home, &["--timeout", "2", "--bwlimit", "8M", "./large", "host:to"]);
    stop_peer(&home, "to");
    let output = CommandOutput::of(child.limited_output().expect("an end"));
    assert!(output.err.contains("host: ") && output.err.contains("; retrying in "), "{}", output.err);
    output.ok();
    assert_eq!(fs::read(home.0.join("to/large")).expect("a file"), vec![7; 24 << 20]);
}

/// Of several attempts, each has the limit.
#[test]
fn retry_without_an_answer_is_ended() {
    // The first login succeeds.
    let home = home("[ -e first ] && exec sleep 3600; touch first");
    fs::create_dir(home.0.join("to")).expect("a folder");
    let args = ["--timeout", "2", "--retry", "6", "--bwlimit", "2M", "./large", "host:to"];
    let mut child = start(&home, &args);
    stop_peer(&home, "to");
    let output = CommandOutput::of(child.limited_output().expect("an end"));
    assert!(pids(&home).len() > 2, "there were further attempts");
    output.failed(1, &["host did not answer within 2 s; retrying in ", "the transfer failed: "]);
}

#[test]
fn vanished_source_host_of_a_transfer_between_two_is_noticed() {
    let home = home("");
    fs::create_dir(home.0.join("to")).expect("a folder");
    let args = ["--timeout", "2", "--retry", "0", "--bwlimit", "2M", "one:large", "two:to"];
    let mut child = start(&home, &args);
    until(|| pids(&home).len() >= 2, || "the second host was not reached");
    until(|| fs::read_dir(home.0.join("to")).expect("a folder").count() > 0, || "nothing was copied");
    // The processes on the source host, as if it had vanished.
    let first = &pids(&home)[0];
    let root = numaio_linux::Root::live().expect("a root");
    let tree = numaio_machine::process::process_trees(&root, &[first.parse().expect("a number")]).concat();
    tree.into_iter().for_each(|pid| kill("-STOP", pid));
    let output = CommandOutput::of(child.limited_output().expect("an end"));
    output.failed(1, &["no sign of life for 5 s (--timeout)"]);
}

#[test]
fn first_login_is_retried_forever_unless_it_is_denied() {
    // The first two logins fail.
    let home = home(
        "for n in 1 2; do [ -e failed$n ] || { touch failed$n; echo ssh: no route >&2; exit 255; }; done",
    );
    fs::create_dir(home.0.join("to")).expect("a folder");
    let args = ["--retry", "forever", "./large", "host:to"];
    let output = CommandOutput::of(start(&home, &args).limited_output().expect("an end"));
    assert_eq!(output.err.matches("ssh: no route").count(), 1, "{}", output.err);
    assert!(output.err.contains("no numaio answers on host; retrying in 0.5 s"), "{}", output.err);
    output.ok();
    for (words, status) in [("u@host: Permission denied (publickey).", 255), ("sh: not found", 127)] {
        let home = self::home(&format!("echo '{words}' >&2; exit {status}"));
        let output = CommandOutput::of(start(&home, &args).limited_output().expect("an end"));
        output.failed(1, &[words, "no numaio answers on host"]);
    }
}
