//! Tests of the store with a small document format of their own.

use super::*;
use numaio_machine::ids::NodeId;
use numaio_schema::{Fact, FactKind, FigureKey};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(50);
const NOW: u64 = 1_000_000;

/// A directory that is removed on drop.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("numaio-store-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("store.db")
    }

    /// Writes a document: lines `name value`.
    fn document(&self, file: &str, lines: &str) -> PathBuf {
        let path = self.0.join(file);
        fs::write(&path, lines).expect("a document");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Derives the content of a document of lines: `host NAME`, `machine ID`, `fingerprint F`, `at
/// TIME`, `kernel VALUE`, `figure FROM VALUE`.
fn derive(text: &str) -> Result<DocumentContent, String> {
    let mut content = DocumentContent { kind: "test/1".to_owned(), ..DocumentContent::default() };
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["host", name] => content.host.name = name.to_owned(),
            ["machine", id] => content.host.machine_id = Some(id.to_owned()),
            ["fingerprint", print] => content.host.fingerprint = print.to_owned(),
            ["at", time] => content.measured_at = time.parse().map_err(|_| "no time".to_owned())?,
            ["kernel", value] => content.facts.get_or_insert_default().push(Fact {
                kind: FactKind::Setting,
                name: "kernel".to_owned(),
                value: value.to_owned(),
            }),
            ["figure", from, value] => {
                let (from, value) = (from.parse().expect("a node"), value.parse().expect("a value"));
                content.figures.push((key(from), content.measured_at, value, (value - 1.0, value + 1.0)));
            }
            _ => return Err(format!("line '{line}'")),
        }
    }
    content.findings.push(ContentFinding {
        severity: "note".to_owned(),
        rule: "rule".to_owned(),
        subject: "machine".to_owned(),
        message: "a finding, with a comma".to_owned(),
    });
    content.conditions.push(("turbo".to_owned(), "true".to_owned()));
    Ok(content)
}

fn key(from: u32) -> FigureKey {
    FigureKey {
        quantity: "copy-write".to_owned(),
        from: Some(NodeId(from)),
        to: Some(NodeId(0)),
        device: String::new(),
        unit: "B/s".to_owned(),
        more_is_better: true,
    }
}

fn options(is_interrupted: &dyn Fn() -> bool) -> IngestOptions<'_> {
    IngestOptions { now: NOW, threads: 2, derive: &derive, is_interrupted }
}

fn ingest(store: &mut FleetStore, files: &[PathBuf]) -> (IngestTotals, Vec<IngestEvent>) {
    let mut events = Vec::new();
    let totals = store.ingest(files, &options(&|| false), &mut |event| events.push(event));
    (totals.expect("totals"), events)
}

fn open(directory: &Directory) -> FleetStore {
    FleetStore::open_to_write(&directory.store(), WAIT).expect("a store")
}

fn totals(added: u64, known: u64, rejected: u64) -> IngestTotals {
    IngestTotals { added, known, rejected }
}

/// Returns all rows of all tables as text.
fn dump(store: &FleetStore) -> BTreeMap<String, Vec<String>> {
    let tables = ["hosts", "fingerprints", "documents", "facts", "figures", "findings", "conditions"];
    let rows = |table: &str| {
        let mut query = store.connection.prepare(&format!("SELECT * FROM {table}")).expect("a query");
        let columns = query.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            (0..columns)
                .map(|column| Ok(format!("{:?}", row.get_ref(column)?)))
                .collect::<Result<Vec<_>, _>>()
        };
        let rows = query.query_map([], row).expect("rows").map(|row| row.expect("a row").join("|"));
        rows.collect::<Vec<String>>()
    };
    tables.iter().map(|table| ((*table).to_owned(), rows(table))).collect()
}

