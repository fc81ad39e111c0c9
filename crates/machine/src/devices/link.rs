//! PCI Express links (`Documentation/ABI/testing/sysfs-bus-pci`, `current_link_speed` and its kin).

use super::PcieLink;
use crate::sysfs::{Sysfs, SysfsExt};

/// Most lanes of a link; PCI Express 6 has no wider one.
const MAX_LANES: u32 = 32;
/// Fastest lane that is believed, in GT/s; PCI Express 7 has 128.
const FASTEST_LANE: f64 = 1024.0;

/// The link of the function whose canonical path is `path`; none if it has none, is down, or is unknown.
pub(super) fn read(root: &dyn Sysfs, path: &str) -> Option<PcieLink> {
    let text = |attribute: &str| root.optional(&format!("{path}/{attribute}"));
    // A function that is not PCI Express lacks them all: one failed read is enough to know.
    let lanes = lanes(&text("current_link_width")?)?;
    let gt_per_s = speed(&text("current_link_speed")?)?;
    let max_lanes = self::lanes(&text("max_link_width")?)?;
    let max_gt_per_s = speed(&text("max_link_speed")?)?;
    Some(PcieLink { gt_per_s, lanes, max_gt_per_s, max_lanes })
}

/// `8.0 GT/s PCIe`, before Linux 5.7 `8 GT/s`; none for `Unknown` and `Unknown speed`.
fn speed(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let speed: f64 = number.parse().ok()?;
    (unit.starts_with("GT/s") && speed > 0.0 && speed <= FASTEST_LANE).then_some(speed)
}

/// A number of lanes; 0 stands for a link that is down, 255 for one that is unknown.
fn lanes(text: &str) -> Option<u32> {
    text.parse().ok().filter(|lanes| (1..=MAX_LANES).contains(lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_in_all_their_forms() {
        assert_eq!(speed("8.0 GT/s PCIe"), Some(8.0));
        assert_eq!(speed("2.5 GT/s"), Some(2.5));
        for text in ["Unknown", "Unknown speed", "", "8", "nan GT/s", "inf GT/s", "-8 GT/s", "8 MT/s"] {
            assert_eq!(speed(text), None, "{text}");
        }
    }

    #[test]
    fn a_link_that_is_down_has_no_lanes() {
        assert_eq!(lanes("16"), Some(16));
        for text in ["0", "255", "63", "x", ""] {
            assert_eq!(lanes(text), None, "{text}");
        }
    }
}
