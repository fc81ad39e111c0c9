//! Threads that are reserved for the tasks of a resource.

/// Returns the threads reserved for each task of a resource with `threads` threads, given the
/// tasks' parts of its bandwidth between 0 and 1: ⌈threads · part⌉ (dissertation, figure 6-4a), at
/// least 1.
///
/// Rounding up may exceed the number of threads; then the largest reservations give some back.
pub fn reserved_threads(threads: u32, parts: &[f64]) -> Vec<u32> {
    let reserve =
        |part: &f64| (f64::from(threads) * part - 1e-9).ceil().clamp(1.0, f64::from(threads)) as u32;
    let mut reserved: Vec<u32> = parts.iter().map(reserve).collect();
    let mut excess = reserved.iter().sum::<u32>().saturating_sub(threads);
    while excess > 0 {
        let Some(most) = reserved.iter_mut().max().filter(|most| **most > 1) else { break };
        *most -= 1;
        excess -= 1;
    }
    reserved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn threads_follow_the_bandwidth() {
        assert_eq!(reserved_threads(8, &[0.5, 0.25, 0.25]), [4, 2, 2]);
        assert_eq!(reserved_threads(8, &[1.0]), [8]);
        assert_eq!(reserved_threads(8, &[0.1]), [1]);
        assert_eq!(reserved_threads(1, &[0.3]), [1]);
        assert_eq!(reserved_threads(4, &[0.9, 0.05, 0.05]), [2, 1, 1]);
    }

    proptest! {
        #[test]
        fn every_task_has_a_thread_and_none_is_reserved_twice(
            parts in prop::collection::vec(0.0..1.0f64, 1..20),
            spare in 0u32..20,
        ) {
            let sum: f64 = parts.iter().sum::<f64>().max(1.0);
            let parts: Vec<f64> = parts.iter().map(|part| part / sum).collect();
            let threads = parts.len() as u32 + spare;
            let reserved = reserved_threads(threads, &parts);
            prop_assert!(reserved.iter().all(|count| *count >= 1));
            prop_assert!(reserved.iter().sum::<u32>() <= threads);
        }
    }
}
