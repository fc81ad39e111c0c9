//! Output of events: text for people, JSON lines for programs, metrics.

use super::args::BalanceArgs;
use crate::failure::Failure;
use crate::machine::now;
use crate::options::Common;
use crate::output;
use numaio_report::{balance_event_text, balance_metrics_text, BalanceTotals};
use numaio_schema::{BalanceDecision, BalanceEvent, BalanceEventKind, BALANCE_EVENT_SCHEMA};
use std::collections::BTreeMap;

/// Writes events.
pub struct EventWriter<'a> {
    common: &'a Common,
    args: &'a BalanceArgs,
    machine: String,
    /// The last reported decision of each group: node and reason.
    last: BTreeMap<String, (Option<u32>, &'static str)>,
    /// Totals for metrics.
    pub totals: BalanceTotals,
    /// Number of the round.
    pub round: u64,
}

impl<'a> EventWriter<'a> {
    /// Creates a writer of events of a machine.
    pub fn new(common: &'a Common, args: &'a BalanceArgs, machine: &str) -> Self {
        let machine = machine.to_owned();
        Self { common, args, machine, last: BTreeMap::new(), totals: BalanceTotals::default(), round: 0 }
    }

    /// Writes an event, unless text output omits it.
    pub fn write(&mut self, event: BalanceEventKind) -> Result<(), Failure> {
        self.totals.add(&event);
        let event = BalanceEvent {
            schema: BALANCE_EVENT_SCHEMA.to_owned(),
            machine: self.machine.clone(),
            at: now(),
            round: self.round,
            event,
        };
        if self.args.json {
            let line = serde_json::to_string(&event).map_err(Failure::new)?;
            return output::print(&format!("{line}\n"));
        }
        let text = balance_event_text(&event, self.args.explain, self.common.unit);
        text.map_or(Ok(()), |text| output::print(&text))
    }

    /// Writes a decision if it differs from the last one of the group.
    pub fn write_decision(&mut self, decision: BalanceDecision) -> Result<(), Failure> {
        let state = (decision.to.map(|node| node.0), decision.reason.name());
        self.totals.count_reason(state.1);
        if self.last.insert(decision.group.clone(), state) == Some(state) {
            return Ok(());
        }
        self.write(BalanceEventKind::Decision(decision))
    }

    /// Forgets groups that no longer exist, and writes the metrics of the round.
    pub fn end_round(&mut self, groups: &[String]) -> Result<(), Failure> {
        self.last.retain(|group, _| groups.contains(group));
        let Some(path) = &self.args.metrics else { return Ok(()) };
        let text = balance_metrics_text(&self.totals).map_err(Failure::new)?;
        output::write(path, &text).map(drop)
    }

    /// Starts a round: reasons are counted again.
    pub fn start_round(&mut self) {
        self.round += 1;
        self.totals.start_round();
    }
}
