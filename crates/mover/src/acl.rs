//! POSIX ACLs on the wire, with the names of the users and groups in them.
//!
//! Numeric IDs differ between machines. So an ACL is sent as the attribute
//! `numaio.posix_acl_access` or `numaio.posix_acl_default`, whose value is the ACL in kernel format
//! and the name of each user and group entry in order (docs/internals/protocol.md). Linux has no
//! attributes with these names (xattr(7)), so they cannot be confused with attributes of a file.

use crate::accounts::{Account, Accounts};
use crate::entry::{is_plain, EntryError, Xattrs, MAX_ACCOUNT, MAX_XATTR_VALUE};
use crate::wire::bytes::{put_bytes, Reader};
use crate::wire::WireError;

/// ACL attributes: the kernel's names and the wire names.
const ACLS: [[&[u8]; 2]; 2] = [
    [b"system.posix_acl_access", b"numaio.posix_acl_access"],
    [b"system.posix_acl_default", b"numaio.posix_acl_default"],
];
/// Prefix of attribute names that exist only on the wire.
const WIRE_PREFIX: &[u8] = b"numaio.";

/// Header of an ACL: version 2 (`include/uapi/linux/posix_acl_xattr.h`).
const VERSION: [u8; 4] = [2, 0, 0, 0];
/// Bytes of an entry: tag, permissions and ID, little-endian.
const ENTRY: usize = 8;
/// Tags of entries for named users and groups (`include/uapi/linux/posix_acl.h`).
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;
/// Tags of entries for the owner, the owning group, the mask and others.
const OWNER: u16 = 0x01;
const OWNING_GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// An ACL entry.
#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Entry {
    fn of(bytes: [u8; ENTRY]) -> Self {
        let [tag, tag_high, permissions, permissions_high, id @ ..] = bytes;
        Self {
            tag: u16::from_le_bytes([tag, tag_high]),
            permissions: u16::from_le_bytes([permissions, permissions_high]),
            id: u32::from_le_bytes(id),
        }
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let [tag, permissions] = [self.tag, self.permissions].map(u16::to_le_bytes);
        tag.into_iter().chain(permissions).chain(self.id.to_le_bytes())
    }

    /// Returns the account kind of the ID; `None` for owner, owning group, mask and others.
    fn account(&self) -> Option<Account> {
        match self.tag {
            USER => Some(Account::User),
            GROUP => Some(Account::Group),
            _ => None,
        }
    }

    /// Returns the sort key: tags ascend in an ACL, and IDs as setfacl(1) sorts them.
    fn sort_key(&self) -> (u16, u32) {
        (self.tag, self.account().map_or(0, |_| self.id))
    }
}

/// Parses the entries of an ACL; `None` if it is not an ACL of version 2.
fn entries(acl: &[u8]) -> Option<Vec<Entry>> {
    let entries = acl.strip_prefix(&VERSION)?;
    let (entries, rest) = entries.as_chunks::<ENTRY>();
    rest.is_empty().then(|| entries.iter().copied().map(Entry::of).collect())
}

/// Returns an access ACL after chmod(2) with these mode bits; `None` for other attributes.
pub(crate) fn with_mode(name: &[u8], value: &[u8], mode: u32) -> Option<Vec<u8>> {
    let mut entries = entries(value).filter(|_| name == ACLS[0][0])?;
    // The mask takes the place of the owning group (acl(5)).
    let has_mask = entries.iter().any(|entry| entry.tag == MASK);
    for entry in &mut entries {
        let shift = match entry.tag {
            OWNER => 6,
            MASK => 3,
            OWNING_GROUP if !has_mask => 3,
            OTHERS => 0,
            _ => continue,
        };
        entry.permissions = (mode >> shift & 7) as u16;
    }
    Some(VERSION.into_iter().chain(entries.iter().flat_map(Entry::bytes)).collect())
}

