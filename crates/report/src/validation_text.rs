//! Formats a validation as text, like Tables IV and V of Li et al. (ICPP 2013), with conclusions.

use crate::number_format::NumberFormat;
use crate::phrases::{self, count};
use crate::record_header::{self, percent};
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::units::BandwidthUnit;
use numaio_machine::workload::Direction;
use numaio_schema::{
    Agreement, Column, Quantity, Role, Spread, ValidatedDirection, Validation, Verdict, View,
};

/// Formats a validation: for each direction the classes with copy bandwidth and measured I/O, the
/// predictions of hop distance and STREAM, and the conclusions.
pub fn validation_text(validation: &Validation, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let identity = &validation.machine;
    let machine = phrases::joined([phrases::machine_name(identity), phrases::machine_kind(identity)], ", ");
    page.paragraph(
        0,
        2,
        &format!("Model of node {} of {machine}, compared with measured I/O", validation.target),
    );
    let devices: Vec<String> = validation.devices.iter().map(|device| phrases::short(device)).collect();
    page.paragraph(
        0,
        2,
        &format!("Measured: {}; latest {}", devices.join(", "), record_header::date(validation.measured_at)),
    );
    for warning in &validation.warnings {
        page.paragraph(0, 2, &format!("Warning: {} [{}]", warning.message, warning.rule));
    }
    for direction in &validation.directions {
        write_direction(&mut page, direction);
    }
    page.into_text()
}

fn write_direction(page: &mut TextPage, direction: &ValidatedDirection) {
    let (name, table) = match direction.direction {
        Direction::Write => ("Device write", "IV"),
        Direction::Read => ("Device read", "V"),
    };
    page.heading(&format!(
        "{name}: mean and range by class of the model (rule {}, within {} %; as Table {table} of Li et al.)",
        direction.rule,
        percent(direction.level)
    ));
    page.table(2, &classes(direction, page.style().unit));
    for verdict in &direction.verdicts {
        write_verdict(page, direction, verdict);
    }
}

fn classes(direction: &ValidatedDirection, unit: BandwidthUnit) -> Table {
    let titles = direction.classes.iter().map(|class| (format!("CLASS {}", class.rank), Align::Right));
    let method = ("METHOD".to_owned(), Align::Left);
    let mut table = Table::new([method, ("UNIT".to_owned(), Align::Left)].into_iter().chain(titles))
        .shrink_first("METHOD");
    let nodes = direction.classes.iter().map(|class| Cell::from(class.nodes.to_string()));
    table.row([Cell::from("nodes"), Cell::from("")].into_iter().chain(nodes));
    for column in &direction.columns {
        let figures = figures(column, unit);
        let cells = |text: &dyn Fn(&Spread) -> String| -> Vec<Cell> {
            let cell = |(spread, class): (&Option<Spread>, &numaio_schema::ValidatedClass)| {
                let text = spread.as_ref().map_or("-".to_owned(), text);
                let color = (column.role != Role::Baseline).then_some(class.rank);
                Cell::with_class(text, color)
            };
            column.classes.iter().zip(&direction.classes).map(cell).collect()
        };
        let unit = figures.map_or("", |figures| figures.unit());
        let means = cells(&|spread| shown(spread.mean, figures));
        table.row([Cell::from(title(&column.view)), Cell::from(unit)].into_iter().chain(means));
        if column.classes.iter().flatten().any(|spread| range(spread, figures).is_some()) {
            let ranges = cells(&|spread| range(spread, figures).unwrap_or_default());
            table.row([Cell::from("  range"), Cell::from("")].into_iter().chain(ranges));
        }
    }
    table
}

