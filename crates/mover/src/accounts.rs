//! Mapping of users and groups between machines by name instead of number.

use crate::entry::{is_plain, Owner, MAX_ACCOUNT};
use std::collections::HashMap;

/// A user or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Account {
    /// A user.
    User,
    /// A group.
    Group,
}

/// Lookup functions of a machine. They may query directory services, so results are cached.
#[derive(Debug, Clone, Copy)]
pub struct AccountLookup {
    /// Returns the name of an ID, if it has one.
    pub name: fn(Account, u32) -> Option<Vec<u8>>,
    /// Returns the ID of a name, if it exists.
    pub id: fn(Account, &[u8]) -> Option<u32>,
}

/// Cached account lookups of one side.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// `None` keeps numeric IDs.
    lookup: Option<AccountLookup>,
    names: HashMap<(Account, u32), Option<Vec<u8>>>,
    ids: HashMap<(Account, Vec<u8>), Option<u32>>,
}

/// Maximum cached results: the peer may send any number of names.
const MAX_CACHED: usize = 65_536;

impl Accounts {
    /// Creates an empty cache.
    pub fn new(lookup: Option<AccountLookup>) -> Self {
        Self { lookup, names: HashMap::new(), ids: HashMap::new() }
    }

    /// Returns the name of an ID at the source, if it has a valid one.
    pub fn name(&mut self, account: Account, id: u32) -> Option<&[u8]> {
        let lookup = self.lookup?;
        if self.names.len() >= MAX_CACHED {
            self.names.clear();
        }
        let name = self.names.entry((account, id)).or_insert_with(|| (lookup.name)(account, id));
        name.as_deref().filter(|name| is_plain(name, MAX_ACCOUNT))
    }

    /// Replaces an owner of the source by the local owner of the same name.
    pub fn map_owner(&mut self, account: Account, owner: &mut Owner) {
        let Some(name) = owner.name() else { return };
        let local_id = self.local_id(account, owner.id(), name);
        if let Some(own) = local_id.and_then(|id| Owner::new(id, None).ok()) {
            *owner = own;
        }
    }

    /// Returns the local ID of an account by its name. `None` keeps the number: the name is unknown
    /// here, or the account is root, which is root everywhere, as in rsync.
    pub fn local_id(&mut self, account: Account, id: u32, name: &[u8]) -> Option<u32> {
        let lookup = self.lookup.filter(|_| id != 0)?;
        if self.ids.len() >= MAX_CACHED {
            self.ids.clear();
        }
        let id = self
            .ids
            .entry((account, name.to_vec()))
            .or_insert_with_key(|(_, name)| (lookup.id)(account, name));
        // chown(2) reserves this ID.
        id.filter(|id| *id != u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static ASKED: AtomicU32 = AtomicU32::new(0);

    const LOOKUP: AccountLookup = AccountLookup {
        name: |account, id| match (account, id) {
            (Account::User, 7) => Some(b"ada".to_vec()),
            (Account::User, 8) => Some(vec![b'a'; MAX_ACCOUNT + 1]),
            (Account::User, 9) => Some(Vec::new()),
            _ => None,
        },
        id: |account, name| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            (account == Account::User && name == b"ada").then_some(1007)
        },
    };

    #[test]
    fn maps_accounts_by_name_and_caches_lookups() {
        let mut accounts = Accounts::new(Some(LOOKUP));
        assert_eq!(accounts.name(Account::User, 7), Some(&b"ada"[..]));
        assert_eq!(accounts.name(Account::Group, 7), None);
        assert_eq!(
            [8, 9].map(|id| accounts.name(Account::User, id).is_some()),
            [false; 2],
            "invalid names are ignored"
        );
        let mut map_owner = |account, id, name: Option<&[u8]>| {
            let mut owner = Owner::new(id, name).expect("an owner");
            accounts.map_owner(account, &mut owner);
            owner.id()
        };
        let ada = Some(&b"ada"[..]);
        assert_eq!([map_owner(Account::User, 7, ada), map_owner(Account::User, 9, ada)], [1007, 1007]);
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        assert_eq!(map_owner(Account::Group, 7, ada), 7, "unknown group name");
        assert_eq!(map_owner(Account::User, 0, ada), 0, "root is root");
        assert_eq!(map_owner(Account::User, 7, None), 7);
        let mut owner = Owner::new(7, ada).expect("an owner");
        let mut numbers = Accounts::new(None);
        assert_eq!(numbers.name(Account::User, 7), None);
        numbers.map_owner(Account::User, &mut owner);
        assert_eq!(owner.id(), 7);
    }
}
