//! `numaio top` on this machine, on recordings, and in a terminal of tmux(1).

use crate::support::{self, kill, skipped, until, CommandOutput, Home, Limited};
use numaio_schema::{TopRecording, TopSnapshot};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SNAPSHOT: &str = include_str!("../../../schema/tests/fixtures/top-1.json");

/// Returns a recording of two equal snapshots, 100 ms apart.
fn recording(home: &Home) -> String {
    let first = TopSnapshot::from_json(SNAPSHOT).expect("a snapshot");
    let second = TopSnapshot { taken_at_ms: first.taken_at_ms + 100, ..first.clone() };
    let lines = [first, second].map(|snapshot| serde_json::to_string(&snapshot).expect("JSON"));
    home.file("day.top", &(lines.join("\n") + "\n"))
}

fn snapshot_of(output: CommandOutput) -> TopSnapshot {
    TopSnapshot::from_json(&output.ok()).expect("a snapshot")
}

#[test]
fn one_sample_of_this_machine_as_json_and_text() {
    let home = Home::new();
    let mut busy =
        Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().expect("a shell");
    let pid = busy.id().to_string();
    let found = home.run(&["top", "--once", "--json", "--every", "400ms", "--filter", &pid]);
    let text = home.run(&["top", "--once", "--every", "200ms", "--sort", "memory"]).ok();
    busy.kill().and_then(|()| busy.wait()).expect("the shell's end");
    let snapshot = snapshot_of(found);
    assert!(snapshot.interval_s > 0.0 && !snapshot.nodes.is_empty() && !snapshot.host.is_empty());
    assert!(snapshot.nodes.iter().all(|node| node.busy_cpus.is_some()), "{:?}", snapshot.nodes);
    let [program] = snapshot.programs.as_slice() else { panic!("{:?}", snapshot.programs) };
    assert_eq!((program.pid.to_string(), program.name.as_str()), (pid, "sh"));
    assert!(program.cpus.is_some() && program.io.is_some(), "{program:?}");
    assert!(text.contains("NODE") && text.contains("Pressure: "), "{text}");
}

#[test]
fn recording_is_replayed_by_its_name_and_as_a_machine() {
    let home = Home::new();
    let file = home.path("new.top");
    home.run(&["top", "--record", &file, "--samples", "2", "--every", "100ms"]).ok();
    let text = fs::read_to_string(&file).expect("a recording");
    let recorded = TopRecording::parse(&text).expect("a recording");
    assert_eq!((recorded.snapshots.len(), recorded.is_truncated), (2, false));
    assert!(recorded.snapshots.iter().all(|snapshot| snapshot.interval_s > 0.0));
    for option in ["--replay", "--machine"] {
        let last = snapshot_of(home.run(&["top", option, &file, "--once", "--json", "--sort", "pid"]));
        assert_eq!(Some(&last), recorded.snapshots.last(), "{option}");
    }
    let printed = home.run(&["top", "--record", "-", "--samples", "1", "--every", "100ms"]).ok();
    assert_eq!(TopRecording::parse(&printed).expect("a recording").snapshots.len(), 1);
    // A recorder that was killed leaves an incomplete line.
    let cut = home.file("cut.top", &text[..text.len() - 20]);
    let output = home.run(&["top", "--replay", &cut, "--once"]);
    assert!(output.err.contains("the last sample is incomplete"), "{}", output.err);
    output.ok();
}

#[test]
fn recorder_ends_cleanly_at_an_interrupt() {
    let home = Home::new();
    let file = home.path("long.top");
    let mut recorder = home.numaio(&["top", "--record", &file, "--every", "100ms"]).spawn().expect("numaio");
    until(|| fs::read_to_string(&file).is_ok_and(|text| text.contains('\n')), || "no sample");
    kill("-INT", recorder.id());
    assert!(recorder.wait().expect("an exit").success());
    let text = fs::read_to_string(&file).expect("a recording");
    assert!(!TopRecording::parse(&text).expect("a recording").is_truncated);
}

