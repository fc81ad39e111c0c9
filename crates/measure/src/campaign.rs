//! A campaign: rounds of visits to all cells until each cell's bandwidth is known well enough.

use crate::cells::{Place, Target};
use crate::options::{CampaignError, Options};
use crate::order::Order;
use crate::trial::{self, Trial};
use crate::warnings;
use numaio_machine::conditions::{self, Conditions};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{CopyOutcome, Probe, ProbeError, ProbeExt};
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyWorkload, Pages, Sampling};
use numaio_schema::{
    median, Cell, MachineSource, Method, PooledNoise, Provenance, Record, Summary, Visit, Warning,
    RECORD_SCHEMA,
};

/// Length of a visit's window in milliseconds: one sweep over the buffers, within these bounds.
const WINDOW_MS: std::ops::RangeInclusive<u32> = 80..=400;
/// Samples in a window.
const SLICES: u32 = 5;
/// Visits after which a cell that never settles is left as it is.
const MOST_VISITS: usize = 60;
/// Share of misplaced pages from which a visit did not measure its flow.
const MISPLACED: f64 = 0.01;
/// Visits with misplaced pages after which a cell is given up.
const MOST_SET_ASIDE: usize = 3;
/// Relative distance from the cells at the same SLIT distance from which a cell is looked at again.
const OUT_OF_PATTERN: f64 = 0.20;
/// Visits of such a second look.
const SECOND_LOOK: usize = 3;

/// The machine and the world around a campaign.
pub struct Setting<'a> {
    /// To see the machine's conditions.
    pub root: &'a dyn Sysfs,
    /// To run workloads.
    pub probe: &'a dyn Probe,
    /// The machine as seen.
    pub topology: &'a Topology,
    /// Where the machine comes from.
    pub source: MachineSource,
    /// Seconds since 1970, for the record.
    pub now: u64,
    /// Whether to stop, as after Ctrl-C.
    pub stop: &'a dyn Fn() -> bool,
}

/// What happens in a campaign, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The copy loop is chosen.
    LoopChosen(numaio_machine::workload::CopyLoop),
    /// A cell was visited.
    Visited {
        /// The round, from 1.
        round: u32,
        /// Cells that need no further visit.
        settled: usize,
        /// All cells.
        cells: usize,
        /// Time spent on the machine, in seconds.
        elapsed_s: f64,
        /// Estimate of the time left, in seconds.
        remaining_s: f64,
    },
}

/// Measures every target; cells that cannot be measured say why.
///
/// # Errors
/// [`CampaignError`] if not one cell has a figure. An interrupt is no error: what was measured until then
/// is in the record, which is marked incomplete.
pub fn run(
    setting: &Setting,
    options: &Options,
    tell: &mut dyn FnMut(&Event),
) -> Result<Record, CampaignError> {
    let (targets, mut warnings) = prepare(setting.topology, options)?;
    let before = conditions::read(setting.root);
    let trial = choose_loop(setting, options, &targets).map_err(CampaignError::Nothing)?;
    tell(&Event::LoopChosen(trial.copy_loop));
    let mut campaign = Campaign::new(setting, options, &targets, &trial);
    campaign.run(tell);
    let cells: Vec<Cell> = campaign.states.iter().map(|state| state.cell(options)).collect();
    if cells.iter().all(|cell| cell.bytes_copied_per_s.is_none()) {
        let failure = campaign.states.iter().find_map(State::failure).filter(|_| !campaign.interrupted);
        return Err(CampaignError::Nothing(failure.unwrap_or(ProbeError::Interrupted)));
    }
    let after = conditions::read(setting.root);
    let nodes = setting.topology.memory_nodes().len();
    warnings.extend(warnings::of_conditions(&before, &after, nodes));
    let wants_huge = options.pages == Pages::Transparent;
    warnings.extend(warnings::of_cells(&cells, campaign.time_is_up(), wants_huge));
    let complete =
        !campaign.interrupted && warnings_allow(&warnings) && cells.iter().all(|cell| cell.settled);
    Ok(record(setting, campaign.method(&targets, &trial), (before, after), cells, warnings, complete))
}

/// Tries copy loops on the first node that can be a target, whichever targets are asked for, so that a tape of
/// all targets holds the trial of each of them; and where that node cannot be measured, on the targets.
fn choose_loop(setting: &Setting, options: &Options, targets: &[Target]) -> Result<Trial, ProbeError> {
    let topology = setting.topology;
    let first = topology.cpu_nodes().iter().find_map(|node| Target::new(topology, node, options).ok());
    let first = first.filter(|first| !targets.contains(first));
    let mut failure = None;
    for place in first.iter().chain(targets) {
        match trial::run(setting.probe, topology, place, options) {
            Err(error) if error != ProbeError::Interrupted => failure = failure.or(Some(error)),
            result => return result,
        }
    }
    Err(failure.unwrap_or(ProbeError::Interrupted))
}

