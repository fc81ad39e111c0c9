//! Changes of a host between two measurements.

use crate::fleet::figures;
use numaio_machine::set::NodeSet;
use numaio_schema::{ClassChange, DirectionModel, Document, FigureChange, FigureKey, Model};
use std::collections::HashMap;

/// Changes between two documents of one kind and host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentChanges {
    /// Changed classes of a copy model.
    pub classes: Vec<ClassChange>,
    /// Changed figures, worst first.
    pub figures: Vec<FigureChange>,
    /// Number of figures that both documents contain.
    pub compared: u32,
}

/// Compares an earlier document with a later one. A figure changed if the 95 % intervals of its
/// values do not overlap.
pub fn document_changes(before: &Document, after: &Document) -> DocumentChanges {
    let earlier: HashMap<FigureKey, (f64, (f64, f64))> =
        figures(before).into_iter().map(|(key, _, value, interval)| (key, (value, interval))).collect();
    let mut changes = DocumentChanges::default();
    for (key, _, value, interval) in figures(after) {
        let Some((old, old_interval)) = earlier.get(&key) else { continue };
        changes.compared += 1;
        if interval.0 > old_interval.1 || interval.1 < old_interval.0 {
            changes.figures.push(FigureChange {
                key,
                before: *old,
                before_interval: *old_interval,
                after: value,
                after_interval: interval,
            });
        }
    }
    changes.figures.sort_by(|a, b| a.gain().total_cmp(&b.gain()));
    if let (Document::Model(before), Document::Model(after)) = (before, after) {
        changes.classes = class_changes(before, after);
    }
    changes
}

/// Returns the targets and directions whose classes have other nodes. Models of other rules or
/// levels are not comparable.
fn class_changes(before: &Model, after: &Model) -> Vec<ClassChange> {
    let mut changes = Vec::new();
    for target in &after.targets {
        let Some(earlier) = before.targets.iter().find(|other| other.target == target.target) else {
            continue;
        };
        for direction in &target.directions {
            let is_like = |other: &&DirectionModel| {
                other.direction == direction.direction
                    && other.rule == direction.rule
                    && other.level == direction.level
            };
            let Some(old) = earlier.directions.iter().find(is_like) else { continue };
            let (before, after) = (nodes(old), nodes(direction));
            if before != after {
                changes.push(ClassChange {
                    target: target.target,
                    direction: direction.direction,
                    before,
                    after,
                });
            }
        }
    }
    changes
}

fn nodes(direction: &DirectionModel) -> Vec<NodeSet> {
    direction.classes.iter().map(|class| class.nodes.clone()).collect()
}
