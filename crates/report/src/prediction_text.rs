//! Formats a prediction as text: the predictors, the share of each node, and the basis.

use crate::number_format::NumberFormat;
use crate::phrases::{self, count, percent};
use crate::record_header;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{
    Capacities, Estimate, IoPrediction, LimitedBy, Load, LoadBasis, LoadedPrediction, MixPrediction,
    NodeStreams, SharingFit, SharingModel, SuggestedMix,
};

/// Formats the predictions for a mix and for the best mix.
pub fn prediction_text(prediction: &IoPrediction, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    write_head(&mut page, prediction);
    if let Some(mix) = &prediction.mix {
        page.heading(&format!("Mix: {}", streams_text(&mix.streams)));
        write_mix(&mut page, mix);
    }
    if let Some(loaded) = &prediction.loaded {
        write_loaded(&mut page, loaded);
    }
    if let Some(best) = &prediction.best {
        let number: u32 = best.streams.iter().map(|flow| flow.streams).fold(0, u32::saturating_add);
        let of = count(number as usize, "stream");
        page.heading(&format!("Best distribution of {of}: {}", streams_text(&best.streams)));
        write_mix(&mut page, best);
    }
    if let Some(suggested) = &prediction.suggested {
        write_suggested(&mut page, suggested);
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
        page.paragraph(0, 2, &format!("Warning: {} [{}]", warning.message, warning.rule));
    }
}

/// Lists streams by node: `2 on node 2, 1 on node 0`.
pub fn streams_text(mix: &[NodeStreams]) -> String {
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
    table.row(row("sharing models, by probability", mix.limits, errors.map(|error| error.1)));
    for model in mix.selected.iter().filter(|_| !mix.alternatives.is_empty()).chain(&mix.alternatives) {
        let title = format!("- {} ({})", model_title(model.model), percent(model.probability));
        table.row(row(&title, model.estimate, None));
    }
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

/// Writes what the loads leave to each node, and to the mix.
fn write_loaded(page: &mut TextPage, loaded: &LoadedPrediction) {
    let loads: Vec<String> = loaded.loads.iter().map(Load::to_string).collect();
    page.heading(&format!("Under load {}: {}", loads.join(","), streams_text(&loaded.mix.streams)));
    let all = loaded.nodes.iter().map(|node| node.unloaded.bytes_per_s);
    let figures = NumberFormat::bandwidth(page.style().unit, all);
    let unit = figures.unit();
    let mut table = Table::new([
        ("NODE".to_owned(), Align::Right),
        (format!("IDLE {unit}"), Align::Right),
        (format!("LEFT {unit}"), Align::Right),
        ("INTERVAL".to_owned(), Align::Right),
        ("FROM".to_owned(), Align::Left),
    ]);
    for node in &loaded.nodes {
        let basis = match node.basis {
            LoadBasis::Unloaded => "no load on this node",
            LoadBasis::Measured => "I/O measured under this load",
            LoadBasis::OtherLoads => "I/O measured under other loads",
            LoadBasis::Stream => "STREAM bandwidth of the node",
        };
        table.row([
            node.node.to_string().into(),
            figures.format(node.unloaded.bytes_per_s).into(),
            figures.format(node.loaded.bytes_per_s).into(),
            figures.range(node.loaded.low, node.loaded.high).into(),
            basis.into(),
        ]);
    }
    page.table(2, &table);
    page.blank();
    write_mix(page, &loaded.mix);
}

/// Writes the mix that is worth measuring, with the models' predictions.
fn write_suggested(page: &mut TextPage, suggested: &SuggestedMix) {
    page.heading(&format!("Measure next: {}", streams_text(&suggested.streams)));
    let all = suggested.predictions.iter().map(|model| model.estimate.high);
    let figures = NumberFormat::bandwidth(page.style().unit, all);
    let mut table = Table::new([
        ("MODEL".to_owned(), Align::Left),
        ("PROBABILITY".to_owned(), Align::Right),
        (figures.unit().to_owned(), Align::Right),
        ("INTERVAL".to_owned(), Align::Right),
    ]);
    for model in &suggested.predictions {
        table.row([
            model_title(model.model).into(),
            percent(model.probability).into(),
            figures.format(model.estimate.bytes_per_s).into(),
            figures.range(model.estimate.low, model.estimate.high).into(),
        ]);
    }
    page.table(2, &table);
    page.blank();
    page.paragraph(
        2,
        2,
        &format!(
            "Expected standard deviation of predictions: {:.1} % now, {:.1} % after this measurement.",
            suggested.deviation_before * 100.0,
            suggested.deviation_after * 100.0
        ),
    );
}

/// Describes how a model shares a device.
fn model_title(model: SharingModel) -> &'static str {
    match model {
        SharingModel::Bytes => "bytes, below a cap",
        SharingModel::TimeByStreams => "time, by streams",
        SharingModel::TimeByNodes => "time, by nodes",
        SharingModel::Requests => "requests in turn",
        SharingModel::SharedLink => "bytes, with a shared link",
        SharingModel::InFlight => "requests in flight",
        SharingModel::Cores => "cores of the host",
        SharingModel::Copies => "copies by the host",
    }
}

/// Number of models in the basis.
const MOST_MODELS: usize = 2;

