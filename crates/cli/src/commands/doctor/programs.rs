//! Running programs that are remote to their devices.

use crate::machine::Machine;
use numaio_machine::checkup::{self, Program, Symptom};
use numaio_machine::ids::NodeId;
use numaio_machine::near::{self, resolve, Handle, NearDevice, ResolveContext};
use numaio_machine::process::{self, Process};
use numaio_machine::sysfs::ReadErrorKind;
use numaio_machine::topology::Topology;
use numaio_schema::Model;
use std::thread;
use std::time::{Duration, Instant};

/// Most processes that are looked at; a busy machine is not worth the time.
const MAX_PROCESSES: usize = 10_000;

/// Time over which is seen how much a program moves, at the least.
const SAMPLE_TIME: Duration = Duration::from_millis(500);

/// Symptoms of all programs that can be seen; what cannot be seen is said.
pub fn find_remote_programs(
    machine: &Machine,
    topology: &Topology,
    models: &[Model],
    unseen: &mut Vec<String>,
) -> Vec<Symptom> {
    if topology.cpu_nodes().len() < 2 && topology.memory_nodes().len() < 2 {
        return Vec::new();
    }
    let others = |pid: &u32| *pid != std::process::id();
    let pids: Vec<u32> = process::pids(machine).into_iter().filter(others).collect();
    let mut found = Vec::new();
    let mut hidden = 0;
    for pid in pids.iter().take(MAX_PROCESSES) {
        match find_remote(machine, topology, models, *pid) {
            Ok(program) => found.extend(program),
            // It has ended meanwhile.
            Err(ReadErrorKind::Absent) => {}
            Err(_) => hidden += 1,
        }
    }
    if pids.len() > MAX_PROCESSES {
        unseen.push(format!(
            "{} of {} programs: no more than {MAX_PROCESSES} are looked at.",
            pids.len() - MAX_PROCESSES,
            pids.len()
        ));
    }
    if hidden > 0 {
        unseen.push(format!("{hidden} programs of other users: only root sees what they have open."));
    }
    measure(machine, &mut found);
    checkup::remote_programs(topology, &found)
}

/// How much each of them moves.
fn measure(machine: &Machine, programs: &mut [Program]) {
    if programs.is_empty() {
        return;
    }
    let look = |program: &Program| (Instant::now(), process::bytes_moved(machine, program.pid));
    let before: Vec<(Instant, Option<u64>)> = programs.iter().map(look).collect();
    thread::sleep(SAMPLE_TIME);
    for (program, (at, before)) in programs.iter_mut().zip(before) {
        let moved = process::bytes_moved(machine, program.pid).zip(before);
        let moved = moved.map(|(now, before)| now.saturating_sub(before));
        program.bytes_per_s = moved.map(|bytes| bytes as f64 / at.elapsed().as_secs_f64());
    }
}

/// A program that is remote to a device it uses; none if it uses none, or is near.
fn find_remote(
    machine: &Machine,
    topology: &Topology,
    models: &[Model],
    pid: u32,
) -> Result<Option<Program>, ReadErrorKind> {
    let open = resolve(ResolveContext { root: machine, locate: machine, topology }, &Handle::Process(pid));
    if open.findings.iter().any(|finding| finding.rule == near::RULE_DENIED) {
        return Err(ReadErrorKind::Denied);
    }
    // Where its pages lie takes the kernel long: only of those that use a device.
    let Some((device, node)) = first_device(topology, &open.devices) else { return Ok(None) };
    let process: Process = process::read(machine, pid)?;
    let models: Vec<&Model> = models.iter().collect();
    let best = |node: NodeId| numaio_model::best_nodes(topology, node, &models);
    let status = numaio_place::status(topology, &process, &open, &best);
    let remote = status.nearness.filter(|nearness| nearness.is_remote());
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

/// The device of the greatest share whose node is known.
fn first_device<'a>(topology: &Topology, devices: &'a [NearDevice]) -> Option<(&'a NearDevice, NodeId)> {
    let node = |near: &NearDevice| near.nodes.first().or(topology.devices.get(near.index)?.locality.node);
    let known = devices.iter().filter_map(|near| Some((near, node(near)?)));
    known.max_by(|(a, _), (b, _)| a.share.total_cmp(&b.share))
}
