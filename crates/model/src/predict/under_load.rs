//! Bandwidth of a device's streams while STREAM threads load the memory of their node.
//!
//! Streams and threads share the memory of a node max-min fairly: a thread that demands less than
//! its share leaves the rest. Capacity, demand of a thread and weight of a stream come from I/O
//! that was measured under other loads; without it, the capacity is the STREAM bandwidth of the
//! node.

use super::capacities::{find_measured_mix, streams_alone, DeviceFit};
use super::curve;
use super::error::PredictError;
use super::mix_inputs::{estimate, known, merged, number};
use super::predict;
use numaio_machine::ids::NodeId;
use numaio_schema::{
    Capacities, Estimate, IoCell, IoRecord, Load, LoadBasis, LoadedPrediction, NodeCapacity, NodeStreams,
    NodeUnderLoad, Reading, StreamRecord, StreamsCapacity,
};
use std::collections::BTreeSet;

/// Share of the idle bandwidth below which a load counts as noticeable.
const NOTICEABLE: f64 = 0.97;
/// Bytes on the memory bus per byte that STREAM Copy counts with ordinary stores, which read each
/// line before they write it. Loads run this loop.
const BUS_BYTES_PER_BYTE: f64 = 1.5;
/// Range of the share of a stream as a multiple of that of a thread, if it was not measured: with
/// equal bytes on the bus, or with equal bytes as STREAM counts them.
const ASSUMED_WEIGHT: (f64, f64) = (1.0 / BUS_BYTES_PER_BYTE, 1.0);
/// Factor of a fair share from which a stream clearly has more.
const CLEARLY_MORE: f64 = 1.25;

/// Inputs of a prediction under load.
#[derive(Debug, Clone, Copy)]
pub struct LoadInputs<'a> {
    /// The loads: STREAM threads.
    pub loads: &'a [Load],
    /// The device's measurements under loads, newest first.
    pub loaded: &'a [&'a IoRecord],
    /// STREAM measurements without load, newest first.
    pub streams: &'a [StreamRecord],
}

/// A node's streams beside loads, as measured.
struct Observation {
    /// Whether the loads are the requested ones.
    is_requested: bool,
    /// Threads that use the node's memory.
    threads: f64,
    /// Bytes per second of these threads on the memory bus.
    bus_bytes_per_s: f64,
    streams: u32,
    left: Estimate,
}

impl Observation {
    fn bytes_per_thread(&self) -> f64 {
        self.bus_bytes_per_s / self.threads
    }
}

/// The memory of a node, which threads and streams share.
struct MemoryShare {
    /// Bytes per second.
    capacity: f64,
    /// The highest known use of a thread, in bytes per second.
    thread_demand: f64,
    regime: Regime,
    basis: LoadBasis,
    /// Relative half-width of the interval of the measurement under load.
    uncertainty: f64,
}

/// Bandwidth of streams in a measurement under load.
enum Regime {
    /// No measured load slowed the streams down.
    Unseen,
    /// Their share, while threads wanted more than theirs. A stream has `weight` times the share of
    /// a thread.
    Fair { threads: f64, weight: f64 },
    /// The bandwidth beside the threads.
    Rest { threads: f64, left: f64 },
}

/// Predicts a mix beside loads.
///
/// # Errors
/// As [`predict`]; [`PredictError::LoadUnknown`] if a node is loaded, and neither its STREAM
/// bandwidth nor I/O under another load was measured.
pub fn predict_under_load(
    fit: &DeviceFit,
    mix: &[NodeStreams],
    inputs: &LoadInputs,
) -> Result<LoadedPrediction, PredictError> {
    let streams = merged(mix);
    let nodes = known(&fit.capacities, &streams)?;
    let mut loaded_fit = fit.clone();
    let mut under_load = Vec::new();
    for (node, flow) in nodes.into_iter().zip(&streams) {
        let observations = observations(fit, node.node, inputs);
        under_load.push(left(node, flow.streams, &observations, inputs)?);
        let loaded = loaded_capacity(node, &[flow.streams, number(&streams)], &observations, inputs)?;
        if let Some(place) = loaded_fit.capacities.nodes.iter_mut().find(|place| place.node == node.node) {
            *place = loaded;
        }
    }
    let mix = predict(&loaded_fit, &streams)?;
    Ok(LoadedPrediction { loads: inputs.loads.to_vec(), nodes: under_load, mix })
}

