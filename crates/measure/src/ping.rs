//! Ping-pong campaign: latency of a network by message size and by the nodes of both ends.
//!
//! Moreaud and Goglin (2007) measured latency and bandwidth of a network from every core, and
//! striped messages over two interfaces. A striping by measured shares needs the bandwidth of each
//! rail alone, which a first part of the campaign measures; the second part measures each rail
//! alone and both stripings, visited in turn.

use crate::engine::remote::{is_rate, operation_at};
use crate::engine::{CellRequest, Engine as _, Perftest, RemoteEnd, VisitFigures};
use crate::io::{checked_pairs, Placements};
use crate::net::End;
use crate::options::CampaignError;
use crate::rounds::{self, Finished, Rule, StopReason, Task, VisitOutcome, Visits};
use crate::setting::{Event, Setting};
use crate::warnings::{self, WarningContext};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{Outcome, PingOutcome, ProbeError, Residency};
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_machine::workload::{Direction, PingPart, PingWorkload, StreamGroup, Workload};
use numaio_schema::{
    IoDevice, IoEngine, IoRemoteEnd, PingCell, PingMethod, PingRail, PingRecord, Reading, Striping, Summary,
    Warning, PING_SCHEMA,
};
use std::cell::RefCell;

/// Part of the time limit for the bandwidths of rails alone.
const SHARES_PART: f64 = 0.25;

/// Program that exchanges messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PingEngine {
    /// Built in, over TCP.
    Tcp(RemoteEnd),
    /// perftest, over RDMA.
    Perftest(Perftest),
}

/// Options of a ping-pong campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct PingOptions {
    /// Ends whose placement is varied.
    pub ends: Vec<End>,
    /// Placements of the local end while it is varied.
    pub places: Placements,
    /// Local node while only the peer is varied.
    pub home: NodeId,
    /// Placement that the peer chooses by default.
    pub own_place: IoRemoteEnd,
    /// Message sizes in bytes.
    pub sizes: Vec<u64>,
    /// Rails; empty for the path of the session.
    pub rails: Vec<PingRail>,
    /// Length of a visit, in milliseconds.
    pub window_ms: u32,
    /// Samples per visit.
    pub slices: u32,
    /// Stopping rule.
    pub rule: Rule,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    cpu_node: NodeId,
    memory: NodeId,
    /// Index of the remote placement; none where the peer chooses.
    there: Option<usize>,
    bytes: u64,
    striping: Option<Striping>,
    parts: Vec<u64>,
}

/// Figures of one visit, in nanoseconds.
struct PingFigures {
    figures: VisitFigures,
    p99_ns: f64,
    min_ns: f64,
}

/// Percentiles and minima of the visits of each cell that count.
type Tails = RefCell<Vec<Vec<(f64, f64)>>>;

/// Measures every cell. Cells that cannot be measured record the reason. `devices` are the local
/// device and the peer's.
///
/// # Errors
/// [`CampaignError`] if no cell has a result. After an interrupt, the record contains the
/// measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    engine: &PingEngine,
    devices: (IoDevice, Option<IoDevice>),
    options: &PingOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<PingRecord, CampaignError> {
    let version = engine.version(setting).map_err(|error| engine.missing(error))?;
    let before = setting.conditions();
    let campaign = Campaign { setting, engine, options };
    let placed = campaign.placements()?;
    let (mut cells, mut spent_ns) = (placed.clone(), 0);
    if !options.rails.is_empty() {
        let limit = Rule { time_limit_s: options.rule.time_limit_s * SHARES_PART, ..options.rule };
        let alone = campaign.alone(&placed);
        let (measured, _) = campaign.measure(&limit, &alone, 0, report);
        spent_ns = measured.elapsed_ns;
        cells = campaign.striped(&placed, &alone, &measured);
    }
    let (mut finished, tails) = campaign.measure(&options.rule, &cells, spent_ns, report);
    if let Some(why) = finished.nothing() {
        return Err(engine.missing(why));
    }
    let after = setting.conditions();
    let nodes = setting.topology.memory_nodes().len();
    let mut found = warnings::of_conditions(&before, &after, finished.busy_mhz, nodes);
    found.extend(campaign.warnings(&cells, &finished));
    found.extend(campaign.unknown_shares(&placed, &cells));
    let complete = finished.complete();
    let method = PingMethod { engine: engine.engine(), version, rounds: finished.rounds(&options.rule) };
    let readings = std::mem::take(&mut finished.measured).into_iter().map(|measured| measured.reading);
    let cells = cells.into_iter().zip(readings).zip(tails);
    let cells = cells.map(|((cell, reading), tails)| campaign.cell(cell, reading, &tails)).collect();
    Ok(PingRecord {
        schema: PING_SCHEMA.to_owned(),
        provenance: setting.provenance((before, after), found, complete),
        device: devices.0,
        remote: devices.1,
        rails: options.rails.clone(),
        method,
        cells,
    })
}

