//! `numaio counters`: events of a workload by node of the threads and of the memory.

use super::measuring::{self, MeasuredMachine};
use crate::balancing::pause;
use crate::documents;
use crate::failure::Failure;
use crate::load_args::LoadArgs;
use crate::machine::Machine;
use crate::options::{count, integer, node, run_limit, Common, StopArgs};
use crate::output::{self, json};
use crate::store::Kind;
use crate::temporary_change::{TemporaryChange, TemporarySetting};
use clap::{Args, ValueEnum};
use numaio_linux::Kernel;
use numaio_machine::control::{Change, ControlError};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::process;
use numaio_machine::topology::Topology;
use numaio_machine::workload::{CopyLoop, Pages, StreamLoop, StreamOp};
use numaio_measure::{CounterOptions, LatencyOptions, Rule};
use numaio_model::scheduling_factors;
use numaio_schema::{AppliedChange, CountedSubject, CounterRecord, Document, LatencyRecord, StreamRecord};
use std::path::PathBuf;
use std::process::ExitCode;

/// Count cache misses, stalls and remote accesses of a workload, by node
///
/// STREAM and copies run on each pair of a CPU node and a memory node. Counters that this machine
/// lacks are listed with the reason; page faults and allocations by node are counted everywhere.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload", after_help = AFTER_HELP)]
pub struct CountersArgs {
    /// Count a STREAM operation: copy (default), scale, add, triad, read or write
    #[arg(
        long, value_name = "OP", num_args = 0..=1, default_missing_value = "copy", value_parser = stream_op,
        group = "subject"
    )]
    pub stream: Option<StreamOp>,
    /// Count copies (memcpy) from the memory node to the CPU node
    #[arg(long, group = "subject")]
    pub copy: bool,
    /// Count a running process, with the threads that it starts
    #[arg(long, short, value_name = "PID", value_parser = integer(1..=u32::MAX), group = "subject", conflicts_with_all = ["pairs", "threads"])]
    pub pid: Option<u32>,
    /// Time for which a process is counted, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = run_limit, requires = "pid", allow_negative_numbers = true)]
    pub seconds: f64,
    /// Program to count, with its arguments and children
    #[arg(last = true, value_name = "COMMAND", group = "subject")]
    pub command: Vec<String>,
    /// Run the program on each pair of nodes, bound to the CPUs of one and the memory of the other
    #[arg(long)]
    pub pairs: bool,
    /// Time limit of one run of the program, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = run_limit, allow_negative_numbers = true)]
    pub run_limit: f64,
    /// Numbers of threads, such as 1,2,4,8; default: one per core, or all CPUs for a program
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count, allow_negative_numbers = true)]
    pub threads: Vec<u32>,
    /// Measure with hardware prefetchers off, on, or both: off,on (needs root and the module msr)
    ///
    /// The previous state is restored at the end. After a crash, numaio undo restores it.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub prefetchers: Vec<Prefetchers>,
    /// Measure only the row and the column of this node; can be repeated
    #[arg(long, short = 'k', value_name = "K", value_parser = node, help_heading = "Nodes and output")]
    pub node: Vec<NodeId>,
    /// Documents with the latency of the pairs, and for programs the STREAM bandwidth, for the
    /// scheduling factor; default: the newest saved ones
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Nodes and output")]
    pub with: Vec<PathBuf>,
    /// List every count with its source
    #[arg(long, conflicts_with = "json", help_heading = "Nodes and output")]
    pub counts: bool,
    /// Print the saved document as JSON
    #[arg(long, help_heading = "Nodes and output")]
    pub json: bool,
    /// Do not save the measurement
    #[arg(long, help_heading = "Nodes and output")]
    pub no_save: bool,
    #[command(flatten)]
    pub stop: StopArgs,
    #[command(flatten)]
    pub load: LoadArgs,
}

const AFTER_HELP: &str = "\
Examples:
  numaio counters --stream triad --threads 1,2,4,8
  numaio counters --pairs -- ./solver input.dat
  numaio counters -p 4711 --seconds 30
  numaio counters --copy --prefetchers off,on      as root

