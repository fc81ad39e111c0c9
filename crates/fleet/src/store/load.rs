//! Reading of the derived tables.

use super::error::StoreError;
use super::open::FleetStore;
use super::text::{decompress, MOST_DOCUMENT_BYTES};
use numaio_machine::ids::NodeId;
use numaio_schema::{Fact, FactKind, FigureKey, FigureRow, FleetData, FleetHost};
use rusqlite::{Connection, Row};
use std::collections::HashMap;

/// A host of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHost {
    /// A name that is unique in the store: the host's, with its machine-id if several have it.
    pub name: String,
    /// Hash of the machine-id.
    pub machine_id: Option<String>,
    /// Time of its newest facts, in seconds since 1970.
    pub observed_at: u64,
    /// Number of its documents.
    pub documents: u64,
}

/// A document of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its id in the store.
    pub id: i64,
    /// Its schema.
    pub kind: String,
    /// Time of measurement in seconds since 1970.
    pub measured_at: u64,
    /// The path that it was added from.
    pub path: String,
    /// Why its command failed.
    pub failure: Option<String>,
}

impl FleetStore {
    /// Reads all hosts with their newest facts, and all figures.
    ///
    /// # Errors
    /// [`StoreError`]: a corrupt or locked file.
    pub fn load(&self) -> Result<FleetData, StoreError> {
        self.sql(|connection| {
            // One transaction: a writer may not change the tables in between.
            let transaction = connection.unchecked_transaction()?;
            let data = load(&transaction)?;
            transaction.commit()?;
            Ok(data)
        })
    }

    /// Lists the hosts, in the order in which they were added.
    ///
    /// # Errors
    /// [`StoreError`]: a corrupt or locked file.
    pub fn hosts(&self) -> Result<Vec<StoredHost>, StoreError> {
        self.sql(|connection| Ok(named_hosts(connection)?.into_iter().map(|(_, host)| host).collect()))
    }

    /// Lists the documents of a host by its unique name, newest first.
    ///
    /// # Errors
    /// [`StoreError`]: a corrupt or locked file.
    pub fn documents(&self, host: &str) -> Result<Vec<StoredDocument>, StoreError> {
        self.sql(|connection| {
            let known = named_hosts(connection)?;
            let Some((id, _)) = known.iter().find(|(_, known)| known.name == host) else {
                return Ok(Vec::new());
            };
            let mut query = connection.prepare(
                "SELECT d.id, d.kind, d.measured_at, r.path, d.failure FROM documents d
                 JOIN raw_documents r ON r.id = d.id WHERE d.host = ? ORDER BY d.measured_at DESC, d.id DESC",
            )?;
            let document = |row: &Row<'_>| {
                Ok(StoredDocument {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    measured_at: unsigned(row.get(2)?),
                    path: row.get(3)?,
                    failure: row.get(4)?,
                })
            };
            let documents = query.query_map([id], document)?.collect();
            documents
        })
    }

    /// Returns the text of a host's newest document of some kinds, by the host's unique name.
    ///
    /// # Errors
    /// [`StoreError`]: a corrupt or locked file.
    pub fn newest_text(&self, host: &str, kinds: &[&str]) -> Result<Option<String>, StoreError> {
        let documents = self.documents(host)?;
        let Some(newest) = documents.iter().find(|document| kinds.contains(&document.kind.as_str())) else {
            return Ok(None);
        };
        let zstd: Vec<u8> = self.sql(|connection| {
            let query =
                "SELECT CASE WHEN length(zstd) <= ?2 THEN zstd ELSE x'' END FROM raw_documents WHERE id = ?1";
            connection.query_row(query, [newest.id, MOST_DOCUMENT_BYTES as i64], |row| row.get(0))
        })?;
        let damaged = || StoreError::Corrupt {
            path: self.path.clone(),
            why: format!("the text of document {} is damaged", newest.id),
        };
        let bytes = decompress(&zstd, MOST_DOCUMENT_BYTES).map_err(|_| damaged())?;
        String::from_utf8(bytes).map(Some).map_err(|_| damaged())
    }

    /// Returns the time of measurement of a document, in seconds since 1970.
    ///
    /// # Errors
    /// [`StoreError`]: a corrupt or locked file.
    pub fn time_of_document(&self, id: i64) -> Result<Option<u64>, StoreError> {
        self.sql(|connection| {
            let mut query = connection.prepare("SELECT measured_at FROM documents WHERE id = ?")?;
            let found = query.query_map([id], |row| row.get(0))?.next().transpose()?;
            Ok(found.map(unsigned))
        })
    }
}