/// Returns whether an attribute name is only valid on the wire.
pub(crate) fn is_wire_only(name: &[u8]) -> bool {
    name.starts_with(WIRE_PREFIX)
}

/// Encodes an ACL with account names for the wire; `None` if the attribute is sent unchanged.
pub(crate) fn encode_names(
    name: &[u8],
    value: &[u8],
    accounts: &mut Accounts,
) -> Option<(&'static [u8], Vec<u8>)> {
    let [_, encode_names] = ACLS.into_iter().find(|[decode_names, _]| *decode_names == name)?;
    let mut with_names = Vec::new();
    put_bytes(&mut with_names, value);
    let mut is_known = false;
    for entry in entries(value)? {
        let Some(account) = entry.account() else { continue };
        let name = accounts.name(account, entry.id);
        is_known |= name.is_some();
        put_bytes(&mut with_names, name.unwrap_or_default());
    }
    is_known.then_some((encode_names, with_names))
}

/// Replaces ACLs with names by local ACLs in kernel format, mapping accounts by name.
///
/// # Errors
/// [`WireError`] if an ACL is not canonical or is also present without names, or for other
/// attributes that are only valid on the wire.
pub(crate) fn decode_names(xattrs: &mut Xattrs, accounts: &mut Accounts) -> Result<(), WireError> {
    for [decode_names, encode_names] in ACLS {
        let Some(value) = xattrs.remove(encode_names) else { continue };
        if xattrs.iter().any(|(name, _)| name == decode_names) {
            return Err(WireError::NotCanonical("an ACL sent both with and without names"));
        }
        xattrs.insert(decode_names, &to_local(&value, accounts)?)?;
    }
    reject_wire_only(xattrs)
}

/// Rejects attributes that are only valid on the wire.
///
/// # Errors
/// [`WireError::InvalidValue`] if there is one.
pub(crate) fn reject_wire_only(xattrs: &Xattrs) -> Result<(), WireError> {
    match xattrs.iter().any(|(name, _)| is_wire_only(name)) {
        true => Err(WireError::InvalidValue("the name of an extended attribute")),
        false => Ok(()),
    }
}

