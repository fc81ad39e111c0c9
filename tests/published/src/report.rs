//! Reads a folder of sets, and formats their comparison.

use crate::comparison::{sum, Comparison, DeviceComparison, RowComparison};
use crate::count::Count;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Compares the files `*.json` of a folder, by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn compare_folder(folder: &Path) -> io::Result<Comparison> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    let is_set = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut files: Vec<PathBuf> = entries.into_iter().filter(is_set).collect();
    files.sort();
    let mut comparison = Comparison::default();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read(&file).map_err(|error| error.to_string());
        let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
        comparison.add(&name, text);
    }
    Ok(comparison)
}

/// Formats a comparison; the last line counts the pairs of numaio.
pub fn format_comparison(comparison: &Comparison) -> String {
    let mut text = String::from(
        "Pairs of nodes that are misordered/invented/missed. Ratio: slowest other node over the own node.\n\n",
    );
    text.push_str(&format!(
        "{:26} {:22} {:>5}  {:>8} {:>8} {:>8} {:>7}  {:>8} {:>5} {:>7}\n",
        "set", "direction", "pairs", "hops", "copy", "numaio", "refused", "observed", "copy", "numaio"
    ));
    for set in &comparison.sets {
        for row in &set.rows {
            text.push_str(&format_row(&set.name, row));
        }
        if set.rows.is_empty() {
            text.push_str(&format!("{:26} no I/O by node\n", set.name));
        }
    }
    for (name, error) in &comparison.broken {
        text.push_str(&format!("{name:26} error: {error}\n"));
    }
    text.push('\n');
    text.push_str(&format_totals(comparison));
    text
}

fn format_row(set: &str, row: &RowComparison) -> String {
    let numaio = sum(row.devices.iter().map(|device| device.numaio));
    let [observed, copy, expected] = [0, 1, 2].map(|which| {
        let ratios = row.devices.iter().filter_map(|device| device.ratios[which]);
        ratios.min_by(f64::total_cmp).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
    });
    let label: String = row.label.chars().take(22).collect();
    let mut text = format!(
        "{set:26} {label:22} {:>5}  {:>8} {:>8} {:>8} {:>7}  {observed:>8} {copy:>5} {expected:>7}\n",
        numaio.pairs,
        wrong(sum(row.devices.iter().map(|device| device.hops))),
        of_copy(&row.devices).map_or("-".to_owned(), wrong),
        if numaio.refused < numaio.pairs { wrong(numaio) } else { "-".to_owned() },
        numaio.refused,
    );
    for reason in &row.refused {
        text.push_str(&format!("  refused: {reason}\n"));
    }
    text
}

fn wrong(count: Count) -> String {
    format!("{}/{}/{}", count.misordered, count.invented, count.missed)
}

fn of_copy<'a>(devices: impl IntoIterator<Item = &'a DeviceComparison>) -> Option<Count> {
    let known: Vec<Count> = devices.into_iter().filter_map(|device| device.cell).collect();
    (!known.is_empty()).then(|| sum(known))
}

fn format_totals(comparison: &Comparison) -> String {
    let numaio = sum(comparison.devices().map(|device| device.numaio));
    let of = |which| match worst_factor(comparison, which) {
        Some(factor) => format!(", ratio off by at most {factor:.2}"),
        None => String::new(),
    };
    format!(
        "hop distance: {}\ncopy in the direction of the flow: {}{}\n\
         numaio, of the pairs that it ranks: {} of {} right{}\nall: {numaio}\n",
        sum(comparison.devices().map(|device| device.hops)),
        of_copy(comparison.devices()).unwrap_or_default(),
        of(1),
        numaio.right(),
        numaio.pairs - numaio.refused,
        of(2),
    )
}

/// Returns the greatest factor between a predicted and the observed ratio of a device.
fn worst_factor(comparison: &Comparison, which: usize) -> Option<f64> {
    let factors = comparison.devices().filter_map(|device| {
        let (observed, predicted) = (device.ratios[0]?, device.ratios[which]?);
        Some((predicted / observed).max(observed / predicted))
    });
    factors.max_by(f64::total_cmp)
}
