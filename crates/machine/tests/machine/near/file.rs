//! Resolution of files and directories.

use super::machine::{nodes, rules, shares, Machine};
use numaio_machine::locate::PathKind;

fn machine() -> Machine {
    let mut machine = Machine::new();
    machine.nvme("0000:3b:00.0", 0, 1);
    machine.nvme("0000:17:00.0", 1, 0);
    machine.nic("0000:18:00.0", "eth0", 0);
    machine.route("10.0.0.9", &[("eth0", 1)]);
    machine.route("10.0.0.8", &[("eth0", 1)]);
    machine.mount(27, "259:0", "/", "ext4", "/dev/root", "");
    machine.folder("/", "259:0", 27);
    machine
}

#[test]
fn resolves_files_through_mounts() {
    let mut machine = machine();
    machine.stacked("md0", "9:0", &["nvme0n1", "nvme1n1"]);
    machine.stacked("dm-3", "253:3", &["md0"]);
    machine.mapped("dm-3", "vg-data", "LVM-1");
    machine.mount(41, "253:3", "/my data", "xfs", "/dev/mapper/vg-data", ",attr2");
    machine.folder("/my data", "253:3", 41);
    assert_eq!(
        machine.line("/my data"),
        "/my data -> xfs on /dev/mapper/vg-data -> dm-3 -> md0 -> nvme0n1, nvme1n1 -> 0000:3b:00.0, 0000:17:00.0 -> node 1, node 0"
    );
    assert_eq!(machine.line("/"), "/ -> ext4 on /dev/root -> nvme0n1 -> 0000:3b:00.0 -> node 1");
}

#[test]
fn resolves_a_missing_file_by_its_directory() {
    let mut machine = machine();
    machine.absent("/new");
    machine.absent("/no/such/new");
    machine.absent("/no/such");
    assert_eq!(machine.line("/new"), "/new -> / -> ext4 on /dev/root -> nvme0n1 -> 0000:3b:00.0 -> node 1");
    assert_eq!(machine.dead_end("/no/such/new"), ["near-absent"]);
}

#[test]
fn resolves_loop_devices() {
    let mut machine = machine();
    machine.stacked("loop0", "7:0", &[]);
    machine.tree.file("/sys/class/block/loop0/loop/backing_file", "/images/a.img\n");
    machine.place("/images/a.img", PathKind::File, "259:0", 27);
    machine.mount(50, "7:0", "/mnt", "ext4", "/dev/loop0", "");
    machine.folder("/mnt", "7:0", 50);
    let wanted = "/mnt -> ext4 on /dev/loop0 -> loop0 -> /images/a.img -> ext4 on /dev/root -> nvme0n1 -> 0000:3b:00.0 -> node 1";
    assert_eq!(machine.line("/mnt"), wanted);
}

#[test]
fn detects_recursive_loop_devices() {
    let mut machine = machine();
    machine.stacked("loop0", "7:0", &[]);
    machine.tree.file("/sys/class/block/loop0/loop/backing_file", "/mnt/a.img\n");
    machine.mount(50, "7:0", "/mnt", "ext4", "/dev/loop0", "");
    machine.place("/mnt/a.img", PathKind::File, "7:0", 50);
    assert_eq!(machine.dead_end("loop0"), ["near-loop"]);
}

#[test]
fn resolves_all_devices_of_btrfs() {
    let mut machine = machine();
    for name in ["nvme0n1", "nvme1n1"] {
        let path = format!("/sys/class/block/{name}");
        machine.tree.link(&format!("/sys/fs/btrfs/0123-45/devices/{name}"), &path);
    }
    machine.tree.dir("/sys/fs/btrfs/features");
    machine.mount(60, "0:50", "/pool", "btrfs", "/dev/nvme1n1", ",subvolid=5");
    // A subvolume has a different number than its mount.
    machine.folder("/pool/sub", "0:51", 60);
    let resolved = machine.resolve("/pool/sub");
    assert_eq!(shares(&resolved), "nvme0n1 ?, nvme1n1 ?");
    machine.answers = Default::default();
    machine.folder("/pool/sub", "0:51", 60);
    assert_eq!(
        shares(&machine.resolve("/pool/sub")),
        "nvme0n1 ?, nvme1n1 ?",
        "the device is found by its name"
    );
}

