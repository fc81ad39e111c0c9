//! The explanation of a program: its place, its devices, and why it is remote.

use super::cells::format_rate;
use crate::balance_text::{balance_reason_text, unknown_traffic_text};
use crate::phrases::{bandwidth_lost, count, joined, nodes, percent, program_name, short};
use crate::style::clean;
use numaio_machine::ids::NodeId;
use numaio_machine::sockets::TrafficRates;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{Nearness, RemoteFrom, TopProgram};
use std::collections::BTreeMap;

/// Returns clean lines that explain a program; they may be longer than a screen.
pub fn program_explanation(program: &TopProgram, unit: BandwidthUnit) -> Vec<String> {
    let mut lines = vec![identity(program), cpus(program)];
    lines.extend(memory(program));
    lines.extend(io(program, unit));
    lines.extend(network(program, unit));
    for used in &program.devices {
        let node = used.node.map_or("of an unknown node".to_owned(), |node| format!("on node {node}"));
        let reached = match used.reached_via.as_str() {
            "" => String::new(),
            path => format!(": {path}"),
        };
        lines.push(format!("Device {} {node}{reached}", short(&used.device)));
    }
    lines.push(remote(program));
    lines.extend(balance(program, unit));
    if let Some(why) = &program.reason {
        lines.push(format!("Not inspected completely: {why}"));
    }
    lines.iter().map(|line| clean(line)).collect()
}

fn identity(program: &TopProgram) -> String {
    let user = program.uid.map(|uid| format!("user {uid}"));
    let parts = [Some(format!("process {}", program.pid)), user, program.unit.as_deref().map(short)];
    format!(
        "{}: {}",
        program_name(&program.name, program.guest.as_deref()),
        joined(parts.into_iter().flatten(), ", ")
    )
}

fn cpus(program: &TopProgram) -> String {
    let threads = by_node(&program.threads_on, |threads| count(*threads as usize, "thread"));
    let used = by_node(&program.cpus_on, |cpus| format!("{cpus:.2} CPUs"));
    let used = match used.as_str() {
        "" => String::new(),
        used => format!("; uses {used}"),
    };
    let allowed = program.allowed.as_ref().map(|cpus| format!("; may run on CPUs {cpus}"));
    match threads.as_str() {
        "" => "Threads: not inspected, because the program is idle".to_owned(),
        threads => format!("Threads: {threads}{used}{}", allowed.unwrap_or_default()),
    }
}

fn memory(program: &TopProgram) -> Vec<String> {
    let Some(memory) = &program.memory else {
        return vec!["Memory: unknown".to_owned()];
    };
    let kinds = [
        ("Private memory", &memory.private),
        ("Memory bound by the program", &memory.bound),
        ("Shared memory", &memory.shared),
        ("Huge pages", &memory.huge),
        ("Mapped files", &memory.file_backed),
    ];
    let line = |(kind, on): (&str, &BTreeMap<NodeId, u64>)| {
        (!on.is_empty()).then(|| format!("{kind}: {}", by_node(on, |bytes| format_size(*bytes))))
    };
    let mut lines: Vec<String> = kinds.into_iter().filter_map(line).collect();
    if !memory.policies.is_empty() {
        lines.push(format!("Policies of the program: {}", joined(&memory.policies, ", ")));
    }
    lines
}

fn io(program: &TopProgram, unit: BandwidthUnit) -> Option<String> {
    let io = program.io?;
    let rate = |bytes_per_s: f64| format_rate(bytes_per_s, unit);
    Some(format!(
        "I/O: calls read {} and write {}; storage read {} and write {}",
        rate(io.requested_read),
        rate(io.requested_write),
        rate(io.storage_read),
        rate(io.storage_write)
    ))
}

fn network(program: &TopProgram, unit: BandwidthUnit) -> Option<String> {
    if let Some(why) = program.unknown_network {
        return Some(format!("TCP: {}", unknown_traffic_text(why)));
    }
    let of_device = |(device, rates): (&String, &TrafficRates)| {
        let rate = |bytes_per_s: f64| format_rate(bytes_per_s, unit);
        format!("{} receives {} and sends {}", short(device), rate(rates.received), rate(rates.sent))
    };
    (!program.network.is_empty())
        .then(|| format!("TCP: {}", joined(program.network.iter().map(of_device), ", ")))
}

fn remote(program: &TopProgram) -> String {
    let Some(remote) = program.remote else {
        return "Remote: unknown, because threads or memory were not inspected".to_owned();
    };
    match (remote.from, &program.nearness) {
        (RemoteFrom::Devices, Some(nearness @ Nearness { near, threads, memory, .. })) => {
            let part = |what: &str, share: &Option<f64>| {
                share.map(|share| format!("{} of its {what}", percent(share)))
            };
            let parts = [part("threads", threads), part("memory", memory)];
            let parts = joined(parts.into_iter().flatten(), " and ");
            let lost = bandwidth_lost(nearness);
            format!(
                "Remote: {}. Near its devices ({}): {parts}. Bandwidth that this costs them: {lost}",
                percent(remote.share),
                nodes(near)
            )
        }
        _ => format!(
            "Remote: {} of accesses, if threads use all memory equally; no device of a known node",
            percent(remote.share)
        ),
    }
}

fn balance(program: &TopProgram, unit: BandwidthUnit) -> Option<String> {
    let advice = program.advice.as_deref();
    let Some(balance) = &program.balance else {
        return advice.map(|advice| format!("Balance: {advice}"));
    };
    let reason = balance_reason_text(&balance.reason, unit);
    Some(match (balance.to, advice.filter(|_| balance.is_unmodeled())) {
        (Some(node), _) => {
            let predicted = balance.predicted_bytes_per_s.map(|rate| format_rate(rate, unit));
            let predicted = predicted.map_or(String::new(), |rate| format!("; {rate} predicted"));
            format!("Balance: move to node {node}: {reason}{predicted}")
        }
        (None, Some(advice)) => format!("Balance: {advice}; only nearness is known: {reason}"),
        (None, None) => format!("Balance: stay: {reason}"),
    })
}

/// Formats an amount for each node: `node 0: 3, node 1: 5`.
fn by_node<T>(amounts: &BTreeMap<NodeId, T>, show: impl Fn(&T) -> String) -> String {
    joined(amounts.iter().map(|(node, amount)| format!("node {node}: {}", show(amount))), ", ")
}
