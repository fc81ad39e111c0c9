//! The part of a run on one host: a command of numaio, its documents, and the report.

use super::limited_command::{run_limited, CapturedOutput, CommandEnd, CommandLimits, Input};
use super::LaunchError;
use numaio_linux::process::this_program;
use numaio_machine::conditions::Conditions;
use numaio_schema::{Diagnosis, FleetRun, HostReport, TopologyDocument, HOST_REPORT_SCHEMA};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Maximum size of the documents of a command in bytes.
const MAX_DOCUMENT_BYTES: usize = 128 << 20;

/// The commands that a host may run; each prints documents with `--json`.
pub const COMMANDS: [&str; 8] =
    ["bench", "devices", "doctor", "latency", "model", "stream", "sweep", "topology"];

/// The knowledge of a host before it measures.
#[derive(Debug)]
pub struct HostFacts {
    /// Hash of its machine-id.
    pub machine_id: Option<String>,
    /// Its topology.
    pub topology: TopologyDocument,
    /// Settings and load.
    pub conditions: Conditions,
    /// Findings of `numaio doctor`.
    pub diagnosis: Option<Diagnosis>,
}

/// The measurement of a host.
#[derive(Debug, Clone)]
pub struct HostRequest {
    /// The name that the fleet uses.
    pub host: String,
    /// The run; empty outside of one.
    pub run: String,
    /// Options of numaio for the machine, such as `--machine`.
    pub machine_options: Vec<String>,
    /// The arguments of numaio that measure; empty for the topology alone.
    pub command: Vec<String>,
    /// Maximum time of the command.
    pub time_limit: Duration,
}

/// The result of a command on a host.
#[derive(Debug, Default)]
pub struct CommandResult {
    /// Its complete documents.
    pub documents: Vec<Value>,
    /// Why it failed.
    pub failure: Option<String>,
    /// The end of its stderr.
    pub stderr: String,
}

/// Returns the time that the command may take of the time limit of a run: nine tenths, so that the
/// host can report before the limit.
pub fn command_time_limit(run: &FleetRun) -> u32 {
    (run.time_limit_s - run.time_limit_s / 10).max(1)
}

/// Returns the reason of a host whose numaio rejects [`host_arguments`], by what it printed.
pub fn older_program(printed: &str) -> Option<String> {
    let is_older = printed.contains("unrecognized subcommand");
    is_older.then(|| "its numaio is older and has no 'fleet host-report'".to_owned())
}

/// Returns the arguments of numaio on a host that returns its report on stdout.
pub fn host_arguments(run: &FleetRun, host: &str) -> Vec<String> {
    let mut words: Vec<String> =
        ["fleet", "host-report", "--run", &run.id, "--host", host, "--output", "-", "--attached"]
            .map(str::to_owned)
            .to_vec();
    words.extend(["--time-limit".to_owned(), command_time_limit(run).to_string()]);
    words.extend(run.machine_options.iter().cloned());
    words.push("--".to_owned());
    words.extend(run.command.iter().cloned());
    words
}

