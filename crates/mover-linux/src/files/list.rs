//! Listing directories in parts.

use super::data_runs::RunBudget;
use super::directory_reader::DirectoryReader;
use super::fault::fault;
use super::name_matching::names_in;
use super::path::{ResolvedName, Resolver};
use super::roots::{OpenListing, Roots};
use numaio_mover::port::{Details, Fault, FaultKind, FilePath, Listing, NameMatching};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

impl Roots {
    pub(super) fn list(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        most: usize,
        details: Details,
    ) -> Result<Listing, Fault> {
        let opened = self.open_to_list(resolver, at)?;
        if !(self.lists_marked_roots && at.name.is_empty()) {
            self.check_not_marked(&opened)?;
        }
        let root = self.roots.get(at.root as usize).filter(|_| details.names);
        let names = root.map_or(NameMatching::Exact, |root| names_in(&opened, root));
        self.part(at.root, (DirectoryReader::new(opened), names), most, details)
    }

    /// Fails for a directory of the other side, which may be reached by another mount.
    fn check_not_marked(&self, directory: &OwnedFd) -> Result<(), Fault> {
        let Some((name, why)) = &self.marker else { return Ok(()) };
        match rustix::fs::statat(directory, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(listing_fault("list directory", errno, || false)),
            Ok(_) => Err(Fault::new(FaultKind::Other, *why)),
        }
    }

    pub(super) fn list_more(&self, listing: u64, most: usize, details: Details) -> Result<Listing, Fault> {
        let directory = self.listings.take(listing);
        let absent = || Fault::new(FaultKind::Other, "unknown listing");
        let (root, directory) = directory.ok_or_else(absent)?;
        self.part(root, directory, most, details)
    }

    fn open_to_list(&self, resolver: &mut Resolver<'_>, at: &FilePath) -> Result<OwnedFd, Fault> {
        // A followed link in the path may have lost its target. Without a root, in a dry run,
        // nothing exists.
        let proves_absence =
            || self.followed.is_none() && self.roots.get(at.root as usize).is_none_or(is_linked);
        let place = resolver
            .resolve_or_errno(at)
            .map_err(|errno| listing_fault("open directory", errno, proves_absence))?;
        let opened = match (place.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()), &self.followed) {
            (Err(Errno::NOTDIR | Errno::LOOP), Some(scope)) => scope.open_directory(place),
            (opened, _) => opened,
        };
        opened.map_err(|errno| listing_fault("list directory", errno, || is_absent(place)))
    }

    fn part(
        &self,
        root: u32,
        (mut directory, taken_for_one): OpenListing,
        most: usize,
        details: Details,
    ) -> Result<Listing, Fault> {
        let read = directory.read(most);
        let mut names = read.map_err(|errno| listing_fault("list directory", errno, || false))?;
        // On most file systems, consecutive inodes are adjacent on disk.
        if self.sorts_listings {
            names.sort_unstable();
        }
        let parent = directory.as_fd();
        let (mut found, mut budget) = (Vec::with_capacity(names.len()), RunBudget::default());
        for (_, name) in names {
            let place = ResolvedName { directory: parent, name: &name };
            match self.found(place, details, &mut budget) {
                Err(errno) => match self.broken_link(place, errno) {
                    Some(fault) => found.push((name, Err(fault))),
                    // It was removed meanwhile.
                    None if errno == Errno::NOENT && is_absent(place) => {}
                    None => found.push((name, Err(listing_fault("stat", errno, || false)))),
                },
                Ok(one) => found.push((name, Ok(one))),
            }
        }
        let more = (!directory.is_finished()).then(|| self.listings.keep(root, (directory, taken_for_one)));
        Ok(Listing { found, more, names: taken_for_one })
    }
}

/// Returns the fault of a directory that cannot be listed, or of an entry of one.
fn listing_fault(action: &str, errno: Errno, proves_absence: impl FnOnce() -> bool) -> Fault {
    let fault = fault(action)(errno);
    match fault.why {
        FaultKind::NotFound if !proves_absence() => Fault { why: FaultKind::Other, ..fault },
        _ => fault,
    }
}

/// Returns whether a directory that still exists has no such name.
fn is_absent(place: ResolvedName<'_>) -> bool {
    let found = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
    found.err() == Some(Errno::NOENT) && is_linked(place.directory)
}

