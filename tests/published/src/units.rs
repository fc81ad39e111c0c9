//! Units of rates.

/// Returns the bytes per second of a unit; `None` for what is not a rate of bytes, such as `ns`.
pub fn bytes_per_s(unit: &str) -> Option<f64> {
    let (amount, time) = unit.trim().split_once('/').or_else(|| unit.trim().split_once("ps"))?;
    if !matches!(time.trim(), "s" | "sec" | "second" | "") {
        return None;
    }
    let amount = amount.trim();
    let (prefix, bits) = match amount.strip_suffix("bit").or_else(|| amount.strip_suffix('b')) {
        Some(prefix) => (prefix, 8.0),
        None => (amount.strip_suffix('B')?, 1.0),
    };
    let scale = match prefix.trim() {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(scale / bits)
}

#[cfg(test)]
mod tests {
    use super::bytes_per_s;

    #[test]
    fn bytes_bits_and_prefixes_are_distinguished() {
        let known =
            [("GB/s", 1e9), ("Gb/s", 1.25e8), ("Gbit/s", 1.25e8), ("MiB/s", 1048576.0), ("Gbps", 1.25e8)];
        for (unit, expected) in known {
            assert_eq!(bytes_per_s(unit), Some(expected), "{unit}");
        }
        for unit in ["ns", "us", "kIOPS", "distance", "", "GB", "X/s", "B/min"] {
            assert_eq!(bytes_per_s(unit), None, "{unit}");
        }
    }
}
