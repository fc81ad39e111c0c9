//! Running other programs, bound to CPUs and a node, with what they say kept as it came.

use crate::affinity::Mask;
use crate::interrupt;
use crate::memory::Policy;
use numaio_machine::probe::{ProbeError, ToolEnd, ToolOutcome, ToolSaid};
use numaio_machine::workload::{ToolProcess, ToolWorkload};
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most bytes kept of each stream that a tool writes; what comes after them is read and dropped.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// How often we look whether a tool has ended: short beside a measurement of a second.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long a tool may take to end when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Runs all processes of a tool at once, to their end or to the time limit.
///
/// # Errors
/// [`ProbeError::Unsupported`] with the name of a program that is not on PATH; [`ProbeError::Refused`] if one cannot
/// be started or bound; [`ProbeError::Interrupted`]. None of them is left running.
pub fn run(workload: &ToolWorkload) -> Result<ToolOutcome, ProbeError> {
    let began = Instant::now();
    let deadline = began + Duration::from_millis(workload.time_limit_ms.into());
    let mut running = Vec::new();
    for process in &workload.processes {
        // Those that were started before one that cannot be are ended by their drop.
        running.push(RunningTool::start(&workload.program, process)?);
    }
    let mut interrupted = false;
    let mut stopped = false;
    while running.iter_mut().any(|tool| tool.ended().is_none()) {
        interrupted |= interrupt::interrupted();
        stopped |= Instant::now() >= deadline;
        if interrupted || stopped {
            running.iter_mut().for_each(RunningTool::end);
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
    if interrupted {
        return Err(ProbeError::Interrupted);
    }
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let processes = running.into_iter().map(RunningTool::output).collect();
    Ok(ToolOutcome { processes, elapsed_ns, there: Vec::new() })
}

/// A process of ours that was started; ended when dropped.
pub(crate) struct RunningTool {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
    /// How it ended and its CPU time, once it is known.
    ended: Option<(ToolEnd, u64)>,
    /// Whether we ended it.
    stopped: bool,
}

impl RunningTool {
    /// Starts it, bound.
    ///
    /// # Errors
    /// As [`run`].
    pub fn start(program: &str, process: &ToolProcess) -> Result<Self, ProbeError> {
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => ProbeError::Unsupported { what: program.to_owned() },
            _ => ProbeError::Refused { what: format!("start {program}"), why: error.to_string() },
        };
        let mut command = Command::new(program);
        command.args(&process.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that it is ended with its children.
        command.process_group(0);
        bind(&mut command, process);
        let mut child = command.spawn().map_err(refused)?;
        let stdout = child.stdout.take().map(|from| thread::spawn(move || read_output(from)));
        let stderr = child.stderr.take().map(|from| thread::spawn(move || read_output(from)));
        Ok(Self { child, stdout, stderr, ended: None, stopped: false })
    }

    /// How it ended, with its CPU time in nanoseconds, if it did.
    pub fn ended(&mut self) -> Option<(ToolEnd, u64)> {
        if self.ended.is_none() {
            self.ended = reap(self.child.id(), libc::WNOHANG);
        }
        self.ended
    }

    /// Asks it and its children to end, and kills them if they do not.
    fn end(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.stopped = true;
        self.signal(libc::SIGTERM);
        let patience = Instant::now() + GRACE;
        while self.ended().is_none() && Instant::now() < patience {
            thread::sleep(POLL_INTERVAL);
        }
        self.signal(libc::SIGKILL);
        self.ended = self.ended.or_else(|| reap(self.child.id(), 0));
    }

    /// Ends it, if it has not, and gives what it said.
    pub fn stop_and_collect(mut self) -> ToolSaid {
        self.end();
        self.output()
    }

    /// To its whole group. Children that outlive it are reached too: the group lives as long as one of them.
    fn signal(&self, signal: libc::c_int) {
        let group = -i64::from(self.child.id());
        // SAFETY: a call without memory; the group is one that we made.
        unsafe { libc::kill(group as libc::pid_t, signal) };
    }

    fn output(mut self) -> ToolSaid {
        let (ended, cpu_ns) = self.ended().unwrap_or((ToolEnd::TimeLimit, 0));
        let text =
            |from: Option<JoinHandle<String>>| from.and_then(|from| from.join().ok()).unwrap_or_default();
        ToolSaid {
            ended: if self.stopped { ToolEnd::TimeLimit } else { ended },
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
            cpu_ns,
        }
    }
}

impl Drop for RunningTool {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sets affinity and memory policy between fork and exec, and has the kernel end the tool should we die.
fn bind(command: &mut Command, process: &ToolProcess) {
    let mask = (!process.cpus.is_empty()).then(|| Mask::of(&process.cpus));
    let policy = process.memory.map(Policy::bind);
    // SAFETY: between fork and exec only system calls are made, on memory that was allocated before.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            mask.as_ref().map_or(Ok(()), Mask::apply)?;
            policy.as_ref().map_or(Ok(()), Policy::apply)
        });
    }
}

