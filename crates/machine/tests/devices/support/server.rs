//! A synthetic server with known files.

use super::machine;
use numaio_machine::topology::Topology;
use numaio_machine::tree::Tree;

/// PCI functions of a machine in sysfs format.
#[derive(Default)]
pub struct Server {
    pub tree: Tree,
}

impl Server {
    /// Adds a function with attributes at a path below /sys/devices.
    pub fn function(&mut self, path: &str, class: &str, attributes: &[(&str, &str)]) -> &mut Self {
        let address = path.rsplit('/').next().expect("an address");
        let full = format!("/sys/devices/{path}");
        self.tree.link(&format!("/sys/bus/pci/devices/{address}"), &format!("../../../devices/{path}"));
        for (name, value) in
            [("class", class), ("vendor", "0x8086"), ("device", "0x1234")].iter().chain(attributes)
        {
            self.tree.file(&format!("{full}/{name}"), format!("{value}\n"));
        }
        self
    }

    /// Sets the link of a function: current and maximum speed and width, `16.0 x8 32.0 x16`.
    pub fn link(&mut self, path: &str, link: &str) -> &mut Self {
        let words: Vec<&str> = link.split(' ').collect();
        let names = ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"];
        for (name, word) in names.iter().zip(words) {
            let text = word
                .strip_prefix('x')
                .map_or_else(|| format!("{word} GT/s PCIe\n"), |lanes| format!("{lanes}\n"));
            self.tree.file(&format!("/sys/devices/{path}/{name}"), text);
        }
        self
    }

    /// Binds a driver.
    pub fn driver(&mut self, path: &str, driver: &str) -> &mut Self {
        self.tree.dir(&format!("/sys/bus/pci/drivers/{driver}"));
        self.tree.link(&format!("/sys/devices/{path}/driver"), &format!("/sys/bus/pci/drivers/{driver}"));
        self
    }

    /// Adds a class entry below a device, with its attributes:
    /// `class("net", "eth0", "pci.../net/eth0", ..)`.
    pub fn class(&mut self, class: &str, path: &str, attributes: &[(&str, &str)]) -> &mut Self {
        let name = path.rsplit('/').next().expect("a name");
        self.tree.dir(&format!("/sys/devices/{path}"));
        self.tree.link(&format!("/sys/class/{class}/{name}"), &format!("../../devices/{path}"));
        for (attribute, value) in attributes {
            self.tree.file(&format!("/sys/devices/{path}/{attribute}"), format!("{value}\n"));
        }
        self
    }

    /// Adds an MSI interrupt of a function on these CPUs.
    pub fn irq(&mut self, path: &str, number: u32, cpus: &str) -> &mut Self {
        self.tree.file(&format!("/sys/devices/{path}/msi_irqs/{number}"), "msix\n");
        self.tree.file(&format!("/proc/irq/{number}/smp_affinity_list"), "0-7\n");
        self.tree.file(&format!("/proc/irq/{number}/effective_affinity_list"), format!("{cpus}\n"));
        self
    }
}

/// The NIC of [`server`].
pub const NIC: &str = "pci0000:3a/0000:3a:00.0/0000:3b:00.0";
/// The drive of [`server`].
pub const DRIVE: &str = "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0";
/// The upstream port of the switch of [`server`].
pub const SWITCH: &str = "pci0000:80/0000:80:01.0/0000:81:00.0";

/// Creates two packages with a node of four CPUs each.
pub fn two_sockets() -> Topology {
    machine(&[(0, "0-3", 0), (1, "4-7", 1)])
}