/// Returns the kept bandwidth of a node by number of streams: the measured numbers, and `asked`.
fn loaded_capacity(
    node: &NodeCapacity,
    asked: &[u32],
    observations: &[Observation],
    inputs: &LoadInputs,
) -> Result<NodeCapacity, PredictError> {
    let measured = node.streams.iter().map(|capacity| capacity.streams);
    let numbers: BTreeSet<u32> = measured.chain(asked.iter().copied()).collect();
    let capacity = |streams: u32| {
        let estimate = left(node, streams, observations, inputs)?.loaded;
        Ok(StreamsCapacity { streams, estimate })
    };
    let streams = numbers.into_iter().map(capacity).collect::<Result<_, PredictError>>()?;
    // The mean of a class does not hold for a loaded member.
    Ok(NodeCapacity { class: None, streams, ..node.clone() })
}

/// Predicts what a node's streams keep, alone on the device.
fn left(
    node: &NodeCapacity,
    streams: u32,
    observations: &[Observation],
    inputs: &LoadInputs,
) -> Result<NodeUnderLoad, PredictError> {
    let idle = curve::at(node, streams);
    let done = |left, basis| Ok(NodeUnderLoad { node: node.node, unloaded: idle, loaded: left, basis });
    let threads = threads_on(node.node, inputs.loads);
    if threads == 0.0 {
        return done(idle, LoadBasis::Unloaded);
    }
    let same = |seen: &&Observation| seen.is_requested && seen.streams == streams;
    if let Some(seen) = observations.iter().find(same) {
        return done(seen.left, LoadBasis::Measured);
    }
    let share = MemoryShare::of(node, (streams, threads), observations, inputs)
        .ok_or(PredictError::LoadUnknown { node: node.node })?;
    done(share.left(idle, f64::from(streams), threads), share.basis)
}

impl MemoryShare {
    /// Fits the shares of a node's memory to what was measured; `None` if nothing was.
    fn of(
        node: &NodeCapacity,
        (streams, threads): (u32, f64),
        observations: &[Observation],
        inputs: &LoadInputs,
    ) -> Option<Self> {
        let stream = stream_bandwidth(node.node, inputs.streams);
        let demands = observations.iter().map(Observation::bytes_per_thread);
        let thread_demand = demands.chain(stream.map(|(bus, threads)| bus / threads)).fold(0.0, f64::max);
        let is_slowed = |seen: &&Observation| {
            seen.left.bytes_per_s < curve::at(node, seen.streams).bytes_per_s * NOTICEABLE
        };
        let distance = |seen: &&Observation| {
            let of_streams = (f64::from(seen.streams) / f64::from(streams)).ln().abs();
            of_streams + (seen.threads / threads).ln().abs()
        };
        let nearest =
            observations.iter().filter(is_slowed).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        if let Some(seen) = nearest {
            let (threads, left) = (seen.threads, seen.left.bytes_per_s);
            let weight = left / f64::from(seen.streams) / seen.bytes_per_thread();
            return Some(Self {
                capacity: left + seen.bus_bytes_per_s,
                thread_demand,
                // Streams with more than a fair share got what the threads left.
                regime: match weight > ASSUMED_WEIGHT.1 * CLEARLY_MORE {
                    true => Regime::Rest { threads, left },
                    false => Regime::Fair { threads, weight },
                },
                basis: LoadBasis::OtherLoads,
                uncertainty: (seen.left.high - seen.left.low) / 2.0 / left,
            });
        }
        let carried = observations.iter().map(|seen| seen.left.bytes_per_s + seen.bus_bytes_per_s);
        let capacity = carried.chain(stream.map(|(bus, _)| bus)).fold(0.0, f64::max);
        (capacity > 0.0).then_some(Self {
            capacity,
            thread_demand,
            regime: Regime::Unseen,
            basis: if observations.is_empty() { LoadBasis::Stream } else { LoadBasis::OtherLoads },
            uncertainty: 0.0,
        })
    }

    /// Returns the bandwidth of streams beside threads.
    fn left(&self, idle: Estimate, streams: f64, threads: f64) -> Estimate {
        let fair = |weight: f64| self.capacity * weight * streams / (weight * streams + threads);
        // An upper bound: threads that were slowed down demand more.
        let rest = self.capacity - threads * self.thread_demand;
        let assumed = (fair(ASSUMED_WEIGHT.0).max(rest), fair(ASSUMED_WEIGHT.1).max(rest));
        let middle = (assumed.0 * assumed.1).sqrt();
        let (value, low, high) = match self.regime {
            Regime::Unseen => (middle, assumed.0, assumed.1),
            Regime::Fair { threads: seen, weight } if threads < seen => {
                (fair(weight), fair(weight), rest.max(fair(weight)))
            }
            Regime::Fair { weight, .. } => (fair(weight), fair(weight), fair(weight)),
            Regime::Rest { threads: seen, left } if threads < seen => (assumed.1, left, assumed.1),
            // More threads may not demand more.
            Regime::Rest { left, .. } => (middle, assumed.0, left.max(assumed.1)),
        };
        let below = (idle.low / idle.bytes_per_s).min(1.0 - self.uncertainty);
        let above = (idle.high / idle.bytes_per_s).max(1.0 + self.uncertainty);
        let capped = |value: f64| value.min(idle.bytes_per_s);
        Estimate { bytes_per_s: capped(value), low: capped(low) * below, high: capped(high) * above }
    }
}

