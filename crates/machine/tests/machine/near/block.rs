//! Resolution of block devices.

use super::machine::{nodes, rules, shares, Machine};

fn two_drives() -> Machine {
    let mut machine = Machine::new();
    machine.nvme("0000:3b:00.0", 0, 1);
    machine.nvme("0000:17:00.0", 1, 0);
    machine
}

#[test]
fn resolves_nvme_disk_controller_and_partition() {
    let mut machine = two_drives();
    machine.partition("nvme0n1", "nvme0n1p1", "259:1");
    assert_eq!(machine.line("nvme0n1"), "nvme0n1 -> 0000:3b:00.0 -> node 1");
    assert_eq!(machine.line("nvme1"), "nvme1 -> 0000:17:00.0 -> node 0");
    assert_eq!(machine.line("nvme0n1p1"), "nvme0n1p1 -> nvme0n1 -> 0000:3b:00.0 -> node 1");
    assert_eq!(
        machine.line("/dev/nvme0n1p1"),
        "/dev/nvme0n1p1 -> nvme0n1p1 -> nvme0n1 -> 0000:3b:00.0 -> node 1"
    );
}

/// Adds an encrypted logical volume on a RAID of partitions.
fn stack(machine: &mut Machine) {
    machine.partition("nvme0n1", "nvme0n1p1", "259:1");
    machine.partition("nvme1n1", "nvme1n1p1", "259:17");
    machine.stacked("md0", "9:0", &["nvme0n1p1", "nvme1n1p1"]);
    machine.tree.file("/sys/class/block/md0/md/level", "raid0\n");
    machine.stacked("dm-0", "253:0", &["md0"]);
    machine.mapped("dm-0", "secret", "CRYPT-LUKS2-0123-secret");
    machine.stacked("dm-3", "253:3", &["dm-0"]);
    machine.mapped("dm-3", "vg-data", "LVM-abc");
}

#[test]
fn resolves_volumes_encryption_and_raid() {
    let mut machine = two_drives();
    stack(&mut machine);
    let wanted = "dm-3 -> dm-0 -> md0 -> nvme0n1p1, nvme1n1p1 -> nvme0n1, nvme1n1 -> 0000:3b:00.0, 0000:17:00.0 -> node 1, node 0";
    assert_eq!(machine.line("dm-3"), wanted);
    assert_eq!(machine.line("vg-data"), format!("vg-data -> {wanted}"));
    assert_eq!(machine.line("/dev/mapper/vg-data"), format!("/dev/mapper/vg-data -> {wanted}"));
    let resolved = machine.resolve("dm-3");
    assert_eq!(shares(&resolved), "nvme0n1 0.5, nvme1n1 0.5");
    let way = resolved.path_to(&resolved.devices[1]);
    let way: Vec<&str> = way.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(way, ["dm-3", "dm-0", "md0", "nvme1n1p1", "nvme1n1", "0000:17:00.0"]);
    let values: Vec<&str> = resolved.chain[1..4].iter().map(|step| step.value.as_str()).collect();
    assert_eq!(
        values,
        ["logical volume vg-data: dm-0", "encrypted secret: md0", "raid0: nvme0n1p1 nvme1n1p1"]
    );
}

#[test]
fn resolves_device_files_by_name_without_kernel() {
    let mut machine = two_drives();
    stack(&mut machine);
    machine.answers = Default::default();
    assert!(machine.line("/dev/mapper/vg-data").starts_with("/dev/mapper/vg-data -> dm-3 -> "));
    assert!(machine.line("/dev/nvme0n1").starts_with("/dev/nvme0n1 -> nvme0n1 -> "));
    assert_eq!(machine.dead_end("/dev/.."), ["near-not-on-tape"]);
}

#[test]
fn resolves_multipath_through_both_adapters() {
    let mut machine = Machine::new();
    for (address, host, disk, at, node) in
        [("0000:3b:00.0", 1, "sda", "8:0", 1), ("0000:17:00.0", 2, "sdb", "8:16", 0)]
    {
        let function = machine.pci(address, "0x010700", node);
        let path = format!("{function}/host{host}/target{host}:0:0/{host}:0:0:0/block/{disk}");
        machine.tree.file(&format!("{path}/dev"), format!("{at}\n"));
        machine.tree.link(&format!("/sys/class/block/{disk}"), &path);
    }
    machine.stacked("dm-0", "253:0", &["sda", "sdb"]);
    machine.mapped("dm-0", "mpatha", "mpath-3600");
    let resolved = machine.resolve("/dev/mapper/mpatha");
    assert_eq!(nodes(&resolved), "0 ?, 1 ?");
    assert!(resolved.chain.iter().any(|step| step.value == "multipath mpatha: sda sdb"), "{resolved:#?}");
}

