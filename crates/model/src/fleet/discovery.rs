//! Which of many hypotheses to reject: the false discovery rate.

/// Returns the p-value of the hypothesis that none of several effects exists (Simes, Biometrika 73,
/// 1986); sorts the p-values.
///
/// Valid for independent and for positively dependent p-values (Sarkar, Annals of Statistics 26,
/// 1998), as those of figures of one host.
pub(super) fn simes(p: &mut [f64]) -> f64 {
    let n = p.len() as f64;
    p.sort_unstable_by(f64::total_cmp);
    p.iter().zip(1u32..).map(|(p, rank)| p * n / f64::from(rank)).fold(1.0, f64::min)
}

/// Returns the adjusted p-values by Benjamini and Hochberg (Journal of the Royal Statistical
/// Society B 57, 1995), in the order of the input: the false discovery rate at which each would
/// just be rejected.
///
/// Holds the rate for independent and for positively dependent p-values (Benjamini and Yekutieli,
/// Annals of Statistics 29, 2001).
pub(super) fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_unstable_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (index, rank) in order.into_iter().zip((1..=p.len()).rev()) {
        least = least.min(p[index] * p.len() as f64 / rank as f64);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn adjusts_the_example_of_the_paper() {
        // Benjamini and Hochberg, 1995, section 3.2: at 5 % four of the 15 are rejected.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        assert_eq!(adjusted(&p).iter().filter(|p| **p <= 0.05).count(), 4);
        assert!((simes(&mut p.clone()) - 0.0015).abs() < 1e-12);
        assert_eq!(adjusted(&[]), [] as [f64; 0]);
    }

    proptest! {
        #[test]
        fn the_smallest_adjusted_value_is_that_of_simes(p in proptest::collection::vec(0.0..1.0f64, 1..40)) {
            let least = adjusted(&p).into_iter().fold(1.0, f64::min);
            prop_assert!((least - simes(&mut p.clone())).abs() < 1e-12);
        }
    }
}
