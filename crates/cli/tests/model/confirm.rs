//! Tests of `numaio model --confirm`.

use crate::support::Home;

const TAPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/amd-dl585-g7-disk.tape");

/// The emulated disk has the rates of the paper's SSDs, which no copy predicts to the last class.
#[test]
fn confirmation_shows_bounds_and_measured_bandwidth_of_the_disk() {
    let page = Home::new().run(&["model", "--machine", TAPE, "--device", "vda", "--confirm", "vda"]).ok();
    let (_, table) = page.split_once("vda: expected and measured bandwidth").expect("a table");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("  device "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 16, "{table}");
    for row in &rows {
        let ["device", _, _, _, bound, measured, ratio] = row[..] else { panic!("{row:?}") };
        let [bound, measured, ratio] =
            [bound, measured, ratio].map(|text| text.parse::<f64>().expect("a number"));
        assert!(measured <= bound && (measured / bound - ratio).abs() < 0.01, "{row:?}");
    }
    let words = table.split_whitespace().collect::<Vec<&str>>().join(" ");
    for claim in [
        "Device write: no node exceeds its bound; nodes 2-3 more than 10 % below",
        "0.018 GB/s from nodes 2-3 (measured with it on 2026-11-21).",
        "0.019 GB/s from node 4 (measured with it on 2026-11-21).",
    ] {
        assert!(words.contains(claim), "{claim}: {words}");
    }
}

#[test]
fn devices_that_cannot_confirm_are_refused_before_the_measurement() {
    let home = Home::new();
    let refused = |args: &[&str]| {
        let output = home.run(&[&["model", "--machine", TAPE], args].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{args:?}: {}", output.err);
        output.err
    };
    assert!(refused(&["--confirm", "eth0"]).contains("numaio bench net --peer HOST"));
    assert!(refused(&["--confirm", "nope"]).contains("devices: "));
    assert!(refused(&["--node", "0", "--confirm", "vda"]).contains("--device vda --confirm vda"));
    assert!(refused(&["--json", "--confirm", "vda"]).contains("cannot be used with"));
}
