//! Transfers between two remote hosts: the numaio on the source host copies, and sends events to
//! this one.

use super::attempts::{self, AttemptOutcome};
use super::bootstrap;
use super::peer_wait::{PeerWait, WaitFailure};
use crate::endpoint::{Endpoint, Host};
use crate::event::{EndEvent, Event, Progress};
use crate::keep_alive::silence_text;
use crate::reporter::{Notice, Reporter, TransferEnd};
use crate::request::{TransferRequest, RETRY_VARIABLE};
use crate::ssh::stderr_relay::{lines, LineSink};
use crate::ssh::{self, AgentForwarding, ManagedProcess};
use crate::transfer::Transfer;
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use numaio_mover::wire::{Reason, Side};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the remote numaio may take to exit after its last event.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time between two polls that counts as silence.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// Shortest time limit without an event: several events may be late.
const SHORTEST_LIMIT: Duration = Duration::from_secs(5);
/// How long the first event may take before the wait is reported.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTION_LOST: &str = "the connection was lost";
/// Maximum number of events that wait to be shown.
const EVENT_QUEUE: usize = 1024;

/// Exit statuses of `numaio copy` after which the events describe all failures: success, failed
/// files, an interrupt. For others stderr explains the failure.
const EXPLAINED_STATUSES: [i32; 3] = [0, 3, 130];

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
    let command: Vec<OsString> =
        ssh::command_words(&numaio).chain(arguments(&remote.options, request, (host, to))).collect();
    let agent = if remote.forward_agent { AgentForwarding::On } else { AgentForwarding::Off };
    let there = RemoteRun { host, quiet: transfer.quiet, stderr: &remote.stderr, limit };
    let end = attempts::run(transfer.network.retry, (host, Side::Source), reporter, |reporter, earlier| {
        reporter.begin(earlier);
        let line = shell_line(&command, earlier.is_none());
        there.attempt(ssh::session_command(&program, host, &line, agent), reporter)
    })?;
    let cancelled = end.given_up.as_ref().is_some_and(|problem| problem.reason == Reason::Cancelled);
    match cancelled && !interrupted() {
        true => Err(TransferError::RemoteInterrupted { host: host.to_owned() }),
        false => Ok(end),
    }
}

/// The outcome of an attempt that was lost, or whose numaio exited without its last event.
fn lost(progress: &Progress, why: &str) -> AttemptOutcome {
    AttemptOutcome::Lost { totals: progress.totals, reached: reached(progress), why: why.to_owned() }
}

/// Returns the progress of an attempt. The host is not trusted, so sums saturate.
fn reached(Progress { totals, reached }: &Progress) -> u64 {
    let of = [totals.resumed, totals.moved, totals.unchanged];
    reached.unwrap_or_else(|| of.into_iter().fold(totals.bytes, u64::saturating_add))
}

/// How numaio runs on the source host.
struct RemoteRun<'a> {
    host: &'a str,
    quiet: bool,
    stderr: &'a LineSink,
    /// Time limit without an event.
    limit: Option<Duration>,
}

