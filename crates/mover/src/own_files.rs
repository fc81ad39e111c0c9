//! Names of the files that a sink creates for its own use.

use crate::name::Name;
use crate::wire::TransferId;

/// Start of the names of journals, in the root of the sink, and the name that an older numaio uses.
pub const JOURNAL: &[u8] = b".numaio-journal";
/// Hexadecimal digits after [`JOURNAL`] and a hyphen.
const JOURNAL_DIGITS: usize = 16;
const PARTIAL: &[u8] = b".numaio-part-";
/// Hexadecimal digits after [`PARTIAL`].
const DIGITS: usize = 32;

/// Returns whether a component names a journal or partial file. These are never transferred.
pub fn is_own_file(component: &[u8]) -> bool {
    is_journal(component) || component.strip_prefix(PARTIAL).is_some_and(|digits| is_hex(digits, DIGITS))
}

/// Returns whether a component names a journal.
pub fn is_journal(component: &[u8]) -> bool {
    let digits = component.strip_prefix(JOURNAL).and_then(|rest| rest.strip_prefix(b"-"));
    component == JOURNAL || digits.is_some_and(|digits| is_hex(digits, JOURNAL_DIGITS))
}

fn is_hex(text: &[u8], digits: usize) -> bool {
    text.len() == digits && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the name of the journal of a transfer of these objects. It is the same for all runs of a
/// command, and differs between commands, so that several can run at once.
pub fn journal_name<'a>(objects: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut hash = twox_hash::XxHash3_64::new();
    for object in objects {
        std::hash::Hasher::write(&mut hash, object);
        std::hash::Hasher::write(&mut hash, b"\0");
    }
    let hash = std::hash::Hasher::finish(&hash);
    [JOURNAL, format!("-{hash:0JOURNAL_DIGITS$x}").as_bytes()].concat()
}

/// Returns the name of the partial file of `name`. It is in the same directory, so that the final
/// rename never crosses file systems, and it differs between transfers.
pub fn partial_name(transfer: TransferId, name: &Name) -> Box<[u8]> {
    let hash = twox_hash::XxHash3_128::oneshot(&[&transfer.0[..], name.as_bytes()].concat());
    let slash = name.as_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let directory = &name.as_bytes()[..slash];
    [directory, PARTIAL, format!("{hash:0DIGITS$x}").as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_file_is_in_the_same_directory_and_recognized() {
        let name = |bytes: &[u8]| Name::new(bytes).expect("a name");
        let of = |id: u8, bytes: &[u8]| partial_name(TransferId([id; 16]), &name(bytes));
        let deep = name(&of(1, b"a/b/c"));
        assert_eq!(deep.parent(), Some(name(b"a/b")));
        assert!(
            is_own_file(deep.last().expect("a component"))
                && is_own_file(&of(1, b"c"))
                && is_own_file(JOURNAL)
                && is_own_file(&journal_name([&b"a"[..]]))
        );
        assert_ne!(of(1, b"c"), of(2, b"c"));
        assert_ne!(journal_name([&b"a"[..], b"b"]), journal_name([&b"ab"[..]]));
        for other in
            [&b".numaio-part-"[..], b".numaio-part-0123456789abcdef0123456789abcdeg", b".numaio", b"part"]
        {
            assert!(!is_own_file(other));
        }
    }
}