Exit status: 0 success; 1 nothing was measured; 2 wrong usage; 127 the program does not exist;
130 interrupted (complete measurements are kept).";

/// State of the hardware prefetchers during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Prefetchers {
    Off,
    On,
}

/// Runs `numaio counters`.
pub fn run(common: &Common, args: &CountersArgs) -> Result<ExitCode, Failure> {
    let with = documents::read_of_one_machine(&args.with)?;
    let machine = measuring::pick(common)?;
    let topology = discover(&machine);
    let options = options(args, &machine, machine.time())?;
    let fingerprint = &topology.identity.fingerprint;
    if let Some((path, document)) = with.first() {
        documents::check_host(path, document, &topology.identity)?;
    }
    let keep = measuring::should_save(&machine, args.no_save, Kind::Counters, fingerprint)?;
    let paused = pause(common, args.stop.pause_balancing, &machine, fingerprint)?;
    let mut record = measure(common, args, &machine, &topology, &options)?;
    drop(paused);
    let sources = FactorSources::find(common, &machine, &topology, with);
    record.factors = scheduling_factors(&record, sources.latency.as_ref(), sources.stream.as_ref());
    let saved = keep.then(|| measuring::save(common, Kind::Counters, &record.provenance, &record, &topology));
    output::print(&match args.json {
        true => json(&record)?,
        false => numaio_report::counters_text(&record, args.counts, &output::style(common)),
    })?;
    measuring::exit(saved)
}

fn options(args: &CountersArgs, machine: &Machine, seed: u64) -> Result<CounterOptions, Failure> {
    let subject = match (&args.pid, args.copy, args.command.as_slice()) {
        (Some(pid), ..) => CountedSubject::Process { pid: *pid, name: process_name(machine, *pid)? },
        (None, true, _) => CountedSubject::Copy { copy_loop: CopyLoop::Memcpy },
        (None, false, []) => CountedSubject::Stream {
            op: args.stream.unwrap_or(StreamOp::Copy),
            stream_loop: StreamLoop::Ordinary,
        },
        (None, false, command) => CountedSubject::Program { command: command.to_vec() },
    };
    let is_program = matches!(subject, CountedSubject::Program { .. });
    if is_program && !args.pairs && !(args.threads.is_empty() && args.node.is_empty()) {
        return Err(Failure::usage("--threads and --node bind the program, which requires --pairs"));
    }
    Ok(CounterOptions {
        run_limit_s: if args.pid.is_some() { args.seconds } else { args.run_limit },
        subject,
        threads: args.threads.clone(),
        pairs: args.pairs,
        around: args.node.iter().copied().collect(),
        pages: Pages::Transparent,
        prefetchers: None,
        rule: measuring::rule(&args.stop, seed),
    })
}

fn process_name(machine: &Machine, pid: u32) -> Result<String, Failure> {
    let process = process::threads(machine, pid);
    process.map(|process| process.name).map_err(|why| Failure::process("count", pid, &why))
}

/// Measures once, or once for each state of the prefetchers.
fn measure(
    common: &Common,
    args: &CountersArgs,
    machine: &Machine,
    topology: &Topology,
    options: &CounterOptions,
) -> Result<CounterRecord, Failure> {
    let load = args.load.at_once()?;
    let setting = MeasuredMachine::under(machine, topology, &load);
    let mut record: Option<CounterRecord> = None;
    let mut add = |other: CounterRecord| match &mut record {
        None => record = Some(other),
        Some(record) => {
            record.cells.extend(other.cells);
            record.method.rounds.elapsed_s += other.method.rounds.elapsed_s;
            record.provenance.complete &= other.provenance.complete;
            record.provenance.conditions.1 = other.provenance.conditions.1;
            record.provenance.warnings.extend(other.provenance.warnings);
        }
    };
    if args.prefetchers.is_empty() {
        let measured = measuring::measure_counters(common, setting.clone(), machine.time(), options);
        add(measured.map_err(|failure| replay_hint(machine, failure))?);
    }
    for state in &args.prefetchers {
        let kernel = machine.kernel().ok_or_else(|| {
            Failure::usage("--prefetchers changes this machine, and cannot be combined with --machine")
        })?;
        let changed = set_prefetchers(common, kernel, topology, *state)?;
        let options = CounterOptions { prefetchers: Some(*state == Prefetchers::On), ..options.clone() };
        add(measuring::measure_counters(common, setting.clone(), machine.time(), &options)?);
        drop(changed);
    }
    record.ok_or_else(|| Failure::new("nothing was measured"))
}

