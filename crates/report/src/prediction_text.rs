//! Formats a prediction as text: both predictors, the share of each node, and the basis.

use crate::number_format::NumberFormat;
use crate::phrases::{self, count};
use crate::record_header;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::units::format_size;
use numaio_schema::{
    CapSource, Capacities, Estimate, IoPrediction, LimitedBy, MixPrediction, NodeStreams, Sharing,
};

/// Formats the predictions for a mix and for the best mix.
pub fn prediction_text(prediction: &IoPrediction, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    write_head(&mut page, prediction);
    if let Some(mix) = &prediction.mix {
        page.heading(&format!("Mix: {}", streams(&mix.streams)));
        write_mix(&mut page, mix);
    }
    if let Some(best) = &prediction.best {
        let number: u32 = best.streams.iter().map(|flow| flow.streams).fold(0, u32::saturating_add);
        let of = count(number as usize, "stream");
        page.heading(&format!("Best distribution of {of}: {}", streams(&best.streams)));
        write_mix(&mut page, best);
    }
    write_basis(&mut page, &prediction.capacities);
    page.into_text()
}

fn write_head(page: &mut TextPage, prediction: &IoPrediction) {
    let capacities = &prediction.capacities;
    let device = phrases::short(&capacities.device);
    let node = capacities.node.map(|node| format!(" on node {node}")).unwrap_or_default();
    let operation = capacities.operation.iter().map(|operation| format!(" ({})", phrases::short(operation)));
    page.paragraph(
        0,
        2,
        &format!(
            "Predicted {}{} of {device}{node}, {}",
            capacities.direction.name(),
            operation.collect::<String>(),
            phrases::machine_name(&prediction.machine)
        ),
    );
    page.paragraph(
        0,
        2,
        &format!(
            "From measurements of {}, {}: blocks of {}, buffers on each process's node",
            capacities.engine.title(),
            record_header::date(prediction.measured_at),
            format_size(capacities.block_bytes)
        ),
    );
    for warning in &prediction.warnings {
        page.paragraph(0, 2, &format!("Warning: {} [{}]", warning.what, warning.rule));
    }
}

