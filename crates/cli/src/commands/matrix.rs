//! Options of `numaio stream`, `latency` and `sweep`: the measured part of the matrix, and output.

use crate::device_arguments::node_of_device;
use crate::failure::Failure;
use crate::options::{node, percent};
use clap::Args;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_model::ViewSubject;
use numaio_schema::View;

/// Options of the measured part of the matrix and of output.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Nodes and output")]
pub struct MatrixArgs {
    /// Measure only the row and the column of this node; can be repeated
    #[arg(long, short = 'k', value_name = "K", value_parser = node)]
    pub node: Vec<NodeId>,
    /// Measure only the row and the column of this device's node: eth0, nvme0n1, mlx5_0,
    /// 0000:3b:00.0
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// Show the views of every node; default: nodes with devices
    #[arg(long, short, conflicts_with_all = ["node", "device"])]
    pub all: bool,
    /// Largest difference of a class's members from its best, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    pub level: f64,
    /// Show the number of visits, the interval and the drift of every value
    #[arg(long, conflicts_with = "json")]
    pub stats: bool,
    /// Print the saved document as JSON
    #[arg(long)]
    pub json: bool,
    /// Do not save the measurement
    #[arg(long)]
    pub no_save: bool,
}

impl MatrixArgs {
    /// Returns the nodes to whose rows and columns the matrix is restricted; empty for all.
    pub fn around(&self, topology: &Topology) -> Result<NodeSet, Failure> {
        let mut around: NodeSet = self.node.iter().copied().collect();
        for device in &self.device {
            around.insert(node_of_device(topology, device)?);
        }
        Ok(around)
    }

    /// Returns the nodes whose views are shown.
    pub fn targets(&self, topology: &Topology, around: &NodeSet) -> NodeSet {
        if self.all {
            topology.cpu_nodes().union(&topology.memory_nodes())
        } else if around.is_empty() {
            topology.device_nodes()
        } else {
            around.clone()
        }
    }

    /// Returns the views of every node, computed by `views_of`.
    pub fn views(&self, topology: &Topology, views_of: impl Fn(&ViewSubject) -> Vec<View>) -> Vec<View> {
        let (machine, level) = (&topology.identity.fingerprint, self.level);
        let targets = topology.nodes.iter().map(|node| node.id);
        targets.flat_map(|target| views_of(&ViewSubject { machine, target, level })).collect()
    }
}
