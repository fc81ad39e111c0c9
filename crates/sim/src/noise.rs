//! Seeded randomness: the same seed yields the same results of all runs.

use crate::spec::Noise;
use numaio_machine::workload::Flow;

/// A random number generator: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
///
/// It is good enough to scatter measurements, but not for cryptography.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of the `run`th run with a seed; runs are independent of each other.
    pub fn of_run(seed: u64, run: u64) -> Self {
        let mut first = Self(seed);
        Self(first.next() ^ run.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below 1, uniformly.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a normally distributed factor around 1 (Box-Muller), at least 0.1.
    pub fn factor(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
        (1.0 + deviation * normal).max(0.1)
    }
}

/// Returns the factor of a run's bandwidth, given the machine's uptime in hours.
pub(crate) fn run_factor(noise: &Noise, flow: Flow, hours: f64, random: &mut Random) -> f64 {
    let mut factor = random.factor(noise.run);
    // Always drawn, so that one setting does not change the random numbers of another.
    let (glitch, second_level) = (random.unit(), random.unit());
    if glitch < noise.glitch_probability {
        factor *= noise.glitch_factor;
    }
    if let Some(levels) = noise.bimodal.iter().find(|levels| levels.flow == flow) {
        factor *= if second_level < levels.probability { levels.factor } else { 1.0 };
    }
    factor * (1.0 + noise.drift_per_hour * hours.min(24.0)).max(0.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_yields_same_numbers() {
        let draw = |seed, run| Random::of_run(seed, run).next();
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_ne!(draw(7, 3), draw(7, 4));
        assert_ne!(draw(7, 3), draw(8, 3));
    }

    #[test]
    fn factors_have_the_requested_deviation() {
        let mut random = Random::of_run(1, 0);
        let drawn: Vec<f64> = (0..10_000).map(|_| random.factor(0.05)).collect();
        let mean = drawn.iter().sum::<f64>() / 1e4;
        let variance = drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((mean - 1.0).abs() < 0.003, "{mean}");
        assert!((variance.sqrt() - 0.05).abs() < 0.002, "{variance}");
        assert_eq!(Random::of_run(1, 0).factor(0.0), 1.0);
    }
}