#[test]
fn same_document_twice_is_stored_once() {
    let directory = Directory::new();
    let text = "host a\nmachine 1\nfingerprint f\nat 10\nkernel 6.1\nfigure 0 5\n";
    let files = [directory.document("1.json", text), directory.document("copy.json", text)];
    let mut store = open(&directory);
    assert_eq!(ingest(&mut store, &files), (totals(1, 1, 0), Vec::new()));
    let before = dump(&store);
    assert_eq!(ingest(&mut store, &files), (totals(0, 2, 0), Vec::new()));
    assert_eq!(dump(&store), before);
    assert_eq!((before["figures"].len(), before["hosts"].len()), (1, 1));
}

#[test]
fn loads_newest_facts_and_all_figures() {
    let directory = Directory::new();
    let files = [
        directory.document("new", "host a\nmachine 1\nat 20\nkernel 6.2\nfigure 0 5\nfigure 1 6\n"),
        directory.document("old", "host a\nmachine 1\nat 10\nkernel 6.1\nfigure 0 4\n"),
        directory.document("b", "host b\nmachine 2\nat 15\nkernel 6.2\nfigure 1 7\n"),
    ];
    let mut store = open(&directory);
    ingest(&mut store, &files);
    let data = store.load().expect("data");
    let [a, b] = &data.hosts[..] else { panic!("{data:?}") };
    assert_eq!((a.name.as_str(), a.observed_at, a.facts[0].value.as_str()), ("a", 20, "6.2"));
    assert_eq!((b.name.as_str(), b.observed_at), ("b", 15));
    assert_eq!(data.keys, [key(0), key(1)]);
    let mut rows: Vec<(u32, u32, u64, f64)> =
        data.figures.iter().map(|row| (row.host, row.key, row.measured_at, row.value)).collect();
    rows.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    assert_eq!(rows, [(0, 0, 10, 4.0), (0, 0, 20, 5.0), (0, 1, 20, 6.0), (1, 1, 15, 7.0)]);
    assert_eq!(data.figures[0].interval, (data.figures[0].value - 1.0, data.figures[0].value + 1.0));
    let documents = store.documents("a").expect("documents");
    assert_eq!(documents.iter().map(|document| document.measured_at).collect::<Vec<_>>(), [20, 10]);
    assert_eq!(store.time_of_document(documents[1].id).expect("a time"), Some(10));
    let text = store.newest_text("a", &["test/1"]).expect("a text").expect("a document");
    assert!(text.contains("kernel 6.2"), "{text}");
}

#[test]
fn hosts_of_one_name_are_two_hosts() {
    let directory = Directory::new();
    let files = [
        directory.document("1", "host a\nmachine 11112222x\nfingerprint f\nat 1\nfigure 0 5\n"),
        directory.document("2", "host a\nmachine 33334444y\nfingerprint f\nat 1\nfigure 0 6\n"),
        directory.document("3", "host a\nat 2\nfigure 0 7\n"),
    ];
    let mut store = open(&directory);
    let (counts, events) = ingest(&mut store, &files);
    assert_eq!(counts, totals(2, 0, 1));
    let machine_ids = vec!["11112222x".to_owned(), "33334444y".to_owned()];
    let same_name = IngestEvent::SameName { path: files[1].clone(), name: "a".to_owned(), machine_ids };
    assert_eq!(events[0], same_name);
    assert!(matches!(&events[1], IngestEvent::Rejected { why, .. } if why.contains("2 hosts are named 'a'")));
    let names: Vec<String> = store.hosts().expect("hosts").into_iter().map(|host| host.name).collect();
    assert_eq!(names, ["a (machine-id 11112222)", "a (machine-id 33334444)"]);
    assert_eq!(dump(&store)["documents"].len(), 2, "the rejected document left rows");
}

