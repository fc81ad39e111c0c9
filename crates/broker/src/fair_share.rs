//! Max-min fair rates.

use crate::request::ResourceId;

/// A flow that uses resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow<'a> {
    /// Its share relative to others of the same bottleneck, above 0.
    pub weight: f64,
    /// Its own limit in bytes/s; infinite if it has none.
    pub limit: f64,
    /// Its resources, each once.
    pub uses: &'a [ResourceId],
}

/// Part of a value below which two rates count as equal.
const PRECISION: f64 = 1e-12;

/// Returns the weighted max-min fair rates of flows in bytes/s, by progressive filling
/// (Bertsekas and Gallager, Data Networks, 6.5.2): all rates grow in proportion to their weights,
/// and a flow stops at its limit or when one of its resources is used up.
///
/// `bandwidths` are those of the resources; infinite if unknown. The rate of a flow that nothing
/// limits is infinite.
pub fn fair_rates(bandwidths: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut growing: Vec<usize> = (0..flows.len()).collect();
    let mut left = bandwidths.to_vec();
    while !growing.is_empty() {
        let mut weights = vec![0.0; left.len()];
        for flow in growing.iter().map(|index| &flows[*index]) {
            flow.uses.iter().for_each(|resource| weights[resource.0] += flow.weight);
        }
        // The level at which a flow stops, in rate per weight above its present rate.
        let stops = |index: usize| {
            let flow = &flows[index];
            let by_resource =
                flow.uses.iter().map(|resource| left[resource.0].max(0.0) / weights[resource.0]);
            by_resource.fold((flow.limit - rates[index]).max(0.0) / flow.weight, f64::min)
        };
        let levels: Vec<f64> = growing.iter().map(|index| stops(*index)).collect();
        let level = levels.iter().copied().fold(f64::INFINITY, f64::min);
        for index in &growing {
            let flow = &flows[*index];
            rates[*index] += level * flow.weight;
            flow.uses.iter().for_each(|resource| left[resource.0] -= level * flow.weight);
        }
        if level.is_infinite() {
            break;
        }
        let ends = level + level.abs() * PRECISION;
        let mut stops_at = levels.iter();
        growing.retain(|_| stops_at.next().is_some_and(|stop| *stop > ends));
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: ResourceId = ResourceId(0);
    const B: ResourceId = ResourceId(1);
    const C: ResourceId = ResourceId(2);

    fn flow(uses: &[ResourceId]) -> Flow<'_> {
        Flow { weight: 1.0, limit: f64::INFINITY, uses }
    }

    #[test]
    fn textbook_example_is_solved() {
        // Bertsekas and Gallager, figure 6.13: five sessions, three links of capacity 1.
        let flows = [flow(&[A, B]), flow(&[A]), flow(&[A]), flow(&[B, C]), flow(&[C])];
        let rates = fair_rates(&[1.0; 3], &flows);
        let third = 1.0 / 3.0;
        let expected = [third, third, third, 0.5, 0.5];
        assert!(rates.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{rates:?}");
    }

    #[test]
    fn limits_and_weights_are_respected() {
        let flows = [
            Flow { limit: 10.0, ..flow(&[A]) },
            Flow { weight: 2.0, ..flow(&[A]) },
            Flow { weight: 1.0, ..flow(&[A]) },
        ];
        assert_eq!(fair_rates(&[100.0], &flows), [10.0, 60.0, 30.0]);
        assert_eq!(fair_rates(&[f64::INFINITY], &flows), [10.0, f64::INFINITY, f64::INFINITY]);
        assert_eq!(fair_rates(&[], &[]), Vec::<f64>::new());
    }

    proptest! {
        /// Rates are max-min fair if and only if each flow is at its limit, or has a bottleneck: a
        /// resource that is used up and on which no flow has more per weight.
        #[test]
        fn every_flow_is_at_its_limit_or_has_a_bottleneck(
            bandwidths in prop::collection::vec(1.0..1e10f64, 1..9),
            seeds in prop::collection::vec((1u32..8, 0.0..2e10f64, 1u32..255, any::<bool>()), 0..24),
        ) {
            let uses: Vec<Vec<ResourceId>> = seeds
                .iter()
                .map(|(.., mask, _)| (0..bandwidths.len()).filter(|bit| mask >> bit & 1 == 1).map(ResourceId).collect())
                .collect();
            let flows: Vec<Flow<'_>> = seeds
                .iter()
                .zip(&uses)
                .map(|((weight, limit, _, is_limited), uses)| Flow {
                    weight: f64::from(*weight),
                    limit: if *is_limited { *limit } else { f64::INFINITY },
                    uses,
                })
                .collect();
            let rates = fair_rates(&bandwidths, &flows);
            let used = |resource: usize| -> f64 {
                flows.iter().zip(&rates).filter(|(flow, _)| flow.uses.contains(&ResourceId(resource))).map(|(_, rate)| rate).sum()
            };
            for (resource, bandwidth) in bandwidths.iter().enumerate() {
                prop_assert!(used(resource) <= bandwidth * (1.0 + 1e-9));
            }
            for (flow, rate) in flows.iter().zip(&rates) {
                let is_at_limit = *rate >= flow.limit * (1.0 - 1e-9);
                let is_bottleneck = |resource: &ResourceId| {
                    let most = flows.iter().zip(&rates).filter(|(other, _)| other.uses.contains(resource));
                    let most = most.map(|(other, rate)| rate / other.weight).fold(0.0, f64::max);
                    used(resource.0) >= bandwidths[resource.0] * (1.0 - 1e-9)
                        && rate / flow.weight >= most * (1.0 - 1e-9)
                };
                let is_unlimited = flow.uses.is_empty() && rate.is_infinite();
                prop_assert!(is_at_limit || is_unlimited || flow.uses.iter().any(is_bottleneck));
            }
        }
    }
}
