//! A plan as a drawing: devices, memories and devices in three columns, bytes as bands between them.

use super::canvas::{clip, text_width, Area, Canvas};
use super::MARGIN;
use crate::phrases;
use crate::plan_text::{devices, name, proof, title};
use numaio_machine::ids::NodeId;
use numaio_machine::units::{size_for_people, BandwidthUnit};
use numaio_schema::{Plan, PlannedPool, PoolSide, Stage};
use std::collections::BTreeSet;

/// Width of all bands side by side, in pixels, if all data went one way.
const ALL: f64 = 160.0;
/// Height of the place where a band ends: room for its words.
const PLACE: i32 = 20;
/// Height of a card's name.
const NAME: i32 = 26;
/// Between cards below each other.
const GAP: i32 = 14;
/// Between columns of cards: room for bands to turn.
const TURN: i32 = 110;
/// Widest card of devices.
const WIDEST: i32 = 240;

/// A band, from one card's place to another's.
struct Band<'a> {
    pool: &'a PlannedPool,
    /// Width in pixels.
    width: i32,
    /// Index of its card of devices, and of its memory.
    device: usize,
    memory: usize,
    /// Whether it is a bottleneck.
    slow: bool,
}

/// Where bands end on a card's side, from the top.
struct BandSlots {
    next: i32,
}

/// A column of cards.
struct Column {
    x: i32,
    width: i32,
    /// Top of each card and its height.
    cards: Vec<(i32, i32)>,
}

/// A plan as SVG: from where, through which memories, to where; each band as wide as its share of all bytes,
/// bottlenecks in another colour. It stands alone, as [`topology_svg`](super::topology_svg) does.
pub fn plan_svg(plan: &Plan, unit: BandwidthUnit) -> String {
    let pools = plan.pools();
    let memories: Vec<NodeId> = nodes(pools.fills.iter().map(|pool| pool.way.memory_node));
    let (comes, from) = bands(plan, &pools.fills, &memories);
    let (goes, to) = bands(plan, &pools.drains, &memories);
    let stages = phrases::joined(plan.bottleneck().map(|stage| name(&stage.stage)), ", ");
    let machine = plan.problem.machine.as_ref().map(phrases::machine_name).unwrap_or_default();
    let heads = [title(plan, unit), machine, format!("Bottleneck (orange): {stages}"), proof(plan)];

    let mut canvas = Canvas::default();
    let mut top = MARGIN + 18;
    let memory_width = memory_width(&comes, &goes);
    let (from_width, to_width) = (devices_width(&from), devices_width(&to));
    let width = from_width + memory_width + to_width + 2 * TURN;
    canvas.text("head", MARGIN, top, &clip(&heads[0], width, 20, true));
    for head in heads[1..].iter().filter(|head| !head.is_empty()) {
        top += 20;
        canvas.text("sub", MARGIN, top, &clip(head, width, 13, false));
    }
    top += 20;
    let first = column(MARGIN, from_width, top, from.len(), &|card| height(&comes, |it| it.device == card));
    let middle = column(MARGIN + from_width + TURN, memory_width, top, memories.len(), &|card| {
        height(&comes, |it| it.memory == card).max(height(&goes, |it| it.memory == card))
    });
    let x = middle.x + memory_width + TURN;
    let last = column(x, to_width, top, to.len(), &|card| height(&goes, |it| it.device == card));
    draw_bands(&mut canvas, &comes, &first, &middle, true);
    draw_bands(&mut canvas, &goes, &last, &middle, false);
    draw_devices(&mut canvas, &first, &from);
    draw_devices(&mut canvas, &last, &to);
    for ((y, height), memory) in middle.cards.iter().zip(&memories) {
        let area = Area { x: middle.x, y: *y, width: memory_width, height: *height };
        canvas.rect("card node", area);
        canvas.text("name middle", middle.x + memory_width / 2, y + 18, &format!("Memory of node {memory}"));
    }
    draw_words(&mut canvas, &comes, &middle, true);
    draw_words(&mut canvas, &goes, &middle, false);
    let bottom = [&first, &middle, &last].iter().map(|column| column.bottom()).max().unwrap_or(top);
    canvas.document(width + 2 * MARGIN, bottom + MARGIN, &heads[0], &phrases::joined(&heads[1..], ". "))
}

fn nodes(all: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    all.collect::<BTreeSet<NodeId>>().into_iter().collect()
}

