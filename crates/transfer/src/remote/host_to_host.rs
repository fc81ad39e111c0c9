//! Transfers between two remote hosts: the numaio on the source host copies, and sends events to
//! this one.

use super::attempts::{self, AttemptOutcome};
use super::bootstrap;
use super::peer_wait::{PeerWait, WaitFailure, PATIENCE};
use super::silence_clock::SilenceClock;
use crate::endpoint::{Endpoint, Host};
use crate::event::{EndEvent, Event, Progress};
use crate::jobs::{to_command_arg, to_os_string};
use crate::keep_alive::silence_text;
use crate::line::json_line;
use crate::peer::messages::MAX_LINE_BYTES;
use crate::reporter::{Notice, Reporter, TransferEnd};
use crate::request::TransferRequest;
use crate::ssh::attempt_stderr::AttemptStderr;
use crate::ssh::stderr_relay::lines;
use crate::ssh::{self, AgentForwarding, ManagedProcess};
use crate::transfer::Transfer;
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::{Reason, Side};
use numaio_schema::CommandArg;
use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the remote numaio may take to exit after its last event.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time limit without an event: there is one each second, and several may be late.
const SHORTEST_LIMIT: Duration = Duration::from_secs(5);
/// Longest command line; the kernel limits each argument of ssh to 128 KiB (execve(2)).
const MAX_COMMAND_BYTES: usize = 100 << 10;
/// Option that marks a retry.
const RETRY_OPTION: &str = "--retry-attempt";
const CONNECTION_LOST: &str = "the connection was lost";
/// Maximum number of events that wait to be shown.
const EVENT_QUEUE: usize = 1024;

/// Exit statuses of `numaio copy` after which the events describe all failures: success, failed
/// files, files that changed, attributes, an interrupt. For others stderr explains the failure.
const EXPLAINED_STATUSES: [i32; 5] = [0, 3, 4, 5, 130];

/// Copies on `host`, which has the sources.
pub fn run(
    transfer: &Transfer,
    request: &TransferRequest,
    host: &str,
    mut reporter: Reporter<'_>,
) -> Result<TransferEnd, TransferError> {
    let Transfer { destination: to, remote, .. } = transfer;
    if let Some(option) = remote.local_files.first() {
        return Err(TransferError::LocalFile { option: option.clone(), host: host.to_owned() });
    }
    let program = ssh::program();
    let limit = transfer.network.timeout;
    let wait = PeerWait { reporter: &mut reporter, host, limit };
    let numaio = bootstrap::ensure_numaio(remote, &program, wait)?;
    let numaio: Vec<OsString> = ssh::command_words(&numaio).collect();
    let arguments = arguments(&remote.options, request, (host, to));
    let agent = if remote.forward_agent { AgentForwarding::On } else { AgentForwarding::Off };
    let stderr = AttemptStderr::new(remote.stderr.clone());
    let there = RemoteRun { host, quiet: transfer.quiet, stderr, limit };
    let end = attempts::run(transfer.network.retry, (host, Side::Source), reporter, |reporter, earlier| {
        reporter.begin(earlier);
        let command = RemoteCommand::new(&numaio, &arguments, earlier.is_some())?;
        let line = ssh::session_command(&program, host, &command.line, agent);
        there.attempt(line, command.input, reporter)
    })?;
    let cancelled = end.given_up.as_ref().is_some_and(|problem| problem.reason == Reason::Cancelled);
    match cancelled && !interrupted() {
        true => Err(TransferError::RemoteInterrupted { host: host.to_owned() }),
        false => Ok(end),
    }
}

/// The outcome of an attempt that was lost, or whose numaio exited without its last event.
fn lost(progress: &Progress, why: &str) -> AttemptOutcome {
    AttemptOutcome::Lost { totals: progress.totals, reached: progress.reached, why: why.to_owned() }
}

/// How numaio runs on the source host.
struct RemoteRun<'a> {
    host: &'a str,
    quiet: bool,
    stderr: AttemptStderr,
    /// Time limit without an event.
    limit: Option<Duration>,
}

