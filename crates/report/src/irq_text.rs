//! Formats interrupts, queues and their changes as text.

use crate::record_header::date;
use crate::style::TextStyle;
use crate::table::{Align, Cell, Table};
use crate::text_page::TextPage;
use numaio_machine::control::{queue_list, Change};
use numaio_machine::set::CpuSet;
use numaio_schema::{AppliedChange, DeviceIrqs, IrqDocument, IrqPlan, Receipt};

/// Formats the interrupts and queues of each device, and the plan if there is one.
pub fn irq_text(document: &IrqDocument, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    if document.devices.is_empty() {
        page.heading("No device with visible interrupts.");
    }
    for device in &document.devices {
        write_device(&mut page, device, document.plan.as_ref());
    }
    page.blank();
    if let Some(flows) = document.sock_flow_entries.filter(|flows| *flows > 0) {
        page.paragraph(0, 2, &format!("RFS flow table: {flows} entries"));
    }
    page.paragraph(
        0,
        2,
        match document.irqbalance {
            Some(true) => {
                "irqbalance is running; it moves all interrupts that are not banned in its options."
            }
            Some(false) => "irqbalance is not running.",
            None => "Cannot determine whether irqbalance is running.",
        },
    );
    let fixed =
        document.devices.iter().flat_map(|device| &device.irqs).filter_map(|irq| irq.fixed.as_deref());
    if fixed.into_iter().any(|why| why.starts_with("managed")) {
        page.paragraph(0, 2, "Managed interrupts cannot be moved; the kernel spreads them over all CPUs.");
    }
    if let Some(plan) = &document.plan {
        write_plan(&mut page, plan, document.irqbalance == Some(true));
    }
    page.into_text()
}

fn write_device(page: &mut TextPage, device: &DeviceIrqs, plan: Option<&IrqPlan>) {
    let node = device.node.map_or("node unknown".to_owned(), |node| format!("node {node}"));
    page.heading(&format!("{}, {node}", device.device));
    let changes = plan.map_or(&[][..], |plan| &plan.changes);
    let columns = [
        ("IRQ", Align::Right),
        ("NAME", Align::Left),
        ("QUEUE", Align::Right),
        ("AFFINITY", Align::Left),
        ("EFFECTIVE", Align::Left),
        ("PLANNED", Align::Left),
        ("NOTE", Align::Left),
    ];
    let mut table = Table::new(columns).shrink_first("NOTE");
    for irq in &device.irqs {
        let to = changes.iter().find_map(|applied| match &applied.change {
            Change::IrqAffinity { irq: number, cpus } if *number == irq.irq.number => Some(cpus),
            _ => None,
        });
        table.row([
            Cell::from(irq.irq.number.to_string()),
            irq.irq.name.as_str().into(),
            irq.queue.map(|queue| queue.to_string()).unwrap_or_default().into(),
            irq.irq.affinity.to_string().into(),
            irq.irq.effective.as_ref().map(CpuSet::to_string).unwrap_or_default().into(),
            to.map(CpuSet::to_string).unwrap_or_default().into(),
            irq.fixed.as_deref().unwrap_or_default().into(),
        ]);
    }
    page.table(2, &table.without_empty_columns());
    for interface in &device.interfaces {
        let (receive, transmit) = (interface.receive.len(), interface.transmit.len());
        let name = &interface.interface;
        let table = interface.receive_table.as_deref().map(queue_list);
        let rss = table.map(|queues| format!(", RSS to queues {queues}")).unwrap_or_default();
        page.paragraph(2, 2, &format!("{name}: receive queues {receive}, transmit queues {transmit}{rss}"));
        let mut table = Table::new([
            ("QUEUE", Align::Left),
            ("RPS", Align::Left),
            ("RFS FLOWS", Align::Right),
            ("XPS", Align::Left),
        ]);
        for queue in &interface.receive {
            let flows =
                queue.flows.map(|flows| if flows == 0 { "off".to_owned() } else { flows.to_string() });
            let name = format!("rx-{}", queue.queue);
            table.row([
                name.into(),
                steering_cell(&queue.rps_cpus),
                flows.unwrap_or_default().into(),
                "".into(),
            ]);
        }
        for queue in &interface.transmit {
            let name = format!("tx-{}", queue.queue);
            table.row([name.into(), "".into(), "".into(), steering_cell(&queue.xps_cpus)]);
        }
        page.table(4, &table.without_empty_columns());
    }
}

