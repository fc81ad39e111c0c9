//! Draws a transfer plan: sources, memory nodes and destinations in three columns, bytes as bands
//! between them.

use super::canvas::{clip, text_width, Area, Canvas, MARGIN};
use crate::phrases;
use crate::plan_text::{devices, proof, stage_name, title};
use numaio_machine::ids::NodeId;
use numaio_machine::units::{format_size, BandwidthUnit};
use numaio_schema::{Plan, PlannedPool, PoolSide, Stage};
use std::collections::BTreeSet;

/// Width of a band that carries all data, in pixels.
const ALL: f64 = 160.0;
/// Minimum height of a band's slot on a card: one line of text.
const SLOT: i32 = 20;
/// Height of a card's name.
const NAME: i32 = 26;
/// Vertical gap between cards.
const GAP: i32 = 14;
/// Horizontal gap between columns, in which bands curve.
const TURN: i32 = 110;
/// Maximum width of a device card.
const WIDEST: i32 = 240;

/// A band between a device card and a memory card.
struct Band<'a> {
    pool: &'a PlannedPool,
    /// Width in pixels.
    width: i32,
    /// Index of its device card.
    device: usize,
    /// Index of its memory card.
    memory: usize,
    /// Whether it is a bottleneck.
    slow: bool,
}

/// The slots of bands on a side of a card, assigned from the top.
struct BandSlots {
    next: i32,
}

/// A column of cards.
struct Column {
    x: i32,
    width: i32,
    /// Top and height of each card.
    cards: Vec<(i32, i32)>,
}

/// Draws a plan as SVG: devices, memory nodes and the bytes between them.
///
/// The width of a band is its share of all bytes; bottlenecks have another color. The drawing is
/// self-contained, as that of [`topology_svg`](super::topology_svg).
pub fn plan_svg(plan: &Plan, unit: BandwidthUnit) -> String {
    let pools = plan.pools();
    let memories: Vec<NodeId> = nodes(pools.fills.iter().map(|pool| pool.path.memory_node));
    let (fills, from) = bands(plan, &pools.fills, &memories);
    let (drains, to) = bands(plan, &pools.drains, &memories);
    let stages = phrases::joined(plan.bottleneck().map(|stage| stage_name(&stage.stage)), ", ");
    let machine = plan.problem.machine.as_ref().map(phrases::machine_name).unwrap_or_default();
    let heads = [title(plan, unit), machine, format!("Bottleneck (orange): {stages}"), proof(plan)];

    let mut canvas = Canvas::default();
    let mut top = MARGIN + 18;
    let memory_width = memory_width(&fills, &drains);
    let (from_width, to_width) = (devices_width(&from), devices_width(&to));
    let width = from_width + memory_width + to_width + 2 * TURN;
    canvas.text("head", MARGIN, top, &clip(&heads[0], width, 20, true));
    for head in heads[1..].iter().filter(|head| !head.is_empty()) {
        top += 20;
        canvas.text("sub", MARGIN, top, &clip(head, width, 13, false));
    }
    top += 20;
    let first = column(MARGIN, from_width, top, from.len(), &|card| height(&fills, |it| it.device == card));
    let middle = column(MARGIN + from_width + TURN, memory_width, top, memories.len(), &|card| {
        height(&fills, |it| it.memory == card).max(height(&drains, |it| it.memory == card))
    });
    let x = middle.x + memory_width + TURN;
    let last = column(x, to_width, top, to.len(), &|card| height(&drains, |it| it.device == card));
    draw_bands(&mut canvas, &fills, &first, &middle, true);
    draw_bands(&mut canvas, &drains, &last, &middle, false);
    draw_devices(&mut canvas, &first, &from);
    draw_devices(&mut canvas, &last, &to);
    for ((y, height), memory) in middle.cards.iter().zip(&memories) {
        let area = Area { x: middle.x, y: *y, width: memory_width, height: *height };
        canvas.rect("card node", area);
        canvas.text("name middle", middle.x + memory_width / 2, y + 18, &format!("Memory of node {memory}"));
    }
    draw_labels(&mut canvas, &fills, &middle, true);
    draw_labels(&mut canvas, &drains, &middle, false);
    let bottom = [&first, &middle, &last].iter().map(|column| column.bottom()).max().unwrap_or(top);
    canvas.document(width + 2 * MARGIN, bottom + MARGIN, &heads[0], &phrases::joined(&heads[1..], ". "))
}

fn nodes(all: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    all.collect::<BTreeSet<NodeId>>().into_iter().collect()
}

