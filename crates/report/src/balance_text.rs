//! Formats events of a balancer as text, a line or two for each.

use crate::phrases::percent;
use crate::style::clean;
use numaio_machine::set::format_nodes;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{
    BalanceDecision, BalanceEvent, BalanceEventKind, BalanceMove, BalanceReason, BalanceStart, HotMemory,
    MonitoredMemory, TrafficSource, UnknownTraffic,
};
use std::collections::BTreeMap;

/// Formats an event; `None` for events that only documents contain. `explain` adds decisions to
/// stay.
pub fn balance_event_text(event: &BalanceEvent, explain: bool, unit: BandwidthUnit) -> Option<String> {
    let line = match &event.event {
        BalanceEventKind::Started(start) => started(start),
        BalanceEventKind::Round(_) => return None,
        BalanceEventKind::Decision(decision) if decision.to.is_none() && !explain => return None,
        BalanceEventKind::Decision(decision) => decided(decision, unit),
        BalanceEventKind::Moved(moved) => moved_text(moved),
        BalanceEventKind::MoveFailed { group, reason: why } => {
            format!("{}: not moved: {}", clean(group), clean(why))
        }
        BalanceEventKind::Ended { moves, moved_bytes, reasons } => {
            let moved = format!("ended: {}, {} of memory", count(*moves, "move"), format_size(*moved_bytes));
            if *moves == 0 {
                moved + &groups_by_reason(reasons)
            } else {
                moved
            }
        }
    };
    Some(line + "\n")
}

/// Describes why nothing was moved: `; last round: 3 groups best-node, 1 group low-rate`.
fn groups_by_reason(reasons: &BTreeMap<String, u64>) -> String {
    if reasons.is_empty() {
        return "; no selected program used a device or CPU".to_owned();
    }
    let group = |(reason, groups): (&String, &u64)| format!("{} {}", count(*groups, "group"), clean(reason));
    format!("; last round: {}", reasons.iter().map(group).collect::<Vec<String>>().join(", "))
}

fn started(start: &BalanceStart) -> String {
    let automatic = match start.numa_balancing {
        None => "unknown or missing",
        Some(0) => "off",
        Some(_) => "on: it may move memory too; --pause-balancing switches it off",
    };
    let daemons = match start.daemons.is_empty() {
        true => String::new(),
        false => format!("; running: {}", start.daemons.join(", ")),
    };
    let models = match start.modeled_nodes.is_empty() {
        true => "no node is modeled: measure them with numaio model".to_owned(),
        false => format!("{} modeled", format_nodes(&start.modeled_nodes)),
    };
    let sockets = match &start.missing_sockets {
        Some(why) => format!("; network traffic of programs unknown: {}", clean(why)),
        None => String::new(),
    };
    let dry_run = if start.dry_run { " (dry run)" } else { "" };
    format!(
        "balancing every {} s{dry_run}; {models}; automatic NUMA balancing {automatic}{daemons}{sockets}",
        start.every_s
    )
}

fn decided(decision: &BalanceDecision, unit: BandwidthUnit) -> String {
    let rate = |bytes_per_s: f64| rate_text(bytes_per_s, unit);
    let on = match &decision.bytes_on {
        Some(on) => {
            on.iter().map(|(node, bytes)| format!("{node}: {}", format_size(*bytes))).collect::<Vec<_>>()
        }
        None => vec!["not readable".to_owned()],
    };
    let devices = match decision.devices.is_empty() {
        true => "no device".to_owned(),
        false => {
            let devices = decision.devices.iter().map(|device| device_text(decision, device, &rate));
            devices.collect::<Vec<String>>().join(", ")
        }
    };
    let unknown = decision.unknown_traffic.filter(|why| *why != UnknownTraffic::NoSocketList);
    let unknown = unknown.map(|why| format!("; {}", unknown_traffic_text(why))).unwrap_or_default();
    let target = match decision.to {
        Some(node) => format!("move to node {node}"),
        None => "stay".to_owned(),
    };
    let predicted = match decision.predicted_bytes_per_s.filter(|_| decision.to.is_some()) {
        Some(predicted) => format!(", {} predicted", rate(predicted)),
        None => String::new(),
    };
    format!(
        "{} ({}): {target}: {}\n  {devices}, {}{predicted}; memory by node: {}{}{unknown}",
        clean(&decision.name),
        clean(&decision.group),
        reason(&decision.reason, &rate),
        rate(decision.bytes_per_s),
        on.join(", "),
        hot_text(decision.hot.as_ref(), "; ")
    )
}

