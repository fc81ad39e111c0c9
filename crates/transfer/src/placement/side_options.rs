//! Options of the threads of a side.

use super::placer::Placer;
use super::plan::SidePlan;
use crate::options::{Io, Placement};
use numaio_mover::wire::Side;

/// Options of the threads of a side.
#[derive(Clone, Copy)]
pub struct SideOptions<'a> {
    /// The side.
    pub side: Side,
    /// How threads and buffers are placed.
    pub placement: Placement,
    /// Number of threads; the default grows.
    pub threads: Option<u32>,
    /// How blocks are read and written past the page cache.
    pub io: Io,
    /// Maximum number of data connections to the sink.
    pub streams: u16,
    /// Whether fewer connections may be used.
    pub may_use_fewer_streams: bool,
    /// Whether threads of one group may help another one.
    pub work_sharing: bool,
    /// The plan for this side.
    pub plan: Option<&'a SidePlan>,
    /// Decides what needs a model of the machine.
    pub placer: &'a dyn Placer,
}
