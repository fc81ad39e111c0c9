//! Limits of entries, and the errors of values that exceed them.

/// Maximum bytes of a symbolic link target: `PATH_MAX` less the NUL
/// (`include/uapi/linux/limits.h`).
pub const MAX_TARGET: usize = 4_095;
/// Maximum bytes of an account name: `LOGIN_NAME_MAX` (256 in POSIX limits) less the NUL.
pub const MAX_ACCOUNT: usize = 255;
/// Maximum bytes of an extended attribute name: `XATTR_NAME_MAX` (`include/uapi/linux/limits.h`).
pub const MAX_XATTR_NAME: usize = 255;
/// Maximum bytes of an extended attribute value: `XATTR_SIZE_MAX`.
pub const MAX_XATTR_VALUE: usize = 65_536;
/// Maximum bytes of all extended attribute names of an object with a NUL each: `XATTR_LIST_MAX`.
pub const MAX_XATTR_LIST: usize = 65_536;
/// Maximum bytes of all extended attribute names and values of an object. The kernel has no such
/// limit; most file systems have smaller ones, except for a few that store large values in inodes.
pub const MAX_XATTRS: usize = 262_144;
/// Maximum extents of data in the description of one file. For a file with more, the smallest holes
/// are described as data. Complete blocks of such holes are announced before the file is sent;
/// otherwise their zeros are transferred, and the sink turns them into holes again.
pub const MAX_EXTENTS: usize = 4_096;

/// A value of an entry that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// A file number is not below 2^63 - 1, or a size is larger than that.
    #[error("a file number or size exceeds the kernel's limit of 2^63 - 1")]
    TooLarge,
    /// A mode has bits other than the twelve permission bits.
    #[error("mode {0:o} has bits outside the permission mask 7777")]
    Mode(u32),
    /// A time has 10^9 nanoseconds or more.
    #[error("a time has {0} nanoseconds, expected fewer than 1000000000")]
    Nanoseconds(u32),
    /// The ID that chown(2) reserves for "leave unchanged".
    #[error("4294967295 is not a valid user or group ID")]
    ReservedId,
    /// An account name is empty, too long, or contains a NUL byte.
    #[error("an account name is empty, longer than {MAX_ACCOUNT} bytes, or contains a NUL byte")]
    Account,
    /// A symbolic link target is empty, too long, or contains a NUL byte.
    #[error("a symbolic link target is empty, longer than {MAX_TARGET} bytes, or contains a NUL byte")]
    Target,
    /// A device number has more bits than the kernel supports.
    #[error("invalid device number {0}:{1}")]
    Device(u32, u32),
    /// An extended attribute name is empty, too long, or contains a NUL byte.
    #[error(
        "an extended attribute name is empty, longer than {MAX_XATTR_NAME} bytes, or contains a NUL byte"
    )]
    XattrName,
    /// An extended attribute value is too long.
    #[error("an extended attribute value has {0} bytes, {MAX_XATTR_VALUE} at most")]
    XattrValue(usize),
    /// The extended attributes of an object are too long in total.
    #[error("the extended attributes of a file exceed {MAX_XATTR_LIST} bytes of names or {MAX_XATTRS} bytes in total")]
    Xattrs,
    /// Extents are out of order, overlap or touch, or extend beyond the end of the file.
    #[error("the extents of a file overlap, are out of order, or extend beyond its end")]
    Extents,
    /// There are more than [`MAX_EXTENTS`] extents.
    #[error("a file has {0} extents, {MAX_EXTENTS} at most")]
    TooManyExtents(usize),
}
