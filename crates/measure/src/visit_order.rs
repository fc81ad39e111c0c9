//! Random visit order, reproducible from a seed.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, and identical on every platform and in
/// every version, as replayed campaigns require.
pub struct VisitOrder(u64);

impl VisitOrder {
    /// Creates the order of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Shuffles items (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = (self.next() % (last as u64 + 1)) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_keeps_all_items_and_is_uniform() {
        let mut order = VisitOrder::new(7);
        let mut firsts = [0u32; 5];
        for _ in 0..500 {
            let mut items = [0usize, 1, 2, 3, 4];
            order.shuffle(&mut items);
            firsts[items[0]] += 1;
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3, 4]);
        }
        assert!(firsts.iter().all(|count| (60..140).contains(count)), "{firsts:?}");
    }
}
