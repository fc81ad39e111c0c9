//! Views of any document: the one place that lists the kinds with and without views.

use super::{
    completed, copy_views, counter_views, io_views, latency_views, mmio_views, ping_views, stream_views,
    sweep_views, ViewSubject,
};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_schema::{Document, IoDevice, Model, StreamRecord, StreamScope, View};
use std::borrow::Borrow;

type ViewsOfSubject<'a> = Box<dyn Fn(&ViewSubject) -> Vec<View> + 'a>;

/// Measured views of a document, and their common properties.
pub struct DocumentViews<'a> {
    /// Targets of the views, in order.
    pub targets: Vec<NodeId>,
    /// Measured device; empty if the views are of memory.
    pub device: &'a str,
    /// Unit of a program's own figure; else empty.
    pub unit: &'a str,
    /// End of the names of figures that are not comparable with others of the same view, or empty.
    pub variant: String,
    of_subject: ViewsOfSubject<'a>,
}

impl<'a> DocumentViews<'a> {
    fn new(targets: Vec<NodeId>, views: impl Fn(&ViewSubject) -> Vec<View> + 'a) -> Self {
        Self { targets, device: "", unit: "", variant: String::new(), of_subject: Box::new(views) }
    }

    fn of_pairs(
        pairs: impl Iterator<Item = (NodeId, NodeId)>,
        views: impl Fn(&ViewSubject) -> Vec<View> + 'a,
    ) -> Self {
        let mut targets: Vec<NodeId> = pairs.flat_map(<[NodeId; 2]>::from).collect();
        targets.sort();
        targets.dedup();
        Self::new(targets, views)
    }

    fn of_device(device: &'a IoDevice, views: impl Fn(&ViewSubject) -> Vec<View> + 'a) -> Self {
        Self { device: &device.name, ..Self::new(device.node.into_iter().collect(), views) }
    }

    fn of_model(model: impl Borrow<Model> + 'a) -> Self {
        let targets = model.borrow().targets.iter().map(|target| target.target).collect();
        Self::new(targets, move |subject| copy_views(model.borrow(), subject))
    }

    /// Returns the views of a target; none if the document does not contain it.
    pub fn of(&self, subject: &ViewSubject) -> Vec<View> {
        (self.of_subject)(subject)
    }
}

/// Returns the measured views of a document; `None` for kinds without views.
///
/// Views from files are completed, but not checked (see [`check`](super::check)).
pub fn document_views(document: &Document) -> Option<DocumentViews<'_>> {
    Some(match document {
        Document::Model(it) => DocumentViews::of_model(&**it),
        Document::Record(it) => {
            DocumentViews::of_model(crate::fit((**it).clone(), &Topology::default(), Default::default()))
        }
        Document::Stream(it) => {
            let pairs = it.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node));
            let views = DocumentViews::of_pairs(pairs, |subject| stream_views(it, subject));
            DocumentViews { variant: threads(it), ..views }
        }
        Document::Latency(it) => {
            let pairs = it.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node));
            DocumentViews::of_pairs(pairs, |subject| latency_views(it, subject))
        }
        Document::Sweep(it) => {
            let pairs = it.cells.iter().map(|cell| (cell.cpu_node, cell.memory_node));
            let views = DocumentViews::of_pairs(pairs, |subject| sweep_views(it, subject));
            DocumentViews { unit: &it.method.unit, ..views }
        }
        Document::Counters(it) => {
            let pairs = it.factors.pairs.iter().map(|pair| (pair.cpu_node, pair.memory_node));
            DocumentViews::of_pairs(pairs, |subject| counter_views(it, subject))
        }
        Document::Io(it) => DocumentViews::of_device(&it.device, |subject| io_views(it, subject)),
        Document::Ping(it) => DocumentViews::of_device(&it.device, |subject| ping_views(it, subject)),
        Document::Mmio(it) => DocumentViews::of_device(&it.device, |subject| mmio_views(it, subject)),
        Document::View(it) => {
            DocumentViews::new(vec![it.target], |subject| of_target(vec![completed((**it).clone(), None)], subject))
        }
        Document::Comparison(it) => {
            DocumentViews::new(vec![it.target], |subject| of_target(it.views.clone(), subject))
        }
        // The views of a topology are of the firmware, not measured.
        Document::Topology(_)
        // Devices at the same time, mixes and situations of guests have no value for each node.
        | Document::Aggregate(_)
        | Document::Validation(_)
        | Document::Prediction(_)
        | Document::GuestBench(_)
        // These describe no measurement.
        | Document::Diagnosis(_)
        | Document::HostReport(_)
        | Document::Baseline(_)
        | Document::Near(_)
        | Document::Devices(_)
        | Document::Interleave(_)
        | Document::Irq(_)
        | Document::Cost(_)
        | Document::Status(_)
        | Document::Top(_)
        | Document::Verification(_)
        | Document::BalanceEvent(_)
        | Document::Guests(_)
        | Document::GuestPlan(_)
        | Document::Placement(_)
        | Document::Receipt(_)
        | Document::PlanProblem(_)
        | Document::Plan(_)
        | Document::Job(_)
        | Document::TransferRecord(_)
        | Document::TransferTotals(_)
        | Document::DaemonState(_)
        | Document::FleetCheck(_)
        | Document::FleetHost(_)
        | Document::FleetRun(_)
        | Document::FleetStatus(_)
        | Document::FleetSummary(_) => return None,
    })
}

fn of_target(views: Vec<View>, subject: &ViewSubject) -> Vec<View> {
    views.into_iter().filter(|view| view.target == subject.target).collect()
}

/// Returns the end of the name of a figure of STREAM whose number of threads was requested: its
/// values are not comparable with those of other numbers.
fn threads(record: &StreamRecord) -> String {
    match record.method.scope {
        StreamScope::Node { threads: Some(threads) } => format!("-{threads}-threads"),
        StreamScope::HardwareThreads => "-hardware-threads".to_owned(),
        StreamScope::Node { threads: None } | StreamScope::Core => String::new(),
    }
}
