//! Remote end of a network path: its placements, and tools with processes at both ends.

use super::tool::{failed, tool_outcome};
use super::visit::{CellRequest, VisitFigures};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{Outcome, ProbeError, ToolExit, ToolOutput};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{StreamGroup, ToolPeer, Workload};

/// Remote end of a network path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEnd {
    /// Name of the session with its numaio: the host, or `192.0.2.7:5201` for a manually started
    /// server.
    pub peer: String,
    /// Its address for other tools.
    pub host: String,
    /// Placements that it offers.
    pub places: Vec<RemotePlacement>,
}

/// A placement at the remote end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePlacement {
    /// Node of the CPUs.
    pub cpu_node: NodeId,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Node of the buffers.
    pub memory: NodeId,
}

/// Separates an operation from the index of a remote placement.
const AT: char = '@';

/// Combines an operation with the index of a remote placement, since cells differ by operation.
pub(crate) fn operation_at(operation: Option<&str>, place: usize) -> String {
    format!("{}{AT}{place}", operation.unwrap_or_default())
}

/// Splits an operation from the index of its remote placement.
pub(crate) fn split_operation(request: Option<&str>) -> (Option<&str>, Option<usize>) {
    let Some((operation, place)) = request.and_then(|request| request.rsplit_once(AT)) else {
        return (request, None);
    };
    (Some(operation).filter(|operation| !operation.is_empty()), place.parse().ok())
}

impl RemoteEnd {
    /// Returns the remote CPUs and buffer node of an operation; none where the remote end chooses.
    pub(crate) fn there(&self, operation: Option<&str>) -> Option<(CpuSet, NodeId)> {
        let place = self.places.get(split_operation(operation).1?)?;
        Some((place.cpus.clone(), place.memory))
    }

    /// Creates the workload of a tool with processes at both ends; `args` are those of the local
    /// process of a group.
    pub(super) fn tool(
        &self,
        request: &CellRequest,
        program: &str,
        seconds: u32,
        args: impl Fn(&StreamGroup) -> Vec<String>,
        args_there: Vec<String>,
    ) -> Workload {
        let mut workload = request.tool(program, |group, _| args(group));
        if let Workload::Tool(tool) = &mut workload {
            let there = self.there(request.operation);
            tool.peer = Some(ToolPeer { peer: self.peer.clone(), args: args_there, peer_placement: there });
            tool.time_limit_ms = tool.time_limit_ms.saturating_add(seconds.saturating_mul(1000));
        }
        workload
    }
}

/// Why output whose rate is not a value is rejected.
const NOTHING_MEASURED: &str = "nothing was measured";

/// Figures of one process of a tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Bytes per second, above 0.
    pub bytes_per_s: f64,
    /// Bytes moved, above 0.
    pub bytes: f64,
    /// Bytes moved during warm-up, per counted byte.
    pub warm_up: f64,
    /// Local CPU time in nanoseconds, if reported.
    pub cpu_ns: Option<f64>,
    /// Remote CPU time.
    pub cpu_ns_there: Option<f64>,
}

