//! Rows of the derived tables.

use super::content::{ContentFigure, DocumentContent, HostClaim};
use numaio_schema::{Fact, FactKind, FigureKey};
use rusqlite::{params, Connection};
use std::collections::HashMap;

/// Writes rows of the derived tables, and remembers the ids of repeated values.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    facts: HashMap<Fact, i64>,
    keys: HashMap<FigureKey, i64>,
}

/// A host of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownHost {
    id: i64,
    machine_id: Option<String>,
    /// Whether it has, or had, the fingerprint of the document.
    has_fingerprint: bool,
}

/// The host that a document was assigned to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) host: i64,
    /// Machine-ids of all hosts of the name, if the document added one to others.
    pub(super) same_name: Vec<String>,
}

impl RowWriter {
    /// Reads the ids that a store has.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let facts = super::load::fact_values(connection)?.into_iter().map(|(id, fact)| (fact, id));
        let keys = super::load::figure_keys(connection)?.into_iter().map(|(id, key)| (key, id));
        Ok(Self { facts: facts.collect(), keys: keys.collect() })
    }

    /// Writes the rows of a document; the inner error states why it is rejected.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        document: i64,
        content: &DocumentContent,
    ) -> rusqlite::Result<Result<Assigned, String>> {
        let assigned = match assign(connection, &content.host)? {
            Ok(assigned) => assigned,
            Err(why) => return Ok(Err(why)),
        };
        let (host, at) = (assigned.host, time(content.measured_at));
        let mut insert = connection.prepare_cached(
            "INSERT INTO documents (id, host, kind, measured_at, numaio, run, failure)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?;
        let DocumentContent { kind, numaio, run, failure, .. } = content;
        insert.execute(params![document, host, kind, at, numaio, run, failure])?;
        if !content.host.fingerprint.is_empty() {
            write_fingerprint(connection, host, &content.host.fingerprint, at)?;
        }
        self.write_facts(connection, host, at, content)?;
        self.write_figures(connection, host, document, &content.figures)?;
        let mut insert = connection.prepare_cached("INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?)")?;
        for found in &content.findings {
            let super::ContentFinding { severity, rule, subject, message } = found;
            insert.execute(params![document, host, at, severity, rule, subject, message])?;
        }
        let mut insert = connection.prepare_cached("INSERT INTO conditions VALUES (?, ?, ?, ?, ?)")?;
        for (name, value) in &content.conditions {
            insert.execute(params![document, host, at, name, value])?;
        }
        Ok(Ok(assigned))
    }

    /// Replaces the facts of a host, unless newer ones are known.
    fn write_facts(
        &mut self,
        connection: &Connection,
        host: i64,
        at: i64,
        content: &DocumentContent,
    ) -> rusqlite::Result<()> {
        let Some(facts) = &content.facts else { return Ok(()) };
        let mut update = connection
            .prepare_cached("UPDATE hosts SET observed_at = ?2 WHERE id = ?1 AND observed_at <= ?2")?;
        if update.execute([host, at])? == 0 {
            return Ok(());
        }
        connection.prepare_cached("DELETE FROM fact_rows WHERE host = ?")?.execute([host])?;
        let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO fact_rows VALUES (?, ?)")?;
        for fact in facts {
            let id = match self.facts.get(fact) {
                Some(id) => *id,
                None => self.add_fact(connection, fact)?,
            };
            insert.execute([host, id])?;
        }
        Ok(())
    }

    fn add_fact(&mut self, connection: &Connection, fact: &Fact) -> rusqlite::Result<i64> {
        let mut insert =
            connection.prepare_cached("INSERT INTO fact_values (kind, name, value) VALUES (?, ?, ?)")?;
        let id = insert.insert(params![kind_name(fact.kind), fact.name, fact.value])?;
        self.facts.insert(fact.clone(), id);
        Ok(id)
    }

    fn write_figures(
        &mut self,
        connection: &Connection,
        host: i64,
        document: i64,
        figures: &[ContentFigure],
    ) -> rusqlite::Result<()> {
        // A measurement may be part of several documents, such as a model and a host report.
        let mut insert =
            connection.prepare_cached("INSERT OR IGNORE INTO figure_rows VALUES (?, ?, ?, ?, ?, ?, ?)")?;
        for (key, at, value, (low, high)) in figures {
            let id = match self.keys.get(key) {
                Some(id) => *id,
                None => self.add_key(connection, key)?,
            };
            insert.execute(params![host, id, time(*at), value, low, high, document])?;
        }
        Ok(())
    }

    fn add_key(&mut self, connection: &Connection, key: &FigureKey) -> rusqlite::Result<i64> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO figure_keys (quantity, from_node, to_node, device, unit, more_is_better)
             VALUES (?, ?, ?, ?, ?, ?)",
        )?;
        let (from, to) = (key.from.map(|node| node.0), key.to.map(|node| node.0));
        let id = insert.insert(params![key.quantity, from, to, key.device, key.unit, key.more_is_better])?;
        self.keys.insert(key.clone(), id);
        Ok(id)
    }
}