struct Campaign<'a> {
    setting: &'a Setting<'a>,
    engine: &'a PingEngine,
    options: &'a PingOptions,
}

impl Campaign<'_> {
    /// Returns a cell for each placement of both ends and each size, without rails.
    fn placements(&self) -> Result<Vec<Cell>, CampaignError> {
        let (topology, options) = (self.setting.topology, self.options);
        let local = checked_pairs(topology, &options.places)?;
        let home = checked_pairs(topology, &Placements::Local(NodeSet::one(options.home)))?;
        let remote: Vec<Option<usize>> = (0..self.engine.far().places.len()).map(Some).collect();
        let mut cells: Vec<Cell> = Vec::new();
        for end in &options.ends {
            let (pairs, theirs) = match end {
                End::Local => (&local, &[None][..]),
                End::Remote => (&home, remote.as_slice()),
                End::Both => (&local, remote.as_slice()),
            };
            for (cpu_node, memory) in pairs.iter().copied() {
                for there in theirs.iter().copied() {
                    let cell = |bytes: &u64| {
                        let (striping, parts) = (None, Vec::new());
                        Cell { cpu_node, memory, there, bytes: *bytes, striping, parts }
                    };
                    cells.extend(options.sizes.iter().map(cell));
                }
            }
        }
        match cells.is_empty() {
            true => Err(CampaignError::NoTarget),
            false => Ok(cells),
        }
    }

    /// Returns the cells of each rail alone, rail by rail for each placement and size.
    fn alone(&self, placed: &[Cell]) -> Vec<Cell> {
        let rails = vec![1.0; self.options.rails.len()];
        let of = |cell: &Cell| {
            let cell = cell.clone();
            let rails = rails.clone();
            (0..rails.len()).map(move |rail| cell.with(Striping::Single(rail), &rails)).collect::<Vec<_>>()
        };
        placed.iter().flat_map(of).collect()
    }

    /// Returns for each placement and size the rails alone and both stripings. Where a rail has no
    /// bandwidth yet, no shares can be proportional to it.
    fn striped(&self, placed: &[Cell], alone: &[Cell], measured: &Finished) -> Vec<Cell> {
        let rails = self.options.rails.len();
        let mut cells = Vec::new();
        for (index, cell) in placed.iter().enumerate() {
            let own = index * rails..(index + 1) * rails;
            let bandwidth = |measured: &rounds::Measured| measured.reading.median().map(|ns| 1.0 / ns);
            let of_rails = measured.measured.get(own.clone()).unwrap_or_default().iter().map(bandwidth);
            let shares: Option<Vec<f64>> = of_rails.map(|rate| rate.filter(|rate| is_rate(*rate))).collect();
            cells.extend(alone.get(own).unwrap_or_default().iter().cloned());
            cells.push(cell.with(Striping::Even, &vec![1.0; rails]));
            cells.extend(shares.map(|shares| cell.with(Striping::Measured, &shares)));
        }
        cells
    }

    fn measure(
        &self,
        rule: &Rule,
        cells: &[Cell],
        spent_ns: u64,
        report: &mut dyn FnMut(&Event),
    ) -> (Finished, Vec<Vec<(f64, f64)>>) {
        let tails: Tails = RefCell::new(vec![Vec::new(); cells.len()]);
        let visit = |index: usize, workload: &Workload| {
            let visited = self.engine.read(&self.setting.probe.run(workload)?)?;
            let taken = VisitOutcome::from_figures(&visited.figures);
            if taken.excluded.is_none() {
                tails.borrow_mut()[index].push((visited.p99_ns, visited.min_ns));
            }
            taken.with_figure(workload)
        };
        let visits = Visits { visit: &visit, is_exhausted: &|| false };
        let tasks = cells.iter().map(|cell| self.task(cell)).collect();
        let finished = rounds::run_by(self.setting, rule, tasks, spent_ns, &visits, report);
        (finished, tails.into_inner())
    }

    fn task(&self, cell: &Cell) -> Task {
        let (workload, impossible) = match self.engine.workload(self.setting, cell, self.options) {
            Ok(workload) => (workload, None),
            // A placeholder that never runs.
            Err(error) => {
                (Workload::Ping(tcp(self.setting, cell, self.options, self.engine.far())), Some(error))
            }
        };
        Task { workload, group: cell.cpu_node, alike: None, impossible }
    }

    fn cell(&self, cell: Cell, latency_ns: Reading, tails: &[(f64, f64)]) -> PingCell {
        let place = cell.there.and_then(|place| self.engine.far().places.get(place));
        let remote = place.map(|place| IoRemoteEnd {
            cpu_nodes: NodeSet::one(place.cpu_node),
            memory: Some(place.memory),
            cpu_ns_per_byte: None,
        });
        let p99: Vec<f64> = tails.iter().map(|(p99, _)| *p99).collect();
        PingCell {
            cpu_node: cell.cpu_node,
            memory_node: cell.memory,
            remote: remote.unwrap_or_else(|| self.options.own_place.clone()),
            message_bytes: cell.bytes,
            operation: self.engine.operation(),
            striping: cell.striping,
            parts: cell.parts,
            latency_ns,
            p99_ns: Summary::of(&p99, None),
            min_ns: tails.iter().map(|(_, min)| *min).min_by(f64::total_cmp),
        }
    }

    /// Returns a warning if some shares are unknown, because a rail was not measured alone.
    fn unknown_shares(&self, placed: &[Cell], cells: &[Cell]) -> Option<Warning> {
        let known = cells.iter().filter(|cell| cell.striping == Some(Striping::Measured)).count();
        let unknown = placed.len() - known;
        (unknown > 0 && !self.options.rails.is_empty()).then(|| Warning {
            rule: "rail-not-measured".to_owned(),
            message: format!(
                "no division by bandwidth for {unknown} of {} placements: the time limit left a rail without a \
                 measurement alone",
                placed.len()
            ),
        })
    }

    fn warnings(&self, cells: &[Cell], finished: &Finished) -> Vec<Warning> {
        let context = WarningContext {
            quantity: "latency",
            time_is_up: finished.stop_reason == Some(StopReason::TimeLimit),
            wanted_huge: false,
        };
        let name = |index: usize| {
            let Cell { cpu_node, bytes, there, .. } = &cells[index];
            let place = there.and_then(|place| self.engine.far().places.get(place));
            let there = place.map(|place| format!(" to remote node {}", place.cpu_node)).unwrap_or_default();
            format!("{} from node {cpu_node}{there}", format_size(*bytes))
        };
        warnings::of_readings(&finished.measured, &name, &context)
    }
}

