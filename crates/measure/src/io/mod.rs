//! I/O campaign, common to all engines: streams between a device and each node, and mixes of them.
//!
//! The setting follows Li et al. (ICPP 2013): the process runs on node i with local buffers, for
//! all i. CPUs and buffers may also be placed separately.

mod cells;
mod options;
mod representatives;

pub(crate) use cells::checked_pairs;
pub use cells::local_nodes;
pub use options::{IoOptions, IoSelection, Matrix, MixPart, Placements};
pub use representatives::one_per_class;

use crate::engine::{Engine, VisitFigures};
use crate::options::CampaignError;
use crate::rounds::{self, mean, Finished, Measured, StopReason, VisitOutcome, Visits};
use crate::setting::{Event, Setting};
use crate::under_load::UnderLoad;
use crate::warnings::{self, WarningContext};
use cells::Cell;
use numaio_machine::devices::Device;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Workload;
use numaio_schema::{
    ClassRepresentative, IoCell, IoDevice, IoMethod, IoRecord, IoRemoteEnd, Reading, Summary, Warning,
    IO_SCHEMA,
};
use std::cell::RefCell;

/// Maximum number of cells named in warnings about visits that failed after earlier ones.
const MOST_BROKEN: usize = 4;

/// Measures every cell. Cells that cannot be measured record the reason.
///
/// # Errors
/// [`CampaignError`] if no cell has a result, or the engine's program is missing. After an
/// interrupt, the record contains the measurements so far and is marked incomplete.
pub fn run(
    setting: &Setting,
    engine: &dyn Engine,
    device: IoDevice,
    options: &IoOptions,
    report: &mut dyn FnMut(&Event),
) -> Result<IoRecord, CampaignError> {
    let cells = cells::cells(setting.topology, options)?;
    let version = engine.version(setting.probe).map_err(|error| missing(engine, error))?;
    let before = setting.conditions();
    let tasks = cells.iter().map(|cell| cell.task(setting.topology, engine, options)).collect();
    let totals = RefCell::new(VisitTotals::new(cells.len()));
    let visits = Visits {
        visit: &|index, workload| visit(setting, engine, index, workload, &totals),
        is_exhausted: &|| options.most_bytes.is_some_and(|most| totals.borrow().next_exceeds(most)),
    };
    let mut finished = rounds::run_by(setting, &options.rule, tasks, 0, &visits, report);
    let totals = totals.into_inner();
    if let Some(why) = finished.nothing() {
        return Err(missing(engine, why));
    }
    let after = setting.conditions();
    let nodes = setting.topology.memory_nodes().len();
    let mut warnings = warnings::of_conditions(&before, &after, finished.busy_mhz, nodes);
    warnings.extend(warnings_of(&cells, &finished));
    let complete = finished.complete();
    let method = method(engine, version, options, &finished, totals.notes);
    let measured = std::mem::take(&mut finished.measured).into_iter().map(|measured| measured.reading);
    let cells = cells.into_iter().zip(measured).zip(totals.cells);
    let cells = cells.map(|((cell, reading), figures)| figures.cell(cell, reading)).collect();
    let provenance = setting.provenance((before, after), warnings, complete);
    Ok(IoRecord { schema: IO_SCHEMA.to_owned(), provenance, device, method, cells, remote: None })
}

/// Describes a device for the record; `reached_via` is the file or address used to reach it.
pub fn device(found: &Device, reached_via: Option<String>) -> IoDevice {
    IoDevice {
        name: found.name(),
        model: found.model.clone(),
        pci: found.pci.map(|address| address.to_string()),
        node: found.locality.node,
        reached_via,
        irqs: found.irqs.clone(),
    }
}

/// Distinguishes a missing program from other errors.
fn missing(engine: &dyn Engine, error: ProbeError) -> CampaignError {
    match (error, engine.remedy()) {
        (ProbeError::Unsupported { feature: what }, Some(remedy)) => {
            CampaignError::NoProgram { program: what, remedy: remedy.to_owned() }
        }
        (error, _) => CampaignError::Nothing(error),
    }
}

/// Runs a cell once, and collects figures that the rounds do not.
fn visit(
    setting: &Setting,
    engine: &dyn Engine,
    index: usize,
    workload: &Workload,
    totals: &RefCell<VisitTotals>,
) -> Result<VisitOutcome, ProbeError> {
    let figures = engine.read(&setting.probe.run(workload)?)?;
    let taken = VisitOutcome::from_figures(&figures);
    let loads = setting.load.map(UnderLoad::latest).unwrap_or_default();
    totals.borrow_mut().add(index, figures, &loads, &taken);
    taken.with_figure(workload)
}

/// Figures of the visits other than bandwidth.
struct VisitTotals {
    cells: Vec<CellTotals>,
    notes: Vec<String>,
    bytes: u64,
    /// Maximum bytes of one visit.
    largest: u64,
}

