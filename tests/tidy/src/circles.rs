//! Import circles: files of a crate that need each other, so that none can be read first.
//!
//! File A depends on file B if it names an item that B defines, in code or in an attribute;
//! re-exports are followed, and tests do not count. The known circles are in `circles.txt`, which
//! only shrinks.

use crate::tree::{crates, relative, root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// A module path within a crate; empty for the root.
type Module = Vec<String>;

/// A file of a crate, and the paths that it names.
struct SourceFile {
    path: PathBuf,
    /// Paths as written, without those of tests.
    names: Vec<Vec<String>>,
    /// Re-exported names, and their paths.
    exports: BTreeMap<String, Vec<String>>,
    /// Child modules that are compiled only for tests.
    test_modules: Vec<String>,
}

/// Collects the paths of a file.
#[derive(Default)]
struct Collector {
    names: Vec<Vec<String>>,
    exports: BTreeMap<String, Vec<String>>,
    test_modules: Vec<String>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|it| it == "test")
    })
}

fn paths_of(tree: &UseTree, before: &[String], paths: &mut Vec<(String, Vec<String>)>) {
    let with = |name: String| [before, &[name]].concat();
    match tree {
        UseTree::Path(path) => paths_of(&path.tree, &with(path.ident.to_string()), paths),
        UseTree::Name(name) if name.ident == "self" => {
            paths.push((before.last().cloned().unwrap_or_default(), before.to_vec()));
        }
        UseTree::Name(name) => paths.push((name.ident.to_string(), with(name.ident.to_string()))),
        UseTree::Rename(rename) => {
            paths.push((rename.rename.to_string(), with(rename.ident.to_string())));
        }
        UseTree::Glob(_) => paths.push((String::new(), before.to_vec())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| paths_of(tree, before, paths)),
    }
}

impl<'a> Visit<'a> for Collector {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs[..],
            Item::Impl(item) => &item.attrs[..],
            Item::Use(item) => &item.attrs[..],
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        match (is_test(&module.attrs), &module.content) {
            (true, _) => self.test_modules.push(module.ident.to_string()),
            (false, _) => visit::visit_item_mod(self, module),
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let mut paths = Vec::new();
        paths_of(&item.tree, &[], &mut paths);
        if !matches!(item.vis, Visibility::Inherited) {
            self.exports.extend(paths.iter().cloned());
        }
        self.names.extend(paths.into_iter().map(|(_, path)| path));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            self.names.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.names.extend(paths_in(&call.tokens.to_string()));
    }

    /// Links of doc comments are no dependencies.
    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.names.extend(paths_in(&list.tokens.to_string()));
        }
    }
}

/// Returns the paths in tokens, also those in strings, such as `with = "crate::shard_text"`.
fn paths_in(tokens: &str) -> impl Iterator<Item = Vec<String>> {
    let text = tokens.replace(" :: ", "::");
    let paths = text.split(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
    let words = |path: &str| path.split("::").map(str::to_owned).collect();
    paths.filter(|path| path.contains("::")).map(words).collect::<Vec<_>>().into_iter()
}

/// Returns the files of a crate by module, without those of tests.
fn files(dir: &Path) -> BTreeMap<Module, SourceFile> {
    let mut files = BTreeMap::new();
    for (path, text) in rust_files(&dir.join("src")) {
        let below = path.strip_prefix(dir.join("src")).expect("a file of the crate").with_extension("");
        let mut module: Module = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        module.pop_if(|last| ["mod", "lib", "main"].contains(&&**last));
        let mut collector = Collector::default();
        collector.visit_file(&syn::parse_file(&text).expect("Rust"));
        let Collector { names, exports, test_modules } = collector;
        // A library comes before the program beside it.
        files.entry(module).or_insert(SourceFile { path, names, exports, test_modules });
    }
    let tests: Vec<Module> = files
        .iter()
        .flat_map(|(module, file)| {
            file.test_modules.iter().map(|test| [&module[..], std::slice::from_ref(test)].concat())
        })
        .collect();
    files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    files
}

/// Returns the module that defines what a path names, if it is in the crate.
fn resolve(files: &BTreeMap<Module, SourceFile>, from: &Module, path: &[String]) -> Option<Module> {
    let mut at = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => {
            at.pop()?;
        }
        first if files.contains_key(&[&at[..], &[first.to_owned()]].concat()) => at.push(first.to_owned()),
        _ => return None,
    }
    rest = &rest[1..];
    while let Some((name, further)) = rest.split_first() {
        let below = [&at[..], std::slice::from_ref(name)].concat();
        if name == "super" {
            at.pop()?;
        } else if files.contains_key(&below) {
            at = below;
        } else if let Some(export) = files.get(&at)?.exports.get(name) {
            return resolve(files, &at, export);
        } else {
            break;
        }
        rest = further;
    }
    files.contains_key(&at).then_some(at)
}

/// Returns the files that each file depends on.
fn dependencies(files: &BTreeMap<Module, SourceFile>) -> BTreeMap<&Module, BTreeSet<Module>> {
    let of = |(module, file): (_, &SourceFile)| {
        let found = file.names.iter().filter_map(|path| resolve(files, module, path));
        (module, found.filter(|to| to != module).collect())
    };
    files.iter().map(|(module, file)| of((module, file))).collect()
}

/// Returns what a module reaches by one or more steps.
fn reach<'a>(graph: &'a BTreeMap<&Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&Module> = graph[from].iter().collect();
    while let Some(module) = pending.pop() {
        if reached.insert(module) {
            pending.extend(&graph[module]);
        }
    }
    reached
}

/// Returns the circles of a crate: sets of files that reach each other.
fn circles(dir: &Path) -> BTreeSet<BTreeSet<String>> {
    let files = files(dir);
    let graph = dependencies(&files);
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (*module, reach(&graph, module))).collect();
    let circle = |module: &&Module| -> BTreeSet<String> {
        let others = reached[*module].iter().filter(|other| reached[**other].contains(module));
        others.map(|other| relative(&files[*other].path)).collect()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn import_circles_match_the_list() {
    let found: Vec<String> = crates()
        .iter()
        .flat_map(|(_, dir)| circles(dir))
        .map(|circle| circle.into_iter().collect::<Vec<_>>().join(" "))
        .collect();
    let list = root().join("tests/tidy/circles.txt");
    let head = "# Import circles, one a line: files that need each other. The list only shrinks.\n";
    let text = head.to_owned() + &found.iter().map(|circle| format!("{circle}\n")).collect::<String>();
    if std::env::var_os("UPDATE_ALLOWED").is_some() {
        return fs::write(list, text).expect("circles.txt");
    }
    let known = fs::read_to_string(list).unwrap_or_default();
    assert!(
        text == known,
        "the import circles differ from tests/tidy/circles.txt; remove new ones (docs: tests/tidy/src/circles.rs), \
         and rewrite the list with UPDATE_ALLOWED=1 if it has become shorter. Found:\n{text}"
    );
}
