//! Requests to the source, in as few frames as possible.

use crate::drive::PeerState;
use crate::entry::FileNumber;
use crate::wire::{DataRequest, DataRequests, Frame, NeededData, WireError, MAX_REQUESTS};
use std::collections::BTreeMap;

/// Maximum requests with extents in one frame, so that its length stays within the limit.
const MAX_REQUESTS_WITH_EXTENTS: usize = 4;

/// Sends requests for files, by number.
pub(super) fn send<B: AsRef<[u8]>>(
    answers: BTreeMap<FileNumber, NeededData>,
    peer: &mut PeerState<B>,
) -> Result<(), WireError> {
    let wants = merge(answers);
    let mut rest = wants.as_slice();
    while !rest.is_empty() {
        let most = if has_extents(rest) { MAX_REQUESTS_WITH_EXTENTS } else { MAX_REQUESTS };
        let (some, more) = rest.split_at(rest.len().min(most));
        rest = more;
        peer.send(&Frame::DataRequests(DataRequests::new(some.to_vec())?));
    }
    Ok(())
}

/// Merges equal requests for consecutive files.
fn merge(answers: BTreeMap<FileNumber, NeededData>) -> Vec<DataRequest> {
    let mut wants: Vec<DataRequest> = Vec::new();
    for (first, what) in answers {
        match wants.last_mut() {
            Some(last) if last.first.get() + last.count == first.get() && last.what == what => {
                last.count += 1;
            }
            _ => wants.push(DataRequest { first, count: 1, what }),
        }
    }
    wants
}

fn has_extents(wants: &[DataRequest]) -> bool {
    wants.iter().any(|want| matches!(want.what, NeededData::Some(_)))
}