/// A target that was asked for and could not be measured leaves the record incomplete.
fn warnings_allow(warnings: &[Warning]) -> bool {
    warnings.iter().all(|warning| warning.rule != "target-left-out")
}

fn record(
    setting: &Setting,
    method: Method,
    conditions: (Conditions, Conditions),
    cells: Vec<Cell>,
    warnings: Vec<Warning>,
    complete: bool,
) -> Record {
    let provenance = Provenance {
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        measured_at: setting.now,
        machine: setting.topology.identity.clone(),
        source: setting.source.clone(),
        conditions,
        warnings,
        complete,
    };
    Record { schema: RECORD_SCHEMA.to_owned(), provenance, method, cells }
}

/// Targets that can be measured; of the others a warning each, unless there are only others.
fn prepare(topology: &Topology, options: &Options) -> Result<(Vec<Target>, Vec<Warning>), CampaignError> {
    let mut targets = Vec::new();
    let mut warnings = Vec::new();
    let mut first_error = None;
    for node in options.targets.iter() {
        match Target::new(topology, node, options) {
            Ok(target) => {
                if target.cache_assumed {
                    let what = format!("the caches of node {node} are unknown; 32 MiB are assumed");
                    warnings.push(Warning { rule: "caches-assumed".into(), what });
                }
                targets.push(target);
            }
            Err(error) => {
                let what = format!("node {node} is left out: {error}");
                warnings.push(Warning { rule: "target-left-out".into(), what });
                first_error.get_or_insert(error);
            }
        }
    }
    if targets.is_empty() {
        return Err(first_error.unwrap_or(CampaignError::NoTarget));
    }
    Ok((targets, warnings))
}

/// One cell while it is measured.
struct State {
    place: Place,
    workload: CopyWorkload,
    visits: Vec<Visit>,
    /// What the summary is over: medians of the visits, or with fixed repetitions each of them.
    values: Vec<f64>,
    summary: Option<Summary>,
    failure: Option<ProbeError>,
    /// Nothing more is to be had: failed for good, or the tape has no more.
    ended: bool,
    settled: bool,
    /// Visits still owed although settled: a second look.
    owed: usize,
    looked_twice: bool,
}

impl State {
    fn new(place: Place, workload: CopyWorkload) -> Self {
        Self {
            place,
            workload,
            visits: Vec::new(),
            values: Vec::new(),
            summary: None,
            failure: None,
            ended: false,
            settled: false,
            owed: 0,
            looked_twice: false,
        }
    }

    fn wants_visit(&self, options: &Options) -> bool {
        let enough = match options.repetitions {
            Some(_) => !self.visits.is_empty(),
            None => (self.settled && self.owed == 0) || self.visits.len() >= MOST_VISITS,
        };
        !self.ended && !enough
    }

    fn add(&mut self, round: u32, outcome: &CopyOutcome, options: &Options) {
        let samples: Vec<f64> = outcome.samples.iter().map(|sample| sample.bytes_copied_per_s()).collect();
        let Some(middle) = median(&samples).filter(|middle| *middle > 0.0) else {
            let why = "nothing was copied while time was taken".into();
            return self.fail(ProbeError::Refused { what: "copy".into(), why });
        };
        let set_aside = misplaced(outcome);
        self.owed = self.owed.saturating_sub(1);
        match (&set_aside, options.repetitions) {
            (Some(_), _) => {}
            (None, Some(_)) => self.values.extend(&samples),
            (None, None) => self.values.push(middle),
        }
        self.visits.push(Visit {
            round,
            bytes_copied_per_s: middle,
            min_bytes_copied_per_s: samples.iter().copied().fold(f64::INFINITY, f64::min),
            max_bytes_copied_per_s: samples.iter().copied().fold(0.0, f64::max),
            samples: samples.len() as u32,
            start_skew_ns: outcome.start_skew_ns,
            residency: outcome.residency.clone(),
            set_aside,
        });
        let set_aside = self.visits.iter().filter(|visit| visit.set_aside.is_some()).count();
        self.ended |= self.values.is_empty() && set_aside >= MOST_SET_ASIDE;
    }

    fn fail(&mut self, error: ProbeError) {
        self.ended = true;
        // That a tape has no more visits is no failure of a cell that has some.
        if self.values.is_empty() || !matches!(error, ProbeError::NotOnTape { .. }) {
            self.failure = Some(error);
        }
    }