/// Returns whether an open directory has a name. The kernel finds nothing in a removed one, which
/// another one may have replaced.
fn is_linked(directory: impl AsFd) -> bool {
    rustix::fs::fstat(directory).is_ok_and(|stat| stat.st_nlink > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fuse::{Volume, DIRECTORY, DIRECTORY_NODE, GETATTR, LOOKUP, NAMES, OPENDIR, READDIR};
    use std::fs;
    use std::sync::{Arc, Mutex};

    fn list(roots: &Roots, name: &str) -> Result<Listing, Fault> {
        let at = FilePath::new(0, name.as_bytes());
        roots.list(&mut Resolver::new(&roots.roots, false), &at, 100, Details::default())
    }

    fn names(listing: &Listing) -> Vec<String> {
        let names = listing.found.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    /// Fails each request of a listing by each errno.
    #[test]
    fn only_a_missing_name_is_absent() {
        let failing = Arc::new(Mutex::new((0, 0, 0)));
        let script = failing.clone();
        let errors = move |request, argument| {
            let (of, from, errno) = *script.lock().expect("a script");
            if request == of && argument >= from {
                errno
            } else {
                0
            }
        };
        let Some(volume) = Volume::mount("listing", errors) else { return };
        let roots = Roots::open(&[volume.path()]).expect("a root");
        let complete = list(&roots, DIRECTORY).expect("a listing");
        assert_eq!(names(&complete), NAMES);
        let entries = (LOOKUP, DIRECTORY_NODE);
        for (request, from) in [(LOOKUP, 0), entries, (GETATTR, 0), (OPENDIR, 0), (READDIR, 0), (READDIR, 1)]
        {
            let mut failures = 0;
            // An interrupted read is repeated. The kernel opens directories without a request if
            // that is not implemented.
            let is_failure = |errno: &i32| match request {
                READDIR => *errno != libc::EINTR,
                OPENDIR => *errno != libc::ENOSYS,
                _ => true,
            };
            for errno in (1..=133).filter(is_failure) {
                *failing.lock().expect("a script") = (request, from, errno);
                let is_lookup = errno == libc::ENOENT && [LOOKUP, GETATTR].contains(&request);
                let case = format!("request {request} from {from}, errno {errno}");
                match list(&roots, DIRECTORY) {
                    Ok(listing) => {
                        assert!(is_lookup || names(&listing) == NAMES, "{case}: {listing:?}");
                        let faults = listing.found.iter().filter_map(|(_, found)| found.as_ref().err());
                        assert!(faults.clone().all(|fault| fault.why != FaultKind::NotFound), "{case}");
                        failures += usize::from(faults.count() > 0);
                    }
                    Err(fault) => {
                        assert!(is_lookup || fault.why != FaultKind::NotFound, "{case}: {fault}");
                        failures += 1;
                    }
                }
            }
            assert!(failures > 120, "request {request} from {from}: {failures} failures");
            *failing.lock().expect("a script") = (0, 0, 0);
        }
        assert_eq!(list(&roots, DIRECTORY).map(|listing| names(&listing)), Ok(names(&complete)));
        assert_eq!(list(&roots, "absent").map_err(|fault| fault.why), Err(FaultKind::NotFound));
    }

    #[test]
    fn nothing_is_absent_from_a_removed_directory() {
        let folder = std::env::temp_dir().join(format!("numaio-removed-{}", std::process::id()));
        fs::create_dir_all(folder.join("d")).expect("folders");
        fs::write(folder.join("d/file"), "").expect("a file");
        let open = |name: &str| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            DirectoryReader::new(rustix::fs::open(folder.join(name), flags, Mode::empty()).expect("a folder"))
        };
        let roots = Roots::open(&[&folder]).expect("a root");
        let (mut started, mut unread) = (open("d"), open("d"));
        assert_eq!(started.read(1).map(|names| names.len()), Ok(1));
        fs::remove_dir_all(folder.join("d")).expect("removed");
        assert_eq!(unread.read(1), Err(Errno::NOENT));
        let started = ResolvedName { directory: started.as_fd(), name: b"file" };
        assert!(
            !is_absent(started) && is_absent(ResolvedName { directory: roots.roots[0].as_fd(), name: b"d" })
        );
        assert_eq!(list(&roots, "d").map_err(|fault| fault.why), Err(FaultKind::NotFound));
        fs::remove_dir(&folder).expect("removed");
        for name in ["d", "d/e", ""] {
            assert_eq!(list(&roots, name).map_err(|fault| fault.why), Err(FaultKind::Other), "{name}");
        }
    }
}
