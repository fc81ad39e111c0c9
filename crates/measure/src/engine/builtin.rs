//! Our own engines: streams that the machine itself runs.

use super::{Asked, Engine, Moved};
use numaio_machine::probe::{Outcome, ProbeError};
use numaio_machine::workload::{DiskPath, IoPath, IoWorkload, Workload};
use numaio_schema::IoEngine;

/// A disk, or a file on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Where, and how.
    pub path: DiskPath,
}

/// Nothing is moved: what is measured is our own overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Null;

/// Streams through a path.
pub(crate) fn streams(through: IoPath, asked: &Asked) -> Workload {
    Workload::Io(IoWorkload {
        through,
        groups: asked.groups.to_vec(),
        block_bytes: asked.block_bytes,
        depth: asked.depth,
        sampling: asked.sampling(),
        most_bytes: asked.most_bytes,
    })
}

impl Engine for Disk {
    fn engine(&self) -> IoEngine {
        IoEngine::Disk
    }

    fn disk(&self) -> Option<&DiskPath> {
        Some(&self.path)
    }

    fn workload(&self, asked: &Asked) -> Result<Workload, ProbeError> {
        Ok(streams(IoPath::Disk(self.path.clone()), asked))
    }

    fn read(&self, outcome: &Outcome) -> Result<Moved, ProbeError> {
        Moved::of_io(outcome)
    }
}

impl Engine for Null {
    fn engine(&self) -> IoEngine {
        IoEngine::Null
    }

    fn workload(&self, asked: &Asked) -> Result<Workload, ProbeError> {
        Ok(streams(IoPath::Null, asked))
    }

    fn read(&self, outcome: &Outcome) -> Result<Moved, ProbeError> {
        Moved::of_io(outcome)
    }
}
