//! Accounting of the handle's I/O: shares that the kernel promises, and parts that it does not.

use super::resolved::NearNode;
use crate::finding::Finding;
use crate::ids::NodeId;
use crate::set::NodeSet;
use std::collections::{BTreeMap, BTreeSet};

/// The share of the handle's I/O that reaches a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PathShare {
    /// All layers above promise it; from 0 to 1.
    Known(f64),
    /// An unknown part of the I/O of a pool, by its index.
    PartOf(usize),
}

impl PathShare {
    /// Returns a part of this share, from 0 to 1.
    pub fn part(self, part: f64) -> Self {
        match self {
            Self::Known(share) => Self::Known(share * part),
            Self::PartOf(_) if part <= 0.0 => Self::Known(0.0),
            Self::PartOf(_) => self,
        }
    }
}

/// I/O that a layer divides among members without a promise.
struct Pool {
    /// Share of the pool, from 0 to 1.
    share: f64,
    /// Why the division is unknown.
    note: Finding,
    /// Whether a part of it may reach none of the devices.
    is_incomplete: bool,
}

/// A reached device.
struct Reached {
    device: usize,
    step: usize,
    known: f64,
    pools: BTreeSet<usize>,
}

/// A reached device with its share.
pub(super) struct DeviceShare {
    pub device: usize,
    pub step: usize,
    /// `None` if unknown.
    pub share: Option<f64>,
}

/// Shares of devices and of their nodes.
#[derive(Default)]
pub(super) struct ShareTable {
    pools: Vec<Pool>,
    /// Devices in the order of their resolution.
    reached: Vec<Reached>,
    /// Number of times that any device was reached.
    pub arrivals: usize,
}

impl ShareTable {
    /// Returns the share of members that divide `share` without a promise; parts of a pool, and
    /// nothing, need no further pool.
    pub fn divide(&mut self, share: PathShare, note: Finding) -> PathShare {
        match share {
            PathShare::Known(share) if share > 0.0 => {
                self.pools.push(Pool { share, note, is_incomplete: false });
                PathShare::PartOf(self.pools.len() - 1)
            }
            other => other,
        }
    }

    /// Records that a part of a pool may reach none of its devices.
    pub fn end_without_device(&mut self, share: PathShare) {
        if let PathShare::PartOf(pool) = share {
            self.pools[pool].is_incomplete = true;
        }
    }

    /// Counts a share at a device.
    pub fn reach(&mut self, device: usize, step: usize, share: PathShare) {
        self.arrivals += 1;
        let index = match self.reached.iter().position(|known| known.device == device) {
            Some(index) => index,
            None => {
                self.reached.push(Reached { device, step, known: 0.0, pools: BTreeSet::new() });
                self.reached.len() - 1
            }
        };
        match share {
            PathShare::Known(share) => self.reached[index].known += share,
            PathShare::PartOf(pool) => drop(self.reached[index].pools.insert(pool)),
        }
    }

    /// Returns the devices of a pool.
    fn devices_of(&self, pool: usize) -> impl Iterator<Item = usize> + '_ {
        self.reached.iter().filter(move |reached| reached.pools.contains(&pool)).map(|reached| reached.device)
    }

    /// Returns the devices in the order of their resolution.
    ///
    /// A pool with a single device divides nothing.
    pub fn devices(&self) -> Vec<DeviceShare> {
        let whole = |pool: usize| {
            let is_alone = !self.pools[pool].is_incomplete && self.devices_of(pool).count() == 1;
            is_alone.then(|| self.pools[pool].share)
        };
        let of = |reached: &Reached| {
            let parts: Option<f64> = reached.pools.iter().map(|pool| whole(*pool)).sum();
            let share = parts.map(|parts| reached.known + parts);
            DeviceShare { device: reached.device, step: reached.step, share }
        };
        self.reached.iter().map(of).collect()
    }

    /// Returns the nodes that carry I/O, ascending.
    ///
    /// The share of a node is known although its devices divide I/O without a promise if all of
    /// them are near the same nodes.
    pub fn nodes(&self, nodes_of: impl Fn(usize) -> NodeSet) -> Vec<NearNode> {
        let mut nodes: BTreeMap<NodeId, Option<f64>> = BTreeMap::new();
        let mut add = |near: &NodeSet, share: Option<f64>| {
            for node in near.iter() {
                let sum = nodes.entry(node).or_insert(Some(0.0));
                *sum = sum.zip(share).map(|(sum, share)| sum + share / near.len() as f64);
            }
        };
        for reached in &self.reached {
            add(&nodes_of(reached.device), Some(reached.known));
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let near: Vec<NodeSet> = self.devices_of(index).map(&nodes_of).collect();
            let are_same = near.windows(2).all(|pair| pair[0] == pair[1]);
            match near.first().filter(|_| are_same && !pool.is_incomplete) {
                Some(same) => add(same, Some(pool.share)),
                None => near.iter().for_each(|near| add(near, None)),
            }
        }
        let carries = |share: Option<f64>| share.is_none_or(|share| share > 0.0);
        let carrying = nodes.into_iter().filter(|(_, share)| carries(*share));
        carrying.map(|(node, share)| NearNode { node, share }).collect()
    }

    /// Returns why shares are unknown, for each pool with several devices.
    pub fn notes(&self) -> Vec<Finding> {
        let divided = |pool: &usize| self.devices_of(*pool).count() > 1;
        (0..self.pools.len()).filter(divided).map(|pool| self.pools[pool].note.clone()).collect()
    }
}
