//! A machine that does not exist, behind the seam.

use crate::copy::Wiring;
use crate::noise::{run_factor, Random};
use crate::render::{proc::numa_balancing, render, usage, usage::Usage};
use crate::spec::{BadSpec, Spec};
use numaio_machine::control::{Change, Control, ControlError};
use numaio_machine::ids::NodeId;
use numaio_machine::probe::{CopyOutcome, CopySample, Outcome, Probe, ProbeError, Residency};
use numaio_machine::sysfs::{ReadError, Sysfs};
use numaio_machine::tree::Tree;
use numaio_machine::workload::{CopyLoop, CopyWorkload, Pages, Sampling, Workload};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Most samples of a run; a limit against workloads that would never end.
const MOST_SAMPLES: u32 = 1_000_000;
const BASE_PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;
/// What one thread zeroes of fresh memory per second, by page faults.
const BASE_TOUCH_BYTES_PER_S: f64 = 1.5e9;
/// The same on huge pages.
const HUGE_TOUCH_BYTES_PER_S: f64 = 6e9;
/// To start a thread, and to ask for a page's node.
const THREAD_NS: u64 = 50_000;
const PAGE_CHECK_NS: u64 = 100;

/// A simulated machine: seen by its rendered files, tried by computing, changed in itself.
#[derive(Debug)]
pub struct Simulated {
    spec: Spec,
    wiring: Wiring,
    tree: RefCell<Tree>,
    usage: RefCell<Usage>,
    runs: Cell<u64>,
    balancing: Cell<Option<u32>>,
}

impl Simulated {
    /// The machine of a description, an hour after it was started.
    ///
    /// # Errors
    /// If the description cannot be a machine.
    pub fn new(spec: Spec) -> Result<Self, BadSpec> {
        spec.check()?;
        Ok(Self {
            wiring: Wiring::new(&spec),
            tree: RefCell::new(render(&spec)),
            usage: RefCell::new(Usage::at_boot(&spec)),
            runs: Cell::new(0),
            balancing: Cell::new(spec.conditions.numa_balancing),
            spec,
        })
    }

    /// The description.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The files as they are now.
    pub fn tree(&self) -> Tree {
        self.tree.borrow().clone()
    }

    /// What a copy runs at without noise, in bytes copied per second: what measurements scatter around.
    ///
    /// # Errors
    /// As [`Probe::run`].
    pub fn truth(&self, copy: &CopyWorkload) -> Result<f64, ProbeError> {
        self.admit(copy)?;
        let rates = self.wiring.rates(&copy.placement.cpus, copy.flow, copy.copy_loop);
        Ok(rates.iter().sum::<f64>() * self.balancing_factor())
    }

    fn balancing_factor(&self) -> f64 {
        match self.balancing.get() {
            None | Some(0) => 1.0,
            Some(_) => 1.0 - self.spec.conditions.balancing_cost,
        }
    }

    /// Refuses what a real machine would refuse.
    fn admit(&self, copy: &CopyWorkload) -> Result<(), ProbeError> {
        let refused = |what: String, why: &str| Err(ProbeError::Refused { what, why: why.to_owned() });
        const INVALID: &str = "Invalid argument (os error 22)";
        if copy.placement.cpus.is_empty() {
            return refused("copy".to_owned(), "no CPUs to run on");
        }
        if let Some(cpu) = copy.placement.cpus.difference(&self.spec.allowed_cpus()).first() {
            return refused(format!("sched_setaffinity to CPU {cpu}"), INVALID);
        }
        if copy.copy_loop != CopyLoop::Memcpy && !self.spec.loops.contains(&copy.copy_loop) {
            return Err(ProbeError::Unsupported { what: copy.copy_loop.name().to_owned() });
        }
        for node in [copy.flow.source, copy.flow.sink] {
            if !self.spec.allowed_nodes().contains(node) {
                return refused(format!("mbind to node {node}"), INVALID);
            }
        }
        let samples = match copy.sampling {
            Sampling::Window { milliseconds, slices } if milliseconds > 0 => slices,
            Sampling::Window { .. } => 0,
            Sampling::Repetitions { count } => count,
        };
        if copy.bytes_per_thread == 0 || samples == 0 {
            return refused("copy".to_owned(), "nothing to copy");
        }
        if samples > MOST_SAMPLES {
            return refused(format!("{samples} samples"), "more than a simulated machine takes");
        }
        self.admit_memory(copy)
    }