impl RemoteRun<'_> {
    /// Runs the remote numaio once, and shows its events.
    fn attempt(
        &self,
        command: Command,
        reporter: &mut Reporter<'_>,
    ) -> Result<AttemptOutcome, TransferError> {
        let (host, stderr) = (self.host, self.stderr.clone());
        let mut process = ManagedProcess::start_on((host, self.quiet), command, EXIT_TIMEOUT, stderr)?;
        let Some(stdout) = process.stdout.take() else {
            return Err(TransferError::NoStreams { process: "remote" });
        };
        let mut so_far = None;
        let silence = SilenceClock::new(self.limit);
        let end = relay_events(&mut process, stdout, (host, silence), reporter, &mut so_far);
        let status = process.status();
        let events_explain = status.is_some_and(|status| EXPLAINED_STATUSES.contains(&status));
        if self.quiet && events_explain && matches!(end, Ok(RemoteEnd::Event(_))) {
            process.discard_stderr();
        }
        drop(process);
        Ok(match (end?, so_far, status) {
            (RemoteEnd::Event(end), ..) => {
                // Of the attempts on the host, the last one counts.
                reporter.failed = end.totals.failed;
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
            (RemoteEnd::Missing, None, _) => AttemptOutcome::Unreachable(missing_end_event(host, status)),
        })
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

/// Measures the time without an event.
struct SilenceClock {
    limit: Option<Duration>,
    silent: Duration,
    polled: Instant,
}

impl SilenceClock {
    /// The remote numaio sends an event each second.
    fn new(limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| limit.max(SHORTEST_LIMIT));
        Self { limit, silent: Duration::ZERO, polled: Instant::now() }
    }

    /// Adds the time since the last poll, at most [`LONGEST_STEP`]: this process may have stopped.
    /// Returns the limit if it is exceeded.
    fn poll(&mut self) -> Option<Duration> {
        self.silent += self.polled.elapsed().min(LONGEST_STEP);
        self.polled = Instant::now();
        self.limit.filter(|limit| self.silent >= *limit)
    }
}

/// Returns the remote shell line. A retry is marked, because the previous attempt may still finish
/// its files.
///
/// env(1) would take a program with a `=` for a variable; an older numaio ignores the mark.
fn shell_line(command: &[OsString], is_first: bool) -> OsString {
    let is_plain = command.first().is_some_and(|program| !program.as_bytes().contains(&b'='));
    let further = ["env".into(), format!("{RETRY_VARIABLE}=1").into()];
    let further = further.into_iter().filter(|_| !is_first && is_plain);
    ssh::joined(further.chain(command.iter().cloned()))
}

/// Returns the arguments of the remote numaio, which stops when its stdin closes.
///
/// `--quiet` is not forwarded, because an older numaio would then send no progress.
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

/// Shows events until the last one. `so_far` is the progress after any event.
fn relay_events(
    process: &mut ManagedProcess,
    from: impl Read + Send + 'static,
    (host, mut silence): (&str, SilenceClock),
    reporter: &mut Reporter<'_>,
    so_far: &mut Option<Progress>,
) -> Result<RemoteEnd, TransferError> {
    let events = events(from);
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
            reporter.notice_once(Notice::Waiting { host: host.to_owned(), limit: silence.limit });
        }
        match events.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(Event::End(end))) => return Ok(RemoteEnd::Event(end)),
            Ok(Ok(Event::Alive {})) => silence.silent = Duration::ZERO,
            Ok(Ok(event)) => {
                silence.silent = Duration::ZERO;
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
    use numaio_schema::JobTotals;
    use std::ffi::OsStr;

    #[test]
    fn bracketed_hosts_parse_to_the_same_host() {
        for host in ["h", "u@h", "fd09::1", "u@fe80::1%eth0"] {
            let end = Endpoint::parse(OsStr::new(&format!("{}:in", bracketed(host)))).expect("an end");
            assert_eq!(end.host, Some(Host::Ssh(host.to_owned())));
        }
    }

    /// A source learns only at its end how much was resumed, so that a retry may report fewer moved
    /// bytes.
    #[test]
    fn progress_is_reached_or_moved_bytes_of_an_older_numaio() {
        let totals = JobTotals { bytes: 7, moved: 2, ..JobTotals::default() };
        for (reported, expected) in [(Some(500), 500), (None, 9)] {
            let line = Event::Progress(Progress { totals, reached: reported }).line();
            let Ok(Event::Progress(received)) = serde_json::from_str(&line) else { panic!("{line}") };
            assert_eq!((reached(&received), line.contains("reached")), (expected, reported.is_some()));
        }
    }

    #[test]
    fn marks_retries_for_the_remote_numaio() {
        assert_eq!(shell_line(&["/v=1/numaio".into()], false), *"'/v=1/numaio'");
        let command = ["numaio", "copy"].map(OsString::from);
        assert_eq!(shell_line(&command, true), *"'numaio' 'copy'");
        assert_eq!(shell_line(&command, false), *"'env' 'NUMAIO_AGAIN=1' 'numaio' 'copy'");
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
