//! SLIT distances.

use super::files::NODES;
use super::parts::Distances;
use crate::finding::{Finding, Severity};
use crate::ids::{Id, NodeId};
use crate::sysfs::{Sysfs, SysfsExt};

/// Reads `node*/distance` (`Documentation/ABI/stable/sysfs-devices-node`) of the online nodes,
/// ascending.
///
/// Columns of a row are the online nodes in ascending order. A missing row or a row of another
/// length makes the matrix unreliable: it is omitted, with a finding.
pub(super) fn read(root: &dyn Sysfs, nodes: &[NodeId], findings: &mut Vec<Finding>) -> Option<Distances> {
    let texts: Vec<Option<String>> =
        nodes.iter().map(|node| root.optional(&format!("{NODES}/node{node}/distance"))).collect();
    if texts.iter().all(Option::is_none) {
        if nodes.len() > 1 {
            let evidence = format!("{NODES}/node*/distance: absent");
            findings.push(broken(Severity::Note, "The kernel reports no distances between nodes.", evidence));
        }
        return None;
    }
    let mut rows = Vec::new();
    for (node, text) in nodes.iter().zip(&texts) {
        match text.as_deref().and_then(|text| parse_row(text, nodes.len())) {
            Some(row) => rows.push(row),
            None => {
                let shown: String = text.as_deref().unwrap_or("absent").chars().take(80).collect();
                let evidence =
                    format!("{NODES}/node{}/distance: {shown}; online nodes: {}", node.number(), nodes.len());
                let what = "The distances between nodes do not form a matrix, and are not used.";
                findings.push(broken(Severity::Warning, what, evidence));
                return None;
            }
        }
    }
    Some(Distances { nodes: nodes.to_vec(), rows })
}

/// Parses a row: white-space-separated numbers, one for each online node.
fn parse_row(text: &str, nodes: usize) -> Option<Vec<u32>> {
    let row: Option<Vec<u32>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
    row.filter(|row| row.len() == nodes)
}

fn broken(severity: Severity, what: &str, evidence: String) -> Finding {
    let remedy = "None if numaio model --all measured the machine; else a firmware, or a hypervisor, that reports them.";
    Finding::new(severity, "distances-broken", "machine", what, evidence, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn read_rows(rows: &[(u32, &str)]) -> (Option<Distances>, Vec<Finding>) {
        let mut tree = Tree::new();
        for (node, row) in rows.iter().filter(|(_, row)| !row.is_empty()) {
            tree.file(&format!("{NODES}/node{node}/distance"), *row);
        }
        let nodes: Vec<NodeId> = rows.iter().map(|(node, _)| NodeId(*node)).collect();
        let mut findings = Vec::new();
        let distances = read(&tree, &nodes, &mut findings);
        (distances, findings)
    }

    #[test]
    fn reads_rows_of_online_nodes() {
        let (distances, findings) = read_rows(&[(0, "10 21"), (8, "22 10\n")]);
        let distances = distances.expect("a matrix");
        assert_eq!(distances.between(NodeId(8), NodeId(0)), Some(22));
        assert_eq!(distances.between(NodeId(0), NodeId(1)), None);
        assert_eq!(findings, []);
    }

    #[test]
    fn omits_a_broken_matrix_with_a_finding() {
        for rows in [[(0, "10 21"), (1, "21")], [(0, "10 21"), (1, "")], [(0, "10 21"), (1, "x 10")]] {
            let (distances, findings) = read_rows(&rows);
            assert_eq!(distances, None);
            assert_eq!((findings.len(), findings[0].rule.as_str()), (1, "distances-broken"));
        }
        assert_eq!(read_rows(&[(0, ""), (1, "")]).1[0].severity, Severity::Note);
        assert_eq!(read_rows(&[(0, "")]).1, []);
    }
}
