//! Metrics of a machine: devices, findings, and the classes of its model.

use super::table::{Labels, MetricTable};
use numaio_machine::findings::{Finding, Severity};
use numaio_machine::topology::Topology;
use numaio_machine::workload::Direction;
use numaio_schema::Model;
use prometheus_client::registry::Unit;

/// Adds the devices and their traffic.
pub fn add_devices(table: &mut MetricTable, topology: &Topology, bytes: &[(usize, u64)]) {
    let devices = &topology.devices;
    let mut info = table.gauge("numaio_device_info", None, "Devices and the nodes that they are attached to");
    for device in devices {
        let node = device.locality.node.map(|node| node.0.to_string());
        let pci = device.pci.map(|address| address.to_string());
        let labels = vec![
            ("device", device.distinct_name(devices)),
            ("kind", device.kind.name().to_owned()),
            ("node", node.unwrap_or_default()),
            ("pci", pci.unwrap_or_default()),
            ("driver", device.driver.clone().unwrap_or_default()),
        ];
        info.set(labels);
    }
    let help = "Data that a device has moved in both directions, by counters of the kernel";
    let mut moved = table.counter("numaio_device_io", Some(Unit::Bytes), help);
    for (index, bytes) in bytes {
        if let Some(device) = devices.get(*index) {
            moved.add(vec![("device", device.distinct_name(devices))], *bytes);
        }
    }
}

/// Adds the findings.
pub fn add_findings(table: &mut MetricTable, findings: &[Finding]) {
    let mut counts = table.gauge("numaio_findings", None, "Findings of numaio doctor by severity");
    for severity in [Severity::Note, Severity::Warning, Severity::Problem] {
        let count = findings.iter().filter(|finding| finding.severity == severity).count() as u64;
        counts.add(vec![("severity", severity_name(severity).to_owned())], count);
    }
    let mut series = table.gauge("numaio_finding", None, "A finding of numaio doctor");
    for finding in findings {
        let labels = vec![
            ("device", finding.subject.clone()),
            ("rule", finding.rule.clone()),
            ("severity", severity_name(finding.severity).to_owned()),
        ];
        series.set(labels);
    }
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

/// Adds the classes and bandwidths of a model.
pub fn add_model(table: &mut MetricTable, model: &Model) {
    let labels = |target: u32, direction: Direction, node: u32| -> Labels {
        let direction = match direction {
            Direction::Write => "write",
            Direction::Read => "read",
        };
        vec![("target", target.to_string()), ("direction", direction.to_owned()), ("node", node.to_string())]
    };
    let directions = || {
        let targets = model.targets.iter();
        targets.flat_map(|target| target.directions.iter().map(|direction| (target.target.0, direction)))
    };
    let help = "Bandwidth class of a node toward a target in the saved model; 1 is best";
    let mut classes = table.gauge("numaio_model_class", None, help);
    for (target, direction) in directions() {
        for class in &direction.classes {
            for node in class.nodes.iter() {
                classes.add(labels(target, direction.direction, node.0), u64::from(class.rank));
            }
        }
    }
    let unit = Unit::Other("bytes_per_second".to_owned());
    let help = "Copy bandwidth of a node toward a target in the saved model";
    let mut bandwidths = table.gauge("numaio_model_bandwidth", Some(unit), help);
    for (target, direction) in directions() {
        for node in &direction.nodes {
            bandwidths.add(labels(target, direction.direction, node.node.0), node.bytes_copied_per_s);
        }
    }
    table
        .gauge("numaio_model_measured_timestamp", Some(Unit::Seconds), "When the saved model was measured")
        .add(Vec::new(), model.record.provenance.measured_at);
}
