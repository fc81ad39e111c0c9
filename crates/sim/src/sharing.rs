//! Max-min fair sharing of capacities, by progressive filling. All flows grow together until a
//! capacity is exhausted; its flows stop growing, and the others continue (Bertsekas and Gallager,
//! *Data Networks*, 6.5.2). The result is the only allocation in which no flow can grow except at
//! the cost of a flow that is not larger.

/// Use of one capacity by a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapacityUse {
    /// Index of the capacity.
    pub capacity: usize,
    /// Units of the capacity that one unit of the flow uses; a copy within one memory uses two.
    pub weight: f64,
}

/// Relative tolerance within which capacities are exhausted together, because floating-point sums
/// depend on their order.
const SAME: f64 = 1e-12;

/// Returns the max-min fair rate of each flow. `flows[i]` lists the capacities of flow `i`;
/// repeated ones add up. Weights that are not positive and unknown capacities are ignored. A flow
/// without capacities is infinite.
pub fn share(capacities: &[f64], flows: &[Vec<CapacityUse>]) -> Vec<f64> {
    let counts = |one: &&CapacityUse| one.weight > 0.0 && one.capacity < capacities.len();
    let mut rates = vec![f64::INFINITY; flows.len()];
    let mut left: Vec<f64> = capacities.to_vec();
    let mut growing: Vec<usize> =
        (0..flows.len()).filter(|flow| flows[*flow].iter().any(|one| counts(&one))).collect();
    while !growing.is_empty() {
        let mut weights = vec![0.0; capacities.len()];
        for one in growing.iter().flat_map(|flow| &flows[*flow]).filter(counts) {
            weights[one.capacity] += one.weight;
        }
        // Rate of all growing flows at which each capacity is exhausted.
        let level = |capacity: usize| (left[capacity] / weights[capacity]).max(0.0);
        let used = (0..capacities.len()).filter(|capacity| weights[*capacity] > 0.0);
        let lowest = used.map(level).fold(f64::INFINITY, f64::min);
        let stops = |flow: &usize| {
            flows[*flow].iter().filter(counts).any(|one| level(one.capacity) <= lowest * (1.0 + SAME))
        };
        let (stopped, others): (Vec<usize>, Vec<usize>) = growing.iter().partition(|flow| stops(flow));
        for flow in &stopped {
            rates[*flow] = lowest;
            for one in flows[*flow].iter().filter(counts) {
                left[one.capacity] -= lowest * one.weight;
            }
        }
        if stopped.is_empty() {
            break; // all remaining capacities are infinite
        }
        growing = others;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn crossing(capacities: &[usize]) -> Vec<CapacityUse> {
        capacities.iter().map(|capacity| CapacityUse { capacity: *capacity, weight: 1.0 }).collect()
    }

    #[test]
    fn equal_flows_share_equally() {
        let flows = vec![crossing(&[0]); 4];
        assert_eq!(share(&[10.0], &flows), [2.5; 4]);
    }

    /// A chain of two links, one flow across both and one on each: the classic case.
    #[test]
    fn other_flows_use_what_a_bottleneck_leaves() {
        let flows = [crossing(&[0, 1]), crossing(&[0]), crossing(&[1])];
        assert_eq!(share(&[10.0, 30.0], &flows), [5.0, 5.0, 25.0]);
    }

    /// Computed by hand: link 0 (6) limits flows 0 to 2 to 2 each; link 1 (10) then leaves 8 for
    /// flow 3, but link 2 limits it to 7.
    #[test]
    fn filling_continues_in_steps() {
        let flows = [crossing(&[0]), crossing(&[0]), crossing(&[0, 1]), crossing(&[1, 2])];
        assert_eq!(share(&[6.0, 10.0, 7.0], &flows), [2.0, 2.0, 2.0, 7.0]);
    }

    #[test]
    fn weights_multiply_the_use() {
        let local = vec![CapacityUse { capacity: 0, weight: 2.0 }];
        assert_eq!(share(&[12.0], &[local.clone(), crossing(&[0])]), [4.0, 4.0]);
        let twice = crossing(&[0, 0]);
        assert_eq!(share(&[12.0], &[twice]), share(&[12.0], &[local]));
    }

    #[test]
    fn zero_infinite_and_unknown_capacities() {
        assert_eq!(share(&[0.0, 5.0], &[crossing(&[0, 1]), crossing(&[1])]), [0.0, 5.0]);
        assert_eq!(share(&[f64::INFINITY], &[crossing(&[0]), Vec::new()]), [f64::INFINITY; 2]);
        assert_eq!(share(&[1.0], &[crossing(&[9])]), [f64::INFINITY]);
        assert!(share(&[], &[]).is_empty());
    }

    fn case() -> impl Strategy<Value = (Vec<f64>, Vec<Vec<CapacityUse>>)> {
        let one = (0usize..8, 0.25f64..4.0).prop_map(|(capacity, weight)| CapacityUse { capacity, weight });
        let flow = proptest::collection::vec(one, 1..5);
        (proptest::collection::vec(0.5f64..100.0, 8), proptest::collection::vec(flow, 1..20))
    }

    fn load(flows: &[Vec<CapacityUse>], rates: &[f64], capacity: usize) -> f64 {
        let uses = flows.iter().zip(rates).flat_map(|(flow, rate)| flow.iter().map(move |one| (one, rate)));
        uses.filter(|(one, _)| one.capacity == capacity).map(|(one, rate)| one.weight * rate).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_capacity_is_exceeded((capacities, flows) in case()) {
            let rates = share(&capacities, &flows);
            for (index, capacity) in capacities.iter().enumerate() {
                prop_assert!(load(&flows, &rates, index) <= capacity * (1.0 + 1e-9));
            }
        }

        /// Every flow uses an exhausted capacity on which no flow is larger: the definition of
        /// max-min fairness.
        #[test]
        fn every_flow_has_a_bottleneck((capacities, flows) in case()) {
            let rates = share(&capacities, &flows);
            for (flow, rate) in flows.iter().zip(&rates) {
                let bottleneck = flow.iter().any(|one| {
                    let full = load(&flows, &rates, one.capacity) >= capacities[one.capacity] * (1.0 - 1e-9);
                    let crosses = |other: &Vec<CapacityUse>| other.iter().any(|use_| use_.capacity == one.capacity);
                    let most = flows.iter().zip(&rates).filter(|(other, _)| crosses(other)).map(|(_, rate)| *rate);
                    full && most.fold(0.0, f64::max) <= rate * (1.0 + 1e-9)
                });
                prop_assert!(bottleneck);
            }
        }
    }
}
