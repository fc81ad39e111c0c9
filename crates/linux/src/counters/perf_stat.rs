//! `perf stat` as a child, for events by a name of the kernel's tables.

use numaio_machine::counters::{parse_perf_stat, Count, Counter, CounterSource};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{fcntl_setfd, FdFlags};
use rustix::pipe::{pipe_with, PipeFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest wait for a reply of perf.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// A running `perf stat` that counts events of a process and of the threads that it starts.
pub struct PerfStat {
    child: Child,
    events: Vec<(Counter, String)>,
    commands: File,
    replies: OwnedFd,
}

impl PerfStat {
    /// Returns whether perf is installed and counts an event on this machine.
    pub fn can_count(event: &str) -> bool {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-j", "-e", event, "--", "true"]);
        let output = perf.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).output();
        let Ok(output) = output else { return false };
        let counts = parse_perf_stat(&String::from_utf8_lossy(&output.stderr));
        output.status.success() && counts.iter().any(|count| count.value.is_ok())
    }

    /// Starts perf with all events disabled (perf-stat(1), `--control`).
    ///
    /// # Errors
    /// perf is not installed, or does not know an event.
    pub fn start(pid: u32, events: Vec<(Counter, String)>) -> io::Result<Self> {
        let (command_reader, commands) = pipe_with(PipeFlags::CLOEXEC)?;
        let (replies, reply_writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // perf inherits its ends.
        for end in [&command_reader, &reply_writer] {
            fcntl_setfd(end, FdFlags::empty())?;
        }
        let control = format!("fd:{},{}", command_reader.as_raw_fd(), reply_writer.as_raw_fd());
        let mut perf = Command::new("perf");
        perf.args(["stat", "-j", "-D", "-1", "--control", &control, "-p", &pid.to_string()]);
        for (_, event) in &events {
            perf.args(["-e", event]);
        }
        perf.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = perf.spawn()?;
        let started = Self { child, events, commands: File::from(commands), replies };
        drop((command_reader, reply_writer));
        // The first reply shows that perf has opened its events.
        match started.send("disable\n") {
            true => Ok(started),
            false => Err(io::Error::other("perf does not count these events")),
        }
    }

    /// Starts counting.
    pub fn enable(&self) {
        self.send("enable\n");
    }

    /// Stops counting.
    pub fn disable(&self) {
        self.send("disable\n");
    }

    /// Sends a command and returns whether perf acknowledged it.
    fn send(&self, command: &str) -> bool {
        use rustix::event::{poll, PollFd, PollFlags, Timespec};
        if (&self.commands).write_all(command.as_bytes()).is_err() {
            return false;
        }
        let mut waiting = [PollFd::new(&self.replies, PollFlags::IN)];
        let timeout = Timespec { tv_sec: REPLY_TIMEOUT.as_secs() as _, tv_nsec: 0 };
        let mut reply = [0; 64];
        matches!(poll(&mut waiting, Some(&timeout)), Ok(1))
            && rustix::io::read(&self.replies, &mut reply).is_ok_and(|bytes| bytes > 0)
    }

    /// Ends perf and returns its counts.
    pub fn finish(mut self) -> Vec<Count> {
        // SAFETY: a call without memory; the child has not been waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        let mut text = String::new();
        if let Some(mut output) = self.child.stderr.take() {
            let _ = output.read_to_string(&mut text);
        }
        let printed = parse_perf_stat(&text);
        let count = |(counter, event): &(Counter, String)| {
            let printed = printed.iter().find(|count| count.event == *event)?;
            let value = printed.value.clone().ok()?;
            // perf has scaled the value.
            let raw = (value * printed.share).round() as u64;
            let running_ns = printed.running_ns;
            let enabled_ns = (running_ns as f64 / printed.share.max(f64::MIN_POSITIVE)) as u64;
            let (counter, source, event) = (*counter, CounterSource::PerfStat, event.clone());
            Some(Count { counter, node: None, source, event, raw, enabled_ns, running_ns })
        };
        self.events.iter().filter_map(count).collect()
    }
}

impl Drop for PerfStat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::print_skipped;

    /// Page faults need no PMU; perf need not be installed.
    #[test]
    fn counts_page_faults_of_this_process_while_enabled() {
        let events = vec![(Counter::PageFaults, "page-faults".to_owned())];
        let perf = match PerfStat::start(std::process::id(), events) {
            Ok(perf) => perf,
            Err(error) => {
                return print_skipped(&format!("skipped: perf stat: {error}"));
            }
        };
        perf.enable();
        let pages = vec![1u8; 8 << 20];
        std::hint::black_box(&pages);
        perf.disable();
        let counts = perf.finish();
        assert_eq!(counts.len(), 1, "{counts:?}");
        assert!(counts[0].raw > 0 && counts[0].source == CounterSource::PerfStat, "{counts:?}");
    }

    #[test]
    fn unknown_events_are_not_counted() {
        assert!(!PerfStat::can_count("no_such_event_of_any_cpu"));
        let events = vec![(Counter::Cycles, "no_such_event_of_any_cpu".to_owned())];
        assert!(PerfStat::start(std::process::id(), events).is_err());
    }
}