/// Returns whether a value can be a measured rate. A rate that is 0, negative or not a number is no
/// value, whichever program reports it.
pub(crate) fn is_rate(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// Parses the output of a tool's processes.
///
/// # Errors
/// The tool's own error, at either end; otherwise what is missing.
pub(super) fn read(
    program: &str,
    outcome: &Outcome,
    parse: impl Fn(&str) -> Result<Figure, String>,
) -> Result<VisitFigures, ProbeError> {
    let outcome = tool_outcome(outcome)?;
    let mut figures = VisitFigures {
        cpu_ns: Some(0),
        cpu_ns_there: Some(0),
        elapsed_ns: outcome.elapsed_ns,
        ..VisitFigures::default()
    };
    for (index, output) in outcome.processes.iter().enumerate() {
        let figure = match (output.exit, parse(&output.stdout)) {
            (ToolExit::Status(0), figure) => figure,
            // An error within the tool's regular output takes precedence.
            (_, Err(why)) if output.stderr.trim().is_empty() && !output.stdout.trim().is_empty() => Err(why),
            (ended, _) => Err(failure_text(ended, output, outcome.peer_processes.get(index))),
        };
        let figure = figure.map_err(|why| failed(program, why))?;
        if !is_rate(figure.bytes_per_s) || !is_rate(figure.bytes) {
            return Err(failed(program, NOTHING_MEASURED.to_owned()));
        }
        let sum = |one: Option<u64>, other: Option<f64>| Some(one?.saturating_add(other? as u64));
        figures.groups.push(vec![figure.bytes_per_s]);
        figures.bytes = figures.bytes.saturating_add(figure.bytes as u64);
        let all = figure.bytes * (1.0 + figure.warm_up);
        figures.bytes_of_all = figures.bytes_of_all.saturating_add(all as u64);
        figures.cpu_ns = sum(figures.cpu_ns, figure.cpu_ns);
        figures.cpu_ns_there = sum(figures.cpu_ns_there, figure.cpu_ns_there);
    }
    Ok(figures)
}

/// Describes the failure of a tool, with its last lines at both ends.
pub(super) fn failure_text(ended: ToolExit, here: &ToolOutput, there: Option<&ToolOutput>) -> String {
    let last = |text: &str| {
        let mut lines = text.lines().rev().map(str::trim);
        // Lines of dashes or stars are ignored.
        lines.find(|line| line.chars().any(char::is_alphanumeric)).map(str::to_owned)
    };
    let mut why = match ended {
        ToolExit::Status(status) => format!("exit status {status}"),
        ToolExit::Signal(signal) => format!("terminated by signal {signal}"),
        ToolExit::TimeLimit => "time limit exceeded".to_owned(),
    };
    if let Some(words) = last(&here.stderr).or_else(|| last(&here.stdout)) {
        why.push_str(&format!(": {words}"));
    }
    if let Some(words) = there.and_then(|there| last(&there.stderr)) {
        why.push_str(&format!("; remote end: {words}"));
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::probe::ToolOutcome;

    #[test]
    fn operation_and_placement_round_trip() {
        for operation in [None, Some("write"), Some("a@b")] {
            assert_eq!(split_operation(Some(&operation_at(operation, 7))), (operation, Some(7)));
        }
        assert_eq!(split_operation(Some("send")), (Some("send"), None));
        assert_eq!(split_operation(None), (None, None));
    }

    fn output(ended: ToolExit, stdout: &str, stderr: &str) -> ToolOutput {
        ToolOutput { exit: ended, stdout: stdout.into(), stderr: stderr.into(), cpu_ns: 1 }
    }

    fn outcome(processes: Vec<ToolOutput>, there: Vec<ToolOutput>) -> Outcome {
        Outcome::Tool(ToolOutcome { processes, elapsed_ns: 5, peer_processes: there })
    }

    /// Parses bytes per second, without remote CPU time.
    fn parse(text: &str) -> Result<Figure, String> {
        let bytes_per_s = text.trim().parse().map_err(|_| "no number".to_owned())?;
        Ok(Figure { bytes_per_s, bytes: 10.0, warm_up: 1.0, cpu_ns: Some(3.0), cpu_ns_there: None })
    }

    #[test]
    fn figures_of_processes_are_summed() {
        let well = |text| output(ToolExit::Status(0), text, "");
        let figures = read("tool", &outcome(vec![well("1"), well("2")], Vec::new()), parse).expect("figures");
        assert_eq!((figures.groups.clone(), figures.bytes_per_s()), (vec![vec![1.0], vec![2.0]], vec![3.0]));
        assert_eq!((figures.bytes, figures.bytes_of_all), (20, 40));
        assert_eq!((figures.cpu_ns, figures.cpu_ns_there, figures.elapsed_ns), (Some(6), None, 5));
    }

    #[test]
    fn failures_at_both_ends_are_reported() {
        let why = |process, there| {
            read("tool", &outcome(vec![process], there), parse).expect_err("failed").to_string()
        };
        let failed = output(ToolExit::Status(1), "---\nusage\n", "no device\n----\n");
        let there = output(ToolExit::Status(1), "", "no device there\n");
        let both = "tool: exit status 1: no device; remote end: no device there";
        assert_eq!(why(failed, vec![there]), both);
        assert_eq!(why(output(ToolExit::Status(1), "in its form", ""), Vec::new()), "tool: no number");
        assert_eq!(why(output(ToolExit::TimeLimit, "", ""), Vec::new()), "tool: time limit exceeded");
        assert_eq!(why(output(ToolExit::Status(0), "", ""), Vec::new()), "tool: no number");
    }
}
