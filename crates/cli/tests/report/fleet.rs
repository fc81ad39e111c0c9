//! Reports of a fleet in every format.

use crate::browser::Browser;
use crate::host_reports::{report, write_reports, MEASURED_AT};
use crate::support::Home;
use crate::tex;
use numaio_schema::{FleetCheck, FleetSummary};

/// Widths of a telephone, a small window and a large one, in pixels.
const WIDTHS: [u32; 3] = [360, 800, 1600];

/// Returns a store of six like hosts and one with half of their bandwidth.
fn fleet() -> Home {
    let home = Home::new();
    write_reports(&home, 6);
    home.document("reports/slow.json", &report("slow", "ff", MEASURED_AT, 0.5));
    home.run(&["fleet", "add", "f.db", "reports"]).ok();
    home
}

fn written(home: &Home, format: &str) -> String {
    home.run(&["report", "--fleet", "f.db", "--format", format, "-o", "-"]).ok()
}

#[test]
fn tables_have_the_classes_and_medians_of_each_group() {
    let home = fleet();
    let summary =
        FleetSummary::from_json(&home.run(&["fleet", "show", "f.db", "--json"]).ok()).expect("groups");
    let group = &summary.groups[0];
    let latex = written(&home, "latex");
    let tables = tex::tables(&latex);
    let table = |title: &str| {
        let found = tables.iter().find(|table| table.title.starts_with(title));
        found.unwrap_or_else(|| panic!("no table '{title}' in {latex}"))
    };
    assert!(!group.pair_classes.is_empty());
    for classes in &group.pair_classes {
        let quantity = &classes.key.quantity;
        let of_classes = table(&format!("{quantity}: classes of all pairs"));
        let pairs = of_classes.rows.iter().filter_map(|row| row.get(3)?.parse::<usize>().ok());
        let expected = group.figures.iter().filter(|figure| figure.key.quantity == *quantity).count();
        assert_eq!(pairs.sum::<usize>(), expected, "{quantity}");
        let medians = &table(&format!("{quantity}: medians")).rows;
        let values = medians.iter().skip(1).flat_map(|row| &row[1..]).filter(|cell| *cell != "–");
        assert_eq!(values.count(), expected, "{quantity}");
    }
    tex::compile(&home, "tables_have_the_classes_and_medians_of_each_group", &latex);
    let markdown = written(&home, "markdown");
    assert!(markdown.contains("classes of all pairs by k-means"), "{markdown}");
    let csv = written(&home, "csv");
    let figures: usize = summary.groups.iter().map(|group| group.figures.len()).sum();
    assert_eq!(csv.lines().count(), 1 + figures, "{csv}");
    assert!(FleetCheck::from_json(&written(&home, "json")).is_ok_and(|check| check.has_findings()));
}

#[test]
fn browser_draws_the_heat_map_of_a_fleet() {
    let home = fleet();
    home.run(&["report", "--fleet", "f.db", "-o", "fleet.html"]).ok();
    let Some(browser) = Browser::find("browser_draws_the_heat_map_of_a_fleet") else { return };
    let path = home.0.join("fleet.html");
    let page = browser.open(&path, &[]);
    assert!(page.console.is_empty(), "{:?}", page.console);
    let canvas = page.dom.split("<canvas id=\"map-canvas\"").nth(1).expect("the heat map");
    let canvas = canvas.split('>').next().unwrap_or_default();
    // The script sets the size: 16 pixels for each of seven hosts.
    assert!(canvas.contains("height=\"112\""), "{canvas}");
    for width in WIDTHS {
        let layout = browser.layout(&path, width);
        assert_eq!(layout["overflow"], 0, "{width}: {layout}");
    }
}
