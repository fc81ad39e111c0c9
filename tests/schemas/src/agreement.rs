//! The schemas and numaio's reader accept the same documents.

use crate::support::{fixtures, validator};
use numaio_schema::{Document, DocumentError};
use serde_json::Value;

/// Most changes per fixture, spread over all its fields.
const CHANGES: usize = 150;

/// Returns the paths of all fields below `value`, as JSON pointers of the object and names.
fn fields(value: &Value, pointer: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.push((pointer.to_owned(), name.clone()));
                let name = name.replace('~', "~0").replace('/', "~1");
                fields(value, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                fields(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Returns whether numaio reads the document.
fn is_read(document: &Value) -> bool {
    match Document::from_json(&document.to_string()) {
        Ok(_) => true,
        Err(DocumentError::Malformed { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Compares the reader with the schema on copies of a fixture in which `change` modified a field.
fn compare(change: impl Fn(&mut serde_json::Map<String, Value>, &str)) -> (usize, usize) {
    let (mut accepted, mut rejected) = (0, 0);
    for (fixture, document) in fixtures() {
        let mut paths = Vec::new();
        fields(&document, "", &mut paths);
        let step = paths.len().div_ceil(CHANGES).max(1);
        for (pointer, name) in paths.iter().step_by(step).filter(|(_, name)| name != "schema") {
            let mut changed = document.clone();
            let object = changed.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object");
            change(object, name);
            let is_read = is_read(&changed);
            let is_valid = validator(&document).is_valid(&changed);
            assert_eq!(is_valid, is_read, "valid, read: {fixture} without {pointer}/{name}");
            *if is_read { &mut accepted } else { &mut rejected } += 1;
        }
    }
    (accepted, rejected)
}

#[test]
fn a_field_is_required_where_the_reader_requires_it() {
    let (accepted, rejected) = compare(|object, name| {
        object.remove(name);
    });
    assert!(accepted > 100 && rejected > 500, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn a_value_of_another_type_is_rejected_where_the_reader_rejects_it() {
    let (_, rejected) = compare(|object, name| {
        object.insert(name.to_owned(), serde_json::json!([[], 0.5, { "x": 1 }]));
    });
    assert!(rejected > 500, "{rejected} rejected");
}