/// Waits for a process of ours: how it ended, and the CPU time of it and its children in nanoseconds.
fn reap(pid: u32, flags: libc::c_int) -> Option<(ToolEnd, u64)> {
    let mut status = 0;
    // SAFETY: rusage is a plain C struct for which all bytes zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values that live through the call.
    let found = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, flags, &raw mut usage) };
    if found <= 0 {
        return None;
    }
    let end = match libc::WIFSIGNALED(status) {
        true => ToolEnd::Signal(libc::WTERMSIG(status)),
        false => ToolEnd::Status(libc::WEXITSTATUS(status)),
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Some((end, ns(usage.ru_utime) + ns(usage.ru_stime)))
}

/// Reads to the end, and keeps the beginning.
fn read_output(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    // What was said before an error counts; the tool's exit status tells of the rest.
    drop(from.by_ref().take(MAX_OUTPUT_BYTES as u64).read_to_end(&mut kept));
    drop(io::copy(&mut from, &mut io::sink()));
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::{CpuId, NodeId};
    use numaio_machine::set::CpuSet;

    fn shell(line: &str, cpus: CpuSet, memory: Option<NodeId>) -> ToolProcess {
        ToolProcess { args: vec!["-c".into(), line.into()], cpus, memory }
    }

    fn tool(processes: Vec<ToolProcess>, time_limit_ms: u32) -> ToolWorkload {
        ToolWorkload { program: "sh".into(), processes, time_limit_ms, peer: None }
    }

    #[test]
    fn what_it_says_and_how_it_ends_is_kept() {
        let lines = ["echo one; echo two >&2; exit 3", "kill -9 $$"];
        let processes = lines.map(|line| shell(line, CpuSet::new(), None)).to_vec();
        let outcome = run(&tool(processes, 10_000)).expect("a shell");
        let said = &outcome.processes[0];
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("one\n", "two\n"));
        assert_eq!(said.ended, ToolEnd::Status(3));
        assert_eq!(outcome.processes[1].ended, ToolEnd::Signal(9));
    }

    #[test]
    fn it_runs_where_it_is_bound() {
        let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
        let Some(allowed) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) else {
            return;
        };
        let last = allowed.trim().rsplit([',', '-']).next().and_then(|cpu| cpu.parse().ok()).map(CpuId);
        let cpu = last.expect("a CPU of our own");
        let line = "grep Cpus_allowed_list /proc/self/status; head -1 /proc/self/numa_maps";
        let outcome =
            run(&tool(vec![shell(line, CpuSet::one(cpu), Some(NodeId(0)))], 10_000)).expect("a shell");
        let said = &outcome.processes[0].stdout;
        assert!(said.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{said}");
        assert!(!said.contains("numa_maps") || said.contains(" bind:0 "), "{said}");
    }

    #[test]
    fn a_tool_that_hangs_is_ended_with_its_children() {
        let file = std::env::temp_dir().join(format!("numaio-tool-{}", std::process::id()));
        let line = format!("sleep 1000 & echo $! > {}; trap '' TERM; wait; sleep 1000", file.display());
        let outcome = run(&tool(vec![shell(&line, CpuSet::new(), None)], 300)).expect("a shell");
        assert_eq!(outcome.processes[0].ended, ToolEnd::TimeLimit);
        let child = std::fs::read_to_string(&file).expect("its child's number");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
        drop(std::fs::remove_file(file));
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let absent = ToolWorkload {
            program: "no-such-tool-of-ours".into(),
            ..tool(vec![shell("", CpuSet::new(), None)], 1)
        };
        assert_eq!(run(&absent), Err(ProbeError::Unsupported { what: "no-such-tool-of-ours".into() }));
        let elsewhere = shell("true", CpuSet::one(CpuId(8000)), None);
        let error = run(&tool(vec![elsewhere], 1000)).expect_err("no such CPU");
        assert!(matches!(error, ProbeError::Refused { .. }), "{error}");
    }
}
