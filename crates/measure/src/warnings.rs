//! Warnings about doubtful results, with their cause if visible.

use crate::rounds::Measured;
use numaio_machine::conditions::Conditions;
use numaio_schema::{Summary, Warning, THROTTLED};

/// Share of CPU time of other programs that causes a warning.
const OTHERS: f64 = 0.05;
/// Share of CPU time stolen by the hypervisor that causes a warning.
const STOLEN: f64 = 0.01;
/// Share of throttled periods that causes a warning.
const THROTTLED_SHARE: f64 = 0.01;
/// Relative change of frequency between start and end that causes a warning.
const FREQUENCY: f64 = 0.10;
/// Relative drift of a cell that causes a warning.
const DRIFT: f64 = 0.05;
/// Maximum number of cells named in a warning.
const MOST_NAMED: usize = 12;

fn warning(rule: &str, what: String) -> Warning {
    Warning { rule: rule.to_owned(), message: what }
}

/// Returns warnings about the machine, from its conditions before and after. Frequencies are
/// compared with `busy_mhz`, lowest and highest after the first visit, since CPUs were idle before.
pub fn of_conditions(
    before: &Conditions,
    after: &Conditions,
    busy_mhz: Option<(u32, u32)>,
    nodes: usize,
) -> Vec<Warning> {
    let mut found = Vec::new();
    if nodes > 1 && after.numa_balancing.is_some_and(|mode| mode & 1 != 0) {
        let what = "automatic NUMA balancing is on and may move pages while they are measured".to_owned();
        found.push(warning("numa-balancing", what));
    }
    if let (Some(before), Some(after)) = (before.processor_time, after.processor_time) {
        let total = after.total.saturating_sub(before.total).max(1) as f64;
        let own = after.own.saturating_sub(before.own);
        let others = after.busy.saturating_sub(before.busy).saturating_sub(own) as f64 / total;
        let stolen = after.stolen.saturating_sub(before.stolen) as f64 / total;
        if others > OTHERS {
            let what = format!("other programs used {:.0} % of CPU time during the campaign", others * 100.0);
            found.push(warning("other-load", what));
        }
        if stolen > STOLEN {
            let what = format!("the hypervisor stole {:.0} % of CPU time", stolen * 100.0);
            found.push(warning("steal", what));
        }
    }
    found.extend(throttled(before, after));
    if let (Some(before), Some(after)) = (busy_mhz, after.frequency_mhz) {
        let change = f64::from(after.1) / f64::from(before.1.max(1)) - 1.0;
        if change.abs() > FREQUENCY {
            let what = format!("the highest CPU frequency changed from {} to {} MHz", before.1, after.1);
            found.push(warning("frequency", what));
        }
    }
    found
}

/// Returns a warning if a CPU quota stopped this process's control group between two readings.
fn throttled(before: &Conditions, after: &Conditions) -> Option<Warning> {
    let (before, after) = (before.cpu_throttling?, after.cpu_throttling?);
    let stopped = after.throttled_periods.saturating_sub(before.throttled_periods);
    let periods = after.periods.saturating_sub(before.periods).max(1);
    let share = stopped as f64 / periods as f64;
    (share > THROTTLED_SHARE).then(|| {
        let seconds = after.throttled_us.saturating_sub(before.throttled_us) as f64 / 1e6;
        let what = format!(
            "a CPU quota stopped the measurement in {:.0} % of its periods, {seconds:.1} s of thread time: the values are \
             those of the quota, and placements do not use them (numaio topology shows the quota)",
            share * 100.0
        );
        warning(THROTTLED, what)
    })
}

/// Context of warnings about readings.
pub struct WarningContext {
    /// Measured quantity: `bandwidth`, `latency`.
    pub quantity: &'static str,
    /// Whether the time limit was reached.
    pub time_is_up: bool,
    /// Whether transparent huge pages were requested.
    pub wanted_huge: bool,
}

