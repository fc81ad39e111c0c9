//! JSON Schemas of the stored documents and of the lines of a tape.
//!
//! The definitions are derived from the types (`generate`, feature `json-schema`) and stored as
//! text, so that the program needs no derived code.

#[cfg(feature = "json-schema")]
mod generate;

#[cfg(feature = "json-schema")]
pub use generate::generate_definitions;

use serde_json::{json, Map, Value};
use std::collections::BTreeSet;

/// The dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Definitions of all types by name, and the type of each document.
const DEFINITIONS: &str = include_str!("definitions.json");

/// The JSON Schema of a kind and version of documents.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentSchema {
    /// Kind and version, such as `numaio/model/1`.
    pub id: String,
    /// The schema, which refers to no other file.
    pub schema: Value,
}

impl DocumentSchema {
    /// Returns the name of its file, such as `model-1.json`.
    pub fn file_name(&self) -> String {
        let name = self.id.strip_prefix("numaio/").unwrap_or(&self.id);
        format!("{}.json", name.replace('/', "-"))
    }

    /// Returns the text of its file.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(&self.schema).unwrap_or_default() + "\n"
    }

    /// Returns whether a user's name selects it: `numaio/model/1`, `model/1` or `model`.
    pub fn is_named(&self, name: &str) -> bool {
        let short = self.id.strip_prefix("numaio/").unwrap_or(&self.id);
        name == self.id || name == short || short.rsplit_once('/').is_some_and(|(kind, _)| kind == name)
    }
}

/// Returns the JSON Schemas of all documents that numaio reads or writes, sorted by id.
pub fn json_schemas() -> Vec<DocumentSchema> {
    schemas_of(&serde_json::from_str(DEFINITIONS).unwrap_or_default())
}

/// Returns the schemas of the documents of `definitions`, which have the form of
/// `definitions.json`.
pub fn schemas_of(definitions: &Value) -> Vec<DocumentSchema> {
    let empty = Map::new();
    let documents = definitions["documents"].as_object().unwrap_or(&empty);
    let types = definitions["$defs"].as_object().unwrap_or(&empty);
    documents
        .iter()
        .map(|(id, name)| schema_of_document(id, name.as_str().unwrap_or_default(), types))
        .collect()
}

fn schema_of_document(id: &str, name: &str, types: &Map<String, Value>) -> DocumentSchema {
    let mut root = types.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    if root.contains_key("properties") {
        require_id(&mut root, id);
    }
    root.insert("$schema".to_owned(), DIALECT.into());
    root.insert("title".to_owned(), id.into());
    let used = types_used_by(&Value::Object(root.clone()), types);
    let used: Map<String, Value> = types
        .iter()
        .filter(|(name, _)| used.contains(name.as_str()))
        .map(|(name, of)| (name.clone(), of.clone()))
        .collect();
    root.insert("$defs".to_owned(), used.into());
    DocumentSchema { id: id.to_owned(), schema: root.into() }
}

/// Restricts the field `schema` to the id of the document.
fn require_id(root: &mut Map<String, Value>, id: &str) {
    root["properties"]["schema"] = json!({ "description": "Kind and version of the document.", "const": id });
    let required = root.entry("required").or_insert_with(|| json!([]));
    if let Some(fields) = required.as_array_mut().filter(|fields| !fields.contains(&json!("schema"))) {
        fields.insert(0, json!("schema"));
    }
}

/// Returns the names of the types to which `schema` refers, directly or through other types.
fn types_used_by<'t>(schema: &Value, types: &'t Map<String, Value>) -> BTreeSet<&'t str> {
    let mut used = BTreeSet::new();
    let mut pending = vec![schema];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                let referred =
                    fields.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/$defs/"));
                if let Some((name, of)) = referred.and_then(|name| types.get_key_value(name)) {
                    if used.insert(name.as_str()) {
                        pending.push(of);
                    }
                }
                pending.extend(fields.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_contains_the_types_that_it_refers_to_and_no_others() {
        let definitions = json!({
            "documents": { "numaio/a/1": "A" },
            "$defs": {
                "A": { "type": "object", "properties": { "b": { "items": { "$ref": "#/$defs/B" } } } },
                "B": { "anyOf": [{ "$ref": "#/$defs/C" }, { "$ref": "#/$defs/B" }] },
                "C": { "type": "string" },
                "D": { "type": "null" }
            }
        });
        let [schema] = &schemas_of(&definitions)[..] else { panic!("one schema") };
        let types: Vec<&String> = schema.schema["$defs"].as_object().expect("types").keys().collect();
        assert_eq!(types, ["B", "C"]);
        assert_eq!(
            (schema.file_name().as_str(), &schema.schema["required"]),
            ("a-1.json", &json!(["schema"]))
        );
        assert_eq!(schema.schema["properties"]["schema"]["const"], "numaio/a/1");
        for (name, selects) in [("numaio/a/1", true), ("a/1", true), ("a", true), ("a/2", false), ("", false)]
        {
            assert_eq!(schema.is_named(name), selects, "{name}");
        }
    }
}
