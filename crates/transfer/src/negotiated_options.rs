//! Options of a transfer that both sides must know; see
//! [`KnownOptions`](crate::request::KnownOptions).

use serde::{Deserialize, Serialize};

/// Options that an older numaio does not know. It omits them from a request, and a peer that would
/// ignore one is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NegotiatedOptions {
    /// Copy mount points below a source as empty directories.
    pub one_file_system: bool,
    /// Copy the targets of symbolic links.
    pub copy_links: bool,
    /// Skip entries whose names do not exist at the destination.
    pub existing: bool,
    /// Skip entries whose names exist at the destination, except directories.
    pub ignore_existing: bool,
}