/// Lists streams by node: `2 on node 2, 1 on node 0`.
fn streams(mix: &[NodeStreams]) -> String {
    let part = |flow: &NodeStreams| format!("{} on node {}", flow.streams, flow.node);
    mix.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn write_mix(page: &mut TextPage, mix: &MixPrediction) {
    let unit = page.style().unit;
    let all = [mix.equation_1.high, mix.limits.high]
        .into_iter()
        .chain(mix.flows.iter().map(|flow| flow.alone.bytes_per_s));
    let figures = NumberFormat::bandwidth(unit, all);
    let columns = [
        ("PREDICTOR".to_owned(), Align::Left),
        (figures.unit().to_owned(), Align::Right),
        ("INTERVAL".to_owned(), Align::Right),
        ("ERROR".to_owned(), Align::Right),
    ];
    let mut table = Table::new(columns);
    let row = |title: &str, estimate: Estimate, error: Option<f64>| -> [Cell; 4] {
        [
            title.into(),
            figures.format(estimate.bytes_per_s).into(),
            figures.range(estimate.low, estimate.high).into(),
            error.map(|error| format!("{:+.1} %", error * 100.0)).unwrap_or_default().into(),
        ]
    };
    let measured = mix.measured;
    let errors = measured.map(|measured| (measured.equation_1_error, measured.limits_error));
    table.row(row(
        "Equation 1 of Li et al.: mean of the classes",
        mix.equation_1,
        errors.map(|error| error.0),
    ));
    table.row(row("limits, with max-min fair sharing", mix.limits, errors.map(|error| error.1)));
    if let Some(measured) = measured {
        table.row(row("measured", measured.estimate, None));
    }
    page.table(2, &table.without_empty_columns());
    page.blank();
    let unit = figures.unit();
    let columns = [
        ("NODE".to_owned(), Align::Right),
        ("STREAMS".to_owned(), Align::Right),
        (format!("ALONE {unit}"), Align::Right),
        (format!("IN THE MIX {unit}"), Align::Right),
        ("LIMITED BY".to_owned(), Align::Left),
    ];
    let mut table = Table::new(columns);
    for (flow, streams) in mix.flows.iter().zip(&mix.streams) {
        let limit = match flow.limited_by {
            LimitedBy::Path => "its path or its number of streams",
            LimitedBy::Device => "the device, shared with other nodes",
        };
        table.row([
            flow.node.to_string().into(),
            streams.streams.to_string().into(),
            figures.format(flow.alone.bytes_per_s).into(),
            figures.format(flow.bytes_per_s).into(),
            limit.into(),
        ]);
    }
    page.table(2, &table);
}

/// Writes the basis of the predictions.
fn write_basis(page: &mut TextPage, capacities: &Capacities) {
    page.heading("Basis");
    let unit = page.style().unit;
    let cap = phrases::bandwidth(capacities.cap.bytes_per_s, unit);
    page.paragraph(2, 2, &match (capacities.sharing, capacities.cap_source) {
        (Sharing::Time { factor, .. }, _) => format!(
            "Nodes share the device's time: a measured mix was slower than its best node alone, which no bandwidth limit \
             explains. The second predictor is Equation 1 for each node, times {factor:.3}, the ratio in that mix."
        ),
        (Sharing::MaxMin, CapSource::Mix) => format!(
            "The device limits all nodes together to {cap}: a measured mix reached no more, although its nodes alone add up to more."
        ),
        (Sharing::MaxMin, CapSource::AtLeast) => {
            let seen = phrases::bandwidth(capacities.cap.low, unit);
            format!("No limit of the device is known: measured mixes reached the sum of their nodes, up to {seen}.")
        }
        (Sharing::MaxMin, CapSource::Assumed) => format!(
            "ASSUMED: the device limits all nodes together to {cap}, the bandwidth of the best node alone. No mix was measured, \
             so the interval extends to the sum of the nodes alone. Measure a mix with 'numaio predict --measure'."
        ),
    });
    if let Some(link) = capacities.link_bytes_per_s {
        page.paragraph(
            2,
            2,
            &format!("Bandwidth of its PCI Express link: {}.", phrases::bandwidth(link, unit)),
        );
    }
    let represented = capacities.nodes.iter().filter(|node| node.node != node.measured);
    let represented: Vec<String> =
        represented.map(|node| format!("{} (as node {})", node.node, node.measured)).collect();
    if !represented.is_empty() {
        let text = "Not measured; taken from a node of the same class, with intervals widened by the spread of the class in \
                    the copy model: node";
        page.paragraph(2, 2, &format!("{text} {}.", represented.join(", node ")));
    }
    page.paragraph(
        2,
        2,
        "Interval bounds: the predictions from the lower, and from the upper, ends of all readings' 95 % intervals.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;
    use numaio_machine::workload::Direction;
    use numaio_schema::{
        FlowPrediction, IoEngine, MixMeasurement, NodeCapacity, StreamsCapacity, Warning, PREDICTION_SCHEMA,
    };

    fn around(gigabytes: f64) -> Estimate {
        let bytes_per_s = gigabytes * 1e9;
        Estimate { bytes_per_s, low: bytes_per_s * 0.99, high: bytes_per_s * 1.01 }
    }

    fn prediction() -> IoPrediction {
        let node = |node, measured, gigabytes| NodeCapacity {
            node: NodeId(node),
            measured: NodeId(measured),
            class: Some(1),
            streams: vec![StreamsCapacity { streams: 4, estimate: around(gigabytes) }],
        };
        let flow = |node, alone, gigabytes: f64, limited_by| FlowPrediction {
            node: NodeId(node),
            alone: around(alone),
            bytes_per_s: gigabytes * 1e9,
            limited_by,
        };
        let mix = MixPrediction {
            streams: vec![
                NodeStreams { node: NodeId(2), streams: 2 },
                NodeStreams { node: NodeId(7), streams: 4 },
            ],
            equation_1: around(3.2),
            limits: around(3.6),
            flows: vec![flow(2, 2.25, 1.2, LimitedBy::Path), flow(7, 3.6, 2.4, LimitedBy::Device)],
            measured: Some(MixMeasurement {
                estimate: around(3.55),
                equation_1_error: 3.2 / 3.55 - 1.0,
                limits_error: 3.6 / 3.55 - 1.0,
            }),
        };
        IoPrediction {
            schema: PREDICTION_SCHEMA.into(),
            numaio: "0".into(),
            machine: Default::default(),
            measured_at: 1_700_000_000,
            capacities: Capacities {
                device: "nvme0n1".into(),
                node: Some(NodeId(7)),
                engine: IoEngine::Disk,
                direction: Direction::Write,
                operation: None,
                block_bytes: 128 << 10,
                nodes: vec![node(2, 2, 2.25), node(3, 2, 2.25), node(7, 7, 3.6)],
                cap: around(3.6),
                cap_source: CapSource::Mix,
                link_bytes_per_s: Some(7.9e9),
                sharing: Sharing::MaxMin,
            },
            mix: Some(mix.clone()),
            best: Some(MixPrediction {
                streams: vec![NodeStreams { node: NodeId(7), streams: 6 }],
                flows: vec![flow(7, 3.6, 3.6, LimitedBy::Path)],
                measured: None,
                ..mix
            }),
            warnings: vec![Warning { rule: "drift".into(), what: "it drifted".into() }],
        }
    }

    #[test]
    fn complete_prediction() {
        let text = prediction_text(&prediction(), &TextStyle::default());
        assert_eq!(text, include_str!("../tests/expected/prediction.txt"));
    }

    #[test]
    fn states_the_source_of_the_limit() {
        let text_with = |change: &dyn Fn(&mut Capacities)| {
            let mut prediction = prediction();
            change(&mut prediction.capacities);
            prediction_text(&prediction, &TextStyle::default())
        };
        assert!(text_with(&|it| it.cap_source = CapSource::Assumed).contains("ASSUMED: the device limits"));
        assert!(
            text_with(&|it| it.cap_source = CapSource::AtLeast).contains("No limit of the device is known")
        );
        let time = Sharing::Time { factor: 0.97, interval: (0.96, 0.98) };
        assert!(text_with(&|it| it.sharing = time).contains("times 0.970"));
        assert!(!text_with(&|it| it.link_bytes_per_s = None).contains("PCI Express"));
        assert!(!text_with(&|it| it.cap = around(1.0)).contains("3.6 GB/s:"));
    }
}
