//! Marks of nodes with devices in matrices: their row and column are framed, and the column stays
//! in view while a wide matrix scrolls. If there are many, only their numbers are marked.

use std::collections::BTreeSet;

/// The maximum number of framed columns that stay in view; more would cover the others.
const MOST_FRAMED: usize = 4;

/// The marked nodes of a matrix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeviceMarks(Vec<u32>);

impl DeviceMarks {
    /// Marks the columns of `device_nodes`, unless these are more than half.
    pub(super) fn new(columns: &[u32], device_nodes: &BTreeSet<u32>) -> Self {
        let marked: Vec<u32> = columns.iter().copied().filter(|node| device_nodes.contains(node)).collect();
        if 2 * marked.len() > columns.len() {
            return Self::default();
        }
        Self(marked)
    }

    /// Returns the CSS classes of a column's header; `None` without a mark.
    pub(super) fn class(&self, node: u32) -> Option<&'static str> {
        self.cell_class(node).or(self.contains(node).then_some("m"))
    }

    /// Returns the CSS classes of a column's cells; `None` without a frame.
    pub(super) fn cell_class(&self, node: u32) -> Option<&'static str> {
        const CLASSES: [&str; MOST_FRAMED] = ["m m0", "m m1", "m m2", "m m3"];
        let index = self.0.iter().position(|marked| *marked == node)?;
        CLASSES.get(index).copied().filter(|_| self.is_framed())
    }

    fn is_framed(&self) -> bool {
        self.0.len() <= MOST_FRAMED
    }

    /// Returns whether a row is marked.
    pub(super) fn contains(&self, node: u32) -> bool {
        self.0.contains(&node)
    }

    /// Returns the number of marked columns, for the style of the table.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Explains the frames in a sentence; empty without marks.
    pub(super) fn legend(&self) -> String {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        match (self.0.len(), names.join(", ")) {
            (0, _) => String::new(),
            (1, name) => format!("The frame marks node {name}, which has devices."),
            (_, names) if self.is_framed() => format!("Frames mark the nodes with devices: {names}."),
            (n, _) => format!("The {n} nodes with devices have highlighted numbers."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_nodes_with_devices_unless_most_have_some() {
        let marks = |nodes: &[u32]| DeviceMarks::new(&[0, 1, 2, 7], &nodes.iter().copied().collect());
        assert_eq!(marks(&[7, 9]).class(7), Some("m m0"));
        assert_eq!((marks(&[7]).class(0), marks(&[7]).len()), (None, 1));
        assert_eq!(marks(&[0, 2, 7]), DeviceMarks::default());
        assert_eq!(marks(&[7]).legend(), "The frame marks node 7, which has devices.");
        assert_eq!(marks(&[0, 7]).legend(), "Frames mark the nodes with devices: 0, 7.");
    }
}
