//! Reading of stored documents.

use crate::failure::{self, Failure};
use crate::options::Common;
use crate::store::{self, Kind};
use crate::{input, output};
use numaio_machine::topology::Identity;
use numaio_schema::{Document, IoRecord};
use serde::Deserialize;
use std::collections::VecDeque;
use std::iter;
use std::path::{Path, PathBuf};

/// Reads a document of any kind.
pub fn read(path: &Path) -> Result<Document, Failure> {
    let text = input::read_text(path)?;
    Document::from_json(&text).map_err(|error| failure::not_a_document(path, &text, &error))
}

/// Lists the saved documents of one kind of a machine, newest first, and reads them lazily.
/// Measurements under load are left out; [`saved_under_load`] lists them.
///
/// Identical machines have the same fingerprint and may share a home directory. Documents of other
/// hosts are used only if this host has none, for example after a new host name, with a message.
pub fn saved<'a>(
    common: &'a Common,
    kind: Kind,
    machine: &'a Identity,
) -> impl Iterator<Item = PathBuf> + 'a {
    let report = move |other: &str| {
        let name = kind.name();
        let message = format!("this host has no saved {name}; using those of the identical host '{other}'");
        output::remark(common, &message);
    };
    let paths = store::saved(kind, &machine.fingerprint);
    this_host_first(paths, move |path| host_of(path, &machine.hostname), report)
}

/// Lists the saved measurements under load of one kind of this host, newest first, and reads them
/// lazily.
pub fn saved_under_load(kind: Kind, machine: &Identity) -> impl Iterator<Item = PathBuf> + '_ {
    let paths = store::saved(kind, &machine.fingerprint).into_iter();
    paths.filter(|path| matches!(host_of(path, &machine.hostname), DocumentHost::UnderLoad { is_own: true }))
}

/// The host on which a document was measured.
enum DocumentHost {
    /// This host, or the document does not name one.
    This,
    /// Another host, by name.
    Other(String),
    /// Any host, which was under load.
    UnderLoad {
        /// Whether it is this host.
        is_own: bool,
    },
    /// The file is not a document.
    Unreadable,
}

/// Yields this host's and unreadable documents in order, and those of other hosts only if this host
/// has none.
///
/// Unreadable files are reported by their readers.
fn this_host_first(
    paths: Vec<PathBuf>,
    host_of: impl Fn(&Path) -> DocumentHost,
    report: impl Fn(&str),
) -> impl Iterator<Item = PathBuf> {
    let mut paths = paths.into_iter();
    let (mut has_own, mut reported, mut others) = (false, false, VecDeque::new());
    iter::from_fn(move || {
        for path in paths.by_ref() {
            match host_of(&path) {
                DocumentHost::This => has_own = true,
                DocumentHost::Unreadable => {}
                DocumentHost::UnderLoad { .. } => continue,
                DocumentHost::Other(host) => {
                    others.push_back((host, path));
                    continue;
                }
            }
            return Some(path);
        }
        let (host, path) = others.pop_front().filter(|_| !has_own)?;
        if !reported {
            report(&host);
        }
        reported = true;
        Some(path)
    })
}

/// Reads only the host of a document.
fn host_of(path: &Path, hostname: &str) -> DocumentHost {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Measured {
        machine: Identity,
        record: Option<Box<Measured>>,
        load: Vec<serde::de::IgnoredAny>,
    }
    let text = input::read_saved(path).unwrap_or_default();
    let Ok(mut stored) = serde_json::from_str::<Measured>(&text) else { return DocumentHost::Unreadable };
    let measured = stored.record.take().map_or(stored, |record| *record);
    let host = measured.machine.hostname;
    let is_own = hostname.is_empty() || host.is_empty() || host == hostname;
    match is_own {
        _ if !measured.load.is_empty() => DocumentHost::UnderLoad { is_own },
        true => DocumentHost::This,
        false => DocumentHost::Other(host),
    }
}

