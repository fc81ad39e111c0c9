//! Prints how long planning takes until a plan is proven optimal. Nothing here passes or fails.
#![allow(clippy::print_stdout)]

#[path = "../tests/plan/support.rs"]
mod support;

use numaio_model::{plan, PlanOptions};
use numaio_schema::{Objective, PlanProblem};
use std::time::{Duration, Instant};
use support::{machine, printed, recorded};

/// Time limit, after which a plan is accepted with its proven gap.
const LIMIT: Duration = Duration::from_secs(10);
const THREADS: u32 = 8;

/// A set of similar problems.
struct Family {
    name: String,
    problems: Vec<PlanProblem>,
}

fn main() {
    println!("| problems | objective | number | median ms | most ms | proven | widest gap |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for objective in [Objective::Time, Objective::Sum] {
        for family in families() {
            row(&family, objective);
        }
    }
}

fn families() -> Vec<Family> {
    let mut families: Vec<Family> = recorded()
        .into_iter()
        .map(|(name, problem)| Family { name: name.to_owned(), problems: vec![problem] })
        .collect();
    for nodes in [2, 4, 8, 16] {
        let problems = (0..25).map(|seed| machine(nodes, THREADS, seed)).collect();
        families.push(Family { name: format!("random machines, N = {nodes}"), problems });
    }
    for nodes in [4, 8, 16] {
        let number = if nodes == 4 { 9 } else { 3 };
        let problems = (0..number).map(|seed| printed(nodes, THREADS, seed)).collect();
        families.push(Family { name: format!("threads the only limit, N = {nodes}"), problems });
    }
    families
}

fn row(family: &Family, objective: Objective) {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = PlanOptions { time_limit: Some(LIMIT), workers };
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
    println!("| {name} | {objective:?} | {number} | {median:.2} | {most:.1} | {proven} | {gap} |");
}