/// Returns warnings about readings; `name` identifies a reading.
pub fn of_readings(
    readings: &[Measured],
    name: &dyn Fn(usize) -> String,
    context: &WarningContext,
) -> Vec<Warning> {
    let WarningContext { quantity, time_is_up, wanted_huge } = *context;
    let mut found = Vec::new();
    let mut report = |rule: &str, text: &str, which: &dyn Fn(&Measured) -> bool| {
        let which: Vec<usize> = (0..readings.len()).filter(|index| which(&readings[*index])).collect();
        if !which.is_empty() {
            found.push(warning(rule, format!("{text}: {}", names(&which, name))));
        }
    };
    let summary = |measured: &Measured, holds: &dyn Fn(&Summary) -> bool| {
        measured.reading.summary.as_ref().is_some_and(holds)
    };
    report("bimodal", &format!("{quantity} has two levels; the more frequent one is reported"), &|cell| {
        summary(cell, &|summary| !summary.modes.is_empty())
    });
    let drifted = format!("{quantity} drifted by more than 5 % between earlier and later visits");
    report("drift", &drifted, &|cell| {
        summary(cell, &|summary| summary.n >= 6 && summary.drift.abs() > DRIFT)
    });
    let when = if time_is_up { " at the time limit" } else { "" };
    report("unsettled", &format!("less precise than requested{when}"), &|cell| {
        !cell.reading.settled && cell.reading.summary.is_some()
    });
    report("not-reached", "not visited before the time limit", &|cell| {
        time_is_up && cell.reading.visits.is_empty() && cell.failure.is_none()
    });
    report(
        "second-look",
        "differs from others at the same distance, and the recheck was not completed",
        &|cell| cell.reading.settled && cell.recheck_incomplete,
    );
    report("misplaced-pages", "pages were found on another node than the one they were bound to", &|cell| {
        cell.reading.visits.iter().any(|visit| visit.residency.pages_misplaced > 0)
    });
    report("residency-unchecked", "the kernel did not report the nodes of pages", &|cell| {
        cell.reading.visits.iter().any(|visit| visit.residency.pages_checked.is_none())
    });
    let visits = || readings.iter().flat_map(|cell| &cell.reading.visits);
    if wanted_huge && visits().next().is_some() && visits().all(|visit| visit.residency.huge_bytes == 0) {
        let what = "no transparent huge pages were available; results include TLB misses";
        found.push(warning("no-huge-pages", what.to_owned()));
    }
    found
}

/// Joins the names of cells, shortened if there are many.
pub fn names(which: &[usize], name: &dyn Fn(usize) -> String) -> String {
    let named: Vec<String> = which.iter().take(MOST_NAMED).map(|index| name(*index)).collect();
    match which.len().saturating_sub(MOST_NAMED) {
        0 => named.join(", "),
        others => format!("{} and {others} others", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conditions::ProcessorTime;
    use numaio_machine::topology::CpuThrottling;

    fn rules(before: Conditions, after: Conditions, nodes: usize) -> Vec<String> {
        of_conditions(&before, &after, before.frequency_mhz, nodes)
            .into_iter()
            .map(|warning| warning.rule)
            .collect()
    }

    #[test]
    fn numa_balancing_matters_only_with_several_nodes() {
        let mode = |mode| Conditions { numa_balancing: Some(mode), ..Conditions::default() };
        assert_eq!(rules(mode(0), mode(1), 2), ["numa-balancing"]);
        assert_eq!(rules(mode(0), mode(3), 2), ["numa-balancing"]);
        assert!(rules(mode(0), mode(2), 2).is_empty(), "tiering alone moves no bound page");
        assert!(rules(mode(1), mode(1), 1).is_empty(), "there is no other node");
    }

    #[test]
    fn own_cpu_time_is_not_other_load() {
        let time = |busy: u64, stolen: u64, own: u64| Conditions {
            processor_time: Some(ProcessorTime {
                busy: 7 + busy,
                stolen: 7 + stolen,
                own: 7 + own,
                total: 7,
            }),
            ..Conditions::default()
        };
        let after = |busy, stolen, own| {
            let mut after = time(busy, stolen, own);
            after.processor_time.iter_mut().for_each(|time| time.total += 1000);
            rules(time(0, 0, 0), after, 2)
        };
        assert!(after(850, 10, 800).is_empty());
        assert_eq!(after(851, 0, 800), ["other-load"]);
        assert_eq!(after(800, 11, 800), ["steal"]);
    }

    #[test]
    fn throttling_by_a_quota_is_reported() {
        let at = |periods, throttled_periods| Conditions {
            cpu_throttling: Some(CpuThrottling { periods, throttled_periods, throttled_us: 7 }),
            ..Conditions::default()
        };
        assert_eq!(rules(at(1000, 900), at(1100, 980), 2), [THROTTLED]);
        assert!(rules(at(1000, 900), at(1100, 901), 2).is_empty(), "1 %");
        assert!(rules(Conditions::default(), at(1100, 980), 2).is_empty());
    }

    #[test]
    fn frequency_changes_in_both_directions_are_reported() {
        let mhz = |mhz| Conditions { frequency_mhz: Some((800, mhz)), ..Conditions::default() };
        assert_eq!(rules(mhz(3000), mhz(2690), 2), ["frequency"]);
        assert_eq!(rules(mhz(3000), mhz(3310), 2), ["frequency"]);
        assert!(rules(mhz(3000), mhz(2710), 2).is_empty());
    }
}
