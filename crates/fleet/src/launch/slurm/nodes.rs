//! Nodes of a cluster, from sinfo(1).

use crate::launch::hosts::check_host;
use crate::launch::LaunchError;
use numaio_machine::printable::printable;
use numaio_schema::FleetRunHost;
use std::collections::BTreeMap;

/// States of nodes on which no job can start (sinfo(1), NODE STATE CODES).
const UNUSABLE: [&str; 14] = [
    "blocked", "down", "drain", "drained", "draining", "drng", "error", "fail", "failing", "future", "inval",
    "perfctrs", "unk", "unknown",
];

/// A node in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLine {
    /// Name of the node.
    pub name: String,
    /// Name of the partition.
    pub partition: String,
    /// Whether jobs without `--partition` run in it.
    pub is_default: bool,
    /// State, with the suffixes of sinfo, such as `idle` or `down*`.
    pub state: String,
    /// Reason that an administrator or Slurm gave for the state.
    pub reason: Option<String>,
}

impl NodeLine {
    /// Returns why no job can start on the node.
    fn unusable(&self) -> Option<String> {
        let is_silent = self.state.contains('*');
        let state = self.state.trim_end_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
        // Compound states name the base state first, such as `idle+drain`.
        let is_unusable = state.split('+').any(|state| UNUSABLE.contains(&state));
        if !is_silent && !is_unusable {
            return None;
        }
        let silent = if is_silent { ", it does not respond" } else { "" };
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("the node is {state}{silent}{reason}"))
    }

    /// Returns whether a job would start at once.
    fn is_idle(&self) -> bool {
        self.state.starts_with("idle")
    }
}

