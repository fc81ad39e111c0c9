//! Units in which bandwidth is shown. Stored figures are always bytes per second.

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
    /// 10^9 bits per second, as networks count.
    GigabitsPerS,
}

impl BandwidthUnit {
    /// All units, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::GigabytesPerS, Self::GibibytesPerS, Self::GigabitsPerS];

    /// `GB/s`, `GiB/s` or `Gbit/s`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GigabytesPerS => "GB/s",
            Self::GibibytesPerS => "GiB/s",
            Self::GigabitsPerS => "Gbit/s",
        }
    }

    /// A bandwidth of `bytes_per_s` in this unit.
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
            .ok_or_else(|| format!("{text:?} is no unit of bandwidth; there are GB/s, GiB/s and Gbit/s"))
    }
}

/// A size for people: `1.5 GiB`, `512 KiB`, `17 B`; one decimal below 100 unless it is zero.
pub fn size_for_people(bytes: u64) -> String {
    const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    // As it will be shown: what is only nearly the next whole number or unit is shown as that.
    let shown = |value: f64| if value < 99.95 { (value * 10.0).round() / 10.0 } else { value.round() };
    let mut value = bytes as f64;
    let mut name = 0;
    while shown(value) >= 1024.0 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    format!("{} {}", shown(value), NAMES[name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bandwidth_in_three_units() {
        let shown = BandwidthUnit::ALL.map(|unit| unit.of(1073741824.0 * 8.0));
        assert_eq!(shown, [8.589934592, 8.0, 68.719476736]);
        assert_eq!("gbit/s".parse(), Ok(BandwidthUnit::GigabitsPerS));
        assert!("MB".parse::<BandwidthUnit>().is_err());
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size_for_people(17), "17 B");
        assert_eq!(size_for_people(524288), "512 KiB");
        assert_eq!(size_for_people(1610612736), "1.5 GiB");
        let gib = |value: f64| size_for_people((value * (1u64 << 30) as f64) as u64);
        let shown = [10.97, 10.94, 10.04, 99.94, 99.96, 1023.4, 1023.7].map(gib);
        assert_eq!(shown, ["11 GiB", "10.9 GiB", "10 GiB", "99.9 GiB", "100 GiB", "1023 GiB", "1 TiB"]);
        assert_eq!(size_for_people(u64::MAX), "16384 PiB");
    }
}
