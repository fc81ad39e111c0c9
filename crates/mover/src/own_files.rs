//! Names of the files that a sink creates for its own use.

use crate::name::Name;
use crate::wire::TransferId;

/// Name of the journal, in the root of the sink.
pub const JOURNAL: &[u8] = b".numaio-journal";
const PARTIAL: &[u8] = b".numaio-part-";
/// Hexadecimal digits after [`PARTIAL`].
const DIGITS: usize = 32;

/// Returns whether a component names a journal or partial file. These are never transferred.
pub fn is_own_file(component: &[u8]) -> bool {
    let digits = component.strip_prefix(PARTIAL);
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    component == JOURNAL || digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_hex))
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
        );
        assert_ne!(of(1, b"c"), of(2, b"c"));
        for other in
            [&b".numaio-part-"[..], b".numaio-part-0123456789abcdef0123456789abcdeg", b".numaio", b"part"]
        {
            assert!(!is_own_file(other));
        }
    }
}
