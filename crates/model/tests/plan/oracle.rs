//! Comparison of plans with every choice of thread counts of small problems. The oracle shares no
//! code with the planner: for the time it computes a minimum cut (Ford and Fulkerson), for the
//! printed sum it solves a linear program of microlp per choice.

use crate::support::{small, table, Random, UNIT};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use numaio_model::{plan, PlanError, PlanOptions};
use numaio_schema::{Objective, PlanProblem};

/// Bandwidths of pairs of nodes, (B0, Bmax), 0 without a path.
struct Tables {
    threads: Vec<u32>,
    data: Vec<f64>,
    nics: Vec<f64>,
    reads: Vec<Vec<(f64, f64)>>,
    sends: Vec<Vec<(f64, f64)>>,
}

fn tables(problem: &PlanProblem) -> Tables {
    let nodes = problem.nodes.len();
    let mut found = Tables {
        threads: problem.nodes.iter().map(|node| node.threads.unwrap_or(problem.threads_per_node)).collect(),
        data: vec![0.0; nodes],
        nics: vec![0.0; nodes],
        reads: vec![vec![(0.0, 0.0); nodes]; nodes],
        sends: vec![vec![(0.0, 0.0); nodes]; nodes],
    };
    for storage in &problem.storage {
        found.data[storage.node.0 as usize] += storage.bytes as f64 / UNIT;
    }
    for nic in &problem.nics {
        found.nics[nic.node.0 as usize] += nic.bytes_per_s.unwrap_or(f64::INFINITY) / UNIT;
    }
    for (ways, table) in
        [(&problem.storage_paths, &mut found.reads), (&problem.network_paths, &mut found.sends)]
    {
        for way in ways {
            let place = &mut table[way.device_node.0 as usize][way.memory_node.0 as usize];
            *place = (way.thread_bytes_per_s / UNIT, way.max_bytes_per_s / UNIT);
        }
    }
    found
}

/// Returns all assignments of up to `threads` threads to some paths.
fn choices(ways: usize, threads: u32) -> Vec<Vec<u32>> {
    if ways == 0 {
        return vec![Vec::new()];
    }
    let with = |first: u32| {
        choices(ways - 1, threads - first).into_iter().map(move |mut rest| {
            rest.insert(0, first);
            rest
        })
    };
    (0..=threads).flat_map(with).collect()
}

/// Calls `each` with each choice of threads: `[node][path]`, first the paths from each storage
/// node, then those to each NIC.
fn every_choice(tables: &Tables, mut each: impl FnMut(&[Vec<u32>])) {
    let nodes = tables.threads.len();
    let of_node: Vec<Vec<Vec<u32>>> = tables
        .threads
        .iter()
        .map(|threads| choices(2 * nodes, *threads))
        .map(|all| prune(all, tables))
        .collect();
    let mut place = vec![0; nodes];
    loop {
        let chosen: Vec<Vec<u32>> =
            place.iter().zip(&of_node).map(|(place, all)| all[*place].clone()).collect();
        each(&chosen);
        let Some(node) = (0..nodes).find(|node| place[*node] + 1 < of_node[*node].len()) else { break };
        place[node] += 1;
        place[..node].fill(0);
    }
}

/// Removes choices with threads for storage without data or nodes without NIC.
fn prune(all: Vec<Vec<u32>>, tables: &Tables) -> Vec<Vec<u32>> {
    let nodes = tables.data.len();
    let useful = |choice: &Vec<u32>| {
        (0..nodes).all(|end| {
            (choice[end] == 0 || tables.data[end] > 0.0)
                && (choice[nodes + end] == 0 || tables.nics[end] > 0.0)
        })
    };
    all.into_iter().filter(useful).collect()
}

/// Returns the least time: the minimum cut over all choices.
fn least_time(tables: &Tables) -> f64 {
    let nodes = tables.threads.len();
    let rate = |(one, most): (f64, f64), threads: u32| (one * f64::from(threads)).min(most);
    let mut best = f64::INFINITY;
    every_choice(tables, |chosen| {
        let read = |u: usize, v: usize| rate(tables.reads[u][v], chosen[v][u]);
        let send = |v: usize, w: usize| rate(tables.sends[w][v], chosen[v][nodes + w]);
        let mut slowest: f64 = 0.0;
        for sources in 1..1usize << nodes {
            let of_set = |u: &usize| sources & (1 << u) != 0;
            let data: f64 = (0..nodes).filter(of_set).map(|u| tables.data[u]).sum();
            // Memory nodes on the far side of the cut: their incoming paths are cut, and the
            // outgoing paths of the others.
            let cut = |far: usize| -> f64 {
                let is_far = |v: &usize| far & (1 << v) != 0;
                let comes: f64 = (0..nodes)
                    .filter(is_far)
                    .flat_map(|v| (0..nodes).filter(of_set).map(move |u| (u, v)))
                    .map(|(u, v)| read(u, v))
                    .sum();
                let goes = |w: usize| (0..nodes).filter(|v| !is_far(v)).map(|v| send(v, w)).sum::<f64>();
                comes + (0..nodes).map(|w| goes(w).min(tables.nics[w])).sum::<f64>()
            };
            let least = (0..1usize << nodes).map(cut).fold(f64::INFINITY, f64::min);
            if data > 0.0 {
                slowest = slowest.max(data / least);
            }
        }
        best = best.min(slowest);
    });
    best
}

/// Returns the least printed sum over all choices: every path with threads counts as used.
fn least_sum(tables: &Tables) -> f64 {
    let mut best = f64::INFINITY;
    every_choice(tables, |chosen| {
        if let Some(sum) = sum_of(tables, chosen) {
            best = best.min(sum);
        }
    });
    best
}