fn load(connection: &Connection) -> rusqlite::Result<FleetData> {
    let named = named_hosts(connection)?;
    let index: HashMap<i64, u32> = named.iter().map(|(id, _)| *id).zip(0..).collect();
    let mut hosts: Vec<FleetHost> = named
        .into_iter()
        .map(|(_, host)| FleetHost { name: host.name, observed_at: host.observed_at, facts: Vec::new() })
        .collect();
    let facts: HashMap<i64, Fact> = fact_values(connection)?.into_iter().collect();
    let mut query = connection.prepare("SELECT host, fact FROM fact_rows")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let host = index.get(&row.get(0)?).and_then(|index| hosts.get_mut(*index as usize));
        if let (Some(host), Some(fact)) = (host, facts.get(&row.get(1)?)) {
            host.facts.push(fact.clone());
        }
    }
    for host in &mut hosts {
        host.facts.sort();
    }
    let (ids, keys): (Vec<i64>, Vec<FigureKey>) = figure_keys(connection)?.into_iter().unzip();
    let key_index: HashMap<i64, u32> = ids.into_iter().zip(0..).collect();
    let figures = figure_rows(connection, &index, &key_index)?;
    Ok(FleetData { hosts, keys, figures })
}

fn figure_rows(
    connection: &Connection,
    hosts: &HashMap<i64, u32>,
    keys: &HashMap<i64, u32>,
) -> rusqlite::Result<Vec<FigureRow>> {
    let mut figures = Vec::new();
    let mut query = connection.prepare("SELECT host, key, measured_at, value, low, high FROM figure_rows")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (Some(host), Some(key)) = (hosts.get(&row.get(0)?), keys.get(&row.get(1)?)) else { continue };
        figures.push(FigureRow {
            host: *host,
            key: *key,
            measured_at: unsigned(row.get(2)?),
            value: row.get(3)?,
            interval: (row.get(4)?, row.get(5)?),
        });
    }
    Ok(figures)
}

/// Returns the hosts with unique names, by id.
fn named_hosts(connection: &Connection) -> rusqlite::Result<Vec<(i64, StoredHost)>> {
    let mut query = connection.prepare(
        "SELECT id, name, machine_id, observed_at, (SELECT count(*) FROM documents WHERE host = hosts.id)
         FROM hosts ORDER BY id",
    )?;
    let host = |row: &Row<'_>| {
        let documents = unsigned(row.get(4)?);
        let (name, machine_id, observed_at) = (row.get(1)?, row.get(2)?, unsigned(row.get(3)?));
        Ok((row.get(0)?, StoredHost { name, machine_id, observed_at, documents }))
    };
    let mut hosts = query.query_map([], host)?.collect::<rusqlite::Result<Vec<(i64, StoredHost)>>>()?;
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (_, host) in &hosts {
        *counts.entry(host.name.clone()).or_default() += 1;
    }
    for (_, host) in hosts.iter_mut().filter(|(_, host)| counts.get(&host.name).is_some_and(|n| *n > 1)) {
        let machine_id = host.machine_id.as_deref().unwrap_or("unknown");
        let start: String = machine_id.chars().take(8).collect();
        host.name = format!("{} (machine-id {start})", host.name);
    }
    Ok(hosts)
}

/// Returns the distinct facts with their ids.
pub(super) fn fact_values(connection: &Connection) -> rusqlite::Result<Vec<(i64, Fact)>> {
    let mut query = connection.prepare("SELECT id, kind, name, value FROM fact_values")?;
    let fact = |row: &Row<'_>| {
        let kind = match row.get_ref(1)?.as_str()? {
            "hardware" => FactKind::Hardware,
            "structure" => FactKind::Structure,
            _ => FactKind::Setting,
        };
        Ok((row.get(0)?, Fact { kind, name: row.get(2)?, value: row.get(3)? }))
    };
    let facts = query.query_map([], fact)?.collect();
    facts
}

/// Returns the distinct keys of figures with their ids.
pub(super) fn figure_keys(connection: &Connection) -> rusqlite::Result<Vec<(i64, FigureKey)>> {
    let mut query = connection.prepare(
        "SELECT id, quantity, from_node, to_node, device, unit, more_is_better FROM figure_keys ORDER BY id",
    )?;
    let key = |row: &Row<'_>| {
        let key = FigureKey {
            quantity: row.get(1)?,
            from: row.get::<_, Option<u32>>(2)?.map(NodeId),
            to: row.get::<_, Option<u32>>(3)?.map(NodeId),
            device: row.get(4)?,
            unit: row.get(5)?,
            more_is_better: row.get(6)?,
        };
        Ok((row.get(0)?, key))
    };
    let keys = query.query_map([], key)?.collect();
    keys
}

/// Converts a stored time; the tables have no negative ones.
fn unsigned(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or_default()
}
