//! Documentation tests: examples, command reference, links and length of sentences.
//!
//! `NUMAIO_UPDATE_DOCS=1 cargo test -p numaio-cli --test docs` rewrites examples and the command
//! reference.

#[path = "../support/mod.rs"]
mod support;

mod console;
mod links;
mod prose;
mod reference;
mod resync;

use console::{Block, Example};
use std::fs;
use std::path::{Path, PathBuf};
use support::Home;

/// Environment variable that rewrites pages instead of comparing them.
const UPDATE: &str = "NUMAIO_UPDATE_DOCS";

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the repository")
}

fn is_update() -> bool {
    std::env::var_os(UPDATE).is_some_and(|value| !value.is_empty())
}

/// Returns README.md and every page below docs, sorted, as paths relative to the root.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("README.md")];
    let mut dirs = vec![PathBuf::from("docs")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(root().join(&dir)).expect("a directory").flatten() {
            let path = dir.join(entry.file_name());
            if entry.path().is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

fn write_if_changed(page: &Path, before: &str, after: &str) {
    if before != after {
        fs::write(root().join(page), after).expect("a page");
        println!("rewrote {}", page.display());
    }
}

/// Creates a home in which the relative paths of examples resolve as in the root of the repository.
fn home_of_examples() -> Home {
    let home = Home::new();
    for dir in ["machines", "docs"] {
        std::os::unix::fs::symlink(root().join(dir), home.0.join(dir)).expect("a link");
    }
    home
}

/// Runs the examples of one page and returns its new text. Appends problems to `problems`.
fn check_page(page: &Path, text: &str, problems: &mut Vec<String>) -> String {
    let home = home_of_examples();
    let mut new = String::new();
    for part in console::parts(text) {
        let Block { line, examples } = match part {
            console::Part::Text(text) => {
                new.push_str(text);
                continue;
            }
            console::Part::Console(block) => block,
        };
        for example in examples {
            let at = format!("{}:{}: $ {}", page.display(), line + example.offset, example.command);
            let lines = match example.words() {
                Some(words) if console::is_reproducible(&words) => {
                    check_example(&home, &example, &words, &at, problems)
                }
                _ => example.shown.clone(),
            };
            new.push_str(&example.with_output(&lines));
        }
    }
    new
}

/// Returns the output that the page should show for an example.
fn check_example(
    home: &Home,
    example: &Example,
    words: &[String],
    at: &str,
    problems: &mut Vec<String>,
) -> Vec<String> {
    let printed = console::run(home, &words[1..]);
    if resync::matches(&example.shown, &printed) {
        return example.shown.clone();
    }
    if !is_update() {
        let difference = resync::first_difference(&example.shown, &printed);
        problems.push(format!(
            "{at}\n  {difference}\n  {UPDATE}=1 rewrites it; all that is printed:\n{}",
            printed.join("\n")
        ));
        return example.shown.clone();
    }
    let (lines, lost) = resync::resynchronize(&example.shown, &printed);
    problems.extend(lost.into_iter().map(|lost| format!("{at}\n  {lost}")));
    lines
}

#[test]
fn console_examples_show_what_is_printed() {
    let mut problems = Vec::new();
    let mut examples = 0;
    for page in pages() {
        let text = read(&page);
        examples += console::reproducible_examples(&text);
        let new = check_page(&page, &text, &mut problems);
        if is_update() {
            write_if_changed(&page, &text, &new);
        } else {
            assert_eq!(text, new, "{}: the reassembled page differs", page.display());
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n\n"));
    assert!(examples >= 20, "only {examples} examples of the documentation were run");
}

#[test]
fn command_reference_equals_the_help() {
    let page = Path::new("docs/reference/commands.md");
    let generated = reference::page(&Home::new());
    let before = fs::read_to_string(root().join(page)).unwrap_or_default();
    if is_update() {
        write_if_changed(page, &before, &generated);
    } else {
        let line = before.lines().zip(generated.lines()).take_while(|(old, new)| old == new).count() + 1;
        assert!(before == generated, "{}:{line} differs from --help; {UPDATE}=1 rewrites it", page.display());
    }
}

#[test]
fn links_resolve_to_files_and_headings() {
    let problems: Vec<String> = pages().iter().flat_map(|page| links::broken(&root(), page)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn summary_lists_every_page() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let listed = links::targets(&summary);
    let missing: Vec<String> = pages()
        .iter()
        .filter_map(|page| page.strip_prefix("docs").ok())
        .map(|page| page.to_string_lossy().into_owned())
        .filter(|page| page != "SUMMARY.md" && !listed.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}

#[test]
fn guide_sentences_and_paragraphs_are_short() {
    let checked = |page: &Path| {
        let page = page.to_string_lossy();
        [
            "docs/guide/",
            "docs/reference/",
            "docs/introduction.md",
            "docs/glossary.md",
            "docs/internals/measuring.md",
        ]
        .iter()
        .any(|start| page.starts_with(start))
    };
    let pages = pages().into_iter().filter(|page| checked(page));
    let problems: Vec<String> =
        pages.flat_map(|page| prose::too_long(&page.display().to_string(), &read(&page))).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
