//! Settings of TCP and of network interfaces (Documentation/networking/ip-sysctl.rst,
//! Documentation/ABI/testing/sysfs-class-net).

use crate::sysfs::{Sysfs, SysfsExt};

/// Maximum length of the name of a congestion control (`TCP_CA_NAME_MAX` without its terminator).
const MAX_CONGESTION_NAME: usize = 15;

/// Returns the congestion control of new TCP connections; `None` if unknown.
pub fn default_congestion_control(root: &dyn Sysfs) -> Option<String> {
    let name = root.optional("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let name = name.trim();
    is_congestion_control(name).then(|| name.to_owned())
}

/// Returns whether a text may be the name of a congestion control.
pub fn is_congestion_control(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= MAX_CONGESTION_NAME && name.chars().all(is_valid)
}

/// Returns the maximum transmission unit of an interface in bytes; `None` if unknown.
pub fn mtu(root: &dyn Sysfs, interface: &str) -> Option<u32> {
    if interface.contains('/') {
        return None;
    }
    root.optional(&format!("/sys/class/net/{interface}/mtu"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn reads_settings_and_ignores_invalid_ones() {
        let mut tree = Tree::new();
        tree.file("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
        tree.file("/sys/class/net/eth0/mtu", "9000\n");
        tree.file("/sys/class/net/eth1/mtu", "many\n");
        assert_eq!(default_congestion_control(&tree).as_deref(), Some("cubic"));
        assert_eq!(
            ["eth0", "eth1", "eth2", "../eth0"].map(|name| mtu(&tree, name)),
            [Some(9000), None, None, None]
        );
        for invalid in ["", "a b", "sixteen-letters-", "x;y"] {
            assert!(!is_congestion_control(invalid), "{invalid}");
        }
    }
}
