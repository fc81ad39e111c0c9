//! Reads planning problems from files, or from earlier plans.

use crate::failure::{self, Failure};
use crate::input;
use numaio_schema::{Document, DocumentError, PlanProblem, PLAN_PROBLEM_SCHEMA};
use std::path::Path;

/// Reads a problem as TOML or JSON, or the problem of a plan.
///
/// # Errors
/// [`Failure`]: a file that is not a problem or a plan.
pub fn read(path: &Path) -> Result<PlanProblem, Failure> {
    let text = input::read_text(path)?;
    if !text.trim_start().starts_with('{') {
        return read_toml(path, &text);
    }
    match Document::from_json(&text) {
        Ok(Document::PlanProblem(problem)) => Ok(*problem),
        Ok(Document::Plan(plan)) => Ok(plan.problem),
        Ok(_) => Err(Failure::file(path, "the document is not a planning problem")
            .hint("numaio plan --problem prints one; docs/internals/planning.md shows one in TOML")),
        Err(error @ DocumentError::NoSchema) => {
            Err(Failure::file(path, error).hint(format!("add \"schema\": {PLAN_PROBLEM_SCHEMA:?} to it")))
        }
        Err(error) => Err(failure::not_a_document(path, &text, &error)),
    }
}

fn read_toml(path: &Path, text: &str) -> Result<PlanProblem, Failure> {
    let problem: PlanProblem = toml::from_str(text).map_err(|error| {
        Failure::file(path, failure::toml_fault(text, &error))
            .hint("docs/internals/planning.md shows a problem in TOML")
    })?;
    if problem.schema != PLAN_PROBLEM_SCHEMA {
        let found: String = problem.schema.chars().take(80).collect();
        return Err(Failure::file(path, format!("expected schema '{PLAN_PROBLEM_SCHEMA}', found '{found}'"))
            .hint("omit the field 'schema', or correct it"));
    }
    Ok(problem)
}
