//! `numaio model`: measure and class.

use super::{json, measure, options, Measured};
use crate::args::{Common, Format, ModelArgs, TargetArgs};
use crate::balancing::pause;
use crate::failure::{self, Failure};
use crate::machine::Machine;
use crate::{input, output, store};
use numaio_machine::see::see;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_measure::Options;
use numaio_model::Rule;
use numaio_schema::Model;
use std::process::ExitCode;

pub fn run(common: &Common, args: &ModelArgs) -> Result<ExitCode, Failure> {
    let rule = Rule { classes: args.rule(), level: args.level };
    if let Some(path) = &args.from {
        let text = input::text(path)?;
        let model = Model::from_json(&text).map_err(|error| failure::no_model(path, &text, &error))?;
        print(common, args, &numaio_model::refit(model, rule))?;
        return Ok(ExitCode::SUCCESS);
    }
    let machine = Machine::pick(common)?;
    if let Machine::Copied(_) = machine {
        return Err(Failure::usage("a copied tree of files can be seen and not measured").hint(
            "numaio topology --sysroot DIR shows it; numaio record makes a tape that holds measurements",
        ));
    }
    let topology = see(&machine);
    let targets = targets(common, &topology, &args.targets)?;
    let asked = Options {
        targets,
        directions: args.targets.direction.list(),
        ..options(&args.measuring, machine.time())
    };
    let setting = Measured { root: &machine, probe: &machine, topology: &topology, source: machine.source() };
    let fingerprint = &topology.identity.fingerprint;
    let save_it = machine.is_live() && !args.no_save;
    if save_it {
        store::check(store::Kind::Model, fingerprint)?;
    }
    let paused = pause(common, args.measuring.pause_balancing, &machine, fingerprint)?;
    let record = measure(common, setting, machine.time(), &asked)?;
    drop(paused);
    let interrupted = numaio_linux::interrupt::interrupted();
    let model = numaio_model::fit(record, &topology, rule);
    // What was measured is shown, even if it cannot be saved any more.
    let saved = if save_it { save(common, &model) } else { Ok(()) };
    print(common, args, &model)?;
    saved?;
    Ok(if interrupted { ExitCode::from(failure::INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn targets(common: &Common, topology: &Topology, args: &TargetArgs) -> Result<NodeSet, Failure> {
    if args.all {
        return Ok(topology.cpu_nodes());
    }
    let mut targets: NodeSet = args.node.iter().copied().collect();
    for device in &args.device {
        targets.insert(node_of_device(topology, device)?);
    }
    if targets.is_empty() {
        targets = topology.device_nodes();
    }
    if targets.is_empty() {
        output::remark(common, "no device's node is known here: every node with CPUs is a target");
        targets = topology.cpu_nodes();
    }
    Ok(targets)
}

fn node_of_device(topology: &Topology, name: &str) -> Result<numaio_machine::ids::NodeId, Failure> {
    let devices = || topology.devices.iter().filter(|device| device.moves_data());
    let Some(device) = devices().find(|device| device.answers_to(name)) else {
        let names: Vec<String> = devices().map(|device| device.name()).collect();
        let hint = if names.is_empty() {
            "no device was found here".into()
        } else {
            format!("there are {}", names.join(", "))
        };
        return Err(Failure::usage(format!("there is no device {name:?}")).hint(hint));
    };
    device.locality.node.ok_or_else(|| {
        Failure::new(format!("the kernel does not tell on which node {name} is"))
            .hint("choose the target by --node K; the board's manual tells which slot hangs on which socket")
    })
}

fn save(common: &Common, model: &Model) -> Result<(), Failure> {
    let record = &model.record;
    let path = store::save(
        store::Kind::Model,
        &record.provenance.machine.fingerprint,
        record.provenance.measured_at,
        &json(model)?,
    )?;
    output::remark(common, &format!("the model is saved in {}", path.display()));
    Ok(())
}

fn print(common: &Common, args: &ModelArgs, model: &Model) -> Result<(), Failure> {
    let format = if args.json { Format::Json } else { args.format };
    output::print(&match format {
        Format::Json => json(model)?,
        Format::Listing => numaio_report::model_listing(model),
        Format::Table => numaio_report::model_text(model, &output::style(common)),
    })
}
