//! Filters and source paths, compared with the manual of rsync and with an installed rsync.

use numaio_mover::filter::{Action, Filter, Pattern, SourcePath};
use numaio_mover::name::Name;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tree of the tests; directories end with a slash.
const TREE: [&str; 38] = [
    "a",
    "ab/",
    "ab/a",
    "ab/b.o",
    "ab/foo/",
    "ab/foo/bar",
    "ab/foo/ab/",
    "ab/foo/ab/bar",
    "b.c",
    "b.o",
    "bar",
    "bar.c/",
    "bar.c/b.o",
    "foo/",
    "foo/a",
    "foo/ab/",
    "foo/ab/bar",
    "foo/ab/ab/",
    "foo/ab/ab/bar",
    "foo/ab/ab/foo",
    "foo/b.c",
    "foo/bar",
    "foo/bar.c",
    "foo/foo/",
    "foo/foo/a",
    "foo/foo/bar/",
    "foo/foo/bar/a",
    "foob",
    "x/",
    "x/*",
    "x/[a]",
    "x/a\\b",
    "x/b-",
    "x/]",
    "x/foo/",
    "x/foo/bar",
    "x/foo/foo/",
    "x/foo/foo/a",
];

/// Rules, and what remains of the tree: examples and rules from the manual of rsync (sections
/// "Filter rules in depth" and "Pattern matching rules"). After `-`, the list names what is
/// excluded instead.
const CASES: [(&[&str], &str); 33] = [
    (&[], "-"),
    // Without a slash: matches the last component.
    (&["- *.o"], "- ab/b.o b.o bar.c/b.o"),
    (&["- bar.c"], "- bar.c/ bar.c/b.o foo/bar.c"),
    // A trailing slash: directories only.
    (&["- bar.c/"], "- bar.c/ bar.c/b.o"),
    (&["- bar/"], "- foo/foo/bar/ foo/foo/bar/a"),
    // A leading slash: anchored at the root.
    (&["- /bar"], "- bar"),
    (&["- /ab"], "- ab/ ab/a ab/b.o ab/foo/ ab/foo/bar ab/foo/ab/ ab/foo/ab/bar"),
    // A slash inside: matches the last components.
    (&["- foo/bar"], "- ab/foo/bar foo/bar foo/foo/bar/ foo/foo/bar/a x/foo/bar"),
    (&["- /foo/bar"], "- foo/bar"),
    (&["- foo/a/"], "-"),
    // `*` stays within a component, `**` does not.
    (&["- foo/*/bar"], "- ab/foo/ab/bar foo/ab/bar foo/foo/bar/ foo/foo/bar/a"),
    (&["- /foo/*/bar"], "- foo/ab/bar foo/foo/bar/ foo/foo/bar/a"),
    (&["- /foo/**/bar"], "- foo/ab/bar foo/ab/ab/bar foo/foo/bar/ foo/foo/bar/a"),
    (&["- /foo/**bar"], "- foo/bar foo/ab/bar foo/ab/ab/bar foo/foo/bar/ foo/foo/bar/a"),
    (&["- /f*r"], "-"),
    (&["- /f**r"], "- foo/bar foo/ab/bar foo/ab/ab/bar foo/foo/bar/ foo/foo/bar/a"),
    // The same with a trailing slash: directories only.
    (&["- /foo/***/"], "- foo/ foo/a foo/ab/ foo/ab/bar foo/ab/ab/ foo/ab/ab/bar foo/ab/ab/foo foo/b.c foo/bar foo/bar.c foo/foo/ foo/foo/a foo/foo/bar/ foo/foo/bar/a"),
    (&["- foo/ab/**/"], "- foo/ab/ab/ foo/ab/ab/bar foo/ab/ab/foo"),
    (&["+ foo/***/", "- *"], "foo/ foo/ab/ foo/ab/ab/ foo/foo/ foo/foo/bar/"),
    (&["- ab/**"], "- ab/a ab/b.o ab/foo/ ab/foo/bar ab/foo/ab/ ab/foo/ab/bar foo/ab/bar foo/ab/ab/ foo/ab/ab/bar foo/ab/ab/foo"),
    (&["- **/a"], "- a ab/a foo/a foo/foo/a foo/foo/bar/a x/foo/foo/a"),
    (&["- x/***"], "- x/ x/* x/[a] x/a\\b x/b- x/] x/foo/ x/foo/bar x/foo/foo/ x/foo/foo/a"),
    (&["- x/**"], "- x/* x/[a] x/a\\b x/b- x/] x/foo/ x/foo/bar x/foo/foo/ x/foo/foo/a"),
    // One byte, and one byte of a class.
    (&["- b?o"], "- ab/b.o b.o bar.c/b.o"),
    (&["- foo?"], "- foob"),
    (&["- b.[a-c]"], "- b.c foo/b.c"),
    (&["- [[:alpha:]].[!a-c]"], "- ab/b.o b.o bar.c/b.o"),
    (&["- x[/]foo"], "-"),
    // A backslash is literal in patterns without wildcards.
    (&["- a\\b"], "- x/a\\b"),
    (&["- a\\\\?"], "- x/a\\b"),
    (&["- \\*"], "- x/*"),
    // The first matching rule decides; contents of excluded directories are not examined.
    (&["+ */", "+ *.c", "- *"], "ab/ ab/foo/ ab/foo/ab/ b.c bar.c/ foo/ foo/ab/ foo/ab/ab/ foo/b.c foo/bar.c foo/foo/ foo/foo/bar/ x/ x/foo/ x/foo/foo/"),
    (&["+ /foo/", "+ /foo/bar.c", "- *"], "foo/ foo/bar.c"),
];

