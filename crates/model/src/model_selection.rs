//! Selection among several models of a machine.

use numaio_machine::ids::NodeId;
use numaio_machine::workload::Direction;
use numaio_schema::{DirectionModel, Model};
use std::cmp::Reverse;

/// Selects the model for a target and some directions: the newest that contains one of the
/// directions without missing nodes. If all lack nodes, as interrupted ones do, the newest. A model
/// measured under a CPU quota or under load is never selected.
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
    let models = models.into_iter().filter(|model| model.record.provenance.is_fit_for_placement());
    models.filter(|model| of_target(model, target).any(|one| asked(&one))).min_by_key(rank)
}

/// Returns the directions of a target in a model.
pub(crate) fn of_target(model: &Model, target: NodeId) -> impl Iterator<Item = &DirectionModel> {
    let targets = model.targets.iter().filter(move |model| model.target == target);
    targets.flat_map(|model| &model.directions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::{interrupted, paper};
    use numaio_schema::{Warning, THROTTLED};
    use Direction::{Read, Write};

    /// The paper's model with a time stamp.
    fn at(measured_at: u64, mut model: Model) -> Model {
        model.record.provenance.measured_at = measured_at;
        model
    }

    fn counts(models: &[Model], wanted: &[Direction]) -> Option<u64> {
        let found = select_model(models, NodeId(7), wanted);
        found.map(|model| model.record.provenance.measured_at)
    }

    #[test]
    fn incomplete_model_is_selected_only_without_a_complete_one() {
        let (both, whole) = ([Write, Read], paper());
        let models = [at(3, interrupted()), at(2, whole.clone()), at(1, whole.clone())];
        assert_eq!(counts(&models, &both), Some(2));
        assert_eq!(counts(&[at(5, interrupted()), at(9, interrupted())], &both), Some(9));
        // Complete in its only direction.
        let mut write = at(8, whole);
        write.targets[0].directions.truncate(1);
        assert_eq!(counts(&[models[1].clone(), write.clone()], &both), Some(8));
        assert_eq!(counts(&[models[1].clone(), write.clone()], &[Read]), Some(2));
        assert_eq!(counts(&[write], &[Read]), None);
        assert!(select_model(&models, NodeId(0), &both).is_none());
    }

    #[test]
    fn throttled_model_is_never_selected() {
        let both = [Write, Read];
        let mut throttled = at(3, paper());
        let warning = Warning { rule: THROTTLED.to_owned(), message: String::new() };
        throttled.record.provenance.warnings.push(warning);
        assert_eq!(counts(&[throttled.clone(), at(2, interrupted())], &both), Some(2));
        assert_eq!(counts(&[throttled], &both), None);
    }
}
