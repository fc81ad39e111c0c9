//! Lines of failures: of many with the same cause, as on a broken disk, most are only counted.

use std::collections::BTreeMap;

/// Failures of each cause that get a line.
const MAX_LINES: u64 = 10;
/// Causes that are distinguished: another host may send a different text each time.
const MAX_CAUSES: usize = 100;

/// Counts of failures by cause.
#[derive(Debug, Default)]
pub struct FailureLines {
    counts: BTreeMap<String, u64>,
}

impl FailureLines {
    /// Counts a failure; returns whether it gets a line.
    pub fn add(&mut self, cause: &str) -> bool {
        let is_distinguished = self.counts.len() < MAX_CAUSES || self.counts.contains_key(cause);
        let cause = if is_distinguished { cause } else { "other causes" };
        let count = self.counts.entry(cause.to_owned()).or_default();
        *count += 1;
        *count <= MAX_LINES
    }

    /// Returns each cause of failures without a line, and their number.
    pub fn others(&self) -> impl Iterator<Item = (&str, u64)> {
        let others = self.counts.iter().map(|(cause, count)| (&**cause, count.saturating_sub(MAX_LINES)));
        others.filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_failures_after_ten_lines_of_each_cause() {
        let mut lines = FailureLines::default();
        let shown = |lines: &mut FailureLines, cause: &str, count: usize| {
            (0..count).filter(|_| lines.add(cause)).count()
        };
        assert_eq!(shown(&mut lines, "a full disk", 10), 10);
        assert_eq!(lines.others().next(), None);
        assert_eq!((shown(&mut lines, "a broken disk", 2_823), shown(&mut lines, "a full disk", 1)), (10, 0));
        let others: Vec<(&str, u64)> = lines.others().collect();
        assert_eq!(others, [("a broken disk", 2_813), ("a full disk", 1)]);
    }

    #[test]
    fn limits_the_number_of_causes() {
        let mut lines = FailureLines::default();
        let shown = (0..5_000).filter(|number| lines.add(&number.to_string())).count();
        assert_eq!(shown, MAX_CAUSES + MAX_LINES as usize);
        let others: Vec<(&str, u64)> = lines.others().collect();
        assert_eq!(others, [("other causes", 5_000 - shown as u64)]);
    }
}
