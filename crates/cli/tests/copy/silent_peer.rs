//! Other sides that say nothing, or something else than numaio does, before a transfer begins; and ssh that asks for a password.

use crate::support::limits::accept_from;
use crate::support::{kill, until, Home, Limited, Said, HEED_SIGNALS};
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// A home with a file, and a program in place of ssh, whose process is noted in `far.pid`.
fn home(run: &str) -> Home {
    let home = Home::new();
    home.file("file", "content");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -G ] && exit 1\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\n\
         echo $$ >pid && mv pid far.pid\n{run}\n"
    );
    let ssh = home.file("ssh", &script);
    fs::set_permissions(ssh, fs::Permissions::from_mode(0o755)).expect("a mode");
    home
}

fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.numaio(&[&["copy", "--remote-numaio", NUMAIO], args].concat());
    command.env("NUMAIO_SSH", home.0.join("ssh")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn runs(pid: &str) -> bool {
    let root = numaio_linux::Root::live().expect("a root");
    numaio_machine::process::start_time(&root, pid.trim().parse().expect("a number")).is_some()
}

fn far_runs(home: &Home) -> bool {
    runs(&fs::read_to_string(home.0.join("far.pid")).expect("a process"))
}

fn signalled(mut near: Child, signal: &str) -> Said {
    kill(signal, near.id());
    Said::of(near.limited_output().expect("an end"))
}

/// What numaio says when it gets this signal while the other side is silent.
fn interrupted(home: &Home, near: Child, signal: &str) -> Said {
    until(|| home.0.join("far.pid").exists(), || "ssh is started");
    let said = signalled(near, signal);
    assert!(!far_runs(home), "the other side was left behind");
    fs::remove_file(home.0.join("far.pid")).expect("removed");
    said
}

/// The other side would go on for an hour: whoever waits for it does not come to the end of this test.
#[test]
fn an_interrupt_ends_the_wait_for_a_silent_side() {
    let ways: [&[&str]; 5] = [
        &["file", "host:to"],
        &["host:file", "to"],
        &["--tunnel", "file", "host:to"],
        &["--bootstrap", "file", "host:to"],
        &["host:file", "other:to"],
    ];
    let home = home("exec sleep 3600");
    for (way, signal) in ways.into_iter().zip(["-INT", "-TERM", "-INT", "-TERM", "-INT"]) {
        let near = command(&home, way).spawn().expect("numaio");
        interrupted(&home, near, signal).failed(130, &["numaio: interrupted before host answered"]);
    }
    // The jobs were cut, and can be resumed.
    let jobs = home.run(&["jobs"]).ok();
    assert_eq!(jobs.matches("cut").count(), ways.len(), "{jobs}");
}

#[test]
fn an_interrupt_ends_the_wait_for_a_silent_daemon() {
    let home = home("exec false");
    home.run(&["keygen"]).ok();
    for (is_source, signal) in [(true, "-INT"), (false, "-TERM")] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let place = listener.local_addr().expect("an address");
        let url = format!("numaio://{place}/root");
        let way = if is_source { ["file", &url] } else { [&url, "to"] };
        let near = command(&home, &way).spawn().expect("numaio");
        let mut silent = accept_from(&listener, near.id());
        // It has begun to open the channel.
        silent.read_exact(&mut [0]).expect("a byte");
        signalled(near, signal).failed(130, &[&format!("numaio: interrupted before {place} answered")]);
    }
}

#[test]
fn an_interrupt_ends_a_side_that_began_an_answer_and_whatever_it_started() {
    // It does not end when it is asked to, nor when its standard input does.
    let home = home("trap '' TERM INT\nsleep 3600 & echo $! >sleep.pid\nprintf '{\"Rea'\nwait");
    let near = command(&home, &["file", "host:to"]).spawn().expect("numaio");
    until(
        || fs::read_to_string(home.0.join("sleep.pid")).is_ok_and(|pid| pid.ends_with('\n')),
        || "it began",
    );
    interrupted(&home, near, "-INT").failed(130, &["interrupted before host answered"]);
    let sleep = fs::read_to_string(home.0.join("sleep.pid")).expect("a process");
    if fs::File::open("/dev/tty").is_ok() {
        // With a terminal numaio ends ssh alone.
        drop(Command::new("kill").arg(sleep.trim()).limited_status());
    }
    until(|| !runs(&sleep), || "what it started ends, too");
}

