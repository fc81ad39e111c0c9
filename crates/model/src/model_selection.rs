//! Which of several models of a machine counts.

use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model};
use std::cmp::Reverse;

/// The model that counts for a target and some directions: of those that tell of at least one of them the newest without
/// a missing node there; where each lacks some, as what was interrupted does, the newest.
pub fn select_model<'m>(
    models: impl IntoIterator<Item = &'m Model>,
    target: NodeId,
    wanted: &[Direction],
) -> Option<&'m Model> {
    let asked = |direction: &&DirectionModel| wanted.contains(&direction.direction);
    let rank = |model: &&Model| {
        let lacks = of_target(model, target).filter(asked).any(|direction| !direction.missing.is_empty());
        (lacks, Reverse(model.record.provenance.measured_at))
    };
    models.into_iter().filter(|model| of_target(model, target).any(|one| asked(&one))).min_by_key(rank)
}

/// The directions that a model has of a target.
pub(crate) fn of_target(model: &Model, target: NodeId) -> impl Iterator<Item = &DirectionModel> {
    let targets = model.targets.iter().filter(move |model| model.target == target);
    targets.flat_map(|model| &model.directions)
}

/// Nodes that a model has no figure of, in words: `node 3`, `nodes 2-6`.
pub fn format_nodes(nodes: &NodeSet) -> String {
    match nodes.len() {
        1 => format!("node {nodes}"),
        _ => format!("nodes {nodes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::{interrupted, paper};
    use Direction::{Read, Write};

    /// The paper's model, of a time.
    fn at(measured_at: u64, mut model: Model) -> Model {
        model.record.provenance.measured_at = measured_at;
        model
    }

    fn counts(models: &[Model], wanted: &[Direction]) -> Option<u64> {
        let found = select_model(models, NodeId(7), wanted);
        found.map(|model| model.record.provenance.measured_at)
    }

    #[test]
    fn what_lacks_nodes_counts_only_where_nothing_is_whole() {
        let (both, whole) = ([Write, Read], paper());
        let models = [at(3, interrupted()), at(2, whole.clone()), at(1, whole.clone())];
        assert_eq!(counts(&models, &both), Some(2));
        assert_eq!(counts(&[at(5, interrupted()), at(9, interrupted())], &both), Some(9));
        // It lacks nothing in the direction that it has.
        let mut write = at(8, whole);
        write.targets[0].directions.truncate(1);
        assert_eq!(counts(&[models[1].clone(), write.clone()], &both), Some(8));
        assert_eq!(counts(&[models[1].clone(), write.clone()], &[Read]), Some(2));
        assert_eq!(counts(&[write], &[Read]), None);
        assert!(select_model(&models, NodeId(0), &both).is_none());
    }
}
