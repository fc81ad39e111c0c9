//! Lists of subjects of findings: nodes as ranges, names in natural order, long lists shortened.

use crate::style::short;
use numaio_machine::set::{format_nodes, NodeSet};
use std::cmp::Ordering;

/// Number of names from which a list is shortened.
const MOST_NAMES: usize = 12;
/// Number of names that a shortened list starts with.
const FIRST_NAMES: usize = 4;

/// Joins subjects: `nodes 2-33`, `eth0, eth1`, `pf0vf0, pf0vf1, pf0vf2, pf0vf3 and 60 more`.
pub(crate) fn joined<S: AsRef<str>>(subjects: impl IntoIterator<Item = S>) -> String {
    let (mut nodes, mut names) = (NodeSet::new(), Vec::new());
    for subject in subjects {
        match nodes_of(subject.as_ref()) {
            Some(these) => nodes = nodes.union(&these),
            None => names.push(short(subject.as_ref())),
        }
    }
    names.sort_by(|a, b| natural(a, b));
    names.dedup();
    let nodes = (!nodes.is_empty()).then(|| format_nodes(&nodes));
    let more = if names.len() > MOST_NAMES { names.len() - FIRST_NAMES } else { 0 };
    names.truncate(if more > 0 { FIRST_NAMES } else { MOST_NAMES });
    let list = nodes.into_iter().chain(names).collect::<Vec<_>>().join(", ");
    match more {
        0 => list,
        more => format!("{list} and {more} more"),
    }
}

/// Parses `node 3` or `nodes 2-33`.
fn nodes_of(subject: &str) -> Option<NodeSet> {
    let list = subject.strip_prefix("node ").or_else(|| subject.strip_prefix("nodes "))?;
    NodeSet::parse_list(list).ok().filter(|nodes| !nodes.is_empty())
}

/// Compares names with numbers by value: `eth2` before `eth10`.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let order = match (a.chars().next(), b.chars().next()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let ((x, rest_a), (y, rest_b)) = (number(a), number(b));
                (a, b) = (rest_a, rest_b);
                x.len().cmp(&y.len()).then_with(|| x.cmp(y))
            }
            (Some(x), Some(y)) => {
                (a, b) = (&a[x.len_utf8()..], &b[y.len_utf8()..]);
                x.cmp(&y)
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Splits the digits at the start, without leading zeros, from the rest.
fn number(text: &str) -> (&str, &str) {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    (digits.trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_become_ranges() {
        assert_eq!(joined(["node 19", "node 2", "nodes 3-18"]), "nodes 2-19");
        assert_eq!(joined(["node 7"]), "node 7");
        assert_eq!(joined(["eth0", "node 1", "node x"]), "node 1, eth0, node x");
    }

    #[test]
    fn names_are_in_natural_order() {
        assert_eq!(joined(["eth10", "eth2", "eth2"]), "eth2, eth10");
        assert_eq!(joined(["nvme1n1", "nvme10n1", "nvme2n1"]), "nvme1n1, nvme2n1, nvme10n1");
        assert_eq!(natural("a01b", "a1c"), Ordering::Less);
    }

    #[test]
    fn long_lists_are_shortened() {
        let names: Vec<String> = (0..64).map(|index| format!("pf0vf{index}")).collect();
        assert_eq!(joined(&names), "pf0vf0, pf0vf1, pf0vf2, pf0vf3 and 60 more");
        assert_eq!(joined(&names[..12]).matches(", ").count(), 11);
        assert_eq!(joined([""; 0]), "");
    }
}
