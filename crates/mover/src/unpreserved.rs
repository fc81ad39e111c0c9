//! Attributes that are not preserved, which are reported once for each kind.

use crate::drive::PeerState;
use crate::name::Name;
use crate::port::{Fault, FaultKind};
use crate::report::reason;
use crate::wire::ProblemSubject;
use std::collections::BTreeMap;

/// Maximum number of kinds; further ones count as the last.
const MAX_KINDS: usize = 64;

/// Attributes that are not preserved, by the text of their report.
///
/// Invariant: each text has the first of its entries and their number, until it is reported.
#[derive(Debug, Default)]
pub(crate) struct UnpreservedAttributes(BTreeMap<String, (FaultKind, Name, u64)>);

impl UnpreservedAttributes {
    /// Counts an entry with an attribute that could not be set, or a similar loss.
    pub fn add(&mut self, name: &Name, why: FaultKind, text: &str) {
        if let Some((_, _, count)) = self.0.get_mut(text) {
            *count += 1;
        } else if self.0.len() < MAX_KINDS {
            self.0.insert(text.to_owned(), (why, name.clone(), 1));
        } else if let Some(mut last) = self.0.last_entry() {
            last.get_mut().2 += 1;
        }
    }

    /// Reports each kind once, with its first entry and their number.
    pub fn report<B: AsRef<[u8]>>(&mut self, peer: &mut PeerState<B>) {
        for (text, (why, name, count)) in std::mem::take(&mut self.0) {
            let text = match count - 1 {
                0 => text,
                1 => format!("{text} (and 1 other entry)"),
                others => format!("{text} (and {others} other entries)"),
            };
            peer.report_problem(ProblemSubject::Name(name), reason(why), &text);
        }
    }
}

/// Returns whether an object is complete except for attributes.
pub(crate) fn is_complete(fault: &Fault) -> bool {
    matches!(fault.why, FaultKind::Attribute | FaultKind::NotKept)
}
