//! Formats the progress and the result of a transfer in one line.

use crate::phrases::bandwidth;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::JobTotals;

/// Formats the progress of a transfer after `seconds`.
pub fn progress_text(totals: &JobTotals, seconds: f64, unit: BandwidthUnit) -> String {
    let rate = totals.bytes as f64 / seconds.max(1e-3);
    let (data, found, moved) = (format_size(totals.bytes), totals.entries, totals.moved);
    let speed = speed(rate, unit);
    let mut text = format!("{data} at {speed}; {found} found, {moved} moved");
    if totals.size > totals.bytes && totals.bytes > 0 {
        let left = (totals.size - totals.bytes) as f64 / rate.max(1.0);
        text += &format!("; {left:.0} s left for the entries found");
    }
    if totals.failed > 0 {
        text += &format!(", {} failed", totals.failed);
    }
    text
}

/// Formats the result of a transfer, or of a dry run.
pub fn transfer_text(totals: &JobTotals, seconds: f64, dry_run: bool, unit: BandwidthUnit) -> String {
    let would = if dry_run { "would be " } else { "" };
    let mut text = format!("{} {would}moved, {} unchanged", totals.moved, totals.unchanged);
    for (count, would, what) in [(totals.removed, would, "removed"), (totals.failed, "", "failed")] {
        if count > 0 {
            text += &format!(", {count} {would}{what}");
        }
    }
    if totals.resumed > 0 {
        text += &format!("; {} resumed", format_size(totals.resumed));
    }
    if dry_run {
        return text + &format!("; {} of data", format_size(totals.size));
    }
    let rate = totals.bytes as f64 / seconds.max(1e-9);
    let (data, speed) = (format_size(totals.bytes), speed(rate, unit));
    text += &format!("; {data} in {seconds:.2} s, {speed}");
    if totals.sent > 0 && totals.sent < totals.bytes {
        text += &format!("; {} sent after compression", format_size(totals.sent));
    }
    text
}

/// Formats a rate, in a smaller unit if the given one would show almost 0.
fn speed(bytes_per_s: f64, unit: BandwidthUnit) -> String {
    match unit.of(bytes_per_s) < 0.05 {
        true => format!("{}/s", format_size(bytes_per_s as u64)),
        false => bandwidth(bytes_per_s, unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_result_fit_on_a_line() {
        let unit = BandwidthUnit::default();
        let totals =
            JobTotals { entries: 12, size: 3 << 30, moved: 7, bytes: 1 << 30, ..JobTotals::default() };
        let running = "1 GiB at 0.54 GB/s; 12 found, 7 moved; 4 s left for the entries found";
        assert_eq!(progress_text(&totals, 2.0, unit), running);
        assert_eq!(
            transfer_text(&totals, 2.0, false, unit),
            "7 moved, 0 unchanged; 1 GiB in 2.00 s, 0.54 GB/s"
        );
        let slow = JobTotals { bytes: 1 << 20, ..totals };
        assert!(transfer_text(&slow, 2.0, false, unit).ends_with("; 1 MiB in 2.00 s, 512 KiB/s"));
        let asked = BandwidthUnit::GigabitsPerS;
        assert!(transfer_text(&slow, 0.1, false, asked).ends_with(" in 0.10 s, 0.08 Gbit/s"));
        assert!(transfer_text(&slow, 2.0, false, asked).ends_with(" in 2.00 s, 512 KiB/s"));
        let compressed = JobTotals { sent: 100 << 20, ..totals };
        assert!(
            transfer_text(&compressed, 2.0, false, unit).ends_with(" GB/s; 100 MiB sent after compression")
        );
        let more = JobTotals { removed: 2, failed: 1, resumed: 1 << 20, ..totals };
        let done = "7 moved, 0 unchanged, 2 removed, 1 failed; 1 MiB resumed; \
                    1 GiB in 2.00 s, 0.54 GB/s";
        assert_eq!(transfer_text(&more, 2.0, false, unit), done);
        let wanted = "7 would be moved, 0 unchanged, 2 would be removed; 3 GiB of data";
        assert_eq!(transfer_text(&JobTotals { removed: 2, ..totals }, 2.0, true, unit), wanted);
        assert_eq!(progress_text(&JobTotals::default(), 0.0, unit), "0 B at 0 B/s; 0 found, 0 moved");
    }
}
