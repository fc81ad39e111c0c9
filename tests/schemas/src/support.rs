//! The repository's files, and validators by the id of a document.

use jsonschema::Validator;
use numaio_schema::{generate_definitions, schemas_of, DocumentSchema};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Schemas as generated from the types.
pub static SCHEMAS: LazyLock<Vec<DocumentSchema>> = LazyLock::new(|| schemas_of(&generate_definitions()));

/// Validators of [`SCHEMAS`] by id.
pub static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let validator = |schema: &Value| jsonschema::draft202012::new(schema).expect("a valid schema");
    SCHEMAS.iter().map(|schema| (schema.id.clone(), validator(&schema.schema))).collect()
});

/// Returns a path below the root of the repository.
pub fn path(below_root: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(below_root)
}

/// Reads the files of a directory with an extension, sorted by name.
pub fn files(dir: &str, extension: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(path(dir)).expect(dir).flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect("a text file"))).collect()
}

/// Returns the fixtures of all documents as (file name, document).
pub fn fixtures() -> Vec<(String, Value)> {
    let fixtures = files("crates/schema/tests/fixtures", "json");
    fixtures.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).expect("JSON"))).collect()
}

/// Returns the validator for a document.
pub fn validator(document: &Value) -> &'static Validator {
    let id = document["schema"].as_str().expect("an id");
    VALIDATORS.get(id).unwrap_or_else(|| panic!("no schema for {id}"))
}

/// Returns the first errors of a document, with their paths.
pub fn errors(validator: &Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document).take(3);
    errors
        .map(|error| {
            format!("{}: {}", error.instance_path(), error.to_string().chars().take(300).collect::<String>())
        })
        .collect()
}
