//! Devices that drivers create for functions (network interfaces, disks, RDMA devices, GPUs), with
//! class links (`Documentation/ABI/testing/sysfs-class-net`, `.../stable/sysfs-block`,
//! `.../stable/sysfs-class-infiniband`).

use super::directory::Dir;
use super::irqs::controller;
use crate::spec::DeviceSpec;
use numaio_machine::devices::DeviceKind;
use numaio_machine::sysfs::ReadErrorKind;
use numaio_machine::tree::Tree;

/// 512-byte sectors of every rendered disk: 1 TB.
const SECTORS: u64 = 1_953_525_168;

pub(super) fn render(device: &DeviceSpec, place: &str, tree: &mut Tree) {
    let Some(name) = device.names.first() else { return };
    match device.kind {
        DeviceKind::Network => render_net(device, name, place, tree),
        DeviceKind::Nvme => render_nvme(device, name, place, tree),
        DeviceKind::Rdma => {
            render_rdma(device, name, place, tree);
            if let Some(net) = device.names.get(1) {
                render_net(device, net, place, tree);
            }
        }
        DeviceKind::Block => {
            let above = format!("{place}/virtio{}", device.pci.device);
            render_disk(name, &format!("{above}/block/{name}"), &above, tree);
        }
        DeviceKind::StorageController => render_scsi(device, name, place, tree),
        DeviceKind::Gpu => render_class("drm", name, place, tree),
        DeviceKind::Accelerator => render_class("accel", name, place, tree),
        DeviceKind::Dma => render_class("dma", name, place, tree),
        DeviceKind::Bridge => {}
    }
}

/// Renders a member of a class directly below its function.
fn render_class(class: &str, name: &str, place: &str, tree: &mut Tree) {
    let path = format!("{place}/{class}/{name}");
    Dir::new(tree, &path).link("device", place).link("subsystem", &format!("/sys/class/{class}"));
    Dir::new(tree, format!("/sys/class/{class}")).link(name, &path);
}

fn render_net(device: &DeviceSpec, name: &str, place: &str, tree: &mut Tree) {
    render_class("net", name, place, tree);
    let up = device.port_bits_per_s;
    let pci = device.pci;
    let mut dir = Dir::new(tree, format!("{place}/net/{name}"));
    dir.value("operstate", if up.is_some() { "up" } else { "down" })
        .value(
            "address",
            format!(
                "02:00:{:02x}:{:02x}:{:02x}:{:02x}",
                pci.domain & 0xff,
                pci.bus,
                pci.device,
                pci.function
            ),
        )
        .value("type", if device.kind == DeviceKind::Rdma { 32 } else { 1 })
        .value("mtu", 1500)
        .value("dev_port", 0);
    let path = dir.path.clone();
    render_queues(device.irqs.max(1), &mut dir);
    match up {
        Some(bits_per_s) => {
            dir.value("speed", bits_per_s / 1_000_000).value("carrier", 1);
        }
        // The kernel returns EINVAL while the interface is down.
        None => {
            let failed = || ReadErrorKind::Failed("Invalid argument (os error 22)".to_owned());
            tree.unreadable(&format!("{path}/speed"), failed())
                .unreadable(&format!("{path}/carrier"), failed());
        }
    }
}

/// A receive and a transmit queue for each interrupt
/// (`Documentation/ABI/testing/sysfs-class-net-queues`).
fn render_queues(queues: u32, dir: &mut Dir) {
    for queue in 0..queues {
        dir.value(&format!("queues/rx-{queue}/rps_cpus"), "00000000")
            .value(&format!("queues/rx-{queue}/rps_flow_cnt"), 0);
        if queues > 1 {
            dir.value(&format!("queues/tx-{queue}/xps_cpus"), "00000000");
        } else {
            // Without a choice of queues the kernel returns ENOENT.
            let path = format!("{}/queues/tx-{queue}/xps_cpus", dir.path);
            dir.tree.unreadable(&path, ReadErrorKind::Absent);
        }
    }
}

fn render_nvme(device: &DeviceSpec, name: &str, place: &str, tree: &mut Tree) {
    let controller = controller(name);
    let path = format!("{place}/nvme/{controller}");
    render_class("nvme", controller, place, tree);
    Dir::new(tree, &path)
        .value("model", format!("{:40}", device.model))
        .value("serial", format!("{:20}", device.pci))
        .value("firmware_rev", "1.0")
        .value("transport", "pcie")
        .value("address", device.pci)
        .value("state", "live")
        .value("numa_node", device.node.map_or(-1, |node| i64::from(node.0)));
    if controller != name {
        render_disk(name, &format!("{path}/{name}"), &path, tree);
    }
}

fn render_disk(name: &str, path: &str, above: &str, tree: &mut Tree) {
    Dir::new(tree, path)
        .value("size", SECTORS)
        .value("ro", 0)
        .value("removable", 0)
        .value("queue/rotational", 0)
        .value("queue/scheduler", "[none] mq-deadline")
        .value("queue/logical_block_size", 512)
        .link("device", above)
        .link("subsystem", "/sys/class/block");
    Dir::new(tree, "/sys/class/block").link(name, path);
    Dir::new(tree, "/sys/block").link(name, path);
}

/// A controller with one disk, as libata shows it.
fn render_scsi(device: &DeviceSpec, name: &str, place: &str, tree: &mut Tree) {
    let unit =
        u32::from(device.pci.bus) << 8 | u32::from(device.pci.device) << 3 | u32::from(device.pci.function);
    let host = format!("{place}/ata{unit}/host{unit}");
    let disk = format!("{host}/target{unit}:0:0/{unit}:0:0:0");
    Dir::new(tree, format!("{host}/scsi_host/host{unit}")).value("proc_name", "ahci").link("device", &host);
    Dir::new(tree, "/sys/class/scsi_host")
        .link(&format!("host{unit}"), &format!("{host}/scsi_host/host{unit}"));
    Dir::new(tree, &disk).value("vendor", "ATA").value("model", &device.model);
    render_disk(name, &format!("{disk}/block/{name}"), &disk, tree);
}

fn render_rdma(device: &DeviceSpec, name: &str, place: &str, tree: &mut Tree) {
    render_class("infiniband", name, place, tree);
    let gigabits = device.port_bits_per_s.unwrap_or(2_500_000_000) / 1_000_000_000;
    let up = device.port_bits_per_s.is_some();
    Dir::new(tree, format!("{place}/infiniband/{name}")).value("node_type", "1: CA").value("fw_ver", "1.0");
    Dir::new(tree, format!("{place}/infiniband/{name}/ports/1"))
        .value("state", if up { "4: ACTIVE" } else { "1: DOWN" })
        .value("phys_state", if up { "5: LinkUp" } else { "3: Disabled" })
        .value("link_layer", "InfiniBand")
        .value("rate", format!("{gigabits} Gb/sec (4X)"));
}
