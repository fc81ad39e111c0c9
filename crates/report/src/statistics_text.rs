//! Statistics of a transfer of files, in the lines of rsync's `--stats`.

use std::fmt::Write;

/// Numbers of entries by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindCounts {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices.
    pub devices: u64,
    /// Named pipes.
    pub special: u64,
}

impl KindCounts {
    /// Adds an entry, by the letter that rsync has for its kind.
    pub fn add(&mut self, kind: char) {
        match kind {
            'f' => self.files += 1,
            'd' => self.directories += 1,
            'L' => self.links += 1,
            'D' => self.devices += 1,
            _ => self.special += 1,
        }
    }

    /// Returns the total, and the numbers of the kinds that occur.
    fn text(&self) -> String {
        let kinds = [
            ("reg", self.files),
            ("dir", self.directories),
            ("link", self.links),
            ("dev", self.devices),
            ("special", self.special),
        ];
        let total = grouped(kinds.iter().map(|(_, count)| count).sum());
        let parts = kinds.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts.map(|(kind, count)| format!("{kind}: {}", grouped(*count))).collect();
        match parts.is_empty() {
            true => total,
            false => format!("{total} ({})", parts.join(", ")),
        }
    }
}

/// Statistics of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferStatistics {
    /// Entries of the source.
    pub found: KindCounts,
    /// Entries created at the destination.
    pub created: KindCounts,
    /// Entries removed at the destination.
    pub deleted: KindCounts,
    /// Regular files of which data was transferred.
    pub transferred: u64,
    /// Bytes of all files of the source.
    pub total_bytes: u64,
    /// Bytes of the files of which data was transferred.
    pub transferred_bytes: u64,
    /// Bytes of data that were transferred.
    pub data: u64,
    /// Bytes of data that were sent, after compression.
    pub sent: u64,
    /// Bytes of data of an interrupted run.
    pub resumed: u64,
}

/// Formats statistics, with the transfer rate over `seconds`.
pub fn statistics_text(statistics: &TransferStatistics, seconds: f64) -> String {
    let TransferStatistics { found, created, deleted, transferred, .. } = statistics;
    let bytes = |bytes: u64| format!("{} bytes", grouped(bytes));
    let rate = (statistics.data as f64 / seconds.max(1e-9)) as u64;
    let mut text = String::new();
    for (what, value) in [
        ("Number of files", found.text()),
        ("Number of created files", created.text()),
        ("Number of deleted files", deleted.text()),
        ("Number of regular files transferred", grouped(*transferred)),
        ("Total file size", bytes(statistics.total_bytes)),
        ("Total transferred file size", bytes(statistics.transferred_bytes)),
        ("Transferred data", bytes(statistics.data)),
        ("Resumed data", bytes(statistics.resumed)),
        ("Sent data", bytes(statistics.sent)),
        ("Transfer rate", format!("{} bytes/sec", grouped(rate))),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what}: {value}");
    }
    text
}

/// Formats a number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits_and_lists_only_existing_kinds() {
        let mut found = KindCounts { files: 1_000, ..KindCounts::default() };
        ['d', 'L', 'D', 'S', 'd'].iter().for_each(|kind| found.add(*kind));
        let statistics =
            TransferStatistics { found, total_bytes: 1_234_567, data: 999, ..TransferStatistics::default() };
        let text = statistics_text(&statistics, 0.5);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Number of files: 1,005 (reg: 1,000, dir: 2, link: 1, dev: 1, special: 1)");
        assert_eq!(lines[1], "Number of created files: 0");
        assert_eq!(lines[4], "Total file size: 1,234,567 bytes");
        assert_eq!(lines[9], "Transfer rate: 1,998 bytes/sec");
    }
}
