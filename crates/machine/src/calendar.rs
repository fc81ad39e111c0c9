//! Days and times in UTC, for names of files and lines of logs.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
pub const SECONDS_PER_DAY: u64 = 86_400;

/// A day in UTC, as days since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Day(pub u64);

impl Day {
    /// Returns the day of a time.
    pub fn of(time: SystemTime) -> Self {
        Self(seconds_since_1970(time) / SECONDS_PER_DAY)
    }

    /// Parses a day as [`Display`](fmt::Display) writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-').map(|field| field.parse::<u64>().ok());
        let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        // Years begin in March here, so that a leap day is the last one.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
        let parsed = Self(days.checked_sub(DAYS_BEFORE_1970 + 1)?);
        (parsed.to_string() == text).then_some(parsed)
    }

    /// Returns year, month and day of the month (Gregorian calendar).
    fn date(self) -> (u64, u64, u64) {
        // 400 years have 146,097 days; within them the length of a year depends on leap days only.
        let days = self.0.saturating_add(DAYS_BEFORE_1970);
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let year = 400 * era + year;
        if month < 10 {
            (year, month + 3, day)
        } else {
            (year + 1, month - 9, day)
        }
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Returns the seconds since 1970.
pub fn seconds_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats a time as RFC 3339 does, with milliseconds.
pub fn utc_time(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let second = since.as_secs() % SECONDS_PER_DAY;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:03}Z", Day::of(time), since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_follow_the_gregorian_calendar() {
        for (day, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_784, "2026-11-27"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!((Day(day).to_string().as_str(), Day::parse(text)), (text, Some(Day(day))));
        }
        let mut last = Day(0);
        for day in (1..60_000).map(Day) {
            assert!(day.to_string() > last.to_string() && Day::parse(&day.to_string()) == Some(day), "{day}");
            last = day;
        }
        for bad in ["", "2026-11", "2026-02-30", "2026-13-01", "26-1-1", "2026-11-27-", "x-y-z", "1969-12-31"]
        {
            assert_eq!(Day::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        let time = UNIX_EPOCH + Duration::from_millis(1_795_767_601_042);
        assert_eq!(utc_time(time), "2026-11-27T08:20:01.042Z");
        assert_eq!(Day::of(time), Day(20_784));
    }
}
