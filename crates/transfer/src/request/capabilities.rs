//! Capabilities that the two sides of a transfer negotiate.

use super::known_options::KnownOptions;
use numaio_mover::port::BlockSize;
use serde::{Deserialize, Serialize};

/// What the sink accepts, and the options that the peer knows. An older numaio omits the fields
/// that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Data that the source sends before the sink requests it.
    #[serde(rename = "unasked")]
    pub eager_data: bool,
    /// Holes as ranges; an older numaio receives zeros.
    pub holes: bool,
    /// Hard links.
    #[serde(rename = "links")]
    pub hard_links: bool,
    /// ACLs with names of users and groups; an older numaio receives numbers.
    #[serde(rename = "acls")]
    pub named_acls: bool,
    /// The change times of large files.
    #[serde(rename = "changed")]
    pub change_times: bool,
    /// Files that are truncated while they are read.
    pub truncation: bool,
    /// Data of each file in order only.
    pub in_order: bool,
    /// The block size: in a request the one that the user or the sink wants, in a reply the one
    /// that the peer uses. An older numaio omits it and uses the default.
    #[serde(with = "crate::block_bytes")]
    pub block: Option<BlockSize>,
    /// The negotiated options that the peer knows.
    #[serde(rename = "knows")]
    pub known_options: KnownOptions,
}

impl Capabilities {
    /// Returns the block size of a transfer with a peer that sent these capabilities.
    pub fn block_size(&self) -> BlockSize {
        self.block.unwrap_or_default()
    }
}

impl Default for Capabilities {
    /// Returns the capabilities of an older numaio, which does not send any.
    fn default() -> Self {
        Self {
            eager_data: false,
            holes: false,
            hard_links: true,
            named_acls: false,
            change_times: false,
            truncation: false,
            in_order: false,
            block: None,
            known_options: KnownOptions::default(),
        }
    }
}
