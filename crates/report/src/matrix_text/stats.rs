//! Number of values, interval and drift of every figure.

use crate::figures::Figures;
use crate::style::Page;
use crate::table::{Align, Table};
use numaio_schema::{IntervalKind, Reading, Summary};

/// A figure that can be asked for its statistics.
pub(crate) struct Stat<'a> {
    pub name: String,
    pub summary: Option<&'a Summary>,
    pub settled: bool,
    pub failure: Option<&'a str>,
}

impl<'a> Stat<'a> {
    pub(crate) fn of(name: String, reading: &'a Reading) -> Self {
        let Reading { summary, settled, failure, .. } = reading;
        Self { name, summary: summary.as_ref(), settled: *settled, failure: failure.as_deref() }
    }
}

/// Puts a table of statistics on the page.
pub(crate) fn write(page: &mut Page, title: &str, stats: &[Stat], figures: &Figures) {
    page.heading(title);
    let unit = figures.unit();
    let mut table = Table::new([
        ("FIGURE".to_owned(), Align::Left),
        ("N".to_owned(), Align::Right),
        (format!("MEDIAN {unit}"), Align::Right),
        ("95 % INTERVAL".to_owned(), Align::Left),
        ("OF MEDIAN".to_owned(), Align::Right),
        ("LEAST - MOST".to_owned(), Align::Left),
        ("DRIFT".to_owned(), Align::Right),
        ("NOTE".to_owned(), Align::Left),
    ]);
    for stat in stats {
        let Some(summary) = stat.summary else {
            let why = stat.failure.unwrap_or("no visit gave a result");
            let cells = [stat.name.as_str(), "0", "-", "", "", "", "", why];
            table.row(cells.map(Into::into));
            continue;
        };
        table.row([
            stat.name.as_str().into(),
            summary.n.to_string().into(),
            figures.of(summary.median).into(),
            figures.range(summary.low, summary.high).into(),
            half_width(summary).into(),
            figures.range(summary.min, summary.max).into(),
            format!("{:+.1} %", summary.drift * 100.0).into(),
            notes(stat, summary).into(),
        ]);
    }
    page.table(2, &table.soft("NOTE").without_empty_columns());
}

/// Half the width of the interval, relative to the median: `±1.5 %`.
pub(crate) fn half_width(summary: &Summary) -> String {
    let half = summary.relative_half_width() * 100.0;
    if half.is_finite() {
        format!("±{half:.1} %")
    } else {
        String::new()
    }
}

fn notes(stat: &Stat, summary: &Summary) -> String {
    let by = match summary.interval {
        IntervalKind::OrderStatistics => "",
        IntervalKind::PooledNoise => "noise of all",
        IntervalKind::Range => "range only",
    };
    let modes = if summary.modes.is_empty() { "" } else { "bimodal" };
    let unsettled = if stat.settled { "" } else { "unsettled" };
    let failed = stat.failure.map(|why| format!("visits failed: {why}")).unwrap_or_default();
    crate::words::joined([by, modes, unsettled, &failed], "; ")
}
