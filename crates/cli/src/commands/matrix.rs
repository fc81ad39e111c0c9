//! What `numaio stream` and `numaio latency` have in common: which part of the matrix, and what is shown of it.

use super::model::node_of_device;
use crate::args::{node, percent};
use crate::failure::Failure;
use clap::Args;
use numaio_machine::ids::NodeId;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::Topology;
use numaio_model::ViewSubject;
use numaio_schema::View;

#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes and output")]
pub struct MatrixArgs {
    /// Only the row and the column of this node; may be given several times
    #[arg(long, short = 'k', value_name = "K", value_parser = node)]
    pub node: Vec<NodeId>,
    /// Only the row and the column of this device's node: eth0, nvme0n1, mlx5_0, 0000:3b:00.0
    #[arg(long, short, value_name = "DEV")]
    pub device: Vec<String>,
    /// The views of every node; the default is nodes with devices
    #[arg(long, short, conflicts_with_all = ["node", "device"])]
    pub all: bool,
    /// How far below a class's best its members may be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    pub level: f64,
    /// Show number of visits, interval and drift of every figure
    #[arg(long, conflicts_with = "json")]
    pub stats: bool,
    /// Print JSON: what is saved
    #[arg(long)]
    pub json: bool,
    /// Do not save what is measured
    #[arg(long)]
    pub no_save: bool,
}

impl MatrixArgs {
    /// Nodes to whose row and column the matrix is restricted; empty for the whole.
    pub fn around(&self, topology: &Topology) -> Result<NodeSet, Failure> {
        let mut around: NodeSet = self.node.iter().copied().collect();
        for device in &self.device {
            around.insert(node_of_device(topology, device)?);
        }
        Ok(around)
    }

    /// Nodes that views are shown of.
    pub fn targets(&self, topology: &Topology, around: &NodeSet) -> NodeSet {
        if self.all {
            topology.cpu_nodes().union(&topology.memory_nodes())
        } else if around.is_empty() {
            topology.device_nodes()
        } else {
            around.clone()
        }
    }

    /// Views of every node, as `of` finds them.
    pub fn views(&self, topology: &Topology, of: impl Fn(&ViewSubject) -> Vec<View>) -> Vec<View> {
        let (machine, level) = (&topology.identity.fingerprint, self.level);
        let targets = topology.nodes.iter().map(|node| node.id);
        targets.flat_map(|target| of(&ViewSubject { machine, target, level })).collect()
    }
}
