//! Access control lists of files (acl(5)).

use super::xattr_buffer::fill;
use numaio_mover::port::Xattr;
use rustix::fd::{AsRawFd, BorrowedFd};

/// Extended attribute with the access ACL of a file.
pub const ACCESS_ACL: &str = "system.posix_acl_access";
/// Extended attribute with the ACL that new entries of a directory inherit.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Tags of ACL entries (include/uapi/linux/posix_acl.h).
const OWNER: u8 = 0x01;
const GROUP: u8 = 0x04;
const MASK: u8 = 0x10;
const OTHERS: u8 = 0x20;

/// Returns the mode bits that a directory's [`DEFAULT_ACL`] leaves to new entries (acl(5), "object
/// creation and default ACLs"): those of the owner, of the group (or the mask, if any), and of
/// others. None without a default ACL.
pub fn default_bits(directory: BorrowedFd<'_>) -> Option<u32> {
    let mut acl = Vec::new();
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    fill(&mut acl, |buffer| rustix::fs::getxattr(&path, DEFAULT_ACL, buffer)).ok()?;
    acl_mode_bits(&acl)
}

/// Returns the mode bits of an ACL.
fn acl_mode_bits(acl: &[u8]) -> Option<u32> {
    let entries = entries(acl)?;
    let bits = |tag| entries.clone().find(|entry| entry.0 == tag).map(|entry| entry.1);
    let group = bits(MASK).or_else(|| bits(GROUP))?;
    Some(bits(OWNER)? << 6 | group << 3 | bits(OTHERS)?)
}

/// Returns the mode bits that a file may keep if its ACL cannot be set. With an ACL the group bits
/// are the maximum of all named entries; without it, the owning group must have only its own
/// permissions.
pub fn bits_without_acl(acl: &[u8]) -> u32 {
    let bits = |tag| entries(acl)?.find(|entry| entry.0 == tag).map(|entry| entry.1);
    let group = bits(GROUP).unwrap_or(0) & bits(MASK).unwrap_or(0o7);
    !0o070 | group << 3
}

/// Parses tags and permissions of an ACL in the kernel's format
/// (include/uapi/linux/posix_acl_xattr.h): a version, then entries of tag, permissions and id.
fn entries(acl: &[u8]) -> Option<impl Iterator<Item = (u8, u32)> + Clone + '_> {
    let entries = acl.strip_prefix(&[2, 0, 0, 0])?;
    Some(entries.chunks_exact(8).map(|entry| (entry[0], u32::from(entry[2]) & 0o7)))
}

/// Returns the access ACL among extended attributes.
pub fn acl_in(xattrs: &[Xattr]) -> Option<&[u8]> {
    xattrs.iter().find(|(name, _)| **name == *ACCESS_ACL.as_bytes()).map(|(_, value)| &**value)
}
