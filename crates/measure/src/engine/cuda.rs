//! Built-in streams to and from a GPU through the CUDA driver.

use super::builtin::streams;
use super::visit::{CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, ProbeError};
use numaio_machine::workload::{IoPath, Workload};
use numaio_schema::IoEngine;

/// A GPU. A device write is SHOC's download, a device read its readback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cuda {
    /// Index of the driver.
    pub device: u32,
}

impl Engine for Cuda {
    fn engine(&self) -> IoEngine {
        IoEngine::Cuda
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        Ok(streams(IoPath::Gpu { device: self.device }, request))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        VisitFigures::of_io(outcome)
    }
}
