//! Formats the state of a run of a fleet as text.

use crate::phrases::count;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_schema::{FleetHostState, FleetHostStatus, FleetStatus};

/// Returns whether a host is not measured, or measured with a remark.
fn is_remarkable(host: &FleetHostStatus) -> bool {
    host.state != FleetHostState::Measured || host.reason.is_some()
}

/// Formats the state of a run: counts, and the hosts that are not measured or have a remark or,
/// with `all`, all hosts.
pub fn fleet_status_text(status: &FleetStatus, all: bool, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let command = match status.command.is_empty() {
        true => "topology only".to_owned(),
        false => status.command.join(" "),
    };
    page.heading(&format!("Run {}: {command}", status.run));
    let counts: Vec<String> =
        status.counts.iter().map(|count| format!("{} {}", count.hosts, count.state.name())).collect();
    page.paragraph(2, 2, &format!("{}: {}", count(status.hosts.len(), "host"), counts.join(", ")));
    page.paragraph(2, 2, &format!("Directory: {}", status.directory));
    let columns =
        [("HOST", Align::Left), ("STATE", Align::Left), ("JOB", Align::Left), ("REASON", Align::Left)];
    let mut table = Table::new(columns).shrink_first("REASON");
    let mut rows = 0;
    for host in status.hosts.iter().filter(|host| all || is_remarkable(host)) {
        rows += 1;
        table.row([
            Cell::from(host.host.clone()),
            host.state.name().into(),
            host.job.clone().unwrap_or_default().into(),
            host.reason.clone().unwrap_or_default().into(),
        ]);
    }
    if rows > 0 {
        page.blank();
        page.table(2, &table.without_empty_columns());
    }
    let resumable = status.hosts.iter().filter(|host| host.state.is_resumable()).count();
    if resumable > 0 {
        let hosts = count(resumable, "host");
        page.paragraph(2, 2, &format!("numaio fleet resume {} measures {hosts}.", status.run));
    }
    page.into_text()
}
