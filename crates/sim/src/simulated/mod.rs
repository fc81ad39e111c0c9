//! The simulated machine behind the interfaces of a real one.

mod copy;
mod counted;
mod device_sharing;
mod io;
mod irq_steering;
mod latency;
mod loaded;
mod mmio;
mod ping;
mod program;
mod stream;

use crate::noise::{run_factor, Random};
use crate::render::{proc::numa_balancing, render, usage, usage::Usage};
use crate::simulated_program::SimulatedProgram;
use crate::spec::{BadSpec, Spec};
use crate::wiring::Wiring;
use numaio_machine::control::{Change, Control, ControlError};
use numaio_machine::ids::NodeId;
use numaio_machine::interleave;
use numaio_machine::locate::{Locate, LocateAnswer, LocateAnswers, LocateError, LocateQuery};
use numaio_machine::probe::{Outcome, Probe, ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::{ReadError, Sysfs, SysfsExt};
use numaio_machine::tree::Tree;
use numaio_machine::workload::{Flow, Pages, Sampling, Workload};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Maximum number of samples of a run, which bounds its duration.
const MAX_SAMPLES: u32 = 1_000_000;
const BASE_PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;
/// Bytes per second of fresh memory that a thread zeroes in page faults on base pages.
const BASE_TOUCH_BYTES_PER_S: f64 = 1.5e9;
/// The same on huge pages.
const HUGE_TOUCH_BYTES_PER_S: f64 = 6e9;
/// Time to start a thread.
const THREAD_NS: u64 = 50_000;
/// Time to look up a page's node.
const PAGE_CHECK_NS: u64 = 100;

/// A simulated machine: discovery reads rendered files, probes are computed, and questions are
/// answered by a table.
#[derive(Debug)]
pub struct Simulated {
    spec: Spec,
    wiring: Wiring,
    tree: RefCell<Tree>,
    usage: RefCell<Usage>,
    runs: Cell<u64>,
    balancing: Cell<Option<u32>>,
    answers: LocateAnswers,
    programs: Vec<SimulatedProgram>,
}

impl Simulated {
    /// A machine of a description, one hour after its boot.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn new(spec: Spec) -> Result<Self, BadSpec> {
        spec.check()?;
        Ok(Self {
            wiring: Wiring::new(&spec),
            tree: RefCell::new(render(&spec)),
            usage: RefCell::new(Usage::at_boot(&spec)),
            runs: Cell::new(0),
            balancing: Cell::new(spec.conditions.numa_balancing),
            spec,
            answers: LocateAnswers::default(),
            programs: Vec::new(),
        })
    }

    /// Sets the answers to questions about paths, hosts and processes.
    #[must_use]
    pub fn with_answers(self, answers: LocateAnswers) -> Self {
        Self { answers, ..self }
    }

    /// Returns the description.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the current files.
    pub fn tree(&self) -> Tree {
        self.tree.borrow().clone()
    }

    fn balancing_factor(&self) -> f64 {
        match self.balancing.get() {
            None | Some(0) => 1.0,
            Some(_) => 1.0 - self.spec.conditions.balancing_cost,
        }
    }

    /// Returns the random numbers of the next run, and the factor of its bandwidth.
    fn next_run(&self, flow: Flow) -> (Random, f64) {
        let run = self.runs.replace(self.runs.get() + 1);
        let mut random = Random::of_run(self.spec.noise.seed, run);
        let hours = self.usage.borrow().hours();
        let factor = run_factor(&self.spec.noise, flow, hours, &mut random) * self.balancing_factor();
        (random, factor)
    }

    /// Rejects CPUs as a kernel does.
    fn admit_cpus(&self, cpus: &CpuSet) -> Result<(), ProbeError> {
        if cpus.is_empty() {
            return refused("run", "no CPUs to run on");
        }
        match cpus.difference(&self.spec.allowed_cpus()).first() {
            Some(cpu) => refused(&format!("sched_setaffinity to CPU {cpu}"), INVALID),
            None => Ok(()),
        }
    }

    /// Rejects buffers as a kernel does; each is a node, the bytes of a buffer, and the number of
    /// buffers.
    fn admit_buffers(&self, buffers: &[(NodeId, u64, u64)], pages: Pages) -> Result<(), ProbeError> {
        let page = page_bytes(pages, true);
        let mut needed: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (node, bytes, count) in buffers {
            if !self.spec.allowed_nodes().contains(*node) {
                return refused(&format!("mbind to node {node}"), INVALID);
            }
            if *bytes == 0 {
                return refused("run", "buffers of no bytes");
            }
            let whole = bytes.div_ceil(page).saturating_mul(page).saturating_mul(*count);
            let sum = needed.entry(*node).or_default();
            *sum = sum.saturating_add(whole);
        }
        let limit = self.spec.confinement.memory_limit_bytes.unwrap_or(u64::MAX);
        let all = needed.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        for (node, needed_bytes) in &needed {
            let (node, needed_bytes, free_bytes) = (*node, *needed_bytes, self.free_bytes(*node, pages));
            if needed_bytes > free_bytes {
                return Err(ProbeError::NoMemory { node, needed_bytes, free_bytes });
            }
        }
        match needed.keys().next_back().filter(|_| all > limit) {
            Some(node) => Err(ProbeError::NoMemory { node: *node, needed_bytes: all, free_bytes: limit }),
            None => Ok(()),
        }
    }

    fn free_bytes(&self, node: NodeId, pages: Pages) -> u64 {
        let Some(node) = self.spec.node(node) else { return 0 };
        match pages {
            Pages::Huge => {
                let pools = node.huge_pages.iter().filter(|pool| pool.page_bytes == HUGE_PAGE);
                pools.map(|pool| pool.free.saturating_mul(HUGE_PAGE)).fold(0, u64::saturating_add)
            }
            Pages::Base | Pages::Transparent => node.free_bytes,
        }
    }

    /// Returns where the pages of buffers lie, checked before and after the run.
    fn residency(&self, buffers: &[(NodeId, u64, u64)], pages: Pages) -> Residency {
        let page = page_bytes(pages, self.spec.conditions.transparent_huge_pages != "never");
        let mut residency = Residency { pages_checked: Some(0), ..Residency::default() };
        for (node, bytes, count) in buffers {
            let pages = bytes.div_ceil(page) * count;
            residency.pages_checked = residency.pages_checked.map(|checked| checked + 2 * pages);
            if page == HUGE_PAGE {
                residency.huge_bytes += pages * page;
            }
            let Some(misplaced) = self.spec.noise.misplaced.iter().find(|pages| pages.node == *node) else {
                continue;
            };
            let count = (pages as f64 * misplaced.share).round() as u64 * 2;
            residency.pages_misplaced += count;
            residency.misplaced_on =
                Some(misplaced.found_on).filter(|_| count > 0).or(residency.misplaced_on);
        }
        residency
    }

    /// Returns the time in nanoseconds to start threads, touch their buffers and check the pages;
    /// each thread touches `bytes`.
    fn preparation_ns(&self, threads: u64, bytes: f64, residency: &Residency) -> u64 {
        let touch = if residency.huge_bytes > 0 { HUGE_TOUCH_BYTES_PER_S } else { BASE_TOUCH_BYTES_PER_S };
        let touch_ns = (bytes / touch * 1e9) as u64;
        let check_ns = residency.pages_checked.unwrap_or(0) * PAGE_CHECK_NS;
        [touch_ns, check_ns, threads * THREAD_NS].into_iter().fold(0, u64::saturating_add)
    }

    /// Advances the machine's time by a run.
    fn pass(&self, elapsed_ns: u64, cpus: &CpuSet) {
        let mut now = self.usage.borrow_mut();
        now.pass(elapsed_ns, cpus);
        usage::render(&self.spec, &now, &mut self.tree.borrow_mut());
    }
}

