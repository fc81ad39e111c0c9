//! The table of statistics: number of visits, interval and drift of each value.

use crate::number_format::NumberFormat;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_schema::{IntervalKind, Reading, Summary};

/// A value with its statistics.
pub(crate) struct FigureStats<'a> {
    /// Name of the measured cell.
    pub name: String,
    /// Statistics; `None` if no visit succeeded.
    pub summary: Option<&'a Summary>,
    /// Whether the value is as precise as requested.
    pub settled: bool,
    /// The reason of failed visits.
    pub failure: Option<&'a str>,
}

impl<'a> FigureStats<'a> {
    /// Returns the statistics of a reading.
    pub(crate) fn from_reading(name: String, reading: &'a Reading) -> Self {
        let Reading { summary, settled, failure, .. } = reading;
        Self { name, summary: summary.as_ref(), settled: *settled, failure: failure.as_deref() }
    }
}

/// Writes a table of statistics.
pub(crate) fn write(page: &mut TextPage, title: &str, stats: &[FigureStats], figures: &NumberFormat) {
    page.heading(title);
    let how = "Intervals are from the ranks of the visits' medians or, with few visits, from the pooled noise of all \
               values; drift is the ratio of the later to the earlier half of the visits, minus one.";
    page.paragraph(2, 0, how);
    let figures = figures.finer();
    let unit = figures.unit();
    let mut table = Table::new([
        ("CELL".to_owned(), Align::Left),
        ("N".to_owned(), Align::Right),
        (format!("MEDIAN {unit}"), Align::Right),
        ("95 % INTERVAL".to_owned(), Align::Left),
        ("HALF WIDTH".to_owned(), Align::Right),
        ("METHOD".to_owned(), Align::Left),
        ("MIN - MAX".to_owned(), Align::Left),
        ("DRIFT".to_owned(), Align::Right),
        ("NOTE".to_owned(), Align::Left),
    ]);
    for stat in stats {
        let Some(summary) = stat.summary else {
            let why = stat.failure.unwrap_or("no visit succeeded");
            let cells = [stat.name.as_str(), "0", "-", "", "", "", "", "", why];
            table.row(cells.map(Into::into));
            continue;
        };
        // The range of a few visits is not a 95 % interval.
        let known = Some(summary).filter(|summary| summary.interval != IntervalKind::Range);
        table.row([
            stat.name.as_str().into(),
            summary.n.to_string().into(),
            format!("{}{}", if stat.settled { "" } else { UNSETTLED }, figures.format(summary.median)).into(),
            known.map(|summary| figures.range(summary.low, summary.high)).unwrap_or_default().into(),
            known.map(half_width).unwrap_or_default().into(),
            interval_method(summary).into(),
            figures.range(summary.min, summary.max).into(),
            format!("{:+.1} %", summary.drift * 100.0).into(),
            notes(stat, summary).into(),
        ]);
    }
    page.table(2, &table.without_empty_columns());
    if stats.iter().any(|stat| stat.summary.is_some() && !stat.settled) {
        page.paragraph(2, 2, UNSETTLED_LEGEND);
    }
}

/// Formats half the width of the interval, relative to the median: `±1.5 %`.
pub(crate) fn half_width(summary: &Summary) -> String {
    let half = summary.relative_half_width() * 100.0;
    if half.is_finite() {
        format!("±{half:.1} %")
    } else {
        String::new()
    }
}

/// Names the method of the interval.
fn interval_method(summary: &Summary) -> &'static str {
    match summary.interval {
        IntervalKind::OrderStatistics => "ranks",
        IntervalKind::PooledNoise => "pooled",
        IntervalKind::Range => "",
    }
}

fn notes(stat: &FigureStats, summary: &Summary) -> String {
    let too_few = if summary.interval == IntervalKind::Range { "too few visits" } else { "" };
    let modes = if summary.modes.is_empty() { "" } else { "bimodal" };
    let failed = stat.failure.map(|why| format!("visits failed: {why}")).unwrap_or_default();
    crate::phrases::joined([too_few, modes, &failed], "; ")
}

/// Mark before a value that is less precise than requested.
pub(super) const UNSETTLED: &str = "*";
/// Explanation of that mark.
pub(super) const UNSETTLED_LEGEND: &str = "* less precise than requested";