/// Reads documents, and fails if they are of several machines.
pub fn read_of_one_machine(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Document)>, Failure> {
    let mut documents: Vec<(PathBuf, Document)> = Vec::new();
    for path in paths {
        let document = read(path)?;
        if let Some((first_path, first)) = documents.first() {
            if first.origin().fingerprint != document.origin().fingerprint {
                let (actual, expected) = (machine_name(&document), machine_name(first));
                let message =
                    format!("it describes {actual}; '{}' describes {expected}", first_path.display());
                return Err(
                    Failure::file(path, message).hint("numaio report accepts documents of several machines")
                );
            }
            check_host(path, &document, &first.origin().identity())
                .map_err(|failure| failure.hint("name the documents of one host"))?;
        }
        documents.push((path.clone(), document));
    }
    Ok(documents)
}

/// Reads the saved I/O measurements of a kind, newest first, and reports unreadable ones.
pub fn saved_io(common: &Common, kind: Kind, identity: &Identity) -> Vec<IoRecord> {
    let read_io = |path: PathBuf| match read(&path) {
        Ok(Document::Io(record)) => Some(*record),
        Ok(_) => None,
        Err(failure) => {
            output::remark(common, &format!("skipped {}", failure.message));
            None
        }
    };
    saved(common, kind, identity).filter_map(read_io).collect()
}

/// Fails if a document is of another machine or host: identical machines have the same fingerprint.
pub fn check_host(path: &Path, document: &Document, host: &Identity) -> Result<(), Failure> {
    let own = document.origin().identity();
    if own.fingerprint != host.fingerprint {
        let (actual, expected) = (machine_name(document), &host.fingerprint);
        return Err(Failure::file(path, format!("it describes {actual}, not machine {expected}")));
    }
    check_hostname(path, document, host)
}

/// Fails if a document names another host. Documents without a host name are of any host.
pub fn check_hostname(path: &Path, document: &Document, host: &Identity) -> Result<(), Failure> {
    let own = document.origin().identity();
    let is_same = own.hostname == host.hostname || own.hostname.is_empty() || host.hostname.is_empty();
    is_same.then_some(()).ok_or_else(|| {
        let (actual, expected) = (own.hostname.escape_debug(), host.hostname.escape_debug());
        Failure::file(path, format!("it describes the host '{actual}', not the identical host '{expected}'"))
            .hint("numaio fleet compares hosts")
    })
}

/// Describes the machine of a document: `machine 02ed3230ea9f1989, HP ProLiant DL585 G7 (dl585)`.
pub fn machine_name(document: &Document) -> String {
    let identity = document.origin().identity();
    let Identity { fingerprint, .. } = &identity;
    format!("machine {fingerprint}, {}", numaio_report::machine_name(&identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Takes documents whose names start with their hosts. Returns the documents, the number of
    /// files read, and the reported hosts.
    fn taken(names: &[&str], limit: usize) -> (Vec<String>, usize, Vec<String>) {
        let (reads, reported) = (RefCell::new(0), RefCell::new(Vec::new()));
        let host_of = |path: &Path| {
            *reads.borrow_mut() += 1;
            match path.to_string_lossy().split_once('-') {
                Some(("own", _)) => DocumentHost::This,
                Some((host, _)) => DocumentHost::Other(host.to_owned()),
                None => DocumentHost::Unreadable,
            }
        };
        let paths = names.iter().map(PathBuf::from).collect();
        let found =
            this_host_first(paths, host_of, |other| reported.borrow_mut().push(other.to_owned())).take(limit);
        let found = found.map(|path| path.display().to_string()).collect();
        (found, reads.take(), reported.take())
    }

    #[test]
    fn unreadable_file_does_not_hide_documents_of_other_hosts() {
        assert_eq!(
            taken(&["twin-2", "broken", "twin-1"], 9),
            (vec!["broken".into(), "twin-2".into(), "twin-1".into()], 3, vec!["twin".into()])
        );
        assert_eq!(taken(&["twin-2", "own-1", "broken"], 9).0, ["own-1", "broken"]);
        assert_eq!(taken(&[], 9), (Vec::new(), 0, Vec::new()));
    }

    #[test]
    fn reads_only_as_many_documents_as_taken() {
        assert_eq!(
            taken(&["twin-9", "own-8", "own-7", "twin-6", "own-5"], 2),
            (vec!["own-8".into(), "own-7".into()], 3, Vec::new())
        );
    }
}
