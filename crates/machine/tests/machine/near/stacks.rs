//! Shares of the members of stacked block devices: promised by the kernel, or unknown.

use super::machine::{nodes, rules, shares, Machine};

/// Three drives, the first two on node 0.
fn three_drives() -> Machine {
    let mut machine = Machine::new();
    machine.nvme("0000:17:00.0", 0, 0);
    machine.nvme("0000:18:00.0", 1, 0);
    machine.nvme("0000:86:00.0", 2, 1);
    machine
}

const DRIVES: [&str; 3] = ["nvme0n1", "nvme1n1", "nvme2n1"];

/// Adds a RAID of three drives with the state and the slot of each.
fn raid(level: &str, members: [(&str, &str); 3]) -> Machine {
    let mut machine = three_drives();
    machine.stacked("md0", "9:0", &DRIVES);
    machine.block("md0", "md/level", level);
    for (drive, (state, slot)) in DRIVES.iter().zip(members) {
        machine.block("md0", &format!("md/dev-{drive}/state"), state);
        machine.block("md0", &format!("md/dev-{drive}/slot"), slot);
    }
    machine
}

const IN_SYNC: [(&str, &str); 3] = [("in_sync", "0"), ("in_sync", "1"), ("in_sync", "2")];
const UNKNOWN: &str = "nvme0n1 ?, nvme1n1 ?, nvme2n1 ?";
const THIRDS: &str = "nvme0n1 0.333, nvme1n1 0.333, nvme2n1 0.333";

#[test]
fn raid_levels_share_evenly_where_the_kernel_stripes() {
    for (level, wanted) in [
        ("raid0", THIRDS),
        ("raid5", THIRDS),
        ("raid6", THIRDS),
        ("raid1", UNKNOWN),
        ("raid4", UNKNOWN),
        ("raid10", UNKNOWN),
        ("linear", UNKNOWN),
        ("multipath", UNKNOWN),
        ("faulty", UNKNOWN),
    ] {
        let resolved = raid(level, IN_SYNC).resolve("md0");
        assert_eq!(shares(&resolved), wanted, "{level}");
        let reasons = rules(&resolved).iter().filter(|rule| *rule == "near-shares-unknown").count();
        assert_eq!(reasons, usize::from(wanted == UNKNOWN), "{level}");
    }
    let with = |level, file: &str, content: &str| {
        let mut machine = raid(level, IN_SYNC);
        machine.block("md0", file, content);
        shares(&machine.resolve("md0"))
    };
    assert_eq!(
        (with("raid5", "md/layout", "2").as_str(), with("raid6", "md/layout", "8").as_str()),
        (THIRDS, THIRDS)
    );
    for (level, layout) in [("raid5", "5"), ("raid5", "2 (5)"), ("raid6", "4"), ("raid6", "18")] {
        assert_eq!(with(level, "md/layout", layout), UNKNOWN, "{level} {layout}");
    }
    assert_eq!(with("raid0", "md/dev-nvme0n1/size", "2000"), UNKNOWN, "a larger member has the end alone");
}