#[test]
fn documents_without_machine_id_join_the_host_of_their_name() {
    let directory = Directory::new();
    let files = [
        directory.document("1", "host a\nfingerprint f\nat 1\nfigure 0 5\n"),
        directory.document("2", "host a\nmachine 1\nfingerprint f\nat 2\nfigure 0 6\n"),
        directory.document("3", "host a\nfingerprint g\nat 3\nfigure 0 7\n"),
        directory.document("4", "fingerprint g\nat 4\nfigure 0 8\n"),
        directory.document("5", "fingerprint unknown\nat 4\nfigure 0 8\n"),
    ];
    let mut store = open(&directory);
    let (counts, events) = ingest(&mut store, &files);
    assert_eq!((counts, events.len()), (totals(4, 0, 1), 1));
    let hosts = store.hosts().expect("hosts");
    assert_eq!((hosts.len(), hosts[0].documents, hosts[0].machine_id.as_deref()), (1, 4, Some("1")));
}

#[test]
fn clock_in_the_future_is_reported_and_kept() {
    let directory = Directory::new();
    let file = directory.document("1", &format!("host a\nat {}\nfigure 0 5\n", NOW + 3600));
    let mut store = open(&directory);
    let (counts, events) = ingest(&mut store, std::slice::from_ref(&file));
    let event = IngestEvent::FutureClock { path: file, host: "a".to_owned(), seconds: 3600 };
    assert_eq!((counts, events), (totals(1, 0, 0), vec![event]));
    let far = directory.document("2", &format!("host a\nat {}\nfigure 0 5\n", u64::MAX));
    assert_eq!(ingest(&mut store, &[far]).0, totals(1, 0, 0));
    assert!(store.load().is_ok());
}

