//! Hypervisors, the marks by which each is recognized, and where its guests are configured.
//!
//! Marks follow systemd-detect-virt (`src/basic/virt.c`) and lscpu (`sys-utils/lscpu-virt.c`), as
//! far as files contain them. Files do not contain the signature of CPUID leaf 0x40000000.

use crate::sysfs::{Sysfs, SysfsExt};
use serde::{Deserialize, Serialize};

/// The hypervisor or cloud of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuestPlatform {
    /// KVM or QEMU, as libvirt, Proxmox, OpenStack and others configure it.
    Kvm,
    /// Xen, in an ordinary domain.
    Xen,
    /// Xen, in the domain that owns the devices of the machine.
    XenDom0,
    /// VMware ESXi or Workstation.
    Vmware,
    /// Microsoft Hyper-V or Azure.
    HyperV,
    /// Windows Subsystem for Linux.
    Wsl,
    /// Oracle VirtualBox.
    VirtualBox,
    /// Parallels.
    Parallels,
    /// Bhyve of FreeBSD.
    Bhyve,
    /// Virtualization framework of Apple.
    Apple,
    /// Amazon EC2.
    AmazonEc2,
    /// Google Compute Engine.
    GoogleCompute,
    /// A cloud other than those above.
    Cloud,
    /// A partition of IBM PowerVM.
    PowerVm,
    /// A logical partition of IBM Z (PR/SM).
    PrSm,
    /// IBM z/VM.
    ZVm,
    /// User Mode Linux.
    UserModeLinux,
    /// Not identified, such as Firecracker and Cloud Hypervisor on x86.
    Unidentified,
}

use GuestPlatform::{
    AmazonEc2, Apple, Bhyve, Cloud, GoogleCompute, HyperV, Kvm, Parallels, PowerVm, PrSm, Unidentified,
    UserModeLinux, VirtualBox, Vmware, Wsl, Xen, XenDom0, ZVm,
};

/// Beginnings of DMI texts of virtual machines.
const DMI_MARKS: [(&str, GuestPlatform); 32] = [
    ("Google Compute Engine", GoogleCompute),
    ("Amazon EC2", AmazonEc2),
    ("Alibaba Cloud ECS", Cloud),
    ("DigitalOcean Droplet", Cloud),
    ("Droplet", Cloud),
    ("Hetzner vServer", Cloud),
    ("vServer", Cloud),
    ("OracleCloud.com", Cloud),
    ("OpenStack", Cloud),
    ("CVM", Cloud),
    ("UpCloud", Cloud),
    ("HUAWEICLOUD", Cloud),
    ("Apache CloudStack", Cloud),
    ("CloudStack", Cloud),
    ("oVirt", Kvm),
    ("RHEV", Kvm),
    ("KubeVirt", Kvm),
    ("KVM", Kvm),
    ("QEMU", Kvm),
    ("Bochs", Kvm),
    ("AHV", Kvm),
    ("Cloud Hypervisor", Unidentified),
    ("crosvm", Unidentified),
    ("VMware", Vmware),
    ("VMW", Vmware),
    ("innotek GmbH", VirtualBox),
    ("VirtualBox", VirtualBox),
    ("Xen", Xen),
    ("HVM domU", Xen),
    ("Parallels", Parallels),
    ("BHYVE", Bhyve),
    ("Apple Virtualization", Apple),
];

/// Display adapters of virtual machines by vendor and device, as in /proc/bus/pci/devices.
const PCI_MARKS: [(&str, GuestPlatform); 5] = [
    ("58530001", Xen),
    ("15ad0405", Vmware),
    ("15ad0710", Vmware),
    ("80eebeef", VirtualBox),
    ("14145353", HyperV),
];

/// Boards of virtual machines in the root of the device tree.
const BOARD_MARKS: [&str; 3] = ["qemu,pseries", "linux,dummy-virt", "riscv-virtio"];

impl GuestPlatform {
    /// Finds the hypervisor; `features` are the CPU features of /proc/cpuinfo.
    pub(super) fn find(root: &dyn Sysfs, features: &[String]) -> Option<Self> {
        // Of the marks, only the flag is enforced by the processor; it names no hypervisor.
        let flagged = || features.iter().any(|feature| feature == "hypervisor").then_some(Unidentified);
        by_kernel(root)
            .or_else(|| by_xen(root))
            .or_else(|| by_dmi(root))
            .or_else(|| by_device_tree(root))
            .or_else(|| by_mainframe(root))
            .or_else(|| by_pci(root))
            .or_else(flagged)
    }

