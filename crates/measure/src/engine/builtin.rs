//! Built-in engines, whose streams the machine runs itself.

use super::visit::{CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, ProbeError};
use numaio_machine::workload::{DiskPath, IoPath, IoWorkload, Workload};
use numaio_schema::IoEngine;

/// A disk, or a file on one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Path and method.
    pub path: DiskPath,
}

/// Null engine: moves no data, to measure numaio's own overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Null;

/// Creates the workload of a cell through a path.
pub(crate) fn streams(through: IoPath, request: &CellRequest) -> Workload {
    Workload::Io(IoWorkload {
        path: through,
        others: Vec::new(),
        groups: request.groups.to_vec(),
        block_bytes: request.block_bytes,
        depth: request.depth,
        sampling: request.sampling(),
        max_bytes: request.most_bytes,
    })
}

impl Engine for Disk {
    fn engine(&self) -> IoEngine {
        IoEngine::Disk
    }

    fn disk(&self) -> Option<&DiskPath> {
        Some(&self.path)
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        Ok(streams(IoPath::Disk(self.path.clone()), request))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        VisitFigures::of_io(outcome)
    }
}

impl Engine for Null {
    fn engine(&self) -> IoEngine {
        IoEngine::Null
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        Ok(streams(IoPath::Null, request))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        VisitFigures::of_io(outcome)
    }
}
