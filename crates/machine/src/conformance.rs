//! What every implementation of the seam must do; each crate that implements it runs these checks.

use crate::sysfs::{Sysfs, SysfsExt, WhyUnread};

/// Writes the files that [`sysfs`] expects, by a function that adds one.
pub fn fill(mut file: impl FnMut(&str, &str)) {
    file("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/speed", "1000\n");
    file("/sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1\n");
    file("/sys/devices/system/node/online", "0-1\n");
    file("/proc/version", "Linux\n");
}

/// Writes the links that [`sysfs`] expects, by a function that adds one.
pub fn fill_links(mut link: impl FnMut(&str, &str)) {
    link("/sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
    link("/sys/devices/pci0000:00/0000:00:03.0/net/eth0/device", "../../../0000:00:03.0");
    link("/sys/class/outside", "../../../../../../proc/version");
    link("/sys/class/loop", "loop");
}

/// Checks an implementation of [`Sysfs`] whose root holds what [`fill`] and [`fill_links`] wrote.
///
/// # Panics
/// At the first rule that is broken.
pub fn sysfs(root: &dyn Sysfs) {
    let why = |path: &str| root.read(path).expect_err(path).why;
    assert_eq!(root.read("/proc/version").expect("a file is read whole"), b"Linux\n");
    assert_eq!(root.text("/sys/class/net/eth0/speed").expect("through a link"), "1000");
    assert_eq!(root.text("/sys/class/net/eth0/device/numa_node").expect("through two links"), "-1");
    assert_eq!(why("/sys/absent"), WhyUnread::Absent);
    assert_eq!(why("/sys/devices/system/node"), WhyUnread::WrongKind);
    assert_eq!(root.list("/proc/version").expect_err("a file is no directory").why, WhyUnread::WrongKind);
    assert_eq!(root.list("/sys/devices/pci0000:00/0000:00:03.0").expect("a directory"), ["net", "numa_node"]);
    assert_eq!(root.list("/sys/class").expect("links are listed"), ["loop", "net", "outside"]);
    assert_eq!(
        root.resolve("/sys/class/net/eth0/device").expect("links resolve"),
        "/sys/devices/pci0000:00/0000:00:03.0"
    );
    assert_eq!(root.resolve("/sys/absent").expect_err("it must exist").why, WhyUnread::Absent);
    assert_eq!(root.text("/sys/class/outside").expect("never above the root"), "Linux");
    assert!(root.read("/sys/class/loop").is_err(), "a loop of links ends");
}
