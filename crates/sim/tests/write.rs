//! A tree written to a directory is seen by the kernel as [`Tree`] sees it: the kernel is the
//! oracle.

use numaio_machine::sysfs::{ReadErrorKind, Sysfs};
use numaio_machine::tree::{Entry, Tree};
use numaio_sim::{render, shapes, write_tree};
use proptest::prelude::*;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("numaio-sim-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&place).expect("a directory");
        Self(place.canonicalize().expect("it is there"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn why(error: &std::io::Error) -> ReadErrorKind {
    match error.kind() {
        ErrorKind::NotFound => ReadErrorKind::Absent,
        ErrorKind::NotADirectory | ErrorKind::IsADirectory => ReadErrorKind::WrongKind,
        _ if error.raw_os_error() == Some(40) => ReadErrorKind::Failed("too many links".to_owned()),
        _ => ReadErrorKind::Failed(error.to_string()),
    }
}

/// Returns the kernel's canonical path, content and names.
type FileStat = [Result<Vec<String>, ReadErrorKind>; 3];

fn by_kernel(root: &Path, path: &str) -> FileStat {
    let place = root.join(&path[1..]);
    let below = |place: PathBuf| format!("/{}", place.strip_prefix(root).expect("below the root").display());
    let names = |dir: std::fs::ReadDir| {
        let mut names: Vec<String> =
            dir.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        names.sort();
        names
    };
    [
        place.canonicalize().map(|place| vec![below(place)]).map_err(|error| why(&error)),
        std::fs::read(&place).map(shown).map_err(|error| why(&error)),
        std::fs::read_dir(&place).map(names).map_err(|error| why(&error)),
    ]
}

/// Shows the bytes of a file, which need not be text: configuration space is not.
fn shown(content: Vec<u8>) -> Vec<String> {
    vec![content.escape_ascii().to_string()]
}

fn by_tree(tree: &Tree, path: &str) -> FileStat {
    [
        tree.resolve(path).map(|place| vec![place]).map_err(|error| error.why),
        tree.read(path).map(shown).map_err(|error| error.why),
        tree.list(path).map_err(|error| error.why),
    ]
}

/// Returns a path deep enough that `..` cannot leave the temporary directory.
fn deep(path: &str) -> String {
    "/p".repeat(20) + path
}

fn path() -> impl Strategy<Value = String> {
    let plain = prop_oneof![Just("a"), Just("b"), Just("c")];
    let name = prop_oneof![5 => plain, 1 => Just(".."), 1 => Just("."), 1 => Just("")];
    proptest::collection::vec(name, 1..5).prop_map(|names| format!("/{}", names.join("/")))
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let target = prop_oneof![
        path().prop_map(|path| deep(&path)),
        path().prop_map(|path| path.trim_start_matches('/').to_owned())
    ];
    // The kernel rejects empty targets.
    let target = target.prop_map(|target| if target.is_empty() { ".".to_owned() } else { target });
    let plain = proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..4);
    let place = plain.prop_map(|names| format!("/{}", names.join("/")));
    proptest::collection::vec((place, 0..5u8, target), 0..10).prop_map(|entries| {
        let mut tree = Tree::new();
        tree.dir(&deep(""));
        for (path, kind, target) in entries {
            match kind {
                0 | 1 => tree.file(&deep(&path), target),
                2 | 3 => tree.link(&deep(&path), &target),
                _ => tree.dir(&deep(&path)),
            };
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tree_resolves_paths_as_the_kernel_does(tree in any_tree(), paths in proptest::collection::vec(path(), 1..12)) {
        let scratch = Scratch::new();
        write_tree(&tree, &scratch.0).expect("it can be written");
        for path in paths.iter().map(|path| deep(path)) {
            prop_assert_eq!(by_tree(&tree, &path), by_kernel(&scratch.0, &path), "{}", &path[40..]);
        }
    }
}

/// All files and links of a complete machine are written.
#[test]
fn writes_a_complete_machine() {
    let scratch = Scratch::new();
    let tree = render(&shapes::sparse());
    write_tree(&tree, &scratch.0).expect("it can be written");
    // Unreadable files cannot be checked, because root can read any file.
    for (path, _) in tree.entries().filter(|(_, entry)| !matches!(entry, Entry::Unreadable(_))) {
        assert_eq!(by_tree(&tree, path)[..2], by_kernel(&scratch.0, path)[..2], "{path}");
    }
}

/// A hostile tree cannot write through its own links, nor out of the directory.
#[test]
fn does_not_write_through_links() {
    let scratch = Scratch::new();
    let (outside, inside) = (scratch.0.join("outside"), scratch.0.join("inside"));
    std::fs::create_dir_all(&outside).expect("a directory");
    let mut tree = Tree::new();
    tree.file("/out/x", "before").link("/out", "../outside").file("/../../y", "up");
    tree.link("/away", outside.to_str().expect("a path")).file("/away/z", "through");
    write_tree(&tree, &inside).expect("it can be written");
    assert_eq!(std::fs::read_dir(&outside).expect("a directory").count(), 0);
    assert!(inside.join("y").is_file());
}
