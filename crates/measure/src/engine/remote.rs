//! The other end of a network path: where it may place streams, and tools that have one half there.

use super::{failed, tool_outcome, CellRequest, VisitFigures};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{Outcome, ProbeError, ToolEnd, ToolSaid};
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{StreamGroup, ToolPeer, Workload};

/// The other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEnd {
    /// Address and port at which its numaio listens, as in `192.0.2.7:5201`.
    pub peer: String,
    /// Its address alone, as tools want it.
    pub host: String,
    /// Where it may be asked to place streams.
    pub places: Vec<RemotePlacement>,
}

/// A place at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePlacement {
    /// Node of the CPUs.
    pub cpu_node: NodeId,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Node of the buffers.
    pub memory: NodeId,
}

/// What stands between an operation and the number of a place there.
const AT: char = '@';

/// What a campaign asks of a device at a place of the other end: its cells differ by operation.
pub(crate) fn operation_at(operation: Option<&str>, place: usize) -> String {
    format!("{}{AT}{place}", operation.unwrap_or_default())
}

/// An operation, and the number of the place there that it names.
pub(crate) fn split_operation(request: Option<&str>) -> (Option<&str>, Option<usize>) {
    let Some((operation, place)) = request.and_then(|request| request.rsplit_once(AT)) else {
        return (request, None);
    };
    (Some(operation).filter(|operation| !operation.is_empty()), place.parse().ok())
}

impl RemoteEnd {
    /// CPUs and node of buffers that an operation names; none where the other end chooses.
    pub(crate) fn there(&self, operation: Option<&str>) -> Option<(CpuSet, NodeId)> {
        let place = self.places.get(split_operation(operation).1?)?;
        Some((place.cpus.clone(), place.memory))
    }

    /// A tool with one half here and one there; `args` are those here, one process for each group.
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
            tool.peer = Some(ToolPeer { peer: self.peer.clone(), args: args_there, there });
            tool.time_limit_ms = tool.time_limit_ms.saturating_add(seconds.saturating_mul(1000));
        }
        workload
    }
}

/// What one process of a tool measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Bytes a second, above 0.
    pub bytes_per_s: f64,
    /// Bytes that were moved.
    pub bytes: f64,
    /// Of those moved before the measurement began, how many for each byte that counts.
    pub warm_up: f64,
    /// CPU time here, in nanoseconds, if the tool tells.
    pub cpu_ns: Option<f64>,
    /// CPU time there.
    pub cpu_ns_there: Option<f64>,
}

/// Reads what the processes of a tool said.
///
/// # Errors
/// What the tool said when it failed, at either end; why it cannot be understood otherwise.
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
        let figure = match (output.ended, parse(&output.stdout)) {
            (ToolEnd::Status(0), figure) => figure,
            // What it says in its own form goes before its last words.
            (_, Err(why)) if output.stderr.trim().is_empty() && !output.stdout.trim().is_empty() => Err(why),
            (ended, _) => Err(failure_text(ended, output, outcome.there.get(index))),
        };
        let figure = figure.map_err(|why| failed(program, why))?;
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

/// Why a tool failed, as it said itself, at either end.
fn failure_text(ended: ToolEnd, here: &ToolSaid, there: Option<&ToolSaid>) -> String {
    let last = |text: &str| {
        let mut lines = text.lines().rev().map(str::trim);
        // Rules of dashes and stars are no words.
        lines.find(|line| line.chars().any(char::is_alphanumeric)).map(str::to_owned)
    };
    let mut why = match ended {
        ToolEnd::Status(status) => format!("it ended with status {status}"),
        ToolEnd::Signal(signal) => format!("it was ended by signal {signal}"),
        ToolEnd::TimeLimit => "it did not end in its time".to_owned(),
    };
    if let Some(words) = last(&here.stderr).or_else(|| last(&here.stdout)) {
        why.push_str(&format!(": {words}"));
    }
    if let Some(words) = there.and_then(|there| last(&there.stderr)) {
        why.push_str(&format!("; at the other end: {words}"));
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::probe::ToolOutcome;

    #[test]
    fn a_place_goes_with_an_operation_and_comes_back() {
        for operation in [None, Some("write"), Some("a@b")] {
            assert_eq!(split_operation(Some(&operation_at(operation, 7))), (operation, Some(7)));
        }
        assert_eq!(split_operation(Some("send")), (Some("send"), None));
        assert_eq!(split_operation(None), (None, None));
    }

    fn output(ended: ToolEnd, stdout: &str, stderr: &str) -> ToolSaid {
        ToolSaid { ended, stdout: stdout.into(), stderr: stderr.into(), cpu_ns: 1 }
    }

    fn outcome(processes: Vec<ToolSaid>, there: Vec<ToolSaid>) -> Outcome {
        Outcome::Tool(ToolOutcome { processes, elapsed_ns: 5, there })
    }

    /// A tool that says bytes a second, and nothing of CPU time.
    fn parse(text: &str) -> Result<Figure, String> {
        let bytes_per_s = text.trim().parse().map_err(|_| "no number".to_owned())?;
        Ok(Figure { bytes_per_s, bytes: 10.0, warm_up: 1.0, cpu_ns: Some(3.0), cpu_ns_there: None })
    }

    #[test]
    fn processes_count_together() {
        let well = |text| output(ToolEnd::Status(0), text, "");
        let figures = read("tool", &outcome(vec![well("1"), well("2")], Vec::new()), parse).expect("figures");
        assert_eq!((figures.groups.clone(), figures.bytes_per_s()), (vec![vec![1.0], vec![2.0]], vec![3.0]));
        assert_eq!((figures.bytes, figures.bytes_of_all), (20, 40));
        assert_eq!((figures.cpu_ns, figures.cpu_ns_there, figures.elapsed_ns), (Some(6), None, 5));
    }

    #[test]
    fn a_tool_that_failed_is_heard_at_both_ends() {
        let why = |process, there| {
            read("tool", &outcome(vec![process], there), parse).expect_err("it failed").to_string()
        };
        let failed = output(ToolEnd::Status(1), "---\nusage\n", "no device\n----\n");
        let there = output(ToolEnd::Status(1), "", "no device there\n");
        let both = "tool: it ended with status 1: no device; at the other end: no device there";
        assert_eq!(why(failed, vec![there]), both);
        assert_eq!(why(output(ToolEnd::Status(1), "in its form", ""), Vec::new()), "tool: no number");
        assert_eq!(why(output(ToolEnd::TimeLimit, "", ""), Vec::new()), "tool: it did not end in its time");
        assert_eq!(why(output(ToolEnd::Status(0), "", ""), Vec::new()), "tool: no number");
    }
}
