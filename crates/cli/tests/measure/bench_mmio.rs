//! `numaio bench mmio` with tapes of a simulated machine.

use crate::simulated_tape::{recording, setting};
use crate::support::Home;
use numaio_machine::devices::{MmioRegister, RegisterRequest};
use numaio_machine::discover::discover;
use numaio_machine::tape::Tape;
use numaio_measure::{io, mmio, MmioOptions, Rule};
use numaio_schema::MmioRecord;
use numaio_sim::{shapes, Simulated};
use std::fs;

/// Records reads of the adapter on node 7, and returns the tape and its record.
fn recorded() -> (Tape, MmioRecord) {
    let machine = recording(Simulated::new(shapes::dl585()).expect("a machine"));
    let topology = discover(&machine);
    let adapter = topology.devices.iter().find(|device| device.has_name("eth0")).expect("an adapter");
    let pci = adapter.pci.expect("a function");
    let register = MmioRegister::select(&machine, pci, RegisterRequest::default()).expect("a register");
    let rule = Rule { least_visits: 6, ..Rule::default() };
    let options = MmioOptions { register, cpu_nodes: Default::default(), reads: 100, rule };
    let device = io::device(adapter, None);
    let record = mmio::run(&setting(&machine, &topology), device, &options, &mut |_| {}).expect("a record");
    machine.record_document(serde_json::to_value(&record).expect("JSON"), 0);
    (machine.tape(), record)
}

fn write(home: &Home, tape: &Tape) -> String {
    let path = home.path("my.tape");
    fs::write(&path, tape.to_text()).expect("a tape");
    path
}

#[test]
fn tape_replays_the_bench_and_is_reported() {
    let home = Home::new();
    let (tape, record) = recorded();
    let tape = write(&home, &tape);
    let bench = ["bench", "mmio", "--machine", &tape, "--device", "eth0", "--reads", "100"];
    let replayed = home.run(&[&bench[..], &["--json"]].concat()).ok();
    let replayed = MmioRecord::from_json(&replayed).expect("a record");
    let nodes = |record: &MmioRecord| record.cells.iter().map(|cell| cell.cpu_node).collect::<Vec<_>>();
    assert_eq!((replayed.bar, replayed.offset, nodes(&replayed)), (0, 0, nodes(&record)));
    let text = home.run(&bench).ok();
    for part in ["MMIO reads of eth0 on", "Register: BAR 0 at 0x0: begin of prefetchable", "7 (local)"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let report = |format: &str| home.run(&["report", "--machine", &tape, "--format", format, "-o", "-"]).ok();
    assert_eq!(report("csv").lines().filter(|line| line.contains(",mmio,")).count(), 8);
    for format in ["html", "markdown", "latex"] {
        assert!(report(format).contains("MMIO reads"), "{format}");
    }
}

#[test]
fn registers_that_cannot_be_read_are_refused() {
    let home = Home::new();
    let (tape, _) = recorded();
    let tape = write(&home, &tape);
    let failed = |args: &[&str], code: u8, parts: &[&str]| {
        let bench = [&["bench", "mmio", "--machine", &tape], args].concat();
        home.run(&bench).failed(code.into(), parts);
    };
    let eth0 = |args: &[&'static str], code: u8, parts: &[&str]| {
        failed(&[&["--device", "eth0"], args].concat(), code, parts);
    };
    eth0(&["--bar", "3"], 2, &["has no BAR 3 (BAR 0: 32 MiB of prefetchable memory)"]);
    eth0(&["--bar", "0", "--offset", "6"], 2, &["offset 0x6 is not a multiple of 4"]);
    eth0(&["--offset", "0x2000000"], 2, &["offset 0x2000000 is beyond BAR 0", "0x2000000 bytes"]);
    eth0(&["--bar", "6"], 2, &["expected an integer from 0 to 5"]);
    eth0(&["--offset", "1K"], 2, &["expected a number of bytes, such as 8 or 0x10"]);
    eth0(&["--reads", "0"], 2, &["expected an integer from 10 to 1000000"]);
    eth0(&["--cpu-nodes", "99"], 2, &["there is no node 99"]);
    eth0(&["--offset", "4"], 1, &["not on the tape"]);
    failed(&["--device", "eth9"], 2, &["there is no device \"eth9\""]);
    failed(&["--device", "0000:7f:00.0"], 2, &["there is no device \"0000:7f:00.0\""]);
    failed(
        &["--device", "nvme0n1"],
        1,
        &["cannot read", "resource", "numaio record --bench 'mmio --device DEV'"],
    );
    failed(&[], 2, &["--device <DEV>"]);
}

#[test]
fn functions_without_power_or_memory_are_refused() {
    let home = Home::new();
    let (tape, _) = recorded();
    let at = |tape: &Tape, name: &str| {
        let ends = format!("/0000:21:00.0/{name}");
        let mut found = tape.files.entries().filter(|(path, _)| path.ends_with(&ends));
        found.next().map(|(path, _)| path.to_owned()).unwrap_or_else(|| panic!("no {name}"))
    };
    let refused = |name: &str, content: &[u8], parts: &[&str]| {
        let mut changed = tape.clone();
        changed.files.file(&at(&tape, name), content);
        let path = write(&home, &changed);
        home.run(&["bench", "mmio", "--machine", &path, "--device", "eth0"]).failed(1, parts);
    };
    refused("config", &[0; 64], &["does not respond to memory accesses", "/enable"]);
    refused("power_state", b"D3hot\n", &["is not powered: its state is D3hot, active", "power/control"]);
    refused("power/runtime_status", b"suspended\n", &["its state is D0, suspended"]);
}
