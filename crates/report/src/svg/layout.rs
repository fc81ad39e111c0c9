//! Layout of blocks, nodes and devices. Sizes follow from the texts, so that nothing overlaps.

use super::canvas::{text_width, Area, Canvas};
use super::card::Card;
use super::scene::{Block, Column};

/// Gap between adjacent cards.
const GAP: i32 = 12;
/// Indent of devices below their node, with space for the wire.
const INDENT: i32 = 20;
/// Inner margin of a frame.
const PADDING: i32 = 14;
/// Height of a frame's title.
const TITLE: i32 = 22;
/// Gap between a package and the nodes beside it, with space for the wire.
const BESIDE: i32 = 30;
/// Maximum number of devices in a stack, unless all [`MAX_ABREAST`] stacks are full.
const MAX_STACKED: usize = 8;
const MAX_ABREAST: usize = 5;
/// Minimum and maximum width of cards.
const CARD_WIDTHS: (i32, i32) = (150, 290);

/// Returns the width of all cards: that of the widest one.
pub(super) fn card_width(blocks: &[Block]) -> i32 {
    let columns = blocks.iter().flat_map(|block| block.columns.iter().chain(&block.beside));
    let width = |column: &Column| {
        let devices = column.devices.iter().map(|card| card.width() + INDENT);
        devices.chain(column.node.iter().map(Card::width)).max().unwrap_or(0)
    };
    columns.map(width).max().unwrap_or(0).clamp(CARD_WIDTHS.0, CARD_WIDTHS.1)
}

impl Column {
    fn abreast(&self) -> usize {
        self.devices.len().div_ceil(MAX_STACKED).clamp(1, MAX_ABREAST)
    }

    fn width(&self, card: i32) -> i32 {
        self.abreast() as i32 * (card + GAP) - GAP
    }

    fn height(&self) -> i32 {
        let cards = self
            .devices
            .chunks(self.per_stack())
            .map(|stack| stack.iter().map(|device| device.height() + GAP).sum::<i32>());
        self.node_height() + cards.max().unwrap_or(0) - if self.node.is_none() { GAP } else { 0 }
    }

    fn node_height(&self) -> i32 {
        self.node.as_ref().map_or(0, Card::height)
    }

    fn per_stack(&self) -> usize {
        self.devices.len().div_ceil(self.abreast()).max(1)
    }

    /// Draws the node with its devices below it, connected by wires.
    fn draw(&self, canvas: &mut Canvas, x: i32, y: i32, card: i32) {
        let wired = self.node.is_some();
        for (index, stack) in self.devices.chunks(self.per_stack()).enumerate() {
            let left = x + index as i32 * (card + GAP);
            let mut top = y + if wired { self.node_height() + GAP } else { 0 };
            for device in stack {
                let indent = if wired { INDENT } else { 0 };
                let area = Area { x: left + indent, y: top, width: card - indent, height: device.height() };
                if wired {
                    // Each device has a wire up to the node; overlapping wires look like one.
                    let from = y + self.node_height();
                    canvas
                        .path("wire", &format!("M{} {from}V{}H{}", left + 9, top + area.height / 2, area.x));
                }
                device.draw(canvas, area);
                top += device.height() + GAP;
            }
        }
        if let Some(node) = &self.node {
            node.draw(canvas, Area { x, y, width: self.width(card), height: node.height() });
        }
    }
}

impl Block {
    /// Returns the number of nodes of a package side by side.
    fn abreast(&self) -> usize {
        match self.columns.len() {
            n if n <= 3 => n.max(1),
            n => n.isqrt() + usize::from(n.isqrt() * n.isqrt() < n),
        }
    }

    /// Distributes nodes over stacks, each on the lowest stack so far.
    fn stacks(&self) -> Vec<Vec<&Column>> {
        let mut stacks: Vec<(i32, Vec<&Column>)> = vec![(0, Vec::new()); self.abreast()];
        for column in &self.columns {
            // Among equally low stacks, the leftmost.
            if let Some((height, stack)) = stacks.iter_mut().min_by_key(|(height, _)| *height) {
                *height += column.height() + GAP;
                stack.push(column);
            }
        }
        stacks.into_iter().map(|(_, stack)| stack).collect()
    }

