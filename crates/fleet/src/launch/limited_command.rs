//! External commands with limits of time and output.

use super::LaunchError;
use numaio_linux::child_group::ChildGroup;
use numaio_machine::printable::printable;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks for the exit of a command.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to read the output after the exit: a process that the command left running may hold it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes kept of stderr: the end, which explains a failure.
const MAX_STDERR_BYTES: usize = 16 << 10;

/// The stdin of a command.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// It is empty.
    Empty,
    /// This text.
    Text(&'a str),
    /// It stays open, so that the other side of a connection notices when this process ends.
    HeldOpen,
}

/// Limits of a command.
pub struct CommandLimits<'a> {
    /// Maximum time until its exit.
    pub time: Duration,
    /// Maximum number of bytes of stdout.
    pub max_output_bytes: usize,
    /// Whether it is to be terminated.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Signaled(i32),
    /// It was terminated at the time limit.
    TimeLimit,
    /// It was terminated because it printed more than allowed.
    OutputLimit,
    /// It was terminated on request.
    Stopped,
}

/// The end and output of a command.
#[derive(Debug, Clone)]
pub struct CapturedOutput {
    /// How it ended.
    pub end: CommandEnd,
    /// Its stdout, up to the limit.
    pub stdout: Vec<u8>,
    /// The end of its stderr.
    pub stderr: String,
}

impl CapturedOutput {
    /// Describes how the command ended, with the last line of its stderr.
    pub fn describe_end(&self, limit: Duration) -> String {
        let end = match self.end {
            CommandEnd::Exited(status) => format!("exited with status {status}"),
            CommandEnd::Signaled(signal) => format!("was killed by signal {signal}"),
            CommandEnd::TimeLimit => format!("did not exit within {} s", limit.as_secs()),
            CommandEnd::OutputLimit => "printed too much output".to_owned(),
            CommandEnd::Stopped => "was interrupted".to_owned(),
        };
        match self.stderr_line() {
            Some(line) => format!("{end}: {line}"),
            None => end,
        }
    }

    /// Returns the last line of stderr that is neither empty nor a hint.
    pub fn stderr_line(&self) -> Option<String> {
        let mut lines = self.stderr.lines().rev().map(str::trim);
        let line = lines.find(|line| !line.is_empty() && !line.starts_with("hint: "))?;
        Some(displayable(line.as_bytes(), 300))
    }
}

/// Returns at most `max` printable characters of text of another program.
pub fn displayable(text: &[u8], max: usize) -> String {
    let text = String::from_utf8_lossy(text);
    printable(&text.chars().take(max).collect::<String>())
}

/// Runs a command within limits. At a limit, it is terminated with the processes that it started.
///
/// # Errors
/// I/O errors; `NotFound` if the program is missing.
pub fn run_limited(
    command: &mut Command,
    input: Input<'_>,
    limits: &CommandLimits<'_>,
) -> io::Result<CapturedOutput> {
    let stdin = if matches!(input, Input::Empty) { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = ChildGroup::spawn(command)?;
    let mut stdin = group.child.stdin.take();
    if let (Input::Text(text), Some(mut pipe)) = (input, stdin.take_if(|_| matches!(input, Input::Text(_)))) {
        let text = text.to_owned();
        // A command that does not read its input reports that by its status.
        thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    }
    let stdout = group.child.stdout.take().map(|pipe| Collector::start(pipe, limits.max_output_bytes, false));
    let stderr = group.child.stderr.take().map(|pipe| Collector::start(pipe, MAX_STDERR_BYTES, true));
    let deadline = Instant::now() + limits.time;
    let end = loop {
        match group.try_wait() {
            Ok(Some(status)) => break end_of(status),
            Err(error) => {
                let _ = group.terminate();
                return Err(error);
            }
            Ok(None) => {}
        }
        let end = match () {
            () if (limits.stop)() => Some(CommandEnd::Stopped),
            () if Instant::now() >= deadline => Some(CommandEnd::TimeLimit),
            () if stdout.as_ref().is_some_and(Collector::is_over) => Some(CommandEnd::OutputLimit),
            () => None,
        };
        if let Some(end) = end {
            // A process that waits in the kernel cannot exit; the caller reports the limit anyway.
            let _ = group.terminate();
            break end;
        }
        thread::sleep(POLL_INTERVAL);
    };
    drop(stdin);
    let bytes = |collector: Option<Collector>| collector.map(Collector::finish).unwrap_or_default();
    let (stdout, stderr) = (bytes(stdout), bytes(stderr));
    Ok(CapturedOutput { end, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

fn end_of(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exited(code),
        (None, signal) => CommandEnd::Signaled(signal.unwrap_or_default()),
    }
}

/// Runs a command for its stdout, which must be UTF-8.
///
/// # Errors
/// It cannot be started, exits with another status than 0, or exceeds a limit.
pub fn stdout_of(
    command: &mut Command,
    input: Input<'_>,
    limits: &CommandLimits<'_>,
) -> Result<String, LaunchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let shown = [program.as_str()].into_iter().map(str::to_owned);
    let args = command.get_args().take(3).map(|arg| arg.to_string_lossy().into_owned());
    let shown = shown.chain(args).collect::<Vec<_>>().join(" ");
    let output =
        run_limited(command, input, limits).map_err(|error| LaunchError::CannotStart { program, error })?;
    match output.end {
        CommandEnd::Exited(0) => String::from_utf8(output.stdout)
            .map_err(|_| LaunchError::UnexpectedOutput { command: shown, why: "it is not UTF-8".to_owned() }),
        CommandEnd::Stopped => Err(LaunchError::Interrupted),
        _ => Err(LaunchError::CommandFailed { why: output.describe_end(limits.time), command: shown }),
    }
}

/// A thread that reads a stream to its end.
struct Collector {
    kept: Arc<Mutex<Kept>>,
    finished: Receiver<()>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Collector {
    /// Starts to read a stream; keeps the first bytes, or the last ones if `tail`.
    fn start(mut from: impl Read + Send + 'static, max: usize, tail: bool) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (send, finished) = mpsc::channel();
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.add(&buffer[..count], max, tail);
            }
            let _ = send.send(());
        });
        Self { kept, finished }
    }

    fn is_over(&self) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }

    fn finish(self) -> Vec<u8> {
        let _ = self.finished.recv_timeout(DRAIN_TIMEOUT);
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).bytes)
    }
}

