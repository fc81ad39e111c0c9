//! Tapes: round trips, replay, truncation and hostile input.

use numaio_machine::conformance;
use numaio_machine::ids::{CpuId, NodeId};
use numaio_machine::probe::{CopyOutcome, CopySample, Outcome, Probe, ProbeError, Residency};
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::{ReadError, ReadErrorKind, Sysfs, SysfsExt};
use numaio_machine::tape::{ChangedFile, Recording, Replay, Tape, TapeError, TapeHeader, TAPE_SCHEMA};
use numaio_machine::tree::{Tree, MAX_PATH_BYTES};
use numaio_machine::workload::{CopyLoop, CopyWorkload, Flow, Pages, Placement, Sampling, Workload};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

fn header() -> TapeHeader {
    let (numaio, name, note) = ("0.1.0".to_owned(), "böx".to_owned(), "made up".to_owned());
    TapeHeader { tape: TAPE_SCHEMA.to_owned(), numaio, name, note, recorded_at: 1_700_000_000 }
}

fn copy(cpu: u32) -> Workload {
    Workload::Copy(CopyWorkload {
        flow: Flow { source: NodeId(0), sink: NodeId(1) },
        placement: Placement { cpus: CpuSet::one(CpuId(cpu)) },
        copy_loop: CopyLoop::Memcpy,
        bytes_per_thread: 1 << 20,
        pages: Pages::Base,
        sampling: Sampling::Repetitions { count: 1 },
    })
}

fn outcome(ns: u64) -> Outcome {
    let samples = vec![CopySample { bytes_copied: 1 << 20, ns }];
    Outcome::Copy(CopyOutcome {
        samples,
        elapsed_ns: 2 * ns,
        start_skew_ns: 0,
        residency: Residency::default(),
        c_library: Some("musl".into()),
    })
}

