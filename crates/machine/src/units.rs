//! Display units of bandwidths and sizes; stored values are always bytes and bytes per second.

use std::fmt;
use std::str::FromStr;

/// A unit of bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BandwidthUnit {
    /// 10^9 bytes per second.
    #[default]
    GigabytesPerS,
    /// 2^30 bytes per second.
    GibibytesPerS,
    /// 10^9 bits per second, as usual for networks.
    GigabitsPerS,
}

impl BandwidthUnit {
    /// All units, in display order.
    pub const ALL: [Self; 3] = [Self::GigabytesPerS, Self::GibibytesPerS, Self::GigabitsPerS];

    /// Returns `GB/s`, `GiB/s` or `Gbit/s`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GigabytesPerS => "GB/s",
            Self::GibibytesPerS => "GiB/s",
            Self::GigabitsPerS => "Gbit/s",
        }
    }

    /// Converts a bandwidth to this unit.
    pub fn of(self, bytes_per_s: f64) -> f64 {
        match self {
            Self::GigabytesPerS => bytes_per_s / 1e9,
            Self::GibibytesPerS => bytes_per_s / (1u64 << 30) as f64,
            Self::GigabitsPerS => bytes_per_s * 8.0 / 1e9,
        }
    }
}

impl fmt::Display for BandwidthUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BandwidthUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|unit| unit.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("unknown bandwidth unit {text:?}: expected GB/s, GiB/s or Gbit/s"))
    }
}

/// Returns the bytes per second of a unit of bandwidth: `MB/s`, `GiB/s`, `Gbit/s`, `B/s`; `None`
/// for other units.
///
/// The prefixes k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti powers of 1024 (IEC 80000-13).
pub fn bytes_per_s_of_unit(text: &str) -> Option<f64> {
    let rate = text.strip_suffix("/s")?;
    let (prefix, bytes) = match rate.strip_suffix("bit") {
        Some(prefix) => (prefix, 0.125),
        None => (rate.strip_suffix('B')?, 1.0),
    };
    let (prefix, base) = prefix.strip_suffix('i').map_or((prefix, 1000.0_f64), |prefix| (prefix, 1024.0));
    let power = match (prefix, base == 1024.0) {
        ("", false) => 0,
        ("k" | "K", _) => 1,
        ("M", _) => 2,
        ("G", _) => 3,
        ("T", _) => 4,
        _ => return None,
    };
    Some(bytes * base.powi(power))
}

/// Formats a size: `1.5 GiB`, `512 KiB`, `17 B`; one decimal below 100 unless it is zero.
pub fn format_size(bytes: u64) -> String {
    const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    // Round first: a value close to the next integer or unit is displayed as that.
    let shown = |value: f64| if value < 99.95 { (value * 10.0).round() / 10.0 } else { value.round() };
    let mut value = bytes as f64;
    let mut name = 0;
    while shown(value) >= 1024.0 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    format!("{} {}", shown(value), NAMES[name])
}

/// Formats a value with three significant digits, from 0.1 on.
pub fn format_significant(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// Parses a size: `131072`, `128K`, `128KiB`, `1.5G` (powers of 1024), `2TB` (powers of 1000).
///
/// # Errors
/// The text is not a number, is negative, has an unknown unit, or exceeds 2^64 bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid size {text:?}: expected a number with a unit, as in 128K, 1.5GiB or 2TB");
    let text_end = text.trim();
    let digits = text_end.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text_end.len());
    let (number, unit) = text_end.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let (name, base) = match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')) {
        Some(name) if !unit.ends_with("ib") => (name, 1000u64),
        Some(name) => (name, 1024),
        None => (unit.as_str(), 1024),
    };
    let power =
        ["", "k", "m", "g", "t", "p", "e"].iter().position(|known| *known == name).ok_or_else(wrong)?;
    let factor = base.checked_pow(power as u32).ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("size {text:?} exceeds 2^64 bytes"));
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    // A non-zero size below one byte must not become 0, which can mean no limit.
    let least = if bytes > 0.0 { 1.0 } else { 0.0 };
    match bytes.round().max(least) {
        bytes if bytes < u64::MAX as f64 => Ok(bytes as u64),
        _ => Err(format!("size {text:?} exceeds 2^64 bytes")),
    }
}

/// Formats a limit of CPU time: `1 CPU`, `2.5 CPUs`.
pub fn format_cpus(cpus: f64) -> String {
    let rounded = (cpus * 100.0).round() / 100.0;
    format!("{rounded} CPU{}", if rounded == 1.0 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_bandwidth_units() {
        let shown = BandwidthUnit::ALL.map(|unit| unit.of(1073741824.0 * 8.0));
        assert_eq!(shown, [8.589934592, 8.0, 68.719476736]);
        assert_eq!("gbit/s".parse(), Ok(BandwidthUnit::GigabitsPerS));
        assert!("MB".parse::<BandwidthUnit>().is_err());
    }

    #[test]
    fn units_of_bandwidth_have_decimal_and_binary_prefixes() {
        let known =
            [("B/s", 1.0), ("MB/s", 1e6), ("KiB/s", 1024.0), ("GiB/s", 1073741824.0), ("Gbit/s", 1.25e8)];
        for (text, bytes_per_s) in known {
            assert_eq!(bytes_per_s_of_unit(text), Some(bytes_per_s), "{text}");
        }
        for text in ["", "MB", "iB/s", "mB/s", "GFLOP/s", "XB/s", "B/s/s"] {
            assert_eq!(bytes_per_s_of_unit(text), None, "{text}");
        }
    }

    #[test]
    fn formats_sizes_briefly() {
        assert_eq!(format_size(17), "17 B");
        assert_eq!(format_size(524288), "512 KiB");
        assert_eq!(format_size(1610612736), "1.5 GiB");
        let gib = |value: f64| format_size((value * (1u64 << 30) as f64) as u64);
        let shown = [10.97, 10.94, 10.04, 99.94, 99.96, 1023.4, 1023.7].map(gib);
        assert_eq!(shown, ["11 GiB", "10.9 GiB", "10 GiB", "99.9 GiB", "100 GiB", "1023 GiB", "1 TiB"]);
        assert_eq!(format_size(u64::MAX), "16384 PiB");
    }

    #[test]
    fn parses_sizes_in_all_forms() {
        let read = |text| parse_size(text).expect("a size");
        assert_eq!((read("0"), read("131072"), read("17B")), (0, 131072, 17));
        assert_eq!((read("128k"), read("128KiB"), read("128 kB")), (131072, 131072, 128_000));
        assert_eq!((read("1.5G"), read("2TB"), read("15E")), (1610612736, 2_000_000_000_000, 15 << 60));
        assert_eq!((read("0.1"), read("0.0"), read("1.4")), (1, 0, 1));
        for wrong in ["", "k", "-1", "1.2.3", "1q", "1kk", "1 k i", "NaN", "16E", "99999999999999999999"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
