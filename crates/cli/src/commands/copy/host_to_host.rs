//! Both sides on other hosts: the numaio there copies, and tells us what happens.

use super::bootstrap;
use super::endpoint::{Endpoint, Host};
use super::event::{Event, Progress};
use super::request::{TransferRequest, RETRY_VARIABLE};
use super::retry::{wait_for_retry, RetryState};
use super::transfer_output::TransferOutput;
use super::{event, exit_code, first_reply, CopyArgs, SOME_FAILED};
use crate::args::Common;
use crate::failure::{Failure, INTERRUPTED};
use crate::ssh::stderr_relay::lines;
use crate::ssh::{self, AgentForwarding, ManagedProcess};
use numaio_linux::interrupt::interrupted;
use numaio_mover::report::Totals;
use numaio_mover::wire::{Reason, Side};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the other side may take to end when it has told its end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Events that wait to be shown.
const EVENT_QUEUE: usize = 1024;

/// How a try ended.
enum AttemptOutcome {
    /// The other side told its end.
    Over(event::EndEvent),
    /// Its connection was lost, or the other side ended without a word, when it had done so much.
    Lost(Progress),
    /// It was not reached.
    Unreachable(Failure),
}

/// Copies on `host`, where the sources are.
pub fn run(
    common: &Common,
    args: &CopyArgs,
    request: &TransferRequest,
    (host, to): (&str, &Endpoint),
) -> Result<ExitCode, Failure> {
    if let Some(option) = args.forwarded.files.first() {
        return Err(Failure::usage(format!("{option} names a file here, and the transfer runs on {host}"))
            .hint(format!("run it there: ssh {host} numaio copy ...")));
    }
    let program = ssh::program();
    let numaio = bootstrap::ensure_numaio(args, &program, host)?;
    let command: Vec<OsString> =
        std::iter::once(numaio.into()).chain(arguments(args, request, (host, to))).collect();
    let agent = if args.forward_agent { AgentForwarding::On } else { AgentForwarding::Off };
    let mut show = TransferOutput::new(common, args);
    let mut retries = RetryState::new(args.net.retry());
    loop {
        show.begin(retries.earlier_totals());
        let there = (host, common.quiet);
        let line = shell_line(&command, retries.is_first());
        let tried = match attempt(ssh::session_command(&program, host, &line, agent), there, &mut show) {
            Err(failure) if !retries.is_first() => {
                show.give_up(Side::Source, &failure.message);
                return finish(show, &retries.total(), host);
            }
            tried => tried?,
        };
        let why = match tried {
            AttemptOutcome::Over(end) => {
                // Of tries that it made itself the last one counts.
                show.failed = end.totals.failed;
                return finish(show, &retries.total_with(end.totals), host);
            }
            AttemptOutcome::Lost(progress) => {
                retries.record_lost_attempt(progress.totals, reached(&progress));
                "the numaio there was lost".to_owned()
            }
            AttemptOutcome::Unreachable(failure) if retries.is_first() => return Err(failure),
            AttemptOutcome::Unreachable(failure) => failure.message,
        };
        let Some(pause) = retries.next_pause().filter(|_| !interrupted()) else {
            show.give_up(Side::Source, &format!("{host}: {why}"));
            return finish(show, &retries.total(), host);
        };
        show.notice(&format!("{host}: {why}; trying again in {:.1} s", pause.as_secs_f64()));
        wait_for_retry(pause);
    }
}

/// How far a try came. The host told the figures, and may have told any.
fn reached(Progress { totals, reached }: &Progress) -> u64 {
    let of = [totals.resumed, totals.moved, totals.unchanged];
    reached.unwrap_or_else(|| of.into_iter().fold(totals.bytes, u64::saturating_add))
}

