//! External tools, bound to CPUs and a node, with captured output.

use crate::affinity::Mask;
use crate::clock::nanoseconds;
use crate::interrupt;
use crate::memory::Policy;
use crate::process::ProcessHandle;
use numaio_machine::probe::{ProbeError, ToolExit, ToolOutcome, ToolOutput};
use numaio_machine::workload::{ToolProcess, ToolWorkload};
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes kept of stdout and of stderr of a tool; further output is discarded.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// Interval between checks for the exit of a tool: short compared to a measurement of a second.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// Time after SIGKILL. A process that waits for a failed device or file server exits only when the
/// kernel gives up the request; it is left behind.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Runs all processes of a tool at the same time until they exit or the time limit expires.
///
/// # Errors
/// [`ProbeError::Unsupported`] with the name of a program that is not in PATH,
/// [`ProbeError::Refused`] if a process cannot be started or bound, and
/// [`ProbeError::Interrupted`]. All started processes are terminated in these cases.
pub fn run(workload: &ToolWorkload) -> Result<ToolOutcome, ProbeError> {
    let began = Instant::now();
    let deadline = began + Duration::from_millis(workload.time_limit_ms.into());
    let mut running = Vec::new();
    for process in &workload.processes {
        // If one process cannot be started, dropping the others terminates them.
        running.push(RunningTool::start(&workload.program, process)?);
    }
    let mut interrupted = false;
    let mut stopped = false;
    while running.iter_mut().any(|tool| tool.ended().is_none()) {
        interrupted |= interrupt::interrupted();
        stopped |= Instant::now() >= deadline;
        if interrupted || stopped {
            RunningTool::end_all(&mut running);
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
    if interrupted {
        return Err(ProbeError::Interrupted);
    }
    let elapsed_ns = nanoseconds(began);
    let processes = running.into_iter().map(RunningTool::output).collect();
    Ok(ToolOutcome { processes, elapsed_ns, peer_processes: Vec::new() })
}

/// A running tool process; dropping it terminates the process.
pub(crate) struct RunningTool {
    child: Child,
    /// Reports the exit at once; `None` before Linux 5.3.
    handle: Option<ProcessHandle>,
    stdout: Option<OutputReader>,
    stderr: Option<OutputReader>,
    /// Exit outcome and CPU time in nanoseconds, once known.
    ended: Option<(ToolExit, u64)>,
    /// Whether this program terminated the process.
    stopped: bool,
}

impl RunningTool {
    /// Starts a process with its CPU and memory binding.
    ///
    /// # Errors
    /// As [`run`].
    pub fn start(program: &str, process: &ToolProcess) -> Result<Self, ProbeError> {
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => ProbeError::Unsupported { feature: program.to_owned() },
            _ => ProbeError::Refused { call: format!("start {program}"), reason: error.to_string() },
        };
        let mut command = Command::new(program);
        command.args(&process.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A separate process group, so that children can be terminated too.
        command.process_group(0);
        bind(&mut command, process);
        let mut child = command.spawn().map_err(refused)?;
        let stdout = child.stdout.take().map(OutputReader::start);
        let stderr = child.stderr.take().map(OutputReader::start);
        let handle = ProcessHandle::child(&child).ok();
        Ok(Self { child, handle, stdout, stderr, ended: None, stopped: false })
    }

    /// Returns the process ID, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the exit of the process, or until a time has elapsed.
    pub fn exits_within(&self, limit: Duration) {
        let waited = self.handle.as_ref().and_then(|handle| handle.exits_within(limit).ok());
        if waited.is_none() {
            thread::sleep(limit.min(POLL_INTERVAL));
        }
    }

    /// Returns the exit outcome and CPU time in nanoseconds if the process has exited. Kills
    /// children that it left running, which would disturb later measurements.
    pub fn ended(&mut self) -> Option<(ToolExit, u64)> {
        if self.ended.is_none() && has_exited(self.child.id()) {
            // The process reserves the ID of its group until it is reaped.
            self.signal(libc::SIGKILL);
            self.ended = reap(self.child.id());
        }
        self.ended
    }

    /// Terminates the process group, first with SIGTERM, then with SIGKILL.
    pub fn end(&mut self) {
        Self::end_all(std::slice::from_mut(self));
    }

    /// Terminates the process groups of tools at the same time, so that all share the time limits.
    pub fn end_all(tools: &mut [Self]) {
        let mut left: Vec<&mut Self> = tools.iter_mut().filter(|tool| !tool.stopped).collect();
        left.retain_mut(|tool| tool.ended().is_none());
        left.iter_mut().for_each(|tool| tool.stopped = true);
        for (signal, limit) in [(libc::SIGTERM, GRACE), (libc::SIGKILL, KILL_LIMIT)] {
            left.iter().for_each(|tool| tool.signal(signal));
            let patience = Instant::now() + limit;
            while !left.is_empty() && Instant::now() < patience {
                thread::sleep(POLL_INTERVAL);
                left.retain_mut(|tool| tool.ended().is_none());
            }
        }
    }

    /// Terminates the process if it is running, and returns its output.
    pub fn stop_and_collect(mut self) -> ToolOutput {
        self.end();
        self.output()
    }

    /// Signals the process group, which also reaches children that outlive the process.
    fn signal(&self, signal: libc::c_int) {
        let group = -i64::from(self.child.id());
        // SAFETY: a call without memory; the group is one that we made.
        unsafe { libc::kill(group as libc::pid_t, signal) };
    }

    fn output(mut self) -> ToolOutput {
        let (ended, cpu_ns) = self.ended().unwrap_or((ToolExit::TimeLimit, 0));
        let text = |from: Option<OutputReader>| from.map(OutputReader::text).unwrap_or_default();
        ToolOutput {
            exit: if self.stopped { ToolExit::TimeLimit } else { ended },
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

/// Sets affinity and memory policy between fork and exec, and PR_SET_PDEATHSIG for the tool.
fn bind(command: &mut Command, process: &ToolProcess) {
    let mask = (!process.cpus.is_empty()).then(|| Mask::of(&process.cpus));
    let policy = process.memory.map(Policy::bind);
    // SAFETY: between fork and exec only system calls are made, on memory that was allocated
    // before.
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

/// Reaps a child that has exited; returns its exit outcome and CPU time in nanoseconds, children
/// included.
fn reap(pid: u32) -> Option<(ToolExit, u64)> {
    let mut status = 0;
    // SAFETY: rusage is a plain C struct for which all bytes zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values that live through the call.
    let found = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    if found <= 0 {
        return None;
    }
    let end = match libc::WIFSIGNALED(status) {
        true => ToolExit::Signal(libc::WTERMSIG(status)),
        false => ToolExit::Status(libc::WEXITSTATUS(status)),
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Some((end, ns(usage.ru_utime) + ns(usage.ru_stime)))
}

/// Returns whether a child has exited, without reaping it.
fn has_exited(pid: u32) -> bool {
    // SAFETY: siginfo_t is a plain C struct for which all bytes zero is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the struct lives through the call.
    let found = unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, flags) };
    // SAFETY: waitid sets the field, or leaves zero if the child is running.
    found == 0 && unsafe { info.si_pid() } != 0
}

/// A thread that reads the output of a process.
struct OutputReader {
    kept: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl OutputReader {
    fn start(from: impl Read + Send + 'static) -> Self {
        let kept = Arc::default();
        let shared = Arc::clone(&kept);
        Self { kept, thread: thread::spawn(move || read_output(from, &shared)) }
    }

    /// Returns the output of an exited process. A daemon that left the process group may keep the
    /// stream open.
    fn text(self) -> String {
        let patience = Instant::now() + GRACE;
        while !self.thread.is_finished() && Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Reads to the end of a stream and keeps the first [`MAX_OUTPUT_BYTES`].
fn read_output(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut block = [0; 8192];
    loop {
        match from.read(&mut block) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Output before a read error is kept; the exit status reports the rest.
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let left = MAX_OUTPUT_BYTES - kept.len();
                kept.extend_from_slice(&block[..count.min(left)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::print_skipped;
    use numaio_machine::ids::{CpuId, NodeId};
    use numaio_machine::set::CpuSet;
    use std::fs;
    use std::path::Path;

    fn shell(line: &str, cpus: CpuSet, memory: Option<NodeId>) -> ToolProcess {
        ToolProcess { args: vec!["-c".into(), line.into()], cpus, memory }
    }

    fn tool(processes: Vec<ToolProcess>, time_limit_ms: u32) -> ToolWorkload {
        ToolWorkload { program: "sh".into(), processes, time_limit_ms, peer: None }
    }

    #[test]
    fn captures_output_and_exit_outcome() {
        let lines = ["echo one; echo two >&2; exit 3", "kill -9 $$"];
        let processes = lines.map(|line| shell(line, CpuSet::new(), None)).to_vec();
        let outcome = run(&tool(processes, 10_000)).expect("a shell");
        let output = &outcome.processes[0];
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one\n", "two\n"));
        assert_eq!(output.exit, ToolExit::Status(3));
        assert_eq!(outcome.processes[1].exit, ToolExit::Signal(9));
    }

    #[test]
    fn runs_with_the_requested_binding() {
        let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
        let Some(allowed) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) else {
            return;
        };
        let last = allowed.trim().rsplit([',', '-']).next().and_then(|cpu| cpu.parse().ok()).map(CpuId);
        let cpu = last.expect("a CPU of our own");
        let line = "grep Cpus_allowed_list /proc/self/status; head -1 /proc/self/numa_maps";
        let outcome =
            run(&tool(vec![shell(line, CpuSet::one(cpu), Some(NodeId(0)))], 10_000)).expect("a shell");
        let output = &outcome.processes[0].stdout;
        assert!(output.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{output}");
        assert!(!output.contains("numa_maps") || output.contains(" bind:0 "), "{output}");
    }

    #[test]
    fn terminates_a_hanging_tool_with_its_children() {
        let file = std::env::temp_dir().join(format!("numaio-tool-{}", std::process::id()));
        let line = format!("sleep 1000 & echo $! > {}; trap '' TERM; wait; sleep 1000", file.display());
        let outcome = run(&tool(vec![shell(&line, CpuSet::new(), None)], 300)).expect("a shell");
        assert_eq!(outcome.processes[0].exit, ToolExit::TimeLimit);
        let child = std::fs::read_to_string(&file).expect("its child's number");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
        drop(std::fs::remove_file(file));
    }

    /// A frozen process exits no sooner than one that waits for a failed device
    /// (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst).
    #[test]
    fn unkillable_tool_is_left_behind() {
        let group = Path::new("/sys/fs/cgroup/freezer").join(format!("numaio-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&group) {
            return print_skipped(&format!("skipped: cannot freeze a process: {error}"));
        }
        let set = |file: &str, value: &str| fs::write(group.join(file), value).expect("a cgroup");
        let process = shell("exec sleep 1000", CpuSet::new(), None);
        let mut running = RunningTool::start("sh", &process).expect("a shell");
        set("cgroup.procs", &running.id().to_string());
        set("freezer.state", "FROZEN");
        running.end();
        let has_left = running.ended().is_none();
        set("freezer.state", "THAWED");
        while running.ended().is_none() {
            thread::sleep(POLL_INTERVAL);
        }
        fs::remove_dir(&group).expect("an empty cgroup");
        assert!(has_left, "it was killed while frozen");
        assert_eq!(running.output().exit, ToolExit::TimeLimit);
    }

    #[test]
    fn kills_children_that_a_tool_leaves_behind() {
        let outcome = run(&tool(vec![shell("sleep 1000 & echo $!", CpuSet::new(), None)], 60_000));
        let output = outcome.expect("a shell").processes.remove(0);
        assert_eq!(output.exit, ToolExit::Status(0));
        let stat = format!("/proc/{}/stat", output.stdout.trim());
        let patience = Instant::now() + Duration::from_secs(60);
        let is_running = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        while is_running() && Instant::now() < patience {
            thread::sleep(POLL_INTERVAL);
        }
        assert!(!is_running(), "{stat}");
    }

    #[test]
    fn names_a_program_that_cannot_be_started() {
        let absent = ToolWorkload {
            program: "no-such-tool-of-ours".into(),
            ..tool(vec![shell("", CpuSet::new(), None)], 1)
        };
        assert_eq!(run(&absent), Err(ProbeError::Unsupported { feature: "no-such-tool-of-ours".into() }));
        let elsewhere = shell("true", CpuSet::one(CpuId(8000)), None);
        let error = run(&tool(vec![elsewhere], 1000)).expect_err("no such CPU");
        assert!(matches!(error, ProbeError::Refused { .. }), "{error}");
    }
}
