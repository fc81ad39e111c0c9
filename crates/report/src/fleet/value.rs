//! Figures of a fleet as text.

use crate::number_format::NumberFormat;
use crate::style::{short, TextStyle};
use numaio_schema::FigureKey;

/// Formats a value with its unit: `11.20 GB/s`, `95.3 ns`.
pub(crate) fn with_unit(key: &FigureKey, value: f64, style: &TextStyle) -> String {
    with_known_unit(key, value, style).unwrap_or_else(|| {
        // Another program's unit: as many digits as measurements have.
        let digits = 4 - value.abs().max(1e-9).log10().floor() as i32 - 1;
        let text = format!("{:.*}", digits.clamp(0, 9) as usize, value);
        format!("{text} {}", short(&key.unit)).trim_end().to_owned()
    })
}

/// Formats a bandwidth or latency with its unit; `None` for a value in another unit.
pub(super) fn with_known_unit(key: &FigureKey, value: f64, style: &TextStyle) -> Option<String> {
    let (format, unit) = match key.unit.as_str() {
        "B/s" => (NumberFormat::bandwidth(style.unit, [value]), style.unit.name()),
        "ns" => (NumberFormat::nanoseconds([value]), "ns"),
        _ => return None,
    };
    Some(format!("{} {unit}", format.format(value)))
}

/// Names the nodes of a figure: `0 → 7`, `3`, or nothing for a complete host.
pub(crate) fn nodes(key: &FigureKey) -> String {
    match (key.from, key.to) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        (Some(node), None) | (None, Some(node)) => node.to_string(),
        (None, None) => String::new(),
    }
}

/// Names the quantity and device of a figure: `copy-read`, `io-read nvme0n1`.
pub(crate) fn quantity(key: &FigureKey) -> String {
    format!("{} {}", short(&key.quantity), short(&key.device)).trim_end().to_owned()
}

/// Formats the difference of a value from a reference in percent: `+1.2`, `-30`; empty without a
/// reference.
pub(crate) fn percent_from(value: f64, reference: f64) -> String {
    if reference == 0.0 || !(value / reference).is_finite() {
        return String::new();
    }
    let percent = (value / reference - 1.0) * 100.0;
    match percent.abs() {
        size if size < 0.05 => "0".to_owned(),
        size if size < 10.0 => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;

    fn key(unit: &str) -> FigureKey {
        FigureKey {
            quantity: "copy-read".to_owned(),
            from: Some(NodeId(0)),
            to: Some(NodeId(7)),
            device: String::new(),
            unit: unit.to_owned(),
            more_is_better: true,
        }
    }

    #[test]
    fn values_have_units_and_few_digits() {
        let style = TextStyle::default();
        assert_eq!(with_unit(&key("B/s"), 11.2e9, &style), "11.20 GB/s");
        assert_eq!(with_unit(&key("ns"), 95.31, &style), "95.3 ns");
        assert_eq!(with_unit(&key("Mop/s"), 12345.678, &style), "12346 Mop/s");
        assert_eq!(with_unit(&key(""), 0.012345, &style), "0.01235");
        assert_eq!(nodes(&key("ns")), "0 → 7");
    }

    #[test]
    fn differences_are_in_percent() {
        assert_eq!(percent_from(7.0, 10.0), "-30");
        assert_eq!(percent_from(10.12, 10.0), "+1.2");
        assert_eq!(percent_from(10.0, 10.0), "0");
        assert_eq!(percent_from(1.0, 0.0), "");
    }
}