/// The command of an attempt.
struct RemoteCommand {
    /// Line for a shell.
    line: OsString,
    /// Arguments for stdin, which are too long for a command line.
    input: Option<String>,
}

impl RemoteCommand {
    /// Builds the command. A retry is marked, because the previous attempt may still finish its
    /// files.
    fn new(numaio: &[OsString], arguments: &[OsString], is_retry: bool) -> Result<Self, TransferError> {
        let mut arguments = arguments.to_vec();
        if is_retry {
            arguments.insert(2, RETRY_OPTION.into());
        }
        let line = ssh::joined(numaio.iter().cloned().chain(arguments.iter().cloned()));
        if line.len() <= MAX_COMMAND_BYTES {
            return Ok(Self { line, input: None });
        }
        let input = json_line(&arguments[1..].iter().map(|word| to_command_arg(word)).collect::<Vec<_>>());
        let input = input.map_err(TransferError::Io)?;
        if input.len() as u64 > MAX_LINE_BYTES {
            return Err(TransferError::RequestTooLong);
        }
        let line = ssh::joined(numaio.iter().cloned().chain(arguments_from_stdin()));
        Ok(Self { line, input: Some(input) })
    }
}

/// Returns the arguments of a remote numaio that reads further ones from its stdin.
pub fn arguments_from_stdin() -> [OsString; 3] {
    ["copy", "--attached", "--arguments-from-stdin"].map(OsString::from)
}

/// Reads the arguments that the numaio which started this one passes, one line of JSON.
///
/// # Errors
/// I/O errors, or the line is not valid.
pub fn read_arguments() -> io::Result<Vec<OsString>> {
    let mut line = String::new();
    io::stdin().lock().take(MAX_LINE_BYTES).read_line(&mut line)?;
    let words: Vec<CommandArg> = serde_json::from_str(&line)?;
    Ok(words.iter().map(to_os_string).collect())
}