#[test]
fn raid_members_without_data_carry_nothing() {
    let [first, second] = [("in_sync", "0"), ("in_sync", "1")];
    for (level, third, wanted) in [
        ("raid1", ("spare", "none"), "nvme0n1 ?, nvme1n1 ?, nvme2n1 0"),
        ("raid1", ("faulty", "2"), "nvme0n1 ?, nvme1n1 ?, nvme2n1 0"),
        ("raid1", ("faulty,write_error", "none"), "nvme0n1 ?, nvme1n1 ?, nvme2n1 0"),
        ("raid5", ("spare", "none"), "nvme0n1 0.5, nvme1n1 0.5, nvme2n1 0"),
        ("raid5", ("faulty", "2"), "nvme0n1 0.5, nvme1n1 0.5, nvme2n1 0"),
        // Rebuilt, replaced or a journal: it gets writes, and few reads.
        ("raid5", ("spare", "2"), UNKNOWN),
        ("raid6", ("spare,replacement", "1"), UNKNOWN),
        ("raid5", ("in_sync,replacement", "1"), UNKNOWN),
        ("raid5", ("journal", "journal"), UNKNOWN),
        ("raid1", ("in_sync,write_mostly", "2"), UNKNOWN),
        ("raid5", ("in_sync,failfast", "2"), THIRDS),
    ] {
        let resolved = raid(level, [first, second, third]).resolve("md0");
        assert_eq!(shares(&resolved), wanted, "{level} {third:?}");
        if wanted.ends_with(" 0") {
            assert_eq!(nodes(&resolved), "0 1", "all others are on node 0: {level} {third:?}");
        }
    }
    let resolved = raid("raid1", [first, ("spare", "none"), ("faulty", "none")]).resolve("md0");
    assert_eq!(shares(&resolved), "nvme0n1 1, nvme1n1 0, nvme2n1 0");
    assert!(resolved.chain.iter().any(|step| step.name == "nvme2n1" && step.value == "raid1: faulty"));
    let resolved = raid("raid1", [("faulty", "0"); 3]).resolve("md0");
    assert_eq!(shares(&resolved), UNKNOWN);
    assert_eq!(rules(&resolved).first().map(String::as_str), Some("near-no-active-member"));
}

#[test]
fn mappings_of_several_devices_have_no_shares() {
    for (uuid, kind) in [("LVM-abc", "logical volume"), ("CRYPT-INTEGRITY-x", "integrity"), ("", "mapped")] {
        let mut machine = three_drives();
        machine.stacked("dm-0", "253:0", &DRIVES);
        machine.mapped("dm-0", "vg-data", uuid);
        let resolved = machine.resolve("dm-0");
        assert_eq!((shares(&resolved), nodes(&resolved)), (UNKNOWN.into(), "0 ?, 1 ?".into()), "{uuid}");
        assert!(resolved.chain[1].value.starts_with(&format!("{kind} vg-data: ")), "{:?}", resolved.chain[1]);
    }
    // Two partitions of one drive are that drive.
    let mut machine = three_drives();
    machine.partition("nvme2n1", "nvme2n1p1", "259:33");
    machine.partition("nvme2n1", "nvme2n1p2", "259:34");
    machine.stacked("dm-0", "253:0", &["nvme2n1p1", "nvme2n1p2"]);
    machine.mapped("dm-0", "vg-data", "LVM-abc");
    let resolved = machine.resolve("dm-0");
    assert_eq!((shares(&resolved), rules(&resolved).len()), ("nvme2n1 1".into(), 0));
}

#[test]
fn metadata_volumes_carry_no_data() {
    for (data, metadata, suffix) in [
        ("vg-pool_tdata", "vg-pool_tmeta", "-tpool"),
        ("vg-lv_rimage_0", "vg-lv_rmeta_0", ""),
        ("vg-lv_mimage_0", "vg-lv_mlog", ""),
        ("vg-lv_iorig", "vg-lv_imeta", ""),
    ] {
        let mut machine = three_drives();
        machine.stacked("dm-0", "253:0", &["nvme0n1"]);
        machine.mapped("dm-0", metadata, "LVM-abc");
        machine.stacked("dm-1", "253:1", &["nvme2n1"]);
        machine.mapped("dm-1", data, "LVM-def");
        machine.stacked("dm-2", "253:2", &["dm-0", "dm-1"]);
        machine.mapped("dm-2", "vg-top", &format!("LVM-ghi{suffix}"));
        let resolved = machine.resolve("vg-top");
        assert_eq!(
            (shares(&resolved), nodes(&resolved)),
            ("nvme0n1 0, nvme2n1 1".into(), "1 1".into()),
            "{data}"
        );
        assert!(resolved.chain.iter().any(|step| step.value == "logical volume vg-top: metadata"));
    }
    // A cache and its origin both have data.
    let mut machine = three_drives();
    for (disk, name, below) in [
        ("dm-0", "vg-c_cdata", "nvme0n1"),
        ("dm-1", "vg-c_cmeta", "nvme1n1"),
        ("dm-2", "vg-c_corig", "nvme2n1"),
    ] {
        machine.stacked(disk, &disk.replace("dm-", "253:"), &[below]);
        machine.mapped(disk, name, "LVM-abc");
    }
    machine.stacked("dm-3", "253:3", &["dm-0", "dm-1", "dm-2"]);
    machine.mapped("dm-3", "vg-c", "LVM-def");
    assert_eq!(shares(&machine.resolve("vg-c")), "nvme0n1 ?, nvme1n1 0, nvme2n1 ?");
}

