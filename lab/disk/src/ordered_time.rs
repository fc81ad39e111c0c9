//! A time with a total order.

/// Seconds since the start of the disk; never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderedTime(pub f64);

impl Eq for OrderedTime {}

impl PartialOrd for OrderedTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