/// Returns the number format of a column, or `None` for distances, which have no unit.
fn figures(column: &Column, unit: BandwidthUnit) -> Option<NumberFormat> {
    let values = column.view.nodes.iter().map(|value| value.value);
    match column.view.quantity {
        Quantity::BytesPerS => Some(NumberFormat::bandwidth(unit, values)),
        Quantity::NsPerLoad | Quantity::Nanoseconds => Some(NumberFormat::nanoseconds(values)),
        Quantity::Distance | Quantity::Score | Quantity::Cost => None,
    }
}

fn shown(value: f64, figures: Option<NumberFormat>) -> String {
    figures.map_or_else(|| format!("{value:.1}"), |figures| figures.format(value))
}

/// Formats a range as `28.50 - 28.80`; `None` if both ends have the same text.
fn range(spread: &Spread, figures: Option<NumberFormat>) -> Option<String> {
    let (least, most) = (shown(spread.min, figures), shown(spread.max, figures));
    (least != most).then(|| format!("{least} - {most}"))
}

fn title(view: &View) -> String {
    match phrases::short(&view.title) {
        title if title.is_empty() => phrases::short(&view.name),
        title => title,
    }
}

fn write_verdict(page: &mut TextPage, direction: &ValidatedDirection, verdict: &Verdict) {
    let Some(column) = direction.column(&verdict.measured) else { return };
    page.blank();
    page.paragraph(2, 2, &format!("{}: {}", title(&column.view), class_order(verdict)));
    page.table(4, &rivals(direction, &verdict.agreements));
    for sentence in conclusions(direction, verdict) {
        page.paragraph(4, 2, &sentence);
    }
}

/// States how well the order of the classes predicts measured I/O.
fn class_order(verdict: &Verdict) -> String {
    let wrong = verdict.classes_reversed.len();
    let decided = verdict.classes_in_order as usize + wrong;
    let tied = match verdict.classes_tied {
        0 => String::new(),
        tied => format!("; {tied} not distinguishable"),
    };
    if decided == 0 {
        let pairs = count(verdict.classes_tied as usize, "pair");
        return match verdict.classes_tied {
            0 => "only one class, so no order to predict.".to_owned(),
            _ => format!("no order to predict: {pairs} of classes, none distinguishable."),
        };
    }
    let pairs = count(decided, "pair");
    let agreement = verdict.rank_agreement().map(|agreement| format!("rank agreement {agreement:.2}, "));
    let pairs_wrong: Vec<String> =
        verdict.classes_reversed.iter().map(|(better, worse)| format!("{better} and {worse}")).collect();
    let reversed = match wrong {
        0 => String::new(),
        _ => format!("; in the wrong order: classes {}", pairs_wrong.join(", ")),
    };
    format!(
        "{}{} of {pairs} of classes in the model's order{tied}{reversed}.",
        agreement.unwrap_or_default(),
        verdict.classes_in_order
    )
}

/// Returns the table of agreement, node by node, for the model and its alternatives.
fn rivals(direction: &ValidatedDirection, agreements: &[Agreement]) -> Table {
    let columns = [
        ("NODE BY NODE", Align::Left),
        ("TAU-B", Align::Right),
        ("MISORDERED", Align::Right),
        ("TIED", Align::Right),
        ("PAIRS", Align::Right),
        ("WORST", Align::Left),
    ];
    let mut table = Table::new(columns).shrink_first("WORST");
    for agreement in agreements {
        let name = direction
            .column(&agreement.first)
            .map_or_else(|| phrases::short(&agreement.first), |it| title(&it.view));
        let wrong = agreement.inversions.len() as u32;
        let tied = agreement.tied_in_one + agreement.tied_in_both;
        let worst =
            agreement.inversions.iter().max_by(|a, b| a.factor_in_second.total_cmp(&b.factor_in_second));
        let worst = worst.map(|pair| {
            let (first, second) = (pair.better_in_first, pair.better_in_second);
            format!("{first} above {second}, which is better by {:.2}", pair.factor_in_second)
        });
        table.row([
            name.into(),
            agreement.tau_b.map_or("-".to_owned(), |tau| format!("{tau:.2}")).into(),
            wrong.to_string().into(),
            tied.to_string().into(),
            (agreement.concordant + wrong + tied).to_string().into(),
            worst.unwrap_or_default().into(),
        ]);
    }
    table.without_empty_columns()
}

