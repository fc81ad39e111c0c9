//! `numaio latency`: latency between CPU nodes and memory nodes, idle and under load.

use super::json;
use super::matrix::MatrixArgs;
use super::measuring::{self, MeasuredMachine};
use crate::args::{Common, RoundsArgs};
use crate::balancing::pause;
use crate::failure::Failure;
use crate::output;
use crate::store::Kind;
use clap::Args;
use numaio_machine::discover::discover;
use numaio_machine::set::NodeSet;
use numaio_machine::units::format_size;
use numaio_measure::{latency, LatencyOptions};
use numaio_model::latency_views;
use numaio_report::TextStyle;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Latency against bandwidth too, while the other cores of the node load the same path
    ///
    /// From the CPUs of the nodes that views are shown of (--node, --device, --all) to every node with memory.
    #[arg(long)]
    pub loaded: bool,
    /// Bytes from place to place of the chain, a multiple of 64 up to 4096; one line lets a prefetcher help
    ///
    /// The buffer holds four times the last-level cache in lines of 64 bytes, one at each place: it is 4 * cache * BYTES / 64
    /// large, as 8 GiB for a cache of 32 MiB and 4096 bytes. To lay it takes time beside --time-limit.
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = stride, allow_negative_numbers = true)]
    pub stride: u32,
    #[command(flatten)]
    pub matrix: MatrixArgs,
    #[command(flatten)]
    pub rounds: RoundsArgs,
}

pub fn run(common: &Common, args: &LatencyArgs) -> Result<ExitCode, Failure> {
    let machine = measuring::pick(common)?;
    let topology = discover(&machine);
    let around = args.matrix.around(&topology)?;
    let targets = args.matrix.targets(&topology, &around);
    let options = LatencyOptions {
        around,
        loaded: if args.loaded { loaded(&targets, &topology.cpu_nodes()) } else { NodeSet::new() },
        stride_bytes: args.stride,
        pages: measuring::pages(&args.rounds),
        rule: measuring::rule(&args.rounds, machine.time()),
    };
    if let Some((node, bytes)) = latency::largest(&topology, &options).filter(|_| machine.is_live()) {
        let bytes = format_size(bytes);
        let what = format!("buffers of {bytes} take more than a quarter of node {node}, and long to lay; a smaller --stride needs less");
        output::remark(common, &what);
    }
    let setting =
        MeasuredMachine { root: &machine, probe: &machine, topology: &topology, source: machine.source() };
    let fingerprint = &topology.identity.fingerprint;
    let keep = measuring::should_save(&machine, args.matrix.no_save, Kind::Latency, fingerprint)?;
    let paused = pause(common, args.rounds.pause_balancing, &machine, fingerprint)?;
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

/// Nodes whose paths are loaded: the targets that have CPUs, and every node with CPUs if no device's is known.
fn loaded(targets: &NodeSet, cpu_nodes: &NodeSet) -> NodeSet {
    if targets.is_empty() {
        cpu_nodes.clone()
    } else {
        targets.intersection(cpu_nodes)
    }
}

fn stride(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|bytes| (64..=4096).contains(bytes) && bytes % 64 == 0);
    number.ok_or_else(|| format!("{text:?} is no multiple of 64 from 64 to 4096"))
}
