//! Bound and candidates for the least printed sum, Σ(u,v,w) max(βd / (γd Bd0), βn / (γn Bn0)).
//!
//! The problem is tractable because, for one memory node v with its sources U, Y bytes in all:
//!
//! - One network path is enough. Of two, the one with the greater γn Bn0 takes all of Y in at most
//!   the sum of both times, so each max(a, b) grows to at most max(a, b1 + b2), which does not
//!   exceed max(a, b1) + max(a, b2). With h(k) the best rate of k threads to any one NIC, v costs
//!   Σ(u in U) max(β(u) / g(u), Y / h).
//! - Sharing a node never pays: each term is at least β(u) / min(g(u), h), the cost of u alone on
//!   v. So with p sources on v, for any 0 <= a <= 1, v costs at least
//!   Σ β(u) (a / g(u) + (1 - a) p / h), and p sources take at most p whole D(u) between them: a
//!   linear program that accounts for the scarcity of good nodes.

use super::instance::{Assignment, Instance};
use super::ranges::{Cut, Ranges};
use super::search::{Relaxation, Relaxed};
use super::simplex::{End, LinearProgram};

/// Shares of a source's data that are rounding errors.
const NOTHING: f64 = 1e-8;
/// Weights of a path's own time to try in the bound for shared nodes.
const WEIGHTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// Maximum number of sources for trying all divisions of sources among nodes.
const FEW_SOURCES: usize = 8;

/// Data of the bound for an instance.
pub(crate) struct SumRelaxation<'a> {
    instance: &'a Instance,
    /// Best rate of 0, 1, 2... network threads of each via to one NIC, and the path to it.
    sends: Vec<Vec<(f64, usize)>>,
}

/// A via within a range.
struct Open {
    via: usize,
    /// Paths that must be used.
    used: Vec<usize>,
    /// Paths that may be used, including `used`.
    possible: Vec<usize>,
}

/// A program for the least sum and the meaning of its variables.
struct Built {
    program: LinearProgram,
    /// Variable and its path.
    amounts: Vec<(usize, usize)>,
}

impl<'a> SumRelaxation<'a> {
    /// Creates the relaxation of an instance.
    pub fn new(instance: &'a Instance) -> Self {
        let of_via = |via: usize| {
            let best = |threads: u32| {
                let rate = |path: usize| {
                    let own = &instance.paths[path];
                    (own.rate(threads.min(own.most_threads)), path)
                };
                let rates = instance.sends_at(via).map(rate);
                rates.fold((0.0, usize::MAX), |best, one| if one.0 > best.0 { one } else { best })
            };
            (0..=instance.vias[via].1).map(best).collect()
        };
        Self { instance, sends: (0..instance.vias.len()).map(of_via).collect() }
    }

    fn open(&self, via: usize, ranges: &Ranges) -> Open {
        let reads: Vec<usize> = self.instance.reads_at(via).collect();
        let with = |least: fn(&(u32, u32)) -> bool| -> Vec<usize> {
            reads.iter().copied().filter(|path| least(&ranges.paths[*path])).collect()
        };
        Open { via, used: with(|(low, _)| *low > 0), possible: with(|(_, high)| *high > 0) }
    }

    fn data(&self, path: usize) -> f64 {
        self.instance.sources[self.instance.paths[path].end].1
    }

    /// Builds the program of a range. `most` bounds every time in it.
    fn build(&self, ranges: &Ranges, most: f64) -> Built {
        let mut built = Built { program: LinearProgram::default(), amounts: Vec::new() };
        for via in 0..self.instance.vias.len() {
            let open = self.open(via, ranges);
            if open.used.len() == open.possible.len() {
                self.decided(&mut built, &open, ranges, most);
            } else {
                self.undecided(&mut built, &open, ranges);
            }
        }
        for (source, (_, amount)) in self.instance.sources.iter().enumerate() {
            let own = |(_, path): &&(usize, usize)| self.instance.paths[*path].end == source;
            let terms = built.amounts.iter().filter(own).map(|(variable, _)| (*variable, 1.0)).collect();
            built.program.row(terms, true, *amount);
        }
        built
    }

