//! One host over time, and two hosts that are not one.

use crate::host_reports::{model, MEASURED_AT};
use crate::support::Home;
use numaio_schema::BaselineComparison;

#[test]
fn documents_of_two_identical_hosts_are_not_compared_as_one() {
    let home = Home::new();
    home.document("a.json", &model("a", MEASURED_AT, 1.0));
    home.document("b.json", &model("b", MEASURED_AT, 1.0));
    let parts = ["b.json", "'b'", "'a'", "documents of one host"];
    home.run(&["compare", "--from", "a.json", "b.json"]).failed(1, &parts);
    home.run(&["compare", "--from", "a.json", "--with", "b.json"]).failed(1, &["b.json", "'b'", "'a'"]);
    home.run(&["compare", "--from", "a.json", "--baseline", "b.json"]).failed(1, &["b.json", "'b'", "'a'"]);
}

#[test]
fn changed_figures_are_named_worst_first() {
    let home = Home::new();
    home.document("old.json", &model("a", MEASURED_AT, 1.0));
    home.document("same.json", &model("a", MEASURED_AT + 60, 1.0));
    home.document("slow.json", &model("a", MEASURED_AT + 90, 0.8));
    let same = home.run(&["compare", "--from", "same.json", "--baseline", "old.json"]).ok();
    assert!(same.contains("no change in "), "{same}");
    let slow = home.run(&["compare", "--from", "slow.json", "--baseline", "old.json"]);
    assert_eq!(slow.code, Some(1), "{}", slow.err);
    assert!(slow.out.contains("Changed figures") && slow.out.contains("-20"), "{}", slow.out);
    let json = home.run(&["compare", "--json", "--from", "slow.json", "--baseline", "old.json"]).out;
    let comparison = BaselineComparison::from_json(&json).expect("a comparison");
    assert_eq!(comparison.figures.len() as u32, comparison.compared);
    assert!(comparison.figures.iter().all(|change| (change.gain() + 0.2).abs() < 1e-9));
    assert!(comparison.classes.is_empty(), "{json}");
    assert_eq!(comparison.documents[0].before_at, MEASURED_AT);
}

#[test]
fn changed_classes_are_named() {
    let home = Home::new();
    let mut before = model("a", MEASURED_AT, 1.0);
    home.document("after.json", &before);
    before["targets"][0]["directions"][0]["classes"].as_array_mut().expect("classes").truncate(1);
    home.document("before.json", &before);
    let output = home.run(&["compare", "--from", "after.json", "--baseline", "before.json"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.out.contains("Changed classes") && output.out.contains("became"), "{}", output.out);
}

#[test]
fn two_documents_of_from_are_compared_by_time() {
    let home = Home::new();
    home.document("1.json", &model("a", MEASURED_AT + 60, 0.8));
    home.document("2.json", &model("a", MEASURED_AT, 1.0));
    let output = home.run(&["compare", "--from", "1.json", "2.json", "--baseline"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.out.contains("-20"), "{}", output.out);
    home.run(&["compare", "--from", "1.json", "--baseline"]).failed(1, &["no two measurements"]);
    home.run(&["compare", "--baseline", "--all"]).failed(2, &["cannot be used with"]);
}
