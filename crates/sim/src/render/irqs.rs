//! Interrupts: /proc/interrupts, /proc/irq and /sys/kernel/irq
//! (`Documentation/core-api/irq/irq-affinity.rst`, `Documentation/ABI/testing/sysfs-kernel-irq`).

use super::directory::{room, Dir};
use crate::spec::{DeviceSpec, Spec};
use numaio_machine::devices::{DeviceKind, PciAddress};
use numaio_machine::ids::CpuId;
use numaio_machine::set::CpuSet;
use numaio_machine::sysfs::SysfsExt;
use numaio_machine::tree::Tree;
use std::collections::BTreeMap;
use std::fmt::Write;

/// First number given to a device.
const FIRST: u32 = 64;

/// An interrupt as rendered.
pub(super) struct Line {
    pub number: u32,
    pci: PciAddress,
    name: String,
    affinity: CpuSet,
    effective: CpuSet,
}

/// The interrupts of each device that a driver is bound to.
pub(super) fn of_devices(spec: &Spec) -> BTreeMap<PciAddress, Vec<Line>> {
    let online = spec.online_cpus();
    let mut next = FIRST;
    let mut all = BTreeMap::new();
    for device in spec.devices.iter().filter(|device| device.driver.is_some() && device.irqs > 0) {
        let near = device.node.and_then(|node| spec.node(node)).map(|node| node.cpus.intersection(&online));
        let near: Vec<_> =
            near.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| online.clone()).iter().collect();
        let lines = (0..device.irqs).map(|index| {
            let own = CpuSet::from_iter(near.get(index as usize % near.len().max(1)).copied());
            let affinity = device.irq_affinity.clone().unwrap_or(own);
            let effective: CpuSet = affinity.intersection(&online).first().into_iter().collect();
            Line { number: next + index, pci: device.pci, name: name(device, index), affinity, effective }
        });
        all.insert(device.pci, lines.collect());
        next += device.irqs;
    }
    all
}

/// Returns the driver's name of the `index`th interrupt.
fn name(device: &DeviceSpec, index: u32) -> String {
    let own = device.names.first().map_or_else(|| device.pci.to_string(), Clone::clone);
    match device.kind {
        DeviceKind::Network if device.driver.as_deref() == Some("mlx5_core") => {
            format!("mlx5_comp{index}@pci:{}", device.pci)
        }
        DeviceKind::Network => format!("{own}-TxRx-{index}"),
        DeviceKind::Rdma => format!("mlx5_comp{index}@pci:{}", device.pci),
        DeviceKind::Nvme => format!("{}q{index}", controller(&own)),
        DeviceKind::Bridge => "pcieport".to_owned(),
        _ => device.driver.clone().unwrap_or_default(),
    }
}

/// `nvme0` of `nvme0n1`.
pub(super) fn controller(disk: &str) -> &str {
    let digits =
        disk.strip_prefix("nvme").map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if digits > 0 {
        &disk[..4 + digits]
    } else {
        disk
    }
}

pub(super) fn render(spec: &Spec, irqs: &BTreeMap<PciAddress, Vec<Line>>, tree: &mut Tree) {
    let bits = room(&spec.present_cpus());
    let online = spec.online_cpus();
    let mut table = String::from("           ");
    for cpu in online.iter() {
        let _ = write!(table, "{:<11}", format!("CPU{cpu}"));
    }
    table.push('\n');
    for line in irqs.values().flatten() {
        render_line(line, bits, tree);
        let _ = write!(table, "{:4}:", line.number);
        for cpu in online.iter() {
            let _ = write!(table, "{:11}", if line.effective.contains(cpu) { 1000 } else { 0 });
        }
        let _ = writeln!(table, "  PCI-MSIX-{}  {:3}-edge      {}", line.pci, line.number, line.name);
    }
    table += " ERR:          0\n MIS:          0\n";
    tree.file("/proc/interrupts", table);
    Dir::new(tree, "/proc/irq").value("default_smp_affinity", super::directory::mask(&online, bits));
}

/// File that names the handlers of an interrupt.
pub(crate) fn actions(irq: u32) -> String {
    format!("/sys/kernel/irq/{irq}/actions")
}

/// Writes the affinity and the effective affinity of an interrupt, keeping the width of the masks.
pub(crate) fn move_irq(irq: u32, affinity: &CpuSet, goes_to: CpuId, tree: &mut Tree) {
    let path = format!("/proc/irq/{irq}");
    let digits = |text: String| text.chars().filter(char::is_ascii_hexdigit).count();
    let bits = tree.optional(&format!("{path}/smp_affinity")).map_or(0, |text| 4 * digits(text) as u32);
    Dir::new(tree, path).set("smp_affinity", "smp_affinity_list", affinity, bits).set(
        "effective_affinity",
        "effective_affinity_list",
        &CpuSet::one(goes_to),
        bits,
    );
}

fn render_line(line: &Line, bits: u32, tree: &mut Tree) {
    let path = format!("/proc/irq/{}", line.number);
    let mut dir = Dir::new(tree, &path);
    dir.set("smp_affinity", "smp_affinity_list", &line.affinity, bits)
        .set("effective_affinity", "effective_affinity_list", &line.effective, bits)
        .value("affinity_hint", super::directory::mask(&CpuSet::new(), bits));
    // The kernel creates no directory for a name with a slash.
    if !line.name.contains('/') {
        dir.tree.dir(&format!("{path}/{}", line.name));
    }
    Dir::new(tree, format!("/sys/kernel/irq/{}", line.number))
        .value("actions", &line.name)
        .value("chip_name", format!("PCI-MSIX-{}", line.pci))
        .value("type", "edge");
}
