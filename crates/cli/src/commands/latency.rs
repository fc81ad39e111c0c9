//! `numaio latency`: latency between CPU nodes and memory nodes, idle and under load.

use super::matrix::MatrixArgs;
use super::measuring::{self, MeasuredMachine};
use crate::balancing::pause;
use crate::failure::Failure;
use crate::load_args::LoadArgs;
use crate::options::{Common, RoundsArgs};
use crate::output;
use crate::output::json;
use crate::store::Kind;
use clap::Args;
use numaio_machine::discover::discover;
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_measure::{latency, LatencyOptions};
use numaio_model::latency_views;
use numaio_report::TextStyle;
use std::process::ExitCode;

/// Options of `numaio latency`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Also measure latency under load from the other cores of the node
    ///
    /// Measures from the CPUs of the nodes whose views are shown (--node, --device, --all) to every
    /// node with memory.
    #[arg(long)]
    pub loaded: bool,
    /// Distance of the chain's elements in bytes, a multiple of 64 up to 4096; prefetchers help at
    /// 64
    ///
    /// The chain has four times as many elements as the last-level cache has lines of 64 bytes, so
    /// the buffer takes 4 * cache * BYTES / 64 bytes, for example 8 GiB for a cache of 32 MiB and
    /// 4096 bytes. Time to initialize it is added to --time-limit.
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = stride, allow_negative_numbers = true)]
    pub stride: u32,
    #[command(flatten)]
    pub matrix: MatrixArgs,
    #[command(flatten)]
    pub rounds: RoundsArgs,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Runs `numaio latency`.
pub fn run(common: &Common, args: &LatencyArgs) -> Result<ExitCode, Failure> {
    let machine = measuring::pick(common)?;
    let topology = discover(&machine);
    let around = args.matrix.around(&topology)?;
    let targets = args.matrix.targets(&topology, &around);
    let options = LatencyOptions {
        around,
        loaded: if args.loaded { loaded_nodes(&targets, &topology.cpu_nodes()) } else { NodeSet::new() },
        stride_bytes: args.stride,
        pages: measuring::pages(&args.rounds),
        rule: measuring::rule(&args.rounds.stop, machine.time()),
    };
    if let Some((node, bytes)) = latency::largest(&topology, &options).filter(|_| machine.is_live()) {
        let bytes = format_size(bytes);
        let message = format!(
            "buffers of {bytes} take over a quarter of node {node}'s memory and long to fill; reduce --stride"
        );
        output::remark(common, &message);
    }
    let load = args.load.at_once()?;
    let setting = MeasuredMachine::under(&machine, &topology, &load);
    let fingerprint = &topology.identity.fingerprint;
    let keep = measuring::should_save(&machine, args.matrix.no_save, Kind::Latency, fingerprint)?;
    let paused = pause(common, args.rounds.stop.pause_balancing, &machine, fingerprint)?;
    let record = measuring::measure_latency(common, setting, machine.time(), &options)?;
    drop(paused);
    let saved = keep.then(|| measuring::save(common, Kind::Latency, &record.provenance, &record, &topology));
    let views = args.matrix.views(&topology, |subject| latency_views(&record, subject));
    let style = TextStyle { stats: args.matrix.stats, ..output::style(common) };
    output::print(&match args.matrix.json {
        true => json(&record)?,
        false => numaio_report::latency_text(&record, &views, &targets, &style),
    })?;
    measuring::exit(saved)
}

/// Returns the nodes whose paths are loaded: targets with CPUs, or all nodes with CPUs if no target
/// is known.
fn loaded_nodes(targets: &NodeSet, cpu_nodes: &NodeSet) -> NodeSet {
    if targets.is_empty() {
        cpu_nodes.clone()
    } else {
        targets.intersection(cpu_nodes)
    }
}

fn stride(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|bytes| (64..=4096).contains(bytes) && bytes % 64 == 0);
    number.ok_or_else(|| "expected a multiple of 64 from 64 to 4096".to_owned())
}
