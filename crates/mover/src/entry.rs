//! File system objects as transferred: kind and attributes, within the limits of the kernel.

use crate::extent::MAX_SIZE;
use crate::name::Name;
use std::collections::BTreeMap;

mod content;
mod error;
mod time;

pub use content::{Content, CTIME_MIN_SIZE};
pub use error::{
    EntryError, MAX_ACCOUNT, MAX_EXTENTS, MAX_TARGET, MAX_XATTRS, MAX_XATTR_LIST, MAX_XATTR_NAME,
    MAX_XATTR_VALUE,
};
pub use time::Time;

/// The number of an entry in a transfer, in scan order from 0, below 2^63 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(u64);

impl FileNumber {
    /// The number of the first entry.
    pub const FIRST: Self = Self(0);

    /// Creates a file number.
    ///
    /// # Errors
    /// [`EntryError::TooLarge`] for 2^63 - 1 and above.
    pub fn new(number: u64) -> Result<Self, EntryError> {
        if number < MAX_SIZE {
            Ok(Self(number))
        } else {
            Err(EntryError::TooLarge)
        }
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A name in a file system and the object that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path relative to the root of the transfer.
    pub name: Name,
    /// The object.
    pub object: Object,
}

/// The object that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// An object without an earlier name in this transfer.
    New(Inode),
    /// A hard link to the object of an earlier entry with this name, which carries the attributes.
    HardLink(Name),
}

/// A file system object with its attributes, as described in inode(7) and xattr(7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// The kind of object.
    pub kind: Kind,
    /// The permission bits.
    pub mode: Mode,
    /// The time of the last content modification.
    pub mtime: Time,
    /// The owning user.
    pub user: Owner,
    /// The owning group.
    pub group: Owner,
    /// The extended attributes, including POSIX ACLs.
    pub xattrs: Xattrs,
}

/// The kind of an object. Sockets are not copied: they are useless without their server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File(Content),
    /// A directory.
    Directory,
    /// A symbolic link. Its target may be any path and is never followed by the mover.
    Symlink(Target),
    /// A named pipe.
    Fifo,
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
}

/// Permission bits: the lowest twelve bits of `st_mode` (read, write, execute, set-ID and sticky).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(u16);

impl Mode {
    /// Creates a mode.
    ///
    /// # Errors
    /// [`EntryError::Mode`] if other bits are set.
    pub fn new(bits: u32) -> Result<Self, EntryError> {
        match u16::try_from(bits) {
            Ok(bits) if bits <= 0o7777 => Ok(Self(bits)),
            _ => Err(EntryError::Mode(bits)),
        }
    }

    /// Returns the bits.
    pub fn bits(self) -> u32 {
        self.0.into()
    }
}

/// A user or group: its ID and, if known, its name as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    id: u32,
    name: Option<Box<[u8]>>,
}

impl Owner {
    /// Creates an owner.
    ///
    /// # Errors
    /// [`EntryError::ReservedId`] for the ID that chown(2) takes as "leave unchanged";
    /// [`EntryError::Account`].
    pub fn new(id: u32, name: Option<&[u8]>) -> Result<Self, EntryError> {
        if id == u32::MAX {
            return Err(EntryError::ReservedId);
        }
        if name.is_some_and(|name| !is_plain(name, MAX_ACCOUNT)) {
            return Err(EntryError::Account);
        }
        Ok(Self { id, name: name.map(Into::into) })
    }

    /// Returns the ID at the source.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name at the source.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }
}

/// The target of a symbolic link: at least one byte, and no NUL byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(Box<[u8]>);