/// Returns the number of threads that use the memory of a node.
fn threads_on(node: NodeId, loads: &[Load]) -> f64 {
    let threads = loads.iter().map(|load| match load {
        Load::Stream { threads, memory_node, .. } if *memory_node == node => f64::from(*threads),
        _ => 0.0,
    });
    threads.sum()
}

/// Returns the measurements of a node's streams under loads on its memory.
fn observations(fit: &DeviceFit, node: NodeId, inputs: &LoadInputs) -> Vec<Observation> {
    let mut found = Vec::new();
    for record in inputs.loaded {
        let measured = &record.provenance.load;
        let loads: Vec<Load> = measured.iter().map(|load| load.load.clone()).collect();
        let is_stream = |load: &Load| matches!(load, Load::Stream { .. });
        let threads = threads_on(node, &loads);
        if threads == 0.0 || !loads.iter().all(is_stream) {
            continue;
        }
        for (streams, cell) in streams_alone(record, &fit.capacities, node) {
            let Some(bytes_per_s) = load_rate(node, &loads, cell) else { continue };
            let Some(left) = estimate(&cell.bytes_per_s).filter(|left| left.bytes_per_s > 0.0) else {
                continue;
            };
            found.push(Observation {
                is_requested: is_same(&loads, inputs.loads),
                threads,
                bus_bytes_per_s: bytes_per_s * BUS_BYTES_PER_BYTE,
                streams,
                left,
            });
        }
    }
    found
}

/// Returns the bytes per second of the loads on a node's memory beside a cell, as STREAM counts
/// them; `None` if they moved nothing.
fn load_rate(node: NodeId, loads: &[Load], cell: &IoCell) -> Option<f64> {
    let rates = loads.iter().zip(&cell.load_bytes_per_s);
    let on_node = rates.filter(|(load, _)| threads_on(node, std::slice::from_ref(load)) > 0.0);
    let sum: Option<f64> = on_node.map(|(_, rate)| rate.as_ref().map(|rate| rate.median)).sum();
    sum.filter(|rate| *rate > 0.0)
}

/// Returns whether a record was measured under exactly these loads, in any order.
pub fn is_under(record: &IoRecord, loads: &[Load]) -> bool {
    let measured: Vec<Load> = record.provenance.load.iter().map(|load| load.load.clone()).collect();
    is_same(&measured, loads)
}

/// Returns the bandwidth of a mix that was measured under exactly these loads.
pub fn find_mix_under_load<'a>(
    records: &[&'a IoRecord],
    capacities: &Capacities,
    mix: &[NodeStreams],
    loads: &[Load],
) -> Option<&'a Reading> {
    let under: Vec<&IoRecord> = records.iter().filter(|record| is_under(record, loads)).copied().collect();
    find_measured_mix(&under, capacities, mix)
}

fn is_same(a: &[Load], b: &[Load]) -> bool {
    let sorted = |loads: &[Load]| {
        let mut names: Vec<String> = loads.iter().map(Load::to_string).collect();
        names.sort();
        names
    };
    sorted(a) == sorted(b)
}

/// Returns a node's highest local STREAM bandwidth in bytes per second on the memory bus, with the
/// number of threads.
fn stream_bandwidth(node: NodeId, records: &[StreamRecord]) -> Option<(f64, f64)> {
    let of_record = |record: &StreamRecord| {
        let local = record.cells.iter().filter(|cell| cell.cpu_node == node && cell.memory_node == node);
        let on_bus = |cell: &numaio_schema::StreamCell| {
            let (_, stream_loop) = record.method.loops.iter().find(|(op, _)| *op == cell.op)?;
            let bus = f64::from(stream_loop.bus_bytes(cell.op)) / f64::from(cell.op.arrays());
            Some((cell.bytes_per_s.median()? * bus, cell.placement.cpus.len().max(1) as f64))
        };
        local.filter_map(on_bus).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    records.iter().find_map(of_record)
}