/// Runs the command of a host, and returns its report with the stderr of the command.
///
/// A failed command is part of the report.
///
/// # Errors
/// [`LaunchError::Interrupted`] if `stop` returns true; the command is then terminated, and the
/// host is not measured. [`LaunchError::CannotStart`] if this program cannot be started.
pub fn measure(
    facts: HostFacts,
    request: &HostRequest,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(HostReport, String), LaunchError> {
    let started_at = numaio_machine::calendar::seconds_since_1970(SystemTime::now());
    let result = match request.command.is_empty() {
        true => CommandResult::default(),
        false => run_command(this_program(), request, stop)?,
    };
    let report = HostReport {
        schema: HOST_REPORT_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        host: request.host.clone(),
        machine_id: facts.machine_id,
        run: request.run.clone(),
        started_at,
        finished_at: numaio_machine::calendar::seconds_since_1970(SystemTime::now()),
        command: request.command.clone(),
        topology: facts.topology,
        conditions: facts.conditions,
        diagnosis: facts.diagnosis,
        documents: result.documents,
        failure: result.failure,
    };
    Ok((report, result.stderr))
}

fn run_command(
    mut program: Command,
    request: &HostRequest,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<CommandResult, LaunchError> {
    program.args(&request.machine_options).args(with_json(&request.command));
    let limits = CommandLimits { time: request.time_limit, max_output_bytes: MAX_DOCUMENT_BYTES, stop };
    let output = run_limited(&mut program, Input::Empty, &limits)
        .map_err(|error| LaunchError::CannotStart { program: "numaio".to_owned(), error })?;
    if output.end == CommandEnd::Stopped {
        return Err(LaunchError::Interrupted);
    }
    Ok(result_of(output, request))
}

/// Returns the result of a command that has ended.
fn result_of(output: CapturedOutput, request: &HostRequest) -> CommandResult {
    let (documents, error) = parse_documents(&output.stdout);
    let name = request.command.first().map_or("", String::as_str);
    // `doctor` exits with 1 for findings.
    let is_success =
        output.end == CommandEnd::Exited(0) || (name == "doctor" && output.end == CommandEnd::Exited(1));
    let failure = match (is_success, error) {
        (false, _) => Some(format!("numaio {name} {}", output.describe_end(request.time_limit))),
        (true, Some(error)) => Some(format!("numaio {name} {error}")),
        (true, None) if documents.is_empty() => Some(format!("numaio {name} printed no document")),
        (true, None) => None,
    };
    CommandResult { documents, failure, stderr: output.stderr }
}

/// Adds `--json` to the options of numaio, which end at `--` before a program to measure.
pub fn with_json(command: &[String]) -> Vec<String> {
    let end = command.iter().position(|word| word == "--").unwrap_or(command.len());
    let (own, program) = command.split_at(end);
    let mut words = own.to_vec();
    if !own.iter().any(|word| word == "--json") {
        words.push("--json".to_owned());
    }
    words.extend_from_slice(program);
    words
}

/// Returns the complete documents of an output, and what is wrong with the rest.
fn parse_documents(stdout: &[u8]) -> (Vec<Value>, Option<&'static str>) {
    let mut documents = Vec::new();
    for value in serde_json::Deserializer::from_slice(stdout).into_iter::<Value>() {
        match value {
            Ok(value) if value.get("schema").is_some_and(Value::is_string) => documents.push(value),
            Ok(_) => return (documents, Some("printed JSON that is not a document")),
            Err(error) if error.is_eof() => return (documents, Some("printed an incomplete document")),
            Err(_) => return (documents, Some("printed text that is not JSON")),
        }
    }
    (documents, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str], time_ms: u64) -> HostRequest {
        HostRequest {
            host: "n1".to_owned(),
            run: "r1".to_owned(),
            machine_options: Vec::new(),
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            time_limit: Duration::from_millis(time_ms),
        }
    }

    /// Runs a shell line in place of numaio.
    fn run(line: &str, words: &[&str], time_ms: u64) -> CommandResult {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]);
        run_command(shell, &request(words, time_ms), &|| false).expect("a shell")
    }

    #[test]
    fn complete_documents_of_a_failed_command_are_kept() {
        let line =
            "echo '{\"schema\":\"numaio/model/1\"}{\"schema\":\"numaio/st'; echo no memory >&2; exit 1";
        let result = run(line, &["model"], 60_000);
        assert_eq!(result.documents.len(), 1);
        assert_eq!(result.failure.as_deref(), Some("numaio model exited with status 1: no memory"));
        let result = run("printf '{\"schema\":\"a\"} {\"sch'", &["model"], 60_000);
        assert_eq!(result.failure.as_deref(), Some("numaio model printed an incomplete document"));
        assert_eq!(
            run("echo 5", &["model"], 60_000).failure.as_deref(),
            Some("numaio model printed JSON that is not a document")
        );
        assert_eq!(run(":", &["model"], 60_000).failure.as_deref(), Some("numaio model printed no document"));
    }

    #[test]
    fn findings_of_doctor_are_not_a_failure() {
        let line = "echo '{\"schema\":\"numaio/diagnosis/1\"}'; exit 1";
        assert_eq!(run(line, &["doctor"], 60_000).failure, None);
        assert!(run(line, &["model"], 60_000).failure.is_some());
    }

    #[test]
    fn time_limit_is_a_reason() {
        let result = run("sleep 1000", &["stream"], 1100);
        assert_eq!(result.failure.as_deref(), Some("numaio stream did not exit within 1 s"));
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000"]);
        let stopped = run_command(shell, &request(&["model"], 60_000), &|| true);
        assert!(matches!(stopped, Err(LaunchError::Interrupted)));
    }

    #[test]
    fn json_option_precedes_the_measured_program() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(with_json(&words("model --all")), words("model --all --json"));
        assert_eq!(with_json(&words("model --json")), words("model --json"));
        assert_eq!(with_json(&words("sweep -- x --json")), words("sweep --json -- x --json"));
    }
}