impl Kept {
    fn add(&mut self, new: &[u8], max: usize, tail: bool) {
        if tail {
            self.bytes.extend(new);
            let excess = self.bytes.len().saturating_sub(max);
            self.bytes.drain(..excess);
            return;
        }
        let free = max.saturating_sub(self.bytes.len());
        self.bytes.extend(&new[..free.min(new.len())]);
        self.is_over |= new.len() > free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, time_ms: u64, max_output_bytes: usize, input: Input<'_>) -> CapturedOutput {
        let limits =
            CommandLimits { time: Duration::from_millis(time_ms), max_output_bytes, stop: &|| false };
        run_limited(Command::new("sh").args(["-c", line]), input, &limits).expect("a shell")
    }

    #[test]
    fn captures_output_and_end() {
        let output = run("cat; echo why >&2; exit 3", 60_000, 100, Input::Text("a\nb\n"));
        assert_eq!((output.end, output.stdout.as_slice()), (CommandEnd::Exited(3), &b"a\nb\n"[..]));
        assert_eq!(output.describe_end(Duration::ZERO), "exited with status 3: why");
        assert_eq!(run("kill -9 $$", 60_000, 9, Input::Empty).end, CommandEnd::Signaled(9));
    }

    #[test]
    fn ends_a_silent_command_and_one_that_prints_too_much() {
        let output = run("echo first; sleep 1000", 200, 100, Input::HeldOpen);
        assert_eq!((output.end, output.stdout.as_slice()), (CommandEnd::TimeLimit, &b"first\n"[..]));
        let output = run("while :; do echo xxxxxxxxxxxxxxxxx; done", 60_000, 1000, Input::Empty);
        assert_eq!((output.end, output.stdout.len()), (CommandEnd::OutputLimit, 1000));
    }

    #[test]
    fn stops_on_request() {
        let limits = CommandLimits { time: Duration::from_secs(60), max_output_bytes: 9, stop: &|| true };
        let output = run_limited(Command::new("sleep").arg("1000"), Input::Empty, &limits).expect("sleep");
        assert_eq!(output.end, CommandEnd::Stopped);
    }

    #[test]
    fn failures_include_stderr_without_control_characters() {
        let limits = CommandLimits { time: Duration::from_secs(60), max_output_bytes: 9, stop: &|| false };
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'no \\033node\\n' >&2; exit 1"]);
        let error = stdout_of(&mut command, Input::Empty, &limits).expect_err("a failure").to_string();
        assert!(error.ends_with("exited with status 1: no \u{fffd}node"), "{error}");
        let error = stdout_of(&mut Command::new("no-such-program"), Input::Empty, &limits);
        assert!(error.expect_err("a failure").to_string().starts_with("cannot start 'no-such-program'"));
    }
}
