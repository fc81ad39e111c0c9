//! Why operations fail.

use std::fmt;

/// The reason why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Machine-readable kind.
    pub why: FaultKind,
    /// Human-readable text: the attempted call and the kernel's error.
    pub text: String,
}

impl Fault {
    /// Creates a fault with a message.
    pub fn new(why: FaultKind, text: impl fmt::Display) -> Self {
        Self { why, text: text.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kinds of [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Any error without its own kind.
    Other,
    /// The object does not exist: a directory that still exists has no such name. Any other error
    /// proves nothing about the object.
    NotFound,
    /// Permission denied.
    Permission,
    /// The file system is full.
    NoSpace,
    /// The user's quota is used up.
    Quota,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The name is too long for this file system.
    NameTooLong,
    /// A component of the path is a symbolic link, or the path leaves the root.
    Link,
    /// Another object has this name, or the name of a directory of the path.
    Exists,
    /// The object differs from the expected identity, or changed during a read.
    Changed,
    /// The data does not match its expected hash.
    Mismatch,
    /// The file system does not support this object or attribute.
    Unsupported,
    /// The object is complete, except for an attribute that cannot be set.
    Attribute,
    /// The object is complete, except for what the file system does not keep of any object.
    NotKept,
    /// The device reported an I/O error.
    Device,
    /// The operation was not started because the transfer is stopping; the file is not at fault.
    Cancelled,
}