    fn admit_memory(&self, copy: &CopyWorkload) -> Result<(), ProbeError> {
        let page = page_bytes(copy.pages, true);
        let buffer = copy.bytes_per_thread.div_ceil(page).saturating_mul(page);
        let buffers = buffer.saturating_mul(copy.placement.cpus.len() as u64);
        let mut needed: BTreeMap<NodeId, u64> = BTreeMap::new();
        for node in [copy.flow.source, copy.flow.sink] {
            let sum = needed.entry(node).or_default();
            *sum = sum.saturating_add(buffers);
        }
        let limit = self.spec.confinement.memory_limit_bytes.unwrap_or(u64::MAX);
        let all = needed.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        for (node, needed_bytes) in needed {
            let free_bytes = self.free_bytes(node, copy.pages);
            if needed_bytes > free_bytes {
                return Err(ProbeError::NoMemory { node, needed_bytes, free_bytes });
            }
        }
        match all > limit {
            true => Err(ProbeError::NoMemory { node: copy.flow.sink, needed_bytes: all, free_bytes: limit }),
            false => Ok(()),
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

    fn copy(&self, copy: &CopyWorkload) -> Result<CopyOutcome, ProbeError> {
        self.admit(copy)?;
        let run = self.runs.replace(self.runs.get() + 1);
        let mut random = Random::of_run(self.spec.noise.seed, run);
        let hours = self.usage.borrow().hours();
        let factor = run_factor(&self.spec.noise, copy.flow, hours, &mut random) * self.balancing_factor();
        let samples = self.samples(copy, factor, &mut random);
        let threads = copy.placement.cpus.len() as u64;
        let start_skew_ns = if threads > 1 { random.next() % 20_000 } else { 0 };
        let residency = self.residency(copy);
        let sampled_ns = samples.iter().map(|sample| sample.ns).fold(0, u64::saturating_add);
        let touch = if residency.huge_bytes > 0 { HUGE_TOUCH_BYTES_PER_S } else { BASE_TOUCH_BYTES_PER_S };
        let touch_ns = (2.0 * copy.bytes_per_thread as f64 / touch * 1e9) as u64;
        let check_ns = residency.pages_checked.unwrap_or(0) * PAGE_CHECK_NS;
        // The warm-up copies every buffer once.
        let once_s = self.seconds_to_copy(copy) / factor;
        let warm_up_ns = (once_s * 1e9) as u64;
        let elapsed_ns = [sampled_ns, touch_ns, check_ns, warm_up_ns, start_skew_ns, threads * THREAD_NS]
            .into_iter()
            .fold(0, u64::saturating_add);
        self.pass(elapsed_ns, copy);
        Ok(CopyOutcome { samples, elapsed_ns, start_skew_ns, residency })
    }

    fn samples(&self, copy: &CopyWorkload, factor: f64, random: &mut Random) -> Vec<CopySample> {
        let cpus = &copy.placement.cpus;
        let deviation = self.spec.noise.sample;
        match copy.sampling {
            Sampling::Window { milliseconds, slices } => {
                let rate: f64 = self.wiring.rates(cpus, copy.flow, copy.copy_loop).iter().sum();
                let ns = (u64::from(milliseconds) * 1_000_000 / u64::from(slices)).max(1);
                let mut one = || {
                    let bytes = rate * factor * random.factor(deviation) * ns as f64 / 1e9;
                    CopySample { bytes_copied: (bytes as u64).max(1), ns }
                };
                (0..slices).map(|_| one()).collect()
            }
            Sampling::Repetitions { count } => {
                let bytes = copy.bytes_per_thread;
                let seconds = self.seconds_to_copy(copy) / factor;
                let bytes_copied = bytes.saturating_mul(cpus.len() as u64);
                let mut ns = || ((seconds / random.factor(deviation) * 1e9) as u64).max(1);
                (0..count).map(|_| CopySample { bytes_copied, ns: ns() }).collect()
            }
        }
    }

    fn seconds_to_copy(&self, copy: &CopyWorkload) -> f64 {
        self.wiring.seconds_to_copy(&copy.placement.cpus, copy.flow, copy.copy_loop, copy.bytes_per_thread)
    }

    /// Source and sink of every thread, looked at before and after the run.
    fn residency(&self, copy: &CopyWorkload) -> Residency {
        let huge = self.spec.conditions.transparent_huge_pages != "never";
        let page = page_bytes(copy.pages, huge);
        let threads = copy.placement.cpus.len() as u64;
        let pages = copy.bytes_per_thread.div_ceil(page) * threads;
        let mut residency = Residency { pages_checked: Some(4 * pages), ..Residency::default() };
        for node in [copy.flow.source, copy.flow.sink] {
            let Some(misplaced) = self.spec.noise.misplaced.iter().find(|pages| pages.node == node) else {
                continue;
            };
            let count = (pages as f64 * misplaced.share).round() as u64 * 2;
            residency.pages_misplaced += count;
            residency.found_on = Some(misplaced.found_on).filter(|_| count > 0).or(residency.found_on);
        }
        if page == HUGE_PAGE {
            residency.huge_bytes = 2 * pages * page;
        }
        residency
    }

    /// Lets the machine's time go on by a run.
    fn pass(&self, elapsed_ns: u64, copy: &CopyWorkload) {
        let mut now = self.usage.borrow_mut();
        now.pass(elapsed_ns, &copy.placement.cpus);
        usage::render(&self.spec, &now, &mut self.tree.borrow_mut());
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
            Workload::Stream(_) | Workload::Latency(_) => {
                Err(ProbeError::Unsupported { what: workload.to_string() })
            }
        }
    }
}

impl Control for Simulated {
    fn apply(&self, change: &Change) -> Result<Change, ControlError> {
        let Change::NumaBalancing { mode } = change;
        let refused = |why: &str| ControlError::Refused {
            what: format!("numa_balancing to {mode}"),
            why: why.to_owned(),
        };
        let Some(before) = self.balancing.get() else {
            return Err(refused("No such file or directory (os error 2)"));
        };
        if *mode > 3 {
            return Err(refused("Invalid argument (os error 22)"));
        }
        self.balancing.set(Some(*mode));
        numa_balancing(*mode, &mut self.tree.borrow_mut());
        Ok(Change::NumaBalancing { mode: before })
    }
}
