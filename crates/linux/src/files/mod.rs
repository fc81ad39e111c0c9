//! Files below opened directories: what a port does to them, one operation at a time.
//!
//! Every name is resolved below its root without following a symbolic link (openat2(2): `RESOLVE_BENEATH`,
//! `RESOLVE_NO_SYMLINKS`; component by component where the kernel has no such call). What is done to the last
//! component never follows one either.

mod attributes;
mod beneath;
mod direct;
mod fault;
mod journal;
mod list;
mod look;
mod make;
mod place;
mod read;
mod remove;
mod sum;
mod write;

use beneath::Beneath;
use list::Listings;
use numaio_machine::port::{Operation, Outcome};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, CWD};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Directories below which files are read and written.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<OwnedFd>,
    listings: Listings,
    journal: Mutex<Option<OwnedFd>>,
    super_user: bool,
    user: u32,
}

impl Roots {
    /// Opens directories; symbolic links on the way to them are followed.
    ///
    /// # Errors
    /// The kernel's, and which path.
    pub fn open(paths: &[&Path]) -> Result<Self, (std::path::PathBuf, io::Error)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &&Path| {
            let opened = rustix::fs::openat(CWD, path.as_os_str().as_bytes(), flags, Mode::empty());
            opened.map_err(|error| (path.to_path_buf(), error.into()))
        };
        let user = rustix::process::geteuid();
        Ok(Self {
            roots: paths.iter().map(open).collect::<Result<_, _>>()?,
            listings: Listings::default(),
            journal: Mutex::new(None),
            super_user: user.is_root(),
            user: user.as_raw(),
        })
    }

    /// Whether this process may do all that root may.
    pub fn is_super_user(&self) -> bool {
        self.super_user
    }

    /// Carries an operation out. `buffer` gives a buffer for what is read.
    pub(crate) fn run<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        operation: Operation<B>,
        buffer: impl FnOnce() -> B,
    ) -> Outcome<B> {
        let only_looks = matches!(operation, Operation::Look { .. });
        let mut beneath = Beneath::new(&self.roots, only_looks);
        match operation {
            Operation::List { directory, most, details } => {
                Outcome::Listed(self.list(&mut beneath, &directory, most, details))
            }
            Operation::More { listing, most, details } => {
                Outcome::Listed(self.list_more(listing, most, details))
            }
            Operation::Look { at, details } => {
                Outcome::Looked(at.iter().map(|at| self.look(&mut beneath, at, details)).collect())
            }
            Operation::Read { pieces, hash } => {
                let mut data = buffer();
                let results = read::read(&mut beneath, &pieces, hash, data.as_mut());
                Outcome::Read { results, data }
            }
            Operation::Sum(summing) => Outcome::Summed(sum::sum(&mut beneath, summing)),
            Operation::Write { puts, data, hash } => {
                let bytes = data.as_ref().map_or(&[][..], AsRef::as_ref);
                Outcome::Each(puts.iter().map(|put| self.write(&mut beneath, put, bytes, hash)).collect())
            }
            Operation::Make(makings) => {
                Outcome::Each(makings.iter().map(|making| self.make(&mut beneath, making)).collect())
            }
            Operation::Adorn(all) => {
                let adorn = |(at, attributes)| self.adorn(&mut beneath, at, attributes);
                Outcome::Each(all.iter().map(|(at, attributes)| (at, attributes)).map(adorn).collect())
            }
            Operation::Remove(all) => {
                Outcome::Each(all.iter().map(|at| remove::remove(&mut beneath, at)).collect())
            }
            Operation::Open { journal, most } => {
                Outcome::Opened(self.open_journal(&mut beneath, &journal, most))
            }
            Operation::Record(record) => Outcome::Each(vec![self.record(&mut beneath, &record)]),
            Operation::Sync { root } => Outcome::Each(vec![self.sync(root)]),
        }
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Option<OwnedFd>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bits of a mode that new files of this process do not have (umask(2)). To be asked for before threads make files.
pub fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

#[cfg(test)]
mod tests;