#[test]
fn wrong_inputs_have_a_reason_and_a_hint() {
    let home = Home::new();
    let day = recording(&home);
    let newer = home.file("newer.top", &SNAPSHOT.replace('\n', "").replace("top/1", "top/9"));
    let broken = home.file("broken.top", "{\"schema\": \"numaio/top/1\"}\n");
    let empty = home.file("empty.top", "");
    let failed = |args: &[&str], code, parts: &[&str]| {
        home.run(&[&["top"], args].concat()).failed(code, parts);
    };
    failed(&[], 2, &["not a terminal", "hint: numaio top --once"]);
    failed(&["--replay", &day], 2, &["not a terminal", "--once"]);
    failed(&["--every", "0"], 2, &["--every", "expected a time from 100ms to 60m"]);
    failed(&["--every=-1s"], 2, &["expected a time"]);
    failed(&["--json"], 2, &["--once"]);
    failed(&["--sort", "name"], 2, &["remote"]);
    failed(&["--samples", "2"], 2, &["--record"]);
    failed(&["--record", "x", "--samples", "0"], 2, &["expected an integer from 1"]);
    failed(&["--record", &day], 1, &["cannot create", "it exists", "hint: choose another file"]);
    failed(&["--record", &home.path("no/x")], 1, &["hint: "]);
    failed(&["--record", "x", "--replay", &day], 2, &["--replay"]);
    failed(&["--once", "--machine", "amd-2p"], 2, &["no running programs", "--record FILE"]);
    failed(&["--once", "--machine", "amd-2p", "--replay", &day], 2, &["--replay", "--machine"]);
    failed(&["--once", "--replay", &home.path("none")], 1, &["No such file", "hint: numaio top --record"]);
    failed(&["--once", "--replay", &newer], 1, &["line 1", "a newer numaio"]);
    failed(&["--once", "--replay", &broken], 1, &["line 1", "numaio"]);
    failed(&["--once", "--replay", &empty], 1, &["not a numaio document", "hint: numaio top --record"]);
    let directory = home.path("");
    failed(&["--once", "--replay", &directory], 1, &["directory"]);
    assert!(!Path::new(&home.path("x")).exists(), "no file was written");
}

/// A terminal of tmux(1) with a shell.
struct Terminal {
    home: Home,
    socket: String,
    /// Number of checks of a clean terminal so far.
    checks: Cell<u32>,
}

impl Terminal {
    /// Starts a shell in a terminal of this size; `None`, with a report, without tmux.
    fn start(width: u16, height: u16) -> Option<Self> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
            skipped("tmux is not installed");
            return None;
        }
        let home = Home::new();
        // The path of a socket has at most 107 bytes.
        let socket = format!("/tmp/numaio-top-{}", home.0.file_name().expect("a name").to_string_lossy());
        let terminal = Self { home, socket, checks: Cell::new(1) };
        let (width, height) = (width.to_string(), height.to_string());
        let shell = "env -u ENV PS1='ready> ' sh -i";
        let args = ["-f", "/dev/null", "-u", "new-session", "-d", "-x", &width, "-y", &height, shell];
        let mut start = terminal.home.command("tmux", &["-S", &terminal.socket]);
        start.args(args).env("NUMAIO", env!("CARGO_BIN_EXE_numaio")).env_remove("TMUX");
        start.env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        let output = CommandOutput::of(start.limited_output().expect("tmux"));
        assert_eq!(output.code, Some(0), "{}", output.err);
        terminal.wait_for(|screen| screen.contains("ready>"));
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.home.command("tmux", &["-S", &self.socket]);
        CommandOutput::of(command.args(args).limited_output().expect("tmux"))
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).ok();
    }

    /// Types a command line.
    fn enter(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).ok()
    }

    fn wait_for(&self, is_ready: impl Fn(&str) -> bool) -> String {
        until(|| is_ready(&self.screen()), || format!("not on the screen:\n{}", self.screen()));
        self.screen()
    }

    /// Returns the process ID of the program that the shell runs.
    fn program(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]).ok();
        let shell: u32 = shell.trim().parse().expect("a process ID");
        let children = support::with_children(shell);
        *children.iter().find(|pid| **pid != shell).expect("a program")
    }

    /// Checks that the terminal is as the shell left it, and shows this text again.
    fn assert_clean(&self, text: &str) {
        self.wait_for(is_at_prompt);
        let token = format!("clean{}", self.checks.get());
        self.checks.set(self.checks.get() + 1);
        let count = "$(stty -a | tr ' ;' '\\n\\n' | grep -cxE 'icanon|echo|isig|opost|icrnl')";
        self.enter(&format!("echo {token} {count}"));
        let done = format!("{token} 5");
        let screen = self.wait_for(|screen| screen.lines().any(|line| line.trim() == done));
        assert!(screen.contains(text), "{text}: {screen}");
        let state = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).ok();
        assert_eq!(state.trim(), "0 1", "no alternate screen, and a cursor");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        let _ = fs::remove_file(&self.socket);
    }
}