/// Returns the bands of one side, and name and bytes of its cards (one card per device node).
fn bands<'a>(
    plan: &Plan,
    pools: &'a [PlannedPool],
    memories: &[NodeId],
) -> (Vec<Band<'a>>, Vec<(String, String)>) {
    let device_nodes = nodes(pools.iter().map(|pool| pool.path.device_node));
    let all = plan.problem.total_bytes().max(1) as f64;
    let index_of =
        |nodes: &[NodeId], node: NodeId| nodes.iter().position(|other| *other == node).unwrap_or(0);
    let band = |pool: &'a PlannedPool| {
        let stage = match pool.side {
            PoolSide::Storage => Stage::StoragePath(pool.path),
            PoolSide::Network => Stage::NetworkPath(pool.path),
        };
        Band {
            pool,
            width: ((pool.bytes as f64 / all * ALL).round() as i32).clamp(2, ALL as i32),
            device: index_of(&device_nodes, pool.path.device_node),
            memory: index_of(memories, pool.path.memory_node),
            slow: plan.bottleneck().any(|slow| slow.stage == stage),
        }
    };
    let card = |device_node: &NodeId| {
        let names =
            pools.iter().find(|pool| pool.path.device_node == *device_node).map(devices).unwrap_or_default();
        let bytes = pools.iter().filter(|pool| pool.path.device_node == *device_node).map(|pool| pool.bytes);
        (names, format_size(bytes.fold(0, u64::saturating_add)))
    };
    (pools.iter().map(band).collect(), device_nodes.iter().map(card).collect())
}

impl Band<'_> {
    fn slot_height(&self) -> i32 {
        self.width.max(SLOT)
    }

    /// Describes the band: `3 threads, 1.2 TiB`.
    fn label(&self) -> String {
        let threads = phrases::count(self.pool.threads as usize, "thread");
        format!("{threads}, {}", format_size(self.pool.bytes))
    }
}

impl BandSlots {
    /// Assigns the next slot and returns its middle.
    fn take(&mut self, band: &Band<'_>) -> i32 {
        let middle = self.next + band.slot_height() / 2;
        self.next += band.slot_height();
        middle
    }
}

impl Column {
    fn slots(&self) -> Vec<BandSlots> {
        self.cards.iter().map(|(y, _)| BandSlots { next: y + NAME }).collect()
    }

    fn bottom(&self) -> i32 {
        self.cards.last().map_or(0, |(y, height)| y + height)
    }
}

/// Returns the height for the bands on one side of a card, including its name.
fn height(bands: &[Band<'_>], of: impl Fn(&Band<'_>) -> bool) -> i32 {
    NAME + bands.iter().filter(|band| of(band)).map(Band::slot_height).sum::<i32>() + SLOT / 2
}

fn column(x: i32, width: i32, top: i32, number: usize, height: &dyn Fn(usize) -> i32) -> Column {
    let mut y = top;
    let mut cards = Vec::with_capacity(number);
    for card in 0..number {
        let height = height(card);
        cards.push((y, height));
        y += height + GAP;
    }
    Column { x, width, cards }
}

fn devices_width(cards: &[(String, String)]) -> i32 {
    let width = |(name, _): &(String, String)| text_width(name, 13, true) + 20;
    cards.iter().map(width).max().unwrap_or(0).clamp(110, WIDEST)
}

fn memory_width(fills: &[Band<'_>], drains: &[Band<'_>]) -> i32 {
    let widest = |bands: &[Band<'_>]| bands.iter().map(|band| text_width(&band.label(), 11, false)).max();
    (widest(fills).unwrap_or(0) + widest(drains).unwrap_or(0) + 44).max(170)
}

fn draw_bands(canvas: &mut Canvas, bands: &[Band<'_>], devices: &Column, memories: &Column, fills: bool) {
    let (mut at_devices, mut at_memories) = (devices.slots(), memories.slots());
    let (from_x, to_x) = match fills {
        true => (devices.x + devices.width, memories.x),
        false => (memories.x + memories.width, devices.x),
    };
    let turn = (from_x + to_x) / 2;
    for band in bands {
        let device = at_devices[band.device].take(band);
        let memory = at_memories[band.memory].take(band);
        let (from_y, to_y) = if fills { (device, memory) } else { (memory, device) };
        let path = format!("M{from_x} {from_y}C{turn} {from_y} {turn} {to_y} {to_x} {to_y}");
        let class = if band.slow { "flow slow" } else { "flow" };
        canvas.band(class, &path, band.width, &band.label());
    }
}

fn draw_devices(canvas: &mut Canvas, column: &Column, cards: &[(String, String)]) {
    for ((y, height), (name, bytes)) in column.cards.iter().zip(cards) {
        canvas.rect("card", Area { x: column.x, y: *y, width: column.width, height: *height });
        canvas.text("name", column.x + 10, y + 18, &clip(name, column.width - 16, 13, true));
        canvas.text("aside", column.x + 10, y + 34, bytes);
    }
}

/// Writes the labels of bands on their memory cards.
fn draw_labels(canvas: &mut Canvas, bands: &[Band<'_>], memories: &Column, fills: bool) {
    let mut slots = memories.slots();
    for band in bands {
        let y = slots[band.memory].take(band) + 4;
        match fills {
            true => canvas.text("", memories.x + 8, y, &band.label()),
            false => canvas.text("end", memories.x + memories.width - 8, y, &band.label()),
        }
    }
}
