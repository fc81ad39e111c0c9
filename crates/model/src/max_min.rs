//! Max-min fair shares of one budget.

/// A flow that grows up to a rate, in proportion to a weight, for a cost per unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub most: f64,
    pub weight: f64,
    pub cost: f64,
}

/// Shares a budget max-min fairly (Bertsekas and Gallager, *Data Networks*, 6.5.2).
pub(crate) fn fill(budget: f64, wanted: &[Wanted]) -> Vec<f64> {
    let mut rates: Vec<f64> = wanted.iter().map(|one| one.most).collect();
    let needed: f64 = wanted.iter().map(|one| one.most * one.cost).sum();
    if needed <= budget {
        return rates;
    }
    // Those that reach their rate at the lowest level stop first.
    let mut order: Vec<usize> = (0..wanted.len()).filter(|index| wanted[*index].cost > 0.0).collect();
    let level = |index: usize| wanted[index].most / wanted[index].weight;
    order.sort_by(|a, b| level(*a).total_cmp(&level(*b)));
    let mut left = budget;
    let mut growing: f64 = order.iter().map(|index| wanted[*index].weight * wanted[*index].cost).sum();
    for index in order {
        let one = wanted[index];
        rates[index] = one.most.min((left / growing).max(0.0) * one.weight);
        left -= rates[index] * one.cost;
        growing -= one.weight * one.cost;
    }
    rates
}