    /// Adds a via with known sources: the exact cost, except for open threads.
    fn decided(&self, built: &mut Built, open: &Open, ranges: &Ranges, most: f64) {
        if open.used.is_empty() {
            return;
        }
        let least: u32 = open.used.iter().map(|path| ranges.paths[*path].0).sum();
        let network = self.instance.vias[open.via].1 - least.max(ranges.split[open.via].0);
        let send = self.sends[open.via][network as usize].0;
        let shared = self.shared_costs(open, ranges, open.used.len());
        let program = &mut built.program;
        let first = built.amounts.len();
        for path in &open.used {
            built.amounts.push((program.variable(0.0, 0.0, (0.0, self.data(*path))), *path));
        }
        let amounts = built.amounts[first..].to_vec();
        let mut floor = Vec::new();
        for (place, (amount, path)) in amounts.iter().enumerate() {
            let time = program.variable(-1.0, 0.0, (0.0, most));
            let read = self.instance.paths[*path].rate(ranges.paths[*path].1);
            program.row(vec![(*amount, 1.0 / read), (time, -1.0)], false, 0.0);
            let mut terms: Vec<(usize, f64)> =
                amounts.iter().map(|(amount, _)| (*amount, 1.0 / send)).collect();
            terms.push((time, -1.0));
            program.row(terms, false, 0.0);
            floor.push((time, -1.0));
            floor.extend(shared.as_ref().map(|costs| (*amount, costs[place])));
        }
        if shared.is_some() && amounts.len() > 1 {
            program.row(floor, false, 0.0);
        }
    }

    /// Adds a via with an unknown number of sources: one part per number.
    fn undecided(&self, built: &mut Built, open: &Open, ranges: &Ranges) {
        let mut room = Vec::new();
        for sharing in open.used.len().max(1)..=open.possible.len() {
            let Some(costs) = self.shared_costs(open, ranges, sharing) else { continue };
            for (path, cost) in open.possible.iter().zip(costs) {
                let data = self.data(*path);
                if cost.is_finite() {
                    let variable = built.program.variable(-cost, -1e-10 * *path as f64, (0.0, data));
                    built.amounts.push((variable, *path));
                    room.push((variable, 1.0 / (sharing as f64 * data)));
                }
            }
        }
        built.program.row(room, false, 1.0);
    }

    /// Returns the least cost per byte of each possible source if `sharing` of them share the via,
    /// or `None` if that is impossible.
    fn shared_costs(&self, open: &Open, ranges: &Ranges, sharing: usize) -> Option<Vec<f64>> {
        let of = |weight: f64| -> Vec<f64> {
            let cost = |path: &usize| self.shared_cost(open, ranges, *path, sharing, weight);
            open.possible.iter().map(cost).collect()
        };
        let all = |costs: &[f64]| -> f64 {
            let finite = open.possible.iter().zip(costs).filter(|(_, cost)| cost.is_finite());
            finite.map(|(path, cost)| cost * self.data(*path)).sum()
        };
        let costs = WEIGHTS.into_iter().map(of).max_by(|a, b| all(a).total_cmp(&all(b)))?;
        costs.iter().any(|cost| cost.is_finite()).then_some(costs)
    }

    fn shared_cost(&self, open: &Open, ranges: &Ranges, path: usize, sharing: usize, weight: f64) -> f64 {
        let (low, high) = ranges.paths[path];
        let threads = self.instance.vias[open.via].1;
        let others = open.used.iter().filter(|other| **other != path);
        let known = others.clone().count() + 1;
        if sharing < known {
            return f64::INFINITY;
        }
        let least = others.map(|other| ranges.paths[*other].0).sum::<u32>() + (sharing - known) as u32;
        let most_network = threads - ranges.split[open.via].0;
        let mut best = f64::INFINITY;
        for own in low.max(1)..=high.min(threads.saturating_sub(least + 1)) {
            let send = self.sends[open.via][(threads - least - own).min(most_network) as usize].0;
            let read = self.instance.paths[path].rate(own);
            let cost = match sharing {
                1 => 1.0 / read.min(send),
                _ => weight / read + (1.0 - weight) * sharing as f64 / send,
            };
            best = if cost < best { cost } else { best };
        }
        best
    }