#[test]
fn rejected_documents_do_not_stop_the_others() {
    let directory = Directory::new();
    let invalid = directory.0.join("invalid");
    fs::write(&invalid, b"\xff\xfe").expect("a file");
    let files = [
        directory.document("half", "host a\nat"),
        invalid,
        directory.0.join("missing"),
        directory.document("good", "host a\nat 1\nfigure 0 5\n"),
    ];
    let mut store = open(&directory);
    let (counts, events) = ingest(&mut store, &files);
    assert_eq!((counts, events.len()), (totals(1, 0, 3), 3));
    let expected: Vec<&Path> = files[..3].iter().map(PathBuf::as_path).collect();
    let paths: Vec<&Path> = events
        .iter()
        .map(|event| match event {
            IngestEvent::Rejected { path, .. } => path.as_path(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(paths, expected);
}

#[test]
fn rebuild_restores_equal_tables() {
    let directory = Directory::new();
    let files: Vec<PathBuf> = (0..300)
        .map(|number| {
            let (host, at) = (number % 40, 1_000 - number);
            let text = format!(
                "host n{host}\nmachine {host}\nfingerprint f\nat {at}\nkernel {at}\nfigure 0 {number}\n"
            );
            directory.document(&format!("{number:03}.json"), &text)
        })
        .collect();
    let mut store = open(&directory);
    ingest(&mut store, &files);
    let before = dump(&store);
    assert_eq!((before["hosts"].len(), before["documents"].len(), before["facts"].len()), (40, 300, 40));
    store.connection.execute_batch("DELETE FROM figure_rows; UPDATE hosts SET name = 'x';").expect("damage");
    assert_ne!(dump(&store), before);
    let rebuilt = store.rebuild(&options(&|| false), &mut |event| panic!("{event:?}"));
    assert_eq!(rebuilt.expect("totals"), totals(300, 0, 0));
    assert_eq!(dump(&store), before);
    // What is added later continues with the same ids.
    let more = directory.document("more", "host n1\nmachine 1\nat 5000\nkernel 9\nfigure 0 1\n");
    assert_eq!(ingest(&mut store, &[more]).0, totals(1, 0, 0));
}

#[test]
fn interrupted_rebuild_changes_nothing() {
    let directory = Directory::new();
    let mut store = open(&directory);
    ingest(&mut store, &[directory.document("1", "host a\nat 1\nfigure 0 5\n")]);
    let before = dump(&store);
    let stopped = store.rebuild(&options(&|| true), &mut |_| {});
    assert!(matches!(stopped, Err(StoreError::Interrupted)), "{stopped:?}");
    assert_eq!(dump(&store), before);
}

#[test]
fn damaged_text_is_reported_by_rebuild() {
    for damage in ["zstd = x'00'", "bytes = 3", "zstd = zeroblob(70000000)", "sha256 = x'00'"] {
        let directory = Directory::new();
        let mut store = open(&directory);
        ingest(&mut store, &[directory.document("1", "host a\nat 1\nfigure 0 5\n")]);
        let damage = format!("UPDATE raw_documents SET {damage}");
        store.connection.execute(&damage, []).expect("damage");
        let mut events = Vec::new();
        let rebuilt = store.rebuild(&options(&|| false), &mut |event| events.push(event)).expect("totals");
        assert_eq!(rebuilt, totals(0, 0, 1), "{damage}");
        assert!(
            matches!(&events[..], [IngestEvent::Rejected { why, .. }] if why.contains("damaged")),
            "{damage}: {events:?}"
        );
    }
}

#[test]
fn second_writer_waits_and_then_fails_with_a_clear_error() {
    let directory = Directory::new();
    let store = open(&directory);
    let second = FleetStore::open_to_write(&directory.store(), WAIT);
    assert!(matches!(second, Err(StoreError::Locked { .. })), "{second:?}");
    let reader = FleetStore::open(&directory.store(), WAIT);
    assert!(matches!(reader, Err(StoreError::Locked { .. })), "{reader:?}");
    drop(store);
    open(&directory);
}

#[test]
fn readers_share_the_store() {
    let directory = Directory::new();
    ingest(&mut open(&directory), &[directory.document("1", "host a\nat 1\nfigure 0 5\n")]);
    let first = FleetStore::open(&directory.store(), WAIT).expect("a reader");
    let second = FleetStore::open(&directory.store(), WAIT).expect("a reader");
    assert_eq!(first.load().expect("data"), second.load().expect("data"));
}

#[test]
fn other_files_are_not_stores() {
    let directory = Directory::new();
    let text = directory.document("text.db", &"not a database\n".repeat(100));
    let other = directory.0.join("other.db");
    rusqlite::Connection::open(&other)
        .and_then(|new| new.execute_batch("CREATE TABLE t (a)"))
        .expect("a file");
    let empty = directory.document("empty.db", "");
    let before = fs::read(&other).expect("a file");
    for path in [&text, &other] {
        for opened in [FleetStore::open(path, WAIT), FleetStore::open_to_write(path, WAIT)] {
            assert!(matches!(opened, Err(StoreError::NotAStore { .. })), "{opened:?}");
        }
    }
    assert_eq!(fs::read(&other).expect("a file"), before, "another program's database changed");
    assert!(matches!(FleetStore::open(&empty, WAIT), Err(StoreError::NotAStore { .. })));
    assert!(matches!(FleetStore::open(&directory.0, WAIT), Err(StoreError::CannotOpen { .. })));
    let missing = FleetStore::open(&directory.0.join("missing"), WAIT);
    assert!(matches!(missing, Err(StoreError::CannotOpen { .. })), "{missing:?}");
    assert!(FleetStore::open_to_write(&empty, WAIT).is_ok());
}

#[test]
fn stores_with_foreign_definitions_are_refused() {
    for definition in [
        "CREATE VIEW extra AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON hosts BEGIN DELETE FROM meta; END",
        "CREATE TABLE extra (a)",
        "ALTER TABLE meta ADD COLUMN extra AS (length(name))",
        "DROP VIEW figures; CREATE VIEW figures AS SELECT 1 AS host",
        "DROP TABLE conditions; CREATE VIEW conditions AS
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    ] {
        let directory = Directory::new();
        let store = open(&directory);
        store.connection.execute_batch(definition).expect(definition);
        drop(store);
        for opened in
            [FleetStore::open(&directory.store(), WAIT), FleetStore::open_to_write(&directory.store(), WAIT)]
        {
            assert!(matches!(opened, Err(StoreError::NotAStore { .. })), "{definition}");
        }
    }
    let directory = Directory::new();
    open(&directory).connection.execute_batch("ANALYZE").expect("statistics");
    assert!(FleetStore::open(&directory.store(), WAIT).is_ok());
}

#[test]
fn newer_store_is_refused() {
    let directory = Directory::new();
    open(&directory).connection.execute_batch("PRAGMA user_version = 99").expect("a version");
    for opened in
        [FleetStore::open(&directory.store(), WAIT), FleetStore::open_to_write(&directory.store(), WAIT)]
    {
        assert!(matches!(opened, Err(StoreError::NewerVersion { found: 99, .. })), "{opened:?}");
    }
}

#[test]
fn truncated_store_is_corrupt() {
    let directory = Directory::new();
    let files: Vec<PathBuf> = (0..200)
        .map(|number| {
            directory.document(&format!("{number}"), &format!("host n{number}\nat 1\nfigure 0 5\n"))
        })
        .collect();
    ingest(&mut open(&directory), &files);
    let content = fs::read(directory.store()).expect("a store");
    fs::write(directory.store(), &content[..content.len() / 2]).expect("a file");
    let loaded = FleetStore::open(&directory.store(), WAIT).and_then(|store| store.load());
    assert!(matches!(loaded, Err(StoreError::Corrupt { .. })), "{loaded:?}");
}

#[test]
fn journal_is_no_write_ahead_log() {
    let directory = Directory::new();
    let store = open(&directory);
    let mode: String =
        store.connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "truncate");
}

#[test]
fn exported_csv_has_a_description_of_each_column() {
    let directory = Directory::new();
    let mut store = open(&directory);
    ingest(&mut store, &[directory.document("1", "host a\nfingerprint f\nat 1\nkernel 6.1\nfigure 0 5.5\n")]);
    let written = store.export_csv(&directory.0.join("csv")).expect("files");
    let text = fs::read_to_string(directory.0.join("csv").join(DESCRIPTION)).expect("a description");
    let description: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let resources = description["resources"].as_array().expect("resources");
    assert_eq!(resources.len(), written.len());
    for resource in resources {
        let path = directory.0.join("csv").join(resource["path"].as_str().expect("a path"));
        let mut reader = csv::Reader::from_path(path).expect("a file");
        let fields = resource["schema"]["fields"].as_array().expect("fields");
        let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().expect("a name")).collect();
        assert_eq!(reader.headers().expect("a header").iter().collect::<Vec<_>>(), names);
        let records: Result<Vec<_>, _> = reader.records().collect();
        assert_eq!(records.expect("records").len(), 1, "{resource}");
    }
    let figures = fs::read_to_string(directory.0.join("csv/figures.csv")).expect("figures");
    let row = "1,a,copy-write,0,0,,B/s,1,1,5.5,4.5,6.5,1";
    assert_eq!(figures.lines().nth(1), Some(row));
    let names: Vec<String> = fs::read_dir(directory.0.join("csv"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.ends_with(".partial")), "{names:?}");
}

#[test]
fn lists_json_files_of_directories_once() {
    let directory = Directory::new();
    fs::create_dir_all(directory.0.join("d/below")).expect("a directory");
    for name in ["d/b.json", "d/a.json", "d/below/c.json", "d/.half.json", "d/log.txt"] {
        directory.document(name, "");
    }
    std::os::unix::fs::symlink(&directory.0, directory.0.join("d/circle")).expect("a link");
    let named = directory.document("named", "");
    let (files, errors) = list_files(&[directory.0.join("d"), named, directory.0.join("missing")]);
    let names: Vec<String> =
        files.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["a.json", "b.json", "c.json", "named"]);
    assert_eq!(errors.len(), 1);
}
