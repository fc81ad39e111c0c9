//! The language guard: banned words, wide comments, and public items without documentation.
//!
//! `allowed.txt` lists the remaining complaints per file and rule. The test fails for more
//! complaints and for fewer, so that the list only shrinks. `UPDATE_ALLOWED=1 cargo test -p
//! numaio-tidy` rewrites it.

use crate::tree::{relative, root, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest comment, in columns.
const WIDEST_COMMENT: usize = 100;
/// Words before the phrase 'is no' that make it plain English.
const BEFORE_IS_NO: [&str; 3] = ["there ", "here ", "it "];
/// Complaints that a failure prints per file.
const MOST_PRINTED: usize = 15;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Word,
    Phrase,
    Width,
    Docs,
}

impl Rule {
    fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Phrase => "phrase",
            Self::Width => "width",
            Self::Docs => "docs",
        }
    }
}

struct Complaint {
    line: usize,
    rule: Rule,
    text: String,
}

struct Guard {
    words: BTreeSet<String>,
    phrases: Vec<String>,
}

impl Guard {
    fn new() -> Self {
        let lines = |name: &str| -> Vec<String> {
            let path = root().join("tests/tidy").join(name);
            let text = fs::read_to_string(path).expect("a list of the guard");
            let entries = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            entries.map(|line| line.trim_matches('"').to_owned()).collect()
        };
        Self { words: lines("words.txt").into_iter().collect(), phrases: lines("phrases.txt") }
    }

    fn check(&self, path: &str, text: &str) -> Vec<Complaint> {
        let mut found = Vec::new();
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let mut complain = |rule, text| found.push(Complaint { line: index + 1, rule, text });
            let tokens: BTreeSet<String> = tokens(line).collect();
            let words = tokens.iter().filter(|token| self.words.contains(*token));
            words.for_each(|word| complain(Rule::Word, format!("'{word}'")));
            self.phrases_in(line).for_each(|phrase| complain(Rule::Phrase, format!("'{phrase}'")));
            if path.ends_with(".rs") && is_wide_comment(line) {
                complain(Rule::Width, format!("comment over {WIDEST_COMMENT} columns"));
            }
            let documented = !path.contains("/src/") || path.ends_with("tests.rs") || !path.ends_with(".rs");
            if !documented && is_public_item(line) && !has_doc_comment(&lines[..index]) {
                complain(Rule::Docs, "public item without doc comment".to_owned());
            }
        }
        found
    }

    fn phrases_in(&self, line: &str) -> impl Iterator<Item = &str> {
        let low = line.to_lowercase();
        self.phrases.iter().flat_map(move |phrase| {
            let starts = low.match_indices(phrase.as_str()).filter(|(start, _)| {
                let before = &low[..*start];
                let plain = phrase == "is no " && BEFORE_IS_NO.iter().any(|word| before.ends_with(word));
                !plain && !before.ends_with(char::is_alphabetic)
            });
            std::iter::repeat_n(phrase.as_str(), starts.count())
        })
    }
}

/// Splits the ASCII words of a line into lower-case tokens: `HTMLParser` is `html` and `parser`.
fn tokens(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).flat_map(|word| {
        let bytes = word.as_bytes();
        let starts_token = |at: usize| {
            let after_lower = bytes[at - 1].is_ascii_lowercase();
            let before_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            bytes[at].is_ascii_uppercase() && (after_lower || before_lower)
        };
        let mut starts: Vec<usize> = (1..word.len()).filter(|at| starts_token(*at)).collect();
        starts.insert(0, 0);
        let mut ends = starts[1..].to_vec();
        ends.push(word.len());
        starts.into_iter().zip(ends).map(|(start, end)| word[start..end].to_lowercase())
    })
}

fn is_wide_comment(line: &str) -> bool {
    let comment = line.trim_start();
    let breakable = comment.get(4..).is_some_and(|text| text.contains(' ')) && !comment.contains("://");
    comment.starts_with("//") && breakable && line.chars().count() > WIDEST_COMMENT
}

fn is_public_item(line: &str) -> bool {
    let Some(mut rest) = line.trim_start().strip_prefix("pub ") else { return false };
    loop {
        let item = ["fn ", "struct ", "enum ", "trait ", "static ", "type ", "union "];
        if item.iter().any(|word| rest.starts_with(word)) {
            return true;
        }
        let constant = rest.strip_prefix("const ");
        let modifiers = ["async ", "unsafe ", "extern \"C\" "];
        match constant.or_else(|| modifiers.iter().find_map(|word| rest.strip_prefix(word))) {
            Some(next) => rest = next,
            None => return false,
        }
        // `const NAME:` is an item, `const fn` is a modifier.
        if constant.is_some() && rest.starts_with(|c: char| c.is_uppercase() || c == '_') {
            return true;
        }
    }
}

