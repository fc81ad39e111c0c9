//! Names and numbers of users and groups: getpwuid_r(3), getpwnam_r(3), getgrgid_r(3), getgrnam_r(3).
//!
//! A static binary asks the files in `/etc` alone, others also the services that `nsswitch.conf` names.

use std::ffi::{c_char, c_int, CStr, CString};
use std::mem::MaybeUninit;

/// Largest room for one answer: a group may have very many members.
const MAX_BUFFER: usize = 16 << 20;

/// The name of a user; none if nobody has the number, or nobody can be asked.
pub fn user_name(id: u32) -> Option<Vec<u8>> {
    query(
        // SAFETY: room is as long as it is said to be, and the other pointers are of live objects.
        |entry, buffer, length, found| unsafe { libc::getpwuid_r(id, entry, buffer, length, found) },
        // SAFETY: a name that was found ends with a zero byte, in the room that is still there.
        |entry: &libc::passwd| unsafe { CStr::from_ptr(entry.pw_name) }.to_bytes().to_vec(),
    )
}

/// The number of a user; none as above.
pub fn user_id(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    query(
        // SAFETY: as above; the name ends with a zero byte.
        |entry, buffer, length, found| unsafe {
            libc::getpwnam_r(name.as_ptr(), entry, buffer, length, found)
        },
        |entry: &libc::passwd| entry.pw_uid,
    )
}

/// The name of a group; none as above.
pub fn group_name(id: u32) -> Option<Vec<u8>> {
    query(
        // SAFETY: as for users.
        |entry, buffer, length, found| unsafe { libc::getgrgid_r(id, entry, buffer, length, found) },
        // SAFETY: as for users.
        |entry: &libc::group| unsafe { CStr::from_ptr(entry.gr_name) }.to_bytes().to_vec(),
    )
}

/// The number of a group; none as above.
pub fn group_id(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    query(
        // SAFETY: as for users.
        |entry, buffer, length, found| unsafe {
            libc::getgrnam_r(name.as_ptr(), entry, buffer, length, found)
        },
        |entry: &libc::group| entry.gr_gid,
    )
}

/// Asks with more and more room, and takes what is wanted out of the answer.
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
            // SAFETY: what is found is the entry, which was filled then; its strings lie in `buffer`, which is still there.
            0 if !found.is_null() => return Some(extract(unsafe { &*found })),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_known_by_name_and_by_number() {
        // Every system has these, and nobody has those.
        assert_eq!(user_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!((user_id(b"root"), group_id(b"root")), (Some(0), Some(0)));
        assert_eq!(group_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!((user_name(4_000_000_007), group_name(4_000_000_007)), (None, None));
        assert_eq!((user_id(b"no such user"), group_id(b"x\0y"), user_id(b"")), (None, None, None));
    }
}
