//! Our own streams through TCP.

use super::{streams, Asked, Engine, Far, Moved};
use numaio_machine::probe::{Outcome, ProbeError};
use numaio_machine::workload::{IoPath, TcpPath, Workload};
use numaio_schema::IoEngine;

/// TCP to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    /// The other end.
    pub far: Far,
}

impl Engine for Tcp {
    fn engine(&self) -> IoEngine {
        IoEngine::Tcp
    }

    fn workload(&self, asked: &Asked) -> Result<Workload, ProbeError> {
        let path = TcpPath { peer: self.far.peer.clone(), there: self.far.there(asked.operation) };
        Ok(streams(IoPath::Tcp(path), asked))
    }

    fn read(&self, outcome: &Outcome) -> Result<Moved, ProbeError> {
        Moved::of_io(outcome)
    }
}
