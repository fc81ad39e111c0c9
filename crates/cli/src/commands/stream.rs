//! `numaio stream`: bandwidth between CPU nodes and memory nodes.

use super::matrix::MatrixArgs;
use super::measuring::{self, MeasuredMachine};
use crate::balancing::pause;
use crate::failure::Failure;
use crate::load_args::LoadArgs;
use crate::options::{count, Common, RoundsArgs};
use crate::output;
use crate::output::json;
use crate::store::Kind;
use clap::Args;
use numaio_machine::discover::discover;
use numaio_machine::workload::{StreamLoop, StreamOp};
use numaio_measure::StreamOptions;
use numaio_model::stream_views;
use numaio_report::TextStyle;
use numaio_schema::StreamScope;
use std::process::ExitCode;

/// Options of `numaio stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Operation of STREAM: copy, scale, add, triad or all; or read or write alone
    ///
    /// Li et al. used copy. `read` and `write` are not operations of STREAM: they load or store one
    /// array, and show whether a path is slower in one direction. Bandwidth counts the bytes that a
    /// loop reads and writes, as STREAM does: two for each copied byte.
    #[arg(long, value_name = "OP", default_value = "copy", value_parser = ops)]
    pub op: Ops,
    /// Threads on each CPU node; default: one per core
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub threads: Option<u32>,
    /// Use one thread per hardware thread
    #[arg(long, conflicts_with = "threads")]
    pub hyper_threads: bool,
    /// Measure each core alone to every node, and compare the cores of a node
    #[arg(long, conflicts_with_all = ["threads", "hyper_threads"])]
    pub per_core: bool,
    /// Loop: ordinary, avx512, avx2 or stnp; default: the fastest for each operation
    #[arg(long, value_name = "LOOP", value_parser = stream_loop)]
    pub stream_loop: Option<StreamLoop>,
    #[command(flatten)]
    pub matrix: MatrixArgs,
    #[command(flatten)]
    pub rounds: RoundsArgs,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// The requested operations.
#[derive(Debug, Clone)]
pub struct Ops(Vec<StreamOp>);

/// Runs `numaio stream`.
pub fn run(common: &Common, args: &StreamArgs) -> Result<ExitCode, Failure> {
    let machine = measuring::pick(common)?;
    let topology = discover(&machine);
    let around = args.matrix.around(&topology)?;
    let targets = args.matrix.targets(&topology, &around);
    let options = StreamOptions {
        ops: args.op.0.clone(),
        around,
        scope: match (args.per_core, args.hyper_threads) {
            (true, _) => StreamScope::Core,
            (_, true) => StreamScope::HardwareThreads,
            _ => StreamScope::Node { threads: args.threads },
        },
        stream_loop: args.stream_loop,
        pages: measuring::pages(&args.rounds),
        rule: measuring::rule(&args.rounds.stop, machine.time()),
    };
    let load = args.load.at_once()?;
    let setting = MeasuredMachine::under(&machine, &topology, &load);
    let fingerprint = &topology.identity.fingerprint;
    let keep = measuring::should_save(&machine, args.matrix.no_save, Kind::Stream, fingerprint)?;
    let paused = pause(common, args.rounds.stop.pause_balancing, &machine, fingerprint)?;
    let record = measuring::measure_stream(common, setting, machine.time(), &options)?;
    drop(paused);
    let saved = keep.then(|| measuring::save(common, Kind::Stream, &record.provenance, &record, &topology));
    let views = args.matrix.views(&topology, |subject| stream_views(&record, subject));
    let style = TextStyle { stats: args.matrix.stats, ..output::style(common) };
    output::print(&match args.matrix.json {
        true => json(&record)?,
        false => numaio_report::stream_text(&record, &views, &targets, &style),
    })?;
    measuring::exit(saved)
}

fn ops(text: &str) -> Result<Ops, String> {
    if text == "all" {
        return Ok(Ops(StreamOp::STREAM.to_vec()));
    }
    let found = StreamOp::ALL.into_iter().find(|op| op.name() == text);
    found.map(|op| Ops(vec![op])).ok_or_else(|| {
        let names = StreamOp::ALL.map(StreamOp::name).join(", ");
        format!("expected one of {names}, all")
    })
}

fn stream_loop(text: &str) -> Result<StreamLoop, String> {
    let names = StreamLoop::ALL.map(StreamLoop::name).join(", ");
    let found = StreamLoop::ALL.into_iter().find(|stream_loop| stream_loop.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}
