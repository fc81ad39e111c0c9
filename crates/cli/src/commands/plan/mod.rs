//! `numaio plan`: threads and bytes of a transfer on the nodes of an end system, proven best.

use super::{json, placing};
use crate::args::{node, seconds, Common};
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::store::{self, Kind};
use crate::{documents, input, output};
use clap::{Args, ValueEnum};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::see::see;
use numaio_machine::topology::Topology;
use numaio_machine::units::parse_size;
use numaio_model::{Near, PlanOptions, PlanRequest, Refused};
use numaio_schema::{
    Document, IoRecord, Model, Objective, Plan, PlanMethod, PlanNic, PlanProblem, PlanStorage, Transfer,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Storage, and the bytes to send from it or to receive onto it, as in nvme0n1=2TB or /data=500G; may be repeated
    #[arg(long, value_name = "HANDLE=SIZE", value_parser = data, required_unless_present = "file")]
    pub data: Vec<(Handle, u64)>,
    /// NICs by which the data goes: eth0, or host:NAME for the way to a machine
    #[arg(long, value_name = "HANDLE", value_delimiter = ',', required_unless_present = "file")]
    pub nic: Vec<Handle>,
    /// Data arrives, in place of leaving
    #[arg(long)]
    pub receive: bool,
    /// Data leaves; the default
    #[arg(long, conflicts_with = "receive")]
    pub send: bool,
    /// What is to be least: time of the slowest stage, or sum as the dissertation prints it
    #[arg(long, value_name = "WHAT", default_value = "time")]
    pub objective: Least,
    /// Threads of both kinds on each node; without it as many as it has cores
    #[arg(long, value_name = "C")]
    pub threads_per_node: Option<u32>,
    /// Nodes on which no thread may run
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = node)]
    pub no_threads_on: Vec<NodeId>,
    /// Cores kept free on a node, as for interrupts: NODE:CORES
    #[arg(long, value_name = "K:N", value_delimiter = ',', value_parser = reserve)]
    pub reserve: Vec<(NodeId, u32)>,
    /// Bytes per second that one thread moves where its device was not measured, as in 1.5GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub thread_bandwidth: Option<u64>,
    /// Bytes per second that a device can move, where it does not tell or tells wrong, as in eth0=12.5GB
    #[arg(long, value_name = "DEV=SIZE", value_parser = capacity)]
    pub capacity: Vec<(String, u64)>,
    /// Any problem, of any machine, as TOML or JSON (docs/planning.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "nic", "receive", "send", "threads_per_node", "no_threads_on", "reserve", "thread_bandwidth", "capacity"])]
    pub file: Option<PathBuf>,
    /// How to solve it; both proves it twice
    #[arg(long, value_name = "METHOD", default_value = "divide")]
    pub method: Method,
    /// Stop after so many seconds with the best plan so far and its proven gap
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<f64>,
    /// Print the problem and do not solve it; numaio plan --file takes it
    #[arg(long)]
    pub problem: bool,
    /// Print JSON: a plan for numaio run --plan
    #[arg(long)]
    pub json: bool,
    /// Write into FILE in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Least {
    Time,
    Sum,
}

/// How a problem is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Divide and conquer over thread counts
    Divide,
    /// One mixed-integer programme
    Mixed,
    /// Both, which must agree
    Both,
}

pub fn run(common: &Common, args: &PlanArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let problem = match &args.file {
        Some(path) => read(path)?,
        None => of_machine(common, args)?,
    };
    let text = if args.problem {
        json(&problem)?
    } else {
        let plan = solve(&problem, args)?;
        match args.json {
            true => json(&plan)?,
            false => numaio_report::plan_text(&plan, &output::style(common)),
        }
    };
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ())?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn solve(problem: &PlanProblem, args: &PlanArgs) -> Result<Plan, Failure> {
    let by = |method| {
        let time_limit = args.time_limit.map(Duration::from_secs_f64);
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        numaio_model::plan(problem, &PlanOptions { method, time_limit, workers }).map_err(refused)
    };
    match args.method {
        Method::Divide => by(PlanMethod::Divide),
        Method::Mixed => by(PlanMethod::Mixed),
        Method::Both => {
            let (plan, other) = (by(PlanMethod::Divide)?, by(PlanMethod::Mixed)?);
            let (one, two) = (plan.proof.value_s, other.proof.value_s);
            if plan.proof.optimal && other.proof.optimal && (one - two).abs() > SAME * one.max(two) {
                return Err(Failure::new(format!("the methods do not agree: {one} s and {two} s"))
                    .hint("this is a defect of numaio: please report it with --problem's output"));
            }
            Ok(plan)
        }
    }
}

/// Both methods stop within a millionth of the optimum.
const SAME: f64 = 3e-6;

fn refused(why: Refused) -> Failure {
    let failure = Failure::new(&why);
    match why {
        Refused::NoData => failure.hint("give storage with its bytes, as in --data nvme0n1=2TB"),
        Refused::TooFewThreads(_) | Refused::TooFewThreadsInAll { .. } => {
            failure.hint("allow more by --threads-per-node, or fewer nodes without threads")
        }
        Refused::NoWay { .. } => {
            failure.hint("name a NIC that these nodes reach by --nic, or allow threads on more nodes")
        }
        _ => failure,
    }
}

