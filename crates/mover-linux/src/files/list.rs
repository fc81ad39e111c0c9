//! Listing directories in parts.

use super::data_runs::RunBudget;
use super::fault::fault;
use super::name_matching::names_in;
use super::path::{ResolvedName, Resolver};
use super::roots::{OpenListing, Roots};
use numaio_mover::port::{Details, Fault, FaultKind, FilePath, Listing, NameMatching};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

impl Roots {
    pub(super) fn list(
        &self,
        resolver: &mut Resolver<'_>,
        at: &FilePath,
        most: usize,
        details: Details,
    ) -> Result<Listing, Fault> {
        let place = resolver.resolve(at)?;
        let opened = match (place.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()), &self.followed) {
            (Err(Errno::NOTDIR | Errno::LOOP), Some(scope)) => scope.open_directory(place),
            (opened, _) => opened,
        };
        let opened = opened.map_err(fault("list directory"))?;
        let root = self.roots.get(at.root as usize).filter(|_| details.names);
        let names = root.map_or(NameMatching::Exact, |root| names_in(&opened, root));
        let directory = Dir::new(opened).map_err(fault("list directory"))?;
        self.part(at.root, (directory, names), most, details)
    }

    pub(super) fn list_more(&self, listing: u64, most: usize, details: Details) -> Result<Listing, Fault> {
        let directory = self.listings.take(listing);
        let absent = || Fault::new(FaultKind::Other, "unknown listing");
        let (root, directory) = directory.ok_or_else(absent)?;
        self.part(root, directory, most, details)
    }

    fn part(
        &self,
        root: u32,
        (mut directory, taken_for_one): OpenListing,
        most: usize,
        details: Details,
    ) -> Result<Listing, Fault> {
        let mut names: Vec<(u64, Box<[u8]>)> = Vec::new();
        let mut more = true;
        while names.len() < most {
            let Some(entry) = directory.read() else {
                more = false;
                break;
            };
            let entry = entry.map_err(fault("list directory"))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push((entry.ino(), name.into()));
            }
        }
        // On most file systems, consecutive inodes are adjacent on disk.
        if self.sorts_listings {
            names.sort_unstable();
        }
        let parent = directory.fd().map_err(fault("list directory"))?;
        let (mut found, mut budget) = (Vec::with_capacity(names.len()), RunBudget::default());
        for (_, name) in names {
            let place = ResolvedName { directory: parent, name: &name };
            match self.found(place, details, &mut budget) {
                Err(errno) => match self.broken_link(place, errno) {
                    Some(fault) => found.push((name, Err(fault))),
                    // It was removed meanwhile.
                    None if errno == Errno::NOENT => {}
                    None => found.push((name, Err(fault("stat")(errno)))),
                },
                Ok(one) => found.push((name, Ok(one))),
            }
        }
        let more = more.then(|| self.listings.keep(root, (directory, taken_for_one)));
        Ok(Listing { found, more, names: taken_for_one })
    }
}