#[test]
fn resolves_multipath_and_networked_nvme() {
    let mut machine = two_drives();
    machine.nic("0000:18:00.0", "eth0", 0);
    let subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys5";
    for controller in ["nvme0", "nvme1"] {
        machine.tree.link(&format!("{subsystem}/{controller}"), &format!("/sys/class/nvme/{controller}"));
    }
    machine.tree.file(&format!("{subsystem}/nvme5n1/size"), "1\n");
    machine.tree.link("/sys/class/block/nvme5n1", &format!("{subsystem}/nvme5n1"));
    assert_eq!(nodes(&machine.resolve("nvme5n1")), "0 ?, 1 ?", "the iopolicy is unknown");

    let remote = "/sys/devices/virtual/nvme-fabrics/ctl/nvme7";
    machine.tree.file(&format!("{remote}/transport"), "tcp\n");
    machine.tree.file(&format!("{remote}/address"), "traddr=10.0.0.9,trsvcid=4420,src_addr=10.0.0.2\n");
    machine.tree.file(&format!("{remote}/nvme7n1/size"), "1\n");
    machine.tree.link("/sys/class/nvme/nvme7", remote);
    machine.tree.link("/sys/class/block/nvme7n1", &format!("{remote}/nvme7n1"));
    machine.route("10.0.0.9", &[("eth0", 1)]);
    assert_eq!(machine.line("nvme7n1"), "nvme7n1 -> nvme7 -> 10.0.0.9 -> eth0 -> 0000:18:00.0 -> node 0");
}

#[test]
fn resolves_nvme_over_fibre_channel() {
    let mut machine = Machine::new();
    let function = machine.pci("0000:3b:00.0", "0x0c0400", 1);
    let port = format!("{function}/host4/fc_host/host4");
    machine.tree.file(&format!("{port}/port_name"), "0x10000090fa\n").link("/sys/class/fc_host/host4", &port);
    let remote = "/sys/devices/virtual/nvme-fabrics/ctl/nvme2";
    machine.tree.file(&format!("{remote}/transport"), "fc\n");
    let address = "traddr=nn-0x5:pn-0x6,host_traddr=nn-0x20000090fa:pn-0x10000090fa";
    machine
        .tree
        .file(&format!("{remote}/address"), format!("{address}\n"))
        .link("/sys/class/nvme/nvme2", remote);
    assert_eq!(machine.line("nvme2"), "nvme2 -> 0000:3b:00.0 -> node 1");
    machine.tree.file(&format!("{port}/port_name"), "0x7\n");
    assert_eq!(machine.dead_end("nvme2"), ["near-no-device"]);
}

#[test]
fn resolves_iscsi_by_the_route_to_its_target() {
    let mut machine = Machine::new();
    machine.nic("0000:3b:00.0", "eth0", 1);
    let session = "/sys/devices/platform/host3/session1";
    let connection = format!("{session}/connection1:0/iscsi_connection/connection1:0");
    machine.tree.file(&format!("{connection}/address"), "10.0.0.9\n");
    let disk = format!("{session}/target3:0:0/3:0:0:0/block/sdc");
    machine.tree.file(&format!("{disk}/dev"), "8:32\n").link("/sys/class/block/sdc", &disk);
    machine.route("10.0.0.9", &[("eth0", 1)]);
    assert_eq!(machine.line("sdc"), "sdc -> 10.0.0.9 -> eth0 -> 0000:3b:00.0 -> node 1");
}

#[test]
fn reports_disks_without_device() {
    let mut machine = two_drives();
    for (name, at) in [
        ("zram0", "252:0"),
        ("loop0", "7:0"),
        ("zd0", "230:0"),
        ("nullb0", "251:0"),
        ("rbd0", "250:0"),
        ("ublkb0", "249:0"),
        ("drbd0", "147:0"),
        ("nbd0", "43:0"),
    ] {
        machine.stacked(name, at, &[]);
    }
    assert_eq!(machine.dead_end("zram0"), ["near-memory"]);
    assert_eq!(machine.dead_end("loop0"), ["near-no-device"]);
    for name in ["zd0", "nullb0", "rbd0", "ublkb0", "drbd0", "nbd0"] {
        assert_eq!(machine.dead_end(name), ["near-not-followed"], "{name}");
    }
}

#[test]
fn detects_recursive_stacks() {
    let mut machine = two_drives();
    machine.stacked("dm-0", "253:0", &["dm-1"]);
    machine.stacked("dm-1", "253:1", &["dm-0", "nvme0n1"]);
    let resolved = machine.resolve("dm-0");
    assert_eq!(rules(&resolved), ["near-loop"]);
    assert_eq!(shares(&resolved), "nvme0n1 ?");
}

#[test]
fn limits_depth_and_size_of_stacks() {
    let mut machine = two_drives();
    let rows = 40;
    for row in 0..rows {
        let below = [format!("dm-{}", 2 * row + 2), format!("dm-{}", 2 * row + 3)];
        for side in [2 * row, 2 * row + 1] {
            machine.stacked(&format!("dm-{side}"), &format!("253:{side}"), &[&below[0], &below[1]]);
        }
    }
    let resolved = machine.resolve("dm-0");
    assert_eq!(rules(&resolved).first().map(String::as_str), Some("near-too-deep"));
    assert!(resolved.chain.len() < 5000, "{}", resolved.chain.len());
}