    fn frame(&self, card: i32) -> (i32, i32) {
        let stacks = self.stacks();
        let width = stacks.iter().map(|stack| stack_width(stack, card) + GAP).sum::<i32>() - GAP;
        let stack_height =
            |stack: &Vec<&Column>| stack.iter().map(|column| column.height() + GAP).sum::<i32>();
        let height = stacks.iter().map(stack_height).max().unwrap_or(0) - GAP;
        let title = text_width(&self.title, 13, true);
        (width.max(title) + 2 * PADDING, TITLE + height + 2 * PADDING)
    }

    /// Returns width and height, with the nodes beside the package.
    fn size(&self, card: i32) -> (i32, i32) {
        let (width, height) = self.frame(card);
        let beside = self.beside.iter().map(|column| column.width(card)).max();
        let below = self.beside.iter().map(|column| column.height() + GAP).sum::<i32>() + PADDING + TITLE;
        (
            width + beside.map_or(0, |beside| beside + BESIDE),
            height.max(if beside.is_some() { below } else { 0 }),
        )
    }

    /// Draws the block in a row of the given height.
    fn draw(&self, canvas: &mut Canvas, x: i32, y: i32, height: i32, card: i32) {
        let (width, _) = self.frame(card);
        canvas.rect("frame", Area { x, y, width, height });
        canvas.text("name", x + PADDING, y + PADDING + 9, &self.title);
        let mut left = x + PADDING;
        for stack in self.stacks() {
            let mut top = y + PADDING + TITLE;
            for column in &stack {
                column.draw(canvas, left, top, card);
                top += column.height() + GAP;
            }
            left += stack_width(&stack, card) + GAP;
        }
        let mut top = y + PADDING + TITLE;
        for column in &self.beside {
            let (from, to) = (x + width, x + width + BESIDE);
            let middle = top + column.node_height() / 2;
            canvas.path("far", &format!("M{from} {middle}H{to}"));
            column.draw(canvas, to, top, card);
            top += column.height() + GAP;
        }
    }
}

fn stack_width(stack: &[&Column], card: i32) -> i32 {
    stack.iter().map(|column| column.width(card)).max().unwrap_or(0)
}

/// Blocks arranged in rows.
pub(super) struct Rows<'b> {
    rows: Vec<Vec<&'b Block>>,
    card: i32,
}

impl<'b> Rows<'b> {
    /// Arranges blocks in rows for an aspect ratio of about 3:2.
    pub(super) fn new(blocks: &'b [Block]) -> Self {
        let card = card_width(blocks);
        let in_rows = |abreast: usize| Self {
            rows: blocks.chunks(abreast).map(|row| row.iter().collect()).collect(),
            card,
        };
        let skew = |rows: &Self| {
            let (width, height) = rows.size();
            (f64::from(width) / f64::from(height.max(1)) / 1.5).ln().abs()
        };
        let all = (1..=blocks.len().max(1)).map(in_rows);
        all.min_by(|a, b| skew(a).total_cmp(&skew(b))).unwrap_or(Self { rows: Vec::new(), card })
    }

    fn row_height(&self, row: &[&Block]) -> i32 {
        row.iter().map(|block| block.size(self.card).1).max().unwrap_or(0)
    }

    /// Returns width and height.
    pub(super) fn size(&self) -> (i32, i32) {
        let width = |row: &Vec<&Block>| {
            row.iter().map(|block| block.size(self.card).0 + 2 * GAP).sum::<i32>() - 2 * GAP
        };
        let height = self.rows.iter().map(|row| self.row_height(row) + 2 * GAP).sum::<i32>() - 2 * GAP;
        (self.rows.iter().map(width).max().unwrap_or(0), height.max(0))
    }

    /// Draws all blocks, the upper left corner at a point.
    pub(super) fn draw(&self, canvas: &mut Canvas, x: i32, y: i32) {
        let mut top = y;
        for row in &self.rows {
            let mut left = x;
            for block in row {
                block.draw(canvas, left, top, self.row_height(row), self.card);
                left += block.size(self.card).0 + 2 * GAP;
            }
            top += self.row_height(row) + 2 * GAP;
        }
    }
}
