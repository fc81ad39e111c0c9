//! Verification detects changes of a plan.

use crate::support::{machine, printed, small};
use numaio_model::{check_plan, plan, PlanOptions};
use numaio_schema::{Objective, Plan, PlanProblem};
use proptest::prelude::*;
use serde_json::Value;

fn planned(problem: &PlanProblem) -> Option<Plan> {
    plan(problem, &PlanOptions::default()).ok()
}

/// Collects every nonzero number of a part of a document.
fn numbers<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    match value {
        Value::Number(number) if number.as_f64() != Some(0.0) => found.push(value),
        Value::Array(values) => values.iter_mut().for_each(|value| numbers(value, found)),
        Value::Object(fields) => fields.values_mut().for_each(|value| numbers(value, found)),
        _ => {}
    }
}

#[test]
fn plans_pass_verification_after_a_round_trip() {
    for seed in 0..40 {
        for mut problem in [machine(3, 6, seed), small(2, 4, seed), printed(2, 5, seed)] {
            problem.objective = if seed % 2 == 0 { Objective::Time } else { Objective::Sum };
            let Some(plan) = planned(&problem) else { continue };
            check_plan(&plan).unwrap_or_else(|error| panic!("{error}: {plan:?}"));
            let text = serde_json::to_string(&plan).expect("JSON");
            let again = Plan::from_json(&text).expect("a plan");
            check_plan(&again).unwrap_or_else(|error| panic!("{error}: {plan:?}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any value of its paths, prediction or proof, except the number of programs, which cannot be
    /// verified.
    #[test]
    fn a_changed_figure_is_found(seed in 0u64..50, place: prop::sample::Index, part in 0usize..4, factor in prop_oneof![1.001f64..10.0, 0.0f64..0.999]) {
        let plan = planned(&machine(3, 6, seed)).expect("a plan");
        let mut document = serde_json::to_value(&plan).expect("JSON");
        document["proof"]["linear_programs"] = Value::from(0);
        let part = ["storage_paths", "network_paths", "predicted", "proof"][part];
        let mut found = Vec::new();
        numbers(&mut document[part], &mut found);
        let number = place.index(found.len());
        let before = found[number].clone();
        let whole = before.is_u64();
        *found[number] = match before.as_u64() {
            Some(count) => Value::from((count as f64 * factor).round() as u64),
            None => Value::from(before.as_f64().expect("a number") * factor),
        };
        prop_assume!(*found[number] != before && !(whole && found[number].as_u64() > Some(u64::from(u32::MAX))));
        if let Ok(changed) = serde_json::from_value::<Plan>(document) {
            prop_assert!(check_plan(&changed).is_err(), "{part}, number {number}: {before} by {factor} goes unseen");
        }
    }
}

type Change = fn(&mut Plan);

#[test]
fn errors_name_the_contradiction() {
    let good = planned(&machine(2, 6, 3)).expect("a plan");
    let message = |change: Change| {
        let mut plan = good.clone();
        change(&mut plan);
        check_plan(&plan).expect_err("it was changed").to_string()
    };
    let cases: [(&str, Change); 8] = [
        ("is used twice", |plan| plan.storage_paths.push(plan.storage_paths[0].clone())),
        ("threads, expected", |plan| plan.network_paths[0].threads = 5000),
        ("storage nodes have bytes", |plan| plan.storage_paths[0].bytes += 1),
        ("the time in seconds is stated as", |plan| plan.predicted.time_s *= 0.5),
        ("invalid bound", |plan| plan.proof.bound_s *= 2.0),
        ("the gap is stated as", |plan| plan.proof.gap = 0.5),
        ("missing stage", |plan| plan.predicted.stages.truncate(1)),
        ("bandwidth of one thread", |plan| plan.problem.storage_paths[0].thread_bytes_per_s = f64::NAN),
    ];
    for (words, change) in cases {
        let message = message(change);
        assert!(message.contains(words), "{message:?} lacks {words:?}");
    }
}