impl Cell {
    /// Returns the cell with its message divided among rails of these bandwidths.
    fn with(&self, striping: Striping, bandwidths: &[f64]) -> Self {
        let parts = striping.parts(self.bytes, bandwidths);
        Self { striping: Some(striping), parts, ..self.clone() }
    }
}

/// Creates the workload of a cell over TCP.
fn tcp(setting: &Setting, cell: &Cell, options: &PingOptions, far: &RemoteEnd) -> PingWorkload {
    let place = cell.there.and_then(|place| far.places.get(place));
    let part = |(bytes, rail): (&u64, &PingRail)| PingPart { bytes: *bytes, rail: Some(rail.rail) };
    let parts = match options.rails.is_empty() {
        true => vec![PingPart { bytes: cell.bytes, rail: None }],
        false => cell.parts.iter().zip(&options.rails).map(part).collect(),
    };
    PingWorkload {
        peer: far.peer.clone(),
        cpus: setting.topology.usable_cpus(cell.cpu_node),
        memory: cell.memory,
        peer_placement: place.map(|place| (place.cpus.clone(), place.memory)),
        parts,
        milliseconds: options.window_ms,
        slices: options.slices,
    }
}

impl PingEngine {
    fn far(&self) -> &RemoteEnd {
        match self {
            Self::Tcp(far) => far,
            Self::Perftest(perftest) => &perftest.far,
        }
    }

