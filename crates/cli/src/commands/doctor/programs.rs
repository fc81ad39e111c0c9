//! Detection of running programs that are remote to their devices.

use crate::machine::Machine;
use numaio_machine::checkup::{self, Program, Symptom};
use numaio_machine::ids::NodeId;
use numaio_machine::near::{self, resolve, Handle, NearDevice, ResolveContext, Resolved};
use numaio_machine::process::{self, Process};
use numaio_machine::sysfs::ReadErrorKind;
use numaio_machine::topology::Topology;
use numaio_schema::MachineExpectation;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum processes that are checked, which limits the time on a busy machine.
const MAX_PROCESSES: usize = 10_000;

/// Minimum time over which the I/O of a program is measured.
const SAMPLE_TIME: Duration = Duration::from_millis(500);

/// Returns the symptoms of all visible programs except guests, which have symptoms of their own,
/// and adds others to the list of unchecked items.
pub fn find_remote_programs(
    machine: &Machine,
    topology: &Topology,
    expected: &MachineExpectation,
    guests: &[u32],
    not_checked: &mut Vec<String>,
) -> Vec<Symptom> {
    if topology.cpu_nodes().len() < 2 && topology.memory_nodes().len() < 2 {
        return Vec::new();
    }
    let is_other = |pid: &u32| *pid != std::process::id() && !guests.contains(pid);
    let pids: Vec<u32> = process::pids(machine).into_iter().filter(is_other).collect();
    let mut found = Vec::new();
    let mut hidden = 0;
    for pid in pids.iter().take(MAX_PROCESSES) {
        match find_remote(machine, topology, expected, *pid) {
            Ok(program) => found.extend(program),
            // The process has ended meanwhile.
            Err(ReadErrorKind::Absent) => {}
            Err(_) => hidden += 1,
        }
    }
    if pids.len() > MAX_PROCESSES {
        not_checked.push(format!(
            "{} of {} programs: numaio checks at most {MAX_PROCESSES}.",
            pids.len() - MAX_PROCESSES,
            pids.len()
        ));
    }
    if hidden > 0 {
        not_checked.push(format!("{hidden} programs of other users: only root can list their open files."));
    }
    measure_io(machine, &mut found);
    checkup::remote_programs(topology, &found)
}

/// Measures the I/O bandwidth of each program.
fn measure_io(machine: &Machine, programs: &mut [Program]) {
    if programs.is_empty() {
        return;
    }
    let sample = |program: &Program| (Instant::now(), process::bytes_moved(machine, program.pid));
    let before: Vec<(Instant, Option<u64>)> = programs.iter().map(sample).collect();
    thread::sleep(SAMPLE_TIME);
    for (program, (at, before)) in programs.iter_mut().zip(before) {
        let moved = process::bytes_moved(machine, program.pid).zip(before);
        let moved = moved.map(|(now, before)| now.saturating_sub(before));
        program.bytes_per_s = moved.map(|bytes| bytes as f64 / at.elapsed().as_secs_f64());
    }
}

/// Returns the program if it is remote to a device that it uses, unless that costs no bandwidth.
fn find_remote(
    machine: &Machine,
    topology: &Topology,
    expected: &MachineExpectation,
    pid: u32,
) -> Result<Option<Program>, ReadErrorKind> {
    let open = resolve(ResolveContext { root: machine, locate: machine, topology }, &Handle::Process(pid));
    if open.findings.iter().any(|finding| finding.rule == near::RULE_DENIED) {
        return Err(ReadErrorKind::Denied);
    }
    // The kernel takes long to locate pages, so programs without a device are skipped before.
    let Some((device, node)) = first_device(topology, &open) else { return Ok(None) };
    let process: Process = process::read(machine, pid)?;
    let status = numaio_place::status(topology, &process, &open, expected);
    let remote = status.nearness.filter(|nearness| nearness.is_remote() && !nearness.is_free());
    Ok(remote.map(|nearness| Program {
        pid,
        name: status.name,
        bytes_per_s: None,
        device: (device.name.clone(), device.index),
        node,
        near: nearness.near,
        threads_on: status.threads_on,
        bytes_on: status.bytes_on,
        allowed: status.allowed,
    }))
}

/// Returns the device that probably carries most among those with a known node.
fn first_device<'a>(topology: &Topology, open: &'a Resolved) -> Option<(&'a NearDevice, NodeId)> {
    let node = |near: &NearDevice| near.nodes.first().or(topology.devices.get(near.index)?.locality.node);
    let parts = open.carrying().zip(open.estimated_parts());
    let known = parts.filter_map(|(near, (_, part))| Some((near, node(near)?, part)));
    let most = known.max_by(|(_, _, a), (_, _, b)| a.total_cmp(b));
    most.map(|(near, node, _)| (near, node))
}
