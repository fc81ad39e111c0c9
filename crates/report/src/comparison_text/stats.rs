//! The table of statistics: number of measurements, interval and drift of each figure.

use super::columns;
use crate::phrases::view_title;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_schema::{NodeValue, View};

/// Writes a table for all measured views; stated values (distances) have no statistics.
pub(super) fn write(page: &mut TextPage, views: &[View]) {
    let measured: Vec<&View> =
        views.iter().filter(|view| view.nodes.iter().any(|value| value.n > 0)).collect();
    if measured.is_empty() {
        return;
    }
    page.heading("All values: median, half width of the 95 % interval, number of measurements, drift");
    let columns = ["NODE", "MEDIAN", "95 %", "N", "DRIFT"].map(|name| (name, Align::Right));
    let mut table = Table::new(columns).inset(2);
    for view in measured {
        table.span(0, &view_title(view));
        let shown = columns::shown(view, page.style().unit);
        for value in &view.nodes {
            table.row([
                value.node.to_string().into(),
                shown(value.value).into(),
                half_width(value).into(),
                value.n.to_string().into(),
                format!("{:+.1} %", value.drift * 100.0).into(),
            ]);
        }
    }
    page.table(2, &table);
}

/// Formats the half width of the interval, relative to the value.
fn half_width(value: &NodeValue) -> String {
    let half = value.interval.map(|(low, high)| (high - low) / 2.0 / value.value * 100.0);
    half.map(|half| format!("±{half:.1} %")).unwrap_or_default()
}
