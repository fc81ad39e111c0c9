use super::day_files::day_file;
use super::*;
use numaio_machine::calendar::Day;
use numaio_schema::{DaemonState, TransferCounts, TransferRecord, TransferResult};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const TODAY: Day = Day(20_784);

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("numaio-records-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).expect("a directory").flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn record(bytes: u64) -> TransferRecord {
    let text = include_str!("../../../schema/tests/fixtures/transfer-record-1.json");
    let record = TransferRecord::from_json(text).expect("a record");
    TransferRecord { counts: TransferCounts { bytes, ..record.counts }, ..record }
}

fn bytes(directory: &Path) -> u64 {
    read(directory).expect("records").totals.totals.iter().map(|total| total.counts.bytes).sum()
}

#[test]
fn each_day_has_a_file_and_totals_survive_its_deletion() {
    let directory = Directory::new("days");
    let path = &directory.0;
    for (day, bytes) in [(TODAY.0 - 8, 1), (TODAY.0 - 7, 10), (TODAY.0 - 1, 100), (TODAY.0, 1000)] {
        append(path, Day(day), &record(bytes)).expect("appended");
    }
    // Files of other names stay.
    for name in ["transfers-2026-02-30.jsonl", "transfers-2001-01-01.jsonl.bak", "notes"] {
        fs::write(path.join(name), "x").expect("a file");
    }
    assert_eq!(bytes(path), 1111);
    // Without totals nothing is deleted: the counters would decrease.
    assert_eq!(delete_old(path, TODAY, 7).expect("no error"), 0);
    assert!(fold(path, TODAY).expect("folded").is_empty());
    assert_eq!(bytes(path), 1111);
    assert_eq!(read_totals(path).expect("totals").through_day, TODAY.0 - 1);
    assert_eq!(delete_old(path, TODAY, 7).expect("deleted"), 1);
    assert_eq!(
        directory.names(),
        [
            "notes",
            "transfer-totals.json",
            "transfers-2001-01-01.jsonl.bak",
            "transfers-2026-02-30.jsonl",
            "transfers-2026-11-20.jsonl",
            "transfers-2026-11-26.jsonl",
            "transfers-2026-11-27.jsonl",
        ]
    );
    assert_eq!(bytes(path), 1111);
    // The next day.
    append(path, Day(TODAY.0 + 1), &record(5)).expect("appended");
    fold(path, Day(TODAY.0 + 1)).expect("folded");
    assert_eq!(delete_old(path, Day(TODAY.0 + 1), 7).expect("deleted"), 1);
    assert_eq!(bytes(path), 1116);
    assert_eq!(read(path).expect("records").totals.totals[0].sessions[&TransferResult::DoneWithFailures], 5);
}

#[test]
fn cut_line_is_skipped_and_does_not_damage_the_next_one() {
    let directory = Directory::new("cut");
    let path = &directory.0;
    append(path, TODAY, &record(1)).expect("appended");
    let mut file = OpenOptions::new().append(true).open(day_file(path, TODAY)).expect("a file");
    file.write_all(b"{\"schema\":\"numaio/transfer-rec").expect("written");
    let history = read(path).expect("records");
    assert_eq!(history.remarks.len(), 1, "{:?}", history.remarks);
    assert!(history.remarks[0].contains("transfers-2026-11-27.jsonl: skipped line 2: incomplete JSON"));
    append(path, TODAY, &record(10)).expect("appended");
    assert_eq!((bytes(path), read(path).expect("records").remarks.len()), (11, 1));
    // Lines that are too long, not text or of another version.
    file.write_all(
        &[&vec![b'x'; 200_000][..], b"\n\xff\n{\"schema\":\"numaio/transfer-record/9\"}\n"].concat(),
    )
    .expect("written");
    append(path, TODAY, &record(100)).expect("appended");
    let history = read(path).expect("records");
    assert_eq!((bytes(path), history.remarks.len()), (111, 4), "{:?}", history.remarks);
    assert!(history.remarks[3].ends_with("skipped 1 more lines"), "{:?}", history.remarks);
}

#[test]
fn directory_without_records_has_no_totals() {
    let directory = Directory::new("none");
    assert_eq!(bytes(&directory.0), 0);
    assert_eq!(read_state(&directory.0).expect("no error"), None);
    fs::create_dir(&directory.0).expect("a directory");
    fs::write(directory.0.join("transfer-totals.json"), "{}").expect("a file");
    let error = read(&directory.0).expect_err("no totals").to_string();
    assert!(error.ends_with("transfer-totals.json: no field `schema`: not a numaio document"), "{error}");
}

#[test]
fn state_of_another_process_is_not_running() {
    let state = DaemonState {
        schema: numaio_schema::DAEMON_STATE_SCHEMA.to_owned(),
        numaio: "0.1.0".to_owned(),
        pid: std::process::id(),
        start_time: 1,
        boot: None,
        written_at: 0,
        active: Vec::new(),
        unauthenticated: 0,
        waiting: 0,
        lost_records: 0,
    };
    let directory = Directory::new("state");
    write_state(&directory.0, &state).expect("written");
    assert_eq!(read_state(&directory.0).expect("a state"), Some(state.clone()));
    assert!(!is_running(&state), "the process started at another time");
}
