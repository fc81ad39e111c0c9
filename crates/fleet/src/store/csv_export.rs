//! Export of the tables as CSV, with a description of their columns.

use super::error::StoreError;
use super::open::FleetStore;
use numaio_linux::user_files::{self, Durable, Replacement};
use rusqlite::types::ValueRef;
use rusqlite::Connection;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// An exported table.
struct ExportedTable {
    name: &'static str,
    description: &'static str,
    query: &'static str,
    /// Name, type in Table Schema, and description of each column.
    columns: &'static [(&'static str, &'static str, &'static str)],
}

const HOST_ID: (&str, &str, &str) = ("host_id", "integer", "id of the host in hosts.csv");
const HOST: (&str, &str, &str) = ("host", "string", "name of the host");
const DOCUMENT: (&str, &str, &str) = ("document", "integer", "id of the document in documents.csv");
const MEASURED_AT: (&str, &str, &str) =
    ("measured_at", "integer", "time of measurement in seconds since 1970, by the host's clock");

const TABLES: [ExportedTable; 7] = [
    ExportedTable {
        name: "hosts",
        description: "hosts of the fleet",
        query: "SELECT id, name, machine_id, observed_at FROM hosts ORDER BY id",
        columns: &[
            ("id", "integer", "id of the host"),
            ("name", "string", "name; several hosts may have one"),
            ("machine_id", "string", "hash of the machine-id"),
            ("observed_at", "integer", "time of the newest facts in seconds since 1970"),
        ],
    },
    ExportedTable {
        name: "fingerprints",
        description: "fingerprints of the composition of each host, over time",
        query: "SELECT f.host, h.name, f.fingerprint, f.first_seen_at, f.last_seen_at
                FROM fingerprints f JOIN hosts h ON h.id = f.host ORDER BY f.host, f.first_seen_at",
        columns: &[
            HOST_ID,
            HOST,
            ("fingerprint", "string", "16 hexadecimal digits"),
            ("first_seen_at", "integer", "seconds since 1970"),
            ("last_seen_at", "integer", "seconds since 1970"),
        ],
    },
    ExportedTable {
        name: "documents",
        description: "documents, without their text",
        query: "SELECT d.id, d.host, h.name, d.kind, d.measured_at, d.numaio, d.run, d.failure, r.path,
                  r.added_at, r.bytes, lower(hex(r.sha256))
                FROM documents d JOIN hosts h ON h.id = d.host JOIN raw_documents r ON r.id = d.id
                ORDER BY d.id",
        columns: &[
            ("id", "integer", "id of the document"),
            HOST_ID,
            HOST,
            ("kind", "string", "schema and version of the document"),
            MEASURED_AT,
            ("numaio", "string", "version of numaio that measured"),
            ("run", "string", "id of the fleet run; empty outside of one"),
            ("failure", "string", "why the command failed"),
            ("path", "string", "path that it was added from"),
            ("added_at", "integer", "seconds since 1970"),
            ("bytes", "integer", "size of its text"),
            ("sha256", "string", "hash of its text"),
        ],
    },
    ExportedTable {
        name: "facts",
        description: "the newest facts of each host",
        query: "SELECT host_id, host, kind, name, value FROM facts ORDER BY host_id, kind, name",
        columns: &[
            HOST_ID,
            HOST,
            ("kind", "string", "hardware, structure or setting"),
            ("name", "string", "name of the fact"),
            ("value", "string", "its value"),
        ],
    },
    ExportedTable {
        name: "figures",
        description: "measured and stated quantities of each host",
        query: "SELECT host_id, host, quantity, from_node, to_node, device, unit, more_is_better,
                  measured_at, value, low, high, document FROM figures",
        columns: &[
            HOST_ID,
            HOST,
            ("quantity", "string", "name of the quantity"),
            ("from_node", "integer", "node of the data's source, or the only node"),
            ("to_node", "integer", "node of the data's destination"),
            ("device", "string", "device; empty without one"),
            ("unit", "string", "unit of the values"),
            ("more_is_better", "integer", "1 if higher values are better, else 0"),
            MEASURED_AT,
            ("value", "number", "the value"),
            ("low", "number", "lower end of its 95 % interval"),
            ("high", "number", "upper end of its 95 % interval"),
            DOCUMENT,
        ],
    },
    ExportedTable {
        name: "findings",
        description: "findings of each document",
        query: "SELECT f.host, h.name, f.document, f.measured_at, f.severity, f.rule, f.subject, f.message
                FROM findings f JOIN hosts h ON h.id = f.host ORDER BY f.document, f.rowid",
        columns: &[
            HOST_ID,
            HOST,
            DOCUMENT,
            MEASURED_AT,
            ("severity", "string", "note, warning or problem"),
            ("rule", "string", "rule of the finding"),
            ("subject", "string", "affected object"),
            ("message", "string", "the finding"),
        ],
    },
    ExportedTable {
        name: "conditions",
        description: "settings and load during each measurement",
        query: "SELECT c.host, h.name, c.document, c.measured_at, c.name, c.value
                FROM conditions c JOIN hosts h ON h.id = c.host ORDER BY c.document, c.rowid",
        columns: &[
            HOST_ID,
            HOST,
            DOCUMENT,
            MEASURED_AT,
            ("name", "string", "name of the setting or value"),
            ("value", "string", "its value, as in the document"),
        ],
    },
];