/// Formats what a monitor found, after a separator; empty if nothing was to be monitored.
fn hot_text(hot: Option<&HotMemory>, separator: &str) -> String {
    match hot {
        Some(HotMemory::Monitored(MonitoredMemory { monitor, hot_bytes, monitored_bytes })) => {
            let (hot, all) = (format_size(*hot_bytes), format_size(*monitored_bytes));
            format!("{separator}in use by {monitor}: {hot} of {all}")
        }
        Some(HotMemory::NotMonitored(why)) => format!("{separator}all touched memory counts: {}", clean(why)),
        None => String::new(),
    }
}

/// Formats a device; with its traffic by direction if there are several, or if it is of sockets.
fn device_text(decision: &BalanceDecision, device: &str, rate: &dyn Fn(f64) -> String) -> String {
    let name = clean(device);
    let Some(traffic) = decision.traffic.get(device) else { return name.to_string() };
    let (read, write) = (rate(traffic.read_bytes_per_s), rate(traffic.write_bytes_per_s));
    match traffic.source {
        TrafficSource::Sockets => format!("{name} (receives {read}, sends {write})"),
        TrafficSource::Calls => format!("{name} (by calls: reads {read}, writes {write})"),
        TrafficSource::Storage if decision.devices.len() > 1 => {
            format!("{name} (reads {read}, writes {write})")
        }
        TrafficSource::Storage => name.to_string(),
    }
}

/// Formats the reason why the traffic of sockets is unknown.
pub fn unknown_traffic_text(why: UnknownTraffic) -> &'static str {
    match why {
        UnknownTraffic::NoSocketList => "the kernel lists no sockets",
        UnknownTraffic::OtherNamespace => "its sockets are invisible in another network namespace",
        UnknownTraffic::Denied => "its sockets are unknown without permission",
        UnknownTraffic::FirstObservation => "rates of its sockets need two observations",
    }
}

/// Formats a completed move: a line, and further ones for memory that stayed.
pub fn moved_text(moved: &BalanceMove) -> String {
    let mut text = format!(
        "{}: moved to node {} in {:.2} s: {}, {} of {}; receipt {}",
        clean(&moved.group),
        moved.to,
        moved.seconds,
        count(u64::from(moved.threads), "thread"),
        format_size(moved.moved_bytes),
        format_size(moved.wanted_bytes),
        moved.receipt
    );
    text += &hot_text(moved.hot.as_ref(), "\n  ");
    for (why, bytes) in &moved.left_bytes {
        text += &format!("\n  {} stayed: {why}", format_size(*bytes));
    }
    if !moved.kept_bytes.is_empty() {
        let kept = moved.kept_bytes.iter().map(|(kind, bytes)| format!("{} {kind}", format_size(*bytes)));
        text += &format!("\n  never moved: {}", kept.collect::<Vec<String>>().join(", "));
    }
    if !moved.ended.is_empty() {
        let pids = moved.ended.iter().map(u32::to_string).collect::<Vec<String>>().join(", ");
        text += &format!("\n  ended during the move: {pids}");
    }
    text
}

/// Formats a number with its noun.
fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats the reason of a decision as a clause.
pub fn balance_reason_text(of: &BalanceReason, unit: BandwidthUnit) -> String {
    reason(of, &|bytes_per_s| rate_text(bytes_per_s, unit))
}

/// Formats a bandwidth, below 1 GB/s in MB/s.
fn rate_text(bytes_per_s: f64, unit: BandwidthUnit) -> String {
    match bytes_per_s < 1e9 && unit == BandwidthUnit::GigabytesPerS {
        true => format!("{:.1} MB/s", bytes_per_s / 1e6),
        false => format!("{:.2} {unit}", unit.of(bytes_per_s)),
    }
}