fn steering_cell(cpus: &Option<CpuSet>) -> Cell {
    match cpus {
        None => "".into(),
        Some(cpus) if cpus.is_empty() => "off".into(),
        Some(cpus) => cpus.to_string().into(),
    }
}

fn write_plan(page: &mut TextPage, plan: &IrqPlan, irqbalance: bool) {
    page.heading(
        match plan.changes.len() {
            0 => "Plan: no changes".to_owned(),
            1 => "Plan: 1 change".to_owned(),
            changes => format!("Plan: {changes} changes"),
        }
        .as_str(),
    );
    for applied in &plan.changes {
        page.paragraph(2, 2, &format!("{} (now {})", applied.change, value(&applied.inverse)));
    }
    for reason in &plan.reasons {
        page.paragraph(0, 2, reason);
    }
    for rejected in &plan.rejected {
        page.paragraph(0, 2, &format!("Skipped: {rejected}"));
    }
    if plan.changes.is_empty() {
        return;
    }
    if irqbalance {
        page.paragraph(0, 2, &format!("irqbalance option: {}", irqbalance_ban(&plan.changes)));
    }
    let is_net = |applied: &AppliedChange| !matches!(applied.change, Change::IrqAffinity { .. });
    let net = if plan.changes.iter().any(is_net) { " and CAP_NET_ADMIN" } else { "" };
    page.paragraph(
        0,
        2,
        &format!("Apply it with 'numaio irq apply', which requires root or CAP_DAC_OVERRIDE{net}."),
    );
}

/// Formats the value that a change sets.
fn value(change: &Change) -> String {
    let cpus = |cpus: &CpuSet| if cpus.is_empty() { "off".to_owned() } else { cpus.to_string() };
    match change {
        Change::ReceiveTable { queues, .. } => queue_list(queues),
        Change::IrqAffinity { cpus: set, .. }
        | Change::RpsCpus { cpus: set, .. }
        | Change::XpsCpus { cpus: set, .. } => cpus(set),
        Change::RpsFlows { flows: number, .. } | Change::SockFlowEntries { entries: number } => {
            number.to_string()
        }
        other => other.to_string(),
    }
}

/// Returns the irqbalance setting that excludes the changed interrupts, for its service's
/// environment.
pub fn irqbalance_ban(changes: &[AppliedChange]) -> String {
    let option = |applied: &AppliedChange| match applied.change {
        Change::IrqAffinity { irq, .. } => Some(format!("--banirq={irq}")),
        _ => None,
    };
    let options: Vec<String> = changes.iter().filter_map(option).collect();
    format!("IRQBALANCE_ARGS=\"{}\"", options.join(" "))
}

/// Formats the receipts of this machine, in the given order.
pub fn receipts_text(receipts: &[(&str, &Receipt)], style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    if receipts.is_empty() {
        page.heading("No changes to undo on this machine.");
    }
    for (id, receipt) in receipts {
        let of = if receipt.devices.is_empty() {
            String::new()
        } else {
            format!(" of {}", receipt.devices.join(", "))
        };
        page.heading(&format!("{id}{of}, {}", date(receipt.created_at)));
        if let Some(made) = receipt.progress {
            let all = receipt.applied.len();
            page.paragraph(2, 2, &format!("Interrupted: {made} of {all} changes were applied for certain."));
        }
        for applied in &receipt.applied {
            page.paragraph(2, 2, &format!("{} (before: {})", applied.change, value(&applied.inverse)));
        }
    }
    page.into_text()
}
