//! POSIX ACLs that name users and groups: the names go with the numbers, which mean others elsewhere.
//!
//! An ACL is said as the attribute `numaio.posix_acl_access` or `numaio.posix_acl_default`, whose value is the ACL as the
//! kernel gives it, and the name of each user and group in it, in their order (docs/internals/protocol.md). Linux has no attributes
//! of such names (xattr(7)), so what is said is never mistaken for what a disk has.

use crate::accounts::{Account, Accounts};
use crate::entry::{is_plain, EntryError, Xattrs, MAX_ACCOUNT, MAX_XATTR_VALUE};
use crate::wire::bytes::{put_bytes, Reader};
use crate::wire::WireError;

/// Attributes of ACLs: as the kernel calls them, and as they are said with names.
const ACLS: [[&[u8]; 2]; 2] = [
    [b"system.posix_acl_access", b"numaio.posix_acl_access"],
    [b"system.posix_acl_default", b"numaio.posix_acl_default"],
];
/// What names of attributes begin with that are said and never kept.
const SAID: &[u8] = b"numaio.";

/// How an ACL begins: version 2 (`include/uapi/linux/posix_acl_xattr.h`).
const VERSION: [u8; 4] = [2, 0, 0, 0];
/// Bytes of an entry: tag, permissions and id, the lowest byte of each first.
const ENTRY: usize = 8;
/// Tags of entries that name somebody (`include/uapi/linux/posix_acl.h`).
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;

/// What an ACL lets somebody do.
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

    /// Whose number its id is; none if it is about the owner, the group of the file, the mask, or all others.
    fn account(&self) -> Option<Account> {
        match self.tag {
            USER => Some(Account::User),
            GROUP => Some(Account::Group),
            _ => None,
        }
    }

    /// Where it stands in an ACL, which has its tags in this order, and ids as setfacl(1) sorts them.
    fn place(&self) -> (u16, u32) {
        (self.tag, self.account().map_or(0, |_| self.id))
    }
}

/// The entries of an ACL; none if that is no ACL of version 2.
fn entries(acl: &[u8]) -> Option<Vec<Entry>> {
    let entries = acl.strip_prefix(&VERSION)?;
    let (entries, rest) = entries.as_chunks::<ENTRY>();
    rest.is_empty().then(|| entries.iter().copied().map(Entry::of).collect())
}

/// Whether an attribute of this name is only ever said.
pub(crate) fn is_said(name: &[u8]) -> bool {
    name.starts_with(SAID)
}

/// An attribute as it is said to a sink that takes names: an ACL with those of whom it names. None if it goes as it is.
pub(crate) fn said(name: &[u8], value: &[u8], accounts: &mut Accounts) -> Option<(&'static [u8], Vec<u8>)> {
    let [_, said] = ACLS.into_iter().find(|[kept, _]| *kept == name)?;
    let mut with_names = Vec::new();
    put_bytes(&mut with_names, value);
    let mut is_known = false;
    for entry in entries(value)? {
        let Some(account) = entry.account() else { continue };
        let name = accounts.name(account, entry.id);
        is_known |= name.is_some();
        put_bytes(&mut with_names, name.unwrap_or_default());
    }
    is_known.then_some((said, with_names))
}

/// Makes of ACLs with names those of this side, as the kernel takes them: who has a name is found by it.
///
/// # Errors
/// [`WireError`] if one has not its only form, is there in the other form as well, or an attribute is not to be said at all.
pub(crate) fn kept(xattrs: &mut Xattrs, accounts: &mut Accounts) -> Result<(), WireError> {
    for [kept, said] in ACLS {
        let Some(value) = xattrs.remove(said) else { continue };
        if xattrs.iter().any(|(name, _)| name == kept) {
            return Err(WireError::NotCanonical("an ACL that comes with names and without"));
        }
        xattrs.insert(kept, &here(&value, accounts)?)?;
    }
    none_said(xattrs)
}

/// Refuses attributes that are only said; what a sink does that takes no names.
///
/// # Errors
/// [`WireError::Value`] if there is one.
pub(crate) fn none_said(xattrs: &Xattrs) -> Result<(), WireError> {
    match xattrs.iter().any(|(name, _)| is_said(name)) {
        true => Err(WireError::Value("the name of an extended attribute")),
        false => Ok(()),
    }
}

