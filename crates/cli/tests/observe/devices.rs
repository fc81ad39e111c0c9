//! `numaio devices` on recorded machines, on trees of files, and on this machine.

use crate::recorded::{machines, print_note};
use crate::stacks;
use crate::support::{CommandOutput, Home};
use numaio_schema::{DeviceBandwidth, DevicesDocument, TransferDeviceKind, ValueSource};
use std::collections::BTreeSet;
use std::path::Path;

fn devices(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["devices"], args].concat())
}

fn document(output: CommandOutput) -> DevicesDocument {
    let text = output.ok();
    DevicesDocument::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Writes a valid configuration with these tables of devices, which start at line 7.
fn config(home: &Home, tables: &str) -> String {
    let key = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let head = format!("key = \"/k\"\n[root.r]\npath = \"/r\"\nread = \"*\"\n[user.u]\nkeys = \"{key}\"\n");
    home.file("devices.toml", &(head + tables))
}

#[test]
fn recorded_machine_has_devices_on_their_nodes() {
    let home = Home::new();
    let found = document(devices(&home, &["--machine", "amd-dl585-g7", "--json"]));
    let shown: Vec<(String, TransferDeviceKind, String)> = found
        .devices
        .iter()
        .map(|it| {
            let nodes = it.nodes.as_ref().map(|nodes| nodes.value.to_string()).unwrap_or_default();
            (it.name.clone(), it.kind.value, nodes)
        })
        .collect();
    let wanted = [
        ("nvme0n1", TransferDeviceKind::Nvme, "7"),
        ("memory", TransferDeviceKind::Memory, "0-7"),
        ("eth0", TransferDeviceKind::Nic, "7"),
        ("eth1", TransferDeviceKind::Nic, "7"),
    ]
    .map(|(name, kind, nodes)| (name.to_owned(), kind, nodes.to_owned()));
    assert_eq!(shown, wanted);
    let DeviceBandwidth::Known { source, .. } = &found.devices[1].read else { panic!("{found:#?}") };
    assert!(
        matches!(source, ValueSource::Model { document, .. } if document == "tape amd-dl585-g7"),
        "{source:?}"
    );
}

#[test]
fn measured_io_of_a_tape_is_the_bandwidth_of_its_disk() {
    let home = Home::new();
    let tape = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/amd-dl585-g7-disk.tape");
    let text = devices(&home, &["--machine", &tape.to_string_lossy(), "vda"]).ok();
    assert!(text.contains("  measurement\n"), "{text}");
    assert!(text.contains("vda: bandwidth measured 2026-11-21 13:43 UTC (tape amd-dl585-g7-disk)"), "{text}");
    assert!(!text.contains("eth0"), "{text}");
}

#[test]
fn unknown_file_system_is_other_with_its_type() {
    let home = Home::new();
    let mut machine = stacks::Machine::new();
    machine.nic("0000:18:00.0", "eth0", 0);
    machine.net("eth0", "speed", "25000");
    machine.mount(44, "0:44", "/odd", "newfs", "pool9", "");
    machine.mount(45, "0:45", "/home", "nfs4", "store1:/home", ",addr=10.0.0.9");
    let root = home.path("root");
    numaio_sim::write_tree(&machine.complete_tree(), Path::new(&root)).expect("a tree");
    let found = document(devices(&home, &["--sysroot", &root, "--json", "/odd", "store1:/home", "eth0"]));
    let shown: Vec<(&str, &str, Option<&str>)> = found
        .devices
        .iter()
        .map(|it| (it.name.as_str(), it.kind.value.name(), it.detail.as_deref()))
        .collect();
    let wanted = [
        ("/odd", "other", Some("newfs")),
        ("store1:/home", "network-file-system", Some("nfs4")),
        ("eth0", "nic", None),
    ];
    assert_eq!(shown, wanted);
    assert_eq!(found.devices[2].write.bytes_per_s(), Some(25e9 / 8.0));
    // The tape of the tree has the same devices.
    let tape = home.path("odd.tape");
    home.run(&["record", "--sysroot", &root, "--no-measure", "-o", &tape]).ok();
    let names = |found: &DevicesDocument| found.devices.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let of_tape = document(devices(&home, &["--machine", &tape, "--json"]));
    assert_eq!(names(&of_tape), names(&document(devices(&home, &["--sysroot", &root, "--json"]))));
}

#[test]
fn configuration_overrides_a_recorded_machine() {
    let home = Home::new();
    let file = config(
        &home,
        "[device.eth0]\nread = \"5GB\"\nthreads = 3\n[device.nvme0n1]\nkind = \"ssd\"\nnodes = \"0\"\n",
    );
    let text = devices(&home, &["--machine", "amd-dl585-g7", "--config", &file]).ok();
    let row = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect("a row");
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("eth0"), ["eth0", "NIC", "network", "7", "5.00", "unknown", "3", "configuration,", "-"]);
    assert_eq!(row("nvme0n1")[..4], ["nvme0n1", "SSD", "storage", "0"]);
    assert!(text.contains("eth0: 3 threads set by ") && text.contains("devices.toml:7\n"), "{text}");
}

#[test]
fn wrong_configuration_is_rejected_with_its_lines() {
    let home = Home::new();
    let run = |tables: &str| {
        let file = config(&home, tables);
        devices(&home, &["--machine", "amd-dl585-g7", "--config", &file])
    };
    run("[device.sdz]\nthreads = 1\n").failed(
        1,
        &[
            "devices.toml:7: device \"sdz\": this machine does not have it; expected one of nvme0n1",
            "1 error",
        ],
    );
    run("[device.eth0]\nnodes = \"9\"\n").failed(1, &["devices.toml:7: ", "does not have node 9"]);
    run("[device.eth0]\nkind = \"floppy\"\nread = \"1X\"\n").failed(
        1,
        &["devices.toml:8: device \"eth0\": kind: expected one of hdd, ", "devices.toml:9: ", "2 errors"],
    );
    devices(&home, &["--config", "absent"]).failed(1, &["absent: "]);
}

#[test]
fn unknown_name_is_wrong_usage_with_the_known_ones() {
    let home = Home::new();
    let output = devices(&home, &["--machine", "amd-dl585-g7", "eht0"]);
    output.failed(2, &["there is no device 'eht0'", "devices: nvme0n1, memory, eth0, eth1"]);
}

#[test]
fn this_machine_has_memory_and_unique_names() {
    let home = Home::new();
    check_names("this machine", &document(devices(&home, &["--json"])));
    devices(&home, &[]).ok();
}

#[test]
fn every_machine_of_the_corpus_is_described() {
    let home = Home::new();
    let machines = machines();
    for (name, root) in &machines {
        let root = root.to_string_lossy();
        check_names(name, &document(devices(&home, &["--sysroot", &root, "--json", "--quiet"])));
    }
    if !machines.is_empty() {
        print_note(&format!("{} recorded machines described", machines.len()));
    }
}

/// Checks that no device is described twice, and none without threads.
fn check_names(machine: &str, found: &DevicesDocument) {
    let names: BTreeSet<&str> = found.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names.len(), found.devices.len(), "{machine}: {names:?}");
    assert!(names.contains("memory"), "{machine}: {names:?}");
    for device in &found.devices {
        assert!(device.read_threads.value > 0 && device.write_threads.value > 0, "{machine}: {device:#?}");
        assert!(device.read.bytes_per_s().is_none_or(|rate| rate > 0.0), "{machine}: {device:#?}");
    }
}