/// Parses the output of `sinfo --noheader --Node --format=%N|%P|%T|%E`. Other lines are ignored.
pub fn parse_nodes(text: &str) -> Vec<NodeLine> {
    let line = |line: &str| {
        let mut fields = line.trim_end().splitn(4, '|').map(str::trim);
        let (name, partition, state) = (fields.next()?, fields.next()?, fields.next()?);
        check_host(name).ok()?;
        let reason = fields.next().filter(|reason| !reason.is_empty() && *reason != "none");
        Some(NodeLine {
            name: name.to_owned(),
            partition: partition.trim_end_matches('*').to_owned(),
            is_default: partition.ends_with('*'),
            state: state.to_owned(),
            reason: reason.map(printable),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Which nodes to measure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSelection {
    /// The partition; `None` for the default one.
    pub partition: Option<String>,
    /// A host list; `None` for all nodes of the partition.
    pub nodes: Option<String>,
    /// A number of nodes; `None` for all.
    pub count: Option<u32>,
}

impl NodeSelection {
    /// Selects nodes. `requested` is the expanded host list.
    ///
    /// Nodes on which no job can start are kept with the reason, so that they are not lost
    /// silently; with `count` they are left out.
    ///
    /// # Errors
    /// An unknown node or partition, or too few nodes.
    pub fn select(
        &self,
        lines: &[NodeLine],
        requested: Option<&[String]>,
    ) -> Result<Vec<FleetRunHost>, LaunchError> {
        let is_selected = |line: &&NodeLine| match &self.partition {
            // sinfo already selects by name, possibly by several names.
            Some(_) => true,
            None => line.is_default,
        };
        let mut order: Vec<&str> = Vec::new();
        let mut nodes: BTreeMap<&str, &NodeLine> = BTreeMap::new();
        for line in lines.iter().filter(is_selected) {
            if nodes.insert(&line.name, line).is_none() {
                order.push(&line.name);
            }
        }
        let partition = match &self.partition {
            Some(partition) => format!("partition '{partition}'"),
            None => "the default partition".to_owned(),
        };
        if nodes.is_empty() {
            return Err(LaunchError::NotInSlurm(format!("Slurm lists no nodes in {partition}")));
        }
        if let Some(requested) = requested {
            order = Vec::new();
            for name in requested {
                let Some((name, _)) = nodes.get_key_value(name.as_str()) else {
                    let message = format!("Slurm has no node '{}' in {partition}", name.escape_debug());
                    return Err(LaunchError::NotInSlurm(message));
                };
                if !order.contains(name) {
                    order.push(name);
                }
            }
        }
        let selected = self.take_count(order.into_iter().map(|name| nodes[name]).collect(), &partition)?;
        let host = |line: &NodeLine| FleetRunHost {
            name: line.name.clone(),
            jobs: Vec::new(),
            unavailable: line.unusable(),
        };
        Ok(selected.into_iter().map(host).collect())
    }

    /// Takes `count` usable nodes, idle ones first.
    fn take_count<'a>(
        &self,
        nodes: Vec<&'a NodeLine>,
        partition: &str,
    ) -> Result<Vec<&'a NodeLine>, LaunchError> {
        let Some(count) = self.count else { return Ok(nodes) };
        let usable: Vec<&NodeLine> = nodes.into_iter().filter(|node| node.unusable().is_none()).collect();
        if usable.len() < count as usize {
            let message =
                format!("only {} nodes can run jobs in {partition}, {count} requested", usable.len());
            return Err(LaunchError::NotInSlurm(message));
        }
        let (idle, busy): (Vec<_>, Vec<_>) = usable.into_iter().partition(|node| node.is_idle());
        Ok(idle.into_iter().chain(busy).take(count as usize).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Slurm 22.05.8, with other states of sinfo(1) added.
    const RECORDED: &str = "\
n1|all*|idle|none
n1|gpu|idle|none
n2|all*|mixed|none
n3|all*|drained|bad | dimm
n4|all*|down*|Not responding
n5|gpu|idle~|none
n6|all*|allocated|none
n7|all*|idle*|none
n8|all*|planned|none
";

    fn select(selection: &NodeSelection, requested: Option<&[&str]>) -> Result<Vec<String>, String> {
        let requested: Option<Vec<String>> =
            requested.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let selected = selection.select(&parse_nodes(RECORDED), requested.as_deref());
        let hosts = selected.map_err(|error| error.to_string())?;
        Ok(hosts
            .into_iter()
            .map(|host| host.name + &host.unavailable.map(|why| format!(" ({why})")).unwrap_or_default())
            .collect())
    }

    #[test]
    fn all_nodes_of_the_default_partition_are_kept_with_their_state() {
        let expected = [
            "n1",
            "n2",
            "n3 (the node is drained: bad | dimm)",
            "n4 (the node is down, it does not respond: Not responding)",
            "n6",
            "n7 (the node is idle, it does not respond)",
            "n8",
        ];
        assert_eq!(select(&NodeSelection::default(), None).expect("nodes"), expected);
    }

    #[test]
    fn a_number_of_nodes_prefers_idle_ones_and_leaves_out_unusable_ones() {
        let count = |count| NodeSelection { count: Some(count), ..NodeSelection::default() };
        assert_eq!(select(&count(2), None).expect("nodes"), ["n1", "n2"]);
        assert_eq!(select(&count(2), Some(&["n6", "n8", "n1"])).expect("nodes"), ["n1", "n6"]);
        let error = select(&count(5), None).expect_err("too many");
        assert_eq!(error, "only 4 nodes can run jobs in the default partition, 5 requested");
    }

    #[test]
    fn unknown_nodes_and_partitions_are_errors() {
        let all = NodeSelection::default();
        assert_eq!(select(&all, Some(&["n2", "n1", "n2"])).expect("nodes"), ["n2", "n1"]);
        let error = select(&all, Some(&["n5"])).expect_err("not in the partition");
        assert_eq!(error, "Slurm has no node 'n5' in the default partition");
        let gpu = NodeSelection { partition: Some("gpu".to_owned()), ..all };
        let error = gpu.select(&[], None).expect_err("no nodes").to_string();
        assert_eq!(error, "Slurm lists no nodes in partition 'gpu'");
        assert!(parse_nodes("slurm_load_node: error\n|x|y|z\n").is_empty());
    }
}
