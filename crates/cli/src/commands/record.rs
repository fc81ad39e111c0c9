//! `numaio record`: the machine and every measurement in one file.

use super::{measure, options, Measured};
use crate::args::{Common, RecordArgs};
use crate::balancing::pause;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::output;
use numaio_linux::interrupt;
use numaio_machine::see::see;
use numaio_machine::tape::{Recording, TapeHeader, TAPE_SCHEMA};
use numaio_machine::units::size_for_people;
use numaio_measure::Options;
use std::process::ExitCode;

pub fn run(common: &Common, args: &RecordArgs) -> Result<ExitCode, Failure> {
    let machine = Machine::pick(common)?;
    if let (Machine::Copied(_), false) = (&machine, args.no_measure) {
        return Err(Failure::usage("a copied tree of files can be seen and not measured")
            .hint("add --no-measure: the tape then holds the topology alone"));
    }
    output::check(&args.output)?;
    let (source, now) = (machine.source(), machine.time());
    let header = TapeHeader {
        tape: TAPE_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        name: args.name.clone().unwrap_or_default(),
        note: args.note.clone(),
        recorded_at: now,
    };
    let fingerprint = see(&machine).identity.fingerprint;
    let recording = Recording::new(machine, header);
    // Before the machine is seen, so that the tape holds the settings it was measured with.
    let paused = pause(common, args.measuring.pause_balancing, recording.machine(), &fingerprint)?;
    let topology = see(&recording);
    let mut measured = Ok(());
    if !args.no_measure {
        let asked =
            Options { targets: topology.cpu_nodes(), least_visits: 6, ..options(&args.measuring, now) };
        let machine = Measured { root: &recording, probe: &recording, topology: &topology, source };
        measured = measure(common, machine, now, &asked).map(drop);
    }
    drop(paused);
    let mut tape = recording.tape();
    if tape.header.name.is_empty() {
        tape.header.name = topology.identity.hostname.clone();
    }
    // What was recorded is kept, even if the measurements failed or were interrupted.
    let text = tape.to_text();
    let file = output::write(&args.output, &text)?;
    measured?;
    let size = size_for_people(text.len() as u64);
    let name = if file { args.output.display().to_string() } else { "the tape".to_owned() };
    output::remark(common, &format!("{name} holds {} runs, {size}", tape.runs.len()));
    Ok(if interrupt::interrupted() { ExitCode::from(failure::INTERRUPTED) } else { ExitCode::SUCCESS })
}