impl RemoteRun<'_> {
    /// Sends arguments to the stdin of the remote numaio, which stays open.
    fn send_input(
        &self,
        process: &mut ManagedProcess,
        input: String,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), WaitFailure> {
        let Some(mut stdin) = process.stdin.take() else { return Ok(()) };
        let sent = PeerWait { reporter, host: self.host, limit: self.limit }.run(move |progress| {
            // A process that does not read it reports the reason by its exit status.
            let _ = progress.write_all(&mut stdin, input.as_bytes());
            stdin
        });
        process.stdin = Some(sent.inspect_err(|_| process.terminate_on_drop())?);
        Ok(())
    }

    /// Runs the remote numaio once, and shows its events.
    fn attempt(
        &self,
        command: Command,
        input: Option<String>,
        reporter: &mut Reporter<'_>,
    ) -> Result<AttemptOutcome, TransferError> {
        let (host, stderr) = (self.host, self.stderr.begin());
        let mut process = ManagedProcess::start_on((host, self.quiet), command, EXIT_TIMEOUT, stderr)?;
        let Some(stdout) = process.stdout.take() else {
            return Err(TransferError::NoStreams { process: "remote" });
        };
        if let Some(input) = input {
            if let Err(failure) = self.send_input(&mut process, input, reporter) {
                return Ok(AttemptOutcome::Unreachable(failure.error(host)));
            }
        }
        let mut so_far = None;
        let end = self.relay_events(&mut process, stdout, reporter, &mut so_far);
        let status = process.status();
        let events_explain = status.is_some_and(|status| EXPLAINED_STATUSES.contains(&status));
        if self.quiet && events_explain && matches!(end, Ok(RemoteEnd::Event(_))) {
            process.discard_stderr();
        }
        drop(process);
        Ok(match (end?, so_far, status) {
            (RemoteEnd::Event(end), ..) => {
                // Of the attempts on the host, the last one counts.
                reporter.problems.failed = end.totals.failed;
                AttemptOutcome::Over(end.totals)
            }
            (_, None, _) if interrupted() => return Err(WaitFailure::Interrupted.error(host)),
            (_, Some(progress), _) if interrupted() => lost(&progress, CONNECTION_LOST),
            (RemoteEnd::Silent(limit), None, _) => {
                AttemptOutcome::Unreachable(WaitFailure::TimedOut(limit).error(host))
            }
            (RemoteEnd::Silent(limit), Some(progress), _) => lost(&progress, &silence_text(limit)),
            // Its stderr, which was relayed, explains the status.
            (RemoteEnd::Missing, Some(_), Some(1..=2)) => return Err(missing_end_event(host, status)),
            (RemoteEnd::Missing, Some(progress), _) => lost(&progress, CONNECTION_LOST),
            (RemoteEnd::Missing, None, Some(ssh::SSH_FAILED)) if self.stderr.is_denied() => {
                return Err(missing_end_event(host, status));
            }
            (RemoteEnd::Missing, None, _) => AttemptOutcome::Unreachable(missing_end_event(host, status)),
        })
    }

    /// Shows events until the last one. `so_far` is the progress after any event.
    fn relay_events(
        &self,
        process: &mut ManagedProcess,
        from: impl Read + Send + 'static,
        reporter: &mut Reporter<'_>,
        so_far: &mut Option<Progress>,
    ) -> Result<RemoteEnd, TransferError> {
        let events = events(from);
        let limit = self.limit.map(|limit| limit.max(SHORTEST_LIMIT));
        let mut silence = SilenceClock::new(limit);
        let (mut asked, began) = (None, Instant::now());
        loop {
            if interrupted() {
                // The remote numaio stops cleanly and sends its last event.
                process.stdin = None;
                let asked = asked.get_or_insert_with(Instant::now);
                if so_far.is_none() || asked.elapsed() > EXIT_TIMEOUT {
                    process.terminate_on_drop();
                    return Ok(RemoteEnd::Missing);
                }
            }
            if let Some(limit) = silence.poll() {
                process.kill();
                return Ok(RemoteEnd::Silent(limit));
            }
            if so_far.is_none() && began.elapsed() > PATIENCE {
                reporter.notice_once(Notice::Waiting { host: self.host.to_owned(), limit });
            }
            match events.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(Event::End(end))) => return Ok(RemoteEnd::Event(end)),
                Ok(Ok(Event::Alive {})) => silence.restart(),
                Ok(Ok(event)) => {
                    silence.restart();
                    let latest = so_far.get_or_insert_default();
                    if let Event::Progress(progress) = &event {
                        // Retries on the host restart their progress.
                        *latest = Progress { reached: progress.reached.max(latest.reached), ..*progress };
                    }
                    reporter.relay(event);
                }
                Ok(Err(failure)) => return Err(failure),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(RemoteEnd::Missing),
            }
        }
    }
}

/// How the events of the remote numaio ended.
enum RemoteEnd {
    /// With the last event.
    Event(EndEvent),
    /// Without the last event.
    Missing,
    /// There was none for this time.
    Silent(Duration),
}

/// Returns the arguments of the remote numaio, which stops when its stdin closes.
///
/// `--quiet` is not forwarded: this host decides what it shows.
fn arguments(
    options: &[OsString],
    request: &TransferRequest,
    (host, to): (&str, &Endpoint),
) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["copy", "--attached", "--json", "--progress", "--no-job"].map(OsString::from).to_vec();
    words.extend(options.iter().cloned());
    words.push("--".into());
    words.extend(request.from.iter().map(|path| local_path(path)));
    let begin = match &to.host {
        Some(Host::Ssh(other)) if other != host => format!("{}:", bracketed(other)),
        Some(Host::Daemon(address)) => address.to_string(),
        // On the source host, its own paths are local.
        _ => String::new(),
    };
    words.push(match &begin[..] {
        "" => local_path(&to.path),
        begin => OsString::from_vec([begin.as_bytes(), &to.path].concat()),
    });
    words
}

