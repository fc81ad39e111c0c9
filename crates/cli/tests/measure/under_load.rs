//! Measurements of this machine under load.

use crate::support::{CommandOutput, Home};
use numaio_schema::{Comparison, IoRecord, StreamRecord};

/// Options for a short campaign: nearly every spread is precise enough.
const QUICK: [&str; 4] = ["--precision", "95", "--time-limit", "10"];

fn stream(home: &Home, more: &[&str]) -> CommandOutput {
    home.run(&[&["stream"], &QUICK[..], more].concat())
}

#[test]
fn loaded_stream_is_compared_with_idle_stream_and_does_not_replace_it() {
    let home = Home::new();
    let text = stream(&home, &["--load", "0:1"]).ok();
    assert!(text.contains("Load: 1 STREAM thread on node 0 ("), "{text}");
    let idle = StreamRecord::from_json(&stream(&home, &["--json"]).ok()).expect("a record");
    assert!(idle.provenance.load.is_empty());
    let loaded = StreamRecord::from_json(
        &stream(&home, &["--json", "--load", "0:1", "--load-command", "sleep 1000"]).ok(),
    );
    let loaded = loaded.expect("a record").provenance;
    assert_eq!(loaded.load_label().as_deref(), Some("0:1,'sleep 1000'"));
    assert!(loaded.load[0].bytes_per_s.as_ref().is_some_and(|moved| moved.median > 0.0), "{loaded:?}");
    assert!(loaded.load[1].bytes_per_s.is_none() && !loaded.is_fit_for_placement());
    let json = home.run(&["compare", "--node", "0", "--json", "--no-save"]).ok();
    let comparison = Comparison::from_json(&json).expect("a comparison");
    let names: Vec<&str> = comparison.views.iter().map(|view| view.name.as_str()).collect();
    let expected = [
        "stream-copy-cpu-centric",
        "stream-copy-cpu-centric-load-0x1",
        "stream-copy-cpu-centric-load-0x1-sleep-1000",
    ];
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn bench_measures_one_load_after_the_other_and_replays_them() {
    let home = Home::new();
    let tape = home.path("my.tape");
    let bench = "disk --file . --area 8M --streams 1,2 --precision 95 --window 50 --json --no-save \
                 --load 0:0 --load 0:1 --output r.json";
    let recorded = ["record", "-o", &tape, "--no-baselines", "--bench", bench, "--quiet"];
    let output = home.run(&[&recorded[..], &QUICK].concat()).ok();
    let labels = |json: &str| -> Vec<(Option<String>, IoRecord)> {
        let all: Vec<serde_json::Value> = serde_json::from_str(json).expect("records");
        let record = |one: &serde_json::Value| IoRecord::from_json(&one.to_string()).expect("a record");
        all.iter().map(record).map(|record| (record.provenance.load_label(), record)).collect()
    };
    let (first, replayed) =
        (labels(&output), labels(&home.run(&["bench", "disk", "--machine", &tape, "--json"]).ok()));
    assert_eq!(first.iter().map(|(label, _)| label.as_deref()).collect::<Vec<_>>(), [None, Some("0:1")]);
    for ((label, first), (other, replayed)) in first.iter().zip(&replayed) {
        assert_eq!((label, &first.cells), (other, &replayed.cells));
    }
    let text = home.run(&["bench", "disk", "--machine", &tape]).ok();
    assert!(text.contains("NO LOAD") && text.contains("LOAD 0:1") && text.contains("* best node"), "{text}");
    let files = ["r.json-idle", "r.json-load-0x1"].map(|name| home.path(name));
    let csv = home.run(&["report", "--format", "csv", "-o", "-", &files[0], &files[1], "--quiet"]).ok();
    let loaded = csv.lines().filter(|line| line.contains(", load 0:1")).count();
    assert!(loaded > 0 && csv.lines().count() == 1 + 2 * loaded, "{csv}");
    let markdown = home.run(&["report", "--format", "markdown", "-o", "-", &files[1], "--quiet"]).ok();
    assert!(markdown.contains("beside 1 STREAM thread on node 0"), "{markdown}");
}

#[test]
fn wrong_loads_are_rejected() {
    let home = Home::new();
    let wrong: [(&[&str], i32, &str); 6] = [
        (&["stream", "--load", "7"], 2, "expected K:N or K:N:M"),
        (&["model", "--load", "0:x"], 2, "expected K:N or K:N:M"),
        (&["latency", "--load", "0:1", "--load", "0:2"], 2, "--load is repeated"),
        (&["stream", "--load", "1023:1"], 2, "there is no node 1023"),
        (&["stream", "--load", "0:1:1023"], 2, "there is no node 1023"),
        (&["stream", "--load-command", "exit 7", "--time-limit", "5"], 1, "exited with status 7"),
    ];
    for (args, code, part) in wrong {
        let output = home.run(&[args, &["--no-save", "--quiet"]].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(code), ""), "{args:?}: {}", output.err);
        assert!(output.err.contains(part), "{args:?}: {}", output.err);
    }
}
