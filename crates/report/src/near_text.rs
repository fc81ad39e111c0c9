//! Formats resolved handles: their devices and nodes.

use crate::phrases::{self, percent};
use crate::style::TextStyle;
use crate::table::{Align, Table};
use crate::text_page::TextPage;
use numaio_machine::near::{NearDevice, NearNode, Resolved, Step};

/// Formats each handle: its resolution chain, devices, nodes and findings.
///
/// With `explain` the chain is a tree of steps with their evidence.
pub fn near_text(handles: &[Resolved], explain: bool, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    for resolved in handles {
        page.blank();
        match explain {
            true => steps(&mut page, &resolved.chain),
            false => resolved.lines().iter().for_each(|line| page.paragraph(0, 2, line)),
        }
        devices(&mut page, &resolved.devices);
        page.paragraph(2, 2, &nodes(&resolved.nodes));
        for finding in &resolved.findings {
            let severity = phrases::severity(finding.severity);
            page.paragraph(
                2,
                4,
                &format!("{severity}: {}: {} [{}]", finding.subject, finding.message, finding.rule),
            );
            if !finding.remedy.is_empty() {
                page.paragraph(6, 2, &format!("remedy: {}", finding.remedy));
            }
        }
    }
    page.into_text()
}

/// Writes steps as a tree, each with its evidence.
fn steps(page: &mut TextPage, chain: &[Step]) {
    let mut depths: Vec<usize> = Vec::with_capacity(chain.len());
    for step in chain {
        let depth = step.from.and_then(|from| depths.get(from)).map_or(0, |depth| depth + 1);
        depths.push(depth);
        let indent = 2 * depth;
        let arrow = if depth > 0 { "-> " } else { "" };
        page.paragraph(indent, 2, &format!("{arrow}{}", step.name));
        let evidence = phrases::joined([&step.source, &step.value], ": ");
        if !evidence.is_empty() {
            page.paragraph(indent + 5, 2, &evidence);
        }
    }
}

/// Writes a table of devices if there are several; the chain already names a single one.
fn devices(page: &mut TextPage, devices: &[NearDevice]) {
    if devices.len() < 2 {
        return;
    }
    let titles = [("DEVICE", Align::Left), ("KIND", Align::Left), ("PCI", Align::Left)];
    let has_shares = devices.iter().any(|device| device.share.is_some());
    let mut table = Table::new(titles.into_iter().chain([("NODE", Align::Right), ("SHARE", Align::Right)]));
    for device in devices {
        let pci = device.pci.map(|pci| pci.to_string()).unwrap_or_default();
        let node = if device.nodes.is_empty() { "unknown".to_owned() } else { device.nodes.to_string() };
        let share = if has_shares { share(device.share) } else { String::new() };
        table.row([
            device.name.clone().into(),
            device.kind.name().into(),
            pci.into(),
            node.into(),
            share.into(),
        ]);
    }
    page.table(2, &table.without_empty_columns());
}

/// Formats a share of I/O.
fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "unknown".to_owned(), percent)
}

fn nodes(nodes: &[NearNode]) -> String {
    let list = |each: Vec<String>| format!("Near nodes {}", each.join(", "));
    match nodes {
        [] => "Node unknown.".to_owned(),
        [only] => format!("Near node {}.", only.node),
        several if several.iter().all(|near| near.share.is_none()) => {
            let each = several.iter().map(|near| near.node.to_string()).collect();
            format!("{}; their shares are unknown.", list(each))
        }
        several => {
            let each = several.iter().map(|near| format!("{} ({})", near.node, share(near.share)));
            format!("{}.", list(each.collect()))
        }
    }
}
