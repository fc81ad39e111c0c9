//! Formats the numbers of one table with the same unit and number of decimals.

use numaio_machine::units::BandwidthUnit;
use numaio_schema::{FigureKey, Quantity, SweepMethod, View};

/// Unit and decimals of the numbers in one table or drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NumberFormat {
    quantity: Quantity,
    /// The unit of bandwidths.
    unit: BandwidthUnit,
    decimals: usize,
}

impl NumberFormat {
    /// Creates the format of bandwidths, given in bytes per second.
    pub(crate) fn bandwidth(unit: BandwidthUnit, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(Quantity::BytesPerS, unit, values)
    }

    /// Creates the format of latencies, in nanoseconds.
    pub(crate) fn nanoseconds(values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(Quantity::NsPerLoad, BandwidthUnit::default(), values)
    }

    /// Creates the format of a sweep's figures.
    pub(crate) fn sweep(
        method: &SweepMethod,
        unit: BandwidthUnit,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        Self::new(method.quantity, unit, values)
    }

    /// Creates the format of figures of a fleet.
    pub(crate) fn figure(
        key: &FigureKey,
        unit: BandwidthUnit,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let quantity = match key.unit.as_str() {
            "B/s" => Quantity::BytesPerS,
            "ns" => Quantity::NsPerLoad,
            _ => Quantity::Score,
        };
        Self::new(quantity, unit, values)
    }

    /// Creates the format of a view's values.
    pub(crate) fn for_view(view: &View, unit: BandwidthUnit) -> Self {
        Self::new(view.quantity, unit, view.nodes.iter().map(|node| node.value))
    }

    fn new(quantity: Quantity, unit: BandwidthUnit, values: impl IntoIterator<Item = f64>) -> Self {
        let exact = Self { quantity, unit, decimals: 0 };
        let decimals = match exact.number(greatest(values)) {
            most if most >= 1000.0 => 0,
            most if most >= 100.0 => 1,
            most if most >= 1.0 => 2,
            most if most >= 0.1 => 3,
            _ => 4,
        };
        let most = match quantity {
            Quantity::BytesPerS | Quantity::Score | Quantity::Cost => 4,
            Quantity::NsPerLoad | Quantity::Nanoseconds => 1,
            Quantity::Distance => 0,
        };
        Self { decimals: decimals.min(most), ..exact }
    }

    /// Returns the format with one more decimal.
    pub(crate) fn finer(self) -> Self {
        Self { decimals: self.decimals + 1, ..self }
    }

    /// Returns the format with fewer decimals, for tables of many columns whose greatest value is
    /// `most`.
    pub(crate) fn compact(self, most: f64) -> Self {
        let decimals = match self.number(most) {
            most if most >= 100.0 => 0,
            most if most >= 10.0 => 1,
            _ => self.decimals,
        };
        Self { decimals: decimals.min(self.decimals), ..self }
    }

    /// Formats a value without its unit.
    pub(crate) fn format(&self, value: f64) -> String {
        format!("{:.*}", self.decimals, self.number(value))
    }

    /// Formats a range as `least - most`, or as one number if both have the same text.
    pub(crate) fn range(&self, least: f64, most: f64) -> String {
        let (least, most) = (self.format(least), self.format(most));
        if least == most {
            least
        } else {
            format!("{least} - {most}")
        }
    }

    /// Converts a value to the displayed unit.
    pub(crate) fn number(&self, value: f64) -> f64 {
        match self.quantity {
            Quantity::BytesPerS => self.unit.of(value),
            Quantity::NsPerLoad
            | Quantity::Nanoseconds
            | Quantity::Distance
            | Quantity::Score
            | Quantity::Cost => value,
        }
    }

    /// Returns the name of the unit; distances have none, and figures of programs state it in their
    /// title.
    pub(crate) fn unit(&self) -> &'static str {
        match self.quantity {
            Quantity::BytesPerS => self.unit.name(),
            Quantity::NsPerLoad | Quantity::Nanoseconds => "ns",
            Quantity::Distance | Quantity::Score | Quantity::Cost => "",
        }
    }

    /// Returns whether a greater value is better.
    pub(crate) fn more_is_better(&self) -> bool {
        self.quantity.more_is_better()
    }
}

/// Returns the greatest finite value, or 0.
pub(crate) fn greatest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_sets_the_decimals() {
        let bandwidth =
            |most: f64| NumberFormat::bandwidth(BandwidthUnit::GigabytesPerS, [1e8, most]).format(1.5e9);
        assert_eq!([2e8, 2e9, 2e11, 2e12].map(bandwidth), ["1.500", "1.50", "1.5", "2"]);
        let ns = NumberFormat::nanoseconds([87.25, 1200.4]);
        assert_eq!(
            (ns.format(87.25), ns.range(87.1, 87.2), ns.range(87.0, 90.0)),
            ("87".into(), "87".into(), "87 - 90".into())
        );
        assert_eq!(NumberFormat::nanoseconds([87.25]).format(87.25), "87.2");
    }
}
