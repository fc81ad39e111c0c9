//! Interleaved measurement of contenders, and the table of results.

/// One implementation to measure.
pub struct Contender {
    /// Name in the table.
    pub name: String,
    /// Whether it is numaio's implementation.
    pub ours: bool,
    /// Runs for a while and returns a value, or why it cannot run.
    pub run: Box<dyn FnMut() -> Result<f64, String>>,
}

/// The measured quantity.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name of the quantity.
    pub what: &'static str,
    pub unit: &'static str,
    /// Divisor from the measured values to `unit`.
    pub divisor: f64,
    /// Whether lower values are better.
    pub less: bool,
}

/// Values of each contender, one per round, or why it cannot run.
type Measured = Vec<Result<Vec<f64>, String>>;

/// Runs all contenders in each round, starting with a different one each time so that other load on
/// the machine affects all of them, and prints the table.
pub fn run_rounds(figure: Metric, rounds: usize, mut contenders: Vec<Contender>) {
    let mut measured: Measured = contenders.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let which = (turn + round) % contenders.len();
            if let Ok(figures) = &mut measured[which] {
                match (contenders[which].run)() {
                    Ok(figure) => figures.push(figure),
                    Err(why) => measured[which] = Err(why),
                }
            }
        }
    }
    table(figure, &contenders, &measured);
}

/// Prints medians, and ratios to the best contender and to the best one that is not numaio.
fn table(figure: Metric, contenders: &[Contender], measured: &Measured) {
    let better = |a: f64, b: f64| if figure.less { b.total_cmp(&a) } else { a.total_cmp(&b) };
    let best = |whose: &dyn Fn(&Contender) -> bool| {
        let each = contenders.iter().zip(measured).filter(|(contender, _)| whose(contender));
        let figures = each.filter_map(|(contender, figures)| Some((contender, figures.as_ref().ok()?)));
        figures.max_by(|a, b| better(median(a.1), median(b.1)))
    };
    let Some((_, top)) = best(&|_| true) else { return };
    let Metric { what, unit, divisor, .. } = figure;
    let heads = [format!("median {unit}"), format!("best {unit}"), "ratio to best".to_owned()];
    println!("| {what:<44} | {:>11} | {:>9} | {:>13} |", heads[0], heads[1], heads[2]);
    println!("|{:-<46}|{:->12}:|{:->10}:|{:->14}:|", "", "", "", "");
    for (contender, figures) in contenders.iter().zip(measured) {
        let name = &contender.name;
        match figures {
            Ok(figures) => {
                let most =
                    figures.iter().copied().max_by(|a, b| better(*a, *b)).unwrap_or(f64::NAN) / divisor;
                let (median, ratio) = (median(figures) / divisor, ratio(figures, top));
                println!("| {name:<44} | {median:>11.2} | {most:>9.2} | {ratio:>13.3} |");
            }
            Err(why) => println!("| {name:<44} | {why:<39} |"),
        }
    }
    if let (Some(ours), Some(other)) = (best(&|c| c.ours), best(&|c| !c.ours)) {
        let ratio = ratio(ours.1, other.1);
        println!("\n{} against {}: {ratio:.3}", ours.0.name, other.0.name);
    }
}

/// Returns the median of the ratios within rounds.
fn ratio(figures: &[f64], to: &[f64]) -> f64 {
    median(&figures.iter().zip(to).map(|(figure, to)| figure / to).collect::<Vec<_>>())
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}
