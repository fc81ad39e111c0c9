use super::search::*;
use super::*;
use numaio_machine::ids::NodeId;
use numaio_schema::*;

pub struct Rng(pub u64);
impl Rng {
    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub fn dense(n: u32, c: u32, seed: u64, nic: bool) -> PlanProblem {
    let mut r = Rng(seed.wrapping_mul(0x9E3779B97F4A7C15) | 1);
    for _ in 0..10 {
        r.next();
    }
    let ids: Vec<NodeId> = (0..n).map(NodeId).collect();
    let mut ways = |r: &mut Rng| {
        let mut w = vec![];
        for d in &ids {
            for m in &ids {
                let b = (0.5 + 1.5 * r.next()) * 1e9;
                let k = 1.0 + 6.0 * r.next();
                w.push(WayRates {
                    device_node: *d,
                    memory_node: *m,
                    thread_bytes_per_s: b.round(),
                    most_bytes_per_s: (b * k).round(),
                    origin: RateOrigin::Given,
                });
            }
        }
        w
    };
    let sw = ways(&mut r);
    let nw = ways(&mut r);
    PlanProblem {
        schema: PLAN_PROBLEM_SCHEMA.into(),
        direction: Transfer::Send,
        objective: Objective::Time,
        threads_per_node: c,
        no_threads_on: vec![],
        assumptions: vec![],
        machine: None,
        nodes: ids.iter().map(|n| PlanNode { node: *n, threads: None, reserved: 0 }).collect(),
        storage: ids
            .iter()
            .map(|n| PlanStorage {
                device: format!("s{n}"),
                node: *n,
                bytes: (1e12 * (0.2 + r.next())) as u64,
                bytes_per_s: None,
            })
            .collect(),
        nics: ids
            .iter()
            .map(|n| PlanNic {
                device: format!("e{n}"),
                node: *n,
                bytes_per_s: nic.then(|| (4e9 * (0.5 + r.next())).round()),
            })
            .collect(),
        storage_ways: sw,
        network_ways: nw,
        limits: vec![],
    }
}

#[test]
fn trial() {
    let n: u32 = std::env::var("N").ok().and_then(|x| x.parse().ok()).unwrap_or(4);
    let c: u32 = std::env::var("C").ok().and_then(|x| x.parse().ok()).unwrap_or(8);
    for nic in [false, true] {
        for seed in 1..8u64 {
            let p = dense(n, c, seed, nic);
            let i = problem::instance(&p).unwrap();
            let rel = time::TimeRelaxation::new(&i);
            let t = std::time::Instant::now();
            let f = search(
                &i,
                &rel,
                None,
                Effort { until: Some(t + std::time::Duration::from_secs(10)), workers: 2 },
            );
            let v = f.best.as_ref().map(|b| b.0).unwrap_or(f64::NAN);
            eprintln!(
                "nic {nic} seed {seed}: {:?} value {:.6} bound {:.6} gap {:.2e} lps {}",
                t.elapsed(),
                v,
                f.bound,
                v / f.bound - 1.0,
                f.programmes
            );
        }
    }
}

/// A machine as they are: storage on half of the nodes, NICs on a quarter, remote ways slower.
pub fn likely(n: u32, c: u32, seed: u64) -> PlanProblem {
    let mut r = Rng(seed.wrapping_mul(0x9E3779B97F4A7C15) | 1);
    for _ in 0..10 {
        r.next();
    }
    let mut p = dense(n, c, seed, false);
    let speed = [6.25e9, 12.5e9, 25e9, 50e9];
    let keep = |r: &mut Rng, q: f64| {
        let mut k: Vec<bool> = (0..n).map(|_| r.next() < q).collect();
        let f = (r.next() * n as f64) as usize;
        k[f] = true;
        k
    };
    let ks = keep(&mut r, 0.5);
    let kn = keep(&mut r, 0.25);
    p.storage.retain(|s| ks[s.node.0 as usize]);
    p.nics.retain(|s| kn[s.node.0 as usize]);
    for s in &mut p.storage {
        s.bytes_per_s = Some((3e9 + r.next() * 20e9).round());
    }
    for s in &mut p.nics {
        s.bytes_per_s = Some(speed[(r.next() * 4.0) as usize]);
    }
    p.storage_ways.retain(|w| ks[w.device_node.0 as usize]);
    p.network_ways.retain(|w| kn[w.device_node.0 as usize]);
    for w in p.storage_ways.iter_mut().chain(&mut p.network_ways) {
        let local = w.device_node == w.memory_node;
        let f = if local { 1.0 } else { 0.4 + 0.55 * r.next() };
        w.thread_bytes_per_s = (2e9 * f * (0.8 + 0.2 * r.next())).round();
        w.most_bytes_per_s = (w.thread_bytes_per_s * (2.0 + 6.0 * r.next())).round();
    }
    p
}
#[test]
fn likelies() {
    let n: u32 = std::env::var("N").ok().and_then(|x| x.parse().ok()).unwrap_or(4);
    let c: u32 = std::env::var("C").ok().and_then(|x| x.parse().ok()).unwrap_or(8);
    for seed in 1..=16u64 {
        let p = likely(n, c, seed);
        let i = match problem::instance(&p) {
            Ok(i) => i,
            Err(e) => {
                eprintln!("{e}");
                continue;
            }
        };
        let rel = time::TimeRelaxation::new(&i);
        let t = std::time::Instant::now();
        let f =
            search(&i, &rel, None, Effort { until: Some(t + std::time::Duration::from_secs(3)), workers: 2 });
        let v = f.best.as_ref().map(|b| b.0).unwrap_or(f64::NAN);
        eprintln!(
            "seed {seed} {}x{}: {:?} value {:.6} floor {:.6} bound {:.6} gap {:.2e} lps {}",
            i.sources.len(),
            i.sinks.len(),
            t.elapsed(),
            v,
            i.floor,
            f.bound,
            v / f.bound - 1.0,
            f.programmes
        );
    }
}

#[test]
fn whole_plans() {
    for seed in 1..=3u64 {
        let p = likely(4, 8, seed);
        let plan = plan(
            &p,
            &PlanOptions { time_limit: Some(std::time::Duration::from_secs(1)), ..Default::default() },
        )
        .unwrap();
        eprintln!("{}", serde_json::to_string(&plan).unwrap());
    }
}

#[test]
fn sums() {
    let n: u32 = std::env::var("N").ok().and_then(|x| x.parse().ok()).unwrap_or(4);
    let c: u32 = std::env::var("C").ok().and_then(|x| x.parse().ok()).unwrap_or(8);
    for kind in 0..2 {
        for seed in 1..=10u64 {
            let mut p = if kind == 0 { likely(n, c, seed) } else { dense(n, c, seed, false) };
            p.objective = Objective::Sum;
            let t = std::time::Instant::now();
            match plan(
                &p,
                &PlanOptions {
                    time_limit: Some(std::time::Duration::from_secs(3)),
                    workers: 2,
                    ..Default::default()
                },
            ) {
                Ok(plan) => eprintln!(
                    "{kind} seed {seed} {}x{}: {:?} {:?}",
                    p.storage.len(),
                    p.nics.len(),
                    t.elapsed(),
                    plan.proof
                ),
                Err(e) => eprintln!("{kind} seed {seed} {e}"),
            }
        }
    }
}

#[test]
fn both() {
    let n: u32 = std::env::var("N").ok().and_then(|x| x.parse().ok()).unwrap_or(3);
    let c: u32 = std::env::var("C").ok().and_then(|x| x.parse().ok()).unwrap_or(4);
    for kind in 0..4 {
        for seed in 1..=10u64 {
            let mut p = if kind % 2 == 0 { likely(n, c, seed) } else { dense(n, c, seed, seed % 2 == 0) };
            if kind > 1 {
                p.objective = Objective::Sum;
            }
            let o = |m| PlanOptions {
                method: m,
                time_limit: Some(std::time::Duration::from_secs(5)),
                workers: 2,
            };
            let t = std::time::Instant::now();
            let a = super::plan(&p, &o(PlanMethod::Divide));
            let ta = t.elapsed();
            let t = std::time::Instant::now();
            let b = super::plan(&p, &o(PlanMethod::Mixed));
            let tb = t.elapsed();
            match (a, b) {
                (Ok(a), Ok(b)) => {
                    eprintln!(
                        "{kind} seed {seed} {}x{}: {ta:?} {tb:?} {} {} {} {} diff {:.1e}",
                        p.storage.len(),
                        p.nics.len(),
                        a.proof.optimal,
                        b.proof.optimal,
                        a.proof.value_s,
                        b.proof.value_s,
                        b.proof.value_s / a.proof.value_s - 1.0
                    );
                }
                (a, b) => eprintln!("{kind} seed {seed} {:?} {:?}", a.err(), b.err()),
            }
        }
    }
}
#[test]
fn debug() {
    let p = likely(3, 4, 3);
    let i = problem::instance(&p).unwrap();
    let rel = time::TimeRelaxation::new(&i);
    let mut all = ranges::Ranges::all(&i);
    for v in 0..i.vias.len() {
        assert!(all.narrow(v, &i));
    }
    eprintln!("{i:?}\n{all:?}");
    let r = rel.relax(&all, None, f64::INFINITY);
    eprintln!(
        "bound {} cut {:?} cand {:?} v {:?}",
        r.bound,
        r.cut,
        r.candidate,
        r.candidate.as_ref().map(|c| i.value(c))
    );
}
