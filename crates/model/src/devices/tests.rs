use super::stacks::Machine;
use super::*;
use crate::testing::{cell, record};
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::inventory::Inventory;
use numaio_machine::near::ResolveContext;
use numaio_machine::set::NodeSet;
use numaio_machine::workload::Direction::{Read, Write};
use numaio_schema::{
    DeviceBandwidth, DevicePurpose, IoEngine, IoRecord, TransferDeviceKind, ValueSource, Warning, THROTTLED,
};
use proptest::prelude::*;

/// Two NVMe drives in a volume, a partitioned disk, NICs, and file systems of several kinds.
fn machine() -> Machine {
    let mut machine = Machine::new();
    machine.nvme("0000:3b:00.0", 0, 1);
    machine.nvme("0000:17:00.0", 1, 0);
    machine.stacked("md0", "9:0", &["nvme0n1", "nvme1n1"]);
    machine.tree.file("/sys/class/block/md0/md/level", "raid0\n");
    let hba = machine.pci("0000:00:1f.2", "0x010601", 0);
    let disk = format!("{hba}/ata1/host0/target0:0:0/0:0:0:0/block/sda");
    machine.tree.file(&format!("{disk}/size"), "2048\n").file(&format!("{disk}/queue/rotational"), "1\n");
    machine.tree.link("/sys/class/block/sda", &disk).link("/sys/dev/block/8:0", &disk);
    machine.partition("sda", "sda1", "8:1");
    for (address, name, node) in [("0000:18:00.0", "eth0", 0), ("0000:19:00.0", "eth1", 1)] {
        machine.nic(address, name, node);
    }
    machine.net("eth0", "speed", "100000");
    machine.net("eth1", "carrier", "0");
    machine.route("10.0.0.9", &[("eth0", 1)]);
    machine.mount(20, "0:20", "/proc", "proc", "proc", "");
    machine.mount(27, "8:1", "/", "ext4", "/dev/sda1", "");
    machine.mount(41, "9:0", "/data", "xfs", "/dev/md0", "");
    machine.mount(42, "0:42", "/dev/shm", "tmpfs", "tmpfs", "");
    machine.mount(43, "0:43", "/home", "nfs4", "store1:/home", ",addr=10.0.0.9");
    machine.mount(44, "0:44", "/odd", "newfs", "pool9", "");
    machine.mount(
        45,
        "0:45",
        "/var/lib/box/merged",
        "overlay",
        "overlay",
        ",upperdir=/data/upper,workdir=/data/w",
    );
    machine
}

fn described(machine: &Machine, records: &[IoRecord], overrides: &[DeviceOverride]) -> DescribedDevices {
    let tree = machine.complete_tree();
    let topology = discover(&tree);
    let context = ResolveContext { root: &tree, locate: &machine.answers, topology: &topology };
    let inventory = Inventory::read(context);
    let named =
        |document: &IoRecord| NamedDocument { name: "io.json".to_owned(), document: document.clone() };
    let records: Vec<NamedDocument<IoRecord>> = records.iter().map(named).collect();
    let (topology, inventory, records) = (&topology, &inventory, &records);
    let evidence = DeviceEvidence { topology, inventory, records, models: &[], streams: &[] };
    describe_devices(&evidence, "serve.toml", overrides)
}

fn device(found: &DescribedDevices, name: &str) -> DeviceDescription {
    found
        .devices
        .iter()
        .find(|device| device.name == name)
        .unwrap_or_else(|| panic!("{name}: {found:#?}"))
        .clone()
}

fn nodes(device: &DeviceDescription) -> String {
    device.nodes.as_ref().map(|nodes| nodes.value.to_string()).unwrap_or_default()
}

#[test]
fn describes_each_device_once_with_its_kind_node_and_mounts() {
    let found = described(&machine(), &[], &[]);
    let shown: Vec<String> = found
        .devices
        .iter()
        .map(|it| format!("{} {} {} {} {:?}", it.name, it.kind.value, it.purpose.value, nodes(it), it.mounts))
        .collect();
    let wanted = [
        "md0 nvme storage 0-1 [\"/data\", \"/var/lib/box/merged\"]",
        "nvme0n1 nvme storage 1 []",
        "nvme1n1 nvme storage 0 []",
        "sda hdd storage 0 [\"/\"]",
        "store1:/home network-file-system storage 0 [\"/home\"]",
        "/odd other storage  [\"/odd\"]",
        "memory memory storage 0-1 [\"/dev/shm\"]",
        "eth0 nic network 0 []",
    ];
    assert_eq!(shown, wanted);
    assert_eq!(device(&found, "md0").members, ["nvme0n1", "nvme1n1"]);
    assert_eq!(device(&found, "store1:/home").members, ["eth0"]);
    assert_eq!(device(&found, "/odd").detail.as_deref(), Some("newfs"));
    assert_eq!(found.omitted, [OmittedDevice { name: "eth1".to_owned(), reason: "no link".to_owned() }]);
}

