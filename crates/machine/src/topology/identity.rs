//! Identity of the machine.

use super::cpuinfo::CpuInfo;
use super::parts::Identity;
use crate::sysfs::{Sysfs, SysfsExt};

/// Reads the identity except the fingerprint.
pub(super) fn read(root: &dyn Sysfs, cpuinfo: &CpuInfo) -> Identity {
    let version = root.optional("/proc/version").unwrap_or_default();
    let first =
        |paths: &[&str]| paths.iter().find_map(|path| root.optional(path).filter(|text| !text.is_empty()));
    let architecture = first(&["/proc/sys/kernel/arch"])
        .unwrap_or_else(|| architecture(cpuinfo.architecture, &version).to_owned());
    Identity {
        hostname: hostname(root),
        product: product(root),
        cpu_model: cpuinfo.model.clone(),
        architecture,
        kernel: first(&["/proc/sys/kernel/osrelease"]).unwrap_or_else(|| release(&version).to_owned()),
        fingerprint: String::new(),
    }
}

/// Returns the host name; empty if unset (`Documentation/admin-guide/sysctl/kernel.rst`,
/// `hostname`).
pub fn hostname(root: &dyn Sysfs) -> String {
    // Linux reports this until a name is set (`init/Kconfig`, DEFAULT_HOSTNAME).
    root.optional("/proc/sys/kernel/hostname").filter(|name| name != "(none)").unwrap_or_default()
}

/// Returns vendor and product from DMI (`Documentation/ABI/testing/sysfs-firmware-dmi-tables`), or
/// else the device tree's model.
fn product(root: &dyn Sysfs) -> String {
    for directory in ["/sys/class/dmi/id", "/sys/devices/virtual/dmi/id"] {
        let field = |name: &str| root.optional(&format!("{directory}/{name}")).unwrap_or_default();
        let (vendor, product) = (field("sys_vendor"), field("product_name"));
        // Some vendors repeat their name in the product.
        let whole = if product.starts_with(&vendor) { product } else { format!("{vendor} {product}") };
        if !whole.trim().is_empty() {
            return whole.trim().to_owned();
        }
    }
    root.optional("/proc/device-tree/model").unwrap_or_default()
}

/// Parses the release in /proc/version: `Linux version 6.1.0-13-amd64 (...) ...`
/// (`Documentation/filesystems/proc.rst`).
fn release(version: &str) -> &str {
    version.strip_prefix("Linux version ").and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
}

/// Returns the architecture from cpuinfo, or else from /proc/version (usually that of the
/// compiler).
fn architecture<'a>(cpuinfo: &'a str, version: &str) -> &'a str {
    const KNOWN: [(&str, &str); 6] = [
        ("x86_64", "x86_64"),
        ("amd64", "x86_64"),
        ("aarch64", "aarch64"),
        ("arm64", "aarch64"),
        ("ppc64le", "ppc64le"),
        ("s390x", "s390x"),
    ];
    if !cpuinfo.is_empty() {
        return cpuinfo;
    }
    KNOWN.iter().find(|(word, _)| version.contains(word)).map(|(_, name)| *name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::cpuinfo;
    use crate::tree::Tree;

    #[test]
    fn reads_host_product_and_kernel() {
        let mut tree = Tree::new();
        tree.file("/proc/sys/kernel/hostname", "node17\n")
            .file("/proc/version", "Linux version 6.1.0-13-amd64 (who@where) (gcc)\n")
            .file("/sys/devices/virtual/dmi/id/sys_vendor", "Maker\n")
            .file("/sys/devices/virtual/dmi/id/product_name", "Model 7\n");
        let identity = read(&tree, &cpuinfo::parse(""));
        assert_eq!(identity.hostname, "node17");
        assert_eq!(identity.product, "Maker Model 7");
        assert_eq!((identity.kernel.as_str(), identity.architecture.as_str()), ("6.1.0-13-amd64", "x86_64"));
        tree.file("/proc/sys/kernel/arch", "aarch64\n").file("/proc/sys/kernel/osrelease", "6.6.6\n");
        let identity = read(&tree, &cpuinfo::parse(""));
        assert_eq!((identity.kernel.as_str(), identity.architecture.as_str()), ("6.6.6", "aarch64"));
        tree.file("/proc/sys/kernel/hostname", "(none)\n");
        assert_eq!(read(&tree, &cpuinfo::parse("")).hostname, "");
    }

    #[test]
    fn reads_product_from_device_tree() {
        let mut tree = Tree::new();
        tree.file("/proc/device-tree/model", "Some Board\0");
        assert_eq!(read(&tree, &cpuinfo::parse("")).product, "Some Board");
    }
}
