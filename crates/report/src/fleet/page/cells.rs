//! The data of the heat map: one character for each cell.

use super::contents::{mark, FleetPage};
use crate::fleet::{nodes, quantity, with_unit};
use crate::phrases::count;
use crate::style::{short, TextStyle};
use numaio_schema::{DeviationMap, FigureKey, HostCheck};
use serde_json::{json, Value};
use std::collections::HashMap;

/// Most cells of all maps: each is one byte of the page.
const MOST_CELLS: usize = 2_800_000;
/// Characters of deviations in steps of 1 %, from the worst on; the last one is a missing value.
/// None of them is escaped in JSON or HTML.
const ALPHABET: &[u8; 84] =
    b"()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";
/// Index of a deviation of 0.
const ZERO: i32 = 41;

/// The data of all heat maps.
pub(super) struct MapData {
    maps: Vec<Value>,
    names: Vec<String>,
    omitted: usize,
}

impl MapData {
    /// Encodes the deviations of all groups.
    pub fn new(fleet: &FleetPage<'_>) -> Self {
        let checks: HashMap<&str, &HostCheck> =
            fleet.check.hosts.iter().map(|host| (host.host.as_str(), host)).collect();
        let style = TextStyle { unit: fleet.unit, ..TextStyle::default() };
        let all: usize = fleet.maps.iter().map(|map| map.deviations.len()).sum();
        let share = (MOST_CELLS as f64 / all.max(1) as f64).min(1.0);
        let (mut maps, mut omitted) = (Vec::new(), 0);
        for map in fleet.maps {
            let kept = kept_columns(map, (map.keys.len() as f64 * share) as usize);
            omitted += map.keys.len() - kept.len();
            maps.push(encode(map, &kept, &checks, &style));
        }
        let name = |map: &DeviationMap| format!("{}: {}", short(&map.group), count(map.hosts.len(), "host"));
        Self { maps, names: fleet.maps.iter().map(name).collect(), omitted }
    }

    /// Returns whether no group has figures to show.
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }

    /// Returns the number of figures that are left out.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Returns the index and name of each group.
    pub fn groups(&self) -> impl Iterator<Item = (usize, &String)> {
        self.names.iter().enumerate()
    }

    /// Returns the data as JSON.
    pub fn json(&self) -> Value {
        let alphabet = std::str::from_utf8(ALPHABET).unwrap_or_default();
        json!({ "alphabet": alphabet, "zero": ZERO, "maps": self.maps })
    }
}

/// Returns the columns with the greatest deviations, in order, at least one.
fn kept_columns(map: &DeviationMap, most: usize) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..map.keys.len()).collect();
    if most >= columns.len() {
        return columns;
    }
    let worst = |column: &usize| {
        let of_column = map.deviations.iter().skip(*column).step_by(map.keys.len());
        of_column.copied().filter(|deviation| !deviation.is_nan()).fold(0.0, f32::min)
    };
    columns.sort_by(|a, b| worst(a).total_cmp(&worst(b)));
    columns.truncate(most.max(1));
    columns.sort_unstable();
    columns
}

fn encode(
    map: &DeviationMap,
    kept: &[usize],
    checks: &HashMap<&str, &HostCheck>,
    style: &TextStyle,
) -> Value {
    let mut cells = Vec::with_capacity(map.hosts.len() * kept.len());
    for row in map.deviations.chunks(map.keys.len()) {
        cells.extend(kept.iter().map(|column| character(row[*column])));
    }
    let marks: String = map
        .hosts
        .iter()
        .map(|host| char::from(b'0' + checks.get(host.as_str()).map_or(0, |check| mark(check))))
        .collect();
    json!({
        "hosts": map.hosts.iter().map(|host| short(host)).collect::<Vec<_>>(),
        "marks": marks,
        "figures": kept.iter().map(|column| label(&map.keys[*column])).collect::<Vec<_>>(),
        "typical": kept.iter().map(|column| with_unit(&map.keys[*column], map.medians[*column], style)).collect::<Vec<_>>(),
        "cells": String::from_utf8(cells).unwrap_or_default(),
    })
}

fn label(key: &FigureKey) -> String {
    format!("{} {}", quantity(key), nodes(key)).trim_end().to_owned()
}

fn character(deviation: f32) -> u8 {
    let missing = ALPHABET.len() - 1;
    let index = match deviation.is_nan() {
        true => missing,
        false => ((deviation * 100.0).round() as i32 + ZERO).clamp(0, missing as i32 - 1) as usize,
    };
    ALPHABET[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_distinct_and_never_escaped() {
        let mut sorted = ALPHABET.to_vec();
        sorted.dedup();
        assert_eq!(sorted.len(), ALPHABET.len());
        assert!(sorted.iter().all(|byte| byte.is_ascii_graphic() && !b"<>&\"'\\".contains(byte)));
        assert_eq!(ALPHABET[ZERO as usize], character(0.0));
        assert_eq!(character(-9.0), ALPHABET[0]);
        assert_eq!(character(9.0), ALPHABET[ALPHABET.len() - 2]);
        assert_eq!(character(f32::NAN), ALPHABET[ALPHABET.len() - 1]);
        assert_eq!(character(-0.304), ALPHABET[ZERO as usize - 30]);
    }

    #[test]
    fn of_too_many_figures_the_worst_are_kept() {
        let map = DeviationMap {
            keys: vec![
                FigureKey {
                    quantity: String::new(),
                    from: None,
                    to: None,
                    device: String::new(),
                    unit: String::new(),
                    more_is_better: true,
                };
                3
            ],
            deviations: vec![0.0, -0.5, -0.1, 0.3, f32::NAN, -0.2],
            ..DeviationMap::default()
        };
        assert_eq!(kept_columns(&map, 2), [1, 2]);
        assert_eq!(kept_columns(&map, 0), [1]);
        assert_eq!(kept_columns(&map, 3), [0, 1, 2]);
    }
}
