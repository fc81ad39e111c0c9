//! Every document that numaio stores, each with a schema version.
//!
//! A stored document says what it is in its field `schema`, as in `numaio/model/1`. Within a version fields
//! are only added; readers pass over fields they do not know.

mod model;
mod receipt;
mod record;
mod summary;
mod topology;

pub use model::{Class, ClassRule, DirectionModel, Model, NodeBandwidth, TargetModel, MODEL_SCHEMA};
pub use receipt::{Applied, Receipt, RECEIPT_SCHEMA};
pub use record::{Cell, LoopTrial, MachineSource, Method, Record, Visit, Warning, RECORD_SCHEMA};
pub use summary::{median, IntervalKind, Mode, PooledNoise, Summary};
pub use topology::{TopologyDocument, TOPOLOGY_SCHEMA};

/// Text that is not the document wanted.
#[derive(Debug, thiserror::Error)]
pub enum NotThatDocument {
    /// No JSON, or not of this form.
    #[error("it is no {wanted}: {why}")]
    Malformed {
        /// The schema wanted.
        wanted: &'static str,
        /// What the parser says.
        why: serde_json::Error,
    },
    /// Another document or version.
    #[error("it is a {found:?}, and {wanted} is wanted")]
    Other {
        /// The schema wanted.
        wanted: &'static str,
        /// The schema found.
        found: String,
    },
}

/// Reads a document after its schema is checked.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    text: &str,
    wanted: &'static str,
) -> Result<T, NotThatDocument> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let malformed = |why| NotThatDocument::Malformed { wanted, why };
    let head: Head = serde_json::from_str(text).map_err(malformed)?;
    if head.schema != wanted {
        return Err(NotThatDocument::Other { wanted, found: head.schema.chars().take(80).collect() });
    }
    serde_json::from_str(text).map_err(malformed)
}
