//! Reading a document of a known schema, and the errors of reading.

use crate::field_path::field_path;
use serde::de::DeserializeOwned;

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
    /// A later version of a known document.
    #[error("'{}' was written by a newer numaio; this version reads {known}", found.escape_debug())]
    NewerVersion {
        /// The schema of the document.
        found: String,
        /// The known schema.
        known: &'static str,
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

/// Reads a document of the expected schema.
pub(crate) fn read<T: DeserializeOwned>(text: &str, wanted: &'static str) -> Result<T, DocumentError> {
    let schema = schema_of(text)?;
    if schema != wanted {
        return Err(unexpected(schema, [wanted], wanted));
    }
    parse(text)
}

/// Returns the schema of a document.
pub(crate) fn schema_of(text: &str) -> Result<String, DocumentError> {
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

/// Parses a document whose schema is known.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    serde_json::from_str(text).map_err(|error| {
        let field = field_path(text, error.line(), error.column());
        DocumentError::Malformed { field, why: error.to_string() }
    })
}

/// Returns the error for a schema that is not one of `known`.
pub(crate) fn unexpected(
    found: String,
    known: impl IntoIterator<Item = &'static str>,
    wanted: &'static str,
) -> DocumentError {
    let found: String = found.chars().take(80).collect();
    let split = |schema: &str| -> Option<(String, u32)> {
        let (name, version) = schema.rsplit_once('/')?;
        Some((name.to_owned(), version.parse().ok()?))
    };
    let is_older = |known: &&str| match (split(known), split(&found)) {
        (Some((known, older)), Some((name, newer))) => known == name && older < newer,
        _ => false,
    };
    match known.into_iter().find(is_older) {
        Some(known) => DocumentError::NewerVersion { found, known },
        None => DocumentError::WrongKind { wanted, found },
    }
}
