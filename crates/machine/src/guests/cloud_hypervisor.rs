//! Command lines of Cloud Hypervisor (`cloud-hypervisor --help`).

use super::configuration::{numbers, Attachment, GuestCell, GuestConfiguration, Hypervisor, MemoryBackend};
use super::option_text::{size, OptionPairs};
use crate::ids::NodeId;
use crate::set::NodeSet;

/// Parses the arguments; `None` for a run without a guest.
pub(super) fn parse(arguments: &[&str]) -> Option<GuestConfiguration> {
    if arguments.iter().any(|argument| matches!(*argument, "--version" | "--help" | "-V" | "-h")) {
        return None;
    }
    let mut found = GuestConfiguration::new(Hypervisor::CloudHypervisor);
    found.accelerator = Some("kvm".to_owned());
    let mut option = "";
    for argument in arguments {
        match argument.strip_prefix("--") {
            Some(name) => match name.split_once('=').filter(|(name, _)| !name.contains(',')) {
                Some((name, value)) => apply(&mut found, name, value),
                None => option = name,
            },
            // An option may have several values, such as disks.
            None => apply(&mut found, option, argument),
        }
    }
    for cell in &mut found.cells {
        let zone = found.backends.iter().find(|backend| Some(&backend.id) == cell.backend.as_ref());
        cell.bytes = cell.bytes.or(zone.map(|zone| zone.bytes));
    }
    let zones: u64 = found.backends.iter().fold(0, |sum, zone| sum.saturating_add(zone.bytes));
    found.memory_bytes = found.memory_bytes.filter(|bytes| *bytes > 0).or((zones > 0).then_some(zones));
    Some(found)
}

fn apply(found: &mut GuestConfiguration, option: &str, value: &str) {
    if option == "numa" {
        return numa(found, value);
    }
    let pairs = OptionPairs::parse(value);
    let path = || pairs.get("path").map(str::to_owned);
    match option {
        "cpus" => found.vcpus = pairs.kind(&["boot"]).and_then(|count| count.parse().ok()),
        "memory" => found.memory_bytes = pairs.kind(&["size"]).and_then(|text| size(text, 1)),
        "memory-zone" => found.backends.push(MemoryBackend {
            id: pairs.get("id").unwrap_or_default().to_owned(),
            bytes: pairs.get("size").and_then(|text| size(text, 1)).unwrap_or(0),
            host_nodes: pairs
                .get("host_numa_node")
                .and_then(|node| node.parse().ok())
                .map(|node| NodeSet::one(NodeId(node)))
                .unwrap_or_default(),
            policy: pairs.get("host_numa_node").map(|_| "bind".to_owned()),
            path: pairs.get("file").map(str::to_owned),
        }),
        "disk" => found.attachments.extend(path().map(|path| Attachment::Disk { path })),
        "device" => found.attachments.extend(path().map(|path| Attachment::SysfsDevice { path })),
        "net" => found.attachments.extend(
            pairs.get("tap").map(|name| Attachment::Interface { name: name.to_owned() }).or_else(|| {
                let fds = pairs.get("fd")?.trim_matches(['[', ']']).split([':', ',']).next()?;
                fds.parse().ok().map(|fd| Attachment::InterfaceDescriptor { fd })
            }),
        ),
        "api-socket" => {
            let socket = value.strip_prefix("path=").unwrap_or(value);
            let file = socket.rsplit('/').next().unwrap_or_default();
            let name = file.trim_end_matches(".sock").trim_end_matches(".socket");
            found.name = Some(name).filter(|name| !name.is_empty()).map(str::to_owned);
        }
        _ => {}
    }
}

/// Parses `guest_numa_id=0,cpus=[0-1,4],memory_zones=[mem0]`; several nodes are separate values.
fn numa(found: &mut GuestConfiguration, value: &str) {
    let bracketed = |key: &str| -> Option<&str> {
        let rest = value.split_once(key)?.1;
        match rest.strip_prefix('[') {
            Some(list) => list.split(']').next(),
            None => rest.split(',').next(),
        }
    };
    let Some(id) = bracketed("guest_numa_id=").and_then(|id| id.parse().ok()) else { return };
    found.cells.push(GuestCell {
        id,
        vcpus: numbers(bracketed(",cpus=").unwrap_or_default()),
        backend: bracketed("memory_zones=").and_then(|zones| zones.split(',').next()).map(str::to_owned),
        bytes: None,
    });
}