    /// Returns its name; `None` if it is not identified.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Kvm => "KVM",
            Xen => "Xen",
            XenDom0 => "Xen, dom0",
            Vmware => "VMware",
            HyperV => "Hyper-V",
            Wsl => "WSL",
            VirtualBox => "VirtualBox",
            Parallels => "Parallels",
            Bhyve => "bhyve",
            Apple => "Apple Virtualization",
            AmazonEc2 => "Amazon EC2",
            GoogleCompute => "Google Compute Engine",
            Cloud => "cloud",
            PowerVm => "PowerVM partition",
            PrSm => "PR/SM partition",
            ZVm => "z/VM",
            UserModeLinux => "User Mode Linux",
            Unidentified => return None,
        })
    }

    /// Returns where the nodes, CPUs and devices of a guest are configured; `None` where
    /// libvirt or QEMU can be assumed.
    pub(super) fn configured_in(self) -> Option<&'static str> {
        match self {
            Kvm | Unidentified => None,
            Xen => Some("in the configuration of the domain (vnuma, cpus and pci of xl.cfg)"),
            XenDom0 => Some(
                "Xen gives dom0 no nodes; its options dom0_max_vcpus, dom0_vcpus_pin and dom0_nodes place it",
            ),
            Vmware => Some("in the settings of the VM (numa.vcpu.*, cpuid.coresPerSocket)"),
            HyperV => Some("in the NUMA settings of the VM (Set-VMProcessor); in Azure, by another VM size"),
            Wsl | VirtualBox | Parallels | Bhyve | Apple | UserModeLinux => {
                Some("not possible with this hypervisor")
            }
            AmazonEc2 | GoogleCompute | Cloud => Some("the provider decides it by the type of the instance"),
            PowerVm => Some("in the profile of the partition, on its management console (HMC)"),
            PrSm => Some("in the image profile of the partition, on the support element or HMC"),
            ZVm => Some("in the directory entry of the guest"),
        }
    }
}

/// Recognizes kernels that run only as guests.
fn by_kernel(root: &dyn Sysfs) -> Option<GuestPlatform> {
    let release = root.optional("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.contains("microsoft") || release.contains("Microsoft") {
        return Some(Wsl);
    }
    // Only `arch/um/kernel/exitcode.c` creates this file.
    root.exists("/proc/exitcode").then_some(UserModeLinux)
}

/// Recognizes Xen by `/sys/hypervisor/type`; the directory alone also exists without Xen.
fn by_xen(root: &dyn Sysfs) -> Option<GuestPlatform> {
    /// Bit of the domain that owns the devices (`xen/include/public/features.h`, `XENFEAT_dom0`).
    const DOM0: u64 = 1 << 11;
    let named = root.optional("/sys/hypervisor/type").filter(|name| !name.is_empty());
    let capabilities = root.optional("/proc/xen/capabilities");
    if named.is_none() && capabilities.is_none() {
        return None;
    }
    if named.as_deref().is_some_and(|name| name != "xen") {
        return Some(Unidentified);
    }
    let features = root.optional("/sys/hypervisor/properties/features");
    let features = features.and_then(|text| u64::from_str_radix(&text, 16).ok());
    let owns_devices = features.is_some_and(|features| features & DOM0 != 0)
        || capabilities.is_some_and(|list| list.split(',').any(|one| one.trim() == "control_d"));
    // EC2 instances of older types are domains of Xen.
    let version = root.optional("/sys/class/dmi/id/bios_version").unwrap_or_default();
    Some(match owns_devices {
        true => XenDom0,
        false if version.ends_with(".amazon") => AmazonEc2,
        false => Xen,
    })
}

