//! The tables of the store.
//!
//! `raw_documents` is the truth. All other tables except `meta` are derived from it, and
//! [`rebuild`](super::FleetStore::rebuild) creates them again.

/// Version of the tables, in the header of the file (`PRAGMA user_version`). A store with other
/// definitions than these is refused, so a change of a definition needs a new version.
pub(super) const VERSION: i64 = 1;

/// Number in the header that identifies a store (`PRAGMA application_id`): `nufl` in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x6e75_666c;

/// The documents as they were added, compressed.
pub(super) const TRUTH: &str = "
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE raw_documents (
  id INTEGER PRIMARY KEY,
  sha256 BLOB NOT NULL UNIQUE,
  path TEXT NOT NULL,
  added_at INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  zstd BLOB NOT NULL
);
";

/// Tables and views that are derived from the documents.
///
/// Facts and keys of figures repeat on every host. They are stored once, and the views join them.
pub(super) const DERIVED: &str = "
CREATE TABLE hosts (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  machine_id TEXT,
  observed_at INTEGER NOT NULL
);
CREATE INDEX hosts_by_name ON hosts (name);
CREATE TABLE fingerprints (
  host INTEGER NOT NULL REFERENCES hosts,
  fingerprint TEXT NOT NULL,
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  PRIMARY KEY (host, fingerprint)
) WITHOUT ROWID;
CREATE TABLE documents (
  id INTEGER PRIMARY KEY REFERENCES raw_documents,
  host INTEGER NOT NULL REFERENCES hosts,
  kind TEXT NOT NULL,
  measured_at INTEGER NOT NULL,
  numaio TEXT NOT NULL,
  run TEXT NOT NULL,
  failure TEXT
);
CREATE INDEX documents_by_host ON documents (host, measured_at);
CREATE TABLE fact_values (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL
);
CREATE TABLE fact_rows (
  host INTEGER NOT NULL REFERENCES hosts,
  fact INTEGER NOT NULL REFERENCES fact_values,
  PRIMARY KEY (host, fact)
) WITHOUT ROWID;
CREATE TABLE figure_keys (
  id INTEGER PRIMARY KEY,
  quantity TEXT NOT NULL,
  from_node INTEGER,
  to_node INTEGER,
  device TEXT NOT NULL,
  unit TEXT NOT NULL,
  more_is_better INTEGER NOT NULL
);
CREATE TABLE figure_rows (
  host INTEGER NOT NULL REFERENCES hosts,
  key INTEGER NOT NULL REFERENCES figure_keys,
  measured_at INTEGER NOT NULL,
  value REAL NOT NULL,
  low REAL NOT NULL,
  high REAL NOT NULL,
  document INTEGER NOT NULL REFERENCES raw_documents,
  PRIMARY KEY (host, key, measured_at)
) WITHOUT ROWID;
CREATE TABLE findings (
  document INTEGER NOT NULL REFERENCES raw_documents,
  host INTEGER NOT NULL REFERENCES hosts,
  measured_at INTEGER NOT NULL,
  severity TEXT NOT NULL,
  rule TEXT NOT NULL,
  subject TEXT NOT NULL,
  message TEXT NOT NULL
);
CREATE INDEX findings_by_host ON findings (host, measured_at);
CREATE TABLE conditions (
  document INTEGER NOT NULL REFERENCES raw_documents,
  host INTEGER NOT NULL REFERENCES hosts,
  measured_at INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL
);
CREATE INDEX conditions_by_host ON conditions (host, measured_at);
CREATE VIEW facts AS
  SELECT h.id AS host_id, h.name AS host, v.kind, v.name, v.value
  FROM fact_rows r JOIN hosts h ON h.id = r.host JOIN fact_values v ON v.id = r.fact;
CREATE VIEW figures AS
  SELECT h.id AS host_id, h.name AS host, k.quantity, k.from_node, k.to_node, k.device, k.unit,
    k.more_is_better, r.measured_at, r.value, r.low, r.high, r.document
  FROM figure_rows r JOIN hosts h ON h.id = r.host JOIN figure_keys k ON k.id = r.key;
";

/// Removes what [`DERIVED`] creates.
pub(super) const DROP_DERIVED: &str = "
DROP VIEW IF EXISTS figures;
DROP VIEW IF EXISTS facts;
DROP TABLE IF EXISTS conditions;
DROP TABLE IF EXISTS findings;
DROP TABLE IF EXISTS figure_rows;
DROP TABLE IF EXISTS figure_keys;
DROP TABLE IF EXISTS fact_rows;
DROP TABLE IF EXISTS fact_values;
DROP TABLE IF EXISTS documents;
DROP TABLE IF EXISTS fingerprints;
DROP TABLE IF EXISTS hosts;
";