#[test]
fn resolves_all_devices_of_bcachefs() {
    let mut machine = machine();
    machine.mount(61, "0:52", "/store", "bcachefs", "/dev/nvme0n1:/dev/nvme1n1", "");
    machine.folder("/store/x", "0:52", 61);
    let resolved = machine.resolve("/store/x");
    assert_eq!(shares(&resolved), "nvme0n1 ?, nvme1n1 ?");
    assert_eq!(rules(&resolved), ["near-shares-unknown"]);
}

#[test]
fn resolves_zfs_pools_by_udev_labels() {
    let mut machine = machine();
    machine.partition("nvme0n1", "nvme0n1p1", "259:1");
    let label = |pool: &str| format!("S:disk/by-id/x\nE:ID_FS_LABEL={pool}\nE:ID_FS_TYPE=zfs_member\n");
    machine.tree.file("/run/udev/data/b259:0", label("tank"));
    machine.tree.file("/run/udev/data/b259:1", label("tank"));
    machine.tree.file("/run/udev/data/b259:16", label("other"));
    machine.tree.file("/run/udev/data/n2", "E:ID_FS_TYPE=zfs_member\n");
    machine.mount(61, "0:60", "/tank/home", "zfs", "tank/home", ",xattr");
    machine.folder("/tank/home", "0:60", 61);
    let wanted = "/tank/home -> zfs on tank/home -> nvme0n1p1 -> nvme0n1 -> 0000:3b:00.0 -> node 1";
    assert_eq!(machine.line("/tank/home"), wanted);
    machine.tree.remove("/run/udev/data");
    assert_eq!(machine.dead_end("/tank/home"), ["near-no-device"]);
}

#[test]
fn resolves_overlay_files_and_directories() {
    let mut machine = machine();
    machine.mount(41, "259:16", "/lower", "ext4", "/dev/nvme1n1", "");
    machine.mount(
        70,
        "0:70",
        "/merged",
        "overlay",
        "overlay",
        ",lowerdir=/lower/a:/lower/b,upperdir=/up,workdir=/w",
    );
    machine.folder("/merged", "0:70", 70);
    machine.folder("/up", "259:0", 27);
    machine.folder("/lower/a", "259:16", 41);
    machine.folder("/lower/b", "259:16", 41);
    machine.place("/merged/etc/x", PathKind::File, "0:70", 70);
    machine.absent("/up/etc/x");
    machine.absent("/lower/a/etc/x");
    machine.place("/lower/b/etc/x", PathKind::File, "259:16", 41);
    let wanted = "/merged/etc/x -> overlay on overlay -> /lower/b/etc/x -> ext4 on /dev/nvme1n1 -> nvme1n1 -> 0000:17:00.0 -> node 0";
    assert_eq!(machine.line("/merged/etc/x"), wanted);
    assert_eq!(nodes(&machine.resolve("/merged")), "0 ?, 1 ?");
}

#[test]
fn reports_hidden_overlay_layers() {
    let mut machine = Machine::new();
    machine.mount(70, "0:70", "/", "overlay", "overlay", ",lowerdir=/var/lib/x,upperdir=/var/lib/y");
    machine.folder("/", "0:70", 70);
    assert_eq!(machine.dead_end("/"), ["near-layers-hidden"]);
}

#[test]
fn resolves_network_file_systems() {
    let mut machine = machine();
    machine.mount(80, "0:80", "/home", "nfs4", "store1:/home", ",vers=4.2,addr=10.0.0.9");
    machine.folder("/home/me", "0:80", 80);
    let wanted = "/home/me -> nfs4 on store1:/home -> 10.0.0.9 -> eth0 -> 0000:18:00.0 -> node 0";
    assert_eq!(machine.line("/home/me"), wanted);
    machine.mount(81, "0:81", "/scratch", "lustre", "10.0.0.8@o2ib:10.0.0.9@o2ib:/scratch", ",flock");
    machine.folder("/scratch", "0:81", 81);
    // Management servers do not have the data.
    assert_eq!(shares(&machine.resolve("/scratch")), "eth0 ?");
    machine.tree.file("/sys/fs/lustre/osc/scratch-OST0000-osc-ffff/ost_conn_uuid", "10.0.0.9@o2ib\n");
    assert_eq!(shares(&machine.resolve("/scratch")), "eth0 1");
    for (id, kind, source, options) in [
        (82, "ceph", "10.0.0.9:6789:/", ",name=admin"),
        (83, "fuse.glusterfs", "10.0.0.9:/vol", ""),
        (84, "orangefs", "tcp://10.0.0.9:3334/fs", ""),
    ] {
        let (place, on) = (format!("/m{id}"), format!("0:{id}"));
        machine.mount(id, &on, &place, kind, source, options);
        machine.folder(&place, &on, id);
        let resolved = machine.resolve(&place);
        assert_eq!((shares(&resolved), nodes(&resolved)), ("eth0 ?".into(), "0 ?".into()), "{kind}");
        assert_eq!(rules(&resolved), ["near-not-followed"], "{kind}");
    }
}