/// Converts a time for the tables. SQLite's integers are signed; later times do not exist.
fn time(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Returns the name of a kind of facts in the tables.
pub(super) fn kind_name(kind: FactKind) -> &'static str {
    match kind {
        FactKind::Hardware => "hardware",
        FactKind::Structure => "structure",
        FactKind::Setting => "setting",
    }
}

fn write_fingerprint(connection: &Connection, host: i64, fingerprint: &str, at: i64) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO fingerprints VALUES (?1, ?2, ?3, ?3) ON CONFLICT DO UPDATE SET
         first_seen_at = min(first_seen_at, ?3), last_seen_at = max(last_seen_at, ?3)",
    )?;
    insert.execute(params![host, fingerprint, at]).map(|_| ())
}

/// Finds or adds the host of a document; the inner error states why there is none.
///
/// A machine-id decides between hosts of one name, else the fingerprint. A host without machine-id
/// gets that of a later document with its fingerprint.
fn assign(connection: &Connection, claim: &HostClaim) -> rusqlite::Result<Result<Assigned, String>> {
    let host = |host| Ok(Ok(Assigned { host, same_name: Vec::new() }));
    if claim.name.is_empty() {
        return match hosts_with_fingerprint(connection, &claim.fingerprint)?[..] {
            [only] => host(only),
            [] => Ok(Err("it does not name its host".to_owned())),
            _ => Ok(Err("it does not name its host, and several hosts have its fingerprint".to_owned())),
        };
    }
    let known = hosts_with_name(connection, claim)?;
    let Some(machine_id) = &claim.machine_id else {
        let alike: Vec<&KnownHost> = known.iter().filter(|known| known.has_fingerprint).collect();
        return match (&known[..], &alike[..]) {
            ([], _) => host(add_host(connection, claim)?),
            ([only], _) => host(only.id),
            (_, [only]) => host(only.id),
            (all, _) => Ok(Err(format!(
                "{} hosts are named '{}', and the document has no machine-id",
                all.len(),
                claim.name.escape_debug()
            ))),
        };
    };
    if let Some(same) = known.iter().find(|known| known.machine_id.as_ref() == Some(machine_id)) {
        return host(same.id);
    }
    if let Some(adopted) = known.iter().find(|known| known.machine_id.is_none() && known.has_fingerprint) {
        let mut update = connection.prepare_cached("UPDATE hosts SET machine_id = ? WHERE id = ?")?;
        update.execute(params![machine_id, adopted.id])?;
        return host(adopted.id);
    }
    let host = add_host(connection, claim)?;
    let others = known.into_iter().map(|known| known.machine_id.unwrap_or_else(|| "unknown".to_owned()));
    let mut same_name: Vec<String> = others.collect();
    if !same_name.is_empty() {
        same_name.push(machine_id.clone());
    }
    Ok(Ok(Assigned { host, same_name }))
}

fn add_host(connection: &Connection, claim: &HostClaim) -> rusqlite::Result<i64> {
    let mut insert =
        connection.prepare_cached("INSERT INTO hosts (name, machine_id, observed_at) VALUES (?, ?, 0)")?;
    insert.insert(params![claim.name, claim.machine_id])
}

fn hosts_with_name(connection: &Connection, claim: &HostClaim) -> rusqlite::Result<Vec<KnownHost>> {
    let mut query = connection.prepare_cached(
        "SELECT h.id, h.machine_id, f.host IS NOT NULL FROM hosts h
         LEFT JOIN fingerprints f ON f.host = h.id AND f.fingerprint = ?2
         WHERE h.name = ?1 ORDER BY h.id",
    )?;
    let host = |row: &rusqlite::Row<'_>| {
        Ok(KnownHost { id: row.get(0)?, machine_id: row.get(1)?, has_fingerprint: row.get(2)? })
    };
    let hosts = query.query_map([&claim.name, &claim.fingerprint], host)?.collect();
    hosts
}

/// Returns at most two hosts with a fingerprint, which is enough to see whether it is unique.
fn hosts_with_fingerprint(connection: &Connection, fingerprint: &str) -> rusqlite::Result<Vec<i64>> {
    if fingerprint.is_empty() {
        return Ok(Vec::new());
    }
    let mut query =
        connection.prepare_cached("SELECT host FROM fingerprints WHERE fingerprint = ? LIMIT 2")?;
    let hosts = query.query_map([fingerprint], |row| row.get(0))?.collect();
    hosts
}

/// Returns whether there is a document with this hash.
pub(super) fn has_document(connection: &Connection, sha256: &[u8]) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM raw_documents WHERE sha256 = ?")?.exists([sha256])
}
