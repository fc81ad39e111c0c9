//! Filter rules of a transfer.

use crate::TransferError;
use numaio_mover::filter::{Action, Filter, Pattern};
use serde::{Deserialize, Serialize};

/// A filter rule, as sent to the peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterRule {
    /// Whether matching files are transferred.
    pub include: bool,
    /// Bytes of the pattern.
    pub pattern: Vec<u8>,
}

/// Builds the filter of rules.
pub fn build_filter(rules: &[FilterRule]) -> Result<Filter, TransferError> {
    let mut build_filter = Filter::default();
    for rule in rules {
        let action = if rule.include { Action::Include } else { Action::Exclude };
        let shown = String::from_utf8_lossy(&rule.pattern);
        let pattern = Pattern::new(&rule.pattern);
        let pattern = pattern.map_err(|error| TransferError::InvalidPattern {
            pattern: shown.into_owned(),
            why: error.to_string(),
        })?;
        build_filter.add(action, pattern);
    }
    Ok(build_filter)
}
