//! Conversion of found objects to the inodes of entries.

use super::options::SourceOptions;
use crate::accounts::{Account, Accounts};
use crate::acl;
use crate::chunk::in_blocks;
use crate::entry::{
    Content, DeviceNumber, EntryError, Inode, Kind, Mode, Owner, Target, Time, Xattrs, CTIME_MIN_SIZE,
};
use crate::extent::{Extent, ExtentSet};
use crate::port::{FileInfo, FileKind, FileStat};

/// Converts a found object to an inode, or returns why it is not supported.
pub(super) fn inode(
    found: &FileInfo,
    options: &SourceOptions,
    accounts: &mut Accounts,
) -> Result<Inode, String> {
    let text = |error: EntryError| error.to_string();
    let metadata = &found.metadata;
    let device = |major, minor| match options.devices {
        true => DeviceNumber::new(major, minor).map_err(text),
        false => Err("device files are not copied".to_owned()),
    };
    let kind = match metadata.kind {
        FileKind::File => Kind::File(content(found).map_err(text)?),
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => {
            Kind::Symlink(Target::new(found.target.clone().unwrap_or_default()).map_err(text)?)
        }
        FileKind::Fifo => Kind::Fifo,
        FileKind::Socket => return Err("sockets are not copied".to_owned()),
        FileKind::CharacterDevice(major, minor) => Kind::CharacterDevice(device(major, minor)?),
        FileKind::BlockDevice(major, minor) => Kind::BlockDevice(device(major, minor)?),
    };
    Ok(Inode {
        kind,
        mode: Mode::new(mode(metadata, options)).map_err(text)?,
        mtime: Time::new(metadata.mtime.seconds, metadata.mtime.nanoseconds).map_err(text)?,
        user: Owner::new(metadata.user, accounts.name(Account::User, metadata.user)).map_err(text)?,
        group: Owner::new(metadata.group, accounts.name(Account::Group, metadata.group)).map_err(text)?,
        xattrs: xattrs(found, options, accounts).map_err(text)?,
    })
}

/// Returns the mode of an object after the requested changes. That of a symbolic link has no
/// meaning.
fn mode(metadata: &FileStat, options: &SourceOptions) -> u32 {
    match metadata.kind {
        FileKind::Symlink => metadata.mode,
        kind => options.mode_changes.apply(metadata.mode, kind == FileKind::Directory),
    }
}

fn xattrs(found: &FileInfo, options: &SourceOptions, accounts: &mut Accounts) -> Result<Xattrs, EntryError> {
    let mut xattrs = Xattrs::default();
    let changes = !options.mode_changes.is_empty();
    let bits = mode(&found.metadata, options);
    for (name, value) in found.xattrs.iter().filter(|(name, _)| !acl::is_wire_only(name)) {
        let changed = changes.then(|| acl::with_mode(name, value, bits)).flatten();
        let value = changed.as_deref().unwrap_or(value);
        match options.acls.then(|| acl::encode_names(name, value, accounts)).flatten() {
            Some((name, value)) => xattrs.insert(name, &value)?,
            None => xattrs.insert(name, value)?,
        }
    }
    Ok(xattrs)
}

fn content(found: &FileInfo) -> Result<Content, EntryError> {
    let metadata = &found.metadata;
    let content = match &found.data {
        None => Content::dense(metadata.size),
        Some(data) => {
            let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end));
            Content::from_extents(metadata.size, extents)
        }
    }?;
    let is_large = metadata.size >= CTIME_MIN_SIZE;
    let changed =
        is_large.then(|| Time::new(metadata.ctime.seconds, metadata.ctime.nanoseconds)).transpose()?;
    Ok(content.with_ctime(changed))
}

/// Returns the blocks of a file that have data, if its entry omits holes.
pub(super) fn blocks_with_data(content: &Content, found: &FileInfo, block: u64) -> Option<ExtentSet> {
    let data = found.data.as_ref().filter(|_| content.may_omit_holes())?;
    let extents = data.iter().filter_map(|&(start, end)| Extent::between(start, end.min(content.size())));
    let mut blocks = ExtentSet::default();
    in_blocks(extents, content.size(), block).for_each(|block| blocks.insert(block));
    Some(blocks)
}
