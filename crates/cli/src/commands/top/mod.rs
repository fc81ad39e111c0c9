//! `numaio top`: live view of nodes, devices, programs and transfers.

mod args;
mod balance_advisor;
mod feed;
mod live;
mod move_offer;
mod recording;
mod sampler;
mod screen;
mod terminal;
mod undo_offer;
mod view;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::output;
pub use args::TopArgs;
use numaio_model::top::{arrange, ProgramFilter};
use numaio_schema::{TopRecording, TopSnapshot};
use sampler::Sampler;
use std::path::Path;
use std::process::ExitCode;

/// Runs `numaio top`.
pub fn run(common: &Common, args: &TopArgs) -> Result<ExitCode, Failure> {
    if let Some(recording) = replayed(common, args)? {
        return match args.once {
            true => print_last(common, args, &recording),
            false => live::replay(common, args, recording),
        };
    }
    let machine = Machine::pick(common)?;
    if !machine.is_live() {
        return Err(Failure::usage("a recorded machine has no running programs").hint(
            "numaio top --record FILE records running programs over time; numaio top --replay FILE shows them",
        ));
    }
    if let Some(path) = &args.record {
        return recording::record(Sampler::new(common, machine)?, args, path);
    }
    if !args.once {
        terminal::check()?;
        return live::observe(common, args, Sampler::new(common, machine)?);
    }
    let snapshot = Sampler::new(common, machine)?.sample_once(args.every);
    print(common, args, &snapshot)
}

/// Reads the recording of `--replay`, or of `--machine` if that is one.
fn replayed(common: &Common, args: &TopArgs) -> Result<Option<TopRecording>, Failure> {
    match (&args.replay, &common.machine) {
        (Some(_), Some(_)) => {
            Err(Failure::usage("--replay cannot be combined with --machine").hint("omit --machine"))
        }
        (Some(path), None) => recording::read(common, path).map(Some),
        (None, Some(name)) if recording::is_recording(Path::new(name)) && args.record.is_none() => {
            recording::read(common, Path::new(name)).map(Some)
        }
        _ => Ok(None),
    }
}

fn print_last(common: &Common, args: &TopArgs, recording: &TopRecording) -> Result<ExitCode, Failure> {
    match recording.snapshots.last() {
        Some(snapshot) => print(common, args, snapshot),
        None => Err(Failure::new("the recording has no samples")),
    }
}

fn print(common: &Common, args: &TopArgs, snapshot: &TopSnapshot) -> Result<ExitCode, Failure> {
    let filter = ProgramFilter::new(args.filter.as_deref().unwrap_or_default());
    let order = arrange(snapshot, args.sort.value(), &filter);
    let text = match args.json {
        true => {
            let programs = order.iter().map(|index| snapshot.programs[*index].clone()).collect();
            output::json(&TopSnapshot { programs, ..snapshot.clone() })?
        }
        false => numaio_report::top::top_text(snapshot, &order, &output::style(common)),
    };
    output::print(&text).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
