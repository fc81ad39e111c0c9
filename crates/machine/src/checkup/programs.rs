//! Running programs that are remote from their devices.

use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::ids::NodeId;
use crate::set::{CpuSet, NodeSet};
use crate::topology::Topology;
use crate::units::format_size;
use std::collections::BTreeMap;

/// Minimum I/O rate of a program to report individually, in bytes per second.
const LITTLE: f64 = 10e6;

/// Number of programs with little I/O to name as examples.
const EXAMPLES: usize = 3;

/// A program that uses a device from distant CPUs or memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes read and written per second; `None` if not permitted.
    pub bytes_per_s: Option<f64>,
    /// The device, by its user-visible name and its index in [`Topology::devices`].
    pub device: (String, usize),
    /// The device's node.
    pub node: NodeId,
    /// Nodes near the device.
    pub near: NodeSet,
    /// Number of threads on each node.
    pub threads_on: BTreeMap<NodeId, u32>,
    /// Bytes of private memory on each node; `None` if not permitted.
    pub bytes_on: Option<BTreeMap<NodeId, u64>>,
    /// CPUs on which it may run.
    pub allowed: CpuSet,
}

/// Returns a symptom for each program with much I/O, and a common symptom for the others.
pub fn remote_programs(topology: &Topology, programs: &[Program]) -> Vec<Symptom> {
    let moves_much = |program: &&Program| program.bytes_per_s.is_some_and(|rate| rate >= LITTLE);
    let (much, little): (Vec<&Program>, Vec<&Program>) = programs.iter().partition(moves_much);
    let each = much.into_iter().map(|program| remote_one(topology, program));
    each.chain(others(&little)).collect()
}

fn remote_one(topology: &Topology, program: &Program) -> Symptom {
    let Program { pid, name, device: (device, index), node, near, .. } = program;
    let rate = program.bytes_per_s.unwrap_or_default() / 1e6;
    let memory =
        program.bytes_on.as_ref().map_or("unknown".to_owned(), |on| places(on, |bytes| format_size(*bytes)));
    Symptom {
        finding: Finding::new(
            Severity::Warning,
            "program-remote",
            format!("{name} ({pid})"),
            format!("It uses {device} on node {node}, but has threads or memory on nodes other than {near}."),
            format!(
                "/proc/{pid}/task/*/stat: threads on node {}; /proc/{pid}/numa_maps: memory on node {memory}; \
                 /proc/{pid}/io: {rate:.0} MB/s read and written",
                places(&program.threads_on, u32::to_string)
            ),
            format!("Start it with numaio run --near {device}, or move it."),
        ),
        device: Some(*index),
        target: Some(*node),
        effect: of_buffers(program),
        fix: fix(topology, program),
    }
}

/// Formats amounts by node: `0: 3, 1: 5`.
fn places<T>(on: &BTreeMap<NodeId, T>, show: impl Fn(&T) -> String) -> String {
    on.iter().map(|(node, amount)| format!("{node}: {}", show(amount))).collect::<Vec<String>>().join(", ")
}

/// Returns the effect, assuming that buffers are distributed like all memory of the program.
fn of_buffers(program: &Program) -> Effect {
    let all: u64 = program.bytes_on.iter().flat_map(BTreeMap::values).sum();
    match &program.bytes_on {
        Some(on) if all > 0 => {
            Effect::Shares(on.iter().map(|(node, bytes)| (*node, *bytes as f64 / all as f64)).collect())
        }
        _ => Effect::any_of(program.threads_on.keys().copied().collect()),
    }
}

/// Moves a running program with taskset(1) and migratepages(8).
fn fix(topology: &Topology, program: &Program) -> Fix {
    let near = program.near.iter().flat_map(|node| topology.usable_cpus(node).iter().collect::<Vec<_>>());
    let cpus: CpuSet = near.collect();
    if cpus.is_empty() {
        return Fix::none();
    }
    let pid = program.pid;
    let from = program
        .bytes_on
        .iter()
        .flat_map(BTreeMap::keys)
        .copied()
        .filter(|node| !program.near.contains(*node));
    let from: NodeSet = from.collect();
    let to =
        if program.near.contains(program.node) { NodeSet::one(program.node) } else { program.near.clone() };
    let mut fix = Fix { commands: vec![format!("taskset -a -p -c {cpus} {pid}")], undo: Vec::new() };
    if !program.allowed.is_empty() {
        fix.undo.push(format!("taskset -a -p -c {} {pid}", program.allowed));
    }
    if !from.is_empty() {
        fix.commands.push(format!("migratepages {pid} {from} {to}"));
        // Pages of several source nodes cannot be moved back separately.
        fix.undo.extend((from.len() == 1).then(|| format!("migratepages {pid} {to} {from}")));
    }
    fix
}

fn others(programs: &[&Program]) -> Option<Symptom> {
    let first = programs.first()?;
    let names: Vec<String> =
        programs.iter().take(EXAMPLES).map(|program| format!("{} ({})", program.name, program.pid)).collect();
    let more = programs.len().saturating_sub(EXAMPLES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(Symptom {
        finding: Finding::new(
            Severity::Note,
            "programs-remote",
            "programs",
            format!(
                "{} remote from an open device, but moved less than {:.0} MB/s, or their rate is not visible.",
                if programs.len() == 1 { "1 program is".to_owned() } else { format!("{} programs are", programs.len()) },
                LITTLE / 1e6
            ),
            format!("/proc/{}/io and others: {}{more}", first.pid, names.join(", ")),
            "List them with numaio status --all; root sees all of them.",
        ),
        device: None,
        target: None,
        effect: Effect::Nothing,
        fix: Fix::none(),
    })
}