fn sum_of(tables: &Tables, chosen: &[Vec<u32>]) -> Option<f64> {
    let nodes = tables.threads.len();
    // As printed, threads add B0 each, up to ⌈Bmax / B0⌉ of them.
    let rate = |(one, most): (f64, f64), threads: u32| one * f64::from(threads).min((most / one).ceil());
    let mut programme = Problem::new(OptimizationDirection::Minimize);
    let mut read: Vec<Vec<Option<(Variable, f64)>>> = vec![vec![None; nodes]; nodes];
    let mut send = read.clone();
    for v in 0..nodes {
        for end in 0..nodes {
            let mut way = |threads: u32, rates: (f64, f64)| {
                let used = threads > 0 && rates.0 > 0.0;
                used.then(|| (programme.add_var(0.0, (0.0, f64::INFINITY)), rate(rates, threads)))
            };
            read[v][end] = way(chosen[v][end], tables.reads[end][v]);
            send[v][end] = way(chosen[v][nodes + end], tables.sends[end][v]);
        }
    }
    for (u, data) in tables.data.iter().enumerate() {
        let terms: Vec<(Variable, f64)> =
            read.iter().filter_map(|of_node| of_node[u]).map(|(way, _)| (way, 1.0)).collect();
        if terms.is_empty() && *data > 0.0 {
            return None;
        }
        programme.add_constraint(terms, ComparisonOp::Eq, *data);
    }
    for v in 0..nodes {
        let comes = read[v].iter().flatten().map(|(way, _)| (*way, 1.0));
        let goes = send[v].iter().flatten().map(|(way, _)| (*way, -1.0));
        let terms: Vec<(Variable, f64)> = comes.chain(goes).collect();
        programme.add_constraint(terms, ComparisonOp::Eq, 0.0);
        for (comes, comes_rate) in read[v].iter().flatten() {
            for (goes, goes_rate) in send[v].iter().flatten() {
                let pair = programme.add_var(1.0, (0.0, f64::INFINITY));
                programme.add_constraint([(*comes, 1.0 / comes_rate), (pair, -1.0)], ComparisonOp::Le, 0.0);
                programme.add_constraint([(*goes, 1.0 / goes_rate), (pair, -1.0)], ComparisonOp::Le, 0.0);
            }
        }
    }
    let solution = programme.solve().ok()?.into_solution().ok()?;
    Some(solution.objective())
}

fn value(problem: &PlanProblem) -> Result<f64, PlanError> {
    let plan = plan(problem, &PlanOptions::default())?;
    assert!(plan.proof.gap <= 2e-6, "{:?}", plan.proof);
    Ok(plan.proof.value_s)
}

/// Compares the planner with the oracle; returns whether there was a plan.
fn hold(problem: &PlanProblem) -> bool {
    let tables = tables(problem);
    let least = match problem.objective {
        Objective::Time => least_time(&tables),
        Objective::Sum => least_sum(&tables),
    };
    match value(problem) {
        Ok(value) => assert!((value / least - 1.0).abs() < 1e-5, "{value}, oracle {least}: {problem:?}"),
        Err(error) => assert!(least.is_infinite(), "{error}, oracle {least}: {problem:?}"),
    }
    least.is_finite()
}

/// Two nodes, three threads each, all bandwidths of one thread from a grid of two: every such
/// problem.
fn grid(place: usize, data: [f64; 2], most: f64) -> PlanProblem {
    let rate = |bit: usize| {
        let one = if place & (1 << bit) == 0 { 1.0 } else { 2.0 };
        (one, one * most)
    };
    let reads = [vec![rate(0), rate(1)], vec![rate(2), rate(3)]];
    let sends = [vec![rate(4), rate(5)], vec![rate(6), rate(7)]];
    table(&[3, 3], &data, &[f64::INFINITY, f64::INFINITY], &reads, &sends)
}

#[test]
fn finds_the_least_time_of_every_problem_of_two_nodes() {
    for place in 0..256 {
        assert!(hold(&grid(place, [1.0, 1.0], 1.5)));
        assert!(hold(&grid(place, [1.0, 4.0], 3.0)));
    }
}

#[test]
fn finds_the_least_sum_of_problems_of_two_nodes() {
    for place in (0..256).step_by(7) {
        let mut problem = grid(place, [1.0, 4.0], 3.0);
        problem.objective = Objective::Sum;
        assert!(hold(&problem));
    }
}

#[test]
fn finds_the_least_time_of_problems_of_up_to_three_nodes() {
    let mut planned = 0;
    for seed in 0..40 {
        planned += u32::from(hold(&small(2, 3, seed)));
    }
    for seed in 0..12 {
        planned += u32::from(hold(&small(3, 3, seed)));
    }
    assert!(planned > 30, "only {planned} problems had a plan");
}

/// Three nodes with few paths each, as every choice needs a linear program here.
#[test]
fn finds_the_least_sum_of_problems_of_three_nodes() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut row = |_| -> Vec<(f64, f64)> { (0..3).map(|_| (random.of(&[1.0, 2.0, 3.0]), 6.0)).collect() };
        let reads: Vec<Vec<(f64, f64)>> = (0..3).map(&mut row).collect();
        let sends: Vec<Vec<(f64, f64)>> = (0..3).map(&mut row).collect();
        // Only two nodes may carry data, so that three sources must share them.
        let mut problem = table(&[3, 3, 0], &[2.0, 3.0, 1.0], &[9.0, 0.0, 0.0], &reads, &sends);
        if seed % 2 == 0 {
            problem.nodes[2].threads = Some(3);
            problem.storage[1].bytes = 0;
        }
        problem.objective = Objective::Sum;
        assert!(hold(&problem));
    }
}
