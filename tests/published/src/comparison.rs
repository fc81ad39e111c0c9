//! Compares predictions with observations: by row, by set and in all.

use crate::count::Count;
use crate::expected::expected;
use crate::read::{SetError, Values};
use crate::set::{MemoryMatrix, PublishedRow, PublishedSet, RowDirection};
use numaio_machine::ids::NodeId;
use numaio_schema::DeviceExpectation;
use std::fmt;

/// Published sets, compared with predictions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// The sets, in the order of their files.
    pub sets: Vec<SetComparison>,
    /// Files that could not be read, with the reasons.
    pub broken: Vec<(String, String)>,
}

/// A set, compared with predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct SetComparison {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: Vec<RowComparison>,
}

/// A row of a set, compared with predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct RowComparison {
    /// Its direction, as published.
    pub label: String,
    /// Its devices.
    pub devices: Vec<DeviceComparison>,
    /// Why numaio refuses the row or some of its devices, each reason once.
    pub refused: Vec<String>,
}

/// A device of a row, compared with predictions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceComparison {
    /// By hop distance.
    pub hops: Count,
    /// By the copy in the direction of the flow; `None` without a matrix of bandwidth.
    pub cell: Option<Count>,
    /// By numaio.
    pub numaio: Count,
    /// The rate of the slowest other node over the own node's: observed, by the copy, by numaio.
    pub ratios: [Option<f64>; 3],
}

impl Comparison {
    /// Adds a file of a set.
    pub fn add(&mut self, name: &str, text: Result<String, String>) {
        let read =
            |text: String| PublishedSet::from_json(name, &text).map_err(|error: SetError| error.to_string());
        match text.and_then(read) {
            Ok(set) => self.sets.push(SetComparison::of(&set)),
            Err(error) => self.broken.push((name.to_owned(), error)),
        }
    }

    /// Returns the devices of all rows.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceComparison> {
        self.sets.iter().flat_map(SetComparison::devices)
    }
}

impl SetComparison {
    /// Compares a set.
    pub fn of(set: &PublishedSet) -> Self {
        Self { name: set.name.clone(), rows: set.rows.iter().map(|row| compare_row(set, row)).collect() }
    }

    /// Returns the devices of all rows.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceComparison> {
        self.rows.iter().flat_map(|row| &row.devices)
    }
}

/// Adds counts.
pub fn sum(counts: impl IntoIterator<Item = Count>) -> Count {
    counts.into_iter().fold(Count::default(), |mut all, one| {
        all += one;
        all
    })
}

fn compare_row(set: &PublishedSet, row: &PublishedRow) -> RowComparison {
    let mut refused = Vec::new();
    if row.is_between_devices {
        refused.extend(expected(set, row, 0).err());
    }
    let mut devices = Vec::new();
    for (device, rates) in row.rates.iter().enumerate() {
        let found = expected(set, row, device);
        devices.push(compare_device(set, row, device, rates, found.as_ref().ok()));
        refused.extend(found.err());
    }
    refused.dedup();
    RowComparison { label: row.label.clone(), devices, refused }
}

fn compare_device(
    set: &PublishedSet,
    row: &PublishedRow,
    device: usize,
    rates: &Values,
    found: Option<&DeviceExpectation>,
) -> DeviceComparison {
    let value = |node: usize| found?.of(NodeId(node as u32));
    let numaio = Count::of(rates, |one, other| {
        // A lower class is better.
        Some(value(other)?.class.cmp(&value(one)?.class))
    });
    let own = set.device_nodes.get(device).copied().flatten().map(|node| node as usize);
    let own = own.filter(|own| *own < rates.len() && row.other_unit.is_none());
    let Some(own) = own else { return DeviceComparison { numaio, ..DeviceComparison::default() } };
    let hops = hops(set, own, rates.len());
    let flow = flow(set, row.direction, own, rates.len());
    let order_of = |values: &Values, one: usize, other: usize| {
        Some(crate::count::order(*values.get(one)?.as_ref()?, *values.get(other)?.as_ref()?))
    };
    let expected: Values = (0..rates.len()).map(|node| Some(value(node)?.bytes_per_s)).collect();
    DeviceComparison {
        hops: Count::of(rates, |one, other| hops.get(other)?.partial_cmp(hops.get(one)?)),
        cell: flow.as_ref().map(|flow| Count::of(rates, |one, other| order_of(flow, one, other))),
        numaio,
        ratios: [Some(rates), flow.as_ref(), Some(&expected)].map(|values| worst_ratio(values?, own)),
    }
}

/// Returns the hop distances from a node: firmware's, or own node, package, others.
fn hops(set: &PublishedSet, own: usize, nodes: usize) -> Vec<f64> {
    if let MemoryMatrix::Distances(rows) = &set.memory {
        if let Some(row) = rows.get(own) {
            return row.iter().map(|distance| distance.unwrap_or(f64::NAN)).collect();
        }
    }
    let sockets = set.sockets.unwrap_or(u32::MAX) as usize;
    let of_package = (nodes / sockets.max(1)).max(1);
    let distance = |node: usize| match (node == own, node / of_package == own / of_package) {
        (true, _) => 10.0,
        (_, true) => 16.0,
        _ => 20.0,
    };
    (0..nodes).map(distance).collect()
}

/// Returns the copies in the direction of the flow by node.
fn flow(set: &PublishedSet, direction: RowDirection, own: usize, nodes: usize) -> Option<Values> {
    let path = set.memory.paths(direction, own)?;
    let of = |node: usize| match direction {
        RowDirection::Write | RowDirection::Both => path(node as u32, own as u32),
        RowDirection::Read => path(own as u32, node as u32),
    };
    Some((0..nodes).map(of).collect())
}

/// Returns the value of the slowest other node over that of the own node.
fn worst_ratio(values: &Values, own: usize) -> Option<f64> {
    let others = values.iter().enumerate().filter(|(node, _)| *node != own).filter_map(|(_, value)| *value);
    Some(others.min_by(f64::total_cmp)? / (*values.get(own)?)?)
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, misordered, invented, missed, refused } = self;
        write!(
            f,
            "{pairs} pairs, {misordered} misordered, {invented} invented, {missed} missed, {refused} refused"
        )
    }
}