/// Figures of one cell over its valid visits.
#[derive(Default, Clone)]
struct CellTotals {
    /// Median of each visit, per group.
    groups: Vec<Vec<f64>>,
    /// Bytes per second of each load in each visit; none for commands.
    loads: Vec<Vec<f64>>,
    bytes: u64,
    /// None once a visit did not report it.
    cpu_ns: Option<u64>,
    /// The same of the peer.
    cpu_ns_there: Option<u64>,
}

impl VisitTotals {
    fn new(cells: usize) -> Self {
        let cell = CellTotals { cpu_ns: Some(0), cpu_ns_there: Some(0), ..CellTotals::default() };
        Self { cells: vec![cell; cells], notes: Vec::new(), bytes: 0, largest: 0 }
    }

    fn add(&mut self, index: usize, figures: VisitFigures, loads: &[Option<f64>], taken: &VisitOutcome) {
        self.bytes = self.bytes.saturating_add(figures.bytes_of_all);
        self.largest = self.largest.max(figures.bytes_of_all);
        for note in figures.notes.iter().filter(|note| !note.is_empty()) {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        let Some(cell) = self.cells.get_mut(index).filter(|_| taken.excluded.is_none()) else { return };
        cell.groups.resize(figures.groups.len(), Vec::new());
        for (values, group) in cell.groups.iter_mut().zip(&figures.groups) {
            values.extend(mean(group));
        }
        cell.loads.resize(loads.len(), Vec::new());
        for (values, load) in cell.loads.iter_mut().zip(loads) {
            values.extend(load);
        }
        cell.bytes = cell.bytes.saturating_add(figures.bytes);
        let sum = |one: Option<u64>, other| one.zip(other).map(|(sum, ns)| sum.saturating_add(ns));
        cell.cpu_ns = sum(cell.cpu_ns, figures.cpu_ns);
        cell.cpu_ns_there = sum(cell.cpu_ns_there, figures.cpu_ns_there);
    }

    /// Returns whether another visit might exceed a byte limit, assuming the largest size so far.
    fn next_exceeds(&self, most: u64) -> bool {
        self.bytes > 0 && self.bytes.saturating_add(self.largest) > most
    }
}

impl CellTotals {
    fn cell(self, cell: Cell, bytes_per_s: Reading) -> IoCell {
        let of_groups = self.groups.iter().map(|values| Summary::of(values, None)).collect();
        let per_byte = |ns: Option<u64>| Some(ns? as f64 / self.bytes as f64).filter(|_| self.bytes > 0);
        let there = per_byte(self.cpu_ns_there);
        IoCell {
            load_bytes_per_s: self.loads.iter().map(|values| Summary::of(values, None)).collect(),
            group_bytes_per_s: if cell.groups.len() > 1 { of_groups } else { Vec::new() },
            groups: cell.groups,
            cpu_nodes: cell.cpu_nodes,
            block_bytes: cell.block_bytes,
            operation: cell.operation,
            bytes_per_s,
            cpu_ns_per_byte: per_byte(self.cpu_ns),
            remote: there.map(|ns| IoRemoteEnd { cpu_ns_per_byte: Some(ns), ..IoRemoteEnd::default() }),
        }
    }
}

fn warnings_of(cells: &[Cell], finished: &Finished) -> Vec<Warning> {
    let context = WarningContext {
        quantity: "bandwidth",
        time_is_up: finished.stop_reason == Some(StopReason::TimeLimit),
        wanted_huge: false,
    };
    let names = cells::names(cells);
    let mut found = warnings::of_readings(&finished.measured, &|index| names[index].clone(), &context);
    if finished.stop_reason == Some(StopReason::ByteLimit) {
        let what = "the byte limit was reached before every result had settled".to_owned();
        found.push(Warning { rule: "byte-limit".into(), message: what });
    }
    // A cell without any result records its own reason.
    let broken = |(name, measured): (&String, &Measured)| {
        measured.reading.summary.as_ref()?;
        let why = measured.failure.as_ref().filter(|why| !matches!(why, ProbeError::NotOnTape { .. }))?;
        let what = format!("visits stopped at {name}: {why}");
        Some(Warning { rule: "failed".into(), message: what })
    };
    found.extend(names.iter().zip(&finished.measured).filter_map(broken).take(MOST_BROKEN));
    found
}

fn method(
    engine: &dyn Engine,
    version: String,
    options: &IoOptions,
    finished: &Finished,
    notes: Vec<String>,
) -> IoMethod {
    let disk = engine.disk();
    let represented = match &options.what {
        IoSelection::Matrix(matrix) if matches!(matrix.places, Placements::Local(_)) => {
            matrix.represented.clone()
        }
        _ => Vec::<ClassRepresentative>::new(),
    };
    IoMethod {
        engine: engine.engine(),
        version,
        depth: options.depth,
        disk: disk.map(|disk| (disk.method, disk.order)),
        direct: disk.map(|disk| disk.direct),
        area_bytes: disk.map(|disk| disk.bytes),
        network: None,
        represented,
        notes,
        rounds: finished.rounds(&options.rule),
    }
}
