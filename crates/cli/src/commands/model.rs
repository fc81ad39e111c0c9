//! `numaio model`: measures bandwidth between nodes and classifies them.

use super::confirm;
use super::measuring::{self, measure, options, MeasuredMachine};
use super::{placement, tape_io};
use crate::balancing::pause;
use crate::device_arguments::node_of_device;
use crate::failure::{self, Failure};
use crate::load_args::LoadArgs;
use crate::options::{percent, Common, MeasuringArgs, TargetArgs};
use crate::output::json;
use crate::store::Kind;
use crate::{input, output};
use clap::{Args as ClapArgs, ValueEnum};
use numaio_machine::discover::discover;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_measure::Options;
use numaio_model::ClassOptions;
use numaio_report::TextStyle;
use numaio_schema::{ClassRule, MachineExpectation, Model};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `numaio model`.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Classes and output")]
pub struct ModelArgs {
    /// Rule that groups nodes into classes
    ///
    /// measured: the fewest groups whose members are all within the level of the group's best.
    /// paper: class 1 is the target and its package, the rest as measured (Li et al.).
    /// kmeans: exact k-means, K from 2 to the square root of half the nodes (Cbench).
    #[arg(long, value_name = "RULE", default_value = "measured", value_parser = ["measured", "paper", "kmeans"])]
    pub classes: String,
    /// Maximum distance of a class's members below its best, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent, allow_negative_numbers = true)]
    pub level: f64,
    /// Output format; listing is the paper's
    #[arg(long, value_name = "FORM", default_value = "table")]
    pub format: Format,
    /// Print the saved document as JSON; same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Classify a saved model again, without measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = MEASURING)]
    pub from: Option<PathBuf>,
    /// Then measure the devices of the targets with themselves, one node of each class
    ///
    /// Disks and GPUs; disks are only read. DEV selects devices; default: all that need no other
    /// host. Prints expected and measured bandwidth, and saves the measurement, which outranks the
    /// model from then on. On a terminal, numaio asks for it.
    #[arg(long, value_name = "DEV", num_args = 0.., conflicts_with_all = ["json", "format", "from", "load", "load_command"])]
    pub confirm: Option<Vec<String>>,
    /// Show visits, confidence interval and drift of every value
    #[arg(long, conflicts_with_all = ["json", "format"])]
    pub stats: bool,
    /// Do not save the model
    #[arg(long)]
    pub no_save: bool,
    #[command(flatten)]
    pub targets: TargetArgs,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Options without effect with `--from`.
const MEASURING: [&str; 17] = [
    "machine",
    "sysroot",
    "node",
    "device",
    "all",
    "direction",
    "threads",
    "hyper_threads",
    "copy_loop",
    "buffer",
    "hugepages",
    "precision",
    "time_limit",
    "repetitions",
    "pause_balancing",
    "load",
    "load_command",
];

/// Output format of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Listing,
    Json,
}

impl ModelArgs {
    /// Returns the class rule.
    pub fn rule(&self) -> ClassRule {
        // clap admits only the names of rules.
        self.classes.parse().unwrap_or_default()
    }
}

/// Runs `numaio model`.
pub fn run(common: &Common, args: &ModelArgs) -> Result<ExitCode, Failure> {
    let rule = ClassOptions { classes: args.rule(), level: args.level };
    if let Some(path) = &args.from {
        let text = input::read_text(path)?;
        let model = Model::from_json(&text).map_err(|error| failure::not_a_model(path, &text, &error))?;
        print(common, args, &numaio_model::refit(model, rule), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    let machine = measuring::pick(common)?;
    let topology = discover(&machine);
    let targets = targets(common, &topology, &args.targets)?;
    let devices = confirm::devices(&topology, args.confirm.as_deref().unwrap_or_default(), &targets)?;
    let options = Options {
        targets,
        directions: args.targets.direction.list(),
        ..options(&args.measuring, machine.time())
    };
    let load = args.load.at_once()?;
    let setting = MeasuredMachine::under(&machine, &topology, &load);
    let fingerprint = &topology.identity.fingerprint;
    let save = measuring::should_save(&machine, args.no_save, Kind::Model, fingerprint)?;
    let paused = pause(common, args.measuring.rounds.stop.pause_balancing, &machine, fingerprint)?;
    let record = measure(common, setting, machine.time(), &options)?;
    drop(paused);
    let model = numaio_model::fit(record, &topology, rule);
    let provenance = &model.record.provenance;
    let saved = save.then(|| measuring::save(common, Kind::Model, provenance, &model, &topology));
    let io = tape_io::measured(common, &machine, &topology)?;
    let mut expected = placement::expectation(&topology, std::slice::from_ref(&model), &io);
    expected.devices.retain(|of| of.node.is_some_and(|node| options.targets.contains(node)));
    print(common, args, &model, Some((&topology, &expected)))?;
    let can_ask = machine.is_live() && args.format == Format::Table && !args.json && load.is_empty();
    if args.confirm.is_some() || (can_ask && confirm::wants_confirmation(common, &topology, &devices)) {
        // A tape plays each run once.
        let machine = measuring::pick(common)?;
        confirm::confirm(common, (&machine, &topology), &model, &devices, save)?;
    }
    measuring::exit(saved)
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
        output::remark(common, "no device has a known NUMA node: all nodes with CPUs are targets");
        targets = topology.cpu_nodes();
    }
    Ok(targets)
}

/// Prints a model, as a table with what the nodes cost the devices of its targets. A model of a
/// file has no topology.
fn print(
    common: &Common,
    args: &ModelArgs,
    model: &Model,
    machine: Option<(&Topology, &MachineExpectation)>,
) -> Result<(), Failure> {
    let format = if args.json { Format::Json } else { args.format };
    output::print(&match format {
        Format::Json => json(model)?,
        Format::Listing => numaio_report::model_listing(model, machine.map(|(topology, _)| topology)),
        Format::Table => {
            let style = TextStyle { stats: args.stats, ..output::style(common) };
            let devices = machine.map(|(_, expected)| numaio_report::expectation_text(expected, &style));
            format!("{}{}", numaio_report::model_text(model, &style), devices.unwrap_or_default())
        }
    })
}