/// The kernel's error for an invalid CPU or node.
const INVALID: &str = "Invalid argument (os error 22)";

fn refused<T>(what: &str, why: &str) -> Result<T, ProbeError> {
    Err(ProbeError::Refused { call: what.to_owned(), reason: why.to_owned() })
}

/// Rejects a run without samples, or with too many.
fn admit_samples(sampling: Sampling) -> Result<(), ProbeError> {
    let samples = match sampling {
        Sampling::Window { milliseconds, slices } if milliseconds > 0 => slices,
        Sampling::Window { .. } => 0,
        Sampling::Repetitions { count } => count,
    };
    match samples {
        0 => refused("run", "no samples to take"),
        samples if samples > MAX_SAMPLES => {
            refused(&format!("{samples} samples"), "more than a simulated machine takes")
        }
        _ => Ok(()),
    }
}

/// Returns the time between the first and the last thread's start.
fn start_skew_ns(threads: u64, random: &mut Random) -> u64 {
    if threads > 1 {
        random.next() % 20_000
    } else {
        0
    }
}

fn page_bytes(pages: Pages, transparent_are_huge: bool) -> u64 {
    match pages {
        Pages::Base => BASE_PAGE,
        Pages::Transparent if !transparent_are_huge => BASE_PAGE,
        Pages::Transparent | Pages::Huge => HUGE_PAGE,
    }
}

