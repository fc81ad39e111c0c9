//! `numaio plan`: threads and bytes of a transfer on the nodes of an end system, proven best.

mod file;
mod machine;
mod simulate;
mod sizes;

use super::json;
use crate::args::{node, seconds, Common};
use crate::failure::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::units::parse_size;
use numaio_model::{PlanError, PlanOptions};
use numaio_schema::{Objective, Plan, PlanMethod, PlanProblem};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Storage, and the bytes to send from it or to receive onto it, as in nvme0n1=2TB or /data=500G; may be repeated
    #[arg(long, value_name = "HANDLE=SIZE", value_parser = sizes::data, required_unless_present = "file")]
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
    /// What is to be least: time of the slowest stage (the default), or sum as Li's dissertation prints it
    #[arg(long, value_name = "WHAT")]
    pub objective: Option<ObjectiveArg>,
    /// Threads of both kinds on each node; without it as many as it has cores
    #[arg(long, value_name = "C")]
    pub threads_per_node: Option<u32>,
    /// Nodes on which no thread may run
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = node)]
    pub no_threads_on: Vec<NodeId>,
    /// Cores kept free on a node, as for interrupts: NODE:CORES
    #[arg(long, value_name = "K:N", value_delimiter = ',', value_parser = sizes::reserve)]
    pub reserve: Vec<(NodeId, u32)>,
    /// Bytes per second that one thread moves where its device was not measured, as in 1.5GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub thread_bandwidth: Option<u64>,
    /// Bytes per second that a device can move, where it does not tell or tells wrong, as in eth0=12.5GB
    #[arg(long, value_name = "DEV=SIZE", value_delimiter = ',', value_parser = sizes::capacity)]
    pub capacity: Vec<(String, u64)>,
    /// Any problem, of any machine, as TOML or JSON (docs/internals/planning.md); - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "sysroot", "data", "nic", "receive", "send", "threads_per_node", "no_threads_on", "reserve", "thread_bandwidth", "capacity"])]
    pub file: Option<PathBuf>,
    /// How to solve it; both proves it twice
    #[arg(long, value_name = "METHOD", default_value = "divide")]
    pub method: Method,
    /// Stop after so many seconds with the best plan so far and its proven gap
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub time_limit: f64,
    /// Carry the plan and the simple ones out in the simulator, chunk by chunk, and tell what they take there
    #[arg(long)]
    pub simulate: bool,
    /// Print the problem as JSON and do not solve it; numaio plan --file takes it
    #[arg(long, conflicts_with_all = ["simulate", "svg"])]
    pub problem: bool,
    /// Print JSON: a plan for numaio copy, run and place --plan
    #[arg(long)]
    pub json: bool,
    /// Draw the flows as SVG into FILE
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write into FILE in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArg {
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

impl ObjectiveArg {
    fn objective(self) -> Objective {
        match self {
            Self::Time => Objective::Time,
            Self::Sum => Objective::Sum,
        }
    }
}

pub fn run(common: &Common, args: &PlanArgs) -> Result<ExitCode, Failure> {
    for path in args.output.iter().chain(&args.svg) {
        output::check(path)?;
    }
    let mut problem = match &args.file {
        Some(path) => file::read(path)?,
        None => machine::problem(common, args)?,
    };
    if let Some(least) = args.objective {
        problem.objective = least.objective();
    }
    let text = if args.problem { json(&problem)? } else { solve_and_render(common, args, &problem)? };
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ())?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan as text or JSON; its drawing is written.
fn solve_and_render(common: &Common, args: &PlanArgs, problem: &PlanProblem) -> Result<String, Failure> {
    let mut plan = solve(common, problem, args)?;
    if args.simulate {
        simulate::simulate(&mut plan).map_err(Failure::new)?;
    }
    if let Some(path) = &args.svg {
        if output::write(path, &numaio_report::plan_svg(&plan, common.unit))? {
            output::remark(common, &format!("the drawing is in {}", path.display()));
        }
    }
    match args.json {
        true => json(&plan),
        false => Ok(numaio_report::plan_text(&plan, &output::style(common))),
    }
}

fn solve(common: &Common, problem: &PlanProblem, args: &PlanArgs) -> Result<Plan, Failure> {
    let time_limit = Duration::try_from_secs_f64(args.time_limit).ok();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let by = |method| {
        let options = PlanOptions { method, time_limit, workers };
        numaio_model::plan(problem, &options).map_err(|why| plan_failure(args, why))
    };
    match args.method {
        Method::Divide => by(PlanMethod::Divide),
        Method::Mixed => by(PlanMethod::Mixed),
        Method::Both => {
            let (plan, other) = (by(PlanMethod::Divide)?, by(PlanMethod::Mixed)?);
            compare(common, &plan, &other)?;
            Ok(plan)
        }
    }
}

/// Both methods stop within a millionth of the optimum.
const SAME: f64 = 3e-6;

/// Says whether two methods agree: neither is better than the other one's bound.
fn compare(common: &Common, plan: &Plan, other: &Plan) -> Result<(), Failure> {
    let (one, two) = (&plan.proof, &other.proof);
    if one.value_s < two.bound_s * (1.0 - SAME) || two.value_s < one.bound_s * (1.0 - SAME) {
        let what = format!("the methods do not agree: {} s and {} s", one.value_s, two.value_s);
        return Err(
            Failure::new(what).hint("this is a defect of numaio: please report it with --problem's output")
        );
    }
    let summary = match (one.optimal, two.optimal) {
        (true, true) => "both methods prove the same least value".to_owned(),
        (_, false) => format!(
            "the mixed-integer programme was stopped before it was proven, {:.2} % apart",
            two.gap * 100.0
        ),
        (false, true) => "only the mixed-integer programme proved its plan within the time limit".to_owned(),
    };
    output::remark(common, &summary);
    Ok(())
}

fn plan_failure(args: &PlanArgs, why: PlanError) -> Failure {
    let failure = match &args.file {
        Some(path) => {
            return Failure::file(path, &why)
                .hint("docs/internals/planning.md tells what a problem must hold to")
        }
        None => Failure::new(&why),
    };
    match why {
        PlanError::NoData => failure.hint("give storage with its bytes, as in --data nvme0n1=2TB"),
        PlanError::TooFewThreads(_) | PlanError::TooFewThreadsInAll { .. } => {
            failure.hint("allow more by --threads-per-node, or fewer nodes without threads")
        }
        PlanError::NoPath { .. } => {
            failure.hint("name a NIC that these nodes reach by --nic, or allow threads on more nodes")
        }
        PlanError::Contradiction { .. } => {
            failure.hint("--threads-per-node, --no-threads-on and --reserve say what a node may run")
        }
        _ => failure,
    }
}
