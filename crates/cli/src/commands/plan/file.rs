//! Problems that someone wrote, or that an earlier plan holds.

use crate::failure::{self, Failure};
use crate::input;
use numaio_schema::{Document, DocumentError, PlanProblem, PLAN_PROBLEM_SCHEMA};
use std::path::Path;

/// Reads a problem as TOML or JSON, or that of a plan, which is planned anew.
pub fn read(path: &Path) -> Result<PlanProblem, Failure> {
    let text = input::read_text(path)?;
    if !text.trim_start().starts_with('{') {
        return of_toml(path, &text);
    }
    match Document::from_json(&text) {
        Ok(Document::PlanProblem(problem)) => Ok(*problem),
        Ok(Document::Plan(plan)) => Ok(plan.problem),
        Ok(_) => Err(Failure::file(path, "it is no problem of planning")
            .hint("numaio plan --problem prints one; docs/internals/planning.md shows one in TOML")),
        Err(error @ DocumentError::NoSchema) => {
            Err(Failure::file(path, error).hint(format!("write \"schema\": {PLAN_PROBLEM_SCHEMA:?} into it")))
        }
        Err(error) => Err(failure::not_a_document(path, &text, &error)),
    }
}

fn of_toml(path: &Path, text: &str) -> Result<PlanProblem, Failure> {
    let problem: PlanProblem = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        // Several lines would be taken for several messages.
        let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Failure::file(path, format!("{line}{why}")).hint("docs/internals/planning.md shows a problem in TOML")
    })?;
    if problem.schema != PLAN_PROBLEM_SCHEMA {
        let found: String = problem.schema.chars().take(80).collect();
        return Err(Failure::file(
            path,
            format!("it is a {found:?}, and a {PLAN_PROBLEM_SCHEMA:?} is wanted"),
        )
        .hint("leave the field `schema` out, or write it so"));
    }
    Ok(problem)
}
