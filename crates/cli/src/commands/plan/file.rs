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
        return parse_toml(&text).map_err(|(fault, hint)| Failure::file(path, fault).hint(hint));
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

/// Parses a problem in TOML.
///
/// # Errors
/// The fault, with a hint.
pub fn parse_toml(text: &str) -> Result<PlanProblem, (String, &'static str)> {
    let problem: PlanProblem = toml::from_str(text).map_err(|error| {
        (failure::toml_fault(text, &error), "docs/internals/planning.md shows a problem in TOML")
    })?;
    if problem.schema != PLAN_PROBLEM_SCHEMA {
        let found: String = problem.schema.chars().take(80).collect();
        let fault = format!("expected schema '{PLAN_PROBLEM_SCHEMA}', found '{found}'");
        return Err((fault, "omit the field 'schema', or correct it"));
    }
    Ok(problem)
}
