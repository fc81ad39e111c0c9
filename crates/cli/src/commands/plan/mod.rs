//! `numaio plan`: optimal distribution of a transfer's threads and bytes over nodes.

mod file;
mod machine;
mod simulate;
mod sizes;

use crate::failure::Failure;
use crate::options::{integer, node, seconds, Common};
use crate::output;
use crate::output::json;
use clap::{Args, ValueEnum};
use numaio_machine::ids::NodeId;
use numaio_machine::near::Handle;
use numaio_machine::units::parse_size;
use numaio_model::{PlanError, PlanOptions};
use numaio_schema::{Objective, Plan, PlanMethod, PlanProblem, Proof};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `numaio plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Storage and its bytes to send or receive, for example nvme0n1=2TB or /data=500G; may be
    /// repeated
    #[arg(long, value_name = "HANDLE=SIZE", value_parser = sizes::data, required_unless_present = "file")]
    pub data: Vec<(Handle, u64)>,
    /// NICs of the transfer: eth0, or host:NAME for the route to a host
    #[arg(long, value_name = "HANDLE", value_delimiter = ',', required_unless_present = "file")]
    pub nic: Vec<Handle>,
    /// Plan the receiving side
    #[arg(long)]
    pub receive: bool,
    /// Plan the sending side (default)
    #[arg(long, conflicts_with = "receive")]
    pub send: bool,
    /// Value to minimize: time of the slowest stage (default), or sum, as in Li's dissertation
    #[arg(long, value_name = "WHAT")]
    pub objective: Option<ObjectiveArg>,
    /// Limit of threads per node, for storage and network together; default: its number of cores
    #[arg(long, value_name = "C", value_parser = integer(0..=u32::MAX))]
    pub threads_per_node: Option<u32>,
    /// Nodes without threads
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = node)]
    pub no_threads_on: Vec<NodeId>,
    /// Cores to keep free on a node, for example for interrupts: NODE:CORES
    #[arg(long, value_name = "K:N", value_delimiter = ',', value_parser = sizes::reserve)]
    pub reserve: Vec<(NodeId, u32)>,
    /// Bytes per second of one thread on devices that were not measured, for example 1.5GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub thread_bandwidth: Option<u64>,
    /// Bytes per second of a device that reports no or a wrong speed, for example eth0=12.5GB
    #[arg(long, value_name = "DEV=SIZE", value_delimiter = ',', value_parser = sizes::capacity)]
    pub capacity: Vec<(String, u64)>,
    /// Read the problem from FILE as TOML or JSON (docs/internals/planning.md); - for standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "sysroot", "data", "nic", "receive", "send", "threads_per_node", "no_threads_on", "reserve", "thread_bandwidth", "capacity"])]
    pub file: Option<PathBuf>,
    /// Solver; both runs both solvers and compares their results
    #[arg(long, value_name = "METHOD", default_value = "divide")]
    pub method: Method,
    /// Stop after this time with the best plan so far and its proven gap, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub time_limit: f64,
    /// Simulate the plan and its baselines chunk by chunk, and report the simulated times
    #[arg(long)]
    pub simulate: bool,
    /// Print the problem as JSON for numaio plan --file, and do not solve it
    #[arg(long, conflicts_with_all = ["simulate", "svg"])]
    pub problem: bool,
    /// Print JSON: a plan for numaio copy, run and place --plan
    #[arg(long)]
    pub json: bool,
    /// Write a drawing of the flows to FILE as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Value that a plan minimizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArg {
    /// Time of the slowest stage
    Time,
    /// Sum of the times, as in Li's dissertation
    Sum,
}

/// Solver of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Divide and conquer over thread counts
    Divide,
    /// One mixed-integer program
    Mixed,
    /// Both, whose results must agree
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

/// Runs `numaio plan`.
pub fn run(common: &Common, args: &PlanArgs) -> Result<ExitCode, Failure> {
    for path in args.output.iter().chain(&args.svg) {
        output::check(path)?;
    }
    let mut problem = match &args.file {
        Some(path) => file::read(path)?,
        None => machine::problem(common, args)?,
    };
    if let Some(objective) = args.objective {
        problem.objective = objective.objective();
    }
    let text = if args.problem { json(&problem)? } else { solve_and_render(common, args, &problem)? };
    match &args.output {
        Some(path) => output::write(path, &text).map(|_| ())?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Solves the problem, writes the drawing, and returns the plan as text or JSON.
fn solve_and_render(common: &Common, args: &PlanArgs, problem: &PlanProblem) -> Result<String, Failure> {
    let mut plan = solve(common, problem, args)?;
    if args.simulate {
        simulate::simulate(&mut plan).map_err(Failure::new)?;
    }
    if let Some(path) = &args.svg {
        if output::write(path, &numaio_report::plan_svg(&plan, common.unit))? {
            output::remark(common, &format!("wrote the drawing to '{}'", path.display()));
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
    let solve_by = |method| {
        let options = PlanOptions { method, time_limit, workers };
        numaio_model::plan(problem, &options).map_err(|error| plan_failure(args, error))
    };
    match args.method {
        Method::Divide => solve_by(PlanMethod::Divide),
        Method::Mixed => solve_by(PlanMethod::Mixed),
        Method::Both => {
            let (plan, other) = (solve_by(PlanMethod::Divide)?, solve_by(PlanMethod::Mixed)?);
            compare(common, &plan, &other)?;
            Ok(plan)
        }
    }
}

/// Relative tolerance of a comparison: each solver stops within a millionth of the optimum.
const TOLERANCE: f64 = 3e-6;

/// Compares the results of two solvers: neither may be better than the other's bound.
fn compare(common: &Common, plan: &Plan, other: &Plan) -> Result<(), Failure> {
    let (divide, mixed) = (&plan.proof, &other.proof);
    let contradicts = |a: &Proof, b: &Proof| a.value_s < b.bound_s * (1.0 - TOLERANCE);
    if contradicts(divide, mixed) || contradicts(mixed, divide) {
        let message = format!("the solvers disagree: {} s and {} s", divide.value_s, mixed.value_s);
        return Err(Failure::new(message)
            .hint("this is a bug in numaio: please report it with the output of --problem"));
    }
    let summary = match (divide.optimal, mixed.optimal) {
        (true, true) => "both solvers prove the same optimum".to_owned(),
        (_, false) => format!(
            "the mixed-integer solver reached the time limit with a gap of {:.2} %",
            mixed.gap * 100.0
        ),
        (false, true) => "only the mixed-integer solver proved its plan within the time limit".to_owned(),
    };
    output::remark(common, &summary);
    Ok(())
}

fn plan_failure(args: &PlanArgs, error: PlanError) -> Failure {
    let failure = match &args.file {
        Some(path) => {
            return Failure::file(path, &error)
                .hint("docs/internals/planning.md lists the requirements of a problem")
        }
        None => Failure::new(&error),
    };
    match error {
        PlanError::NoData => failure.hint("name storage with its bytes, for example --data nvme0n1=2TB"),
        PlanError::TooFewThreads(_) | PlanError::TooFewThreadsInAll { .. } => {
            failure.hint("raise --threads-per-node, or exclude fewer nodes by --no-threads-on")
        }
        PlanError::NoPath { .. } => {
            failure.hint("name a NIC by --nic that these nodes reach, or allow threads on more nodes")
        }
        PlanError::Contradiction { .. } => {
            failure.hint("--threads-per-node, --no-threads-on and --reserve limit the threads of a node")
        }
        _ => failure,
    }
}
