//! `numaio run`: start of a program with its placement applied.

use super::placement::{self, PlacementArgs};
use crate::failure::{Failure, NOT_FOUND};
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
use crate::output::json;
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

/// Exit status, as in shells, if the program exists but cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// Time from the start to the first sample of `--verify`. The pause doubles after each sample.
const FIRST_SAMPLE: Duration = Duration::from_millis(20);
/// Longest pause between samples.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Arguments of `numaio run`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    #[command(flatten)]
    pub near: PlacementArgs,
    /// Read the plan from FILE, as written by numaio place --json or numaio plan --json; - for
    /// standard input
    ///
    /// A plan of a transfer becomes one program: on each memory node it gets a core for each thread
    /// of the plan.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["near", "direction", "spread", "tasks", "cores", "hint", "needs", "model", "weights"])]
    pub plan: Option<PathBuf>,
    /// Print where the program runs, and why
    #[arg(long)]
    pub explain: bool,
    /// Sample the program while it runs, and report the shares of its memory, CPU time and I/O that
    /// match the plan
    #[arg(long)]
    pub verify: bool,
    /// With --verify: write the result as JSON to FILE
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub verify_json: Option<PathBuf>,
    /// Program and its arguments; with --tasks, it is started for each task, and {task} is replaced
    /// by the task's number, starting at 0
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Environment: if the plan has tasks (--tasks), NUMAIO_TASK is the number of the task, starting at 0,
and NUMAIO_TASKS is the number of tasks.

Exit status: that of the program; of several tasks, that of the failed task with the lowest number.
If a signal terminated the program, numaio terminates by the same signal. 127: the program does not
exist; 126: it cannot be executed; 1: it was not started, or the result of --verify cannot be
written; 2: invalid usage.";

/// Runs `numaio run`.
pub fn run(common: &Common, args: &RunArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if !machine.is_live() {
        return Err(Failure::usage("a recorded machine cannot run programs")
            .hint("numaio place shows placements there; omit --machine and --sysroot to run here"));
    }
    let topology = discover_quick(&machine);
    let plan = match &args.plan {
        Some(path) => placement::read(&machine, &topology, path)?,
        None => placement::plan(common, &machine, &topology, &args.near)?,
    };
    if args.explain {
        output::remark_lines(
            common,
            &numaio_report::placement_text(&plan, true, &output::stderr_style(common)),
        );
    }
    for compromise in &plan.compromises {
        output::remark(common, compromise);
    }
    let strict = args.near.strict || plan.request.strict;
    match (plan.tasks.as_slice(), args.verify) {
        ([task], false) => {
            let binding = prepare(common, ProgramBinding::apply_here(&task.cpus, &task.memory, strict))?;
            let program = program(args, &plan, 0);
            Err(not_started(&program, &become_program(&program, &binding)))
        }
        (tasks, _) => {
            let probe = |task: &TaskPlacement| {
                prepare(common, ProgramBinding::probe(&task.cpus, &task.memory, strict))
            };
            let bindings = tasks.iter().map(probe).collect::<Result<Vec<_>, _>>()?;
            supervise(common, args, &machine, &topology, &plan, &bindings)
        }
    }
}

/// Returns the binding of a task as the kernel accepts it, and logs deviations.
fn prepare(
    common: &Common,
    binding: Result<ProgramBinding, BindingError>,
) -> Result<ProgramBinding, Failure> {
    let binding = binding.map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            BindingError::Cpus { .. } => {
                failure.hint("create the plan again: CPUs or the cpuset have changed")
            }
            BindingError::Memory { .. } => failure.hint(
                "containers often forbid set_mempolicy by seccomp: allow it (docker: --cap-add SYS_NICE), \
                 or omit --strict",
            ),
        }
    })?;
    binding.notes.iter().for_each(|note| output::remark(common, note));
    Ok(binding)
}