/// Creates a tree with every kind of entry.
fn tree() -> Tree {
    let mut tree = Tree::new();
    tree.link("/proc/self", "4242")
        .file("/proc/4242/status", "Name:\tnumaio\n")
        .link("/sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
        .link("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/device", "../../../0000:00:03.0")
        .file("/sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1\n")
        .file("/sys/devices/pci0000:00/0000:00:03.0/config", [0u8, 255, 128])
        .file("/sys/devices/pci0000:00/0000:00:03.0/label", "größer\u{2028}\0\n")
        .unreadable(
            "/sys/devices/pci0000:00/0000:00:03.0/net/eth0/speed",
            ReadErrorKind::Failed("EINVAL".into()),
        )
        .unreadable("/sys/class/dmi/id/product_serial", ReadErrorKind::Denied)
        .unreachable("/proc/1/cwd", ReadErrorKind::Denied)
        .link("/sys/dangling", "nowhere")
        .link("/sys/loop", "loop")
        .dir("/sys/empty");
    tree
}

/// A machine whose runs all differ.
struct Machine(Cell<u64>);

impl Probe for Machine {
    fn run(&self, workload: &Workload) -> Result<Outcome, ProbeError> {
        let Workload::Copy(copy) = workload else {
            return Err(ProbeError::Unsupported { feature: workload.to_string() });
        };
        self.0.set(self.0.get() + 1);
        match copy.placement.cpus.first() {
            Some(CpuId(9)) => {
                Err(ProbeError::Unsupported { feature: format!("CPU 9, asked {}", self.0.get()) })
            }
            Some(CpuId(8)) => Err(ProbeError::Interrupted),
            _ => Ok(outcome(self.0.get())),
        }
    }
}

fn tape() -> Tape {
    let runs =
        vec![(copy(0), Ok(outcome(5))), (copy(9), Err(ProbeError::Unsupported { feature: "it".into() }))];
    let change = |read, content: &[u8]| ChangedFile { read, content: content.to_vec() };
    let changes = vec![change(2, b"Name:\tother\n"), change(5, b"\xff")];
    Tape {
        header: header(),
        files: tree(),
        changes: [("/proc/4242/status".to_owned(), changes)].into(),
        answers: Default::default(),
        runs,
        documents: vec![(serde_json::json!({"schema": "numaio/io/1", "cells": [1.5, null]}), (0, 2))],
    }
}

#[test]
fn tape_round_trips() {
    assert_eq!(Tape::parse(&tape().to_text()), Ok(tape()));
    assert_eq!(Tape::parse_bytes(tape().to_text().as_bytes()), Ok(tape()));
}

#[test]
fn truncated_tape_keeps_complete_lines() {
    let text = tape().to_text();
    let header_ends = text.find('\n').expect("a line");
    for cut in 0..text.len() {
        match Tape::parse_bytes(&text.as_bytes()[..cut]) {
            Ok(read) => {
                // The header is also a complete line, but not an entry.
                let whole = text.as_bytes()[..cut].iter().filter(|byte| **byte == b'\n').count();
                let changes: usize = read.changes.values().map(Vec::len).sum();
                let kept = read.files.entries().count() + changes + read.runs.len();
                assert!(kept + 1 >= whole, "cut at {cut}: {kept} of {whole}");
            }
            Err(why) => assert!(cut < header_ends && why == TapeError::NoHeader, "cut at {cut}: {why}"),
        }
    }
}

#[test]
fn replays_each_run_once_in_order() {
    let recording = Recording::new(Machine(Cell::new(0)), header());
    let asked = [0, 1, 0, 9, 8, 0, 9];
    let gave: Vec<_> = asked.map(|cpu| recording.run(&copy(cpu))).into();
    let replay = Replay::new(Tape::parse(&recording.tape().to_text()).expect("a tape"));
    // Another order of workloads, but the recorded order within each; interrupted runs are absent.
    for index in [1, 3, 0, 2, 6, 5] {
        assert_eq!(replay.run(&copy(asked[index])), gave[index], "run {index}");
    }
    for cpu in [0, 1, 8, 9, 77] {
        assert!(matches!(replay.run(&copy(cpu)), Err(ProbeError::NotOnTape { .. })), "CPU {cpu}");
    }
}

#[test]
fn replay_passes_sysfs_conformance() {
    let mut tree = Tree::new();
    conformance::fill(|path, content| {
        tree.file(path, content);
    });
    conformance::fill_links(|path, target| {
        tree.link(path, target);
    });
    let recording = Recording::new(tree, header());
    conformance::sysfs(&recording);
    conformance::sysfs(&Replay::new(Tape::parse(&recording.tape().to_text()).expect("a tape")));
}

#[derive(Debug, Clone, Copy)]
enum Look {
    Read,
    List,
    Resolve,
}

fn look(machine: &dyn Sysfs, how: Look, path: &str) -> Result<Vec<String>, ReadErrorKind> {
    let seen = match how {
        Look::Read => machine.read(path).map(|content| vec![String::from_utf8_lossy(&content).into_owned()]),
        Look::List => machine.list(path),
        Look::Resolve => machine.resolve(path).map(|place| vec![place]),
    };
    seen.map_err(|error| error.why)
}

/// Records accesses to a machine and checks that the tape replays each of them.
fn check(tree: &Tree, looks: &[(Look, String)]) {
    let recording = Recording::new(tree.clone(), header());
    let seen: Vec<_> = looks.iter().map(|(how, path)| look(&recording, *how, path)).collect();
    for ((how, path), seen) in looks.iter().zip(&seen) {
        assert_eq!(look(tree, *how, path), *seen, "recording returns the original result: {how:?} {path}");
    }
    let tape = recording.tape();
    let read = Tape::parse(&tape.to_text()).expect("a tape");
    assert_eq!(read, tape, "the tape round-trips");
    let replay = Replay::new(read);
    for ((how, path), seen) in looks.iter().zip(&seen) {
        assert_eq!(look(&replay, *how, path), *seen, "{how:?} {path} of {looks:?}");
    }
}

#[test]
fn replays_recorded_accesses() {
    use Look::{List, Read, Resolve};
    let looks: [(Look, &str); 22] = [
        (Read, "/sys/class/net/eth0/device/numa_node"), // before the links are recorded
        (Read, "/sys/class/net/eth0/speed"),
        (List, "/sys/class/net"),
        (List, "/sys/class/net/eth0"),
        (Resolve, "/sys/class/net/eth0/device"),
        (Read, "/sys/class/net/eth0/../../numa_node"),
        (Resolve, "/sys/class/net/eth0/absent/.."),
        (Read, "/sys/class/net/eth0/device/config"),
        (Read, "/sys/class/net/eth0/device/label"),
        (Read, "/sys/class/dmi/id/product_serial"),
        (Resolve, "/sys/class/dmi/id/product_serial"),
        (Read, "/proc/self/status"),
        (List, "/proc/self"),
        (Read, "/proc/1/cwd"),
        (List, "/sys"),
        (Read, "/sys/dangling"),
        (Read, "/sys/loop"),
        (List, "/sys/empty"),
        (Read, "/sys/empty/absent"),
        (Read, "/proc/self/status/below"),
        (List, "/"),
        (List, "/proc/4242/status"),
    ];
    let looks = looks.map(|(how, path)| (how, path.to_owned()));
    check(&tree(), &looks);
    looks.iter().for_each(|look| check(&tree(), std::slice::from_ref(look)));
    let mut reversed = looks;
    reversed.reverse();
    check(&tree(), &reversed);
}

/// The tape of a file read through a link holds the link where it stands, and leads there by other
/// ways too.
#[test]
fn records_links_at_their_own_paths() {
    let recording = Recording::new(tree(), header());
    recording.text("/sys/class/net/eth0/device/numa_node").expect("a file");
    let replay = Replay::new(recording.tape());
    let node = "/sys/devices/pci0000:00/0000:00:03.0/numa_node";
    assert_eq!(replay.text(node).expect("by its own path"), "-1");
    assert_eq!(replay.resolve("/sys/class/net/eth0/device/numa_node").expect("by links"), node);
    assert_eq!(replay.list("/sys/class/net").expect("a directory"), ["eth0"]);
}

#[test]
fn rejects_or_contains_hostile_tapes() {
    let first = serde_json::to_string(&header()).expect("a header") + "\n";
    let long = "/a".repeat(MAX_PATH_BYTES);
    let bad = [
        format!(r#"{{"file":"{long}","text":""}}"#),
        format!(r#"{{"link":"{long}","target":"/"}}"#),
        r#"{"file":"/a","hex":"0"}"#.to_owned(),
        r#"{"file":"/a","hex":"+f"}"#.to_owned(),
        r#"{"file":"/a","hex":"éé"}"#.to_owned(),
        r#"{"file":"/a"}"#.to_owned(),
        "[".repeat(100_000),
    ];
    for line in bad {
        let read = Tape::parse(&format!("{first}{line}\n"));
        let shown: String = line.chars().take(60).collect();
        assert!(matches!(read, Err(TapeError::BadLine(2, _))), "{shown}: {read:?}");
    }
    let middle = [first.as_bytes(), b"\xff\n", first.as_bytes()].concat();
    assert_eq!(Tape::parse_bytes(&middle), Err(TapeError::BadLine(2, "not UTF-8".to_owned())));
    assert!(matches!(Tape::parse("{\"tape\":\"numaio/tape/9\"}\n"), Err(TapeError::OtherVersion(_))));
    assert_eq!(Tape::parse(""), Err(TapeError::NoHeader));
    let deep = "/a".repeat(MAX_PATH_BYTES / 2);
    let harmless = [
        format!(r#"{{"file":"{deep}","text":"deep"}}"#),
        format!(r#"{{"link":"/l","target":"{long}"}}"#),
        r#"{"file":"/","text":"no root"}"#.to_owned(),
        r#"{"link":"/loop","target":"loop"}"#.to_owned(),
        r#"{"file":"/loop/../../../x","text":"no way out"}"#.to_owned(),
        r#"{"file":"","text":"nowhere"}"#.to_owned(),
    ];
    let read = Tape::parse(&(first + &harmless.join("\n") + "\n")).expect("a tape");
    assert_eq!(read.files.text(&deep).expect("a deep path within the limit"), "deep");
    assert!(read.files.read("/l/x").is_err());
    assert_eq!(read.files.text("/x").expect("a path clamped to the root"), "no way out");
    assert_eq!(read.files.read("/").expect_err("a directory").why, ReadErrorKind::WrongKind);
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![4 => prop_oneof![Just("a"), Just("b"), Just("c")], 1 => prop_oneof![Just(".."), Just("")], 1 => Just(".")];
    proptest::collection::vec(name, 1..5).prop_map(|names| format!("/{}", names.join("/")))
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let target = prop_oneof![path(), path().prop_map(|path| path[1..].to_owned())];
    let entry = (path(), 0..6u8, target);
    proptest::collection::vec(entry, 0..12).prop_map(|entries| {
        let mut tree = Tree::new();
        for (path, kind, target) in entries {
            match kind {
                0 | 1 => tree.file(&path, target),
                2 | 3 => tree.link(&path, &target),
                4 => tree.unreadable(&path, ReadErrorKind::Denied),
                _ => tree.dir(&path),
            };
        }
        tree
    })
}

fn any_contents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let content = prop_oneof![Just(b"a".to_vec()), Just(Vec::new()), Just(vec![0xff])];
    proptest::collection::vec(content, 1..6)
}

fn any_look() -> impl Strategy<Value = (Look, String)> {
    (prop_oneof![Just(Look::Read), Just(Look::List), Just(Look::Resolve)], path())
}

/// A machine of a few files that cycle through given contents.
struct Changing(Tree, RefCell<BTreeMap<String, Vec<Vec<u8>>>>);

impl Sysfs for Changing {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let place = self.resolve(path)?;
        let mut contents = self.1.borrow_mut();
        let contents = contents.get_mut(&place).expect("a file of this machine");
        contents.rotate_left(1);
        Ok(contents[contents.len() - 1].clone())
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.0.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.0.resolve(path)
    }
}

fn changing(contents: [Vec<Vec<u8>>; 2]) -> Changing {
    let mut tree = Tree::new();
    tree.file("/proc/stat", "").file("/proc/7/stat", "").link("/proc/self", "7");
    let paths = ["/proc/stat", "/proc/7/stat"].map(str::to_owned);
    Changing(tree, RefCell::new(paths.into_iter().zip(contents).collect()))
}

/// Files such as load and frequencies are read before and after a campaign.
#[test]
fn records_every_content_of_a_changing_file() {
    let contents = ["1", "1", "2", "\u{ff}", "1"].map(|text| text.as_bytes().to_vec()).to_vec();
    let recording = Recording::new(changing([contents.clone(), contents]), header());
    let paths = ["/proc/stat", "/proc/self/stat", "/proc/7/stat", "/proc/stat", "/proc/7/stat", "/proc/stat"];
    let seen: Vec<_> = paths.iter().map(|path| recording.read(path).expect("a file")).collect();
    assert_eq!(seen[5], b"2");
    let mut tape = Tape::parse(&recording.tape().to_text()).expect("a tape");
    let replay = Replay::new(tape.clone());
    let again: Vec<_> = paths.iter().map(|path| replay.read(path).expect("a file")).collect();
    assert_eq!(again, seen);
    assert_eq!(replay.read("/proc/stat").expect("a file"), b"2", "the last content repeats");
    tape.changes.clear();
    let old = Replay::new(tape);
    assert!((0..4).all(|_| old.read("/proc/stat").is_ok_and(|content| content == b"1")));
}

#[test]
fn limits_recorded_changes_of_a_file() {
    let contents: Vec<Vec<u8>> = (0..1000u32).map(|number| number.to_string().into_bytes()).collect();
    let recording = Recording::new(changing([contents.clone(), contents]), header());
    (0..1000).for_each(|_| drop(recording.read("/proc/stat")));
    assert_eq!(recording.tape().changes.values().map(Vec::len).collect::<Vec<_>>(), [256]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_access_replays(tree in any_tree(), looks in proptest::collection::vec(any_look(), 1..8)) {
        check(&tree, &looks);
    }

    #[test]
    fn any_reads_of_changing_files_replay(
        contents in any_contents(), others in any_contents(), reads in proptest::collection::vec(0..3usize, 1..20),
    ) {
        let paths = ["/proc/stat", "/proc/7/stat", "/proc/self/stat"];
        let recording = Recording::new(changing([contents, others]), header());
        let seen: Vec<_> = reads.iter().map(|read| recording.read(paths[*read])).collect();
        let tape = recording.tape();
        let read = Tape::parse(&tape.to_text()).expect("a tape");
        prop_assert_eq!(&read, &tape);
        let replay = Replay::new(read);
        for (read, seen) in reads.iter().zip(&seen) {
            prop_assert_eq!(&replay.read(paths[*read]), seen);
        }
    }

    #[test]
    fn any_tree_round_trips(files in any_tree()) {
        let tape = Tape { files, ..Tape::new(header()) };
        prop_assert_eq!(Tape::parse(&tape.to_text()), Ok(tape));
    }

    #[test]
    fn parse_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let first = serde_json::to_string(&header()).expect("a header") + "\n";
        let _ = Tape::parse_bytes(&bytes);
        let _ = Tape::parse_bytes(&[first.as_bytes(), &bytes].concat());
    }
}

#[test]
fn bad_lines_are_explained_without_library_messages() {
    let why = |line: &str| {
        let text = format!("{}{line}\n", tape().to_text().split_inclusive('\n').next().unwrap_or_default());
        Tape::parse(&text).expect_err(line).to_string()
    };
    assert!(
        why("{\"fil\": \"/x\"}").ends_with("unknown fields or values: fil"),
        "{}",
        why("{\"fil\": \"/x\"}")
    );
    assert!(why("[1]").ends_with("expected a JSON object"));
    assert!(why("{\"file\":").contains("invalid JSON at column"));
}
