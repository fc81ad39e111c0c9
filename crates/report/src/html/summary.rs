//! The summary section: classes and worst-to-best ratio of each target.

use super::page::HtmlPage;
use super::targets::{devices, nodes_of, scale_of, targets_by_relevance, worst_to_best_ratio};
use crate::phrases::count;
use crate::record_header::date_and_load;
use maud::{html, Markup};
use numaio_schema::{Model, TargetModel};

/// The number of targets shown unfolded.
const MAX_UNFOLDED: usize = 12;

/// Writes the classes of every target and direction in tables.
pub(super) fn write(page: &mut HtmlPage, models: &[Model]) -> Markup {
    page.section(1, "Summary", |page| html! {
        @for model in models { (of_model(page, model)) }
        p.how {
            "A device write moves data from a node's memory to a device on the target; a device read moves it in the "
            "opposite direction. Each value is the bandwidth of threads on the target that copy between the two "
            "nodes, as the device's DMA engine would. Worst / best is the ratio of the class means."
        }
    })
}

fn of_model(page: &HtmlPage, model: &Model) -> Markup {
    let when = date_and_load(&model.record.provenance, page.unit);
    let caption = format!(
        "Nodes by bandwidth class for each target, best first, with the mean of each class in {}; measured {when}",
        page.unit
    );
    let targets = targets_by_relevance(model);
    let (first, more) = targets.split_at(targets.len().min(MAX_UNFOLDED));
    html! {
        (table(page, first, &caption))
        @if !more.is_empty() {
            details {
                summary { (count(more.len(), "more target")) }
                (table(page, more, "The other targets"))
            }
        }
    }
}

fn table(page: &HtmlPage, targets: &[&TargetModel], caption: &str) -> Markup {
    html! {
        div.scroll role="region" aria-label="Classes of targets" tabindex="0" {
            table.overview {
                caption { (caption) }
                thead { tr {
                    @for title in ["Target", "Devices", "Direction", "Classes", "Worst / best"] {
                        th scope="col" { (title) }
                    }
                } }
                @for target in targets { tbody { (rows(page, target)) } }
            }
        }
    }
}

fn rows(page: &HtmlPage, target: &TargetModel) -> Markup {
    let span = target.directions.len().max(1);
    html! {
        @for (index, model) in target.directions.iter().enumerate() {
            @let scale = scale_of(page, [model]);
            tr {
                @if index == 0 {
                    th scope="rowgroup" rowspan=(span) { (target.target) }
                    td rowspan=(span) { (devices(target)) }
                }
                td { (model.direction.name()) }
                td { ul.classes {
                    @for class in &model.classes {
                        li.{ "c" (class.rank.clamp(1, 5)) } {
                            b { (class.rank) } (nodes_of(class, target.target))
                            small { (scale.format(class.mean_bytes_copied_per_s)) }
                        }
                    }
                } }
                td.number { (worst_to_best_ratio(model).map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default()) }
            }
        }
    }
}