fn filter(rules: &[String]) -> Filter {
    let mut filter = Filter::default();
    for rule in rules {
        let action = if rule.starts_with('+') { Action::Include } else { Action::Exclude };
        filter.add(action, Pattern::new(&rule.as_bytes()[2..]).expect("a pattern"));
    }
    filter
}

fn ours(rules: &[String]) -> BTreeSet<String> {
    let filter = filter(rules);
    let reaches = |name: &&&str| {
        let path = Name::new(name.trim_end_matches('/').as_bytes()).expect("a name");
        filter.includes_with_parents(&path, name.ends_with('/'))
    };
    TREE.iter().filter(reaches).map(|name| (*name).to_string()).collect()
}

/// A folder with the tree, as input for rsync.
struct RsyncTree(PathBuf);

impl RsyncTree {
    /// Creates the folder; `None` if rsync is not installed.
    fn new(test: &str) -> Option<Self> {
        if Command::new("rsync").arg("--version").output().is_err() {
            let why = "skipped: filters are not compared with rsync, which is not installed";
            let _ = writeln!(std::io::stderr(), "{why}");
            return None;
        }
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rsync-{test}-{}", std::process::id()));
        fs::create_dir_all(folder.join("tree")).expect("a folder");
        for name in TREE {
            let path = folder.join("tree").join(name);
            match name.ends_with('/') {
                true => fs::create_dir_all(path).expect("a folder"),
                false => fs::write(path, "").expect("a file"),
            }
        }
        Some(Self(folder))
    }

    /// Returns the names that rsync would copy from a source to an empty folder.
    fn rsync_names(&self, rules: &[String], source: &str) -> BTreeSet<String> {
        let mut rsync = Command::new("rsync");
        rsync.args(["-rn", "--out-format=%n"]).args(rules.iter().map(|rule| format!("--filter={rule}")));
        let output = rsync.args([source, "sink/"]).current_dir(&self.0).output().expect("rsync");
        let sent = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{rules:?} {source}: {sent}");
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        names.lines().filter(|name| *name != "./").map(Into::into).collect()
    }
}

impl Drop for RsyncTree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn rules_match_the_manual_of_rsync() {
    let rsync_tree = RsyncTree::new("cases");
    for (rules, expected) in CASES {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_string()).collect();
        let listed = |text: &str| -> BTreeSet<String> { text.split_whitespace().map(Into::into).collect() };
        let expected = match expected.strip_prefix('-') {
            Some(without) => &listed(&TREE.join(" ")) - &listed(without),
            None => listed(expected),
        };
        assert_eq!(ours(&rules), expected, "{rules:?}");
        if let Some(rsync_tree) = &rsync_tree {
            assert_eq!(rsync_tree.rsync_names(&rules, "tree/"), expected, "rsync differs: {rules:?}");
        }
    }
}

/// Random rules of fragments that are significant in patterns and in the tree.
#[test]
fn random_rules_match_rsync() {
    let Some(rsync_tree) = RsyncTree::new("chance") else { return };
    let atom = proptest::sample::select(vec![
        "a",
        "b",
        "foo",
        "bar",
        "ab",
        ".o",
        ".c",
        "/",
        "/",
        "/",
        "*",
        "*",
        "**",
        "***",
        "?",
        "[a-f]",
        "[!a]",
        "[]-]",
        "[[:alpha:]]",
        "\\",
        "[/]",
        "x",
    ]);
    let rule = (prop_oneof![3 => Just("- "), 1 => Just("+ ")], proptest::collection::vec(atom, 1..6));
    let rule = rule.prop_map(|(action, atoms)| format!("{action}{}", atoms.concat()));
    let rules = proptest::collection::vec(rule, 1..4);
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let result = runner.run(&rules, |rules| {
        prop_assert_eq!(ours(&rules), rsync_tree.rsync_names(&rules, "tree/"));
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.err().map(|error| error.to_string()).unwrap_or_default());
}

#[test]
fn source_paths_match_rsync() {
    let Some(rsync_tree) = RsyncTree::new("origins") else { return };
    for source in [
        "tree",
        "tree/",
        "tree//",
        "tree/.",
        "./tree",
        "tree/foo",
        "tree/foo/",
        "tree//foo",
        "tree/x/..",
        ".",
        "tree/a",
        "tree/ab/foo",
    ] {
        let origin = SourcePath::parse(source.as_bytes()).expect("a source");
        let root = rsync_tree.0.join(String::from_utf8(origin.root).expect("text"));
        let mut expected = BTreeSet::new();
        match origin.only {
            Some(name) => list(&root, &name, &mut expected),
            None => children(&root, &Name::root(), &mut expected),
        }
        assert_eq!(rsync_tree.rsync_names(&[], source), expected, "{source}");
    }
}

fn list(root: &Path, name: &Name, found: &mut BTreeSet<String>) {
    let is_directory = root.join(name.to_string().replace("\\\\", "\\")).is_dir();
    found.insert(name.to_string().replace("\\\\", "\\") + if is_directory { "/" } else { "" });
    if is_directory {
        children(root, name, found);
    }
}

fn children(root: &Path, name: &Name, found: &mut BTreeSet<String>) {
    let directory = if name.is_root() { root.to_owned() } else { root.join(name.to_string()) };
    for entry in fs::read_dir(directory).expect("a folder").flatten() {
        let child = name.join(entry.file_name().as_encoded_bytes()).expect("a name");
        list(root, &child, found);
    }
}
