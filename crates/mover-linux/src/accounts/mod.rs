//! Lookup of user and group names and ids: getpwuid_r(3), getpwnam_r(3), getgrgid_r(3),
//! getgrnam_r(3).
//!
//! A static binary reads only the files in `/etc`; for the other services of `nsswitch.conf` it
//! asks getent(1). Others use all services.

mod name_service;

pub use name_service::start as start_name_service;

use name_service::{entry, Database};
use std::ffi::{c_char, c_int, CStr, CString};
use std::mem::MaybeUninit;

/// Maximum buffer for one entry: a group may have very many members.
const MAX_BUFFER: usize = 16 << 20;

/// Returns the name of a user; none if unknown.
pub fn user_name(id: u32) -> Option<Vec<u8>> {
    let found = query(
        // SAFETY: the buffer has the given length, and the other pointers refer to live objects.
        |entry, buffer, length, found| unsafe { libc::getpwuid_r(id, entry, buffer, length, found) },
        // SAFETY: a found name is zero-terminated and lies in the live buffer.
        |entry: &libc::passwd| unsafe { CStr::from_ptr(entry.pw_name) }.to_bytes().to_vec(),
    );
    found.or_else(|| name_of(Database::Passwd, id))
}

/// Returns the id of a user; none if unknown.
pub fn user_id(name: &[u8]) -> Option<u32> {
    let of = CString::new(name).ok()?;
    let found = query(
        // SAFETY: as above; the name ends with a zero byte.
        |entry, buffer, length, found| unsafe { libc::getpwnam_r(of.as_ptr(), entry, buffer, length, found) },
        |entry: &libc::passwd| entry.pw_uid,
    );
    found.or_else(|| id_of(Database::Passwd, name))
}

/// Returns the name of a group; none if unknown.
pub fn group_name(id: u32) -> Option<Vec<u8>> {
    let found = query(
        // SAFETY: as for users.
        |entry, buffer, length, found| unsafe { libc::getgrgid_r(id, entry, buffer, length, found) },
        // SAFETY: as for users.
        |entry: &libc::group| unsafe { CStr::from_ptr(entry.gr_name) }.to_bytes().to_vec(),
    );
    found.or_else(|| name_of(Database::Group, id))
}

/// Returns the id of a group; none if unknown.
pub fn group_id(name: &[u8]) -> Option<u32> {
    let of = CString::new(name).ok()?;
    let found = query(
        // SAFETY: as for users.
        |entry, buffer, length, found| unsafe { libc::getgrnam_r(of.as_ptr(), entry, buffer, length, found) },
        |entry: &libc::group| entry.gr_gid,
    );
    found.or_else(|| id_of(Database::Group, name))
}

/// Asks the name service for a name.
fn name_of(database: Database, id: u32) -> Option<Vec<u8>> {
    let (name, found) = entry(database, id.to_string().as_bytes())?;
    (found == id).then_some(name)
}

/// Asks the name service for an id. A name of digits would be taken for an id.
fn id_of(database: Database, name: &[u8]) -> Option<u32> {
    let (found, id) = entry(database, name)?;
    (found == name).then_some(id)
}

/// Calls a lookup with a growing buffer and extracts the result.
fn query<E, T>(
    ask: impl Fn(*mut E, *mut c_char, usize, *mut *mut E) -> c_int,
    extract: impl FnOnce(&E) -> T,
) -> Option<T> {
    let mut buffer: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<E>::uninit();
        let mut found = std::ptr::null_mut();
        match ask(entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found) {
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < MAX_BUFFER => buffer.resize(buffer.len() * 4, 0),
            // SAFETY: the found entry was filled in; its strings lie in the live `buffer`.
            0 if !found.is_null() => return Some(extract(unsafe { &*found })),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_resolved_both_ways() {
        // Every system has root, and none has that id.
        assert_eq!(user_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!((user_id(b"root"), group_id(b"root")), (Some(0), Some(0)));
        assert_eq!(group_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!((user_name(4_000_000_007), group_name(4_000_000_007)), (None, None));
        assert_eq!((user_id(b"no such user"), group_id(b"x\0y"), user_id(b"")), (None, None, None));
    }
}
