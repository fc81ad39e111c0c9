//! Quantiles of a mixture of two-piece normal distributions.

/// A distribution of a logarithm, with different deviations below and above.
#[derive(Debug, Clone, Copy)]
pub(super) struct Component {
    pub log_value: f64,
    /// Standard deviation below the value.
    pub down: f64,
    /// Standard deviation above the value.
    pub up: f64,
    pub weight: f64,
}

/// Least standard deviation, which keeps the distribution continuous.
const LEAST: f64 = 1e-6;
/// Steps of the bisection; each halves the error.
const STEPS: u32 = 40;

/// Returns the value below which a share of the mixture is, or `None` without components.
pub(super) fn quantile(components: &[Component], share: f64) -> Option<f64> {
    let all: f64 = components.iter().map(|one| one.weight).sum();
    if all <= 0.0 {
        return None;
    }
    let below = |value: f64| components.iter().map(|one| one.weight * one.below(value)).sum::<f64>() / all;
    let ends = components.iter().map(|one| (one.log_value - 6.0 * one.down, one.log_value + 6.0 * one.up));
    let (mut low, mut high) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end.0), high.max(end.1)));
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if below(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some((low + high) / 2.0)
}

impl Component {
    /// Returns the probability below a value.
    fn below(&self, value: f64) -> f64 {
        let distance = value - self.log_value;
        let deviation = if distance < 0.0 { self.down } else { self.up };
        normal(distance / deviation.max(LEAST))
    }
}

/// Returns the normal distribution function (Abramowitz and Stegun, 26.2.17; error below 1e-7).
fn normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z > 0.0 {
        1.0 - tail
    } else {
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_one_component_are_those_of_the_normal_distribution() {
        let one = [Component { log_value: 2.0, down: 0.1, up: 0.3, weight: 0.4 }];
        let at = |share| quantile(&one, share).expect("a component");
        assert!((at(0.5) - 2.0).abs() < 1e-6);
        assert!((at(0.025) - (2.0 - 0.196)).abs() < 1e-4);
        assert!((at(0.975) - (2.0 + 0.588)).abs() < 1e-3);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn an_interval_spans_components_that_disagree() {
        let one = |log_value, weight| Component { log_value, down: 0.01, up: 0.01, weight };
        let both = [one(1.0, 0.6), one(2.0, 0.4)];
        let at = |share| quantile(&both, share).expect("components");
        assert!((at(0.5) - 1.0).abs() < 0.02);
        assert!(at(0.025) < 1.0 && at(0.975) > 2.0);
        let sure = [one(1.0, 0.99), one(2.0, 0.01)];
        assert!(quantile(&sure, 0.975).expect("components") < 1.1);
    }
}