/// Creates a server with a NIC with virtual functions and RDMA, a drive with two paths behind VMD,
/// two GPUs below a switch, a disk behind a controller, and engines.
pub fn server() -> Server {
    let mut server = Server::default();
    nic(&mut server);
    drive(&mut server);
    gpus(&mut server);
    server
        .function("pci0000:00/0000:00:17.0", "0x010601", &[("numa_node", "0")])
        .class("block", "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", &[])
        .class("block", "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1", &[])
        .class("block", "pci0000:00/0000:00:17.0/ata1/host0/target0:0:1/0:0:1:0/block/sdb", &[])
        .function("pci0000:00/0000:00:01.0", "0x088000", &[("numa_node", "0")])
        .driver("pci0000:00/0000:00:01.0", "ioatdma")
        .class("dma", "pci0000:00/0000:00:01.0/dma/dma0chan0", &[])
        .function("pci0000:00/0000:00:15.0", "0x118000", &[("numa_node", "0")])
        .class("dma", "pci0000:00/0000:00:15.0/idma64.0/dma/dma1chan0", &[])
        .function("pci0000:00/0000:00:05.0", "0x088000", &[])
        .class("net", "virtual/net/lo", &[])
        .class("block", "virtual/block/loop0", &[]);
    server
}

fn nic(server: &mut Server) {
    server
        .function("pci0000:3a/0000:3a:00.0", "0x060400", &[("numa_node", "1")])
        .link("pci0000:3a/0000:3a:00.0", "16.0 x16 16.0 x16")
        .function(NIC, "0x020000", &[("numa_node", "-1"), ("sriov_totalvfs", "8"), ("power_state", "D0")])
        .link(NIC, "16.0 x16 16.0 x16")
        .driver(NIC, "mlx5_core")
        .class("net", &format!("{NIC}/net/eth10"), &[("speed", "-1")])
        .class("net", &format!("{NIC}/net/eth2"), &[("speed", "100000")])
        .class("infiniband", &format!("{NIC}/infiniband/mlx5_0"), &[])
        .irq(NIC, 40, "4")
        .irq(NIC, 41, "5");
    server.tree.file(
        "/proc/interrupts",
        "      CPU0  CPU1\n 40:  1  2  PCI-MSI 1-edge      mlx5_async\n 41:  1  2  PCI-MSI 2-edge      mlx5_comp0\n",
    );
    for function in ["0000:3b:00.2", "0000:3b:00.3"] {
        let path = format!("pci0000:3a/0000:3a:00.0/{function}");
        server.function(&path, "0x020000", &[("numa_node", "1"), ("current_link_width", "0")]);
        server.tree.link(&format!("/sys/devices/{path}/physfn"), "../0000:3b:00.0");
    }
}

fn drive(server: &mut Server) {
    server
        .function("pci0000:00/0000:00:0e.0", "0x010400", &[("numa_node", "0")])
        .function("pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0", "0x060400", &[("numa_node", "-1")])
        .function(DRIVE, "0x010802", &[("numa_node", "-1")])
        .class("nvme", &format!("{DRIVE}/nvme/nvme3"), &[("model", "Fast Drive  ")])
        .class("block", &format!("{DRIVE}/nvme/nvme3/nvme0c3n1"), &[])
        .class("block", "virtual/nvme-subsystem/nvme-subsys0/nvme0n1", &[])
        .class("block", "virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p1", &[]);
}

fn gpus(server: &mut Server) {
    for path in ["pci0000:80/0000:80:01.0", SWITCH] {
        server.function(path, "0x060400", &[("numa_node", "1")]).link(path, "16.0 x8 16.0 x8");
    }
    for (port, gpu) in [("0000:82:00.0", "0000:83:00.0"), ("0000:82:01.0", "0000:84:00.0")] {
        let (port, gpu) = (format!("{SWITCH}/{port}"), format!("{SWITCH}/{port}/{gpu}"));
        server.function(&port, "0x060400", &[("numa_node", "1")]).link(&port, "16.0 x16 16.0 x16");
        server
            .function(&gpu, "0x030200", &[("numa_node", "1"), ("vendor", "0x10de")])
            .link(&gpu, "16.0 x16 16.0 x16")
            .driver(&gpu, "nvidia");
    }
    let card = format!("{SWITCH}/0000:82:01.0/0000:84:00.0/drm");
    server.class("drm", &format!("{card}/card1"), &[]).class("drm", &format!("{card}/renderD128"), &[]);
    server.class("drm", &format!("{card}/card1/card1-DP-1"), &[]);
    server
        .tree
        .file("/proc/driver/nvidia/gpus/0000:84:00.0/information", "Model: \t\t NVIDIA H100\nIRQ: 7\n");
}
