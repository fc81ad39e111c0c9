//! PCI Express links (`Documentation/ABI/testing/sysfs-bus-pci`, `current_link_speed` and related
//! files).

use super::device::PcieLink;
use crate::sysfs::{Sysfs, SysfsExt};

/// Maximum number of lanes, reached by PCI Express 6.
const MAX_LANES: u32 = 32;
/// Maximum plausible speed of a lane in GT/s; PCI Express 7 has 128.
const FASTEST_LANE: f64 = 1024.0;

/// Reads the link of the function at a canonical path; `None` without a link, or if it is down or
/// unknown.
pub(super) fn read(root: &dyn Sysfs, path: &str) -> Option<PcieLink> {
    let text = |attribute: &str| root.optional(&format!("{path}/{attribute}"));
    // A function without PCI Express lacks all files, which a single failed read shows.
    let lanes = lanes(&text("current_link_width")?)?;
    let gt_per_s = speed(&text("current_link_speed")?)?;
    let max_lanes = self::lanes(&text("max_link_width")?)?;
    let max_gt_per_s = speed(&text("max_link_speed")?)?;
    Some(PcieLink { gt_per_s, lanes, max_gt_per_s, max_lanes })
}

/// Parses `8.0 GT/s PCIe`, before Linux 5.7 `8 GT/s`; `None` for `Unknown` and `Unknown speed`.
fn speed(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let speed: f64 = number.parse().ok()?;
    (unit.starts_with("GT/s") && speed > 0.0 && speed <= FASTEST_LANE).then_some(speed)
}

/// Parses a number of lanes; 0 is a link that is down, 255 is unknown.
fn lanes(text: &str) -> Option<u32> {
    text.parse().ok().filter(|lanes| (1..=MAX_LANES).contains(lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_link_speeds_in_all_forms() {
        assert_eq!(speed("8.0 GT/s PCIe"), Some(8.0));
        assert_eq!(speed("2.5 GT/s"), Some(2.5));
        for text in ["Unknown", "Unknown speed", "", "8", "nan GT/s", "inf GT/s", "-8 GT/s", "8 MT/s"] {
            assert_eq!(speed(text), None, "{text}");
        }
    }

    #[test]
    fn rejects_lanes_of_a_link_that_is_down() {
        assert_eq!(lanes("16"), Some(16));
        for text in ["0", "255", "63", "x", ""] {
            assert_eq!(lanes(text), None, "{text}");
        }
    }
}