impl Target {
    /// Creates a target.
    ///
    /// # Errors
    /// [`EntryError::Target`] if the kernel would reject the bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, EntryError> {
        let bytes = bytes.into();
        if is_plain(&bytes, MAX_TARGET) {
            Ok(Self(bytes))
        } else {
            Err(EntryError::Target)
        }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A device number: 12 bits major and 20 bits minor (`include/linux/kdev_t.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber {
    major: u32,
    minor: u32,
}

impl DeviceNumber {
    /// Creates a device number.
    ///
    /// # Errors
    /// [`EntryError::Device`] if either part has too many bits.
    pub fn new(major: u32, minor: u32) -> Result<Self, EntryError> {
        if major >> 12 == 0 && minor >> 20 == 0 {
            Ok(Self { major, minor })
        } else {
            Err(EntryError::Device(major, minor))
        }
    }

    /// Returns the major number, which identifies the driver.
    pub fn major(self) -> u32 {
        self.major
    }

    /// Returns the minor number, which identifies the device of the driver.
    pub fn minor(self) -> u32 {
        self.minor
    }
}

/// The extended attributes of an object, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Xattrs {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Bytes of all names with a NUL each, as listxattr(2) returns them.
    list: usize,
    /// Bytes of all names and values.
    total: usize,
}

impl Xattrs {
    /// Adds an attribute or replaces its value.
    ///
    /// # Errors
    /// [`EntryError::XattrName`], [`EntryError::XattrValue`], or [`EntryError::Xattrs`] if the
    /// total would be too large; then nothing changes.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<(), EntryError> {
        if !is_plain(name, MAX_XATTR_NAME) {
            return Err(EntryError::XattrName);
        }
        if value.len() > MAX_XATTR_VALUE {
            return Err(EntryError::XattrValue(value.len()));
        }
        let (list, total) = match self.values.get(name) {
            Some(old) => (self.list, self.total - old.len() + value.len()),
            None => (self.list + name.len() + 1, self.total + name.len() + value.len()),
        };
        if list > MAX_XATTR_LIST || total > MAX_XATTRS {
            return Err(EntryError::Xattrs);
        }
        self.values.insert(name.into(), value.into());
        (self.list, self.total) = (list, total);
        Ok(())
    }

    /// Removes an attribute and returns its value.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Box<[u8]>> {
        let value = self.values.remove(name)?;
        self.list -= name.len() + 1;
        self.total -= name.len() + value.len();
        Some(value)
    }

    /// Iterates over names and values in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Returns whether `bytes` is a valid kernel string: not empty, not too long, without NUL bytes.
pub(crate) fn is_plain(bytes: &[u8], most: usize) -> bool {
    !bytes.is_empty() && bytes.len() <= most && !bytes.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_values_outside_kernel_limits() {
        assert_eq!(Mode::new(0o10000), Err(EntryError::Mode(0o10000)));
        assert_eq!(Mode::new(0o7777).map(Mode::bits), Ok(0o7777));
        assert_eq!(Mode::new(0o20777), Err(EntryError::Mode(0o20777)));
        assert_eq!(Time::new(0, 1_000_000_000), Err(EntryError::Nanoseconds(1_000_000_000)));
        assert!(Time::new(i64::MIN, 999_999_999).is_ok());
        assert_eq!(Owner::new(u32::MAX, None), Err(EntryError::ReservedId));
        assert_eq!(Owner::new(0, Some(b"")), Err(EntryError::Account));
        assert_eq!(Owner::new(0, Some(b"ro\0ot")), Err(EntryError::Account));
        assert_eq!(Owner::new(0, Some(&[b'x'; 256])), Err(EntryError::Account));
        assert!(Owner::new(0, Some(&[b'x'; 255])).is_ok());
        assert_eq!(Target::new(*b""), Err(EntryError::Target));
        assert_eq!(Target::new(*b"a\0"), Err(EntryError::Target));
        assert_eq!(Target::new([b'x'; 4_096]), Err(EntryError::Target));
        assert!(Target::new([b'x'; 4_095]).is_ok());
        assert_eq!(DeviceNumber::new(4_096, 0), Err(EntryError::Device(4_096, 0)));
        assert_eq!(DeviceNumber::new(0, 1 << 20), Err(EntryError::Device(0, 1 << 20)));
        assert!(DeviceNumber::new(4_095, (1 << 20) - 1).is_ok());
        assert_eq!(FileNumber::new(1 << 63), Err(EntryError::TooLarge));
    }

    #[test]
    fn xattrs_are_limited_and_sorted() {
        let mut xattrs = Xattrs::default();
        assert_eq!(xattrs.insert(b"", b"x"), Err(EntryError::XattrName));
        assert_eq!(xattrs.insert(&[b'x'; 256], b"x"), Err(EntryError::XattrName));
        assert_eq!(xattrs.insert(b"user.x", &[0; 65_537]), Err(EntryError::XattrValue(65_537)));
        assert_eq!(xattrs.insert(b"user.b", b"2"), Ok(()));
        assert_eq!(xattrs.insert(b"user.a", b""), Ok(()));
        assert_eq!(xattrs.insert(b"user.b", b"3"), Ok(()));
        let all: Vec<_> = xattrs.iter().collect();
        assert_eq!(all, [(&b"user.a"[..], &b""[..]), (b"user.b", b"3")]);
        let names: usize = (0..10_000)
            .map(|n| format!("user.{n:04}"))
            .take_while(|name| xattrs.insert(name.as_bytes(), b"").is_ok())
            .map(|name| name.len() + 1)
            .sum();
        assert!((65_500..=65_536).contains(&(names + 14)), "{names}");
    }

    #[test]
    fn replaced_value_counts_once() {
        let mut xattrs = Xattrs::default();
        for _ in 0..10 {
            assert_eq!(xattrs.insert(b"user.x", &[1; 65_536]), Ok(()));
        }
        for name in [b"user.y", b"user.z", b"user.v"] {
            let free = MAX_XATTRS - xattrs.total;
            assert_eq!(xattrs.insert(name, &vec![1; (free - 6).min(65_536)]), Ok(()));
        }
        assert_eq!(xattrs.total, MAX_XATTRS);
        assert_eq!(xattrs.insert(b"user.w", b""), Err(EntryError::Xattrs));
        assert_eq!(xattrs.insert(b"user.x", b""), Ok(()));
        assert_eq!(xattrs.insert(b"user.w", b""), Ok(()));
    }
}
