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

/// The inputs of the sizes of cards, stacks and frames.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Width of all cards.
    card: i32,
    /// Whether all cards are in one stack, for screens as narrow as a phone's.
    single_stack: bool,
}

/// Returns the width of all cards: that of the widest one.
fn card_width(blocks: &[Block]) -> i32 {
    let columns = blocks.iter().flat_map(|block| block.columns.iter().chain(&block.beside));
    let width = |column: &Column| {
        let devices = column.devices.iter().map(|card| card.width() + INDENT);
        devices.chain(column.node.iter().map(Card::width)).max().unwrap_or(0)
    };
    columns.map(width).max().unwrap_or(0).clamp(CARD_WIDTHS.0, CARD_WIDTHS.1)
}

impl Column {
    fn abreast(&self, sizes: Sizes) -> usize {
        let most = if sizes.single_stack { 1 } else { MAX_ABREAST };
        self.devices.len().div_ceil(MAX_STACKED).clamp(1, most)
    }

    fn width(&self, sizes: Sizes) -> i32 {
        self.abreast(sizes) as i32 * (sizes.card + GAP) - GAP
    }

    fn height(&self, sizes: Sizes) -> i32 {
        let cards = self
            .devices
            .chunks(self.per_stack(sizes))
            .map(|stack| stack.iter().map(|device| device.height() + GAP).sum::<i32>());
        self.node_height() + cards.max().unwrap_or(0) - if self.node.is_none() { GAP } else { 0 }
    }

    fn node_height(&self) -> i32 {
        self.node.as_ref().map_or(0, Card::height)
    }

    fn per_stack(&self, sizes: Sizes) -> usize {
        self.devices.len().div_ceil(self.abreast(sizes)).max(1)
    }

    /// Draws the node with its devices below it, connected by wires.
    fn draw(&self, canvas: &mut Canvas, x: i32, y: i32, sizes: Sizes) {
        let (card, wired) = (sizes.card, self.node.is_some());
        for (index, stack) in self.devices.chunks(self.per_stack(sizes)).enumerate() {
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
            node.draw(canvas, Area { x, y, width: self.width(sizes), height: node.height() });
        }
    }
}

impl Block {
    /// Returns the number of nodes of a package side by side.
    fn abreast(&self, sizes: Sizes) -> usize {
        match self.columns.len() {
            _ if sizes.single_stack => 1,
            n if n <= 3 => n.max(1),
            n => n.isqrt() + usize::from(n.isqrt() * n.isqrt() < n),
        }
    }

    /// Distributes nodes over stacks, each on the lowest stack so far.
    fn stacks(&self, sizes: Sizes) -> Vec<Vec<&Column>> {
        let mut stacks: Vec<(i32, Vec<&Column>)> = vec![(0, Vec::new()); self.abreast(sizes)];
        for column in &self.columns {
            // Among equally low stacks, the leftmost.
            if let Some((height, stack)) = stacks.iter_mut().min_by_key(|(height, _)| *height) {
                *height += column.height(sizes) + GAP;
                stack.push(column);
            }
        }
        stacks.into_iter().map(|(_, stack)| stack).collect()
    }

    fn frame(&self, sizes: Sizes) -> (i32, i32) {
        let stacks = self.stacks(sizes);
        let width = stacks.iter().map(|stack| stack_width(stack, sizes) + GAP).sum::<i32>() - GAP;
        let stack_height =
            |stack: &Vec<&Column>| stack.iter().map(|column| column.height(sizes) + GAP).sum::<i32>();
        let height = stacks.iter().map(stack_height).max().unwrap_or(0) - GAP;
        let title = text_width(&self.title, 13, true);
        (width.max(title) + 2 * PADDING, TITLE + height + 2 * PADDING)
    }

    /// Returns the position of the first node beside the package, relative to the frame's.
    fn beside_position(&self, sizes: Sizes) -> (i32, i32) {
        let (width, height) = self.frame(sizes);
        if sizes.single_stack {
            (INDENT, height + GAP)
        } else {
            (width + BESIDE, PADDING + TITLE)
        }
    }