/// Writes the basis of the predictions.
fn write_basis(page: &mut TextPage, capacities: &Capacities) {
    page.heading("Basis");
    let unit = page.style().unit;
    match capacities.fitted_mixes {
        0 => page.paragraph(
            2,
            2,
            "No mix was measured, so it is unknown how nodes share the device: the interval contains all sharing models. \
             'numaio predict --suggest' names the mix to measure, and '--measure' measures it.",
        ),
        mixes => page.paragraph(
            2,
            2,
            &format!(
                "Sharing models, fitted to {}, most probable first:",
                count(mixes as usize, "measured mix")
            ),
        ),
    }
    if capacities.fitted_mixes > 0 {
        let models = capacities.sharing.iter().take(MOST_MODELS);
        models.for_each(|fit| page.paragraph(4, 2, &model_text(fit, unit)));
    }
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
        let text = "Not measured; taken from a node of the same class, with intervals widened by the spread of nodes of one \
                    class: node";
        page.paragraph(2, 2, &format!("{text} {}.", represented.join(", node ")));
    }
    page.paragraph(
        2,
        2,
        "Intervals contain the bandwidth with 95 %. They include the noise of readings, the misfit of the models and their \
         disagreement.",
    );
}

/// Describes a fitted model with its parameters.
fn model_text(fit: &SharingFit, unit: BandwidthUnit) -> String {
    let parameter = |one: &numaio_schema::SharingParameter| match one.name.as_str() {
        "cap" | "link" => format!("{} {}", one.name, phrases::bandwidth(one.value, unit)),
        name => format!("{name} {:.2}", one.value),
    };
    let mut facts: Vec<String> = vec![format!("probability {}", percent(fit.probability))];
    facts.extend(fit.parameters.iter().map(parameter));
    if !fit.link_nodes.is_empty() {
        let nodes: Vec<String> = fit.link_nodes.iter().map(ToString::to_string).collect();
        facts.push(format!("nodes {} behind the link", nodes.join(" and ")));
    }
    if let Some(error) = fit.leave_one_out {
        facts.push(format!("each mix predicted from the others within {:.1} %", error * 100.0));
    }
    format!("{}: {}", model_title(fit.model), facts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;
    use numaio_machine::workload::Direction;
    use numaio_schema::{
        FlowPrediction, IoEngine, MixMeasurement, ModelPrediction, NodeCapacity, SharingParameter,
        StreamsCapacity, Warning, PREDICTION_SCHEMA,
    };

    fn around(gigabytes: f64) -> Estimate {
        let bytes_per_s = gigabytes * 1e9;
        Estimate { bytes_per_s, low: bytes_per_s * 0.99, high: bytes_per_s * 1.01 }
    }

    fn sharing(
        model: SharingModel,
        probability: f64,
        leave_one_out: Option<f64>,
        parameters: &[(&str, f64)],
    ) -> SharingFit {
        let parameter =
            |(name, value): &(&str, f64)| SharingParameter { name: (*name).to_owned(), value: *value };
        let parameters = parameters.iter().map(parameter).collect();
        SharingFit { model, probability, leave_one_out, parameters, link_nodes: Vec::new() }
    }

    fn model(model: SharingModel, probability: f64, gigabytes: f64) -> ModelPrediction {
        ModelPrediction { model, probability, estimate: around(gigabytes) }
    }

    fn suggested() -> SuggestedMix {
        SuggestedMix {
            streams: vec![
                NodeStreams { node: NodeId(2), streams: 1 },
                NodeStreams { node: NodeId(7), streams: 5 },
            ],
            predictions: vec![
                model(SharingModel::Bytes, 0.8, 3.6),
                model(SharingModel::TimeByStreams, 0.15, 3.2),
            ],
            deviation_before: 0.062,
            deviation_after: 0.011,
        }
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
            selected: Some(model(SharingModel::Bytes, 0.8, 3.6)),
            alternatives: vec![model(SharingModel::TimeByStreams, 0.15, 3.1)],
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
                link_bytes_per_s: Some(7.9e9),
                fitted_mixes: 2,
                sharing: vec![
                    sharing(SharingModel::Bytes, 0.8, Some(0.011), &[("cap", 3.6e9)]),
                    sharing(SharingModel::TimeByStreams, 0.15, Some(0.052), &[("factor", 1.1), ("cap", 4e9)]),
                ],
            },
            mix: Some(mix.clone()),
            best: Some(MixPrediction {
                streams: vec![NodeStreams { node: NodeId(7), streams: 6 }],
                flows: vec![flow(7, 3.6, 3.6, LimitedBy::Path)],
                measured: None,
                alternatives: Vec::new(),
                ..mix
            }),
            loaded: None,
            suggested: Some(suggested()),
            warnings: vec![Warning { rule: "drift".into(), message: "it drifted".into() }],
        }
    }

    #[test]
    fn complete_prediction() {
        let text = prediction_text(&prediction(), &TextStyle::default());
        assert_eq!(text, include_str!("../tests/expected/prediction.txt"));
    }

    #[test]
    fn states_what_the_models_rest_on() {
        let text_with = |change: &dyn Fn(&mut Capacities)| {
            let mut prediction = prediction();
            change(&mut prediction.capacities);
            prediction_text(&prediction, &TextStyle::default())
        };
        assert!(text_with(&|it| it.fitted_mixes = 0).contains("No mix was measured"));
        assert!(text_with(&|_| {}).contains("fitted to 2 measured mixes"));
        let linked = |it: &mut Capacities| {
            let fit = sharing(SharingModel::SharedLink, 0.9, None, &[("link", 2e9)]);
            it.sharing = vec![SharingFit { link_nodes: vec![NodeId(2), NodeId(3)], ..fit }];
        };
        let text = text_with(&linked);
        assert!(text.contains("link 2.0 GB/s") && text.contains("nodes 2 and 3 behind"), "{text}");
        assert!(!text_with(&|it| it.link_bytes_per_s = None).contains("PCI Express"));
    }
}
