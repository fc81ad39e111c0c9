//! Lenient access to the fields of a set: absent and null fields are `None`, others have a type.

use serde_json::Value;

/// A set that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// A field is missing, or has another type.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// A field that is missing, or has another type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: expected {expected}")]
pub struct FieldError {
    /// The name of the field.
    pub field: String,
    /// What it must be.
    pub expected: &'static str,
}

/// Values of which some are unknown.
pub type Values = Vec<Option<f64>>;

/// Returns the error of a field.
pub fn error(field: &str, expected: &'static str) -> FieldError {
    FieldError { field: field.to_owned(), expected }
}

/// Returns a field that is neither absent nor null.
pub fn present<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    of.get(name).filter(|value| !value.is_null())
}

/// Returns a text; empty if it is absent.
pub fn text(of: &Value, name: &str) -> Result<String, FieldError> {
    let Some(value) = present(of, name) else { return Ok(String::new()) };
    value.as_str().map(str::to_owned).ok_or_else(|| error(name, "a text"))
}

/// Returns a node or a number of parts.
pub fn number(value: &Value, name: &str) -> Result<Option<u32>, FieldError> {
    if value.is_null() {
        return Ok(None);
    }
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.map(Some).ok_or_else(|| error(name, "a whole number or null"))
}

/// Returns the items of a list.
pub fn array<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], FieldError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| error(name, "a list"))
}

/// Returns rates, times or distances; null, zero and negative ones are unknown.
pub fn values(value: &Value, name: &str) -> Result<Values, FieldError> {
    let numbers = array(value, name)?.iter().map(|value| match value {
        Value::Null => Ok(None),
        Value::Number(_) => Ok(of_number(value)),
        _ => Err(error(name, "a list of numbers")),
    });
    numbers.collect()
}

fn of_number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number > 0.0)
}

/// Returns a matrix; rows may differ in length.
pub fn matrix(value: &Value, name: &str) -> Result<Vec<Values>, FieldError> {
    array(value, name)?.iter().map(|row| values(row, name)).collect()
}
