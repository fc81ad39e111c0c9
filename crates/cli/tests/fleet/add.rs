//! Documents into the store: repeated, wrong, and of doubtful hosts.

use crate::host_reports::{model, report, write_reports, MEASURED_AT};
use crate::support::{skipped, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn documents_are_added_once() {
    let home = Home::new();
    write_reports(&home, 3);
    let first = home.run(&["fleet", "add", "f.db", "reports"]);
    assert!(first.err.contains("3 documents added"), "{}", first.err);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let again = home.run(&["fleet", "add", "f.db", "reports", "reports/n1.json"]);
    assert!(again.err.contains("0 documents added, 4 already stored"), "{}", again.err);
    assert_eq!(again.code, Some(0));
    // A model of a known host joins it.
    home.document("model.json", &model("n2", MEASURED_AT + 60, 1.0));
    home.run(&["fleet", "add", "f.db", "model.json"]).ok();
    let shown = home.run(&["fleet", "show", "f.db"]).ok();
    assert!(shown.starts_with("3 hosts in 1 group.\n"), "{shown}");
}

#[test]
fn wrong_documents_are_reported_and_the_others_added() {
    let home = Home::new();
    write_reports(&home, 2);
    let text = fs::read_to_string(home.0.join("reports/n1.json")).expect("a report");
    home.file("reports/half.json", &text[..text.len() / 2]);
    home.file("reports/newer.json", &text.replacen("host-report/1", "host-report/2", 1));
    home.file("reports/nested.json", &text.replacen("numaio/model/1", "numaio/model/7", 1));
    home.file("reports/foreign.json", "{\"schema\": \"other/1\"}");
    home.file("reports/list.json", "[]");
    home.file("reports/empty.json", "");
    home.file("reports/.part.json", "{");
    home.file("reports/node.tape", "{}");
    home.run(&["fleet", "add", "f.db", "reports", "missing.json"]).failed(
        1,
        &[
            "reports/half.json: incomplete JSON: it ends at line 1",
            "reports/newer.json: 'numaio/host-report/2' was written by a newer numaio",
            "reports/nested.json: documents[0]: 'numaio/model/7' was written by a newer numaio",
            "reports/foreign.json: 'other/1' is not a document of a host",
            "reports/list.json: no field `schema`",
            "reports/empty.json: incomplete JSON",
            "missing.json: No such file",
            "2 documents added, 7 rejected",
        ],
    );
    let shown = home.run(&["fleet", "show", "f.db"]).ok();
    assert!(shown.starts_with("2 hosts in 1 group.\n"), "{shown}");
}

#[test]
fn report_with_a_document_of_another_kind_is_added() {
    let home = Home::new();
    let mut other = report("n1", "1", MEASURED_AT, 1.0);
    let documents = other["documents"].as_array_mut().expect("documents");
    documents.push(serde_json::json!({ "schema": "numaio/later-kind/1" }));
    home.document("1.json", &other);
    home.run(&["fleet", "add", "f.db", "1.json"]).ok();
    assert!(home.run(&["fleet", "show", "f.db"]).ok().contains("copy-read"));
}

#[test]
fn tapes_and_other_work_are_rejected_with_the_reason() {
    let home = Home::new();
    home.run(&["record", "--no-measure", "-o", "host.tape"]).ok();
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/tests/fixtures/plan-1.json");
    home.run(&["fleet", "add", "f.db", "host.tape", plan])
        .failed(1, &["expected a document, found a tape", "describes work of a host", "2 rejected"]);
}

#[test]
fn two_hosts_of_one_name_are_stored_as_two() {
    let home = Home::new();
    home.document("1.json", &report("n1", "aaaaaaaa11", MEASURED_AT, 1.0));
    home.document("2.json", &report("n1", "bbbbbbbb22", MEASURED_AT, 1.0));
    let added = home.run(&["fleet", "add", "f.db", "1.json", "2.json"]);
    assert_eq!(added.code, Some(0), "{}", added.err);
    assert!(added.err.contains("2 hosts are named 'n1'"), "{}", added.err);
    let shown = home.run(&["fleet", "show", "f.db"]).ok();
    assert!(shown.contains("n1 (machine-id aaaaaaaa), n1 (machine-id bbbbbbbb)"), "{shown}");
    // Without machine-id it could be of either.
    home.document("3.json", &model("n1", MEASURED_AT, 1.0));
    home.run(&["fleet", "add", "f.db", "3.json"]).failed(1, &["3.json", "2 hosts are named 'n1'"]);
}

#[test]
fn clock_in_the_future_is_reported() {
    let home = Home::new();
    home.document("1.json", &report("n1", "1", 9_000_000_000, 1.0));
    let added = home.run(&["fleet", "add", "f.db", "1.json"]);
    assert_eq!(added.code, Some(0), "{}", added.err);
    assert!(added.err.contains("the clock of 'n1' is "), "{}", added.err);
}

#[test]
fn hostile_names_do_not_control_the_terminal() {
    let home = Home::new();
    home.document("1.json", &report("n\u{1b}[31m\n1", "1", MEASURED_AT, 1.0));
    home.document("2.json", &report("n\u{1b}[31m\n1", "2", MEASURED_AT, 1.0));
    let added = home.run(&["fleet", "add", "f.db", "1.json", "2.json"]);
    let shown = home.run(&["fleet", "show", "f.db"]).ok();
    assert!(!added.err.contains('\u{1b}') && !shown.contains('\u{1b}'), "{}{shown}", added.err);
}

#[test]
fn other_files_are_not_stores() {
    let home = Home::new();
    write_reports(&home, 1);
    let report = home.path("reports/n1.json");
    home.run(&["fleet", "add", &report, &report])
        .failed(1, &["is not a fleet store", "name the store first"]);
    home.run(&["fleet", "show", "missing.db"]).failed(1, &["cannot open 'missing.db'", "fleet add"]);
    home.run(&["fleet", "rebuild", "missing.db"]).failed(1, &["cannot open 'missing.db'"]);
    assert!(!home.0.join("missing.db").exists(), "rebuild created a store");
    home.run(&["fleet", "show", "--machine", "amd-2p", "x"]).failed(2, &["not of a recorded machine"]);
}

/// Runs numaio as a user who cannot write the store; `None` if that is impossible here.
fn run_as_reader(home: &Home, args: &[&str]) -> Option<CommandOutput> {
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let is_root = home.command("id", &["-u"]).limited_output().is_ok_and(|output| output.stdout == b"0\n");
    let starter: &[&str] = if is_root { &user } else { &[] };
    let output = CommandOutput::of(home.command_by(starter, args).limited_output().ok()?);
    let is_started = !output.err.contains("setpriv") && !output.err.contains("/usr/bin/env");
    is_started.then_some(output)
}

#[test]
fn read_only_store_is_shown_and_not_written() {
    let home = Home::new();
    write_reports(&home, 1);
    home.run(&["fleet", "add", "f.db", "reports"]).ok();
    fs::set_permissions(home.0.join("f.db"), fs::Permissions::from_mode(0o444)).expect("a mode");
    fs::set_permissions(&home.0, fs::Permissions::from_mode(0o555)).expect("a mode");
    let shown = run_as_reader(&home, &["fleet", "show", "f.db"]);
    let added = run_as_reader(&home, &["fleet", "add", "f.db", "reports"]);
    fs::set_permissions(&home.0, fs::Permissions::from_mode(0o755)).expect("a mode");
    let (Some(shown), Some(added)) = (shown, added) else {
        return skipped("another user: needs setpriv, and a directory that other users can access");
    };
    if shown.err.contains("Permission denied") {
        return skipped("another user: a directory that other users can access");
    }
    shown.ok();
    added.failed(1, &["cannot write 'f.db'", "read-only"]);
}

#[test]
fn rebuild_and_export_repeat_what_was_added() {
    let home = Home::new();
    write_reports(&home, 4);
    home.run(&["fleet", "add", "f.db", "reports"]).ok();
    home.run(&["fleet", "export", "f.db", "--csv", "before"]).ok();
    let rebuilt = home.run(&["fleet", "rebuild", "f.db"]);
    assert!(rebuilt.err.contains("4 documents read again"), "{}", rebuilt.err);
    let exported = home.run(&["fleet", "export", "f.db", "--csv", "after"]);
    assert!(exported.err.contains("hosts.csv (4 rows)"), "{}", exported.err);
    for entry in fs::read_dir(home.0.join("before")).expect("files") {
        let name = entry.expect("an entry").file_name();
        let read = |directory: &str| fs::read(home.0.join(directory).join(&name)).expect("a file");
        assert!(read("before") == read("after"), "{name:?} differs");
        assert!(!read("after").is_empty());
    }
}
