//! Metrics of a balancer.

use super::table::{MetricTable, MetricsFormat};
use numaio_schema::BalanceEventKind;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::fmt;

/// Totals of a balancer since its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BalanceTotals {
    moves: u64,
    failed: u64,
    moved_bytes: u64,
    stayed_bytes: u64,
    rounds: u64,
    observe_s: f64,
    programs: u64,
    /// Groups of the last round by the reason of their decision.
    reasons: BTreeMap<&'static str, u64>,
}

impl BalanceTotals {
    /// Adds an event.
    pub fn add(&mut self, event: &BalanceEventKind) {
        match event {
            BalanceEventKind::Round(round) => {
                self.rounds += 1;
                self.observe_s += round.cpu_s;
                self.programs = u64::from(round.programs);
            }
            BalanceEventKind::Moved(moved) => {
                self.moves += 1;
                self.moved_bytes += moved.moved_bytes;
                self.stayed_bytes += moved.left_bytes.values().sum::<u64>();
            }
            BalanceEventKind::MoveFailed { .. } => self.failed += 1,
            _ => {}
        }
    }

    /// Starts a round: reasons are counted again.
    pub fn start_round(&mut self) {
        self.reasons.clear();
    }

    /// Returns the groups of the last round by the reason of their decision.
    pub fn reasons(&self) -> BTreeMap<String, u64> {
        self.reasons.iter().map(|(reason, groups)| ((*reason).to_owned(), *groups)).collect()
    }

    /// Counts the reason of a group's decision in this round.
    pub fn count_reason(&mut self, reason: &'static str) {
        *self.reasons.entry(reason).or_default() += 1;
    }
}

/// Formats the metrics of a balancer for the textfile collector of node_exporter.
///
/// # Errors
/// None that a value could cause.
pub fn balance_metrics_text(totals: &BalanceTotals) -> Result<String, fmt::Error> {
    let mut table = MetricTable::default();
    let none = Vec::new;
    table.counter("numaio_balance_moves", None, "Moved groups of programs").add(none(), totals.moves);
    table.counter("numaio_balance_failed_moves", None, "Failed moves").add(none(), totals.failed);
    let bytes = Some(Unit::Bytes);
    table.counter("numaio_balance_moved", bytes, "Moved memory").add(none(), totals.moved_bytes);
    let bytes = Some(Unit::Bytes);
    table
        .counter("numaio_balance_stayed", bytes, "Memory that could not be moved")
        .add(none(), totals.stayed_bytes);
    table.counter("numaio_balance_rounds", None, "Rounds of observation").add(none(), totals.rounds);
    let seconds = Some(Unit::Seconds);
    table
        .counter("numaio_balance_observe_cpu", seconds, "CPU time of observations")
        .add(none(), totals.observe_s);
    table.gauge("numaio_balance_programs", None, "Observed programs").add(none(), totals.programs);
    let mut groups = table.gauge("numaio_balance_groups", None, "Groups by reason of the last decision");
    for (reason, count) in &totals.reasons {
        groups.add(vec![("reason", (*reason).to_owned())], *count);
    }
    table.into_text(MetricsFormat::Prometheus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_become_series() {
        let mut totals = BalanceTotals::default();
        totals.add(&BalanceEventKind::MoveFailed { group: "a".into(), reason: "b".into() });
        totals.count_reason("best-node");
        totals.count_reason("best-node");
        let text = balance_metrics_text(&totals).expect("text");
        assert!(text.contains("numaio_balance_failed_moves_total 1"), "{text}");
        assert!(text.contains("numaio_balance_groups{reason=\"best-node\"} 2"), "{text}");
        totals.start_round();
        assert!(!balance_metrics_text(&totals).expect("text").contains("best-node"));
    }
}
