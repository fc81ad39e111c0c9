//! Jobs of a run, from squeue(1) and sacct(1).

/// The format of squeue: fixed columns, whose widths [`parse_jobs`] knows.
pub(super) const FORMAT: &str = "--Format=JobArrayID:64,State:32,exit_code:16,ReqNodes:256,Reason:128";
const WIDTHS: [usize; 5] = [64, 32, 16, 256, 128];

/// The phase of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    /// It waits; with Slurm's reason.
    Pending(String),
    /// It runs, starts or ends.
    Running,
    /// It ended by itself.
    Exited(ExitCode),
    /// Slurm ended it for this reason.
    Ended(&'static str),
}

impl JobPhase {
    /// Returns whether the job may still run on its host.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Pending(_) | Self::Running)
    }

    /// Returns the phase of a state (squeue(1), JOB STATE CODES).
    fn of(state: &str, reason: &str, exit: ExitCode) -> Self {
        // sacct: `CANCELLED by 1000`.
        match state.split_ascii_whitespace().next().unwrap_or_default() {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
                Self::Pending(reason.to_owned())
            }
            "COMPLETED" | "FAILED" => Self::Exited(exit),
            "NODE_FAIL" => Self::Ended("its node failed"),
            "BOOT_FAIL" => Self::Ended("its node failed to boot"),
            "CANCELLED" => Self::Ended("its job was cancelled"),
            "PREEMPTED" => Self::Ended("its job was preempted"),
            "TIMEOUT" => Self::Ended("its job reached Slurm's time limit"),
            "DEADLINE" => Self::Ended("its job reached Slurm's deadline"),
            "OUT_OF_MEMORY" => Self::Ended("its job exceeded its memory limit"),
            "REVOKED" => Self::Ended("its job was revoked"),
            // RUNNING, COMPLETING, CONFIGURING, STAGE_OUT, STOPPED, SUSPENDED, RESIZING, SIGNALING,
            // and states of later releases: another job for the host must not start.
            _ => Self::Running,
        }
    }
}

/// How a job exited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExitCode {
    /// Exit status of the script.
    pub status: u8,
    /// Signal that ended it, or Slurm's number of an error of starting it; 0 if none.
    pub signal: u8,
}

impl ExitCode {
    /// Parses the status of wait(2), as squeue prints it.
    fn of_wait_status(text: &str) -> Self {
        let raw: u32 = text.parse().unwrap_or(0);
        let signal = (raw & 0x7f) as u8;
        Self { status: if signal == 0 { (raw >> 8 & 0xff) as u8 } else { 0 }, signal }
    }

    /// Parses `STATUS:SIGNAL`, as sacct prints it.
    fn of_pair(text: &str) -> Self {
        let (status, signal) = text.split_once(':').unwrap_or((text, ""));
        Self { status: status.parse().unwrap_or(0), signal: signal.parse().unwrap_or(0) }
    }
}

/// A job of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmJob {
    /// Slurm's ID, such as `12_3`.
    pub id: String,
    /// The node that it requested; empty if unknown.
    pub host: String,
    /// Its phase.
    pub phase: JobPhase,
}

/// Parses the output of squeue in `FORMAT`. Other lines are ignored.
pub fn parse_jobs(text: &str) -> Vec<SlurmJob> {
    text.lines().filter_map(parse_job).collect()
}

fn parse_job(line: &str) -> Option<SlurmJob> {
    let mut rest = line;
    let fields = WIDTHS.map(|width| {
        // squeue pads by bytes; a character across a boundary is not its output.
        let (field, after) = rest.split_at_checked(width.min(rest.len())).unwrap_or((rest, ""));
        rest = after;
        field.trim()
    });
    let [id, state, exit, host, reason] = fields;
    if !id.starts_with(|c: char| c.is_ascii_digit()) || state.is_empty() {
        return None;
    }
    let phase = JobPhase::of(state, reason, ExitCode::of_wait_status(exit));
    let host = if host == "(null)" { "" } else { host };
    Some(SlurmJob { id: id.to_owned(), host: host.to_owned(), phase })
}

/// Parses the output of `sacct --noheader --parsable2 --allocations --format=JobID,State,ExitCode`.
/// Other lines are ignored.
pub fn parse_past_jobs(text: &str) -> Vec<SlurmJob> {
    let line = |line: &str| {
        let mut fields = line.split('|').map(str::trim);
        let (id, state, exit) = (fields.next()?, fields.next()?, fields.next()?);
        if !id.starts_with(|c: char| c.is_ascii_digit()) || state.is_empty() {
            return None;
        }
        let phase = JobPhase::of(state, "", ExitCode::of_pair(exit));
        Some(SlurmJob { id: id.to_owned(), host: String::new(), phase })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: [&str; 5]) -> String {
        let padded = fields.iter().zip(WIDTHS).map(|(field, width)| format!("{field:width$}"));
        padded.collect::<String>() + "\n"
    }

    /// States that Slurm 22.05.8 printed.
    fn recorded() -> String {
        [
            line(["5", "FAILED", "768", "n1", "NonZeroExitCode"]),
            line(["6", "FAILED", "9", "n2", "JobLaunchFailure"]),
            line(["7", "FAILED", "4021", "n3", "JobLaunchFailure"]),
            line(["9_0", "PENDING", "0", "", "JobHeldUser"]),
            line(["9_1", "RUNNING", "0", "n4", "None"]),
            line(["9_2", "COMPLETED", "0", "n5", "None"]),
            line(["9_3", "NODE_FAIL", "0", "n6", "NodeDown"]),
            "slurm_load_jobs error: Invalid job id specified\n".to_owned(),
        ]
        .concat()
    }

    #[test]
    fn reads_states_exit_codes_and_nodes() {
        let exited = |status, signal| JobPhase::Exited(ExitCode { status, signal });
        let expected = [
            ("5", "n1", exited(3, 0)),
            ("6", "n2", exited(0, 9)),
            ("7", "n3", exited(0, 53)),
            ("9_0", "", JobPhase::Pending("JobHeldUser".to_owned())),
            ("9_1", "n4", JobPhase::Running),
            ("9_2", "n5", exited(0, 0)),
            ("9_3", "n6", JobPhase::Ended("its node failed")),
        ];
        let expected = expected.map(|(id, host, phase)| SlurmJob { id: id.into(), host: host.into(), phase });
        assert_eq!(parse_jobs(&recorded()), expected);
    }

    #[test]
    fn unknown_states_count_as_running() {
        let jobs = parse_jobs(&line(["1", "NEW_STATE", "0", "n1", "None"]));
        assert!(jobs[0].phase.is_active());
        assert!(parse_jobs("12\n\u{e9}\n").is_empty());
    }

    #[test]
    fn reads_past_jobs_of_sacct() {
        // From sacct(1) of Slurm 22.05; the test cluster has no accounting database.
        let text =
            "12_0|COMPLETED|0:0\n12_1|CANCELLED by 1000|0:15\n12_2|NODE_FAIL|1:0\n12_3|FAILED|72:0\nx|y\n";
        let jobs = parse_past_jobs(text);
        let phases: Vec<&JobPhase> = jobs.iter().map(|job| &job.phase).collect();
        assert_eq!(
            phases,
            [
                &JobPhase::Exited(ExitCode::default()),
                &JobPhase::Ended("its job was cancelled"),
                &JobPhase::Ended("its node failed"),
                &JobPhase::Exited(ExitCode { status: 72, signal: 0 }),
            ]
        );
    }
}
