//! The device × device matrix: what each two devices share.

use crate::phrases;
use crate::style::{display_width, TextStyle};
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::devices::{DeviceMatrix, Shared};

/// All parts that devices can share, with their short forms and meanings.
pub(crate) const LEGEND: [(Shared, &str, &str); 8] = [
    (Shared::Itself, "x", "the device itself"),
    (Shared::Card, "card", "functions of one card"),
    (Shared::Switch, "switch", "same PCI Express switch"),
    (Shared::RootPort, "port", "same root port"),
    (Shared::Node, "node", "same node, through its host bridges"),
    (Shared::Package, "pkg", "different nodes of one package"),
    (Shared::Machine, "across", "across packages"),
    (Shared::Unknown, "?", "unknown, since the node of one is unknown"),
];

/// Returns the short form of a shared part.
pub(crate) fn short_form(shared: Shared) -> &'static str {
    LEGEND.iter().find(|(part, ..)| *part == shared).map_or("?", |(_, short, _)| short)
}

/// Returns the meaning of each part that occurs in a matrix.
pub(crate) fn legend(matrix: &DeviceMatrix) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
    let occurs = |shared: &Shared| matrix.rows.iter().flatten().any(|cell| cell == shared);
    LEGEND.iter().filter(move |(shared, ..)| occurs(shared)).map(|(_, short, meaning)| (*short, *meaning))
}

/// Width of a column of the matrix, with its gap: the longest short form is `across`.
const COLUMN: usize = 8;

/// Formats the matrix: names of devices as column titles where they fit, else their numbers. A
/// matrix that is wider than the page is split into blocks of columns.
pub fn device_matrix_text(matrix: &DeviceMatrix, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    page.paragraph(0, 2, "What each two devices share:");
    let names: Vec<String> = matrix.devices.iter().map(|name| phrases::short(name)).collect();
    let width = |title: &String| display_width(title).max(COLUMN - 2) + 2;
    let longest = names.iter().map(|name| display_width(name)).max().unwrap_or(0);
    let fits = 2 + longest + names.iter().map(width).sum::<usize>() <= style.columns();
    let numbers: Vec<String> = (0..names.len()).map(|index| index.to_string()).collect();
    let titles = if fits { &names } else { &numbers };
    // Indent, number, gap and name come before the first column.
    let left = 2 + numbers.last().map_or(0, String::len) + 2 + longest;
    let block = match fits {
        true => names.len(),
        false => (style.columns().saturating_sub(left) / COLUMN).max(1),
    };
    for (number, shown) in titles.chunks(block.max(1)).enumerate() {
        if number > 0 {
            page.blank();
        }
        let first = number * block;
        let head = (!fits).then_some(("#", Align::Right)).into_iter().chain([("DEVICE", Align::Left)]);
        let columns = head.chain(shown.iter().map(|title| (title.as_str(), Align::Left)));
        let mut table = Table::new(columns.collect::<Vec<_>>());
        for ((index, name), row) in numbers.iter().zip(&names).zip(&matrix.rows) {
            let index = (!fits).then(|| Cell::from(index.as_str())).into_iter();
            let cells = row.iter().skip(first).take(block).map(|shared| Cell::from(short_form(*shared)));
            table.row(index.chain([Cell::from(name.as_str())]).chain(cells));
        }
        page.table(2, &table);
    }
    page.blank();
    legend(matrix).for_each(|(short, meaning)| page.paragraph(2, 10, &format!("{short:<7} {meaning}")));
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(devices: usize) -> DeviceMatrix {
        let row = |index: usize| {
            (0..devices).map(|other| if other == index { Shared::Itself } else { Shared::Machine }).collect()
        };
        DeviceMatrix {
            devices: (0..devices).map(|index| format!("mlx5_{index}")).collect(),
            rows: (0..devices).map(row).collect(),
        }
    }

    #[test]
    fn wide_matrices_are_split_into_blocks_or_printed_whole() {
        let text =
            |width: usize| device_matrix_text(&matrix(26), &TextStyle { width, ..TextStyle::default() });
        for width in [76, 80, 100, 160] {
            let text = text(width);
            assert!(text.lines().all(|line| display_width(line) <= width), "{text}");
            assert_eq!(
                text.split_whitespace().filter(|word| *word == "across").count(),
                26 * 25 + 2,
                "{text}"
            );
            assert!(text.lines().all(|line| line.split_whitespace().count() != 1), "broken words: {text}");
        }
        assert_eq!(text(usize::MAX).lines().filter(|line| line.starts_with("  mlx5_")).count(), 26);
    }
}
