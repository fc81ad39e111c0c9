//! The store of a fleet, whose file another user may have written.

use crate::displayed_text::is_displayable;
use numaio_fleet::store::{
    ContentFinding, DocumentContent, FleetStore, IngestOptions, StoreError, MOST_DOCUMENT_BYTES,
};
use numaio_schema::{Fact, FactKind, FigureKey};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(1);

/// A file for a store, which is removed with its journal.
struct StoreFile(PathBuf);

impl StoreFile {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("numaio-store-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        Self(directory.join("store"))
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        let _ = self.0.parent().map(fs::remove_dir_all);
    }
}

/// Derives a host and a figure, so that every table has rows.
fn derive(text: &str) -> Result<DocumentContent, String> {
    let mut content = DocumentContent { kind: "test/1".to_owned(), measured_at: 7, ..Default::default() };
    content.host.name = text.lines().next().unwrap_or_default().to_owned();
    content.facts.get_or_insert_default().push(Fact {
        kind: FactKind::Setting,
        name: "kernel".to_owned(),
        value: "6".to_owned(),
    });
    let key = FigureKey {
        quantity: "copy-write".to_owned(),
        from: None,
        to: None,
        device: String::new(),
        unit: "bytes/s".to_owned(),
        more_is_better: true,
    };
    content.figures.push((key, 7, 5.0, (4.0, 6.0)));
    content.findings.push(ContentFinding {
        severity: "note".to_owned(),
        rule: "rule".to_owned(),
        subject: "machine".to_owned(),
        message: "a finding".to_owned(),
    });
    Ok(content)
}

/// Opens a store, reads everything in it, and builds its tables again.
pub fn fleet_store(input: &[u8]) {
    let file = StoreFile::new();
    fs::write(&file.0, input).expect("a file");
    let is_read = check(&file.0, FleetStore::open(&file.0, WAIT).and_then(|store| read(&store)));
    if !is_read {
        return;
    }
    let options = IngestOptions { now: 9, threads: 1, derive: &derive, is_interrupted: &|| false };
    let rebuild = |mut store: FleetStore| store.rebuild(&options, &mut |_| {}).and_then(|_| read(&store));
    check(&file.0, FleetStore::open_to_write(&file.0, WAIT).and_then(rebuild));
}

fn read(store: &FleetStore) -> Result<(), StoreError> {
    let data = store.load()?;
    assert!(data.figures.iter().all(|row| (row.host as usize) < data.hosts.len()));
    for host in store.hosts()? {
        for document in store.documents(&host.name)? {
            let text = store.newest_text(&host.name, &[&document.kind])?;
            assert!(text.is_none_or(|text| text.len() as u64 <= MOST_DOCUMENT_BYTES));
        }
    }
    Ok(())
}

fn check(path: &Path, read: Result<(), StoreError>) -> bool {
    let Err(error) = read else { return true };
    let text = error.to_string();
    assert!(text.contains(&*path.to_string_lossy()), "{text}");
    assert!(is_displayable(&numaio_machine::printable::printable(&text)));
    false
}

/// Returns a store with a document.
pub fn seeds() -> Vec<Vec<u8>> {
    let file = StoreFile::new();
    let document = file.0.with_file_name("document.json");
    fs::write(&document, "host\n").expect("a document");
    let options = IngestOptions { now: 9, threads: 1, derive: &derive, is_interrupted: &|| false };
    let mut store = FleetStore::open_to_write(&file.0, WAIT).expect("a store");
    let added = store.ingest(&[document], &options, &mut |_| {}).expect("a document");
    assert_eq!(added.added, 1);
    drop(store);
    vec![fs::read(&file.0).expect("a store")]
}
