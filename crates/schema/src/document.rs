//! Reading a stored document of any kind, and the errors of reading.

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

/// The schemas of all documents.
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
    /// A topology.
    Topology(Box<TopologyDocument>),
    /// Measured copies.
    Record(Box<Record>),
    /// Bandwidth classes.
    Model(Box<Model>),
    /// Measured STREAM bandwidth.
    Stream(Box<StreamRecord>),
    /// Measured latency.
    Latency(Box<LatencyRecord>),
    /// Measured I/O of a device.
    Io(Box<IoRecord>),
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
}

/// An error of reading a document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Invalid JSON, such as a truncated file.
    #[error("{}", explain_syntax(.0))]
    NotJson(serde_json::Error),
    /// JSON without a field `schema`.
    #[error("no field `schema`: not a numaio document")]
    NoSchema,
    /// A document of another kind.
    #[error("expected a {wanted}, got '{}'", found.escape_debug())]
    WrongKind {
        /// The expected schema.
        wanted: &'static str,
        /// The schema of the document.
        found: String,
    },
    /// An unknown version of a known document.
    #[error("'{}' was written by {age} numaio; this version reads {known}", found.escape_debug())]
    UnsupportedVersion {
        /// The schema of the document.
        found: String,
        /// The known schema.
        known: &'static str,
        /// Either `a newer` or `an older`.
        age: &'static str,
    },
    /// A document that does not conform to its schema.
    #[error("field `{field}`: {why}")]
    Malformed {
        /// The path of the field, such as `cells[3].bytes_per_s.visits[0].median`.
        field: String,
        /// The reason.
        why: String,
    },
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
            _ => return Err(unexpected(schema, "document of a machine or a measurement")),
        })
    }
}

/// Reads a document of the expected schema.
pub(crate) fn read<T: DeserializeOwned>(text: &str, wanted: &'static str) -> Result<T, DocumentError> {
    let schema = schema_of(text)?;
    if schema != wanted {
        return Err(unexpected(schema, wanted));
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
        // An array, a number, or a schema that is not a string: JSON, but not a document.
        Err(error) if error.is_data() => Err(DocumentError::NoSchema),
        Err(error) => Err(DocumentError::NotJson(error)),
    }
}

fn explain_syntax(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    match error.is_eof() {
        true => format!("incomplete JSON: it ends at line {line}, column {column}"),
        false => format!("not JSON: line {line}, column {column}"),
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        DocumentError::Malformed { field, why: error.into_inner().to_string() }
    })
}

/// Returns the error for an unexpected schema.
fn unexpected(found: String, wanted: &'static str) -> DocumentError {
    let found: String = found.chars().take(80).collect();
    let split = |schema: &str| -> Option<(String, u32)> {
        let (name, version) = schema.rsplit_once('/')?;
        Some((name.to_owned(), version.parse().ok()?))
    };
    let known_version = split(&found).and_then(|(name, version)| {
        let known =
            SCHEMAS.into_iter().find(|schema| split(schema).is_some_and(|(other, _)| other == name))?;
        (known == wanted || !SCHEMAS.contains(&wanted)).then_some(())?;
        Some((known, if version > split(known)?.1 { "a newer" } else { "an older" }))
    });
    match known_version {
        Some((known, age)) if found != known => DocumentError::UnsupportedVersion { found, known, age },
        _ => DocumentError::WrongKind { wanted, found },
    }
}