    fn summarise(&mut self, noise: Option<PooledNoise>, options: &Options) {
        self.summary = Summary::of(&self.values, noise);
        let within = self
            .summary
            .as_ref()
            .is_some_and(|summary| summary.n >= options.least_visits && summary.settled(options.precision));
        self.settled = within || (options.repetitions.is_some() && self.summary.is_some());
    }

    /// Further visits that it will probably need.
    fn visits_ahead(&self, options: &Options) -> f64 {
        let (seen, least) = (self.visits.len() as f64, f64::from(options.least_visits));
        match &self.summary {
            _ if !self.wants_visit(options) => 0.0,
            _ if options.repetitions.is_some() => 1.0,
            Some(summary) if seen >= least => {
                let excess = (summary.relative_half_width() / options.precision).powi(2);
                (seen * (excess - 1.0)).clamp(1.0, 50.0)
            }
            _ => (least - seen).max(1.0),
        }
    }

    /// Why there is no figure, or not as many visits as were wanted.
    fn failure(&self) -> Option<ProbeError> {
        let aside = self.visits.iter().find_map(|visit| visit.set_aside.clone());
        let aside = aside.filter(|_| self.values.is_empty());
        let misplaced = || aside.map(|why| ProbeError::Refused { what: "bind pages".into(), why });
        self.failure.clone().or_else(misplaced)
    }

    fn cell(&self, options: &Options) -> Cell {
        Cell {
            target: self.place.target,
            flow: self.place.flow,
            placement: self.workload.placement.clone(),
            visits: self.visits.clone(),
            bytes_copied_per_s: self.summary.clone(),
            settled: self.settled && (options.repetitions.is_some() || self.owed == 0),
            failure: self.failure().map(|error| error.to_string()),
        }
    }
}

/// Why a visit did not measure its flow, if it did not.
fn misplaced(outcome: &CopyOutcome) -> Option<String> {
    let residency = &outcome.residency;
    let checked = residency.pages_checked.filter(|checked| *checked > 0)?;
    let share = residency.pages_misplaced as f64 / checked as f64;
    let on = residency.found_on.map(|node| format!(", as on node {node}")).unwrap_or_default();
    (share > MISPLACED).then(|| {
        format!(
            "{} of {checked} pages were not on the node they were bound to{on}",
            residency.pages_misplaced
        )
    })
}

struct Campaign<'a> {
    setting: &'a Setting<'a>,
    options: &'a Options,
    states: Vec<State>,
    order: Order,
    round: u32,
    elapsed_ns: u64,
    visits: u32,
    interrupted: bool,
}

impl<'a> Campaign<'a> {
    fn new(setting: &'a Setting<'a>, options: &'a Options, targets: &[Target], trial: &Trial) -> Self {
        let allowed = |node: &NodeId| setting.topology.node(*node).is_some_and(|node| node.memory_allowed);
        let nodes = setting.topology.memory_nodes().iter().filter(allowed).collect();
        let state = |target: &Target, place: Place| {
            let sampling = sampling(target, trial, options);
            State::new(place, target.workload(place.flow, trial.copy_loop, options.pages, sampling))
        };
        let states = targets.iter().flat_map(|target| {
            target.places(&nodes, &options.directions).into_iter().map(move |place| state(target, place))
        });
        Self {
            setting,
            options,
            states: states.collect(),
            order: Order::new(options.seed),
            round: 0,
            elapsed_ns: trial.elapsed_ns,
            visits: 0,
            interrupted: false,
        }
    }

    fn run(&mut self, tell: &mut dyn FnMut(&Event)) {
        loop {
            let mut due: Vec<usize> = (0..self.states.len())
                .filter(|index| self.states[*index].wants_visit(self.options))
                .collect();
            if due.is_empty() && !self.ask_for_second_looks() {
                return;
            }
            self.order.shuffle(&mut due);
            self.round += u32::from(!due.is_empty());
            for index in due {
                // The first round is never cut short by the clock: a cell without a figure is worth nothing.
                if self.interrupted || (self.setting.stop)() || (self.round > 1 && self.time_is_up()) {
                    self.interrupted |= (self.setting.stop)();
                    self.summarise();
                    return;
                }
                self.visit(index);
                tell(&self.progress());
            }
            self.summarise();
        }
    }

    fn visit(&mut self, index: usize) {
        let state = &mut self.states[index];
        match self.setting.probe.copy(&state.workload) {
            Ok(outcome) => {
                self.elapsed_ns += outcome.elapsed_ns;
                self.visits += 1;
                state.add(self.round, &outcome, self.options);
            }
            Err(ProbeError::Interrupted) => self.interrupted = true,
            Err(error) => state.fail(error),
        }
    }

