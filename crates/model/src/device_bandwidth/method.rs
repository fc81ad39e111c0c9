//! How bytes move between a device and memory: whether the paths bound its bandwidth.

use numaio_machine::devices::{Device, DeviceKind};
use numaio_machine::ids::NodeId;
use numaio_schema::{ExpectedBandwidth, UnknownDifference};

/// How bytes move between a device and the memory of nodes.
///
/// min(limit, path) is the bandwidth of DMA with many large requests. Of other methods it is an
/// upper bound at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum TransferMethod<'a> {
    /// The device copies large blocks, many requests at a time.
    #[default]
    Dma,
    /// The same with buffers that fit the caches of the CPUs.
    DmaWithinCaches,
    /// One request at a time, or small packets that a driver polls for.
    LatencyBound,
    /// CPUs or kernels of a GPU load and store: memory of a CXL device, persistent memory, mapped
    /// memory of a GPU.
    LoadsAndStores {
        /// Latency by node in nanoseconds; empty if unknown.
        latency_ns: &'a [(NodeId, f64)],
    },
    /// Another device is the other end.
    PeerToPeer,
}

impl TransferMethod<'_> {
    /// Returns the method of a device: the CPU copies what is written to persistent memory
    /// (`Documentation/driver-api/nvdimm/nvdimm.rst`), other devices use DMA.
    pub fn of(device: &Device) -> Self {
        let is_pmem = |name: &String| name.starts_with("pmem");
        match device.kind == DeviceKind::Block && device.names.iter().any(is_pmem) {
            true => Self::LoadsAndStores { latency_ns: &[] },
            false => Self::Dma,
        }
    }

    /// Whether the paths between nodes are upper bounds.
    pub(super) fn is_bounded_by_paths(self) -> bool {
        !matches!(self, Self::LatencyBound | Self::PeerToPeer)
    }

    /// Returns why the upper bounds of `nodes` do not show whether the nodes differ by more than
    /// `level`; `None` if they do, as far as the method is concerned.
    pub(super) fn unknown_difference(
        self,
        nodes: &[ExpectedBandwidth],
        level: f64,
    ) -> Option<UnknownDifference> {
        match self {
            Self::Dma => None,
            // Caches make a path faster, never slower.
            Self::DmaWithinCaches => {
                nodes.iter().any(|node| node.class > 1).then_some(UnknownDifference::WithinCaches)
            }
            Self::LatencyBound => Some(UnknownDifference::LatencyBound),
            Self::LoadsAndStores { latency_ns } => {
                let slowest_of_best = slowest_share(latency_ns, nodes);
                let is_alike = slowest_of_best.is_some_and(|(least, _)| least >= 1.0 - level);
                (!is_alike).then_some(UnknownDifference::LoadsAndStores { slowest_of_best })
            }
            Self::PeerToPeer => Some(UnknownDifference::PeerToPeer),
        }
    }
}

/// Returns the least and the most that the slowest node can have of the best node's bandwidth with
/// loads and stores: between the ratio of latencies (a fixed number of lines in flight) and that of
/// the upper bounds. `None` unless each node has a latency.
fn slowest_share(latency_ns: &[(NodeId, f64)], nodes: &[ExpectedBandwidth]) -> Option<(f64, f64)> {
    let known = |node: &ExpectedBandwidth| {
        let (_, ns) = latency_ns.iter().find(|(of, _)| *of == node.node)?;
        (ns.is_finite() && *ns > 0.0).then_some(*ns)
    };
    let latencies: Vec<f64> = nodes.iter().map(known).collect::<Option<_>>()?;
    let bounds: Vec<f64> = nodes.iter().map(|node| node.bytes_per_s).collect();
    let (shares, most) = (ratio(&latencies)?, ratio(&bounds)?);
    Some((shares.min(most), most))
}

/// Returns the smallest over the greatest value.
fn ratio(values: &[f64]) -> Option<f64> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    (most > 0.0).then_some(least / most)
}
