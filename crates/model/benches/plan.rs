//! Prints how long both methods take until a plan is proven optimal. Nothing here passes or fails.
#![allow(clippy::print_stdout)]

#[path = "../tests/plan/support.rs"]
mod support;

use numaio_model::{plan, PlanOptions};
use numaio_schema::{Objective, PlanMethod, PlanProblem};
use std::time::{Duration, Instant};
use support::{machine, printed, recorded};

/// Time limit, after which a plan is accepted with its proven gap.
const LIMIT: Duration = Duration::from_secs(10);
const THREADS: u32 = 8;

/// A set of similar problems.
struct Family {
    name: String,
    problems: Vec<PlanProblem>,
    /// Whether to run the mixed-integer program too: it needs minutes for the other problems.
    mixed: bool,
}

fn main() {
    println!("| problems | objective | method | number | median ms | most ms | proven | widest gap |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for objective in [Objective::Time, Objective::Sum] {
        for family in families(objective) {
            row(&family, objective, PlanMethod::Divide);
            if family.mixed {
                row(&family, objective, PlanMethod::Mixed);
            }
        }
    }
}

fn families(objective: Objective) -> Vec<Family> {
    let time = objective == Objective::Time;
    let mut families: Vec<Family> = recorded()
        .into_iter()
        .map(|(name, problem)| Family { name: name.to_owned(), problems: vec![problem], mixed: true })
        .collect();
    for nodes in [2, 4, 8, 16] {
        let problems = (0..25).map(|seed| machine(nodes, THREADS, seed)).collect();
        families.push(Family {
            name: format!("random machines, N = {nodes}"),
            problems,
            mixed: (time && nodes < 16) || nodes == 2,
        });
    }
    for nodes in [4, 8, 16] {
        let number = if nodes == 4 { 9 } else { 3 };
        let problems = (0..number).map(|seed| printed(nodes, THREADS, seed)).collect();
        families.push(Family {
            name: format!("threads the only limit, N = {nodes}"),
            problems,
            mixed: false,
        });
    }
    families
}

fn row(family: &Family, objective: Objective, method: PlanMethod) {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = PlanOptions { method, time_limit: Some(LIMIT), workers };
    let (mut times, mut proven, mut gap) = (Vec::new(), 0, 0.0f64);
    for problem in &family.problems {
        let problem = PlanProblem { objective, ..problem.clone() };
        let start = Instant::now();
        match plan(&problem, &options) {
            Ok(plan) => {
                proven += u32::from(plan.proof.optimal);
                gap = if plan.proof.optimal { gap } else { gap.max(plan.proof.gap) };
            }
            Err(error) => println!("{}: {error}", family.name),
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (number, name) = (times.len(), &family.name);
    let (median, most) = (times[number / 2], times[number - 1]);
    let gap = if gap > 0.0 { format!("{:.2} %", gap * 100.0) } else { "none".to_owned() };
    println!(
        "| {name} | {objective:?} | {method:?} | {number} | {median:.2} | {most:.1} | {proven} | {gap} |"
    );
}
