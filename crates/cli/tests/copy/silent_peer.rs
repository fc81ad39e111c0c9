//! Peers that send nothing, or no numaio reply, before a transfer starts; and ssh password prompts.

use crate::support::limits::accept_from;
use crate::support::{kill, until, CommandOutput, Home, Limited, HEED_SIGNALS};
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// A home with a file and a program in place of ssh, which writes its process ID to `far.pid`.
fn home(run: &str) -> Home {
    let home = Home::new();
    home.file("file", "content");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -G ] && exit 1\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\n\
         echo $$ >pid && mv pid far.pid\n{run}\n"
    );
    home.script("ssh", &script);
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

fn remote_runs(home: &Home) -> bool {
    runs(&fs::read_to_string(home.0.join("far.pid")).expect("a process"))
}

fn send_signal(mut client: Child, signal: &str) -> CommandOutput {
    kill(signal, client.id());
    CommandOutput::of(client.limited_output().expect("an end"))
}

/// Interrupts numaio while the peer is silent, and returns its output.
fn interrupt(home: &Home, client: Child, signal: &str) -> CommandOutput {
    until(|| home.0.join("far.pid").exists(), || "ssh did not start");
    let output = send_signal(client, signal);
    assert!(!remote_runs(home), "the remote process still runs");
    fs::remove_file(home.0.join("far.pid")).expect("removed");
    output
}

/// The remote process would run for an hour: a test that waits for it exceeds its time limit.
#[test]
fn interrupt_ends_the_wait_for_a_silent_remote_process() {
    let cases: [&[&str]; 5] = [
        &["file", "host:to"],
        &["host:file", "to"],
        &["--tunnel", "file", "host:to"],
        &["--bootstrap", "file", "host:to"],
        &["host:file", "other:to"],
    ];
    let home = home("exec sleep 3600");
    for (args, signal) in cases.into_iter().zip(["-INT", "-TERM", "-INT", "-TERM", "-INT"]) {
        let client = command(&home, args).spawn().expect("numaio");
        interrupt(&home, client, signal).failed(130, &["numaio: interrupted before host answered"]);
    }
    // The jobs are interrupted and can be resumed.
    let jobs = home.run(&["jobs"]).ok();
    assert_eq!(jobs.matches("interrupted").count(), cases.len(), "{jobs}");
}

#[test]
fn interrupt_ends_the_wait_for_a_silent_daemon() {
    let home = home("exec false");
    home.run(&["keygen"]).ok();
    for (is_source, signal) in [(true, "-INT"), (false, "-TERM")] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = format!("numaio://{address}/root");
        let args = if is_source { ["file", &url] } else { [&url, "to"] };
        let client = command(&home, &args).spawn().expect("numaio");
        let mut silent = accept_from(&listener, client.id());
        // The client has started to open the control channel.
        silent.read_exact(&mut [0]).expect("a byte");
        send_signal(client, signal).failed(130, &[&format!("numaio: interrupted before {address} answered")]);
    }
}

#[test]
fn interrupt_kills_an_unresponsive_remote_process_and_its_children() {
    // The process ignores SIGTERM and the end of its standard input.
    let home = home("trap '' TERM INT\nsleep 3600 & echo $! >sleep.pid\nprintf '{\"Rea'\nwait");
    let client = command(&home, &["file", "host:to"]).spawn().expect("numaio");
    until(
        || fs::read_to_string(home.0.join("sleep.pid")).is_ok_and(|pid| pid.ends_with('\n')),
        || "the remote process did not start",
    );
    interrupt(&home, client, "-INT").failed(130, &["interrupted before host answered"]);
    let sleep = fs::read_to_string(home.0.join("sleep.pid")).expect("a process");
    if fs::File::open("/dev/tty").is_ok() {
        // With a terminal, numaio kills only ssh itself.
        drop(Command::new("kill").arg(sleep.trim()).limited_status());
    }
    until(|| !runs(&sleep), || "the child of the remote process still runs");
}

#[test]
fn interrupt_ends_the_write_of_a_request_that_is_not_read() {
    let home = home("exec sleep 3600");
    // Far more than the capacity of a pipe.
    let rules: String = (0..20_000).map(|index| format!("- name-{index}\n")).collect();
    home.file("rules", &rules);
    let args = ["-r", "--exclude-from", "rules", "./", "host:to"];
    let client = command(&home, &args).spawn().expect("numaio");
    interrupt(&home, client, "-TERM").failed(130, &["interrupted before host answered"]);
}

#[test]
fn reports_output_of_a_remote_program_that_is_not_numaio() {
    let cases = [
        ("echo 'Welcome to host'; exec sh -c \"$*\"", "is not numaio: Welcome to host"),
        // Endless output, with and without line breaks; and half an answer.
        ("exec yes welcome", "is not numaio: welcome"),
        ("exec tr '\\0' w </dev/zero", "is not numaio: wwwwwwww"),
        ("exec tr '\\0' '{' </dev/zero", "is not numaio: {{{{{{{{"),
        ("printf '\\033[2J{'; exec sleep 3600", "is not numaio: \u{fffd}[2J{"),
        ("echo '{\"Ready\":1}'; exec sleep 3600", "is not numaio: {\"Ready\":1}"),
    ];
    for (run, words) in cases {
        let home = home(run);
        for args in [["file", "host:to"], ["host:file", "to"]] {
            // Endless output would fill the memory if numaio read it without a limit.
            let output = CommandOutput::of(command(&home, &args).limited_output().expect("numaio"));
            output.failed(1, &["numaio: the program on host is not numaio: ", words, "ssh host true"]);
            assert!(!remote_runs(&home), "the remote process still runs: {run}");
            assert!(!home.0.join("to").exists());
        }
    }
}

/// Runs a command on its own terminal, types a reply to its password prompt, and prints its output.
const TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, typed = b'', False
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:
        break
    shown += some
    if b'password: ' in shown and not typed:
        os.write(terminal, sys.argv[1].encode().decode('unicode_escape').encode())
        typed = True
print(shown.decode(), 'code', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// Prompts on the terminal, as ssh does: its standard streams belong to numaio.
const ASKS: &str = "printf 'password: ' >/dev/tty; read word </dev/tty\n\
    [ \"$word\" = secret ] || exit 255; exec sh -c \"$*\"";

fn on_a_terminal(home: &Home, typed: &str) -> String {
    home.file("terminal.py", TERMINAL);
    let line = ["terminal.py", typed, NUMAIO, "copy", "--remote-numaio", NUMAIO, "file", "host:to"];
    let mut command = home.command(HEED_SIGNALS[0], &[&[HEED_SIGNALS[1], "python3"], &line[..]].concat());
    command.env("NUMAIO_SSH", home.0.join("ssh"));
    CommandOutput::of(command.limited_output().expect("python3")).ok()
}

#[test]
fn ssh_can_prompt_for_a_password_on_the_terminal() {
    let home = home(ASKS);
    let out = on_a_terminal(&home, "secret\\n");
    assert!(out.ends_with("code 0\n"), "{out}");
    assert_eq!(fs::read(home.0.join("to")).ok(), Some(b"content".to_vec()));
}

#[test]
fn interrupt_during_a_password_prompt_ends_numaio_and_ssh() {
    let home = home(ASKS);
    // Ctrl-C.
    let out = on_a_terminal(&home, "\\x03");
    assert!(out.contains("interrupted before host answered") && out.ends_with("code 130\n"), "{out}");
    assert!(!remote_runs(&home) && !home.0.join("to").exists());
}
