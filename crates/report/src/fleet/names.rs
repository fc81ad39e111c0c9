//! Long lists of hosts as text.

use crate::style::short;

/// Maximum number of hosts of a list.
const MOST: usize = 8;

/// Names hosts, and counts those beyond a few: `n1, n2 and 37 more`.
pub(super) fn host_list<'a>(hosts: impl IntoIterator<Item = &'a String>) -> String {
    let hosts: Vec<&String> = hosts.into_iter().collect();
    let named: Vec<String> = hosts.iter().take(MOST).map(|host| short(host)).collect();
    match hosts.len().saturating_sub(MOST) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Writes a count with its noun: `1 host`, `5 hosts`.
pub(super) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_with_a_count() {
        let hosts: Vec<String> = (1..=10).map(|number| format!("n{number}")).collect();
        assert_eq!(host_list(&hosts), "n1, n2, n3, n4, n5, n6, n7, n8 and 2 more");
        assert_eq!(host_list(&hosts[..2]), "n1, n2");
        assert_eq!((count(1, "host"), count(0, "host")), ("1 host".to_owned(), "0 hosts".to_owned()));
    }
}