#[test]
fn unknown_bandwidth_names_the_command_that_measures_it() {
    let found = described(&machine(), &[], &[]);
    for (name, command) in [
        ("sda", "numaio bench disk --file /"),
        ("md0", "numaio bench disk --file /data"),
        ("nvme0n1", "numaio bench disk --device nvme0n1 --direction read"),
        ("store1:/home", "numaio bench disk --file /home"),
        ("memory", "numaio model --all"),
    ] {
        let wanted = DeviceBandwidth::Unknown { measure: command.to_owned() };
        assert_eq!(device(&found, name).read, wanted, "{name}");
    }
}

#[test]
fn speed_of_a_port_limits_a_nic() {
    let nic = device(&described(&machine(), &[], &[]), "eth0");
    let link = ValueSource::Link { link: "port at 100 Gbit/s".to_owned() };
    assert_eq!(nic.read, DeviceBandwidth::Known { bytes_per_s: 12.5e9, source: link });
    // The machine has four cores.
    assert_eq!((nic.read_threads.value, nic.write_threads.value), (4, 4));
}

#[test]
fn measurement_counts_the_best_node_with_the_most_streams() {
    let cells = vec![
        cell(Read, &[(0, 1)], 30.0),
        cell(Read, &[(0, 4)], 16.0),
        cell(Read, &[(1, 4)], 24.0),
        // A mix is not a placement.
        cell(Read, &[(0, 4), (1, 4)], 80.0),
    ];
    let measured = record(1, cells);
    let found = described(&machine(), std::slice::from_ref(&measured), &[]);
    let drive = device(&found, "nvme0n1");
    let source = ValueSource::Measured { document: "io.json".to_owned(), measured_at: 1 };
    assert_eq!(drive.read, DeviceBandwidth::Known { bytes_per_s: 3e9, source });
    assert_eq!((drive.read_threads.value, drive.write.bytes_per_s()), (2, None));
    assert_eq!(device(&found, "md0").read.bytes_per_s(), None);
}

#[test]
fn measurement_of_a_file_belongs_to_its_file_system() {
    let mut of_file = record(0, vec![cell(Write, &[(0, 2)], 8.0)]);
    of_file.device.name = "nvme0n1, nvme1n1".to_owned();
    of_file.device.reached_via = Some("/data/set1".to_owned());
    let mut over_nfs = of_file.clone();
    over_nfs.device.name = "eth0".to_owned();
    over_nfs.device.reached_via = Some("/home/x".to_owned());
    let found = described(&machine(), &[of_file, over_nfs], &[]);
    let written = |name: &str| device(&found, name).write.bytes_per_s();
    assert_eq!((written("md0"), written("store1:/home")), (Some(1e9), Some(1e9)));
    assert_eq!((written("nvme0n1"), written("sda"), written("eth0")), (None, None, Some(12.5e9)));
}

#[test]
fn throttled_cached_and_other_measurements_do_not_count() {
    let good = record(1, vec![cell(Read, &[(0, 1)], 8.0)]);
    let mut throttled = good.clone();
    throttled.provenance.warnings = vec![Warning { rule: THROTTLED.to_owned(), message: String::new() }];
    let mut cached = good.clone();
    cached.method.direct = Some(false);
    let mut other = good.clone();
    other.method.engine = IoEngine::Null;
    let read =
        |records: &[IoRecord]| device(&described(&machine(), records, &[]), "nvme0n1").read.bytes_per_s();
    assert_eq!(read(&[good]), Some(1e9));
    for bad in [throttled, cached, other] {
        assert_eq!(read(std::slice::from_ref(&bad)), None);
    }
}