impl Sysfs for Simulated {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.tree.borrow().read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.tree.borrow().list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.tree.borrow().resolve(path)
    }
}

impl Probe for Simulated {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        match workload {
            Workload::Copy(copy) => self.copy(copy).map(Outcome::Copy),
            Workload::Stream(stream) => self.stream(stream).map(Outcome::Stream),
            Workload::Latency(latency) => self.latency(latency).map(Outcome::Latency),
            Workload::Io(io) => self.io(io).map(Outcome::Io),
            Workload::Ping(ping) => self.ping(ping).map(Outcome::Ping),
            Workload::Mmio(mmio) => self.mmio(mmio).map(Outcome::Mmio),
            Workload::Tool(tool) => Err(ProbeError::Unsupported { feature: tool.program.clone() }),
            Workload::Program(program) => self.program(program).map(Outcome::Program),
            Workload::Counted(counted) => self.counted(counted).map(Outcome::Counted),
            Workload::Loaded(loaded) => self.loaded(loaded).map(Outcome::Loaded),
        }
    }
}

impl Locate for Simulated {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        self.answers.locate(question)
    }
}

impl Control for Simulated {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        let refused =
            |why: &str| Err(ControlError::Refused { what: change.to_string(), why: why.to_owned() });
        match change {
            Change::NumaBalancing { mode: 4.. } => refused("Invalid argument"),
            Change::NumaBalancing { mode } => {
                let Some(before) = self.balancing.get() else { return refused("No such file or directory") };
                self.balancing.set(Some(*mode));
                numa_balancing(*mode, &mut self.tree.borrow_mut());
                Ok(Change::NumaBalancing { mode: before })
            }
            Change::InterleaveWeight { weight: 0 | 256.., .. } => refused("Invalid argument"),
            Change::InterleaveWeight { node, weight } => {
                let path = interleave::path(*node);
                let tree = &mut self.tree.borrow_mut();
                let Ok(before) = tree.value(&path) else { return refused("No such file or directory") };
                tree.file(&path, format!("{weight}\n"));
                Ok(Change::InterleaveWeight { node: *node, weight: before })
            }
            // The simulated cards have no indirection table.
            Change::ReceiveTable { .. } => refused("Operation not supported"),
            Change::Prefetchers { .. } | Change::VirtualFunctions { .. } | Change::AccessMonitor(_) => {
                refused("No such file or directory")
            }
            // It runs no processes.
            Change::ThreadAffinity { .. }
            | Change::ProcessPages(_)
            | Change::LibvirtPin { .. }
            | Change::LibvirtNodes { .. } => Err(ControlError::Ended { what: change.to_string() }),
            // The simulated kernel is Linux 6.12, which lacks it.
            Change::AutomaticInterleave { .. } => refused("No such file or directory"),
            Change::IrqAffinity { .. }
            | Change::RpsCpus { .. }
            | Change::RpsFlows { .. }
            | Change::XpsCpus { .. }
            | Change::SockFlowEntries { .. } => {
                irq_steering::apply(change, &self.spec.online_cpus(), &mut self.tree.borrow_mut())
            }
        }
    }
}
