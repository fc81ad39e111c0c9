//! Backups of objects that are replaced.

use super::data::rename;
use super::fault::fault;
use super::hard_link::link;
use super::path::Resolver;
use numaio_mover::port::{Fault, FilePath};
use rustix::fs::Mode;
use rustix::io::Errno;

/// Keeps an object under another name: by a hard link, so that its own name stays in use until it
/// is replaced, or by renaming it where hard links are refused. Creates missing directories.
pub fn back_up(resolver: &mut Resolver<'_>, at: &FilePath, of: &FilePath) -> Result<(), Fault> {
    make_parents(resolver, at)?;
    link(resolver, at, of).or_else(|_| rename(resolver, of, at))
}

fn make_parents(resolver: &mut Resolver<'_>, at: &FilePath) -> Result<(), Fault> {
    let slashes = at.name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    for (end, _) in slashes {
        let parent = FilePath::new(at.root, &at.name[..end]);
        let place = resolver.resolve(&parent)?;
        match rustix::fs::mkdirat(place.directory, place.name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(fault("create directory")(errno)),
        }
    }
    Ok(())
}
