//! Division of integers in proportion to weights.

use super::target_device::TargetDevice;
use std::collections::BTreeSet;

/// Returns each device's share of the tasks: by bandwidth if all are known, otherwise equal.
pub(super) fn of_targets(near: &[TargetDevice]) -> Vec<f64> {
    let known: Option<Vec<f64>> = near.iter().map(|near| near.bytes_per_s).collect();
    let weights = known
        .filter(|rates| rates.iter().all(|rate| rate.is_finite() && *rate > 0.0))
        .unwrap_or_else(|| vec![1.0; near.len()]);
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Returns a compromise for the handles whose devices divide I/O as the kernel does not promise.
pub(super) fn unknown(near: &[TargetDevice]) -> Option<String> {
    let unknown: Vec<&TargetDevice> = near.iter().filter(|near| near.has_unknown_share).collect();
    let devices: Vec<&str> = unknown.iter().map(|near| near.device.as_str()).collect();
    let handles: BTreeSet<&str> = unknown.iter().map(|near| near.handle.as_str()).collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "the shares of {} in the I/O of {} are unknown: numaio divides by bandwidth, or evenly",
            devices.join(", "),
            handles.into_iter().collect::<Vec<&str>>().join(", ")
        )
    })
}

/// Divides `count` in proportion to weights, by largest remainders; ties favor the first.
pub(super) fn divide(count: u32, weights: &[f64]) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return vec![0; weights.len()];
    }
    let exact: Vec<f64> = weights.iter().map(|weight| f64::from(count) * weight / sum).collect();
    let mut parts: Vec<u32> = exact.iter().map(|part| part.floor() as u32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|one, other| exact[*other].fract().total_cmp(&exact[*one].fract()).then(one.cmp(other)));
    let left = count.saturating_sub(parts.iter().sum());
    for index in order.into_iter().cycle().take(left as usize) {
        parts[index] += 1;
    }
    parts
}

/// Returns indices, each as often as its count, evenly interleaved.
pub(super) fn interleave(counts: &[u32]) -> Vec<usize> {
    let of = |(index, count): (usize, &u32)| {
        let count = *count;
        (0..count).map(move |turn| ((f64::from(turn) + 0.5) / f64::from(count), index))
    };
    let mut turns: Vec<(f64, usize)> = counts.iter().enumerate().flat_map(of).collect();
    turns.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    turns.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_go_to_the_largest() {
        assert_eq!(divide(8, &[2.0, 2.0]), [4, 4]);
        assert_eq!(divide(3, &[1.0, 1.0]), [2, 1]);
        assert_eq!(divide(10, &[100.0, 25.0]), [8, 2]);
        assert_eq!(divide(5, &[0.0, 1.0]), [0, 5]);
        assert_eq!(divide(0, &[1.0]), [0]);
        assert_eq!(divide(4, &[]), Vec::<u32>::new());
    }

    #[test]
    fn indices_are_interleaved() {
        assert_eq!(interleave(&[2, 2]), [0, 1, 0, 1]);
        assert_eq!(interleave(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(interleave(&[0, 2]), [1, 1]);
    }
}
