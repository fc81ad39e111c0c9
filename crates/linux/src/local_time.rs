//! Dates and times of this machine's time zone: localtime_r(3).

use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time as `2026/11/27 03:35:00` in the local time zone, as rsync's log file does.
pub fn local_time_text(time: SystemTime) -> String {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since_epoch.as_secs() as i64;
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers refer to live objects of the expected types.
    let is_known = !unsafe { libc::localtime_r(&seconds, parts.as_mut_ptr()) }.is_null();
    // SAFETY: all bytes are initialized, and zeros are valid for all fields.
    let parts = unsafe { parts.assume_init() };
    if !is_known {
        return format!("@{seconds}");
    }
    format!(
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn formats_the_time_as_date_does() {
        let text = local_time_text(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let date = Command::new("date").args(["-d", "@1700000000", "+%Y/%m/%d %H:%M:%S"]).output();
        let Ok(date) = date.map(|output| output.stdout) else { return };
        assert_eq!(text, String::from_utf8_lossy(&date).trim());
    }
}