fn replay_hint(machine: &Machine, failure: Failure) -> Failure {
    match machine.is_live() {
        true => failure,
        false => failure.hint("a tape contains only counted runs with the same workload and threads"),
    }
}

const PREFETCHERS: TemporarySetting = TemporarySetting {
    receipt: "prefetchers",
    busy: (
        "another run of numaio has changed hardware prefetchers, and will restore them",
        "wait until it ends, or omit --prefetchers",
    ),
    restored: "restored hardware prefetchers, which a killed run had changed",
    permission_hint: "run as root, or omit --prefetchers",
};

/// Sets the prefetchers of all usable CPUs until the result is dropped.
fn set_prefetchers<'a>(
    common: &'a Common,
    kernel: &'a Kernel,
    topology: &Topology,
    state: Prefetchers,
) -> Result<TemporaryChange<'a>, Failure> {
    let online = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id);
    let plan = || {
        let mut changes = Vec::new();
        for cpu in online {
            let (disabled, all) = kernel.prefetchers(cpu).map_err(register_failure)?;
            let wanted = if state == Prefetchers::Off { all } else { 0 };
            let [change, inverse] = [wanted, disabled].map(|disabled| Change::Prefetchers { cpu, disabled });
            changes.extend((wanted != disabled).then_some(AppliedChange { change, inverse }));
        }
        Ok(changes)
    };
    TemporaryChange::begin(common, kernel, &topology.identity.fingerprint, &PREFETCHERS, plan)
}

fn register_failure(error: ControlError) -> Failure {
    let hint = match &error {
        ControlError::Denied { .. } => PREFETCHERS.permission_hint,
        _ => "load the module with modprobe msr; virtual machines rarely have these registers",
    };
    Failure::new(&error).hint(hint)
}

/// Documents for scheduling factors.
#[derive(Default)]
struct FactorSources {
    latency: Option<LatencyRecord>,
    stream: Option<StreamRecord>,
}

impl FactorSources {
    /// Takes the given documents, else the newest saved ones, else the latency of a tape.
    fn find(common: &Common, machine: &Machine, topology: &Topology, with: Vec<(PathBuf, Document)>) -> Self {
        let mut found = Self::default();
        with.into_iter().for_each(|(_, document)| found.add(document));
        if machine.is_live() {
            for kind in [Kind::Latency, Kind::Stream] {
                let newest = documents::saved(common, kind, &topology.identity).next();
                newest.and_then(|path| documents::read(&path).ok()).into_iter().for_each(|it| found.add(it));
            }
        } else if found.latency.is_none() {
            let setting = MeasuredMachine::idle(machine, topology);
            let rule = Rule { seed: machine.time(), ..Rule::default() };
            let options = LatencyOptions { rule, ..LatencyOptions::default() };
            found.latency =
                measuring::measure_latency(&Common::silent(), setting, machine.time(), &options).ok();
        }
        found
    }

    /// Keeps the first document of each kind.
    fn add(&mut self, document: Document) {
        match document {
            Document::Latency(record) => drop(self.latency.get_or_insert(*record)),
            Document::Stream(record) => drop(self.stream.get_or_insert(*record)),
            _ => {}
        }
    }
}

fn stream_op(text: &str) -> Result<StreamOp, String> {
    let names = StreamOp::ALL.map(StreamOp::name).join(", ");
    let found = StreamOp::ALL.into_iter().find(|op| op.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}