/// Looks for a doc comment above an item, past its attributes.
fn has_doc_comment(above: &[&str]) -> bool {
    let is_attribute = |line: &str| line.starts_with("#[") || line.ends_with(']') || line.starts_with(')');
    let mut lines = above.iter().rev().map(|line| line.trim()).skip_while(|line| is_attribute(line));
    lines.next().is_some_and(|line| line.starts_with("///") || line.starts_with('#'))
}

/// Returns the files under the guard: Rust, pages, scripts and manifests.
fn guarded() -> Vec<PathBuf> {
    let dirs = ["crates", "docs", "fuzz", "lab", "tests", "tools", ".ci", ".github"];
    let mut paths: Vec<PathBuf> = dirs.iter().flat_map(|dir| walk(&root().join(dir))).collect();
    let top = fs::read_dir(root()).expect("the root").flatten().map(|entry| entry.path());
    paths.extend(top.filter(|path| path.is_file()));
    paths.retain(|path| {
        let script = || ["tools/", "lab/", ".ci/"].iter().any(|dir| relative(path).starts_with(dir));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) => ["rs", "md", "py", "sh", "toml", "yml"].contains(&extension),
            None => script() || path.file_name().is_some_and(|name| name == "Makefile"),
        }
    });
    paths.sort();
    paths
}

type Counts = BTreeMap<(String, String), usize>;

fn allowed(path: &Path) -> Counts {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.filter_map(|line| {
        let mut fields = line.split('\t').map(str::to_owned);
        Some(((fields.next()?, fields.next()?), fields.next()?.parse().ok()?))
    });
    fields.collect()
}

fn write_allowed(path: &Path, counts: &Counts) {
    let mut text =
        "# Remaining complaints of the language guard: file, rule, number. Numbers only go down.\n"
            .to_owned();
    for ((file, rule), count) in counts {
        text += &format!("{file}\t{rule}\t{count}\n");
    }
    fs::write(path, text).expect("allowed.txt");
}

#[test]
fn language_complaints_match_the_allowed_list() {
    let guard = Guard::new();
    let mut counts = Counts::new();
    let mut listed: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for path in guarded() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = relative(&path);
        for complaint in guard.check(&name, &text) {
            let key = (name.clone(), complaint.rule.name().to_owned());
            *counts.entry(key.clone()).or_default() += 1;
            let line = text.lines().nth(complaint.line - 1).unwrap_or_default().trim();
            listed.entry(key).or_default().push(format!("  {}: {}: {line}", complaint.line, complaint.text));
        }
    }
    let list = root().join("tests/tidy/allowed.txt");
    if std::env::var_os("UPDATE_ALLOWED").is_some() {
        return write_allowed(&list, &counts);
    }
    let allowed = allowed(&list);
    let keys: BTreeSet<_> = counts.keys().chain(allowed.keys()).collect();
    let mut failures = Vec::new();
    for key in keys {
        let count = |counts: &Counts| counts.get(key).copied().unwrap_or_default();
        let (found, most) = (count(&counts), count(&allowed));
        let (file, rule) = key;
        if found > most {
            failures.push(format!("{file}: {found} complaints of rule {rule}, {most} allowed:"));
            failures.extend(listed[key].iter().take(MOST_PRINTED).cloned());
        } else if found < most {
            failures.push(format!(
                "{file}: {found} complaints of rule {rule}, fewer than the {most} in tests/tidy/allowed.txt: \
                 lower the number (UPDATE_ALLOWED=1 rewrites the list)"
            ));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn complaints(path: &str, text: &str) -> Vec<(usize, Rule)> {
    Guard::new().check(path, text).iter().map(|complaint| (complaint.line, complaint.rule)).collect()
}

#[test]
fn banned_words_are_found_inside_identifiers() {
    let banned = ["forETELLs", "fn reTell() {}", "struct HTMLErrand;", "let is_told = 1;", "who: he"];
    let found = banned.map(|line| !complaints("a.rs", line).is_empty());
    assert_eq!(found, [false, true, true, true, true]);
    let fine = ["hello, the other", "interest", "there is no way"];
    fine.iter().for_each(|line| assert!(complaints("a.rs", line).is_empty(), "{line}"));
    assert!(complaints("a.md", "a file is no folder") == [(1, Rule::Phrase)]);
}

#[test]
fn wide_comments_and_undocumented_items_are_found() {
    let wide = format!("/// {}", "word ".repeat(20));
    assert!(complaints("a.rs", &wide) == [(1, Rule::Width)] && complaints("a.md", &wide).is_empty());
    let text = "/// Documented.\n#[derive(Debug)]\npub struct A;\n\npub const fn b() {}\n\npub const C: u8 = 0;\npub use d;\n";
    assert!(complaints("a/src/b.rs", text) == [(5, Rule::Docs), (7, Rule::Docs)]);
    assert!(complaints("a/tests/b.rs", text).is_empty());
}
