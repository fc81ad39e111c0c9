//! Names of the files that a sink creates for its own use.

use crate::name::Name;
use crate::wire::TransferId;

/// Start of the names of journals, in the root of the sink.
pub const JOURNAL: &[u8] = b".numaio-journal";
/// Hexadecimal digits after [`JOURNAL`] and a hyphen.
const JOURNAL_DIGITS: usize = 16;
/// Hexadecimal digits at the end of the name of a shard's journal: its number, from 0.
const SHARD_DIGITS: usize = 4;
const PARTIAL: &[u8] = b".numaio-part-";
const MARKER: &[u8] = b".numaio-marker-";
/// Hexadecimal digits after [`PARTIAL`] and [`MARKER`].
const DIGITS: usize = 32;

/// Returns whether a component names a journal, a marker or a partial file. These are never
/// transferred.
pub fn is_own_file(component: &[u8]) -> bool {
    let is_partial = component.strip_prefix(PARTIAL).is_some_and(|digits| is_hex(digits, DIGITS));
    is_partial || is_journal(component) || is_marker(component)
}

/// Returns whether a component names a marker of a destination.
pub fn is_marker(component: &[u8]) -> bool {
    component.strip_prefix(MARKER).is_some_and(|digits| is_hex(digits, DIGITS))
}

/// A directory that a transfer marks with a file, so that its source recognizes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkedDirectory {
    /// The destination.
    Destination,
    /// The directory of backups.
    Backups,
    /// A directory of the source.
    Source,
}

/// Returns the name of the marker of a directory. Only the sides of the transfer know it.
pub fn marker_name(transfer: TransferId, of: MarkedDirectory) -> Vec<u8> {
    let salt = [of as u8];
    let hash = twox_hash::XxHash3_128::oneshot(&[&transfer.0[..], &salt].concat());
    [MARKER, format!("{hash:0DIGITS$x}").as_bytes()].concat()
}

/// Returns whether a component names a journal.
pub fn is_journal(component: &[u8]) -> bool {
    let digits = component.strip_prefix(JOURNAL).and_then(|rest| rest.strip_prefix(b"-"));
    digits.is_some_and(|digits| is_hex(digits, JOURNAL_DIGITS))
}

/// Returns the name of the journal of shard `number` of a transfer of these objects.
///
/// The number of shards is not part of it, so that a run which looks for abandoned shards finds
/// those of any number.
pub fn shard_journal_name<'a>(objects: impl IntoIterator<Item = &'a [u8]>, number: u32) -> Vec<u8> {
    // No typed object begins with a zero byte.
    let mut name = journal_name([&b"\0shards"[..]].into_iter().chain(objects));
    name.truncate(name.len() - SHARD_DIGITS);
    name.extend(format!("{:0SHARD_DIGITS$x}", number.saturating_sub(1)).as_bytes());
    name
}

/// Returns the number of the shard of which a component names the journal, given the name of the
/// journal of any shard of the same transfer.
pub fn shard_of_journal(component: &[u8], other: &[u8]) -> Option<u32> {
    let common = other.len().checked_sub(SHARD_DIGITS)?;
    let is_sibling = is_journal(component) && is_journal(other) && component.len() == other.len();
    let digits = component.strip_prefix(&other[..common]).filter(|_| is_sibling)?;
    let index = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(index + 1)
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
    fn journals_of_shards_are_recognized_by_each_other() {
        let of = |objects: &[&'static [u8]], number| shard_journal_name(objects.iter().copied(), number);
        let (first, last) = (of(&[b"a"], 1), of(&[b"a"], 65_536));
        assert!(is_own_file(&first) && is_own_file(&last));
        assert_eq!(
            (shard_of_journal(&first, &last), shard_of_journal(&last, &first)),
            (Some(1), Some(65_536))
        );
        for other in [of(&[b"b"], 1), of(&[b"a", b"b"], 1), journal_name([&b"a"[..]])] {
            assert_eq!(shard_of_journal(&other, &first), None);
        }
    }

    #[test]
    fn partial_file_is_in_the_same_directory_and_recognized() {
        let name = |bytes: &[u8]| Name::new(bytes).expect("a name");
        let of = |id: u8, bytes: &[u8]| partial_name(TransferId([id; 16]), &name(bytes));
        let deep = name(&of(1, b"a/b/c"));
        assert_eq!(deep.parent(), Some(name(b"a/b")));
        assert!(
            is_own_file(deep.last().expect("a component"))
                && is_own_file(&of(1, b"c"))
                && !is_own_file(JOURNAL)
                && is_own_file(&journal_name([&b"a"[..]]))
        );
        assert_ne!(of(1, b"c"), of(2, b"c"));
        let marker = |id: u8, of| marker_name(TransferId([id; 16]), of);
        let markers = [
            marker(1, MarkedDirectory::Destination),
            marker(1, MarkedDirectory::Backups),
            marker(2, MarkedDirectory::Destination),
        ];
        assert!(markers.iter().all(|name| is_own_file(name) && is_marker(name) && !is_journal(name)));
        assert!(markers[0] != markers[1] && markers[0] != markers[2]);
        assert_ne!(journal_name([&b"a"[..], b"b"]), journal_name([&b"ab"[..]]));
        for other in
            [&b".numaio-part-"[..], b".numaio-part-0123456789abcdef0123456789abcdeg", b".numaio", b"part"]
        {
            assert!(!is_own_file(other));
        }
    }
}