/// Runs the other numaio once, and shows what it tells.
fn attempt(
    command: Command,
    (host, quiet): (&str, bool),
    show: &mut TransferOutput,
) -> Result<AttemptOutcome, Failure> {
    let mut process =
        ManagedProcess::start_on((host, quiet), command, EXIT_TIMEOUT, ssh::missing_program_hint())?;
    let Some(stdout) = process.stdout.take() else {
        return Err(Failure::new("the other side has no streams"));
    };
    let mut so_far = None;
    let end = relay_events(&mut process, stdout, show, &mut so_far);
    let status = process.status();
    // What failed was told by events; any other status is one that its words explain.
    let is_told = [0, SOME_FAILED, INTERRUPTED].map(|code| Some(code.into())).contains(&status);
    if quiet && is_told && matches!(end, Ok(Some(_))) {
        process.discard_stderr();
    }
    drop(process);
    Ok(match (end?, so_far, status) {
        (Some(end), ..) => AttemptOutcome::Over(end),
        (None, None, _) if interrupted() => return Err(first_reply::interrupted_before_reply(host)),
        (None, Some(progress), _) if interrupted() => AttemptOutcome::Lost(progress),
        // It said why, and that was passed on.
        (None, Some(_), Some(1..=2)) => return Err(missing_end_event(host, status)),
        (None, Some(progress), _) => AttemptOutcome::Lost(progress),
        (None, None, _) => AttemptOutcome::Unreachable(missing_end_event(host, status)),
    })
}

fn finish(show: TransferOutput, totals: &Totals, host: &str) -> Result<ExitCode, Failure> {
    let cancelled = show.given_up.as_ref().is_some_and(|problem| problem.reason == Reason::Cancelled);
    let ended = show.end(totals);
    if cancelled && !interrupted() {
        return Err(Failure::new(format!("the transfer was interrupted on {host}"))
            .hint(super::transfer_output::RESUME_HINT));
    }
    let (failed, given_up) = ended?;
    Ok(exit_code(failed, given_up))
}

/// The line for the shell there. A further try is one to the numaio there, too: the one before may still end what it has begun. An older one
/// does not hear of it; env(1) takes a program with a `=` for another variable.
fn shell_line(command: &[OsString], is_first: bool) -> OsString {
    let is_plain = command.first().is_some_and(|program| !program.as_bytes().contains(&b'='));
    let further = ["env".into(), format!("{RETRY_VARIABLE}=1").into()];
    let further = further.into_iter().filter(|_| !is_first && is_plain);
    ssh::joined(further.chain(command.iter().cloned()))
}

/// What the other numaio is told. It ends in order when its standard input does. `--quiet` is not for it: one that is older would tell
/// no progress.
fn arguments(args: &CopyArgs, request: &TransferRequest, (host, to): (&str, &Endpoint)) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["copy", "--attached", "--json", "--progress", "--no-job"].map(OsString::from).to_vec();
    words.extend(args.forwarded.options.iter().cloned());
    words.push("--".into());
    words.extend(request.from.iter().map(|path| local_path(path)));
    let begin = match &to.host {
        Some(Host::Ssh(other)) if other != host => format!("{}:", bracketed(other)),
        Some(Host::Daemon(address)) => address.to_string(),
        // There it is no other host.
        _ => String::new(),
    };
    words.push(match &begin[..] {
        "" => local_path(&to.path),
        begin => OsString::from_vec([begin.as_bytes(), &to.path].concat()),
    });
    words
}

/// A host of ssh as it is typed: an address of IPv6 stands in brackets.
fn bracketed(host: &str) -> String {
    match host.rsplit_once('@') {
        Some((user, name)) if name.contains(':') => format!("{user}@[{name}]"),
        None if host.contains(':') => format!("[{host}]"),
        _ => host.to_owned(),
    }
}

/// A path that nobody takes for that of another host.
fn local_path(path: &[u8]) -> OsString {
    let has_colon = path.split(|&byte| byte == b'/').next().is_some_and(|first| first.contains(&b':'));
    let begin: &[u8] = if has_colon { b"./" } else { b"" };
    OsString::from_vec([begin, path].concat())
}

