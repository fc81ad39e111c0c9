//! Distances as a matrix in which the farther is the darker.

use super::canvas::{text_width, Area, Canvas};
use numaio_machine::topology::Distances;

/// With more nodes than this, cells are small and without figures.
const FEW: usize = 16;

/// The matrix, with the sizes it is drawn in.
pub(super) struct Heat<'d> {
    distances: &'d Distances,
    cell: (i32, i32),
    label: i32,
}

impl<'d> Heat<'d> {
    /// For two nodes or more.
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

    /// Width and height.
    pub(super) fn size(&self) -> (i32, i32) {
        let nodes = self.distances.nodes.len() as i32;
        (self.label + 8 + nodes * self.cell.0, 18 + nodes * self.cell.1)
    }

    /// Draws it, the upper left corner at a point.
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
    }

    /// Draws neighbouring cells of the same distance as one.
    fn draw_row(&self, canvas: &mut Canvas, row: usize, distances: &[u32], left: i32, y: i32) {
        let (width, height) = self.cell;
        let nodes = &self.distances.nodes;
        let farthest = self.distances.rows.iter().flatten().copied().max().unwrap_or(10);
        let few = nodes.len() <= FEW;
        let mut first = 0;
        while let Some(distance) = distances.get(first) {
            let same =
                distances[first..].iter().take_while(|other| !few && *other == distance).count().max(1);
            let x = left + first as i32 * width;
            let area = Area { x, y, width: width * same as i32, height };
            let share =
                f64::from(distance.saturating_sub(10)) / f64::from(farthest.saturating_sub(10).max(1));
            let to = match same {
                1 => nodes[first].to_string(),
                same => format!("{} to {}", nodes[first], nodes[first + same - 1]),
            };
            canvas.heat(area, 0.05 + 0.5 * share, &format!("from node {} to {to}: {distance}", nodes[row]));
            if few {
                canvas.text("middle", x + width / 2, y + height / 2 + 4, &distance.to_string());
            }
            first += same;
        }
    }
}