    /// Returns width and height, with the nodes beside the package.
    fn size(&self, sizes: Sizes) -> (i32, i32) {
        let (width, height) = self.frame(sizes);
        let Some(beside) = self.beside.iter().map(|column| column.width(sizes)).max() else {
            return (width, height);
        };
        let (left, top) = self.beside_position(sizes);
        let bottom = top + self.beside.iter().map(|column| column.height(sizes) + GAP).sum::<i32>();
        (width.max(left + beside), height.max(bottom))
    }

    /// Draws the block in a row of the given height.
    fn draw(&self, canvas: &mut Canvas, x: i32, y: i32, height: i32, sizes: Sizes) {
        let (width, own_height) = self.frame(sizes);
        let height = if sizes.single_stack { own_height } else { height };
        canvas.rect("frame", Area { x, y, width, height });
        canvas.text("name", x + PADDING, y + PADDING + 9, &self.title);
        let mut left = x + PADDING;
        for stack in self.stacks(sizes) {
            let mut top = y + PADDING + TITLE;
            for column in &stack {
                column.draw(canvas, left, top, sizes);
                top += column.height(sizes) + GAP;
            }
            left += stack_width(&stack, sizes) + GAP;
        }
        let (left, top) = self.beside_position(sizes);
        let (left, mut top) = (x + left, y + top);
        for column in &self.beside {
            let middle = top + column.node_height() / 2;
            let wire = match sizes.single_stack {
                true => format!("M{} {}V{middle}H{left}", x + 9, y + height),
                false => format!("M{} {middle}H{left}", x + width),
            };
            canvas.path("far", &wire);
            column.draw(canvas, left, top, sizes);
            top += column.height(sizes) + GAP;
        }
    }
}

fn stack_width(stack: &[&Column], sizes: Sizes) -> i32 {
    stack.iter().map(|column| column.width(sizes)).max().unwrap_or(0)
}

/// Blocks arranged in rows.
pub(super) struct Rows<'b> {
    rows: Vec<Vec<&'b Block>>,
    sizes: Sizes,
}

impl<'b> Rows<'b> {
    /// Arranges blocks in rows for an aspect ratio of about 3:2.
    pub(super) fn new(blocks: &'b [Block]) -> Self {
        let sizes = Sizes { card: card_width(blocks), single_stack: false };
        let in_rows = |abreast: usize| Self::in_rows(blocks, abreast, sizes);
        let skew = |rows: &Self| {
            let (width, height) = rows.size();
            (f64::from(width) / f64::from(height.max(1)) / 1.5).ln().abs()
        };
        let all = (1..=blocks.len().max(1)).map(in_rows);
        all.min_by(|a, b| skew(a).total_cmp(&skew(b))).unwrap_or(Self { rows: Vec::new(), sizes })
    }

    /// Arranges all cards in one stack, about as wide as a phone's screen.
    pub(super) fn single_stack(blocks: &'b [Block]) -> Self {
        Self::in_rows(blocks, 1, Sizes { card: card_width(blocks), single_stack: true })
    }

    fn in_rows(blocks: &'b [Block], abreast: usize, sizes: Sizes) -> Self {
        Self { rows: blocks.chunks(abreast).map(|row| row.iter().collect()).collect(), sizes }
    }

    fn row_height(&self, row: &[&Block]) -> i32 {
        row.iter().map(|block| block.size(self.sizes).1).max().unwrap_or(0)
    }

    /// Returns width and height.
    pub(super) fn size(&self) -> (i32, i32) {
        let width = |row: &Vec<&Block>| {
            row.iter().map(|block| block.size(self.sizes).0 + 2 * GAP).sum::<i32>() - 2 * GAP
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
                block.draw(canvas, left, top, self.row_height(row), self.sizes);
                left += block.size(self.sizes).0 + 2 * GAP;
            }
            top += self.row_height(row) + 2 * GAP;
        }
    }
}