    fn engine(&self) -> IoEngine {
        match self {
            Self::Tcp(_) => IoEngine::Tcp,
            Self::Perftest(_) => IoEngine::Perftest,
        }
    }

    fn operation(&self) -> Option<String> {
        match self {
            Self::Tcp(_) => None,
            Self::Perftest(perftest) => Some(perftest.op.name().to_owned()),
        }
    }

    fn version(&self, setting: &Setting) -> Result<String, ProbeError> {
        match self {
            Self::Tcp(_) => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            Self::Perftest(perftest) => perftest.version(setting.probe),
        }
    }

    /// Distinguishes a missing program from other errors.
    fn missing(&self, error: ProbeError) -> CampaignError {
        match (self, error) {
            (Self::Perftest(perftest), ProbeError::Unsupported { feature: what }) => {
                CampaignError::NoProgram {
                    program: what,
                    remedy: perftest.remedy().unwrap_or_default().to_owned(),
                }
            }
            (_, error) => CampaignError::Nothing(error),
        }
    }

    fn workload(
        &self,
        setting: &Setting,
        cell: &Cell,
        options: &PingOptions,
    ) -> Result<Workload, ProbeError> {
        match self {
            Self::Tcp(far) => Ok(Workload::Ping(tcp(setting, cell, options, far))),
            Self::Perftest(perftest) => {
                let group = StreamGroup {
                    cpus: setting.topology.usable_cpus(cell.cpu_node),
                    memory: cell.memory,
                    streams: 1,
                    direction: Direction::Write,
                    device: 0,
                };
                let operation = cell.there.map(|place| operation_at(None, place));
                perftest.latency_workload(&CellRequest {
                    groups: &[group],
                    block_bytes: cell.bytes,
                    operation: operation.as_deref(),
                    depth: 1,
                    window_ms: options.window_ms,
                    slices: options.slices,
                    most_bytes: None,
                })
            }
        }
    }

    fn read(&self, outcome: &Outcome) -> Result<PingFigures, ProbeError> {
        match (self, outcome) {
            (Self::Tcp(_), Outcome::Ping(outcome)) => Ok(halved(outcome)),
            (Self::Tcp(_), _) => Err(ProbeError::OtherOutcome),
            (Self::Perftest(perftest), outcome) => {
                let (latency, elapsed_ns) = perftest.read_latency(outcome)?;
                let groups = vec![vec![latency.median_ns]];
                let figures = VisitFigures { groups, elapsed_ns, ..VisitFigures::default() };
                Ok(PingFigures { figures, p99_ns: latency.p99_ns, min_ns: latency.min_ns })
            }
        }
    }
}

/// Converts round trips to latencies.
fn halved(outcome: &PingOutcome) -> PingFigures {
    let half = |ns: u64| ns as f64 / 2.0;
    let figures = VisitFigures {
        groups: vec![outcome.medians_ns.iter().map(|ns| half(*ns)).collect()],
        elapsed_ns: outcome.elapsed_ns,
        residency: both_ends(outcome),
        ended_early: outcome.interrupted.clone(),
        ..VisitFigures::default()
    };
    PingFigures { figures, p99_ns: half(outcome.p99_ns), min_ns: half(outcome.min_ns) }
}

/// Sums the residency of the buffers of both ends.
fn both_ends(outcome: &PingOutcome) -> Residency {
    let own = &outcome.residency;
    let Some(there) = outcome.peer.as_ref().map(|there| &there.residency) else { return own.clone() };
    Residency {
        pages_checked: own
            .pages_checked
            .zip(there.pages_checked)
            .map(|(own, there)| own.saturating_add(there)),
        pages_misplaced: own.pages_misplaced.saturating_add(there.pages_misplaced),
        misplaced_on: own.misplaced_on.or(there.misplaced_on),
        huge_bytes: own.huge_bytes.saturating_add(there.huge_bytes),
    }
}
