//! Charts of latency against bandwidth: an SVG that scales in width.

use super::bars::{percent, short, ticks};
use maud::{html, Markup};

/// Heights of the plot, of the axis below it and of the label above it, in pixels.
const PLOT: f64 = 260.0;
const BELOW: f64 = 38.0;
const ABOVE: f64 = 22.0;

/// A curve, in the displayed units.
pub(super) struct Curve {
    /// The label in the legend.
    pub(super) label: String,
    /// Bandwidth, latency and tooltip of each point.
    pub(super) points: Vec<(f64, f64, String)>,
}

/// Draws curves with the accessible `label`; `table` is the id of their table.
pub(super) fn write(curves: &[Curve], unit: &str, label: &str, table: &str) -> Markup {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let most_x = points().map(|point| point.0).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let most_y = points().map(|point| point.1).fold(0.0, f64::max) * 1.08;
    let bottom = ABOVE + PLOT;
    let y_of = move |y: f64| ((ABOVE + PLOT * (1.0 - y / most_y)) * 10.0).round() / 10.0;
    let height = bottom + BELOW;
    html! {
        ul.keys {
            @for (index, curve) in curves.iter().enumerate() {
                li.{ "k" (index % 6) } {
                    svg width="34" height="10" aria-hidden="true" {
                        line.curve x1="0" x2="34" y1="5" y2="5" {}
                        circle cx="17" cy="5" r="3.5" {}
                    }
                    (curve.label)
                }
            }
        }
        div.curves role="img" aria-label=(label) aria-describedby=(table) {
            svg.left height=(height) aria-hidden="true" {
                text.dim x="0" y="12" { "ns per load" }
                @for tick in ticks(most_y) {
                    text.tick.end x="100%" dx="-6" y=(y_of(tick) + 4.0) { (short(tick)) }
                }
            }
            svg.plot height=(height) aria-hidden="true" {
                @for tick in ticks(most_y) {
                    line.grid x1="0" x2="100%" y1=(y_of(tick)) y2=(y_of(tick)) {}
                }
                @for tick in ticks(most_x) {
                    @let x = percent(tick / most_x);
                    line.grid x1=(x) x2=(x) y1=(bottom) y2=(bottom + 4.0) {}
                    text.tick x=(x) y=(bottom + 17.0) { (short(tick)) }
                }
                text.dim.end x="100%" y=(bottom + 34.0) { "Bandwidth of the load, " (unit) }
                @for (index, curve) in curves.iter().enumerate() { (draw(curve, index, most_x, &y_of)) }
            }
        }
    }
}

fn draw(curve: &Curve, index: usize, most_x: f64, y_of: &dyn Fn(f64) -> f64) -> Markup {
    let at = |x: f64| percent(x / most_x);
    html! {
        g.{ "k" (index % 6) } {
            @for ends in curve.points.windows(2) {
                @if let [from, to] = ends {
                    line.curve x1=(at(from.0)) y1=(y_of(from.1)) x2=(at(to.0)) y2=(y_of(to.1)) {}
                }
            }
            @for (x, y, tooltip) in &curve.points {
                circle cx=(at(*x)) cy=(y_of(*y)) r="3.5" { title { (curve.label) ": " (tooltip) } }
            }
        }
    }
}
