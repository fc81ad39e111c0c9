//! The stored schemas are those of the types.

use crate::support::{files, path, SCHEMAS};
use numaio_schema::{generate_definitions, json_schemas};
use serde_json::Value;
use std::collections::BTreeSet;
use std::env;
use std::fs;

/// Definitions that the program contains.
const DEFINITIONS: &str = "crates/schema/src/json_schemas/definitions.json";
/// Schemas that the book contains.
const PUBLISHED: &str = "docs/reference/schemas";

/// Formats definitions with one type per line: readable differences, at a third of the size.
fn text_of(definitions: &Value) -> String {
    let lines = |key: &str| {
        let entries = definitions[key].as_object().expect(key).iter();
        entries.map(|(name, value)| format!("\"{name}\": {value}")).collect::<Vec<_>>().join(",\n")
    };
    format!("{{\"documents\": {{\n{}\n}},\n\"$defs\": {{\n{}\n}}}}\n", lines("documents"), lines("$defs"))
}

#[test]
fn stored_schemas_are_generated_from_the_types() {
    let definitions = text_of(&generate_definitions());
    if env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(path(DEFINITIONS), &definitions).expect("definitions written");
        fs::create_dir_all(path(PUBLISHED)).expect("a directory");
        for schema in SCHEMAS.iter() {
            fs::write(path(PUBLISHED).join(schema.file_name()), schema.to_text()).expect("a schema written");
        }
    }
    let hint = "run UPDATE_EXPECTED=1 cargo test -p numaio-schemas";
    let stored = fs::read_to_string(path(DEFINITIONS)).expect("definitions");
    assert!(stored == definitions, "{DEFINITIONS} differs from the types: {hint}");
    let published = files(PUBLISHED, "json");
    let generated: Vec<(String, String)> =
        SCHEMAS.iter().map(|schema| (schema.file_name(), schema.to_text())).collect();
    let names =
        |files: &[(String, String)]| files.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names(&published), names(&generated), "{PUBLISHED}: {hint}");
    for file in &generated {
        assert!(published.contains(file), "{PUBLISHED}/{} differs from the types: {hint}", file.0);
    }
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
    let constants = fs::read_to_string(path("crates/schema/src/schemas.rs")).expect("constants");
    let ids = constants.split('"').filter(|text| text.starts_with("numaio/"));
    let stated: BTreeSet<&str> = ids.chain([numaio_machine::tape::TAPE_SCHEMA]).collect();
    let generated: BTreeSet<&str> = SCHEMAS.iter().map(|schema| schema.id.as_str()).collect();
    assert_eq!(stated, generated);
}

#[test]
fn the_book_lists_every_schema() {
    let page = fs::read_to_string(path("docs/reference/documents.md")).expect("the page");
    for schema in SCHEMAS.iter() {
        let link = format!("[`{}`](schemas/{})", schema.id, schema.file_name());
        assert!(page.contains(&link), "docs/reference/documents.md: no {link}");
    }
}
