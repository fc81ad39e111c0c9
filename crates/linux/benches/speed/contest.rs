//! Contenders that are measured in turns, and the table of what they reached.

/// One way to do it.
pub struct Contender {
    /// Its name in the table.
    pub name: String,
    /// Whether it is numaio's.
    pub ours: bool,
    /// Does it for a while; gives a figure, or why there is none.
    pub run: Box<dyn FnMut() -> Result<f64, String>>,
}

/// What figures are.
#[derive(Clone, Copy)]
pub struct Figure {
    /// What is done, and the unit that is shown.
    pub what: &'static str,
    pub unit: &'static str,
    /// How many of the figures make one of that unit.
    pub divisor: f64,
    /// Whether less is better.
    pub less: bool,
}

/// Figures of each contender, one a round; why, of those that could not be run.
type Measured = Vec<Result<Vec<f64>, String>>;

/// Runs all contenders in each round, beginning with another one each time, so that what else the machine does
/// meets all alike, and prints the table.
pub fn hold(figure: Figure, rounds: usize, mut contenders: Vec<Contender>) {
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

/// Prints medians, and ratios to the contender with the best median and to the best one that is not ours.
fn table(figure: Figure, contenders: &[Contender], measured: &Measured) {
    let better = |a: f64, b: f64| if figure.less { b.total_cmp(&a) } else { a.total_cmp(&b) };
    let best = |whose: &dyn Fn(&Contender) -> bool| {
        let each = contenders.iter().zip(measured).filter(|(contender, _)| whose(contender));
        let figures = each.filter_map(|(contender, figures)| Some((contender, figures.as_ref().ok()?)));
        figures.max_by(|a, b| better(median(a.1), median(b.1)))
    };
    let Some((_, top)) = best(&|_| true) else { return };
    let Figure { what, unit, divisor, .. } = figure;
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

/// Median of the ratios within rounds.
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
