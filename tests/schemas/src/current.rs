//! The stored definitions follow from the types.

use crate::support::{path, SCHEMAS};
use numaio_schema::{generate_definitions, json_schemas, DocumentKind};
use serde_json::Value;
use std::env;
use std::fs;

/// Definitions that the program contains.
const DEFINITIONS: &str = "crates/schema/src/json_schemas/definitions.json";

/// Formats definitions with one type per line: readable differences, at a third of the size.
fn text_of(definitions: &Value) -> String {
    let lines = |key: &str| {
        let entries = definitions[key].as_object().expect(key).iter();
        entries.map(|(name, value)| format!("\"{name}\": {value}")).collect::<Vec<_>>().join(",\n")
    };
    format!("{{\"documents\": {{\n{}\n}},\n\"$defs\": {{\n{}\n}}}}\n", lines("documents"), lines("$defs"))
}

#[test]
fn stored_definitions_are_generated_from_the_types() {
    let definitions = text_of(&generate_definitions());
    if env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(path(DEFINITIONS), &definitions).expect("definitions written");
    }
    let hint = "run UPDATE_EXPECTED=1 cargo test -p numaio-schemas";
    let stored = fs::read_to_string(path(DEFINITIONS)).expect("definitions");
    assert!(stored == definitions, "{DEFINITIONS} differs from the types: {hint}");
}

/// Another build of this package may have just written the files.
#[test]
fn the_program_contains_the_schemas() {
    if env::var_os("UPDATE_EXPECTED").is_none() {
        assert!(json_schemas() == *SCHEMAS);
    }
}

#[test]
fn every_version_of_a_document_has_a_schema() {
    let ids = DocumentKind::ALL.iter().map(|kind| kind.schema());
    let mut stated: Vec<&str> = ids.chain([numaio_machine::tape::TAPE_SCHEMA]).collect();
    stated.sort();
    let generated: Vec<&str> = SCHEMAS.iter().map(|schema| schema.id.as_str()).collect();
    assert_eq!(stated, generated, "each once");
}

#[test]
fn the_book_lists_every_schema() {
    let page = fs::read_to_string(path("docs/reference/documents.md")).expect("the page");
    for schema in SCHEMAS.iter() {
        let name = format!("`{}`", schema.id);
        assert!(page.contains(&name), "docs/reference/documents.md: no {name}");
    }
}
