//! Figures of one kind with as many decimals as all figures of a table have.

use numaio_machine::units::BandwidthUnit;

/// How figures of a table are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// None of nanoseconds.
    unit: Option<BandwidthUnit>,
    decimals: usize,
}

impl Figures {
    /// Bandwidths, given in bytes per second.
    pub(crate) fn bandwidth(unit: BandwidthUnit, values: impl IntoIterator<Item = f64>) -> Self {
        let decimals = match values.into_iter().map(|value| unit.of(value)).fold(0.0, f64::max) {
            most if most >= 1000.0 => 0,
            most if most >= 100.0 => 1,
            most if most >= 1.0 => 2,
            _ => 3,
        };
        Self { unit: Some(unit), decimals }
    }

    /// Latencies in nanoseconds.
    pub(crate) fn nanoseconds(values: impl IntoIterator<Item = f64>) -> Self {
        let most = values.into_iter().fold(0.0, f64::max);
        Self { unit: None, decimals: if most >= 1000.0 { 0 } else { 1 } }
    }

    /// With one decimal more.
    pub(crate) fn finer(self) -> Self {
        Self { decimals: self.decimals + 1, ..self }
    }

    pub(crate) fn of(&self, value: f64) -> String {
        format!("{:.*}", self.decimals, self.unit.map_or(value, |unit| unit.of(value)))
    }

    /// `least - most`, or one figure where they are written alike.
    pub(crate) fn range(&self, least: f64, most: f64) -> String {
        let (least, most) = (self.of(least), self.of(most));
        if least == most {
            least
        } else {
            format!("{least} - {most}")
        }
    }

    /// The unit's name.
    pub(crate) fn unit(&self) -> &'static str {
        self.unit.map_or("ns", BandwidthUnit::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_of_a_table_have_the_decimals_of_the_largest() {
        let bandwidth = |most: f64| Figures::bandwidth(BandwidthUnit::GigabytesPerS, [1e8, most]).of(1.5e9);
        assert_eq!([2e8, 2e9, 2e11, 2e12].map(bandwidth), ["1.500", "1.50", "1.5", "2"]);
        let ns = Figures::nanoseconds([87.25, 1200.4]);
        assert_eq!(
            (ns.of(87.25), ns.range(87.1, 87.2), ns.range(87.0, 90.0)),
            ("87".into(), "87".into(), "87 - 90".into())
        );
        assert_eq!(Figures::nanoseconds([87.25]).of(87.25), "87.2");
    }
}