/// Recognizes the vendor or product of a virtual machine by DMI
/// (`Documentation/ABI/testing/sysfs-firmware-dmi-tables`).
fn by_dmi(root: &dyn Sysfs) -> Option<GuestPlatform> {
    if !root.exists("/sys/class/dmi/id") {
        return None;
    }
    let field = |name: &str| root.optional(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let product = field("product_name");
    let vendor = field("sys_vendor");
    if vendor == "Microsoft Corporation" && product == "Virtual Machine" {
        return Some(HyperV);
    }
    if vendor.contains("HITACHI") && product.contains("LPAR") {
        return Some(Unidentified);
    }
    let mut texts = vec![product.clone(), vendor];
    texts.extend(["chassis_asset_tag", "board_vendor", "bios_vendor", "product_version"].map(field));
    let marked = |text: &String| {
        let mark = DMI_MARKS.iter().find(|(mark, _)| text.starts_with(mark));
        mark.map(|(_, hypervisor)| *hypervisor)
    };
    let found = texts.iter().find_map(marked)?;
    // EC2 also lends complete machines: `m5.metal`, `u-6tb1.metal`, `i7i.metal-24xl`.
    let is_metal = found == AmazonEc2 && product.split_once(".metal").is_some();
    (!is_metal).then_some(found)
}

/// Recognizes guests on Arm, POWER and RISC-V.
fn by_device_tree(root: &dyn Sysfs) -> Option<GuestPlatform> {
    const TREE: &str = "/proc/device-tree";
    let list = |name: &str| root.optional(&format!("{TREE}/{name}")).unwrap_or_default();
    let boards = list("compatible");
    let is_board = |mark: &str| boards.split('\0').any(|board| board == mark);
    if is_board("ibm,powernv") {
        return None;
    }
    if root.exists(&format!("{TREE}/hypervisor")) {
        let kind = list("hypervisor/compatible");
        return Some(match kind.as_str() {
            kind if kind.contains("linux,kvm") => Kvm,
            kind if kind.contains("xen") => Xen,
            kind if kind.contains("vmware") => Vmware,
            _ => Unidentified,
        });
    }
    let is_of_qemu = is_board("qemu,pseries") || root.exists(&format!("{TREE}/chosen/qemu,graphic-width"));
    let has = |name: &str| root.exists(&format!("{TREE}/{name}"));
    if has("ibm,partition-name") && has("hmc-managed?") && !is_of_qemu {
        return Some(PowerVm);
    }
    let has_fw_cfg = || root.names(TREE).iter().any(|name| name.contains("fw-cfg"));
    (BOARD_MARKS.iter().any(|mark| is_board(mark)) || has_fw_cfg()).then_some(Kvm)
}

/// Recognizes guests on IBM Z: there is no Linux outside a partition
/// (`arch/s390/kernel/sysinfo.c`). The first control program is that of the innermost guest.
fn by_mainframe(root: &dyn Sysfs) -> Option<GuestPlatform> {
    let text = root.optional("/proc/sysinfo")?;
    let program = text.lines().find_map(|line| line.split_once("Control Program:"));
    Some(match program {
        Some((_, name)) if name.contains("KVM") => Kvm,
        Some((_, name)) if name.contains("z/VM") => ZVm,
        Some(_) => Unidentified,
        None => PrSm,
    })
}

/// Recognizes a display adapter of a virtual machine, where DMI is absent.
fn by_pci(root: &dyn Sysfs) -> Option<GuestPlatform> {
    if root.exists("/sys/class/dmi/id") {
        return None;
    }
    let text = root.optional("/proc/bus/pci/devices")?;
    let of_line = |line: &str| {
        let ids = line.split_whitespace().nth(1)?;
        PCI_MARKS.iter().find(|(mark, _)| *mark == ids).map(|(_, hypervisor)| *hypervisor)
    };
    text.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn of(files: &[(&str, &str)]) -> Option<GuestPlatform> {
        let mut tree = Tree::new();
        for (path, text) in files {
            tree.file(path, *text);
        }
        GuestPlatform::find(&tree, &[])
    }

    #[test]
    fn recognizes_each_dmi_mark_in_each_field() {
        for (mark, hypervisor) in DMI_MARKS {
            for name in ["product_name", "sys_vendor", "board_vendor", "bios_vendor"] {
                let path = format!("/sys/class/dmi/id/{name}");
                assert_eq!(of(&[(&path, &format!("{mark} x"))]), Some(hypervisor), "{mark} in {name}");
            }
        }
        let machine =
            [("sys_vendor", "Dell Inc."), ("product_name", "PowerEdge R750"), ("bios_vendor", "Dell Inc.")];
        let files = machine.map(|(name, text)| (format!("/sys/class/dmi/id/{name}"), text));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        assert_eq!(of(&files), None);
    }

    #[test]
    fn complete_machines_of_ec2_are_not_virtual() {
        let vendor = ("/sys/class/dmi/id/sys_vendor", "Amazon EC2");
        let product = "/sys/class/dmi/id/product_name";
        assert_eq!(of(&[vendor, (product, "m7g.4xlarge")]), Some(AmazonEc2));
        assert_eq!(of(&[vendor, (product, "m7g.metal")]), None);
        assert_eq!(of(&[vendor, (product, "i7i.metal-24xl")]), None);
    }

    #[test]
    fn distinguishes_domains_of_xen() {
        let xen = ("/sys/hypervisor/type", "xen\n");
        let features = "/sys/hypervisor/properties/features";
        assert_eq!(of(&[xen]), Some(Xen));
        assert_eq!(of(&[xen, (features, "00002705\n")]), Some(Xen));
        assert_eq!(of(&[xen, (features, "00002f05\n")]), Some(XenDom0));
        assert_eq!(of(&[xen, ("/proc/xen/capabilities", "control_d\n")]), Some(XenDom0));
        assert_eq!(of(&[("/proc/xen/capabilities", "\n")]), Some(Xen));
        assert_eq!(of(&[xen, ("/sys/class/dmi/id/bios_version", "4.11.amazon\n")]), Some(AmazonEc2));
    }

    #[test]
    fn recognizes_guests_by_device_tree() {
        let tree = |name: &str| format!("/proc/device-tree/{name}");
        assert_eq!(of(&[(&tree("hypervisor/compatible"), "linux,kvm\0")]), Some(Kvm));
        assert_eq!(of(&[(&tree("hypervisor/compatible"), "xen,xen-4.11\0xen,xen\0")]), Some(Xen));
        assert_eq!(of(&[(&tree("compatible"), "linux,dummy-virt\0")]), Some(Kvm));
        assert_eq!(of(&[(&tree("fw-cfg@9020000/reg"), "x")]), Some(Kvm));
        let partition = [(tree("ibm,partition-name"), "lp1\0"), (tree("hmc-managed?"), "\0")];
        let [name, managed] = [0, 1].map(|index| (partition[index].0.as_str(), partition[index].1));
        assert_eq!(of(&[name, managed]), Some(PowerVm));
        assert_eq!(of(&[name]), None);
        let board = tree("compatible");
        assert_eq!(of(&[name, managed, (&board, "qemu,pseries\0")]), Some(Kvm));
        assert_eq!(of(&[name, managed, (&board, "ibm,powernv\0")]), None);
        assert_eq!(of(&[(&board, "raspberrypi,5-model-b\0brcm,bcm2712\0")]), None);
    }

    #[test]
    fn recognizes_guests_on_ibm_z() {
        let guest =
            |program: &str| format!("Manufacturer: IBM\nLPAR Number: 5\nVM00 Control Program: {program}\n");
        let found = |text: &str| of(&[("/proc/sysinfo", text)]);
        assert_eq!(found(&guest("KVM/Linux")), Some(Kvm));
        assert_eq!(found(&guest("z/VM    6.1.0")), Some(ZVm));
        assert_eq!(found(&guest("other")), Some(Unidentified));
        assert_eq!(found("Manufacturer: IBM\nLPAR Number: 5\n"), Some(PrSm));
    }

    #[test]
    fn recognizes_displays_only_without_dmi() {
        let display = ("/proc/bus/pci/devices", "0008\t80867000\t0\n0010\t80eebeef\t12\te0000008\n");
        assert_eq!(of(&[display]), Some(VirtualBox));
        assert_eq!(of(&[display, ("/sys/class/dmi/id/sys_vendor", "Dell Inc.")]), None);
    }

    #[test]
    fn recognizes_guest_kernels_and_the_flag() {
        assert_eq!(of(&[("/proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2")]), Some(Wsl));
        assert_eq!(GuestPlatform::find(&Tree::new(), &["hypervisor".to_owned()]), Some(Unidentified));
        assert_eq!(GuestPlatform::find(&Tree::new(), &["vmx".to_owned()]), None);
    }
}