/// Formats the reason of a decision.
fn reason(reason: &BalanceReason, rate: &dyn Fn(f64) -> String) -> String {
    match reason {
        BalanceReason::Gain { gain_bytes_per_s, move_bytes, cost_s } => format!(
            "gains {} for {} moved in about {cost_s:.2} s",
            rate(*gain_bytes_per_s),
            format_size(*move_bytes)
        ),
        BalanceReason::BestNode => "no other node promises more".to_owned(),
        BalanceReason::NoDevice => "it uses no device whose node is known".to_owned(),
        BalanceReason::LowRate { min_bytes_per_s } => {
            format!("it exchanges less than {} with devices", rate(*min_bytes_per_s))
        }
        BalanceReason::NotLimited { device_busy } => {
            format!("it uses less of the device than it could; the device is busy {}", percent(*device_busy))
        }
        BalanceReason::NoModel { node } => {
            format!("node {node} has no model: numaio model --node {node} measures it")
        }
        BalanceReason::SmallGain { gain, min_gain: least } => {
            format!("the gain of {} is below {}", percent(*gain), percent(*least))
        }
        BalanceReason::HighCost { cost_s, horizon_s } => {
            format!("a move of {cost_s:.1} s does not pay off within {horizon_s} s")
        }
        BalanceReason::HarmsOther { other, loss } => {
            format!("{} would lose {}", clean(other), percent(*loss))
        }
        BalanceReason::TargetFull { node, free_bytes } => {
            format!("node {node} has only {} of free memory", format_size(*free_bytes))
        }
        other => rule_text(other),
    }
}