    /// Returns the best thread counts for given amounts: on each via the best number for its
    /// network paths, the rest greedily to sources, which is exact because gains decrease.
    fn threads_for(&self, amounts: &[f64]) -> Option<Vec<u32>> {
        let mut threads = vec![0; self.instance.paths.len()];
        for via in 0..self.instance.vias.len() {
            let used: Vec<usize> = self.instance.reads_at(via).filter(|path| amounts[*path] > 0.0).collect();
            if !used.is_empty() {
                let (_, network, own) = self.via_threads(via, &used, amounts)?;
                let send = self.sends[via][network as usize].1;
                threads[send] = network.min(self.instance.paths[send].most_threads);
                for (path, own) in used.iter().zip(own) {
                    threads[*path] = own;
                }
            }
        }
        Some(threads)
    }

    /// Returns the least cost of a via, its network threads and those of its sources.
    fn via_threads(&self, via: usize, used: &[usize], amounts: &[f64]) -> Option<(f64, u32, Vec<u32>)> {
        let all = self.instance.vias[via].1;
        let bytes: f64 = used.iter().map(|path| amounts[*path]).sum();
        let mut best: Option<(f64, u32, Vec<u32>)> = None;
        for network in (1..=all.saturating_sub(used.len() as u32)).rev() {
            let send = bytes / self.sends[via][network as usize].0;
            let time = |place: usize, threads: u32| {
                let path = used[place];
                (amounts[path] / self.instance.paths[path].rate(threads)).max(send)
            };
            let mut own = vec![1; used.len()];
            for _ in 0..all - network - used.len() as u32 {
                let gain = |place: &usize| time(*place, own[*place]) - time(*place, own[*place] + 1);
                let more = |place: &usize| own[*place] < self.instance.paths[used[*place]].most_threads;
                let gains = (0..used.len()).filter(more).filter(|place| gain(place) > 0.0);
                let Some(place) = gains.max_by(|a, b| gain(a).total_cmp(&gain(b)).then(b.cmp(a))) else {
                    break;
                };
                own[place] += 1;
            }
            let cost: f64 = own.iter().enumerate().map(|(place, threads)| time(place, *threads)).sum();
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, network, own));
            }
        }
        best
    }

    /// Returns the plan with the best threads for given amounts, with amounts then divided again.
    fn candidate(&self, amounts: &[f64]) -> Option<Assignment> {
        let threads = self.threads_for(amounts)?;
        let mut fixed = Ranges::all(self.instance);
        for (path, range) in fixed.paths.iter_mut().enumerate().take(self.instance.reads) {
            *range = (threads[path], threads[path]);
        }
        let network = |via: usize| self.instance.sends_at(via).map(|path| threads[path]).sum::<u32>();
        for via in 0..self.instance.vias.len() {
            fixed.split[via].0 = self.instance.vias[via].1 - network(via);
        }
        let built = self.build(&fixed, self.most());
        let mut tableau = built.program.start();
        let rates = match tableau.solve(&built.program, f64::NEG_INFINITY) {
            End::Best => self.amounts(&built, &tableau.point()),
            _ => amounts.to_vec(),
        };
        let mut weights = rates;
        for via in 0..self.instance.vias.len() {
            for path in self.instance.sends_at(via) {
                weights[path] = f64::from(threads[path]);
            }
        }
        self.instance.assignment(threads, &weights)
    }

    /// Returns a time that no term of a sensible plan exceeds.
    fn most(&self) -> f64 {
        let slowest = self.instance.paths.iter().map(|path| path.unit).fold(f64::INFINITY, f64::min);
        2.0 / slowest
    }

    fn amounts(&self, built: &Built, point: &[f64]) -> Vec<f64> {
        let mut amounts = vec![0.0; self.instance.paths.len()];
        for (variable, path) in &built.amounts {
            amounts[*path] += point[*variable];
        }
        for (path, amount) in amounts.iter_mut().enumerate().take(self.instance.reads) {
            if *amount < NOTHING * self.data(path) {
                *amount = 0.0;
            }
        }
        amounts
    }

    /// Chooses the branching step: first whether a path is used, then its number of threads.
    fn cut(&self, amounts: &[f64], ranges: &Ranges, candidate: Option<&Assignment>) -> Option<Cut> {
        let share = |path: &usize| amounts[*path] / self.data(*path);
        let reads = 0..self.instance.reads;
        let carries = reads.clone().filter(|path| ranges.paths[*path].0 == 0 && amounts[*path] > 0.0);
        if let Some(path) = carries.max_by(|a, b| share(a).total_cmp(&share(b)).then(b.cmp(a))) {
            return Some(Cut::Way(path, 0));
        }
        let used = |via: usize| self.instance.reads_at(via).any(|path| ranges.paths[path].0 > 0);
        let open = |path: &usize| {
            ranges.paths[*path].0 < ranges.paths[*path].1 && used(self.instance.paths[*path].via)
        };
        // Decide which sources share a via before the number of their threads.
        let undecided = reads.clone().filter(open).find(|path| ranges.paths[*path].0 == 0);
        if let Some(path) = undecided {
            return Some(Cut::Way(path, 0));
        }
        let widest = reads
            .filter(open)
            .max_by_key(|path| (ranges.paths[*path].1 - ranges.paths[*path].0, usize::MAX - path))?;
        let (low, high) = ranges.paths[widest];
        let wanted = candidate.map_or((low + high) / 2, |plan| plan.threads[widest]);
        Some(Cut::Way(widest, wanted.clamp(low, high - 1)))
    }

    /// Returns the best plan in which every source uses a single node, over all assignments.
    pub fn undivided(&self) -> Option<Assignment> {
        let sources = self.instance.sources.len();
        if sources > FEW_SOURCES {
            return None;
        }
        let all = 1usize << sources;
        // Least cost of each set of sources on the nodes so far, and the set of the last node.
        let mut least = vec![f64::INFINITY; all];
        least[0] = 0.0;
        let mut chosen: Vec<Vec<usize>> = Vec::new();
        for via in 0..self.instance.vias.len() {
            let costs: Vec<f64> = (0..all).map(|set| self.set_cost(via, set)).collect();
            let mut next = least.clone();
            let mut choice = vec![0; all];
            for set in 1..all {
                let mut part = set;
                while part > 0 {
                    let cost = least[set ^ part] + costs[part];
                    if cost < next[set] {
                        next[set] = cost;
                        choice[set] = part;
                    }
                    part = (part - 1) & set;
                }
            }
            least = next;
            chosen.push(choice);
        }
        let mut amounts = vec![0.0; self.instance.paths.len()];
        let mut set = all - 1;
        for (via, choice) in chosen.iter().enumerate().rev() {
            for path in self.set_paths(via, choice[set])? {
                amounts[path] = self.data(path);
            }
            set ^= choice[set];
        }
        (set == 0).then(|| self.candidate(&amounts)).flatten()
    }

    fn set_paths(&self, via: usize, set: usize) -> Option<Vec<usize>> {
        let in_set = |path: &usize| set & (1 << self.instance.paths[*path].end) != 0;
        let paths: Vec<usize> = self.instance.reads_at(via).filter(in_set).collect();
        (paths.len() == set.count_ones() as usize).then_some(paths)
    }

    fn set_cost(&self, via: usize, set: usize) -> f64 {
        let cost = self.set_paths(via, set).and_then(|paths| {
            let mut amounts = vec![0.0; self.instance.paths.len()];
            paths.iter().for_each(|path| amounts[*path] = self.data(*path));
            self.via_threads(via, &paths, &amounts)
        });
        cost.map_or(f64::INFINITY, |(cost, ..)| cost)
    }
}

impl Relaxation for SumRelaxation<'_> {
    type Warm = ();

    fn relax(&self, ranges: &Ranges, _: Option<&()>, incumbent: f64) -> Relaxed<()> {
        let built = self.build(ranges, self.most().min(incumbent));
        let mut tableau = built.program.start();
        let end = tableau.solve(&built.program, -incumbent);
        let bound = match end {
            End::Empty => f64::INFINITY,
            _ => -built.program.bound(&tableau),
        };
        if bound >= incumbent {
            return Relaxed { bound, candidate: None, cut: None, warm: () };
        }
        let amounts = self.amounts(&built, &tableau.point());
        let candidate = if end == End::Best { self.candidate(&amounts) } else { None };
        let cut = self.cut(&amounts, ranges, candidate.as_ref());
        Relaxed { bound, candidate, cut, warm: () }
    }
}
