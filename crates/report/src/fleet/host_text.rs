//! Formats one host beside its group.

use super::names::named;
use super::value::{nodes, percent_from, quantity, with_unit};
use crate::phrases::count;
use crate::record_header::date;
use crate::style::{short, TextStyle};
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_schema::{Fact, FleetHostSummary};

/// Formats a host: its group, the facts in which it differs, its facts and its newest figures.
pub fn fleet_host_text(host: &FleetHostSummary, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let seen =
        if host.observed_at == 0 { String::new() } else { format!(", seen {}", date(host.observed_at)) };
    let group = format!("group {} of {}", host.group, count(host.group_hosts as usize, "host"));
    page.paragraph(0, 2, &format!("{}: {group}{seen}.", short(&host.host)));
    for difference in &host.differences {
        let own = difference.others.first().map_or("", |variant| variant.value.as_str());
        let Fact { name, value, .. } = &difference.fact;
        let text = format!(
            "{} differs: {}; {} on {} of the group",
            short(name),
            named(own),
            named(value),
            count(difference.hosts as usize, "host")
        );
        page.paragraph(2, 4, &text);
    }
    if !host.facts.is_empty() {
        page.blank();
        page.heading("Facts");
        let mut table = Table::new([("FACT", Align::Left), ("VALUE", Align::Left)]).shrink_first("VALUE");
        for Fact { name, value, .. } in &host.facts {
            table.row([short(name).into(), short(value).into()]);
        }
        page.table(2, &table);
    }
    if !host.figures.is_empty() {
        page.blank();
        page.heading("Figures");
        figures(&mut page, host);
    }
    page.into_text()
}

fn figures(page: &mut TextPage, host: &FleetHostSummary) {
    let columns = [
        ("QUANTITY", Align::Left),
        ("NODES", Align::Left),
        ("VALUE", Align::Right),
        ("GROUP", Align::Right),
        ("% OF GROUP", Align::Right),
        ("% OF PREVIOUS", Align::Right),
        ("MEASURED", Align::Left),
    ];
    let style = *page.style();
    let mut table = Table::new(columns).shrink_first("QUANTITY");
    for figure in &host.figures {
        let previous = figure.previous.map(|previous| percent_from(figure.value, previous));
        table.row([
            quantity(&figure.key).into(),
            nodes(&figure.key).into(),
            with_unit(&figure.key, figure.value, &style).into(),
            with_unit(&figure.key, figure.group_median, &style).into(),
            percent_from(figure.value, figure.group_median).into(),
            previous.unwrap_or_default().into(),
            date(figure.measured_at).into(),
        ]);
    }
    page.table(2, &table.without_empty_columns());
}
