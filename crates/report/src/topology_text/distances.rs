//! Formats the distances between nodes.

use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::set::NodeSet;
use numaio_machine::topology::{Distances, Topology};
use std::collections::BTreeMap;

/// Writes a matrix of nodes or, if too wide, of groups of nodes, or a list.
pub(super) fn write(page: &mut TextPage, topology: &Topology) {
    let Some(distances) = topology.distances.as_ref().filter(|distances| distances.nodes.len() > 1) else {
        return;
    };
    let columns = page.style().columns();
    let each: Vec<Vec<usize>> = (0..distances.nodes.len()).map(|index| vec![index]).collect();
    let groups = interchangeable(distances);
    if fits(distances, &each, columns) {
        page.heading("Distances (10 is local): from the row's node to the column's node");
        page.table(2, &matrix(distances, &each));
    } else if groups.len() < each.len() && fits(distances, &groups, columns) {
        page.heading("Distances (10 is local): from a node of the row to a node of the column");
        page.paragraph(2, 2, "Where row and column are equal: between two different nodes of the group.");
        page.table(2, &matrix(distances, &groups));
    } else {
        page.heading("Distances (10 is local)");
        page.table(2, &list(distances, &groups));
    }
}

/// Returns groups of interchangeable nodes: swapping two of them changes no distance.
fn interchangeable(distances: &Distances) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in 0..distances.nodes.len() {
        match groups.iter_mut().find(|group| are_interchangeable(&distances.rows, group[0], index)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

fn are_interchangeable(rows: &[Vec<u32>], a: usize, b: usize) -> bool {
    let at = |row: usize, column: usize| rows.get(row).and_then(|row| row.get(column));
    at(a, a) == at(b, b)
        && at(a, b) == at(b, a)
        && (0..rows.len())
            .filter(|other| *other != a && *other != b)
            .all(|other| at(a, other) == at(b, other) && at(other, a) == at(other, b))
}

fn names(distances: &Distances, groups: &[Vec<usize>]) -> Vec<String> {
    let set = |group: &Vec<usize>| group.iter().map(|index| distances.nodes[*index]).collect::<NodeSet>();
    groups.iter().map(|group| set(group).to_string()).collect()
}

fn value(distances: &Distances, from: &[usize], to: &[usize]) -> String {
    let column = to.iter().rev().find(|column| to.len() > 1 && from[0] != **column).unwrap_or(&to[0]);
    let value = distances.rows.get(from[0]).and_then(|row| row.get(*column));
    value.map(ToString::to_string).unwrap_or_else(|| "?".to_owned())
}

fn fits(distances: &Distances, groups: &[Vec<usize>], columns: usize) -> bool {
    let names = names(distances, groups);
    let column = |index: usize| {
        let values = groups.iter().map(|from| value(distances, from, &groups[index]).len());
        values.chain([names[index].len()]).max().unwrap_or(0) + 2
    };
    let head = names.iter().map(String::len).max().unwrap_or(0).max("NODE".len()) + 2;
    head + (0..groups.len()).map(column).sum::<usize>() <= columns
}

fn matrix(distances: &Distances, groups: &[Vec<usize>]) -> Table {
    let names = names(distances, groups);
    let titles = std::iter::once("NODE").chain(names.iter().map(String::as_str));
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    for (name, from) in names.iter().zip(groups) {
        let values = groups.iter().map(|to| Cell::from(value(distances, from, to)));
        table.row(std::iter::once(Cell::from(name.as_str())).chain(values));
    }
    table
}

/// Returns a list of groups with their nodes by distance: `12: each other; 21: 4-15; 32: all
/// others`.
fn list(distances: &Distances, groups: &[Vec<usize>]) -> Table {
    let mut table = Table::new([("NODE", Align::Right), ("DISTANCE: TO NODES", Align::Left)]);
    for (name, group) in names(distances, groups).into_iter().zip(groups) {
        let mut texts = Vec::new();
        if group.len() > 1 {
            texts.push(format!("{}: each other", value(distances, group, group)));
        }
        let mut by_distance: BTreeMap<u32, NodeSet> = BTreeMap::new();
        let row = distances.rows.get(group[0]).map(Vec::as_slice).unwrap_or_default();
        for (index, (to, distance)) in distances.nodes.iter().zip(row).enumerate() {
            if !group.contains(&index) {
                by_distance.entry(*distance).or_default().insert(*to);
            }
        }
        let most = by_distance.values().map(NodeSet::len).max().unwrap_or(0);
        let mut rest = false;
        for (distance, nodes) in by_distance {
            // Only one set can be "all others".
            let is_rest = !rest && nodes.len() == most && most > 1;
            rest |= is_rest;
            texts.push(if is_rest {
                format!("{distance}: all others")
            } else {
                format!("{distance}: {nodes}")
            });
        }
        table.row([name.into(), texts.join("; ").into()]);
    }
    table
}
