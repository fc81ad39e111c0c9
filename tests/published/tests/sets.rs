//! The published sets of this repository, and odd ones.

use numaio_published::{compare_folder, format_comparison, Comparison, SetError};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn compared(set: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.add("set", Ok(set.to_string()));
    comparison
}

fn last_line(set: &Value) -> String {
    let text = format_comparison(&compared(set));
    text.lines().last().unwrap_or_default().to_owned()
}

/// A GPU on node 0 and a matrix of copies, in GB/s.
fn gpu(rates: &[f64], paths: [[f64; 2]; 2]) -> Value {
    json!({
        "machine": {"sockets": 2},
        "device": {"kind": "GPU", "node": [0]},
        "io": [{"direction": "d2h", "engine": "pinned copies", "unit": "GB/s", "by_memory_node": rates}],
        "memory": {"kind": "copy", "unit": "GB/s", "flow": "row=source", "matrix": paths},
    })
}

#[test]
fn published_sets_have_their_verdicts() {
    let comparison = compare_folder(&folder("data")).expect("the sets");
    let text = format_comparison(&comparison);
    let expected = folder("tests/verdicts.txt");
    if env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&expected, &text).expect("verdicts written");
    }
    let stored = fs::read_to_string(&expected).expect("verdicts");
    assert_eq!(text, stored, "run UPDATE_EXPECTED=1 cargo test -p numaio-published");
    assert_eq!(text.lines().last(), Some("all: 134 pairs, 0 misordered, 0 invented, 0 missed, 131 refused"));
    let rows = || comparison.sets.iter().flat_map(|set| &set.rows);
    for row in rows() {
        let refused: usize = row.devices.iter().map(|device| device.numaio.refused).sum();
        let is_refused = refused > 0 || row.devices.is_empty();
        assert_eq!(is_refused, !row.refused.is_empty(), "{}: a reason for each refusal", row.label);
    }
}

#[test]
fn pairs_are_counted_by_numaios_classes() {
    let of = |pairs: &str| format!("all: 1 pairs, {pairs}");
    let slow = [[300.0, 100.0], [100.0, 300.0]];
    let cases = [
        (gpu(&[330.0, 115.0], slow), "0 misordered, 0 invented, 0 missed, 0 refused"),
        (gpu(&[330.0, 330.0], slow), "0 misordered, 1 invented, 0 missed, 0 refused"),
        (gpu(&[200.0, 300.0], slow), "1 misordered, 0 invented, 0 missed, 0 refused"),
        (gpu(&[55.0, 20.0], slow), "0 misordered, 0 invented, 1 missed, 0 refused"),
        (gpu(&[55.0, 55.0], [[43.0, 38.0], [38.0, 43.0]]), "0 misordered, 0 invented, 0 missed, 1 refused"),
    ];
    for (set, expected) in cases {
        assert_eq!(last_line(&set), of(expected), "{set}");
    }
}

/// MLC's rows are the reading CPUs: from the GPU on node 0, node 1 reads node 0's memory.
#[test]
fn direction_of_the_flow_selects_row_or_column() {
    let mut set = gpu(&[55.0, 20.0], [[100.0, 60.0], [20.0, 100.0]]);
    let ranked = "all: 1 pairs, 0 misordered, 0 invented, 0 missed, 0 refused";
    let missed = "all: 1 pairs, 0 misordered, 0 invented, 1 missed, 0 refused";
    assert_eq!(last_line(&set), missed, "copies from node 0 to 1: 60");
    set["io"][0]["direction"] = json!("h2d");
    assert_eq!(last_line(&set), ranked, "copies from node 1 to 0: 20");
    set["memory"]["flow"] = Value::Null;
    assert_eq!(last_line(&set), missed, "node 0 reads node 1: 60");
    set["io"][0]["direction"] = json!("read");
    assert_eq!(last_line(&set), ranked, "node 1 reads node 0: 20");
}

#[test]
fn units_are_converted_and_other_units_refused() {
    let mut set = gpu(&[440.0, 160.0], [[100.0, 20.0], [20.0, 100.0]]);
    set["io"][0]["unit"] = json!("Gb/s");
    assert_eq!(last_line(&set), "all: 1 pairs, 0 misordered, 0 invented, 0 missed, 0 refused");
    for unit in ["us", "kIOPS", ""] {
        set["io"][0]["unit"] = json!(unit);
        let text = format_comparison(&compared(&set));
        assert!(text.ends_with("1 refused\n"), "{text}");
    }
}

#[test]
fn difference_by_an_unknown_engine_is_refused() {
    let mut set = gpu(&[55.0, 20.0], [[100.0, 20.0], [20.0, 100.0]]);
    set["io"][0]["engine"] = json!("our tool");
    let text = format_comparison(&compared(&set));
    assert!(text.contains("refused: the engine 'our tool' is not recognized"), "{text}");
}

#[test]
fn broken_set_is_named_and_the_others_are_compared() {
    let good = gpu(&[330.0, 115.0], [[300.0, 100.0], [100.0, 300.0]]);
    for (broken, error) in [
        ("{\"io\": [NaN]}", "not JSON"),
        ("{\"device\": {}}", "io: expected a list"),
        ("{\"device\": {\"node\": [\"x\"]}, \"io\": []}", "device.node: expected a whole number or null"),
        ("[]", "device: expected an object"),
    ] {
        let mut comparison = compared(&good);
        comparison.add("broken", Ok(broken.to_owned()));
        let text = format_comparison(&comparison);
        assert!(text.contains("broken") && text.contains(error), "{text}");
        assert!(text.ends_with("all: 1 pairs, 0 misordered, 0 invented, 0 missed, 0 refused\n"), "{text}");
    }
    assert!(matches!(numaio_published::PublishedSet::from_json("x", "{"), Err(SetError::Json(_))));
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!("GB/s")),
        Just(json!([[1.0, null], [2.0]])),
        Just(json!([null, 3.0, -1.0])),
        Just(json!([4294967295u32, 0])),
        any::<f64>().prop_map(|number| json!(number)),
        any::<u32>().prop_map(|number| json!(number)),
    ]
}

/// Pointers of all fields below a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        pointers(child, &path, found);
        found.push(path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Sets with changed fields never end the program, and each pair is counted once at most.
    #[test]
    fn odd_sets_are_compared_or_named(which in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4)) {
        let mut files: Vec<PathBuf> = fs::read_dir(folder("data")).expect("sets").map(|entry| entry.expect("a file").path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let mut set: Value = serde_json::from_str(&fs::read_to_string(which.get(files.as_slice())).expect("a set")).expect("JSON");
        for (at, value) in changes {
            let mut found = Vec::new();
            pointers(&set, "", &mut found);
            if !found.is_empty() {
                let field: &String = at.get(found.as_slice());
                *set.pointer_mut(field).expect("a field") = value;
            }
        }
        let comparison = compared(&set);
        prop_assert_eq!(comparison.sets.len() + comparison.broken.len(), 1);
        for device in comparison.devices() {
            let count = device.numaio;
            prop_assert!(count.misordered + count.invented + count.missed + count.refused <= count.pairs);
        }
        prop_assert!(format_comparison(&comparison).contains("\nall: "));
    }
}
