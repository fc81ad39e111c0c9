//! Documents and tapes that numaio wrote are valid.

use crate::support::{errors, files, fixtures, validator, VALIDATORS};
use serde_json::Value;

fn assert_valid(name: &str, document: &Value) {
    let errors = errors(validator(document), document);
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

#[test]
fn accepts_all_fixtures() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 25, "{} fixtures", fixtures.len());
    for (name, document) in fixtures {
        assert_valid(&name, &document);
    }
}

#[test]
fn accepts_every_line_of_the_shipped_tapes_and_the_documents_in_them() {
    let tapes = files("machines", "tape");
    assert!(tapes.len() >= 4, "{} tapes", tapes.len());
    let mut documents = 0;
    for (name, tape) in tapes {
        for (number, line) in tape.lines().enumerate() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let errors = errors(&VALIDATORS["numaio/tape/1"], &line);
            assert!(errors.is_empty(), "{name}:{}: {errors:#?}", number + 1);
            if let Some(document) = line.get("document") {
                assert_valid(&name, document);
                documents += 1;
            }
        }
    }
    assert!(documents > 0);
}

#[test]
fn rejects_other_versions_and_values() {
    for (name, document) in fixtures() {
        let validator = validator(&document);
        let mut other = document.clone();
        other["schema"] = "numaio/letter/1".into();
        assert!(!validator.is_valid(&other), "{name}");
        other.as_object_mut().expect("an object").remove("schema");
        assert!(!validator.is_valid(&other), "{name}");
    }
}
