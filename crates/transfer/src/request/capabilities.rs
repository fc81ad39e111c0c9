//! Capabilities that the two sides of a transfer negotiate.

use numaio_mover::port::BlockSize;
use serde::{Deserialize, Serialize};

/// Capabilities of the sink at its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Data that the source sends before the sink requests it.
    pub eager_data: bool,
    /// Hard links.
    pub hard_links: bool,
    /// ACLs with names of users and groups; otherwise the source sends numbers.
    pub named_acls: bool,
    /// Data of each file in order only; in a request whether the file system may need that, because
    /// a local destination is not tested before the peer replies.
    pub in_order: bool,
    /// The block size: in a request the one that the user or the sink wants, in a reply the one
    /// that the peer uses.
    #[serde(with = "crate::block_bytes")]
    pub block: Option<BlockSize>,
}

impl Capabilities {
    /// Returns the block size of a transfer with a peer that sent these capabilities.
    pub fn block_size(&self) -> BlockSize {
        self.block.unwrap_or_default()
    }
}
