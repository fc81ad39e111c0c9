//! Extended attributes.

/// An extended attribute: name and value.
pub type Xattr = (Box<[u8]>, Box<[u8]>);

/// Returns whether only root can set this extended attribute (xattr(7)) and programs depend on it.
pub fn is_root_only_xattr(name: &[u8]) -> bool {
    // XFS also exposes ACLs under these names (fs/xfs/xfs_acl.h).
    let shown_twice = name.starts_with(b"trusted.SGI_ACL_");
    name.starts_with(b"security.") || name.starts_with(b"trusted.") && !shown_twice
}

/// Returns whether a security module sets this attribute itself on new files: labels of SELinux and
/// Smack, signatures of IMA and EVM. The kernel may refuse to change it, even for root.
pub fn is_security_label(name: &[u8]) -> bool {
    name.starts_with(b"security.") && name != b"security.capability"
}