/// Formats reasons that follow from rules rather than from predicted rates.
fn rule_text(reason: &BalanceReason) -> String {
    match reason {
        BalanceReason::Unconfirmed { rounds, needed } => {
            format!("the gain must persist: {rounds} of {needed} rounds")
        }
        BalanceReason::Monitoring { move_bytes } => {
            format!("{} to move: accesses are monitored first", format_size(*move_bytes))
        }
        BalanceReason::CoolDown { remaining_s: left_s } => {
            format!("moved recently: stays for {left_s:.0} s more")
        }
        BalanceReason::Settling => "rates settle after another move".to_owned(),
        BalanceReason::Ineffective { realized, remaining_s: left_s } => format!(
            "the last move realized {} of its predicted gain: stays for {left_s:.0} s more",
            percent(*realized)
        ),
        BalanceReason::ByteLimit { move_bytes } => {
            format!("{} exceed the limit of moved memory per second", format_size(*move_bytes))
        }
        BalanceReason::TooMuchMemory { move_bytes, max_bytes: most_bytes } => {
            format!("{} exceed the limit of a move, {}", format_size(*move_bytes), format_size(*most_bytes))
        }
        BalanceReason::OutsideCpuset => "its cpuset allows no other node".to_owned(),
        BalanceReason::OutsideAffinity { cpus } => {
            format!("its affinity allows CPUs {cpus} only; --override ignores that")
        }
        BalanceReason::ExplicitPolicy { policy } => {
            format!("it chose the nodes of its memory: {}; --override ignores that", clean(policy))
        }
        BalanceReason::RealTime => "it has real-time threads".to_owned(),
        BalanceReason::Pinned { bytes: 0 } => "devices access its memory directly".to_owned(),
        BalanceReason::Pinned { bytes } => {
            format!("{} of its memory are pinned for devices", format_size(*bytes))
        }
        BalanceReason::OtherUser { uid } => {
            let of = uid.map_or(String::new(), |uid| format!(" {uid}"));
            format!("it belongs to another user{of}: run as root")
        }
        BalanceReason::Excluded { entry } => format!("the configuration excludes it ({})", clean(entry)),
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::control::PageRefusal;
    use numaio_machine::hot_pages::AccessMonitorKind;
    use numaio_machine::ids::NodeId;
    use numaio_schema::DeviceTraffic;
    use std::collections::BTreeMap;

    fn text(event: BalanceEventKind, explain: bool) -> Option<String> {
        let event = BalanceEvent { schema: String::new(), machine: String::new(), at: 0, round: 1, event };
        balance_event_text(&event, explain, BandwidthUnit::default())
    }

    fn decision(to: Option<NodeId>, reason: BalanceReason) -> BalanceEventKind {
        BalanceEventKind::Decision(BalanceDecision {
            group: "pid:70:5".into(),
            name: "dd\u{1b}[31m".into(),
            pids: vec![70],
            devices: vec!["vda".into()],
            traffic: BTreeMap::new(),
            unknown_traffic: None,
            bytes_per_s: 18.5e6,
            cpus_on: BTreeMap::new(),
            bytes_on: Some(BTreeMap::from([(NodeId(4), 1 << 20)])),
            hot: None,
            to,
            predicted_bytes_per_s: Some(34.7e6),
            reason,
        })
    }

    #[test]
    fn decisions_show_gain_and_reason_without_control_characters() {
        let gain = BalanceReason::Gain { gain_bytes_per_s: 16.2e6, move_bytes: 1 << 20, cost_s: 0.03 };
        let shown = text(decision(Some(NodeId(7)), gain), false).expect("a move is always shown");
        assert!(shown.contains("move to node 7: gains 16.2 MB/s for 1 MiB moved in about 0.03 s"), "{shown}");
        assert!(shown.contains("vda, 18.5 MB/s, 34.7 MB/s predicted; memory by node: 4: 1 MiB"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
        assert_eq!(text(decision(None, BalanceReason::BestNode), false), None);
        let stay = text(decision(None, BalanceReason::RealTime), true).expect("explained");
        assert!(stay.contains("stay: it has real-time threads"), "{stay}");
    }

    #[test]
    fn decisions_show_the_traffic_of_sockets_by_direction() {
        let BalanceEventKind::Decision(plain) = decision(None, BalanceReason::BestNode) else { return };
        let of = |read_bytes_per_s, write_bytes_per_s, source| DeviceTraffic {
            read_bytes_per_s,
            write_bytes_per_s,
            source,
        };
        let disk = of(3e6, 0.0, TrafficSource::Storage);
        let shown = |devices: &[&str], unknown_traffic| {
            let traffic = BTreeMap::from([
                ("vda".into(), disk),
                ("eth0".into(), of(117e6, 2e6, TrafficSource::Sockets)),
            ]);
            let devices = devices.iter().map(|name| (*name).to_owned()).collect();
            let decision = BalanceDecision { devices, traffic, unknown_traffic, ..plain.clone() };
            text(BalanceEventKind::Decision(decision), true).expect("explained")
        };
        let both = shown(&["eth0", "vda"], None);
        let expected =
            "  eth0 (receives 117.0 MB/s, sends 2.0 MB/s), vda (reads 3.0 MB/s, writes 0.0 MB/s), ";
        assert!(both.contains(expected), "{both}");
        let unknown = shown(&["vda"], Some(UnknownTraffic::OtherNamespace));
        assert!(unknown.contains("  vda, 18.5 MB/s; memory"), "{unknown}");
        assert!(unknown.ends_with("; its sockets are invisible in another network namespace\n"), "{unknown}");
    }

    #[test]
    fn moves_show_what_stayed() {
        let moved = BalanceMove {
            group: "pid:70:5".into(),
            receipt: "balance-3".into(),
            to: NodeId(7),
            threads: 1,
            threads_in_place: 1,
            wanted_bytes: 2 << 20,
            hot: Some(HotMemory::Monitored(MonitoredMemory {
                monitor: AccessMonitorKind::Damon,
                hot_bytes: 2 << 20,
                monitored_bytes: 300 << 20,
            })),
            moved_bytes: 1 << 20,
            left_bytes: BTreeMap::from([(PageRefusal::NoMemory, 1 << 20)]),
            kept_bytes: BTreeMap::from([("shared".to_owned(), 4096)]),
            ended: Vec::new(),
            seconds: 0.25,
        };
        let shown = text(BalanceEventKind::Moved(moved), false).expect("shown");
        let expected = "pid:70:5: moved to node 7 in 0.25 s: 1 thread, 1 MiB of 2 MiB; receipt balance-3\n  \
                        in use by DAMON: 2 MiB of 300 MiB\n  \
                        1 MiB stayed: no free memory on the target node\n  never moved: 4 KiB shared\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn start_names_other_programs_that_move_memory() {
        let start = BalanceStart {
            every_s: 2.0,
            dry_run: true,
            numa_balancing: Some(1),
            daemons: vec!["irqbalance".into()],
            modeled_nodes: Default::default(),
            missing_sockets: Some("module tcp_diag is missing".into()),
        };
        let shown = text(BalanceEventKind::Started(start), false).expect("shown");
        assert!(shown.contains("(dry run)") && shown.contains("running: irqbalance"), "{shown}");
        assert!(
            shown.contains("; network traffic of programs unknown: module tcp_diag is missing"),
            "{shown}"
        );
        assert!(shown.contains("--pause-balancing") && shown.contains("numaio model"), "{shown}");
    }
}
