//! Dates of options.

use numaio_machine::calendar::{Day, SECONDS_PER_DAY};

/// A point in time of an option: a date, or a document whose time of measurement counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeOption {
    /// Seconds since 1970.
    Seconds(u64),
    /// Id of a document of the store.
    Document(i64),
}

/// Parses a date, `2026-11-21` or `2026-11-21T14:30` in UTC, into seconds since 1970.
pub fn date(text: &str) -> Result<u64, String> {
    parse(text).ok_or_else(|| "expected a date in UTC, such as 2026-11-21 or 2026-11-21T14:30".to_owned())
}

/// Parses a date or the id of a document.
pub fn date_or_document(text: &str) -> Result<TimeOption, String> {
    match text.parse() {
        Ok(id) if id > 0 => Ok(TimeOption::Document(id)),
        _ => parse(text).map(TimeOption::Seconds).ok_or_else(|| {
            "expected a date in UTC, such as 2026-11-21 or 2026-11-21T14:30, or the id of a document"
                .to_owned()
        }),
    }
}

fn parse(text: &str) -> Option<u64> {
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let [year, month, day] = numbers(day, '-')?;
    let [hour, minute] = numbers(time, ':')?;
    let day = Day::parse(&format!("{year:04}-{month:02}-{day:02}"))?;
    (hour < 24 && minute < 60).then_some(day.0 * SECONDS_PER_DAY + hour * 3_600 + minute * 60)
}

fn numbers<const N: usize>(text: &str, separator: char) -> Option<[u64; N]> {
    let is_digits =
        |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Option<Vec<u64>> =
        text.split(separator).map(|part| part.parse().ok().filter(|_| is_digits(part))).collect();
    parts?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_date_command() {
        // `date -u -d DATE +%s`
        assert_eq!(date("1970-01-01"), Ok(0));
        assert_eq!(date("2000-02-29"), Ok(951_782_400));
        assert_eq!(date("2026-11-21T14:30"), Ok(1_795_271_400));
        for wrong in
            ["2026-02-29", "2026-13-01", "2026-1", "yesterday", "2026-11-21T24:00", "+2026-01-01", ""]
        {
            assert!(date(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_documents() {
        assert_eq!(date_or_document("17"), Ok(TimeOption::Document(17)));
        assert_eq!(date_or_document("1970-01-02"), Ok(TimeOption::Seconds(86_400)));
        assert!(date_or_document("0").is_err());
    }
}
