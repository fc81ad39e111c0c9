//! The device × device matrix: what each two devices share.

use crate::phrases;
use crate::style::TextStyle;
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

/// Formats the matrix: names of devices as column titles where they fit, else their numbers.
pub fn device_matrix_text(matrix: &DeviceMatrix, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    page.paragraph(0, 2, "What each two devices share:");
    let names: Vec<String> = matrix.devices.iter().map(|name| phrases::short(name)).collect();
    let width =
        |titles: &[String]| titles.iter().map(|title| title.chars().count().max(6) + 2).sum::<usize>();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let numbered = longest + width(&names) > style.columns();
    let numbers: Vec<String> = (0..names.len()).map(|index| index.to_string()).collect();
    let titles = if numbered { &numbers } else { &names };
    let columns = numbered.then_some(("#", Align::Right)).into_iter();
    let columns = columns.chain([("DEVICE", Align::Left)]);
    let mut table = Table::new(
        columns.chain(titles.iter().map(|title| (title.as_str(), Align::Left))).collect::<Vec<_>>(),
    );
    for (index, (name, row)) in names.iter().zip(&matrix.rows).enumerate() {
        let number = numbered.then(|| Cell::from(index.to_string())).into_iter();
        let cells = row.iter().map(|shared| Cell::from(short_form(*shared)));
        table.row(number.chain([Cell::from(name.as_str())]).chain(cells));
    }
    page.table(2, &table);
    page.blank();
    legend(matrix).for_each(|(short, meaning)| page.paragraph(2, 10, &format!("{short:<7} {meaning}")));
    page.into_text()
}
