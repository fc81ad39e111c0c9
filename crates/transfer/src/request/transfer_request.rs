//! The request that describes a transfer to both sides, local and remote.

use super::capabilities::Capabilities;
use crate::endpoint::Endpoint;
use crate::options::CopyOptions;
use crate::placement::{Placer, SidePlan};
use crate::TransferError;
use numaio_linux::random;
use numaio_mover::port::BlockSize;
use numaio_mover::wire::Side;
use numaio_mover_linux::files::Base;
use serde::{Deserialize, Serialize};

/// Maximum number of threads that a daemon's user may request.
const MOST_THREADS: u32 = 64;

/// Maximum block size of a daemon's user in bytes, which limits the memory of a session.
const MOST_BLOCK: u64 = 4 << 20;

/// Version of a request, which changes with that of the protocol.
pub const VERSION: u32 = 1;

/// A transfer as requested of both sides, local and remote.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransferRequest {
    /// [`VERSION`].
    pub numaio_copy: u32,
    /// Paths of the sources, on their host.
    pub from: Vec<Vec<u8>>,
    /// Path of the destination, on its host.
    pub to: Vec<u8>,
    /// Options that both sides receive.
    #[serde(flatten)]
    pub options: CopyOptions,
    /// The sink's capabilities.
    #[serde(flatten)]
    pub capabilities: Capabilities,
    /// Identity of the transfer.
    pub(super) transfer: [u8; 16],
    /// Whether an earlier attempt was lost.
    pub(super) is_retry: bool,
    /// Plans of the local sides; `None` at the peer, which does not receive them.
    #[serde(skip)]
    pub(super) plans: Option<Vec<SidePlan>>,
    /// The plan that the other host sent for this side.
    #[serde(skip)]
    pub(super) remote_plan: Option<SidePlan>,
    /// Root of this side's paths.
    #[serde(skip)]
    pub(super) base: Base,
    /// Whether it comes from a user of a daemon, who cannot set set-ID bits.
    #[serde(skip)]
    pub(super) is_for_daemon_user: bool,
    /// Whether both sides are in this process, which knows that a directory is inside another.
    #[serde(skip)]
    pub(super) is_local: bool,
}

impl TransferRequest {
    /// Builds the request of the local side; `is_retry` is whether an earlier attempt was lost.
    pub fn new(
        (from, to): (&[Endpoint], &Endpoint),
        options: CopyOptions,
        plans: Vec<SidePlan>,
        is_retry: bool,
    ) -> Result<Self, TransferError> {
        let block = options.block;
        Ok(Self {
            numaio_copy: VERSION,
            from: from.iter().map(|end| end.path.clone()).collect(),
            to: to.path.clone(),
            options,
            capabilities: Capabilities {
                eager_data: false,
                hard_links: true,
                named_acls: true,
                in_order: false,
                block,
            },
            transfer: random_bytes()?,
            is_retry,
            plans: Some(plans),
            remote_plan: None,
            base: Base::Host,
            is_for_daemon_user: false,
            is_local: from.iter().chain([to]).all(|end| end.host.is_none()),
        })
    }

    /// Reads the plan for this side, if the other host sent one.
    ///
    /// # Errors
    /// [`TransferError::RemotePlan`] if it is not a valid plan for this side of this machine.
    pub fn read_remote_plan(&mut self, side: Side, placer: &dyn Placer) -> Result<(), TransferError> {
        let Some(text) = self.options.entries.remote_plan.take() else { return Ok(()) };
        let plan = placer.plan(&text).map_err(TransferError::RemotePlan)?;
        if plan.side() != side {
            let why = "it is for the other side: plan the far side with the other direction";
            return Err(TransferError::RemotePlan(why.to_owned()));
        }
        self.remote_plan = Some(plan);
        Ok(())
    }

    /// Sets the block size, unless the user has chosen one: the sink decides.
    pub fn choose_block(&mut self) {
        self.capabilities.block = Some(self.capabilities.block_size());
    }

    /// Makes all paths relative to the root: `/a` is `a` in it.
    pub fn make_paths_relative(&mut self) {
        for path in self.from.iter_mut().chain([&mut self.to]) {
            let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
            path.drain(..slashes);
            if path.is_empty() {
                // The trailing slash of a root means its contents.
                *path = b"./".to_vec();
            }
        }
    }

    /// Restricts the request to a daemon's grants: paths below a root, a maximum rate, and set-ID
    /// bits if allowed.
    pub fn restrict(&mut self, base: Base, bytes_per_second: Option<u64>, set_id: bool) {
        self.base = base;
        self.is_for_daemon_user = !set_id;
        self.options.bytes_per_second =
            [self.options.bytes_per_second, bytes_per_second].into_iter().flatten().min();
        self.options.threads = self.options.threads.map(|threads| threads.clamp(1, MOST_THREADS));
        let most = BlockSize::new(MOST_BLOCK).unwrap_or_default();
        self.capabilities.block = self.capabilities.block.map(|block| block.min(most));
    }
}

/// Returns random bytes for identities.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], TransferError> {
    random::bytes().map_err(TransferError::NoRandomNumbers)
}
