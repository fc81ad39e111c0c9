//! numaio inside a guest, started by ssh.

use crate::failure::transfer::exit_status_hint;
use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use numaio_linux::Kernel;
use numaio_machine::probe::{ProbeError, ProbeExt, ToolExit, ToolOutput};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{ToolProcess, ToolWorkload};
use numaio_schema::IoRecord;
use numaio_transfer::line::sanitize;
use numaio_transfer::remote::bootstrap;
use numaio_transfer::reporter::Notice;
use numaio_transfer::ssh::{self, AgentForwarding};
use std::time::Duration;

/// Time limit for the connection to the guest.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How to run numaio in a guest.
pub struct GuestNumaio<'a> {
    pub kernel: &'a Kernel,
    /// The guest, as for ssh.
    pub host: String,
    /// The command that starts numaio there.
    pub command: String,
}

/// Copies this program to a guest, if that of the command is missing there; returns the command
/// that starts it.
///
/// # Errors
/// The guest cannot be reached, or cannot run this program.
pub fn bootstrap(common: &Common, host: &str, command: &str) -> Result<String, Failure> {
    let mut notify = |notice: &Notice| match notice {
        // The limit is not an option of this command.
        Notice::Waiting { host, .. } => output::remark(common, &format!("waiting for '{host}' to answer")),
        notice => output::remark(common, &notice.to_string()),
    };
    let messages = (output::stderr_sink(), Some(START_LIMIT));
    Ok(bootstrap::bootstrapped_command(host, command, messages, &mut notify)?)
}

impl GuestNumaio<'_> {
    /// Checks that the guest can be reached and has numaio.
    ///
    /// # Errors
    /// [`Failure`] with the message of ssh.
    pub fn check(&self) -> Result<(), Failure> {
        self.run(&["--version"], START_LIMIT).map(drop)
    }

    /// Measures the network in the guest.
    ///
    /// # Errors
    /// The measurement failed there, or printed no record.
    pub fn bench(&self, arguments: &[String], seconds: f64) -> Result<IoRecord, Failure> {
        let mut all = vec!["bench", "net", "--json", "--no-save", "--quiet"];
        all.extend(arguments.iter().map(String::as_str));
        // The limit of the measurement itself ends it.
        let limit = START_LIMIT + Duration::from_secs_f64(seconds * 2.0);
        let output = self.run(&all, limit)?;
        // A login shell may print before it.
        let start = output.stdout.find('{').unwrap_or(output.stdout.len());
        IoRecord::from_json(&output.stdout[start..]).map_err(|error| {
            Failure::new(format!("'{}' printed no measurement: {error}", self.host))
                .hint("use the same version of numaio on the host and in the guest")
        })
    }

    fn run(&self, arguments: &[&str], limit: Duration) -> Result<ToolOutput, Failure> {
        let words = ssh::command_words(&self.command).chain(arguments.iter().map(Into::into));
        // The guest starts numaio on its peer by ssh.
        let line = ssh::joined(words);
        let command = ssh::session_command(ssh::program(), &self.host, &line, AgentForwarding::On);
        let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
        let process =
            ToolProcess { args: command.get_args().map(text).collect(), cpus: CpuSet::new(), memory: None };
        let outcome = self.kernel.tool(&ToolWorkload {
            program: text(command.get_program()),
            processes: vec![process],
            time_limit_ms: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
            peer: None,
        });
        let outcome = outcome.map_err(|error| match error {
            ProbeError::Unsupported { .. } => {
                Failure::new(&error).hint("install ssh (Debian: openssh-client)")
            }
            error => Failure::new(&error),
        })?;
        match outcome.processes.into_iter().next() {
            Some(output) if output.exit == ToolExit::Status(0) => Ok(output),
            output => Err(self.failure(output, limit)),
        }
    }

    fn failure(&self, output: Option<ToolOutput>, limit: Duration) -> Failure {
        let stderr = output.as_ref().map(|output| output.stderr.as_str()).unwrap_or_default();
        let report = ErrorReport::parse(stderr);
        let cause = report.error.map(|line| format!(": {}", sanitize(line))).unwrap_or_default();
        let failure = Failure::new(format!("cannot measure in guest '{}'{cause}", self.host));
        match (output.as_ref().map(|output| output.exit), report.hint) {
            (Some(ToolExit::TimeLimit), _) => {
                Failure::new(format!("guest '{}' did not answer within {} s", self.host, limit.as_secs()))
                    .hint(format!("try ssh {} true", self.host))
            }
            (_, Some(hint)) => failure.hint(sanitize(hint)),
            (Some(ToolExit::Status(status)), None) => {
                failure.hint(exit_status_hint(&self.host, Some(status), ""))
            }
            _ => failure,
        }
    }
}

/// The error and the hint on the stderr of numaio or ssh.
#[derive(Debug, PartialEq)]
struct ErrorReport<'a> {
    error: Option<&'a str>,
    hint: Option<&'a str>,
}

impl<'a> ErrorReport<'a> {
    /// Finds the last error of numaio with its hint; else the last line is the error, as of ssh.
    fn parse(stderr: &'a str) -> Self {
        let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let Some(index) = lines.iter().rposition(|line| line.starts_with("numaio: ")) else {
            return Self { error: lines.last().copied(), hint: None };
        };
        let error = lines[index].strip_prefix("numaio: ");
        Self { error, hint: lines[index..].iter().find_map(|line| line.strip_prefix("hint: ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_numaio_and_ssh_are_found() {
        let report =
            ErrorReport::parse("Welcome\nnumaio: a remark\nnumaio: cannot connect\n  hint: a firewall?\n");
        assert_eq!(report, ErrorReport { error: Some("cannot connect"), hint: Some("a firewall?") });
        let report = ErrorReport::parse("banner\nssh: connect to host web port 22: Connection refused\n\n");
        let refused = "ssh: connect to host web port 22: Connection refused";
        assert_eq!(report, ErrorReport { error: Some(refused), hint: None });
        assert_eq!(ErrorReport::parse(""), ErrorReport { error: None, hint: None });
    }
}