/// Decodes an ACL with names. Entries that map to the same account are merged, joining their
/// rights.
fn to_local(value: &[u8], accounts: &mut Accounts) -> Result<Vec<u8>, WireError> {
    let mut reader = Reader::new(value);
    let acl = reader.bytes("an ACL", MAX_XATTR_VALUE)?;
    let mut entries = entries(acl).ok_or(WireError::InvalidValue("an ACL with names"))?;
    let mut is_known = false;
    for entry in &mut entries {
        let Some(account) = entry.account() else { continue };
        let name = reader.bytes("the name of an account", MAX_ACCOUNT)?;
        if name.is_empty() {
            continue;
        }
        if !is_plain(name, MAX_ACCOUNT) {
            return Err(EntryError::Account.into());
        }
        is_known = true;
        entry.id = accounts.local_id(account, entry.id, name).unwrap_or(entry.id);
    }
    reader.end()?;
    if !is_known {
        return Err(WireError::NotCanonical("an ACL with names but no named account"));
    }
    entries.sort_by_key(Entry::sort_key);
    entries.dedup_by(|next, first| {
        let is_same = next.account().is_some() && next.sort_key() == first.sort_key();
        if is_same {
            first.permissions |= next.permissions;
        }
        is_same
    });
    Ok(VERSION.into_iter().chain(entries.iter().flat_map(Entry::bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::AccountLookup;
    use crate::testing;
    use proptest::prelude::*;

    const ACCESS: &[u8] = b"system.posix_acl_access";
    const WIRE_ACCESS: &[u8] = b"numaio.posix_acl_access";
    const NO_ID: u32 = u32::MAX;

    const SOURCE_ACCOUNTS: AccountLookup = AccountLookup {
        name: |account, id| {
            let name = match (account, id) {
                (_, 0) => "root",
                (Account::User, 7) => "ada",
                (Account::User, 8) => "bob",
                (Account::User, 9) => return Some(vec![b'x'; MAX_ACCOUNT + 1]),
                (Account::Group, 7) => "staff",
                _ => return None,
            };
            Some(name.into())
        },
        id: |_, _| None,
    };
    const SINK_ACCOUNTS: AccountLookup = AccountLookup {
        name: |_, _| None,
        id: |account, name| match (account, name) {
            (_, b"root") => Some(3),
            (Account::User, b"ada") => Some(1_008),
            (Account::User, b"bob") => Some(1_001),
            (Account::User, b"eve") => Some(NO_ID),
            (Account::Group, b"staff" | b"team") => Some(50),
            _ => None,
        },
    };

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entries = entries.iter().map(|&(tag, permissions, id)| Entry { tag, permissions, id });
        VERSION.into_iter().chain(entries.flat_map(|entry| entry.bytes().collect::<Vec<_>>())).collect()
    }

    fn with_names(acl: &[u8], names: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        [acl].iter().chain(names).for_each(|bytes| put_bytes(&mut out, bytes));
        out
    }

    /// Decodes an ACL with names at the sink.
    fn decode(value: &[u8]) -> Result<Vec<u8>, WireError> {
        to_local(value, &mut Accounts::new(Some(SINK_ACCOUNTS)))
    }

    #[test]
    fn maps_acl_entries_by_account_name() {
        let there = acl(&[
            (1, 7, NO_ID),
            (2, 1, 0),
            (2, 6, 7),
            (2, 4, 8),
            (2, 5, 9),
            (2, 2, 10),
            (4, 5, NO_ID),
            (8, 3, 7),
            (8, 1, 8),
            (0x10, 7, NO_ID),
            (0x20, 0, NO_ID),
        ]);
        let (name, value) =
            encode_names(ACCESS, &there, &mut Accounts::new(Some(SOURCE_ACCOUNTS))).expect("named entries");
        let names = [&b"root"[..], b"ada", b"bob", b"", b"", b"staff", b""];
        assert_eq!((name, value), (WIRE_ACCESS, with_names(&there, &names)));
        let default =
            encode_names(b"system.posix_acl_default", &there, &mut Accounts::new(Some(SOURCE_ACCOUNTS)));
        assert_eq!(default.map(|(name, _)| name), Some(&b"numaio.posix_acl_default"[..]));
        let mut xattrs = Xattrs::default();
        xattrs.insert(b"user.a", b"b").expect("within limits");
        xattrs.insert(name, &with_names(&there, &names)).expect("within limits");
        decode_names(&mut xattrs, &mut Accounts::new(Some(SINK_ACCOUNTS))).expect("an ACL with names");
        let local = acl(&[
            (1, 7, NO_ID),
            (2, 1, 0),
            (2, 5, 9),
            (2, 2, 10),
            (2, 4, 1_001),
            (2, 6, 1_008),
            (4, 5, NO_ID),
            (8, 1, 8),
            (8, 3, 50),
            (0x10, 7, NO_ID),
            (0x20, 0, NO_ID),
        ]);
        let mut plain = Xattrs::default();
        plain.insert(ACCESS, &local).expect("within limits");
        plain.insert(b"user.a", b"b").expect("within limits");
        assert_eq!(xattrs, plain);
    }

    #[test]
    fn mode_changes_the_entries_that_chmod_changes() {
        let access = ACLS[0][0];
        let masked = acl(&[(1, 7, 0), (USER, 6, 9), (4, 5, 0), (0x10, 7, 0), (0x20, 4, 0)]);
        let expected = acl(&[(1, 6, 0), (USER, 6, 9), (4, 5, 0), (0x10, 4, 0), (0x20, 0, 0)]);
        assert_eq!(with_mode(access, &masked, 0o4640), Some(expected));
        let minimal = acl(&[(1, 7, 0), (4, 5, 0), (0x20, 4, 0)]);
        let expected = acl(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)]);
        assert_eq!(with_mode(access, &minimal, 0o640), Some(expected));
        assert_eq!(with_mode(ACLS[1][0], &minimal, 0o640), None);
        assert_eq!(with_mode(access, b"no ACL", 0o640), None);
    }

    #[test]
    fn sends_acls_without_names_unchanged() {
        let ada = acl(&[(1, 7, NO_ID), (2, 6, 7), (4, 5, NO_ID)]);
        let is_unchanged = |name: &[u8], value: &[u8], lookup| {
            encode_names(name, value, &mut Accounts::new(lookup)).is_none()
        };
        assert!(!is_unchanged(ACCESS, &ada, Some(SOURCE_ACCOUNTS)));
        assert!(is_unchanged(ACCESS, &ada, None), "numeric IDs are kept");
        assert!(is_unchanged(b"user.a", &ada, Some(SOURCE_ACCOUNTS)));
        assert!(is_unchanged(
            ACCESS,
            &acl(&[(1, 7, NO_ID), (4, 5, NO_ID), (0x20, 0, 7)]),
            Some(SOURCE_ACCOUNTS)
        ));
        assert!(
            is_unchanged(ACCESS, &acl(&[(2, 7, 10), (8, 5, 9)]), Some(SOURCE_ACCOUNTS)),
            "no account has a name"
        );
        for other in [&ada[..ada.len() - 1], &[&[1][..], &ada[1..]].concat(), b"", &ada[..3]] {
            assert!(is_unchanged(ACCESS, other, Some(SOURCE_ACCOUNTS)), "not an ACL of version 2");
        }
    }

    #[test]
    fn merges_entries_that_map_to_one_account() {
        let names = [&b"ada"[..], b"bob", b"", b"staff", b"team"];
        let of = [(2, 4, 7), (2, 2, 8), (2, 1, 1_008), (8, 1, 7), (8, 4, 8), (0x20, 1, 50), (0x20, 2, 50)];
        let joined = [(2, 2, 1_001), (2, 5, 1_008), (8, 5, 50), (0x20, 1, 50), (0x20, 2, 50)];
        assert_eq!(decode(&with_names(&acl(&of), &names)), Ok(acl(&joined)));
        let no_id = with_names(&acl(&[(2, 4, 7), (2, 1, NO_ID)]), &[b"eve", b""]);
        assert_eq!(decode(&no_id), Ok(acl(&[(2, 4, 7), (2, 1, NO_ID)])), "the reserved ID is ignored");
    }

    #[test]
    fn rejects_malformed_acls() {
        let ada = acl(&[(1, 7, NO_ID), (2, 6, 7), (2, 6, 8)]);
        let rejected = |value: &[u8]| decode(value).expect_err("malformed");
        let not_an_acl = WireError::InvalidValue("an ACL with names");
        for acl in [&ada[..ada.len() - 1], b"", &[&[3][..], &ada[1..]].concat()] {
            assert_eq!(rejected(&with_names(acl, &[b"ada", b"bob"])), not_an_acl);
        }
        let name = "the name of an account";
        assert_eq!(rejected(&with_names(&ada, &[b"ada"])), WireError::Truncated(name));
        assert_eq!(rejected(b""), WireError::Truncated("an ACL"));
        assert_eq!(rejected(&with_names(&ada, &[b"ada", b"bob", b""])), WireError::Trailing);
        assert_eq!(rejected(&with_names(&ada, &[b"ada", b"b\0b"])), EntryError::Account.into());
        let unnamed = WireError::NotCanonical("an ACL with names but no named account");
        assert_eq!(rejected(&with_names(&ada, &[b"", b""])), unnamed);
        assert_eq!(rejected(&with_names(&acl(&[(1, 7, 7)]), &[])), unnamed);
        let long = [b'x'; MAX_ACCOUNT + 1];
        let too_long = WireError::TooLong { what: name, length: 256, limit: 255 };
        assert_eq!(rejected(&with_names(&ada, &[b"ada", &long])), too_long);
        assert!(decode(&with_names(&ada, &[b"ada", &long[1..]])).is_ok());
        let huge = vec![0; MAX_XATTR_VALUE + 1];
        assert!(matches!(rejected(&with_names(&huge, &[])), WireError::TooLong { what: "an ACL", .. }));
        assert_eq!(rejected(&[0xa4, 0x80, 0]), WireError::NotCanonical("an ACL"));
    }

    #[test]
    fn rejects_wire_only_attributes() {
        let ada = acl(&[(2, 6, 7)]);
        let of = |all: &[(&[u8], &[u8])]| {
            all.iter().fold(Xattrs::default(), |mut xattrs, (name, value)| {
                xattrs.insert(name, value).expect("within limits");
                xattrs
            })
        };
        let value = with_names(&ada, &[b"ada"]);
        let rejected = |mut xattrs| {
            decode_names(&mut xattrs, &mut Accounts::new(Some(SINK_ACCOUNTS))).expect_err("rejected")
        };
        let twice = WireError::NotCanonical("an ACL sent both with and without names");
        assert_eq!(rejected(of(&[(WIRE_ACCESS, &value), (ACCESS, &ada)])), twice);
        let name = WireError::InvalidValue("the name of an extended attribute");
        assert_eq!(rejected(of(&[(WIRE_ACCESS, &value), (b"numaio.other", b"")])), name);
        assert_eq!(reject_wire_only(&of(&[(WIRE_ACCESS, &value)])), Err(name));
        assert_eq!(reject_wire_only(&of(&[(ACCESS, &ada), (b"user.numaio.", b"")])), Ok(()));
    }

    #[test]
    fn names_count_toward_the_value_limit() {
        let most: Vec<(u16, u16, u32)> = (0..8_000).map(|_| (2, 7, 7)).collect();
        let (name, value) =
            encode_names(ACCESS, &acl(&most), &mut Accounts::new(Some(SOURCE_ACCOUNTS))).expect("names");
        let length = value.len();
        assert_eq!(Xattrs::default().insert(name, &value), Err(EntryError::XattrValue(length)));
    }

    /// Accounts that have the same names on both sides.
    const SHARED_ACCOUNTS: AccountLookup = AccountLookup {
        name: |_, id| (id % 3 > 0).then(|| id.to_string().into_bytes()),
        id: |_, name| std::str::from_utf8(name).ok()?.parse().ok(),
    };

    proptest! {
        #![proptest_config(testing::config())]

        #[test]
        fn acl_with_names_round_trips(ids in proptest::collection::btree_set((0..2u16, 0..20u32), 0..12)) {
            let named = ids.iter().map(|&(kind, id)| ([USER, GROUP][usize::from(kind)], id as u16 & 7, id));
            let value = acl(&named.collect::<Vec<_>>());
            let mut accounts = Accounts::new(Some(SHARED_ACCOUNTS));
            if let Some((_, with_names)) = encode_names(ACCESS, &value, &mut accounts) {
                prop_assert_eq!(to_local(&with_names, &mut accounts), Ok(value));
            }
        }

        #[test]
        fn arbitrary_input_decodes_to_an_acl_or_fails(
            bytes in proptest::collection::vec(prop_oneof![Just(0), Just(2), Just(8), any::<u8>()], 0..60),
            names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..4), 0..6),
        ) {
            let acl = [&VERSION[..], &bytes].concat();
            let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            for value in [with_names(&acl, &names), bytes] {
                if let Ok(decode) = decode(&value) {
                    prop_assert!(entries(&decode).is_some() && decode.len() < value.len());
                }
            }
        }
    }
}