#[test]
fn dead_scsi_paths_carry_nothing() {
    for (file, content, wanted) in [
        ("state", "running", "sda ?, sdb ?"),
        ("state", "offline", "sda 0, sdb 1"),
        ("state", "transport-offline", "sda 0, sdb 1"),
        ("state", "blocked", "sda 0, sdb 1"),
        ("access_state", "standby", "sda 0, sdb 1"),
        ("access_state", "unavailable", "sda 0, sdb 1"),
        ("access_state", "transitioning", "sda 0, sdb 1"),
        // Groups of paths are not in sysfs.
        ("access_state", "active/non-optimized", "sda ?, sdb ?"),
    ] {
        let mut machine = Machine::new();
        for (address, host, disk, at, node) in
            [("0000:3b:00.0", 1, "sda", "8:0", 1), ("0000:17:00.0", 2, "sdb", "8:16", 0)]
        {
            let function = machine.pci(address, "0x010700", node);
            let lun = format!("{function}/host{host}/target{host}:0:0/{host}:0:0:0");
            machine.tree.file(&format!("{lun}/state"), "running\n");
            machine.tree.link(&format!("{lun}/block/{disk}/device"), &lun);
            machine.tree.file(&format!("{lun}/block/{disk}/dev"), format!("{at}\n"));
            machine.tree.link(&format!("/sys/class/block/{disk}"), &format!("{lun}/block/{disk}"));
        }
        machine.stacked("dm-0", "253:0", &["sda", "sdb"]);
        machine.mapped("dm-0", "mpatha", "mpath-3600");
        machine.block("sda", &format!("device/{file}"), content);
        assert_eq!(shares(&machine.resolve("mpatha")), wanted, "{file} {content}");
    }
}

/// Adds a drive with two controllers, on nodes 0 and 1.
fn two_controllers(policy: &str) -> Machine {
    let mut machine = Machine::new();
    let subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    for (index, address) in ["0000:17:00.0", "0000:86:00.0"].iter().enumerate() {
        let function = machine.pci(address, "0x010802", index as i32);
        let controller = format!("{function}/nvme/nvme{index}");
        let file = |machine: &mut Machine, file: &str, content: &str| {
            machine.tree.file(&format!("{controller}/{file}"), format!("{content}\n"));
        };
        file(&mut machine, "state", "live");
        file(&mut machine, &format!("nvme0c{index}n1/ana_state"), "optimized");
        machine.tree.link(&format!("/sys/class/nvme/nvme{index}"), &controller);
        machine.tree.link(&format!("{subsystem}/nvme{index}"), &controller);
    }
    machine.tree.file(&format!("{subsystem}/iopolicy"), format!("{policy}\n"));
    machine.tree.file(&format!("{subsystem}/nvme0n1/size"), "1\n");
    machine.tree.link("/sys/class/block/nvme0n1", &format!("{subsystem}/nvme0n1"));
    machine
}

