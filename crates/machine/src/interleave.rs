//! The kernel's weighted interleave: consecutive pages per node
//! (`Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave`).

use crate::ids::NodeId;
use crate::sysfs::{Sysfs, SysfsExt};
use std::collections::BTreeMap;

/// Directory of the settings.
pub const FOLDER: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

/// The current weights.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interleave {
    /// Weight of each node.
    pub weights: BTreeMap<NodeId, u32>,
    /// Whether the kernel sets the weights itself; `None` if not supported (before Linux 6.16).
    pub automatic: Option<bool>,
}

/// Reads the weights; `None` if the kernel has no weighted interleave (before Linux 6.9).
pub fn read(root: &dyn Sysfs) -> Option<Interleave> {
    let names = root.list(FOLDER).ok()?;
    let node = |name: &String| name.strip_prefix("node").and_then(|digits| digits.parse().ok()).map(NodeId);
    let weights =
        names.iter().filter_map(node).filter_map(|node| Some((node, root.value(&path(node)).ok()?)));
    let automatic = automatic_path(root).and_then(|path| root.value(&path).ok());
    Some(Interleave { weights: weights.collect(), automatic })
}

/// Returns the file of a node's weight.
pub fn path(node: NodeId) -> String {
    format!("{FOLDER}/node{node}")
}

/// Returns the file of the automatic mode, if it exists.
///
/// The documented name is `auto`. Linux 6.18 names it `__auto_type`, because `auto` became a macro
/// that expands in the file's name.
pub fn automatic_path(root: &dyn Sysfs) -> Option<String> {
    ["auto", "__auto_type"].map(|name| format!("{FOLDER}/{name}")).into_iter().find(|path| root.exists(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn reads_weights_by_node() {
        let mut tree = Tree::new();
        assert_eq!(read(&tree), None);
        tree.file(&path(NodeId(0)), "4\n").file(&path(NodeId(12)), "1\n").file(&path(NodeId(3)), "x\n");
        let weights: BTreeMap<NodeId, u32> = [(NodeId(0), 4), (NodeId(12), 1)].into();
        assert_eq!(read(&tree), Some(Interleave { weights: weights.clone(), automatic: None }));
        for (name, text, automatic) in [("__auto_type", "true\n", true), ("auto", "false\n", false)] {
            tree.file(&format!("{FOLDER}/{name}"), text);
            assert_eq!(
                read(&tree),
                Some(Interleave { weights: weights.clone(), automatic: Some(automatic) })
            );
        }
    }
}
