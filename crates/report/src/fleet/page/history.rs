//! The history of a host as a small chart.

use crate::record_header::date;
use maud::{html, Markup};
use numaio_schema::HostHistory;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 64.0;
/// Free space for texts at the left and below.
const LEFT: f64 = 44.0;
const BELOW: f64 = 16.0;
/// Most points that are drawn.
const MOST_POINTS: usize = 120;
/// Smallest range of deviations.
const LEAST_RANGE: f64 = 0.1;

/// Draws the median deviation of a host's figures over time.
pub(super) fn sparkline(history: &HostHistory) -> Markup {
    let step = history.points.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(u64, f64)> = history.points.iter().rev().step_by(step).rev().copied().collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return html! {} };
    let low = points.iter().map(|point| point.1).fold(-LEAST_RANGE, f64::min);
    let high = points.iter().map(|point| point.1).fold(LEAST_RANGE, f64::max);
    let span = (last.0 - first.0).max(1) as f64;
    let x = |time: u64| LEFT + (time - first.0) as f64 / span * (WIDTH - LEFT - 6.0);
    let y = |deviation: f64| 6.0 + (high - deviation) / (high - low) * (HEIGHT - BELOW - 10.0);
    let path: Vec<String> =
        points.iter().map(|(time, deviation)| format!("{:.1},{:.1}", x(*time), y(*deviation))).collect();
    // Adding 0 turns -0 into 0.
    let label = |deviation: f64| format!("{:+.0} %", (deviation * 100.0).round() + 0.0).replace('-', "−");
    let title = format!(
        "Median deviation of the host's figures: {} on {}, {} on {}",
        label(first.1),
        date(first.0),
        label(last.1),
        date(last.0)
    );
    html! {
        figure.history {
            figcaption.how { "History: median deviation from the group's present medians" }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT) role="img" aria-label=(title) {
                @for level in [low, 0.0, high] {
                    line.grid x1=(LEFT) x2=(WIDTH) y1=(y(level)) y2=(y(level)) {}
                    text.tick.end x=(LEFT - 5.0) y=(y(level) + 4.0) { (label(level)) }
                }
                polyline.trend points=(path.join(" ")) {}
                circle.last cx=(x(last.0)) cy=(y(last.1)) r="3" {}
                text.tick.start x=(LEFT) y=(HEIGHT - 2.0) { (&date(first.0)[..10]) }
                text.tick.end x=(WIDTH) y=(HEIGHT - 2.0) { (&date(last.0)[..10]) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_names_its_ends_and_limits_its_points() {
        let points = (0..1_000).map(|day| (day * 86_400, -0.3 * f64::from(day as u32) / 999.0)).collect();
        let chart = sparkline(&HostHistory { host: "n1".to_owned(), points }).into_string();
        assert!(chart.contains("+0 % on 1970-01-01 00:00 UTC, −30 % on 1972-09-26 00:00 UTC"), "{chart}");
        assert!(chart.matches(',').count() < 130, "{chart}");
        assert_eq!(sparkline(&HostHistory { host: String::new(), points: Vec::new() }).into_string(), "");
    }
}
