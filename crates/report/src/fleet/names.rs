//! Names of hosts, values and hardware as text.

use crate::phrases::joined;
use crate::style::short;
use numaio_schema::FleetGroup;

/// Maximum number of hosts of a list.
const MOST: usize = 8;

/// Names hosts, and counts those beyond a few: `n1, n2 and 37 more`.
pub(crate) fn host_list<'a>(hosts: impl IntoIterator<Item = &'a String>) -> String {
    listed(hosts.into_iter().map(|host| short(host)), MOST)
}

/// Joins names, and counts those beyond a limit.
pub(super) fn listed(names: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut names = names.into_iter();
    let shown: Vec<String> = names.by_ref().take(most).collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns the value of a fact, or `none` for a host that lacks it.
pub(super) fn named(value: &str) -> String {
    match value {
        "" => "none".to_owned(),
        value => short(value),
    }
}

/// Returns product and CPU model of a group; empty if they are unknown.
pub(super) fn hardware(group: &FleetGroup) -> String {
    let fact = |name: &str| {
        let fact = group.facts.iter().find(|fact| fact.name == name);
        fact.map(|fact| short(&fact.value)).unwrap_or_default()
    };
    joined([fact("product"), fact("cpu model")], ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phrases::count;

    #[test]
    fn long_lists_are_cut_with_a_count() {
        let hosts: Vec<String> = (1..=10).map(|number| format!("n{number}")).collect();
        assert_eq!(host_list(&hosts), "n1, n2, n3, n4, n5, n6, n7, n8 and 2 more");
        assert_eq!(host_list(&hosts[..2]), "n1, n2");
        assert_eq!((count(1, "host"), count(0, "host")), ("1 host".to_owned(), "0 hosts".to_owned()));
    }
}