/// Shows what the other side tells until its end; none if there was none. `so_far` is what it had done, if it told anything.
fn relay_events(
    process: &mut ManagedProcess,
    from: impl Read + Send + 'static,
    show: &mut TransferOutput,
    so_far: &mut Option<Progress>,
) -> Result<Option<event::EndEvent>, Failure> {
    let events = events(from);
    let mut asked = None;
    loop {
        if interrupted() {
            // It ends in order, and tells so.
            process.stdin = None;
            let asked = asked.get_or_insert_with(Instant::now);
            if so_far.is_none() || asked.elapsed() > EXIT_TIMEOUT {
                process.terminate_on_drop();
                return Ok(None);
            }
        }
        match events.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(Event::End(end))) => return Ok(Some(end)),
            Ok(Ok(event)) => {
                let told = so_far.get_or_insert_default();
                if let Event::Progress(progress) = &event {
                    // Tries that it makes itself begin anew.
                    *told = Progress { reached: progress.reached.max(told.reached), ..*progress };
                }
                show.show_event(event);
            }
            Ok(Err(failure)) => return Err(failure),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// Reads events in a thread of its own.
fn events(from: impl Read + Send + 'static) -> Receiver<Result<Event, Failure>> {
    let (sender, events) = sync_channel(EVENT_QUEUE);
    thread::spawn(move || {
        // One that was cut short tells nothing.
        for line in lines(from).take_while(|line| line.ends_with(b"\n")) {
            let event = serde_json::from_slice(&line).map(Event::truncated).map_err(|error| {
                Failure::new(format!("the other side tells no events: {error}")).hint(
                    "use the same numaio on all hosts, and a shell there that prints nothing when it begins",
                )
            });
            let is_over = event.is_err();
            if sender.send(event).is_err() || is_over {
                return;
            }
        }
    });
    events
}

/// Why the other side ended without an end.
fn missing_end_event(host: &str, status: Option<i32>) -> Failure {
    match status {
        Some(ssh::SSH_FAILED | ssh::NOT_FOUND) => {
            bootstrap::with_hint(Failure::new(format!("no numaio answers on {host}")), host, status)
        }
        // It said why, and that was passed on.
        Some(status @ 1..=2) => {
            Failure { code: status as u8, ..Failure::new(format!("numaio on {host} could not do it")) }
        }
        _ => Failure::new(format!("numaio on {host} was ended")).hint(super::transfer_output::RESUME_HINT),
    }
}

/// Ends this process in order when the one that started it through ssh is gone, or closes our standard input.
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
    fn a_host_is_the_same_one_when_it_is_named_to_another() {
        for host in ["h", "u@h", "fd09::1", "u@fe80::1%eth0"] {
            let end = Endpoint::parse(OsStr::new(&format!("{}:in", bracketed(host)))).expect("an end");
            assert_eq!(end.host, Some(Host::Ssh(host.to_owned())));
        }
    }

    /// A source knows only at its end how much was there from before: so a further try may tell of less that it moved.
    #[test]
    fn how_far_a_try_came_is_what_it_says_or_what_an_older_one_moved() {
        let totals = Totals { bytes: 7, moved: 2, ..Totals::default() };
        for (told, came) in [(Some(500), 500), (None, 9)] {
            let line = Event::Progress(Progress { totals, reached: told }).line();
            let Ok(Event::Progress(heard)) = serde_json::from_str(&line) else { panic!("{line}") };
            assert_eq!((reached(&heard), line.contains("reached")), (came, told.is_some()));
        }
    }

    #[test]
    fn a_further_try_is_told_that_it_is_one() {
        assert_eq!(shell_line(&["/v=1/numaio".into()], false), *"'/v=1/numaio'");
        let command = ["numaio", "copy"].map(OsString::from);
        assert_eq!(shell_line(&command, true), *"'numaio' 'copy'");
        assert_eq!(shell_line(&command, false), *"'env' 'NUMAIO_AGAIN=1' 'numaio' 'copy'");
    }

    #[test]
    fn a_path_there_names_no_further_host() {
        let cases: [(&[u8], &str); 4] =
            [(b"a:b", "./a:b"), (b"a/b:c", "a/b:c"), (b"/a:b", "/a:b"), (b".", ".")];
        for (path, wanted) in cases {
            assert_eq!(local_path(path), wanted);
        }
    }
}
