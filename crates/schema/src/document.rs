//! Any stored document, and why a text is none.

use crate::{
    Comparison, IoPrediction, IoRecord, LatencyRecord, Model, PlacementPlan, Plan, PlanProblem, Receipt,
    Record, StreamRecord, TopologyDocument, Validation, View,
};
use crate::{
    COMPARISON_SCHEMA, IO_SCHEMA, LATENCY_SCHEMA, MODEL_SCHEMA, PLACEMENT_SCHEMA, PLAN_PROBLEM_SCHEMA,
    PLAN_SCHEMA, PREDICTION_SCHEMA, RECEIPT_SCHEMA, RECORD_SCHEMA, STREAM_SCHEMA, TOPOLOGY_SCHEMA,
    VALIDATION_SCHEMA, VIEW_SCHEMA,
};
use serde::de::DeserializeOwned;

/// Schemas of all documents.
const SCHEMAS: [&str; 14] = [
    TOPOLOGY_SCHEMA,
    RECORD_SCHEMA,
    MODEL_SCHEMA,
    STREAM_SCHEMA,
    LATENCY_SCHEMA,
    IO_SCHEMA,
    VIEW_SCHEMA,
    COMPARISON_SCHEMA,
    VALIDATION_SCHEMA,
    PREDICTION_SCHEMA,
    PLACEMENT_SCHEMA,
    RECEIPT_SCHEMA,
    PLAN_PROBLEM_SCHEMA,
    PLAN_SCHEMA,
];

/// A stored document of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A machine as it was seen.
    Topology(Box<TopologyDocument>),
    /// Copies that were measured.
    Record(Box<Record>),
    /// Bandwidth classes.
    Model(Box<Model>),
    /// STREAM that was measured.
    Stream(Box<StreamRecord>),
    /// Latency that was measured.
    Latency(Box<LatencyRecord>),
    /// I/O of a device that was measured.
    Io(Box<IoRecord>),
    /// One view of a target.
    View(Box<View>),
    /// Views of a target beside each other.
    Comparison(Box<Comparison>),
    /// The copy model beside measured I/O.
    Validation(Box<Validation>),
    /// What streams of several nodes are predicted to get.
    Prediction(Box<IoPrediction>),
    /// Places for tasks.
    Placement(Box<PlacementPlan>),
    /// Changes that were applied.
    Receipt(Box<Receipt>),
    /// What a plan is asked for.
    PlanProblem(Box<PlanProblem>),
    /// Threads and bytes of each way of a transfer.
    Plan(Box<Plan>),
}

/// Text that is not the document wanted.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// No JSON, as a file cut short is.
    #[error("it is no JSON: {0}")]
    NotJson(serde_json::Error),
    /// JSON without the field that tells what it is.
    #[error("it has no field `schema`, so it is no document of numaio")]
    NoSchema,
    /// Another document.
    #[error("it is a {found:?}, and a {wanted} is wanted")]
    WrongKind {
        /// The schema wanted.
        wanted: &'static str,
        /// The schema found.
        found: String,
    },
    /// Another version of a document that is known.
    #[error("it is a {found:?}, written by {age} numaio; this one reads {known}")]
    UnsupportedVersion {
        /// The schema found.
        found: String,
        /// The schema known.
        known: &'static str,
        /// `a newer` or `an older`.
        age: &'static str,
    },
    /// A document whose content is not of the form of its schema.
    #[error("field `{field}`: {why}")]
    Malformed {
        /// Path of the field, as in `cells[3].bytes_per_s.visits[0].median`.
        field: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Document {
    /// Reads a document of any kind.
    ///
    /// # Errors
    /// [`DocumentError`], which names the field that is wrong.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let schema = schema_of(text)?;
        Ok(match schema.as_str() {
            TOPOLOGY_SCHEMA => Self::Topology(parse(text)?),
            RECORD_SCHEMA => Self::Record(parse(text)?),
            MODEL_SCHEMA => Self::Model(parse(text)?),
            STREAM_SCHEMA => Self::Stream(parse(text)?),
            LATENCY_SCHEMA => Self::Latency(parse(text)?),
            IO_SCHEMA => Self::Io(parse(text)?),
            VIEW_SCHEMA => Self::View(parse(text)?),
            COMPARISON_SCHEMA => Self::Comparison(parse(text)?),
            VALIDATION_SCHEMA => Self::Validation(parse(text)?),
            PREDICTION_SCHEMA => Self::Prediction(parse(text)?),
            PLACEMENT_SCHEMA => Self::Placement(parse(text)?),
            RECEIPT_SCHEMA => Self::Receipt(parse(text)?),
            PLAN_PROBLEM_SCHEMA => Self::PlanProblem(parse(text)?),
            PLAN_SCHEMA => Self::Plan(parse(text)?),
            _ => return Err(other(schema, "document of a machine or a measurement")),
        })
    }
}

/// Reads a document after its schema is checked.
pub(crate) fn read<T: DeserializeOwned>(text: &str, wanted: &'static str) -> Result<T, DocumentError> {
    let schema = schema_of(text)?;
    if schema != wanted {
        return Err(other(schema, wanted));
    }
    parse(text)
}

fn schema_of(text: &str) -> Result<String, DocumentError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let head: Result<Head, _> = serde_json::from_str(text);
    match head {
        Ok(head) => head.schema.ok_or(DocumentError::NoSchema),
        // An array, a number, or a schema that is no string: JSON, and none of ours.
        Err(error) if error.is_data() => Err(DocumentError::NoSchema),
        Err(error) => Err(DocumentError::NotJson(error)),
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        DocumentError::Malformed { field, why: error.into_inner().to_string() }
    })
}

/// Why a schema is not the one wanted.
fn other(found: String, wanted: &'static str) -> DocumentError {
    let found: String = found.chars().take(80).collect();
    let split = |schema: &str| -> Option<(String, u32)> {
        let (name, version) = schema.rsplit_once('/')?;
        Some((name.to_owned(), version.parse().ok()?))
    };
    let mine = split(&found).and_then(|(name, version)| {
        let known =
            SCHEMAS.into_iter().find(|schema| split(schema).is_some_and(|(other, _)| other == name))?;
        (known == wanted || !SCHEMAS.contains(&wanted)).then_some(())?;
        Some((known, if version > split(known)?.1 { "a newer" } else { "an older" }))
    });
    match mine {
        Some((known, age)) if found != known => DocumentError::UnsupportedVersion { found, known, age },
        _ => DocumentError::WrongKind { wanted, found },
    }
}
