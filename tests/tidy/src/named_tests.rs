//! Tests and fuzz targets that pages of the documentation name.

use crate::tree::{assert_none, root, rust_files};
use std::fs;

/// The pages, with the least number of names on each.
const PAGES: [(&str, usize); 2] = [("security.md", 40), ("stacks.md", 40)];
/// Headings of columns that name tests.
const HEADINGS: [&str; 2] = ["tests", "fuzz target"];

/// Returns the code words in the last column of all tables with one of the headings.
fn named(page: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut names_tests = false;
    let mut before = "";
    for line in page.lines() {
        let last = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default().trim();
        if line.starts_with('|') && !before.starts_with('|') {
            names_tests = HEADINGS.contains(&last);
        } else if line.starts_with('|') && names_tests {
            names.extend(last.split('`').skip(1).step_by(2));
        }
        before = line;
    }
    names
}

#[test]
fn tests_that_pages_name_exist() {
    let sources: Vec<String> = ["crates", "fuzz", "tests/tidy"]
        .iter()
        .flat_map(|dir| rust_files(&root().join(dir)))
        .map(|(_, text)| text)
        .collect();
    let exists = |name: &str| {
        let (test, target) = (format!("#[test]\nfn {name}()"), format!("(\"{name}\", "));
        let nested = format!("    #[test]\n    fn {name}()");
        sources.iter().any(|text| [&test, &nested, &target].iter().any(|part| text.contains(part.as_str())))
    };
    for (page, least) in PAGES {
        let text = fs::read_to_string(root().join("docs/internals").join(page)).expect("a page");
        let names = named(&text);
        assert!(names.len() > least, "{page}: {names:?}");
        let missing = names.iter().filter(|name| !exists(name));
        assert_none(missing.map(|name| format!("{page}: no test or fuzz target {name}")).collect());
    }
    assert!(!exists("a_missing_test"));
    assert_eq!(
        named("| a | tests |\n|-|-|\n| `x` | `y`, `z` |\n\n| a | b |\n|-|-|\n| x | `c` |\n"),
        ["y", "z"]
    );
}
