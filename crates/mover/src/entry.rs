//! What is known of one object of a file system: its kind and its attributes, within the kernel's limits.

use crate::extent::MAX_SIZE;
use crate::name::Name;
use std::collections::BTreeMap;

mod content;
pub use content::{Content, CTIME_MIN_SIZE, MAX_EXTENTS};

/// Most bytes of a symbolic link's target: `PATH_MAX` less the NUL (`include/uapi/linux/limits.h`).
pub const MAX_TARGET: usize = 4_095;
/// Most bytes of an account's name: `LOGIN_NAME_MAX` of POSIX limits is 256 and counts the NUL.
pub const MAX_ACCOUNT: usize = 255;
/// Most bytes of an extended attribute's name: `XATTR_NAME_MAX` (`include/uapi/linux/limits.h`).
pub const MAX_XATTR_NAME: usize = 255;
/// Most bytes of an extended attribute's value: `XATTR_SIZE_MAX`.
pub const MAX_XATTR_VALUE: usize = 65_536;
/// Most bytes of the names of all extended attributes of an object, each with a NUL: `XATTR_LIST_MAX`.
pub const MAX_XATTR_LIST: usize = 65_536;
/// Most bytes of names and values of all extended attributes of an object. The kernel has no such limit;
/// file systems have smaller ones, except for a few with large values in inodes of their own.
pub const MAX_XATTRS: usize = 262_144;

/// What of an entry is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The number of a file is not below 2^63 - 1, or a size is beyond it.
    #[error("the number of a file or a size is too large for the kernel")]
    TooLarge,
    /// A mode has bits beyond the twelve of permissions.
    #[error("the mode {0:o} has bits that are no permissions")]
    Mode(u32),
    /// A time has 10^9 nanoseconds or more.
    #[error("a time has {0} nanoseconds, fewer than 1000000000 are possible")]
    Nanoseconds(u32),
    /// The id that tells the kernel not to change an owner, which no object has.
    #[error("4294967295 is the id of no account")]
    ReservedId,
    /// The name of an account is empty, too long, or has a zero byte.
    #[error("the name of an account is empty, longer than {MAX_ACCOUNT} bytes, or has a zero byte")]
    Account,
    /// The target of a symbolic link is empty, too long, or has a zero byte.
    #[error("the target of a symbolic link is empty, longer than {MAX_TARGET} bytes, or has a zero byte")]
    Target,
    /// A device number is beyond what the kernel has.
    #[error("no device has the number {0}:{1}")]
    Device(u32, u32),
    /// The name of an extended attribute is empty, too long, or has a zero byte.
    #[error(
        "the name of an extended attribute is empty, longer than {MAX_XATTR_NAME} bytes, or has a zero byte"
    )]
    XattrName,
    /// An extended attribute has a value that is too long.
    #[error("the value of an extended attribute has {0} bytes, {MAX_XATTR_VALUE} at most")]
    XattrValue(usize),
    /// All extended attributes of an object together are too long.
    #[error("the extended attributes of a file are too long: {MAX_XATTR_LIST} bytes of names and {MAX_XATTRS} in all at most")]
    Xattrs,
    /// Extents are not in ascending order, or meet, or reach beyond the end of the file.
    #[error("the extents of a file overlap, are out of order, or reach beyond its end")]
    Extents,
    /// There are more than [`MAX_EXTENTS`] extents.
    #[error("a file has {0} extents, {MAX_EXTENTS} at most can be said")]
    TooManyExtents(usize),
}

/// The number of an object in a transfer: entries are numbered from 0 in the order of the scan. Below 2^63 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(u64);

impl FileNumber {
    /// The number of the first entry.
    pub const FIRST: Self = Self(0);

    /// # Errors
    /// [`EntryError::TooLarge`] from 2^63 - 1 on.
    pub fn new(number: u64) -> Result<Self, EntryError> {
        if number < MAX_SIZE {
            Ok(Self(number))
        } else {
            Err(EntryError::TooLarge)
        }
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// One name of a file system, and the object that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, relative to the root of the transfer.
    pub name: Name,
    /// What it is.
    pub object: Object,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// An object that was not named before.
    New(Inode),
    /// One more name of the object that an earlier entry has under this name; the attributes are told there.
    HardLink(Name),
}

/// An object of a file system with its attributes, as `inode(7)` and `xattr(7)` describe them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Its permissions.
    pub mode: Mode,
    /// When its content was last changed.
    pub mtime: Time,
    /// The user it belongs to.
    pub user: Owner,
    /// The group it belongs to.
    pub group: Owner,
    /// Its extended attributes, POSIX ACLs among them.
    pub xattrs: Xattrs,
}

/// What an object is. Sockets are not moved: nothing is behind one without its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File(Content),
    /// A directory.
    Directory,
    /// A symbolic link; its target may point anywhere, and is never followed by the mover.
    Symlink(Target),
    /// A named pipe.
    Fifo,
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
}

