//! `numaio run`: start any program in its place.

use super::json;
use super::placement::{self, PlacementArgs};
use crate::args::Common;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output;
use clap::Args;
use numaio_linux::launch::{
    become_program, exit_by_signal, BindingError, Program, ProgramBinding, ProgramExit, ProgramGroup,
};
use numaio_machine::discover::discover_quick;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::topology::Topology;
use numaio_place::PlacementWatch;
use numaio_schema::{PlacementPlan, TaskPlacement, Verification};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// As shells say it: the program is there and cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// As shells say it: there is no such program.
const NOT_FOUND: u8 = 127;
/// Time from the start to the first look of `--verify`; each look waits twice as long as the one before.
const FIRST_SAMPLE: Duration = Duration::from_millis(20);
/// Longest time between looks.
const MAX_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    #[command(flatten)]
    pub near: PlacementArgs,
    /// Places from a plan that numaio place --json or numaio plan --json wrote; - for standard input
    ///
    /// Of the plan of a transfer one program gets, on each memory node, as many cores as the plan runs threads there.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["near", "direction", "spread", "tasks", "cores", "hint", "needs", "model", "weights"])]
    pub plan: Option<PathBuf>,
    /// Say where the program runs, and why
    #[arg(long)]
    pub explain: bool,
    /// Watch the program while it runs, and report how much of its memory, CPU time and I/O was where the plan says
    #[arg(long)]
    pub verify: bool,
    /// With --verify: write what was seen as JSON into FILE
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub verify_json: Option<PathBuf>,
    /// The program and its arguments; with --tasks it is started so often, {task} being the number from 0
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Environment: with --tasks, also that of --plan, a program finds its number, from 0, in NUMAIO_TASK,
and how many there are in NUMAIO_TASKS.

Exit status: that of the program; of several that of the first that failed, by number. Where a
signal ended it numaio ends by that signal. 127 there is no such program; 126 it cannot be executed;
1 it was not started, or what --verify saw cannot be written; 2 wrong usage.";

pub fn run(common: &Common, args: &RunArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if !machine.is_live() {
        return Err(Failure::usage("a recorded machine cannot run programs")
            .hint("numaio place shows the places there; leave out --machine and --sysroot to run here"));
    }
    let topology = discover_quick(&machine);
    let plan = match &args.plan {
        Some(path) => placement::read(&machine, &topology, path)?,
        None => placement::plan(common, &machine, &topology, &args.near)?,
    };
    if args.explain {
        output::remark(common, &numaio_report::placement_text(&plan, true, &output::stderr_style(common)));
    }
    for compromise in &plan.compromises {
        output::remark(common, compromise);
    }
    let strict = args.near.strict || plan.request.strict;
    match (plan.tasks.as_slice(), args.verify) {
        ([task], false) => {
            let place = prepare(common, ProgramBinding::apply_here(&task.cpus, &task.memory, strict))?;
            let program = program(args, &plan, 0);
            Err(not_started(&program, &become_program(&program, &place)))
        }
        (tasks, _) => {
            let settled = |task: &TaskPlacement| {
                prepare(common, ProgramBinding::probe(&task.cpus, &task.memory, strict))
            };
            let places = tasks.iter().map(settled).collect::<Result<Vec<_>, _>>()?;
            supervise(common, args, &machine, &topology, &plan, &places)
        }
    }
}

/// What this kernel takes of a task's place; what it does otherwise is said.
fn prepare(
    common: &Common,
    settled: Result<ProgramBinding, BindingError>,
) -> Result<ProgramBinding, Failure> {
    let settled = settled.map_err(|why| {
        let failure = Failure::new(&why);
        match why {
            BindingError::Cpus { .. } => failure.hint("make the plan anew: CPUs or the cpuset have changed"),
            BindingError::Memory { .. } => failure.hint(
                "containers often forbid set_mempolicy by seccomp: allow it (docker: --cap-add SYS_NICE), or leave out --strict",
            ),
        }
    })?;
    settled.notes.iter().for_each(|note| output::remark(common, note));
    Ok(settled)
}

