//! Creation of directories, links, pipes and devices.

use super::attributes::{set_mode, Target};
use super::backup::back_up;
use super::fault::fault;
use super::file_stat::file_stat;
use super::hard_link::link;
use super::path::reject_short_name;
use super::path::{ResolvedName, Resolver};
use super::permissions::{grant_owner_access, SET_GROUP_ID};
use super::roots::Roots;
use super::temporary_file::create_or_replace;
use numaio_mover::port::{Attributes, Fault, FileKind, NewObject, Object};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

impl Roots {
    pub(super) fn make(&self, resolver: &mut Resolver<'_>, making: &NewObject) -> Result<(), Fault> {
        if let Object::HardLink(to) = &making.object {
            return link(resolver, &making.at, to);
        }
        if let Object::Backup(of) = &making.object {
            return back_up(resolver, &making.at, of);
        }
        if let Object::LinkOrClone(from) = &making.object {
            let linked = link(resolver, &making.at, from);
            return linked.or_else(|_| self.clone_file(resolver, making, from, None));
        }
        if let Object::Clone(from, identity) = &making.object {
            return self.clone_file(resolver, making, from, Some(identity));
        }
        let mode_mask = self.mode_mask(resolver, &making.at, &making.attributes);
        let place = resolver.resolve(&making.at)?;
        reject_short_name(place)?;
        if making.object == Object::Directory {
            return self.make_directory(place, &making.attributes, mode_mask);
        }
        place.not_the_root()?;
        create_or_replace(place, |place| make(place, &making.object)).map_err(fault("create"))?;
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
        self.set(
            Target::Named(place),
            &file_stat(&stat.map_err(fault("stat"))?),
            &making.attributes,
            mode_mask,
        )
    }

    /// Creates a directory that its owner has access to. An existing root with a wanted mode was
    /// created for the transfer.
    fn make_directory(
        &self,
        place: ResolvedName<'_>,
        wanted: &Attributes,
        mode_mask: u32,
    ) -> Result<(), Fault> {
        let mode = wanted.mode.unwrap_or_default() & mode_mask | Mode::RWXU.as_raw_mode();
        let mut made = self.try_make_directory(place, wanted, mode);
        // Other transfers to the same destination create and replace the same objects.
        for _ in 1..MAX_TRIES {
            match made {
                Err(Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => {
                    made = self.try_make_directory(place, wanted, mode);
                }
                _ => break,
            }
        }
        made.map_err(fault("create directory"))
    }

    fn try_make_directory(
        &self,
        place: ResolvedName<'_>,
        wanted: &Attributes,
        mode: u32,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::statat(place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
        match stat.as_ref().map(file_stat) {
            Ok(metadata) if metadata.kind == FileKind::Directory => {
                if wanted.mode.is_some() && place.name == b"." {
                    // Without modes this fails silently; the final mode is set at the end.
                    let _ = set_mode(Target::Named(place), mode | metadata.mode & SET_GROUP_ID);
                    return Ok(());
                }
                // The owner needs full access until the final mode is set.
                if metadata.user == self.user && !self.super_user {
                    grant_named_access(place)?;
                }
                Ok(())
            }
            Ok(_) => {
                rustix::fs::unlinkat(place.directory, place.name, AtFlags::empty())?;
                make_directory(place, mode)
            }
            Err(_) => make_directory(place, mode),
        }
    }
}

/// Attempts to create an object whose name other transfers may use at the same time.
const MAX_TRIES: usize = 8;

/// Creates a directory. Restores owner permissions that the umask or a default ACL removed: they
/// are needed for writing.
fn make_directory(place: ResolvedName<'_>, mode: u32) -> Result<(), Errno> {
    rustix::fs::mkdirat(place.directory, place.name, Mode::from_raw_mode(mode))?;
    // File systems without modes ignore this.
    let _ = grant_named_access(place);
    Ok(())
}

fn grant_named_access(place: ResolvedName<'_>) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(place.directory, place.name, flags, Mode::empty())?;
    grant_owner_access(directory.as_fd()).map(drop)
}

fn make(place: ResolvedName<'_>, object: &Object) -> Result<(), Errno> {
    let ResolvedName { directory, name } = place;
    let owner = Mode::RUSR | Mode::WUSR;
    let node = |kind, major, minor| {
        rustix::fs::mknodat(directory, name, kind, owner, rustix::fs::makedev(major, minor))
    };
    match object {
        Object::Symlink(target) => rustix::fs::symlinkat(&**target, directory, name),
        Object::Fifo => node(FileType::Fifo, 0, 0),
        Object::CharacterDevice(major, minor) => node(FileType::CharacterDevice, *major, *minor),
        Object::BlockDevice(major, minor) => node(FileType::BlockDevice, *major, *minor),
        Object::Directory
        | Object::HardLink(_)
        | Object::LinkOrClone(_)
        | Object::Clone(..)
        | Object::Backup(_) => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_mover::port::{FilePath, Operation, Outcome, BLOCK};
    use rustix::fs::XattrFlags;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn new_directory_keeps_owner_permissions_despite_default_acl() {
        let folder = std::env::temp_dir().join(format!("numaio-closing-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        // include/uapi/linux/posix_acl_xattr.h: read and search for owner and group; no id.
        let acl = [(0x01, 5), (0x04, 5), (0x20, 0)].map(|(tag, bits)| [tag, 0, bits, 0, 255, 255, 255, 255]);
        let acl = [&[2, 0, 0, 0][..], &acl.concat()].concat();
        let set = rustix::fs::setxattr(&folder, "system.posix_acl_default", &acl, XattrFlags::empty());
        if set == Err(Errno::NOTSUP) {
            fs::remove_dir_all(&folder).expect("removed");
            return crate::test_support::print_skipped("skipped: ACLs: not supported by the file system");
        }
        set.expect("an ACL");
        let roots = Roots::open(&[&folder]).expect("a root");
        let directory = |name: &[u8]| NewObject {
            at: FilePath::new(0, name),
            object: Object::Directory,
            attributes: Attributes { mode: Some(0o700), ..Attributes::default() },
        };
        let make = Operation::Create(vec![directory(b"a"), directory(b"a/b")]);
        let Outcome::Results(done) = roots.run(make, || Some(vec![0; BLOCK])) else {
            panic!("results of each")
        };
        done.into_iter().for_each(|done| done.expect("made"));
        let modes =
            ["a", "a/b"].map(|name| fs::metadata(folder.join(name)).expect("a folder").mode() & 0o7777);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(modes, [0o700; 2]);
    }
}
