//! Draws the distance matrix: the greater the distance, the stronger the color.

use super::canvas::{text_width, Area, Canvas};
use numaio_machine::topology::Distances;
use std::collections::BTreeSet;

/// Matrices of more nodes have small cells without numbers.
const FEW: usize = 16;
/// Height of the legend.
const LEGEND: i32 = 28;

/// The matrix and the sizes of its parts.
pub(super) struct Heat<'d> {
    distances: &'d Distances,
    cell: (i32, i32),
    label: i32,
}

impl<'d> Heat<'d> {
    /// Creates the matrix; `None` for fewer than two nodes.
    pub(super) fn new(distances: &'d Distances) -> Option<Self> {
        let widest =
            |texts: &mut dyn Iterator<Item = String>| texts.map(|text| text_width(&text, 11, false)).max();
        let label = widest(&mut distances.nodes.iter().map(ToString::to_string)).unwrap_or(0);
        let figure = widest(&mut distances.rows.iter().flatten().map(ToString::to_string)).unwrap_or(0);
        let cell = match distances.nodes.len() {
            n if n < 2 => return None,
            n if n <= FEW => (label.max(figure).max(20) + 8, 24),
            _ => (label + 3, 14),
        };
        Some(Self { distances, cell, label })
    }

    /// Returns width and height.
    pub(super) fn size(&self) -> (i32, i32) {
        let nodes = self.distances.nodes.len() as i32;
        let legend = if self.is_large() { LEGEND } else { 0 };
        (self.label + 8 + nodes * self.cell.0, 18 + nodes * self.cell.1 + legend)
    }

    fn is_large(&self) -> bool {
        self.distances.nodes.len() > FEW
    }

    /// Returns the opacity of a distance.
    fn opacity(&self, distance: u32) -> f64 {
        let farthest = self.distances.rows.iter().flatten().copied().max().unwrap_or(10);
        let share = f64::from(distance.saturating_sub(10)) / f64::from(farthest.saturating_sub(10).max(1));
        0.05 + 0.5 * share
    }

    /// Draws the legend for cells without numbers: the 12 smallest distances.
    fn draw_legend(&self, canvas: &mut Canvas, x: i32, y: i32) {
        let distances: BTreeSet<u32> = self.distances.rows.iter().flatten().copied().collect();
        for (index, distance) in distances.into_iter().take(12).enumerate() {
            let x = x + index as i32 * 56;
            let area = Area { x, y, width: 16, height: 14 };
            canvas.heat(area, self.opacity(distance), &format!("distance {distance}"));
            canvas.rect("cells", area);
            canvas.text("aside", x + 22, y + 11, &distance.to_string());
        }
    }

    /// Draws the matrix, its upper left corner at a point.
    pub(super) fn draw(&self, canvas: &mut Canvas, x: i32, y: i32) {
        let (width, height) = self.cell;
        let (left, top) = (x + self.label + 8, y + 18);
        let nodes = &self.distances.nodes;
        for (index, node) in nodes.iter().enumerate() {
            let index = index as i32;
            canvas.text("aside middle", left + index * width + width / 2, top - 5, &node.to_string());
            canvas.text("aside end", left - 6, top + index * height + height / 2 + 4, &node.to_string());
        }
        for (index, row) in self.distances.rows.iter().take(nodes.len()).enumerate() {
            self.draw_row(
                canvas,
                index,
                &row[..row.len().min(nodes.len())],
                left,
                top + index as i32 * height,
            );
        }
        let all = nodes.len() as i32;
        canvas.rect("cells", Area { x: left, y: top, width: all * width, height: all * height });
        if self.is_large() {
            self.draw_legend(canvas, left, top + all * height + 10);
        }
    }

    /// Draws adjacent cells with equal distances as one.
    fn draw_row(&self, canvas: &mut Canvas, row: usize, distances: &[u32], left: i32, y: i32) {
        let (width, height) = self.cell;
        let nodes = &self.distances.nodes;
        let few = !self.is_large();
        let mut first = 0;
        while let Some(distance) = distances.get(first) {
            let same =
                distances[first..].iter().take_while(|other| !few && *other == distance).count().max(1);
            let x = left + first as i32 * width;
            let area = Area { x, y, width: width * same as i32, height };
            let to = match same {
                1 => nodes[first].to_string(),
                same => format!("{} to {}", nodes[first], nodes[first + same - 1]),
            };
            canvas.heat(
                area,
                self.opacity(*distance),
                &format!("from node {} to {to}: {distance}", nodes[row]),
            );
            if few {
                canvas.text("middle", x + width / 2, y + height / 2 + 4, &distance.to_string());
            }
            first += same;
        }
    }
}
