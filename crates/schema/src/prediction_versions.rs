//! Reading predictions of all versions. Version 1 had one cap in place of sharing models.

use crate::read::{parse, read, schema_of, DocumentError};
use crate::schemas::{PREDICTION_SCHEMA, PREDICTION_SCHEMA_1};
use crate::{
    Capacities, Estimate, IoEngine, IoPrediction, MixPrediction, NodeCapacity, SharingFit, SharingModel,
    SharingParameter, Warning,
};
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Identity;
use numaio_machine::workload::Direction;
use serde::Deserialize;

#[derive(Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub(crate) struct PredictionV1 {
    numaio: String,
    machine: Identity,
    measured_at: u64,
    capacities: CapacitiesV1,
    mix: Option<MixPrediction>,
    best: Option<MixPrediction>,
    warnings: Vec<Warning>,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
struct CapacitiesV1 {
    device: String,
    node: Option<NodeId>,
    engine: IoEngine,
    direction: Direction,
    operation: Option<String>,
    block_bytes: u64,
    nodes: Vec<NodeCapacity>,
    cap: Estimate,
    cap_source: CapSourceV1,
    link_bytes_per_s: Option<f64>,
    sharing: SharingV1,
}

#[derive(Deserialize, PartialEq)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum CapSourceV1 {
    Mix,
    AtLeast,
    Assumed,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "sharing", rename_all = "kebab-case")]
enum SharingV1 {
    MaxMin,
    Time { factor: f64 },
}

impl IoPrediction {
    /// Reads a prediction, also of version 1.
    ///
    /// # Errors
    /// If the text is not such a document.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        if schema_of(text)? == PREDICTION_SCHEMA_1 {
            return read_version_1(text);
        }
        read(text, PREDICTION_SCHEMA)
    }
}

/// Reads version 1 and converts it: the only rule of the device is a model with probability 1. The
/// number of measured mixes was not stored; it is 1 if there were any.
fn read_version_1(text: &str) -> Result<IoPrediction, DocumentError> {
    let old: PredictionV1 = parse(text)?;
    let (model, name, value) = match old.capacities.sharing {
        SharingV1::MaxMin => (SharingModel::Bytes, "cap", old.capacities.cap.bytes_per_s),
        SharingV1::Time { factor } => (SharingModel::TimeByStreams, "factor", factor),
    };
    let sharing = SharingFit {
        model,
        probability: 1.0,
        leave_one_out: None,
        parameters: vec![SharingParameter { name: name.to_owned(), value }],
        link_nodes: Vec::new(),
    };
    let CapacitiesV1 { device, node, engine, direction, operation, block_bytes, nodes, .. } = old.capacities;
    Ok(IoPrediction {
        schema: PREDICTION_SCHEMA.to_owned(),
        numaio: old.numaio,
        machine: old.machine,
        measured_at: old.measured_at,
        capacities: Capacities {
            device,
            node,
            engine,
            direction,
            operation,
            block_bytes,
            nodes,
            link_bytes_per_s: old.capacities.link_bytes_per_s,
            fitted_mixes: u32::from(old.capacities.cap_source != CapSourceV1::Assumed),
            sharing: vec![sharing],
        },
        mix: old.mix,
        best: old.best,
        loaded: None,
        suggested: None,
        warnings: old.warnings,
    })
}
