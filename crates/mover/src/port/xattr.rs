//! Extended attributes.

/// An extended attribute: name and value.
pub type Xattr = (Box<[u8]>, Box<[u8]>);

/// Returns whether only root can set this extended attribute (xattr(7)) and programs depend on it.
pub fn is_root_only_xattr(name: &[u8]) -> bool {
    // XFS also exposes ACLs under these names (fs/xfs/xfs_acl.h).
    let shown_twice = name.starts_with(b"trusted.SGI_ACL_");
    name == b"security.capability" || name.starts_with(b"trusted.") && !shown_twice
}