/// An ACL with names as one of this side. Of two entries that come to be about one account the rights are joined: each had its own.
fn here(value: &[u8], accounts: &mut Accounts) -> Result<Vec<u8>, WireError> {
    let mut reader = Reader::new(value);
    let acl = reader.bytes("an ACL", MAX_XATTR_VALUE)?;
    let mut entries = entries(acl).ok_or(WireError::Value("an ACL with names"))?;
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
        entry.id = accounts.number(account, entry.id, name).unwrap_or(entry.id);
    }
    reader.end()?;
    if !is_known {
        return Err(WireError::NotCanonical("an ACL with names of nobody"));
    }
    entries.sort_by_key(Entry::place);
    entries.dedup_by(|next, first| {
        let is_one = next.account().is_some() && next.place() == first.place();
        if is_one {
            first.permissions |= next.permissions;
        }
        is_one
    });
    Ok(VERSION.into_iter().chain(entries.iter().flat_map(Entry::bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Lookup;
    use crate::testing;
    use proptest::prelude::*;

    const ACCESS: &[u8] = b"system.posix_acl_access";
    const SAID_ACCESS: &[u8] = b"numaio.posix_acl_access";
    const NOBODY: u32 = u32::MAX;

    const THERE: Lookup = Lookup {
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
    const HERE: Lookup = Lookup {
        name: |_, _| None,
        id: |account, name| match (account, name) {
            (_, b"root") => Some(3),
            (Account::User, b"ada") => Some(1_008),
            (Account::User, b"bob") => Some(1_001),
            (Account::User, b"eve") => Some(NOBODY),
            (Account::Group, b"staff" | b"crew") => Some(50),
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

    /// What a sink makes of an ACL with names.
    fn made(value: &[u8]) -> Result<Vec<u8>, WireError> {
        here(value, &mut Accounts::new(Some(HERE)))
    }

    #[test]
    fn who_has_a_name_on_both_sides_has_the_rights_on_both() {
        let there = acl(&[
            (1, 7, NOBODY),
            (2, 1, 0),
            (2, 6, 7),
            (2, 4, 8),
            (2, 5, 9),
            (2, 2, 10),
            (4, 5, NOBODY),
            (8, 3, 7),
            (8, 1, 8),
            (0x10, 7, NOBODY),
            (0x20, 0, NOBODY),
        ]);
        let (name, value) = said(ACCESS, &there, &mut Accounts::new(Some(THERE))).expect("it names some");
        let names = [&b"root"[..], b"ada", b"bob", b"", b"", b"staff", b""];
        assert_eq!((name, value), (SAID_ACCESS, with_names(&there, &names)));
        let default = said(b"system.posix_acl_default", &there, &mut Accounts::new(Some(THERE)));
        assert_eq!(default.map(|(name, _)| name), Some(&b"numaio.posix_acl_default"[..]));
        let mut xattrs = Xattrs::default();
        xattrs.insert(b"user.a", b"b").expect("room");
        xattrs.insert(name, &with_names(&there, &names)).expect("room");
        kept(&mut xattrs, &mut Accounts::new(Some(HERE))).expect("an ACL with names");
        let here = acl(&[
            (1, 7, NOBODY),
            (2, 1, 0),
            (2, 5, 9),
            (2, 2, 10),
            (2, 4, 1_001),
            (2, 6, 1_008),
            (4, 5, NOBODY),
            (8, 1, 8),
            (8, 3, 50),
            (0x10, 7, NOBODY),
            (0x20, 0, NOBODY),
        ]);
        let mut plain = Xattrs::default();
        plain.insert(ACCESS, &here).expect("room");
        plain.insert(b"user.a", b"b").expect("room");
        assert_eq!(xattrs, plain);
    }

    #[test]
    fn what_needs_no_names_or_has_none_goes_as_it_is() {
        let ada = acl(&[(1, 7, NOBODY), (2, 6, 7), (4, 5, NOBODY)]);
        let goes =
            |name: &[u8], value: &[u8], lookup| said(name, value, &mut Accounts::new(lookup)).is_none();
        assert!(!goes(ACCESS, &ada, Some(THERE)));
        assert!(goes(ACCESS, &ada, None), "numbers are kept");
        assert!(goes(b"user.a", &ada, Some(THERE)));
        assert!(goes(ACCESS, &acl(&[(1, 7, NOBODY), (4, 5, NOBODY), (0x20, 0, 7)]), Some(THERE)));
        assert!(goes(ACCESS, &acl(&[(2, 7, 10), (8, 5, 9)]), Some(THERE)), "nobody has a name");
        for other in [&ada[..ada.len() - 1], &[&[1][..], &ada[1..]].concat(), b"", &ada[..3]] {
            assert!(goes(ACCESS, other, Some(THERE)), "no ACL of version 2");
        }
    }

    #[test]
    fn what_comes_to_be_about_one_account_joins_its_rights() {
        let names = [&b"ada"[..], b"bob", b"", b"staff", b"crew"];
        let of = [(2, 4, 7), (2, 2, 8), (2, 1, 1_008), (8, 1, 7), (8, 4, 8), (0x20, 1, 50), (0x20, 2, 50)];
        let joined = [(2, 2, 1_001), (2, 5, 1_008), (8, 5, 50), (0x20, 1, 50), (0x20, 2, 50)];
        assert_eq!(made(&with_names(&acl(&of), &names)), Ok(acl(&joined)));
        let no_id = with_names(&acl(&[(2, 4, 7), (2, 1, NOBODY)]), &[b"eve", b""]);
        assert_eq!(made(&no_id), Ok(acl(&[(2, 4, 7), (2, 1, NOBODY)])), "it is nobody's number");
    }

    #[test]
    fn what_is_broken_is_refused() {
        let ada = acl(&[(1, 7, NOBODY), (2, 6, 7), (2, 6, 8)]);
        let refused = |value: &[u8]| made(value).expect_err("it is broken");
        let no_acl = WireError::Value("an ACL with names");
        for acl in [&ada[..ada.len() - 1], b"", &[&[3][..], &ada[1..]].concat()] {
            assert_eq!(refused(&with_names(acl, &[b"ada", b"bob"])), no_acl);
        }
        let name = "the name of an account";
        assert_eq!(refused(&with_names(&ada, &[b"ada"])), WireError::Short(name));
        assert_eq!(refused(b""), WireError::Short("an ACL"));
        assert_eq!(refused(&with_names(&ada, &[b"ada", b"bob", b""])), WireError::Trailing);
        assert_eq!(refused(&with_names(&ada, &[b"ada", b"b\0b"])), EntryError::Account.into());
        let nobody = WireError::NotCanonical("an ACL with names of nobody");
        assert_eq!(refused(&with_names(&ada, &[b"", b""])), nobody);
        assert_eq!(refused(&with_names(&acl(&[(1, 7, 7)]), &[])), nobody);
        let long = [b'x'; MAX_ACCOUNT + 1];
        let too_long = WireError::Long { what: name, length: 256, most: 255 };
        assert_eq!(refused(&with_names(&ada, &[b"ada", &long])), too_long);
        assert!(made(&with_names(&ada, &[b"ada", &long[1..]])).is_ok());
        let huge = vec![0; MAX_XATTR_VALUE + 1];
        assert!(matches!(refused(&with_names(&huge, &[])), WireError::Long { what: "an ACL", .. }));
        assert_eq!(refused(&[0xa4, 0x80, 0]), WireError::NotCanonical("an ACL"));
    }

    #[test]
    fn what_is_only_said_is_kept_under_no_name_of_its_own() {
        let ada = acl(&[(2, 6, 7)]);
        let of = |all: &[(&[u8], &[u8])]| {
            all.iter().fold(Xattrs::default(), |mut xattrs, (name, value)| {
                xattrs.insert(name, value).expect("room");
                xattrs
            })
        };
        let value = with_names(&ada, &[b"ada"]);
        let refused = |mut xattrs| kept(&mut xattrs, &mut Accounts::new(Some(HERE))).expect_err("no");
        let twice = WireError::NotCanonical("an ACL that comes with names and without");
        assert_eq!(refused(of(&[(SAID_ACCESS, &value), (ACCESS, &ada)])), twice);
        let name = WireError::Value("the name of an extended attribute");
        assert_eq!(refused(of(&[(SAID_ACCESS, &value), (b"numaio.other", b"")])), name);
        assert_eq!(none_said(&of(&[(SAID_ACCESS, &value)])), Err(name));
        assert_eq!(none_said(&of(&[(ACCESS, &ada), (b"user.numaio.", b"")])), Ok(()));
    }

    #[test]
    fn names_do_not_lengthen_a_value_beyond_its_limit() {
        let most: Vec<(u16, u16, u32)> = (0..8_000).map(|_| (2, 7, 7)).collect();
        let (name, value) = said(ACCESS, &acl(&most), &mut Accounts::new(Some(THERE))).expect("names");
        let length = value.len();
        assert_eq!(Xattrs::default().insert(name, &value), Err(EntryError::XattrValue(length)));
    }

    /// Both sides have the same names.
    const SAME: Lookup = Lookup {
        name: |_, id| (id % 3 > 0).then(|| id.to_string().into_bytes()),
        id: |_, name| std::str::from_utf8(name).ok()?.parse().ok(),
    };

    proptest! {
        #![proptest_config(testing::config())]

        #[test]
        fn what_is_sorted_comes_back(ids in proptest::collection::btree_set((0..2u16, 0..20u32), 0..12)) {
            let named = ids.iter().map(|&(kind, id)| ([USER, GROUP][usize::from(kind)], id as u16 & 7, id));
            let value = acl(&named.collect::<Vec<_>>());
            let mut accounts = Accounts::new(Some(SAME));
            if let Some((_, with_names)) = said(ACCESS, &value, &mut accounts) {
                prop_assert_eq!(here(&with_names, &mut accounts), Ok(value));
            }
        }

        #[test]
        fn whatever_comes_is_an_acl_or_refused(
            bytes in proptest::collection::vec(prop_oneof![Just(0), Just(2), Just(8), any::<u8>()], 0..60),
            names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..4), 0..6),
        ) {
            let acl = [&VERSION[..], &bytes].concat();
            let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            for value in [with_names(&acl, &names), bytes] {
                if let Ok(made) = made(&value) {
                    prop_assert!(entries(&made).is_some() && made.len() < value.len());
                }
            }
        }
    }
}
