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
pub use args::PlanArgs;
pub use file::parse_toml as parse_problem;
use numaio_model::{PlanError, PlanOptions};
use numaio_schema::{Plan, PlanProblem};
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
    let mut plan = solve(problem, args)?;
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

fn solve(problem: &PlanProblem, args: &PlanArgs) -> Result<Plan, Failure> {
    let time_limit = Duration::try_from_secs_f64(args.time_limit).ok();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let options = PlanOptions { time_limit, workers };
    numaio_model::plan(problem, &options).map_err(|error| plan_failure(args, error))
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
