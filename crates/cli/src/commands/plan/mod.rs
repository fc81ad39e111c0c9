//! `numaio plan`: optimal distribution of a transfer's threads and bytes over nodes.

mod args;
mod file;
mod machine;
mod simulate;
mod sizes;

use crate::failure::Failure;
use crate::options::Common;
use crate::output;
use crate::output::json;
use args::Method;
pub use args::PlanArgs;
pub use file::parse_toml as parse_problem;
use numaio_model::{PlanError, PlanOptions};
use numaio_schema::{Plan, PlanMethod, PlanProblem, Proof};
use std::process::ExitCode;
use std::time::Duration;

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
