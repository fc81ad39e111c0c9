//! Built-in streams over TCP.

use super::builtin::streams;
use super::remote::RemoteEnd;
use super::visit::{CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, ProbeError};
use numaio_machine::workload::{IoPath, TcpPath, Workload};
use numaio_schema::IoEngine;

/// TCP to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    /// Remote end.
    pub far: RemoteEnd,
    /// Congestion control of the streams at both ends; `None` for each machine's own.
    pub congestion: Option<String>,
}

impl Engine for Tcp {
    fn engine(&self) -> IoEngine {
        IoEngine::Tcp
    }

    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let path = TcpPath {
            peer: self.far.peer.clone(),
            peer_placement: self.far.there(request.operation),
            congestion: self.congestion.clone(),
            rail: None,
        };
        Ok(streams(IoPath::Tcp(path), request))
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        VisitFigures::of_io(outcome)
    }
}