/// Permissions: the lowest twelve bits of `st_mode`, so read, write, execute, set-id and sticky.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(u16);

impl Mode {
    /// # Errors
    /// [`EntryError::Mode`] if other bits are set.
    pub fn new(bits: u32) -> Result<Self, EntryError> {
        match u16::try_from(bits) {
            Ok(bits) if bits <= 0o7777 => Ok(Self(bits)),
            _ => Err(EntryError::Mode(bits)),
        }
    }

    /// The bits.
    pub fn bits(self) -> u32 {
        self.0.into()
    }
}

/// A time since 1970 in UTC. Earlier times have negative seconds; nanoseconds always count forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    seconds: i64,
    nanoseconds: u32,
}

impl Time {
    /// # Errors
    /// [`EntryError::Nanoseconds`] if these make a second or more.
    pub fn new(seconds: i64, nanoseconds: u32) -> Result<Self, EntryError> {
        if nanoseconds < 1_000_000_000 {
            Ok(Self { seconds, nanoseconds })
        } else {
            Err(EntryError::Nanoseconds(nanoseconds))
        }
    }

    /// Whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds beyond the whole seconds.
    pub fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }
}

/// A user or a group, by id and if it is known by name. Names are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    id: u32,
    name: Option<Box<[u8]>>,
}

impl Owner {
    /// # Errors
    /// [`EntryError::ReservedId`] for the id that `chown(2)` takes for "leave as it is"; [`EntryError::Account`].
    pub fn new(id: u32, name: Option<&[u8]>) -> Result<Self, EntryError> {
        if id == u32::MAX {
            return Err(EntryError::ReservedId);
        }
        if name.is_some_and(|name| !is_plain(name, MAX_ACCOUNT)) {
            return Err(EntryError::Account);
        }
        Ok(Self { id, name: name.map(Into::into) })
    }

    /// The id on the source.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The name on the source.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }
}

/// The target of a symbolic link: any bytes but zero, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(Box<[u8]>);

impl Target {
    /// # Errors
    /// [`EntryError::Target`] if the kernel would not take the bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, EntryError> {
        let bytes = bytes.into();
        if is_plain(&bytes, MAX_TARGET) {
            Ok(Self(bytes))
        } else {
            Err(EntryError::Target)
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The number of a device: 12 bits major and 20 bits minor (`include/linux/kdev_t.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber {
    major: u32,
    minor: u32,
}

impl DeviceNumber {
    /// # Errors
    /// [`EntryError::Device`] if either has too many bits.
    pub fn new(major: u32, minor: u32) -> Result<Self, EntryError> {
        if major >> 12 == 0 && minor >> 20 == 0 {
            Ok(Self { major, minor })
        } else {
            Err(EntryError::Device(major, minor))
        }
    }

    /// Names the driver.
    pub fn major(self) -> u32 {
        self.major
    }

    /// Names the device of the driver.
    pub fn minor(self) -> u32 {
        self.minor
    }
}

/// Extended attributes of one object by name, in ascending order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Xattrs {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Bytes of all names, each with a NUL, as `listxattr(2)` would give them.
    list: usize,
    /// Bytes of all names and values.
    total: usize,
}

impl Xattrs {
    /// Adds an attribute, or gives it another value.
    ///
    /// # Errors
    /// [`EntryError::XattrName`], [`EntryError::XattrValue`], or [`EntryError::Xattrs`] if there were too many
    /// bytes in all; then nothing is changed.
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

    /// Takes an attribute out; none if it is not there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Box<[u8]>> {
        let value = self.values.remove(name)?;
        self.list -= name.len() + 1;
        self.total -= name.len() + value.len();
        Some(value)
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.values.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Whether bytes are a string as the kernel takes it: some, not too many, and no zero byte.
pub(crate) fn is_plain(bytes: &[u8], most: usize) -> bool {
    !bytes.is_empty() && bytes.len() <= most && !bytes.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_have_is_refused() {
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
    fn xattrs_have_limits_and_an_order() {
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
    fn a_value_that_is_replaced_counts_once() {
        let mut xattrs = Xattrs::default();
        for _ in 0..10 {
            assert_eq!(xattrs.insert(b"user.x", &[1; 65_536]), Ok(()));
        }
        for name in [b"user.y", b"user.z", b"user.v"] {
            let room = MAX_XATTRS - xattrs.total;
            assert_eq!(xattrs.insert(name, &vec![1; (room - 6).min(65_536)]), Ok(()));
        }
        assert_eq!(xattrs.total, MAX_XATTRS);
        assert_eq!(xattrs.insert(b"user.w", b""), Err(EntryError::Xattrs));
        assert_eq!(xattrs.insert(b"user.x", b""), Ok(()));
        assert_eq!(xattrs.insert(b"user.w", b""), Ok(()));
    }
}