/// Returns the tables of a screen: without the header and the last line. A screen is empty for a
/// moment after its size changed.
fn tables(screen: &str) -> Vec<String> {
    let lines: Vec<&str> = screen.trim_end_matches('\n').lines().map(str::trim_end).collect();
    let end = lines.iter().rposition(|line| line.contains("q quit") || line.contains("end of the rec"));
    let tables = lines.iter().take(end.unwrap_or(lines.len())).skip(1);
    tables.map(|line| (*line).to_owned()).collect()
}

/// Whether the shell has printed its prompt after a program: it reads the next line. A line that is
/// typed earlier is echoed anywhere.
fn is_at_prompt(screen: &str) -> bool {
    screen.contains("marker") && screen.trim_end().ends_with("ready>")
}

fn expected_tables(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/top/screens").join(name);
    tables(&fs::read_to_string(path).expect("an expected screen"))
}

#[test]
fn terminal_shows_the_expected_screens_and_is_left_clean() {
    let Some(terminal) = Terminal::start(80, 24) else { return };
    let day = recording(&terminal.home);
    terminal.enter("echo marker");
    terminal.enter(&format!("\"$NUMAIO\" top --replay {day}; echo status $?"));
    let screen = terminal.wait_for(|screen| screen.contains("end of the recording"));
    assert_eq!(tables(&screen), expected_tables("80x24.txt"));
    terminal.tmux(&["resize-window", "-x", "40", "-y", "15"]).ok();
    let small = expected_tables("40x15.txt");
    terminal.wait_for(|screen| tables(screen) == small);
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]).ok();
    let large = expected_tables("120x40.txt");
    terminal.wait_for(|screen| tables(screen) == large);
    terminal.keys(&["?"]);
    terminal.wait_for(|screen| screen.contains("any key: close"));
    terminal.keys(&["x"]);
    terminal.keys(&["m"]);
    terminal.wait_for(|screen| screen.contains("a recording cannot be changed"));
    terminal.keys(&["q"]);
    terminal.wait_for(|screen| screen.contains("status 0"));
    terminal.assert_clean("marker");
}

#[test]
fn live_view_survives_stops_and_leaves_the_terminal_at_signals() {
    let Some(terminal) = Terminal::start(80, 24) else { return };
    terminal.enter("echo marker");
    terminal.enter("\"$NUMAIO\" top --every 200ms; echo status $?");
    let is_live = |screen: &str| screen.contains("PROGRAM") && screen.contains("every 0.2 s");
    terminal.wait_for(is_live);
    // SIGTSTP from outside, and Ctrl-Z, which the view handles itself.
    kill("-TSTP", terminal.program());
    terminal.assert_clean("marker");
    terminal.enter("fg");
    terminal.wait_for(is_live);
    terminal.keys(&["C-z"]);
    terminal.wait_for(is_at_prompt);
    terminal.enter("fg");
    terminal.wait_for(is_live);
    terminal.keys(&["e"]);
    terminal.wait_for(|screen| screen.contains("process ") && !screen.contains("NODE"));
    kill("-TERM", terminal.program());
    terminal.assert_clean("marker");
    terminal.enter("\"$NUMAIO\" top; echo \"then $?\"");
    terminal.wait_for(|screen| screen.contains("every 2 s"));
    terminal.keys(&["C-c"]);
    terminal.wait_for(|screen| screen.contains("then 0"));
    terminal.assert_clean("marker");
    terminal.enter("TERM=dumb \"$NUMAIO\" top");
    terminal.wait_for(|screen| screen.contains("the terminal has no screen") && screen.contains("--once"));
}

#[test]
fn closed_terminal_ends_the_view() {
    let Some(terminal) = Terminal::start(80, 24) else { return };
    terminal.enter("exec \"$NUMAIO\" top --every 200ms");
    terminal.wait_for(|screen| screen.contains("PROGRAM"));
    let pid = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]).ok();
    let stat = format!("/proc/{}/stat", pid.trim());
    terminal.tmux(&["kill-server"]);
    let has_ended = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    until(has_ended, || "the view is still running");
}