#[test]
fn reports_file_systems_without_device() {
    let mut machine = machine();
    for (id, kind, source, options, rule) in [
        (90, "tmpfs", "tmpfs", "", "near-memory"),
        (91, "proc", "proc", "", "near-not-followed"),
        (92, "virtiofs", "share", "", "near-not-followed"),
        (93, "fuse.s3fs", "s3fs", "", "near-not-followed"),
        (94, "9p", "share", ",trans=virtio", "near-not-followed"),
    ] {
        let (place, on) = (format!("/m{id}"), format!("0:{id}"));
        machine.mount(id, &on, &place, kind, source, options);
        machine.folder(&place, &on, id);
        assert_eq!(machine.dead_end(&place), [rule], "{kind}");
    }
    machine.folder("/unmounted", "0:99", 99);
    assert_eq!(machine.dead_end("/unmounted"), ["near-no-device"]);
}

#[test]
fn resolves_gpu_and_rdma_device_files() {
    let mut machine = machine();
    let gpu = machine.pci("0000:e3:00.0", "0x030200", 1);
    machine
        .tree
        .file(&format!("{gpu}/vendor"), "0x10de\n")
        .link(&format!("{gpu}/driver"), "/sys/bus/pci/drivers/nvidia");
    machine.tree.dir("/sys/bus/pci/drivers/nvidia");
    let information = "Model: \t\t H100\nGPU UUID:   \t GPU-8f4bd4c1-05\nDevice Minor: \t 0\n";
    machine.tree.file("/proc/driver/nvidia/gpus/0000:e3:00.0/information", information);
    machine.device_file("/dev/nvidia0", PathKind::Character, "195:0");
    machine.device_file("/dev/nvidiactl", PathKind::Character, "195:255");
    machine.device_file("/dev/infiniband/uverbs0", PathKind::Character, "231:192");
    let verbs = "/sys/devices/pci0000:00/0000:18:00.0/infiniband_verbs/uverbs0";
    machine.tree.file(&format!("{verbs}/abi_version"), "1\n").link("/sys/dev/char/231:192", verbs);
    let card = format!("{gpu}/drm/card1");
    machine.tree.file(&format!("{card}/dev"), "226:1\n").link("/sys/class/drm/card1", &card);
    for handle in ["/dev/nvidia0", "card1", "GPU-8f4bd4c1-05", "GPU-8f", "cuda:0"] {
        assert!(machine.line(handle).ends_with(" -> 0000:e3:00.0 -> node 1"), "{}", machine.line(handle));
    }
    assert!(rules(&machine.resolve("cuda:0")).is_empty(), "a single GPU has a unique index");
    assert_eq!(machine.dead_end("/dev/nvidiactl"), ["near-no-device"]);
    assert_eq!(machine.resolve("cuda:1").findings[0].remedy, "Known GPUs: cuda:0.");
    let second = machine.pci("0000:e4:00.0", "0x030200", 1);
    machine
        .tree
        .file(&format!("{second}/vendor"), "0x10de\n")
        .link(&format!("{second}/driver"), "/sys/bus/pci/drivers/nvidia");
    assert_eq!(rules(&machine.resolve("cuda:0")), ["near-cuda-order"]);
    assert!(machine.line("/dev/infiniband/uverbs0").ends_with(" -> 0000:18:00.0 -> node 0"));
}