#[test]
fn rejects_tables_that_do_not_fit_the_machine() {
    let table = |name: &str, line| DeviceOverride {
        name: name.to_owned(),
        line,
        threads: Some(1),
        ..DeviceOverride::default()
    };
    let nodes = Some(NodeSet::one(NodeId(7)));
    let overrides = [
        table("sdz", 1),
        table("eth1", 2),
        DeviceOverride { nodes, ..table("sda", 3) },
        table("/data", 4),
        table("md0", 5),
    ];
    let errors = described(&machine(), &[], &overrides).errors;
    let texts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.line, error.text)).collect();
    let wanted = [
        "1: device \"sdz\": this machine does not have it; expected one of md0, nvme0n1, nvme1n1, sda, store1:/home, /odd, memory, eth0, or a mount point of one",
        "2: device \"eth1\": it cannot carry transfers: no link",
        "3: device \"sda\": nodes: this machine does not have node 7",
        "5: device \"md0\": [device.\"/data\"] configures the same device",
    ];
    assert_eq!(texts, wanted);
}

/// Returns all sources of a description.
fn sources(device: &DeviceDescription) -> Vec<&ValueSource> {
    let rates = [&device.read, &device.write].into_iter().filter_map(|rate| match rate {
        DeviceBandwidth::Known { source, .. } => Some(source),
        DeviceBandwidth::Unknown { .. } => None,
    });
    let others = [
        &device.kind.source,
        &device.purpose.source,
        &device.read_threads.source,
        &device.write_threads.source,
    ];
    rates.chain(others).chain(device.nodes.as_ref().map(|nodes| &nodes.source)).collect()
}

fn is_named(source: &ValueSource) -> bool {
    match source {
        ValueSource::Configuration { file, line } => !file.is_empty() && *line > 0,
        ValueSource::Measured { document, .. } | ValueSource::Model { document, .. } => !document.is_empty(),
        ValueSource::Link { link } => !link.is_empty(),
        ValueSource::Discovered { by } => !by.is_empty(),
        ValueSource::Assumed { reason: why } => !why.is_empty(),
    }
}

fn any_override() -> impl Strategy<Value = DeviceOverride> {
    let names =
        proptest::sample::select(vec!["md0", "sda", "/", "/home", "store1:/home", "memory", "eth0", "/odd"]);
    let kind = proptest::option::of(proptest::sample::select(TransferDeviceKind::ALL.to_vec()));
    let purpose = proptest::option::of(proptest::sample::select(DevicePurpose::ALL.to_vec()));
    let rate = || proptest::option::of(1..u64::MAX);
    let threads = proptest::option::of(1..=128u32);
    let nodes = proptest::option::of(0..2u32);
    (names, kind, purpose, rate(), rate(), threads, nodes).prop_map(
        |(name, kind, purpose, read, write, threads, nodes)| DeviceOverride {
            name: name.to_owned(),
            line: 3,
            kind,
            purpose,
            read,
            write,
            threads,
            nodes: nodes.map(|node| NodeSet::one(NodeId(node))),
        },
    )
}

proptest! {
    #[test]
    fn overrides_win_and_every_value_has_a_source(table in any_override(), gbit_per_s in 0.1..1000.0) {
        let cells = vec![cell(Read, &[(0, 4)], gbit_per_s), cell(Write, &[(0, 4)], gbit_per_s)];
        let mut measured = record(0, cells);
        measured.device.reached_via = Some("/data/set1".to_owned());
        let found = described(&machine(), &[measured], std::slice::from_ref(&table));
        prop_assert_eq!(&found.errors, &[]);
        let device = found.devices.iter().find(|device| device.has_name(&table.name)).expect("the device");
        let configured = ValueSource::Configuration { file: "serve.toml".to_owned(), line: 3 };
        let is_from_file = |source: &ValueSource| *source == configured;
        if let Some(kind) = table.kind {
            prop_assert!(device.kind.value == kind && is_from_file(&device.kind.source));
        }
        if let Some(purpose) = table.purpose {
            prop_assert!(device.purpose.value == purpose && is_from_file(&device.purpose.source));
        }
        for (rate, set) in [(&device.read, table.read), (&device.write, table.write)] {
            if let Some(set) = set {
                let wanted = DeviceBandwidth::Known { bytes_per_s: set as f64, source: configured.clone() };
                prop_assert_eq!(rate, &wanted);
            }
        }
        if let Some(threads) = table.threads {
            for set in [&device.read_threads, &device.write_threads] {
                prop_assert!(set.value == threads && is_from_file(&set.source));
            }
        }
        if let Some(nodes) = &table.nodes {
            let set = device.nodes.as_ref().expect("nodes");
            prop_assert!(set.value == *nodes && is_from_file(&set.source));
        }
        for device in &found.devices {
            prop_assert!(sources(device).into_iter().all(is_named), "{device:#?}");
            prop_assert!(device.read_threads.value > 0 && device.write_threads.value > 0);
            prop_assert_eq!(found.devices.iter().filter(|other| other.name == device.name).count(), 1);
        }
    }
}