#[test]
fn nvme_paths_share_by_policy_and_state() {
    for (policy, wanted) in
        [("round-robin", "0 0.5, 1 0.5"), ("queue-depth", "0 ?, 1 ?"), ("numa", "0 ?, 1 ?")]
    {
        assert_eq!(nodes(&two_controllers(policy).resolve("nvme0n1")), wanted, "{policy}");
    }
    for (file, state) in [
        ("nvme0c0n1/ana_state", "inaccessible"),
        ("nvme0c0n1/ana_state", "non-optimized"),
        ("nvme0c0n1/ana_state", "persistent-loss"),
        ("nvme0c0n1/ana_state", "change"),
        ("state", "connecting"),
        ("state", "resetting"),
        ("state", "dead"),
        ("state", "deleting"),
    ] {
        let mut machine = two_controllers("round-robin");
        machine.tree.file(&format!("/sys/class/nvme/nvme0/{file}"), format!("{state}\n"));
        let resolved = machine.resolve("nvme0n1");
        assert_eq!(nodes(&resolved), "1 1", "{file} {state}");
        let value = format!("controllers round-robin: {state}");
        assert!(resolved.chain.iter().any(|step| step.value == value), "{resolved:#?}");
    }
    // Without an optimized path, the others are used.
    let mut machine = two_controllers("round-robin");
    for path in ["nvme0/nvme0c0n1", "nvme1/nvme0c1n1"] {
        machine.tree.file(&format!("/sys/class/nvme/{path}/ana_state"), "non-optimized\n");
    }
    assert_eq!(nodes(&machine.resolve("nvme0n1")), "0 0.5, 1 0.5");
    let mut machine = two_controllers("round-robin");
    machine.tree.remove("/sys/class/nvme/nvme1/nvme0c1n1");
    machine.tree.file("/sys/class/nvme/nvme1/nvme0c1n2/ana_state", "optimized\n");
    assert_eq!(nodes(&machine.resolve("nvme0n1")), "0 1", "the other controller has another namespace only");
}

#[test]
fn other_stacks_have_no_shares() {
    let mut machine = three_drives();
    machine.stacked("bcache0", "252:0", &["nvme0n1", "nvme2n1"]);
    machine.block("bcache0", "bcache/cache_mode", "writethrough [writeback] writearound none");
    let resolved = machine.resolve("bcache0");
    assert_eq!(shares(&resolved), "nvme0n1 ?, nvme2n1 ?");
    assert!(resolved.chain[1].value.starts_with("bcache writeback: "), "{:?}", resolved.chain[1]);

    let mut machine = three_drives();
    machine.stacked("drbd0", "147:0", &["nvme2n1"]);
    let resolved = machine.resolve("drbd0");
    assert_eq!((shares(&resolved), nodes(&resolved)), ("nvme2n1 ?".into(), "1 ?".into()));
    assert_eq!(rules(&resolved), ["near-not-followed"]);

    let mut machine = three_drives();
    machine.stacked("zram0", "252:0", &[]);
    machine.block("zram0", "backing_dev", "/dev/nvme2n1");
    let resolved = machine.resolve("zram0");
    assert_eq!((shares(&resolved), rules(&resolved)), ("nvme2n1 ?".into(), vec!["near-not-followed".into()]));
    machine.block("zram0", "backing_dev", "none");
    assert_eq!(machine.dead_end("zram0"), ["near-memory"]);
}

#[test]
fn partitions_are_found_without_a_list_of_all_block_devices() {
    let mut machine = Machine::new();
    let function = machine.pci("0000:17:00.0", "0x010601", 0);
    let disk = format!("{function}/ata1/host0/target0:0:0/0:0:0:0/block/sda");
    machine.tree.link("/sys/block/sda", &disk);
    machine.tree.file(&format!("{disk}/sda1/partition"), "1\n");
    assert_eq!(machine.line("sda1"), "sda1 -> sda -> 0000:17:00.0 -> node 0");
    assert!(machine.resolve("sda2").is_unknown());
}