/// The program of one task: `{task}` in its arguments is the task's number.
fn program(args: &RunArgs, plan: &PlacementPlan, task: usize) -> Program {
    let number = task.to_string();
    let several = plan.request.tasks.is_some();
    let filled = |word: &OsString| match word.to_str().filter(|word| several && word.contains("{task}")) {
        Some(word) => word.replace("{task}", &number).into(),
        None => word.clone(),
    };
    let mut words = args.command.iter().map(filled);
    let env = [("NUMAIO_TASK", number.clone()), ("NUMAIO_TASKS", plan.tasks.len().to_string())];
    let env = env.map(|(name, value)| (name.to_owned(), value)).into_iter().filter(|_| several).collect();
    Program { name: words.next().unwrap_or_default(), args: words.collect(), env }
}

fn not_started(program: &Program, error: &io::Error) -> Failure {
    let name = program.name.to_string_lossy();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
    let why = match error.kind() {
        ErrorKind::NotFound => format!("{name}: there is no such program"),
        _ => format!("{name} cannot be executed: {error}"),
    };
    Failure { code, ..Failure::new(why) }
}

/// Starts all tasks, watches them if asked to, and waits for their ends.
fn supervise(
    common: &Common,
    args: &RunArgs,
    machine: &Machine,
    topology: &Topology,
    plan: &PlacementPlan,
    places: &[ProgramBinding],
) -> Result<ExitCode, Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot watch programs: {error}"));
    let mut team = ProgramGroup::new().map_err(cannot)?;
    let mut watch = args.verify.then(|| PlacementWatch::new(machine, plan, &topology.devices));
    let began = Instant::now();
    for (task, place) in places.iter().enumerate() {
        let program = program(args, plan, task);
        if let Err(error) = team.start(&program, place) {
            // Half of the tasks are of no use.
            team.signal(numaio_linux::launch::SIGTERM);
            while !team.running().is_empty() {
                team.wait(None).map_err(cannot)?;
            }
            return Err(not_started(&program, &error));
        }
    }
    let mut pause = FIRST_SAMPLE;
    let mut next = began + pause;
    while team.exits().contains(&None) {
        let left = next.saturating_duration_since(Instant::now());
        team.wait(watch.as_ref().map(|_| left)).map_err(cannot)?;
        if let Some(watch) = watch.as_mut().filter(|_| Instant::now() >= next) {
            sample(machine, watch, &team);
            pause = (pause * 2).min(MAX_PAUSE);
            next = Instant::now() + pause;
        }
    }
    if let Some(watch) = watch {
        report_verification(common, args, plan, &watch.finish(machine, began.elapsed()))?;
    }
    Ok(exit_code(common, &team.exits()))
}

fn sample(root: &dyn Sysfs, watch: &mut PlacementWatch, team: &ProgramGroup) {
    let running = team.running();
    let pids: Vec<Option<u32>> =
        team.pids().into_iter().map(|pid| Some(pid).filter(|pid| running.contains(pid))).collect();
    watch.sample(root, &pids, true);
}

fn report_verification(
    common: &Common,
    args: &RunArgs,
    plan: &PlacementPlan,
    seen: &Verification,
) -> Result<(), Failure> {
    if let Some(path) = &args.verify_json {
        output::write(path, &json(seen)?)?;
    }
    output::remark(common, &numaio_report::verification_text(plan, seen, &output::stderr_style(common)));
    Ok(())
}

/// As the program's own: of several the first that failed.
fn exit_code(common: &Common, ended: &[Option<ProgramExit>]) -> ExitCode {
    let failed = ended.iter().enumerate().filter(|(_, ended)| **ended != Some(ProgramExit::Status(0)));
    let failed: Vec<(usize, ProgramExit)> =
        failed.filter_map(|(task, ended)| Some((task, (*ended)?))).collect();
    if ended.len() > 1 {
        for (task, ended) in &failed {
            let how = match ended {
                ProgramExit::Status(status) => format!("with status {status}"),
                ProgramExit::Signal(signal) => format!("by signal {signal}"),
            };
            output::remark(common, &format!("task {task} ended {how}"));
        }
    }
    match failed.first() {
        None => ExitCode::SUCCESS,
        Some((_, ProgramExit::Status(status))) => ExitCode::from(*status),
        Some((_, ProgramExit::Signal(signal))) => {
            exit_by_signal(*signal);
            // Signals that end nobody by default come back.
            ExitCode::from(128u8.saturating_add(u8::try_from(*signal).unwrap_or(0)))
        }
    }
}