/// Returns a host as typed for ssh, with brackets around an IPv6 address.
fn bracketed(host: &str) -> String {
    match host.rsplit_once('@') {
        Some((user, name)) if name.contains(':') => format!("{user}@[{name}]"),
        None if host.contains(':') => format!("[{host}]"),
        _ => host.to_owned(),
    }
}

/// Returns a path that cannot be taken for HOST:PATH.
fn local_path(path: &[u8]) -> OsString {
    let has_colon = path.split(|&byte| byte == b'/').next().is_some_and(|first| first.contains(&b':'));
    let begin: &[u8] = if has_colon { b"./" } else { b"" };
    OsString::from_vec([begin, path].concat())
}

/// Reads events in a separate thread.
fn events(from: impl Read + Send + 'static) -> Receiver<Result<Event, TransferError>> {
    let (sender, events) = sync_channel(EVENT_QUEUE);
    thread::spawn(move || {
        // A truncated line is not an event.
        for line in lines(from).take_while(|line| line.ends_with(b"\n")) {
            let event = serde_json::from_slice(&line).map(Event::truncated);
            let event = event.map_err(TransferError::NotAnEvent);
            let is_over = event.is_err();
            if sender.send(event).is_err() || is_over {
                return;
            }
        }
    });
    events
}

/// The error for a missing last event.
fn missing_end_event(host: &str, status: Option<i32>) -> TransferError {
    let host = host.to_owned();
    match status {
        Some(ssh::SSH_FAILED | ssh::NOT_FOUND) => TransferError::NoAnswer { host, status },
        // Its stderr, which was relayed, explains the status.
        Some(status @ 1..=2) => TransferError::RemoteFailed { host, status: status as u8 },
        _ => TransferError::RemoteKilled { host },
    }
}

/// Interrupts this process when its stdin closes: the numaio that started it by ssh has exited or
/// stops it.
pub fn stop_with_stdin() {
    thread::spawn(|| {
        drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
        numaio_linux::interrupt::request();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn bracketed_hosts_parse_to_the_same_host() {
        for host in ["h", "u@h", "fd09::1", "u@fe80::1%eth0"] {
            let end = Endpoint::parse(OsStr::new(&format!("{}:in", bracketed(host)))).expect("an end");
            assert_eq!(end.host, Some(Host::Ssh(host.to_owned())));
        }
    }

    #[test]
    fn marks_retries_for_the_remote_numaio() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let line = |is_retry| {
            let arguments = words(&["copy", "--attached", "a"]);
            RemoteCommand::new(&words(&["numaio"]), &arguments, is_retry).expect("a command").line
        };
        assert_eq!(line(false), *"'numaio' 'copy' '--attached' 'a'");
        assert_eq!(line(true), *"'numaio' 'copy' '--attached' '--retry-attempt' 'a'");
    }

    #[test]
    fn long_arguments_are_sent_to_stdin() {
        let long = OsString::from_vec(vec![b'\xff'; MAX_COMMAND_BYTES]);
        let arguments = ["copy".into(), "--attached".into(), long.clone()];
        let command = RemoteCommand::new(&["numaio".into()], &arguments, true).expect("a command");
        assert_eq!(command.line, *"'numaio' 'copy' '--attached' '--arguments-from-stdin'");
        let words: Vec<CommandArg> = serde_json::from_str(&command.input.expect("a line")).expect("JSON");
        let words: Vec<OsString> = words.iter().map(to_os_string).collect();
        assert_eq!(words, ["--attached".into(), OsString::from(RETRY_OPTION), long]);
    }

    #[test]
    fn local_paths_cannot_name_a_host() {
        let cases: [(&[u8], &str); 4] =
            [(b"a:b", "./a:b"), (b"a/b:c", "a/b:c"), (b"/a:b", "/a:b"), (b".", ".")];
        for (path, wanted) in cases {
            assert_eq!(local_path(path), wanted);
        }
    }
}