/// Bands of one side, and the names of its cards: devices of one node on one card.
fn bands<'a>(
    plan: &Plan,
    pools: &'a [PlannedPool],
    memories: &[NodeId],
) -> (Vec<Band<'a>>, Vec<(String, String)>) {
    let homes = nodes(pools.iter().map(|pool| pool.way.device_node));
    let all = plan.problem.total_bytes().max(1) as f64;
    let place = |nodes: &[NodeId], node: NodeId| nodes.iter().position(|one| *one == node).unwrap_or(0);
    let band = |pool: &'a PlannedPool| {
        let stage = match pool.side {
            PoolSide::Storage => Stage::StorageWay(pool.way),
            PoolSide::Network => Stage::NetworkWay(pool.way),
        };
        Band {
            pool,
            width: ((pool.bytes as f64 / all * ALL).round() as i32).clamp(2, ALL as i32),
            device: place(&homes, pool.way.device_node),
            memory: place(memories, pool.way.memory_node),
            slow: plan.bottleneck().any(|slow| slow.stage == stage),
        }
    };
    let card = |home: &NodeId| {
        let names = pools.iter().find(|pool| pool.way.device_node == *home).map(devices).unwrap_or_default();
        let bytes = pools.iter().filter(|pool| pool.way.device_node == *home).map(|pool| pool.bytes);
        (names, size_for_people(bytes.fold(0, u64::saturating_add)))
    };
    (pools.iter().map(band).collect(), homes.iter().map(card).collect())
}

impl Band<'_> {
    fn place(&self) -> i32 {
        self.width.max(PLACE)
    }

    /// `3 threads, 1.2 TiB`.
    fn words(&self) -> String {
        let threads = phrases::count(self.pool.threads as usize, "thread");
        format!("{threads}, {}", size_for_people(self.pool.bytes))
    }
}

impl BandSlots {
    /// The middle of the next place.
    fn take(&mut self, band: &Band<'_>) -> i32 {
        let middle = self.next + band.place() / 2;
        self.next += band.place();
        middle
    }
}

impl Column {
    fn places(&self) -> Vec<BandSlots> {
        self.cards.iter().map(|(y, _)| BandSlots { next: y + NAME }).collect()
    }

    fn bottom(&self) -> i32 {
        self.cards.last().map_or(0, |(y, height)| y + height)
    }
}

/// Height that the bands of one side of a card need, its name included.
fn height(bands: &[Band<'_>], of: impl Fn(&Band<'_>) -> bool) -> i32 {
    NAME + bands.iter().filter(|band| of(band)).map(Band::place).sum::<i32>() + PLACE / 2
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

fn memory_width(comes: &[Band<'_>], goes: &[Band<'_>]) -> i32 {
    let widest = |bands: &[Band<'_>]| bands.iter().map(|band| text_width(&band.words(), 11, false)).max();
    (widest(comes).unwrap_or(0) + widest(goes).unwrap_or(0) + 44).max(170)
}

fn draw_bands(canvas: &mut Canvas, bands: &[Band<'_>], devices: &Column, memories: &Column, comes: bool) {
    let (mut at_devices, mut at_memories) = (devices.places(), memories.places());
    let (from_x, to_x) = match comes {
        true => (devices.x + devices.width, memories.x),
        false => (memories.x + memories.width, devices.x),
    };
    let turn = (from_x + to_x) / 2;
    for band in bands {
        let device = at_devices[band.device].take(band);
        let memory = at_memories[band.memory].take(band);
        let (from_y, to_y) = if comes { (device, memory) } else { (memory, device) };
        let path = format!("M{from_x} {from_y}C{turn} {from_y} {turn} {to_y} {to_x} {to_y}");
        let class = if band.slow { "flow slow" } else { "flow" };
        canvas.band(class, &path, band.width, &band.words());
    }
}

fn draw_devices(canvas: &mut Canvas, column: &Column, cards: &[(String, String)]) {
    for ((y, height), (name, bytes)) in column.cards.iter().zip(cards) {
        canvas.rect("card", Area { x: column.x, y: *y, width: column.width, height: *height });
        canvas.text("name", column.x + 10, y + 18, &clip(name, column.width - 16, 13, true));
        canvas.text("aside", column.x + 10, y + 34, bytes);
    }
}

/// Words of bands at their memories.
fn draw_words(canvas: &mut Canvas, bands: &[Band<'_>], memories: &Column, comes: bool) {
    let mut places = memories.places();
    for band in bands {
        let y = places[band.memory].take(band) + 4;
        match comes {
            true => canvas.text("", memories.x + 8, y, &band.words()),
            false => canvas.text("end", memories.x + memories.width - 8, y, &band.words()),
        }
    }
}
