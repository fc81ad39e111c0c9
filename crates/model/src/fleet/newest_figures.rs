//! The newest figures of the hosts of a fleet.

use numaio_schema::{FigureRow, FleetData, FleetGroup, FleetHost};
use std::collections::HashMap;

/// The newest and the previous value of each figure of each host.
///
/// Rows are found through sorted indices: a map of the millions of rows of a large fleet would take
/// several times their memory.
pub(crate) struct NewestFigures<'a> {
    data: &'a FleetData,
    /// Indices of the rows by host, key and time.
    order: Vec<u32>,
    /// Start of each host's part of `order`, and the end of the last.
    starts: Vec<usize>,
    /// Index of each host by name.
    hosts: HashMap<&'a str, u32>,
}

impl<'a> NewestFigures<'a> {
    /// Sorts the figures of a fleet.
    pub(crate) fn of(data: &'a FleetData) -> Self {
        let mut order: Vec<u32> = (0..data.figures.len() as u32).collect();
        order.sort_by_key(|index| {
            let row = data.figures[*index as usize];
            (row.host, row.key, row.measured_at)
        });
        let start =
            |host: usize| order.partition_point(|index| (data.figures[*index as usize].host as usize) < host);
        let starts = (0..=data.hosts.len()).map(start).collect();
        let hosts = data.hosts.iter().map(|host| host.name.as_str()).zip(0..).collect();
        Self { data, order, starts, hosts }
    }

    /// Returns the fleet.
    pub(crate) fn data(&self) -> &'a FleetData {
        self.data
    }

    /// Returns the newest row of a host's figure, and the one before.
    pub(crate) fn newest(&self, host: u32, key: u32) -> Option<(FigureRow, Option<FigureRow>)> {
        let row = |index: &u32| self.data.figures[*index as usize];
        let host = host as usize;
        let own = &self.order[*self.starts.get(host)?..*self.starts.get(host + 1)?];
        let end = own.partition_point(|index| row(index).key <= key);
        let mut own = own[..end].iter().rev().map(row).take_while(|row| row.key == key);
        Some((own.next()?, own.next()))
    }

    /// Returns a host by name, with its index.
    pub(crate) fn host(&self, name: &str) -> Option<(u32, &'a FleetHost)> {
        let index = *self.hosts.get(name)?;
        self.data.hosts.get(index as usize).map(|host| (index, host))
    }

    /// Returns the hosts of a group, with their indices.
    pub(crate) fn members(&self, group: &FleetGroup) -> Vec<(u32, &'a FleetHost)> {
        group.hosts.iter().filter_map(|name| self.host(name)).collect()
    }

    /// Returns the newest row of each member, for a key; `None` for a member without one.
    pub(crate) fn values(&self, members: &[(u32, &FleetHost)], key: u32) -> Vec<Option<FigureRow>> {
        members.iter().map(|(host, _)| self.newest(*host, key).map(|(newest, _)| newest)).collect()
    }
}
