//! Lines of `--itemize-changes`, and the numbers of `--stats`.

use numaio_report::{KindCounts, TransferStatistics};
use numaio_schema::JobTotals;
use numaio_transfer::changed_item::EntryStatistics;
use numaio_transfer::event::Change;

/// Returns the line of a change as rsync prints it; only what was done if its attributes are
/// unknown, because a numaio on another host is older.
pub fn item_line(change: &Change) -> String {
    let Some(item) = &change.item else { return format!("{}: {}", change.action, change.name) };
    let slash = if item.is_directory() { "/" } else { "" };
    let (letters, name) = (&item.letters, &change.name);
    let arrow = if item.letters.starts_with('h') { "=>" } else { "->" };
    let target = item.target.as_ref().map(|target| format!(" {arrow} {target}")).unwrap_or_default();
    format!("{letters} {name}{slash}{target}")
}

/// Counts of the changes of a transfer.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChangeCounts {
    statistics: TransferStatistics,
}

impl ChangeCounts {
    /// Counts a change.
    pub fn add(&mut self, change: &Change) {
        let Some(item) = &change.item else { return };
        if item.letters.starts_with('*') {
            return self.statistics.deleted.add(item.kind);
        }
        if item.is_new() {
            self.statistics.created.add(item.kind);
        }
        if change.action == "copied" {
            self.statistics.transferred += 1;
            self.statistics.transferred_bytes = self.statistics.transferred_bytes.saturating_add(item.size);
        }
    }

    /// Records the entries of the source.
    pub fn record_entries(&mut self, entries: EntryStatistics) {
        let EntryStatistics { files, directories, links, devices, special, bytes } = entries;
        self.statistics.found = KindCounts { files, directories, links, devices, special };
        self.statistics.total_bytes = bytes;
    }

    /// Returns the statistics, given the totals of the transfer. A dry run transfers no data.
    pub fn statistics(&self, totals: &JobTotals) -> TransferStatistics {
        let JobTotals { bytes, sent, resumed, .. } = *totals;
        TransferStatistics { data: bytes, sent, resumed, ..self.statistics }
    }
}
