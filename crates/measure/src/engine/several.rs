//! Several devices of one kind at the same time.

use super::builtin::streams;
use super::visit::{CellRequest, Engine, VisitFigures};
use numaio_machine::probe::{Outcome, ProbeError};
use numaio_machine::workload::{DiskPath, IoPath, StreamGroup, Workload};
use numaio_schema::IoEngine;

/// Several devices of one kind, whose streams numaio runs itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Several {
    /// The built-in engine of each device.
    pub engine: IoEngine,
    /// The devices, in the order of [`StreamGroup::device`].
    pub paths: Vec<IoPath>,
}

impl Engine for Several {
    fn engine(&self) -> IoEngine {
        self.engine
    }

    fn disk(&self) -> Option<&DiskPath> {
        self.paths.iter().find_map(|path| match path {
            IoPath::Disk(disk) => Some(disk),
            _ => None,
        })
    }

    /// Creates a workload of those devices only that have streams.
    fn workload(&self, request: &CellRequest) -> Result<Workload, ProbeError> {
        let mut used: Vec<usize> = request.groups.iter().map(|group| group.device).collect();
        used.sort_unstable();
        used.dedup();
        let paths: Option<Vec<IoPath>> = used.iter().map(|device| self.paths.get(*device).cloned()).collect();
        let absent = || ProbeError::Unsupported { feature: "streams of a device without a path".to_owned() };
        let mut paths = paths.ok_or_else(absent)?.into_iter();
        let through = paths.next().ok_or_else(absent)?;
        let renumbered = |group: &StreamGroup| StreamGroup {
            device: used.binary_search(&group.device).unwrap_or(0),
            ..group.clone()
        };
        let groups: Vec<StreamGroup> = request.groups.iter().map(renumbered).collect();
        let mut workload = streams(through, &CellRequest { groups: &groups, ..*request });
        if let Workload::Io(io) = &mut workload {
            io.others = paths.collect();
        }
        Ok(workload)
    }

    fn read(&self, outcome: &Outcome) -> Result<VisitFigures, ProbeError> {
        VisitFigures::of_io(outcome)
    }
}