/// Name of the description of the tables.
pub const DESCRIPTION: &str = "datapackage.json";

impl FleetStore {
    /// Writes each table into a file `NAME.csv` of a directory, and their description in Table
    /// Schema into `datapackage.json`; returns the files with their numbers of rows.
    ///
    /// The directory is created. Each file gets its name when it is complete.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be read, or a file cannot be written.
    pub fn export_csv(&self, directory: &Path) -> Result<Vec<(String, u64)>, StoreError> {
        let cannot_write = |path: &Path, error| StoreError::CannotWrite { path: path.to_owned(), error };
        user_files::create_directory(directory, 0o777).map_err(|error| cannot_write(directory, error))?;
        // One transaction: all files show the same state.
        self.sql(|connection| connection.execute_batch("BEGIN"))?;
        let mut written = Vec::new();
        for table in &TABLES {
            let path = directory.join(format!("{}.csv", table.name));
            let rows = self.write_table(table, &path)?;
            written.push((format!("{}.csv", table.name), rows));
        }
        self.sql(|connection| connection.execute_batch("COMMIT"))?;
        let path = directory.join(DESCRIPTION);
        let text = serde_json::to_string_pretty(&description()).unwrap_or_default() + "\n";
        user_files::write_file(&path, text.as_bytes()).map_err(|error| cannot_write(&path, error))?;
        Ok(written)
    }

    fn write_table(&self, table: &ExportedTable, path: &Path) -> Result<u64, StoreError> {
        let cannot_write = |error| StoreError::CannotWrite { path: path.to_owned(), error };
        let replacement = Replacement::of_stored(path).map_err(cannot_write)?;
        let buffered = BufWriter::with_capacity(1 << 20, replacement.file());
        let mut writer = csv::Writer::from_writer(buffered);
        let rows =
            self.sql(|connection| write_rows(connection, table, &mut writer))?.map_err(cannot_write)?;
        writer.flush().map_err(cannot_write)?;
        drop(writer);
        replacement.publish(Durable(true)).map_err(cannot_write)?;
        Ok(rows)
    }
}

/// Writes the rows of a table; the inner error is that of the file.
fn write_rows(
    connection: &Connection,
    table: &ExportedTable,
    writer: &mut csv::Writer<impl Write>,
) -> rusqlite::Result<io::Result<u64>> {
    let header = writer.write_record(table.columns.iter().map(|(name, _, _)| name));
    if let Err(error) = header {
        return Ok(Err(error.into()));
    }
    let mut query = connection.prepare(table.query)?;
    let (mut rows, mut count, mut field) = (query.query([])?, 0, Vec::new());
    while let Some(row) = rows.next()? {
        for column in 0..table.columns.len() {
            field.clear();
            format_value(row.get_ref(column)?, &mut field);
            if let Err(error) = writer.write_field(&field) {
                return Ok(Err(error.into()));
            }
        }
        if let Err(error) = writer.write_record(None::<&[u8]>) {
            return Ok(Err(error.into()));
        }
        count += 1;
    }
    Ok(Ok(count))
}

/// Formats a value; numbers with as many digits as distinguish them.
fn format_value(value: ValueRef<'_>, field: &mut Vec<u8>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Integer(number) => field.extend_from_slice(number.to_string().as_bytes()),
        ValueRef::Real(number) => field.extend_from_slice(number.to_string().as_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => field.extend_from_slice(bytes),
    }
}

/// Describes the tables as a data package (<https://specs.frictionlessdata.io/table-schema/>).
fn description() -> serde_json::Value {
    let field = |(name, kind, description): &(&str, &str, &str)| serde_json::json!({ "name": name, "type": kind, "description": description });
    let resource = |table: &ExportedTable| {
        serde_json::json!({
            "name": table.name,
            "path": format!("{}.csv", table.name),
            "description": table.description,
            "schema": { "fields": table.columns.iter().map(field).collect::<Vec<_>>() },
        })
    };
    serde_json::json!({
        "name": "numaio-fleet",
        "resources": TABLES.iter().map(resource).collect::<Vec<_>>(),
    })
}
