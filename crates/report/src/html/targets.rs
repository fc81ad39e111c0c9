//! Order, devices, nodes and scale of targets.

use super::page::HtmlPage;
use crate::listing::class_members;
use crate::number_format::{greatest, NumberFormat};
use crate::phrases::{self};
use numaio_machine::devices::PciAddress;
use numaio_machine::ids::NodeId;
use numaio_schema::{Class, DirectionModel, Model, TargetModel};

/// Lists the nodes of a class: the target first, or ranges if there are many.
pub(super) fn nodes_of(class: &Class, target: NodeId) -> String {
    const MANY: usize = 12;
    if class.nodes.len() > MANY {
        class.nodes.to_string()
    } else {
        class_members(class, target)
    }
}

/// Lists a target's devices: names first, then PCI functions without a name.
pub(super) fn devices(target: &TargetModel) -> String {
    const MOST: usize = 6;
    let mut names: Vec<&String> = target.devices.iter().collect();
    names.sort_by_key(|name| name.parse::<PciAddress>().is_ok());
    let more = names.len().saturating_sub(MOST);
    let names = phrases::joined(names.into_iter().take(MOST).map(|name| phrases::short(name)), ", ");
    match (names.is_empty(), more) {
        (true, _) => "no devices".to_owned(),
        (_, 0) => names,
        (_, more) => format!("{names} and {more} more"),
    }
}

pub(super) fn scale_of<'m>(
    page: &HtmlPage,
    models: impl IntoIterator<Item = &'m DirectionModel>,
) -> NumberFormat {
    let nodes = models.into_iter().flat_map(|model| &model.nodes);
    NumberFormat::bandwidth(page.unit, nodes.map(|node| node.bytes_copied_per_s))
}

/// Sorts targets with devices first, since I/O depends on them.
pub(super) fn targets_by_relevance(model: &Model) -> Vec<&TargetModel> {
    let mut targets: Vec<&TargetModel> = model.targets.iter().collect();
    targets.sort_by_key(|target| (target.devices.is_empty(), target.target));
    targets
}

/// Returns the mean of the worst class divided by that of the best; `None` without classes.
pub(super) fn worst_to_best_ratio(model: &DirectionModel) -> Option<f64> {
    let means = || model.classes.iter().map(|class| class.mean_bytes_copied_per_s);
    let (least, most) = (means().fold(f64::INFINITY, f64::min), greatest(means()));
    Some(least / most).filter(|share| share.is_finite())
}
