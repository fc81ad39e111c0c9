//! Derives the definitions of all documents from their types.

use crate::DocumentKind;
use numaio_machine::tape::{json_schema_of_entry, TapeHeader, TAPE_SCHEMA};
use schemars::generate::SchemaSettings;
use schemars::SchemaGenerator;
use serde_json::{json, Map, Value};

/// Returns the definitions of all types by name (`$defs`), and the type of each document
/// (`documents`).
pub fn generate_definitions() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut documents = Map::new();
    for kind in DocumentKind::ALL {
        let schema = kind.json_schema(&mut generator);
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next());
        documents.insert(kind.schema().to_owned(), name.unwrap_or_default().into());
    }
    documents.insert(TAPE_SCHEMA.to_owned(), "TapeLine".into());
    let line = tape_line(&mut generator);
    let mut types = generator.take_definitions(true);
    types.insert("TapeLine".to_owned(), line);
    let mut types = Value::Object(types);
    clean_descriptions(&mut types);
    json!({ "documents": documents, "$defs": types })
}

/// Returns the schema of any line of a tape.
fn tape_line(generator: &mut SchemaGenerator) -> Value {
    let lines = [generator.subschema_for::<TapeHeader>(), json_schema_of_entry(generator)];
    json!({ "description": "A line of a tape: the header first, then entries.", "anyOf": lines })
}

/// Rewrites all descriptions for readers of other languages: no links and values of Rust, and one
/// line for each paragraph.
fn clean_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = clean(text);
            }
            fields.values_mut().for_each(clean_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(clean_descriptions),
        _ => {}
    }
}

fn clean(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = without_links(&paragraphs.collect::<Vec<_>>().join("\n\n"));
    match text.strip_prefix('`').and_then(|text| text.strip_suffix("_SCHEMA`.")) {
        Some(name) if name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') => {
            "Kind and version of the document.".to_owned()
        }
        _ => text.replace("`None`", "`null`"),
    }
}

/// Replaces links such as `` [`Device`](crate::Device) `` by their text.
fn without_links(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((label, after)) = link.split_once("`]") else { break };
        cleaned.extend([before, "`", label, "`"]);
        rest = match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    cleaned + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_rustdoc_links_and_line_breaks() {
        let text = "As [`Model`](crate::Model)\nof [`View`], `a[0]`; `None` else.\n\nMore [`open";
        assert_eq!(clean(text), "As `Model` of `View`, `a[0]`; `null` else.\n\nMore [`open");
        assert_eq!(clean("[`FLEET_RUN_SCHEMA`]."), "Kind and version of the document.");
    }
}