    fn summarise(&mut self) {
        let noise = PooledNoise::of(self.states.iter().map(|state| state.values.as_slice()));
        for state in &mut self.states {
            state.summarise(noise, self.options);
        }
    }

    /// Cells that break the pattern of their row: far from the cells of the same target, direction and SLIT
    /// distance. Each is asked for further visits once; false if there are none.
    fn ask_for_second_looks(&mut self) -> bool {
        let odd: Vec<usize> = (0..self.states.len()).filter(|index| self.breaks_pattern(*index)).collect();
        for index in &odd {
            self.states[*index].owed = SECOND_LOOK;
            self.states[*index].looked_twice = true;
        }
        !odd.is_empty()
    }

    fn breaks_pattern(&self, index: usize) -> bool {
        let state = &self.states[index];
        if self.options.repetitions.is_some() || state.ended || state.looked_twice {
            return false;
        }
        let Some(value) = state.summary.as_ref().map(|summary| summary.median) else { return false };
        let Some(row) = self.row_of(state.place) else { return false };
        let alike: Vec<f64> = self
            .states
            .iter()
            .filter(|other| self.row_of(other.place) == Some(row))
            .filter_map(|other| other.summary.as_ref().map(|summary| summary.median))
            .collect();
        alike.len() >= 3 && median(&alike).is_some_and(|middle| (value / middle - 1.0).abs() > OUT_OF_PATTERN)
    }

    /// Target, whether a device write, and SLIT distance; none for the local cell.
    fn row_of(&self, place: Place) -> Option<(NodeId, bool, u32)> {
        let Place { target, flow } = place;
        let other = if flow.sink == target { flow.source } else { flow.sink };
        let distance = self.setting.topology.distances.as_ref()?.between(target, other)?;
        (other != target).then_some((target, flow.sink == target, distance))
    }

    fn time_is_up(&self) -> bool {
        self.elapsed_s() >= self.options.time_limit_s
    }

    fn elapsed_s(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }

    fn progress(&self) -> Event {
        let settled = self.states.iter().filter(|state| !state.wants_visit(self.options)).count();
        let ahead: f64 = self.states.iter().map(|state| state.visits_ahead(self.options)).sum();
        let each = self.elapsed_s() / f64::from(self.visits.max(1));
        let limit = (self.options.time_limit_s - self.elapsed_s()).max(0.0);
        Event::Visited {
            round: self.round,
            settled,
            cells: self.states.len(),
            elapsed_s: self.elapsed_s(),
            remaining_s: (ahead * each).min(limit),
        }
    }

    fn method(&self, targets: &[Target], trial: &Trial) -> Method {
        Method {
            copy_loop: trial.copy_loop,
            trials: trial.trials.clone(),
            bus_bytes_per_byte: trial.copy_loop.bus_bytes_per_byte(),
            bytes_per_thread: targets.iter().map(|target| (target.node, target.bytes_per_thread)).collect(),
            pages: self.options.pages,
            repetitions: self.options.repetitions,
            precision: self.options.precision,
            time_limit_s: self.options.time_limit_s,
            elapsed_s: self.elapsed_s(),
            seed: self.options.seed,
            rounds: self.round,
        }
    }
}

/// A window of one sweep over the buffers at the bandwidth seen in the trial, or the fixed repetitions.
fn sampling(target: &Target, trial: &Trial, options: &Options) -> Sampling {
    match options.repetitions {
        Some(count) => Sampling::Repetitions { count },
        None => {
            let sweep_ms = target.bytes_of_all() as f64 / trial.bytes_copied_per_s.max(1.0) * 1e3;
            let milliseconds = (sweep_ms as u32).clamp(*WINDOW_MS.start(), *WINDOW_MS.end());
            // In steps, so that a tape recorded with one trial also serves a slightly different one.
            Sampling::Window { milliseconds: milliseconds.next_multiple_of(20), slices: SLICES }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::probe::Residency;

    #[test]
    fn one_page_in_a_hundred_may_be_elsewhere() {
        let told = |pages_checked, pages_misplaced| {
            let found_on = Some(NodeId(3));
            let residency = Residency { pages_checked, pages_misplaced, found_on, huge_bytes: 0 };
            misplaced(&CopyOutcome { samples: Vec::new(), elapsed_ns: 0, start_skew_ns: 0, residency })
        };
        assert_eq!((told(Some(100), 1), told(Some(0), 0), told(None, 7)), (None, None, None));
        let why = "2 of 199 pages were not on the node they were bound to, as on node 3";
        assert_eq!(told(Some(199), 2).as_deref(), Some(why));
    }
}
