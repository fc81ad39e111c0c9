//! Lists of extents.

use super::bytes::{put_number, Reader};
use super::error::WireError;
use crate::entry::MAX_EXTENTS;
use crate::extent::Extent;

/// Checks that there are extents, not too many, in ascending order and not touching.
pub fn check_extents(extents: &[Extent]) -> Result<(), WireError> {
    let (length, limit) = (extents.len() as u64, MAX_EXTENTS as u64);
    if length > limit {
        return Err(WireError::TooLong { what: "the extents of a file", length, limit });
    }
    if extents.is_empty() || !extents.windows(2).all(|pair| pair[0].end() < pair[1].start()) {
        return Err(WireError::InvalidValue("the extents of a file"));
    }
    Ok(())
}

/// Writes the number of extents, and for each the gap since the previous one and the length.
pub fn put_extents(out: &mut Vec<u8>, extents: &[Extent]) {
    put_number(out, extents.len() as u64);
    let mut at = 0;
    for extent in extents {
        put_number(out, extent.start() - at);
        put_number(out, extent.length());
        at = extent.end();
    }
}

/// Reads extents written by [`put_extents`].
pub fn read_extents(reader: &mut Reader<'_>) -> Result<Vec<Extent>, WireError> {
    let what = "the extents of a file";
    let count = reader.number(what)?;
    if count > MAX_EXTENTS as u64 {
        return Err(WireError::TooLong { what, length: count, limit: MAX_EXTENTS as u64 });
    }
    let mut extents = Vec::new();
    let mut at = 0u64;
    for _ in 0..count {
        let start = at.checked_add(reader.number(what)?);
        let extent = Extent::at(start.ok_or(WireError::InvalidValue(what))?, reader.number(what)?);
        let extent = extent.ok_or(WireError::InvalidValue(what))?;
        at = extent.end();
        extents.push(extent);
    }
    Ok(extents)
}