/// A problem that someone wrote.
fn read(path: &Path) -> Result<PlanProblem, Failure> {
    let text = input::text(path)?;
    if path.extension().is_some_and(|extension| extension == "toml") {
        return toml::from_str(&text).map_err(|error| {
            Failure::file(path, error.to_string().trim_end()).hint("docs/planning.md shows a problem in TOML")
        });
    }
    PlanProblem::from_json(&text).map_err(|error| failure::no_document(path, &text, &error))
}

/// The problem of this machine, or a recorded one.
fn of_machine(common: &Common, args: &PlanArgs) -> Result<PlanProblem, Failure> {
    let machine = Machine::pick(common)?;
    let topology = see(&machine);
    let mut storage: Vec<PlanStorage> = Vec::new();
    for (handle, bytes) in &args.data {
        let devices = placing::devices(&machine, &topology, handle)?;
        let counted = devices.len() as u64;
        for (index, device) in devices.iter().enumerate() {
            let rest = if index == 0 { bytes % counted } else { 0 };
            let bytes = bytes / counted + rest;
            let (device, node, bytes_per_s) = known(args, device)?;
            match storage.iter_mut().find(|it| it.device == device) {
                Some(it) => it.bytes = it.bytes.saturating_add(bytes),
                None => storage.push(PlanStorage { device, node, bytes, bytes_per_s }),
            }
        }
    }
    let mut nics: Vec<PlanNic> = Vec::new();
    for handle in &args.nic {
        for device in placing::devices(&machine, &topology, handle)? {
            let (device, node, bytes_per_s) = known(args, &device)?;
            if !nics.iter().any(|nic| nic.device == device) {
                nics.push(PlanNic { device, node, bytes_per_s });
            }
        }
    }
    let request = PlanRequest {
        direction: if args.receive { Transfer::Receive } else { Transfer::Send },
        objective: if args.objective == Least::Sum { Objective::Sum } else { Objective::Time },
        threads_per_node: args.threads_per_node,
        no_threads_on: args.no_threads_on.clone(),
        reserved: args.reserve.clone(),
        storage,
        nics,
        thread_bytes_per_s: args.thread_bandwidth.map(|rate| rate as f64),
    };
    let models = placing::models(common, &machine, &topology, None)?;
    let models: Vec<&Model> = models.iter().collect();
    let measured = measured(common, &topology);
    let measured: Vec<&IoRecord> = measured.iter().collect();
    numaio_model::plan_problem(&topology, request, &models, &measured).map_err(|unknown| {
        Failure::new(&unknown).hint(format!(
            "give it by --capacity {}=SIZE (bytes per second), or measure it by numaio bench",
            unknown.0
        ))
    })
}

/// What must be known of a device: its node, and how much it can move.
fn known(args: &PlanArgs, device: &Near) -> Result<(String, NodeId, Option<f64>), Failure> {
    let node = device.node.ok_or_else(|| {
        Failure::new(format!("the node of {} is not known", device.device))
            .hint("write the problem down (--problem shows the form), and give it by --file")
    })?;
    let given = args.capacity.iter().find(|(name, _)| *name == device.device);
    let bytes_per_s = given.map(|(_, rate)| *rate as f64).or(device.bytes_per_s);
    Ok((device.device.clone(), node, bytes_per_s))
}

/// I/O that was measured on this machine, the newest first.
fn measured(common: &Common, topology: &Topology) -> Vec<IoRecord> {
    let read = |path: PathBuf| match documents::read(&path) {
        Ok(Document::Io(record)) => Some(*record),
        Ok(_) => None,
        Err(failure) => {
            output::remark(common, &format!("{} is passed over", failure.message));
            None
        }
    };
    store::saved(Kind::Io, &topology.identity.fingerprint).into_iter().filter_map(read).collect()
}

fn data(text: &str) -> Result<(Handle, u64), String> {
    let (handle, size) = text
        .rsplit_once('=')
        .ok_or_else(|| format!("{text:?} has no size; write it as nvme0n1=2TB or /data=500G"))?;
    Ok((
        handle.parse().map_err(|error: numaio_machine::near::BadHandle| error.to_string())?,
        parse_size(size)?,
    ))
}

fn capacity(text: &str) -> Result<(String, u64), String> {
    let (name, size) =
        text.rsplit_once('=').ok_or_else(|| format!("{text:?} has no size; write it as eth0=12.5GB"))?;
    Ok((name.to_owned(), parse_size(size)?))
}

fn reserve(text: &str) -> Result<(NodeId, u32), String> {
    let wrong = || format!("{text:?} is no NODE:CORES, as in 0:2");
    let (node, cores) = text.split_once(':').ok_or_else(wrong)?;
    Ok((NodeId(node.parse().map_err(|_| wrong())?), cores.parse().map_err(|_| wrong())?))
}
