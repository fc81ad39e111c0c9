//! Resolution on random machines always terminates with a device or a finding.

use super::machine::Machine;
use numaio_machine::locate::PathKind;
use proptest::prelude::*;

const NETS: [&str; 5] = ["eth0", "bond0", "br0", "veth0", "lo"];
const DISKS: [&str; 5] = ["nvme0n1", "dm-0", "dm-1", "md0", "loop0"];
const PATHS: [&str; 4] = ["/", "/data", "/images/a.img", "/dev/dm-0"];

#[derive(Debug, Clone)]
enum Change {
    Upon(usize, usize),
    Enslave(usize, usize),
    Net(usize, &'static str, String),
    Slave(usize, usize),
    Backing(usize, usize),
    Dm(usize, String),
    Mount(u64, usize, String, String, String),
    Place(usize, usize, u64),
    Route(&'static str, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let net = 0..NETS.len();
    let disk = 0..DISKS.len();
    let path = 0..PATHS.len();
    let words = "[a-z0-9:/,=@. \\\\-]{0,24}";
    let file = prop::sample::select(vec![
        "iflink",
        "ifindex",
        "bonding/mode",
        "bonding/slaves",
        "bridge/x",
        "type",
        "speed",
        "tun_flags",
    ]);
    let kind = prop::sample::select(vec![
        "ext4",
        "btrfs",
        "zfs",
        "overlay",
        "nfs4",
        "lustre",
        "ceph",
        "cifs",
        "tmpfs",
        "fuse.sshfs",
        "bcachefs",
    ]);
    let options = prop::sample::select(vec![
        "".to_owned(),
        ",lowerdir=/data:/,upperdir=/images".to_owned(),
        ",addr=10.0.0.9".to_owned(),
        ",mon_addr=10.0.0.9:1/x:y:z".to_owned(),
    ]);
    prop_oneof![
        (net.clone(), net.clone()).prop_map(|(a, b)| Change::Upon(a, b)),
        (net.clone(), net.clone()).prop_map(|(a, b)| Change::Enslave(a, b)),
        (net.clone(), file, "[0-9a-z -]{0,12}").prop_map(|(a, b, c)| Change::Net(a, b, c)),
        (disk.clone(), disk.clone()).prop_map(|(a, b)| Change::Slave(a, b)),
        (disk.clone(), path.clone()).prop_map(|(a, b)| Change::Backing(a, b)),
        (disk.clone(), words).prop_map(|(a, b)| Change::Dm(a, b)),
        (
            1u64..4,
            path.clone(),
            kind.prop_map(str::to_owned),
            words.prop_map(|word| word.replace(' ', "")),
            options
        )
            .prop_map(|(a, b, c, d, e)| Change::Mount(a, b, c, d, e)),
        (path, disk, 1u64..4).prop_map(|(a, b, c)| Change::Place(a, b, c)),
        (prop::sample::select(vec!["10.0.0.9", "x"]), net).prop_map(|(a, b)| Change::Route(a, b)),
    ]
}

fn apply(machine: &mut Machine, change: &Change) {
    match change {
        Change::Upon(a, b) => machine.upon(NETS[*a], NETS[*b]),
        Change::Enslave(a, b) => machine.enslave(NETS[*a], NETS[*b]),
        Change::Net(a, file, text) => machine.net(NETS[*a], file, text),
        Change::Slave(a, b) => {
            let path = format!("/sys/class/block/{}/slaves/{}", DISKS[*a], DISKS[*b]);
            machine.tree.link(&path, &format!("/sys/class/block/{}", DISKS[*b]));
        }
        Change::Backing(a, b) => {
            machine.tree.file(&format!("/sys/class/block/{}/loop/backing_file", DISKS[*a]), PATHS[*b]);
        }
        Change::Dm(a, text) => {
            machine.tree.file(&format!("/sys/class/block/{}/dm/name", DISKS[*a]), text.as_str());
        }
        Change::Mount(id, place, kind, source, options) => {
            machine.mount(*id, "0:40", PATHS[*place], kind, source, options);
        }
        Change::Place(path, disk, mount) => {
            let on = ["259:0", "253:0", "253:1", "9:0", "7:0"][*disk];
            machine.place(
                PATHS[*path],
                PathKind::Directory,
                if mount % 2 == 0 { "0:40" } else { on },
                *mount,
            );
        }
        Change::Route(to, by) => match to.parse::<std::net::IpAddr>() {
            Ok(_) => machine.route(to, &[(NETS[*by], 1), ("eth0", 2)]),
            Err(_) => machine.host(to, &["10.0.0.9"]),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_resolution_has_a_device_or_a_finding(changes in prop::collection::vec(change(), 0..40)) {
        let mut machine = Machine::new();
        machine.nic("0000:3b:00.0", "eth0", 1);
        machine.loopback();
        machine.pair("veth0", "veth1");
        machine.bridge("br0", &["veth1"]);
        machine.virtual_interface("bond0");
        machine.nvme("0000:17:00.0", 0, 0);
        for (disk, at) in DISKS[1..].iter().zip(["253:0", "253:1", "9:0", "7:0"]) {
            machine.stacked(disk, at, &[]);
        }
        for change in &changes {
            apply(&mut machine, change);
        }
        let handles = NETS.iter().chain(&DISKS).chain(&PATHS).map(|name| name.to_string());
        for handle in handles.chain(["host:10.0.0.9", "host:x"].map(str::to_owned)) {
            let resolved = machine.resolve(&handle);
            prop_assert!(!resolved.devices.is_empty() || !resolved.findings.is_empty(), "{resolved:#?}");
            let known = || resolved.devices.iter().filter_map(|device| device.share);
            let of_nodes = || resolved.nodes.iter().filter_map(|near| near.share);
            for share in known().chain(of_nodes()).chain([known().sum(), of_nodes().sum()]) {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&share), "{share}: {resolved:#?}");
            }
            let parts: f64 = resolved.estimated_parts().iter().map(|(_, part)| part).sum();
            prop_assert!(resolved.devices.is_empty() || (parts - 1.0).abs() < 1e-9, "{parts}: {resolved:#?}");
            prop_assert!(resolved.chain.iter().enumerate().all(|(index, step)| step.from.is_none_or(|from| from < index)));
            prop_assert_eq!(resolved.chain.iter().filter(|step| step.from.is_none()).count(), 1);
        }
    }
}