fn conclusions(direction: &ValidatedDirection, verdict: &Verdict) -> Vec<String> {
    let level = direction.column(&verdict.measured).map_or(0.0, |column| column.view.level);
    let mut found = Vec::new();
    if verdict.device_bound {
        found.push(format!(
            "The device is the bottleneck, not NUMA: all nodes have the same bandwidth within {:.1} %, although the model has {}.",
            verdict.spread * 100.0,
            count(direction.classes.len(), "class")
        ));
    } else {
        for merge in &verdict.merges {
            let ranks: Vec<String> = merge.ranks.iter().map(u32::to_string).collect();
            found.push(format!(
                "For this device, merge classes {}: {} have the same bandwidth within {} %.",
                ranks.join(" and "),
                phrases::nodes(&merge.nodes),
                percent(level)
            ));
        }
    }
    for split in &verdict.splits {
        let parts: Vec<String> = split.parts.iter().map(ToString::to_string).collect();
        found.push(format!(
            "Split class {}: the I/O bandwidth of its nodes differs by more than {} %, beyond noise: {}.",
            split.rank,
            percent(level),
            parts.join(" | ")
        ));
    }
    if !verdict.represented.is_empty() {
        found.push(format!(
            "Not measured: {}; represented by another node of the class.",
            phrases::nodes(&verdict.represented)
        ));
    }
    let unknown = verdict.not_measured.difference(&verdict.represented);
    if !unknown.is_empty() {
        found.push(format!("No value: {}.", phrases::nodes(&unknown)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;
    use numaio_machine::set::NodeSet;
    use numaio_schema::{
        ClassRule, Inversion, Merge, NodeValue, Split, ValidatedClass, VALIDATION_SCHEMA, VIEW_SCHEMA,
    };

    fn set(list: &str) -> NodeSet {
        NodeSet::parse_list(list).expect("nodes")
    }

    fn column(
        role: Role,
        name: &str,
        quantity: Quantity,
        values: &[(u32, f64)],
        classes: &[ValidatedClass],
    ) -> Column {
        let scale = if quantity == Quantity::Distance { 1.0 } else { 1e9 };
        let value = |(node, value): &(u32, f64)| NodeValue {
            node: NodeId(*node),
            value: value * scale,
            interval: None,
            n: 5,
            drift: 0.0,
            factor: None,
        };
        let nodes: Vec<NodeValue> = values.iter().map(value).collect();
        let spread = |class: &ValidatedClass| {
            let members: Vec<f64> = nodes
                .iter()
                .filter(|value| class.nodes.contains(value.node))
                .map(|value| value.value)
                .collect();
            (!members.is_empty()).then(|| Spread {
                nodes: class.nodes.clone(),
                min: members.iter().copied().fold(f64::INFINITY, f64::min),
                max: members.iter().copied().fold(0.0, f64::max),
                mean: members.iter().sum::<f64>() / members.len() as f64,
                interval: None,
            })
        };
        Column {
            role,
            classes: classes.iter().map(spread).collect(),
            view: View {
                schema: VIEW_SCHEMA.into(),
                name: name.into(),
                title: format!("Title of {name}"),
                machine: "m".into(),
                target: NodeId(3),
                direction: None,
                quantity,
                nodes,
                level: 0.1,
                measured_at: None,
                classes: Vec::new(),
                incomplete: false,
            },
        }
    }

    fn agreement(first: &str, tau_b: Option<f64>, inversions: Vec<Inversion>) -> Agreement {
        Agreement {
            first: first.into(),
            second: "io-read".into(),
            nodes: set("0-3"),
            tau_b,
            concordant: 4,
            tied_in_one: 1,
            tied_in_both: 0,
            inversions,
            same_classes: true,
        }
    }

    fn validation() -> Validation {
        let class = |rank, nodes| ValidatedClass { rank, nodes: set(nodes) };
        let classes = vec![class(1, "2-3"), class(2, "0-1")];
        let columns = vec![
            column(
                Role::Model,
                "copy-read",
                Quantity::BytesPerS,
                &[(0, 3.0), (1, 3.2), (2, 5.0), (3, 5.2)],
                &classes,
            ),
            column(Role::Measured, "io-read", Quantity::BytesPerS, &[(0, 1.6), (1, 2.0), (3, 2.5)], &classes),
            column(
                Role::Baseline,
                "slit",
                Quantity::Distance,
                &[(0, 20.0), (1, 20.0), (2, 16.0), (3, 10.0)],
                &classes,
            ),
        ];
        let inversion = Inversion {
            better_in_first: NodeId(0),
            better_in_second: NodeId(1),
            factor_in_first: 1.1,
            factor_in_second: 1.25,
        };
        let verdict = Verdict {
            measured: "io-read".into(),
            not_measured: set("2"),
            represented: set("2"),
            classes_in_order: 1,
            classes_reversed: Vec::new(),
            classes_tied: 0,
            agreements: vec![
                agreement("copy-read", Some(1.0), Vec::new()),
                agreement("slit", Some(0.4), vec![inversion]),
            ],
            spread: 0.36,
            device_bound: false,
            splits: vec![Split { rank: 2, parts: vec![set("1"), set("0")] }],
            merges: Vec::new(),
        };
        Validation {
            schema: VALIDATION_SCHEMA.into(),
            numaio: "0".into(),
            machine: Default::default(),
            measured_at: 1_700_000_000,
            target: NodeId(3),
            devices: vec!["nvme0n1".into()],
            directions: vec![ValidatedDirection {
                direction: Direction::Read,
                rule: ClassRule::Paper,
                level: 0.1,
                classes,
                columns,
                verdicts: vec![verdict],
            }],
            warnings: Vec::new(),
        }
    }

    #[test]
    fn complete_validation() {
        let text = validation_text(&validation(), &TextStyle::default());
        assert_eq!(text, include_str!("../tests/expected/validation.txt"));
    }

    #[test]
    fn states_all_conclusions() {
        let text_with = |change: &dyn Fn(&mut Verdict)| {
            let mut validation = validation();
            change(&mut validation.directions[0].verdicts[0]);
            validation_text(&validation, &TextStyle::default())
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let bound = text_with(&|it| (it.device_bound, it.spread) = (true, 0.021));
        assert!(bound.contains(
            "The device is the bottleneck, not NUMA: all nodes have the same bandwidth within 2.1 %"
        ));
        assert!(bound.contains("has 2 classes."), "{bound}");
        let merged = text_with(&|it| it.merges = vec![Merge { ranks: vec![1, 2], nodes: set("0-1,3") }]);
        assert!(merged.contains("merge classes 1 and 2: nodes 0-1,3 have the same bandwidth within 10 %"));
        let wrong = text_with(&|it| (it.classes_in_order, it.classes_reversed) = (0, vec![(1, 2)]));
        assert!(wrong.contains("rank agreement -1.00, 0 of 1 pair of classes in the model's order; in the wrong order: classes 1 and 2"));
        let unknown = text_with(&|it| (it.not_measured, it.represented) = (set("0,2"), set("2")));
        assert!(
            unknown.contains("Not measured: node 2; represented by another node of the class."),
            "{unknown}"
        );
        assert!(unknown.contains("No value: node 0."), "{unknown}");
        let tied = text_with(&|it| (it.classes_in_order, it.classes_tied) = (0, 1));
        assert!(tied.contains("no order to predict: 1 pair of classes, none distinguishable"));
    }
}
