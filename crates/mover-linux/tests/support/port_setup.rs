//! Ports over a directory with one file.

use numaio_mover::port::{Details, Event, FilePath, Identity, Operation, Outcome, Port};
use numaio_mover_linux::files::Roots;
use numaio_mover_linux::port::{FilePort, Pool, Setting, Slab};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory on the file system of the sources.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates the directory.
    pub fn new(name: &str) -> Self {
        let here = std::env::current_dir().expect("a directory");
        let folder = here.join(format!("{name}-{}.tmp", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("removed");
    }
}

/// Returns the configuration of a port with one worker group.
pub fn setting(folder: &Path, buffers: usize, threads: usize, rings: bool) -> Setting {
    let roots = Roots::open(&[folder]).expect("a root");
    Setting { rings, may_pause: false, ..Setting::new(roots, threads, Pool::new(buffers)) }
}

/// Returns the path of the file.
pub fn file() -> FilePath {
    FilePath::new(0, &b"file"[..])
}

/// Waits for a number of outcomes and returns them by ticket.
pub fn outcomes(port: &mut FilePort, count: usize) -> Vec<Outcome<Slab>> {
    let mut events = Vec::new();
    while events.len() < count {
        port.wait(Duration::from_millis(100), &mut events);
    }
    let mut done: Vec<(u64, Outcome<Slab>)> = events
        .into_iter()
        .map(|event| match event {
            Event::Done(ticket, outcome) => (ticket, outcome),
            other => panic!("{other:?}"),
        })
        .collect();
    done.sort_by_key(|(ticket, _)| *ticket);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Returns the identity of the file.
pub fn identity(port: &mut FilePort) -> Identity {
    port.submit(0, Operation::Stat { at: vec![file()], details: Details::default(), links: Vec::new() });
    match outcomes(port, 1).remove(0) {
        Outcome::Stat(mut found) => found.remove(0).expect("looked at").expect("a file").metadata.identity(),
        other => panic!("{other:?}"),
    }
}
