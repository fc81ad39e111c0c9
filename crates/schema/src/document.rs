//! A stored document of any kind.

use crate::read::{parse, schema_of, unexpected, DocumentError};
use crate::schemas::{
    AGGREGATE_SCHEMA, COMPARISON_SCHEMA, COUNTERS_SCHEMA, FLEET_CHECK_SCHEMA, IO_SCHEMA, LATENCY_SCHEMA,
    MMIO_SCHEMA, MODEL_SCHEMA, PING_SCHEMA, PLACEMENT_SCHEMA, PLAN_PROBLEM_SCHEMA, PLAN_SCHEMA,
    PREDICTION_SCHEMA, RECEIPT_SCHEMA, RECORD_SCHEMA, STREAM_SCHEMA, SWEEP_SCHEMA, TOPOLOGY_SCHEMA,
    VALIDATION_SCHEMA, VIEW_SCHEMA,
};
use crate::{
    AggregateRecord, Comparison, CounterRecord, FleetCheck, IoPrediction, IoRecord, LatencyRecord,
    MmioRecord, Model, PingRecord, PlacementPlan, Plan, PlanProblem, Receipt, Record, StreamRecord,
    SweepRecord, TopologyDocument, Validation, View,
};

/// A stored document of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A topology.
    Topology(Box<TopologyDocument>),
    /// Measured copies.
    Record(Box<Record>),
    /// Bandwidth classes.
    Model(Box<Model>),
    /// Measured STREAM bandwidth.
    Stream(Box<StreamRecord>),
    /// Measured figures of a program.
    Sweep(Box<SweepRecord>),
    /// Counted events.
    Counters(Box<CounterRecord>),
    /// Measured latency.
    Latency(Box<LatencyRecord>),
    /// Measured I/O of a device.
    Io(Box<IoRecord>),
    /// Measured I/O of several devices at the same time.
    Aggregate(Box<AggregateRecord>),
    /// Measured latency of a network.
    Ping(Box<PingRecord>),
    /// Measured reads of a device's register.
    Mmio(Box<MmioRecord>),
    /// A view of a target.
    View(Box<View>),
    /// Views of a target, compared.
    Comparison(Box<Comparison>),
    /// The copy model compared with measured I/O.
    Validation(Box<Validation>),
    /// The predicted bandwidth of streams of several nodes.
    Prediction(Box<IoPrediction>),
    /// A placement of tasks.
    Placement(Box<PlacementPlan>),
    /// Applied changes.
    Receipt(Box<Receipt>),
    /// A planning problem.
    PlanProblem(Box<PlanProblem>),
    /// A plan: threads and bytes of each path of a transfer.
    Plan(Box<Plan>),
    /// Hosts of a fleet that differ from like hosts.
    FleetCheck(Box<FleetCheck>),
}

impl Document {
    /// Reads a document of any kind.
    ///
    /// # Errors
    /// If the text is not a known document; the error names the wrong field.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let schema = schema_of(text)?;
        Ok(match schema.as_str() {
            TOPOLOGY_SCHEMA => Self::Topology(parse(text)?),
            RECORD_SCHEMA => Self::Record(parse(text)?),
            MODEL_SCHEMA => Self::Model(parse(text)?),
            STREAM_SCHEMA => Self::Stream(parse(text)?),
            SWEEP_SCHEMA => Self::Sweep(parse(text)?),
            COUNTERS_SCHEMA => Self::Counters(parse(text)?),
            LATENCY_SCHEMA => Self::Latency(parse(text)?),
            IO_SCHEMA => Self::Io(parse(text)?),
            AGGREGATE_SCHEMA => Self::Aggregate(parse(text)?),
            PING_SCHEMA => Self::Ping(parse(text)?),
            MMIO_SCHEMA => Self::Mmio(parse(text)?),
            VIEW_SCHEMA => Self::View(parse(text)?),
            COMPARISON_SCHEMA => Self::Comparison(parse(text)?),
            VALIDATION_SCHEMA => Self::Validation(parse(text)?),
            PREDICTION_SCHEMA => Self::Prediction(parse(text)?),
            PLACEMENT_SCHEMA => Self::Placement(parse(text)?),
            RECEIPT_SCHEMA => Self::Receipt(parse(text)?),
            PLAN_PROBLEM_SCHEMA => Self::PlanProblem(parse(text)?),
            PLAN_SCHEMA => Self::Plan(parse(text)?),
            FLEET_CHECK_SCHEMA => Self::FleetCheck(parse(text)?),
            _ => return Err(unexpected(schema, "document of a machine or a measurement")),
        })
    }
}
