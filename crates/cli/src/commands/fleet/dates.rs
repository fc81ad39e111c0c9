//! Dates of options.

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
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let of_month = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let valid = (1970..=9999).contains(&year) && (1..=of_month).contains(&day) && hour < 24 && minute < 60;
    valid.then(|| days_before(year, month, day) * 86_400 + hour * 3_600 + minute * 60)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_before(year: u64, month: u64, day: u64) -> u64 {
    // Years start in March, so that the day of February 29 is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year / 4 - year / 100 + year / 400;
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
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
