//! `numaio near` and `run` on an emulated machine with stacked devices.
//!
//! Its disk and its network card are on different nodes.

use numaio_lab::{Folder, Lab};
use numaio_schema::NearDocument;
use std::fs;

const MODULES: [&str; 8] =
    ["crc32c_generic", "bonding", "8021q", "macvlan", "md_mod", "raid0", "loop", "ext4"];

/// Creates a file system on a RAID of one disk, with an image of another file system in it.
const DISKS: &str = "set -e
echo md9 >/sys/module/md_mod/parameters/new_array
cd /sys/block/md9/md
echo none >metadata_version; echo raid0 >level; echo 65536 >chunk_size; echo 1 >raid_disks
cat /sys/block/nvme0n1/dev >new_dev; echo 32768 >dev-nvme0n1/size; echo 0 >dev-nvme0n1/slot; echo active >array_state
cd /; mkdir /data /image
mke2fs /dev/md9 >/dev/null; mount -t ext4 /dev/md9 /data
dd if=/dev/zero of=/data/disk.img bs=1M count=4 2>/dev/null; mke2fs -F /data/disk.img >/dev/null
losetup /dev/loop0 /data/disk.img; mount -t ext4 /dev/loop0 /image; echo held >/image/held
";

/// Creates a bond, a VLAN on the bond, and a macvlan on the VLAN.
const NETWORK: &str = "
echo +eth0 >/sys/class/net/bond0/bonding/slaves
ip link set bond0 up
ip link add link bond0 name bond0.5 type vlan id 5
ip link add link bond0.5 name mv0 type macvlan
ip addr add 10.1.0.2/24 dev bond0.5; ip link set bond0.5 up
";

/// Resolves handles, and runs programs near two of them.
const RESOLVE: &str = "
sleep 1000 </image/held & held=$!
numaio near /image/held /image/new /dev/loop0 md9 mv0 host:10.1.0.9 pid:$held --json -o /out/near.json
numaio run --near /image/held -- grep Cpus_allowed_list /proc/self/status >/out/disk
numaio run --near host:10.1.0.9 -- grep Cpus_allowed_list /proc/self/status >/out/network
";

#[test]
fn stacked_devices_resolve_to_their_nodes() {
    let Some(lab) = Lab::open("stacked_devices_resolve_to_their_nodes") else { return };
    let folder = Folder::new("near");
    let line = [DISKS, NETWORK, RESOLVE].concat();
    let output = lab.run_with_modules(&MODULES, "uniform-2n", &folder.0, &["sh", "-c", &line]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    let document = NearDocument::from_json(&text("near.json")).expect("a document");
    let found = |handle: usize| document.handles[handle].lines().join("; ");
    let address = |handle: usize| document.handles[handle].devices[0].pci.expect("a PCI address").to_string();
    let (disk, card) = (address(0), address(4));
    let drive = format!("md9 -> nvme0n1 -> {disk} -> node 0");
    let image = format!("ext4 on /dev/loop0 -> loop0 -> /data/disk.img -> ext4 on /dev/md9 -> {drive}");
    assert_eq!(found(0), format!("/image/held -> {image}"));
    assert_eq!(found(1), format!("/image/new -> /image -> {image}"));
    assert_eq!(found(2), format!("/dev/loop0 -> loop0 -> /data/disk.img -> ext4 on /dev/md9 -> {drive}"));
    assert_eq!(found(3), drive);
    assert_eq!(found(4), format!("mv0 -> bond0.5 -> bond0 -> eth0 -> {card} -> node 1"));
    assert_eq!(found(5), format!("10.1.0.9 -> bond0.5 -> bond0 -> eth0 -> {card} -> node 1"));
    assert!(found(6).ends_with(&format!(" -> /image/held -> {image}")), "{}", found(6));
    assert_eq!(text("disk").split_whitespace().last(), Some("0-1"), "the CPUs of node 0");
    assert_eq!(text("network").split_whitespace().last(), Some("2-3"), "the CPUs of node 1");
}