/// Returns the program of a task, with `{task}` in its arguments replaced by the task's number.
fn program(args: &RunArgs, plan: &PlacementPlan, task: usize) -> Program {
    let number = task.to_string();
    let has_tasks = plan.request.tasks.is_some();
    let substitute = |word: &OsString| match word.to_str().filter(|word| has_tasks && word.contains("{task}"))
    {
        Some(word) => word.replace("{task}", &number).into(),
        None => word.clone(),
    };
    let mut words = args.command.iter().map(substitute);
    let env = [("NUMAIO_TASK", number.clone()), ("NUMAIO_TASKS", plan.tasks.len().to_string())];
    let env = env.map(|(name, value)| (name.to_owned(), value)).into_iter().filter(|_| has_tasks).collect();
    Program { name: words.next().unwrap_or_default(), args: words.collect(), env }
}

fn not_started(program: &Program, error: &io::Error) -> Failure {
    let name = program.name.to_string_lossy();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
    let message = match error.kind() {
        ErrorKind::NotFound => format!("cannot execute '{name}': no such program"),
        _ => format!("cannot execute '{name}': {error}"),
    };
    Failure { code, ..Failure::new(message) }
}

/// Starts all tasks, samples them with `--verify`, and waits for their exits.
fn supervise(
    common: &Common,
    args: &RunArgs,
    machine: &Machine,
    topology: &Topology,
    plan: &PlacementPlan,
    bindings: &[ProgramBinding],
) -> Result<ExitCode, Failure> {
    let wait_failure = |error: io::Error| Failure::new(format!("cannot wait for programs: {error}"));
    let mut group = ProgramGroup::new().map_err(wait_failure)?;
    let mut watch = args.verify.then(|| PlacementWatch::new(machine, plan, &topology.devices));
    let started = Instant::now();
    for (task, binding) in bindings.iter().enumerate() {
        let program = program(args, plan, task);
        if let Err(error) = group.start(&program, binding) {
            // An incomplete set of tasks is useless.
            group.signal(numaio_linux::launch::SIGTERM);
            while !group.running().is_empty() {
                group.wait(None).map_err(wait_failure)?;
            }
            return Err(not_started(&program, &error));
        }
    }
    let mut pause = FIRST_SAMPLE;
    let mut next = started + pause;
    while group.exits().contains(&None) {
        let remaining = next.saturating_duration_since(Instant::now());
        group.wait(watch.as_ref().map(|_| remaining)).map_err(wait_failure)?;
        if let Some(watch) = watch.as_mut().filter(|_| Instant::now() >= next) {
            sample(machine, watch, &group);
            pause = (pause * 2).min(MAX_PAUSE);
            next = Instant::now() + pause;
        }
    }
    if let Some(watch) = watch {
        report_verification(common, args, plan, &watch.finish(machine, started.elapsed()))?;
    }
    Ok(exit_code(common, &group.exits()))
}

fn sample(root: &dyn Sysfs, watch: &mut PlacementWatch, group: &ProgramGroup) {
    let running = group.running();
    let pids: Vec<Option<u32>> =
        group.pids().into_iter().map(|pid| Some(pid).filter(|pid| running.contains(pid))).collect();
    watch.sample(root, &pids, true);
}

fn report_verification(
    common: &Common,
    args: &RunArgs,
    plan: &PlacementPlan,
    verification: &Verification,
) -> Result<(), Failure> {
    if let Some(path) = &args.verify_json {
        output::write(path, &json(verification)?)?;
    }
    output::remark(
        common,
        &numaio_report::verification_text(plan, verification, &output::stderr_style(common)),
    );
    Ok(())
}

/// Returns the exit status of the program; of several tasks, that of the first failed one.
fn exit_code(common: &Common, exits: &[Option<ProgramExit>]) -> ExitCode {
    let failed = exits.iter().enumerate().filter(|(_, exit)| **exit != Some(ProgramExit::Status(0)));
    let failed: Vec<(usize, ProgramExit)> =
        failed.filter_map(|(task, exit)| Some((task, (*exit)?))).collect();
    if exits.len() > 1 {
        for (task, exit) in &failed {
            let how = match exit {
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
            // Reached only for signals that do not terminate a process by default.
            ExitCode::from(128u8.saturating_add(u8::try_from(*signal).unwrap_or(0)))
        }
    }
}
