//! Reads of a device's register as a view of the device's node.

use super::measured::{measured, measured_view, NodeReadings};
use super::view::{Kind, ViewSubject};
use numaio_machine::devices::RegisterChoice;
use numaio_machine::ids::NodeId;
use numaio_schema::{MmioRecord, Quantity, View};

/// Returns the time of a read by node.
///
/// Returns no view for a device on another node.
pub fn mmio_views(record: &MmioRecord, subject: &ViewSubject) -> Vec<View> {
    if record.device.node.is_some_and(|node| node != subject.target) {
        return Vec::new();
    }
    let readings: Vec<(NodeId, NodeReadings)> =
        record.cells.iter().map(|cell| (cell.cpu_node, NodeReadings::of_reading(&cell.ns))).collect();
    let view = measured_view(subject, kind(record), &readings, record.provenance.complete);
    measured(view.into_iter(), &record.provenance)
}

fn kind(record: &MmioRecord) -> Kind {
    let device = &record.device.name;
    let (name, title) = match record.choice {
        RegisterChoice::Requested => {
            let (bar, offset) = (record.bar, record.offset);
            (format!("-bar{bar}-{offset:#x}"), format!(" of BAR {bar} at {offset:#x}"))
        }
        RegisterChoice::NvmeVersion | RegisterChoice::Prefetchable => (String::new(), String::new()),
    };
    Kind {
        name: format!("mmio-{device}{name}"),
        title: format!("{device}, MMIO read{title}"),
        direction: None,
        quantity: Quantity::Nanoseconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::mmio;

    fn subject(target: u32) -> ViewSubject<'static> {
        ViewSubject { machine: "m", target: NodeId(target), level: 0.1 }
    }

    #[test]
    fn each_node_has_the_time_of_its_reads() {
        let mut record = mmio(0, &[(0, 800.0), (1, 1200.0)]);
        let views = mmio_views(&record, &subject(0));
        let factors: Vec<Option<f64>> = views[0].nodes.iter().map(|value| value.factor).collect();
        assert_eq!((views[0].name.as_str(), factors), ("mmio-eth0", vec![Some(1.0), Some(1.5)]));
        assert_eq!((views.len(), views[0].quantity), (1, Quantity::Nanoseconds));
        record.choice = RegisterChoice::Requested;
        assert_eq!(mmio_views(&record, &subject(0))[0].name, "mmio-eth0-bar0-0x8");
        assert!(mmio_views(&record, &subject(1)).is_empty());
    }
}