#[test]
fn an_order_that_nobody_takes_can_be_interrupted() {
    let home = home("exec sleep 3600");
    // Far more than a pipe holds.
    let rules: String = (0..20_000).map(|index| format!("- name-{index}\n")).collect();
    home.file("rules", &rules);
    let args = ["-r", "--exclude-from", "rules", "./", "host:to"];
    let near = command(&home, &args).spawn().expect("numaio");
    interrupted(&home, near, "-TERM").failed(130, &["interrupted before host answered"]);
}

#[test]
fn who_is_no_numaio_is_told_by_what_it_says() {
    let cases = [
        ("echo 'Welcome to host'; exec sh -c \"$*\"", "is not numaio: Welcome to host"),
        // Without end, in lines or not; and half an answer.
        ("exec yes welcome", "is not numaio: welcome"),
        ("exec tr '\\0' w </dev/zero", "is not numaio: wwwwwwww"),
        ("exec tr '\\0' '{' </dev/zero", "is not numaio: {{{{{{{{"),
        ("printf '\\033[2J{'; exec sleep 3600", "is not numaio: \u{fffd}[2J{"),
        ("echo '{\"Ready\":1}'; exec sleep 3600", "is not numaio: {\"Ready\":1}"),
    ];
    for (run, words) in cases {
        let home = home(run);
        for way in [["file", "host:to"], ["host:file", "to"]] {
            // So much memory that a limit on what is read is noticed where there is none.
            let said = Said::of(command(&home, &way).limited_output().expect("numaio"));
            said.failed(1, &["numaio: the program on host is not numaio: ", words, "ssh host true"]);
            assert!(!far_runs(&home), "the other side was left behind: {run}");
            assert!(!home.0.join("to").exists());
        }
    }
}

/// Runs a command on a terminal of its own, types when it is asked for a password, and prints what it printed.
const TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
told, typed = b'', False
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:
        break
    told += some
    if b'password: ' in told and not typed:
        os.write(terminal, sys.argv[1].encode().decode('unicode_escape').encode())
        typed = True
print(told.decode(), 'code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// As ssh does: its standard streams are ours, so it asks on the terminal itself.
const ASKS: &str = "printf 'password: ' >/dev/tty; read word </dev/tty\n\
    [ \"$word\" = secret ] || exit 255; exec sh -c \"$*\"";

fn on_a_terminal(home: &Home, typed: &str) -> String {
    home.file("terminal.py", TERMINAL);
    let line = ["terminal.py", typed, NUMAIO, "copy", "--remote-numaio", NUMAIO, "file", "host:to"];
    let mut command = home.command(HEED_SIGNALS[0], &[&[HEED_SIGNALS[1], "python3"], &line[..]].concat());
    command.env("NUMAIO_SSH", home.0.join("ssh"));
    Said::of(command.limited_output().expect("python3")).ok()
}

#[test]
fn ssh_can_ask_for_a_password_on_the_terminal() {
    let home = home(ASKS);
    let out = on_a_terminal(&home, "secret\\n");
    assert!(out.ends_with("code 0\n"), "{out}");
    assert_eq!(fs::read(home.0.join("to")).ok(), Some(b"content".to_vec()));
}

#[test]
fn an_interrupt_where_ssh_asks_for_a_password_ends_both() {
    let home = home(ASKS);
    // Ctrl-C.
    let out = on_a_terminal(&home, "\\x03");
    assert!(out.contains("interrupted before host answered") && out.ends_with("code 130\n"), "{out}");
    assert!(!far_runs(&home) && !home.0.join("to").exists());
}
