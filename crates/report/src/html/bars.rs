//! Bar charts of nodes by class, with intervals: an SVG that scales in width and keeps its text
//! size.

use super::figures::{plus_minus, Figure};
use crate::number_format::NumberFormat;
use maud::{html, Markup};

/// Height of a bar with its margin, in pixels.
const ROW: usize = 22;
/// Heights of the header, of the gap between classes, and of the axis.
const HEAD: usize = 20;
const GAP: usize = 7;
const AXIS: usize = 20;

/// A bar of the chart.
pub(super) struct Bar {
    pub(super) label: String,
    /// A remark, such as `local`.
    pub(super) aside: &'static str,
    pub(super) figure: Figure,
}

/// The bars of a class, or of all nodes without a class.
pub(super) struct BarGroup {
    pub(super) rank: Option<u32>,
    /// Smallest and greatest value.
    pub(super) range: (f64, f64),
    pub(super) bars: Vec<Bar>,
}

/// Draws groups of bars from 0 to `most`, with the accessible `label`; `table` is the id of their
/// table.
pub(super) fn write(
    groups: &[BarGroup],
    scale: &NumberFormat,
    most: f64,
    label: &str,
    table: &str,
) -> Markup {
    let bars: usize = groups.iter().map(|group| group.bars.len()).sum();
    let bottom = HEAD + bars * ROW + groups.len().saturating_sub(1) * GAP;
    let mut top = HEAD;
    let positions: Vec<(usize, &BarGroup)> = groups
        .iter()
        .map(|group| {
            let position = (top, group);
            top += group.bars.len() * ROW + GAP;
            position
        })
        .collect();
    let height = bottom + AXIS;
    html! {
        div.bars role="img" aria-label=(label) aria-describedby=(table) {
            svg.left height=(height) aria-hidden="true" {
                text.dim x="0" y="12" { "Class" }
                text.dim x="42" y="12" { "Node" }
                @for (top, group) in &positions { (names(group, *top)) }
            }
            svg.plot height=(height) aria-hidden="true" {
                (axis(scale, most, bottom))
                @for (top, group) in &positions { (plot(group, scale, most, *top)) }
            }
            svg.right height=(height) aria-hidden="true" {
                text.dim.end x="100%" y="12" { (scale.unit()) ", 95 % ±" }
                @for (top, group) in &positions { (values(group, scale, *top)) }
            }
        }
    }
}

/// Draws the class ranks and node names.
fn names(group: &BarGroup, top: usize) -> Markup {
    let height = group.bars.len() * ROW;
    html! {
        @if let Some(rank) = group.rank {
            rect.key.{ "c" (rank.clamp(1, 5)) } x="0" y=(top + 2) width="26" height=(height - 4) rx="4" {}
            text.rank x="13" y=(top + height / 2 + 5) { (rank) }
        }
        @for (index, bar) in group.bars.iter().enumerate() {
            text x="42" y=(top + index * ROW + 15) {
                (bar.label) @if !bar.aside.is_empty() { tspan.dim { " " (bar.aside) } }
            }
        }
    }
}

/// Writes the values.
fn values(group: &BarGroup, scale: &NumberFormat, top: usize) -> Markup {
    html! {
        @for (index, bar) in group.bars.iter().enumerate() {
            text.end x="100%" y=(top + index * ROW + 15) {
                (scale.format(bar.figure.value)) tspan.dim { " " (plus_minus(bar.figure.half_width())) }
            }
        }
    }
}

fn plot(group: &BarGroup, scale: &NumberFormat, most: f64, top: usize) -> Markup {
    let class = group.rank.map_or("c0".to_owned(), |rank| format!("c{}", rank.clamp(1, 5)));
    let at = |value: f64| percent(value / most);
    let (least, greatest) = group.range;
    html! {
        @if group.bars.len() > 1 {
            rect.band.(class) x=(at(least)) y=(top) width=(percent((greatest - least) / most))
                height=(group.bars.len() * ROW) {}
        }
        @for (index, bar) in group.bars.iter().enumerate() {
            @let y = top + index * ROW + ROW / 2;
            @let Figure { value, low, high, .. } = bar.figure;
            g {
                title { (bar.label) ": " (bar.figure.description(scale)) }
                rect.bar.(class) x="0" y=(y - 6) width=(at(value)) height="12" {}
                line.whisker x1=(at(low)) x2=(at(high)) y1=(y) y2=(y) {}
                @for end in [low, high] { line.whisker x1=(at(end)) x2=(at(end)) y1=(y - 4) y2=(y + 4) {} }
            }
        }
    }
}

fn axis(scale: &NumberFormat, most: f64, bottom: usize) -> Markup {
    html! {
        @for tick in ticks(scale.number(most)) {
            @let x = percent(tick / scale.number(most));
            line.grid x1=(x) x2=(x) y1=(HEAD - 2) y2=(bottom + 4) {}
            text.tick x=(x) y=(bottom + 16) { (short(tick)) }
        }
    }
}

/// Formats a share of the width, from 0 % to 100 %.
pub(super) fn percent(share: f64) -> String {
    let percent = (share * 10_000.0).round() / 100.0;
    format!("{}%", if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 })
}

/// Returns five to eleven round numbers from 0 to `most`.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0];
    }
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step = [5.0, 2.0, 1.0].into_iter().map(|times| times * power).find(|step| *step <= most / 4.0);
    let step = step.unwrap_or(power);
    (0..=10).map(|index| f64::from(index) * step).take_while(|tick| *tick <= most * 1.000_001).collect()
}

/// Formats a tick without trailing zeros.
pub(super) fn short(tick: f64) -> String {
    let text = format!("{tick:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0" } else { text }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let shown = |most: f64| ticks(most).into_iter().map(short).collect::<Vec<_>>().join(" ");
        assert_eq!(shown(0.104), "0 0.02 0.04 0.06 0.08 0.1");
        assert_eq!(shown(41.0), "0 10 20 30 40");
        assert_eq!(shown(700.0), "0 100 200 300 400 500 600 700");
        assert_eq!(shown(79.9), "0 10 20 30 40 50 60 70");
        assert_eq!(shown(199.0), "0 20 40 60 80 100 120 140 160 180");
        assert_eq!(shown(f64::NAN), "0");
    }
}
