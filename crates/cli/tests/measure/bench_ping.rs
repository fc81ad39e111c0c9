//! `numaio bench net --ping`, over the loopback and between two network namespaces.

use crate::bench_net::{net, print_skip, run_with_ssh, Namespaces, Server};
use crate::support::{CommandOutput, Home, Limited};
use numaio_schema::{AggregateRecord, PingRecord, Striping};
use std::fs;

const PING: [&str; 5] = ["--peer", "localhost", "--ping", "--sizes", "1,64K"];

fn record(json: &str) -> PingRecord {
    PingRecord::from_json(json).expect("a record")
}

#[test]
fn latency_of_the_loopback_is_shown_saved_and_reported() {
    let home = Home::new();
    let text = home.run(&net(&PING)).ok();
    for part in ["Latency through lo with 127.0.0.1, on", "half of a round trip", "64 KiB", "99TH PERCENTILE"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert_eq!(fs::read_dir(home.0.join("state/numaio/pings")).expect("a folder").count(), 1);
    let csv = home.run(&["report", "--format", "csv", "-o", "-"]).ok();
    assert_eq!(csv.lines().filter(|line| line.contains(",ping,")).count(), 2, "{csv}");
    let page = home.run(&["report", "--format", "html", "-o", "-"]).ok();
    assert!(page.contains("Latency of lo"), "no section of latency");
}

#[test]
fn record_has_both_ends_percentiles_and_minimum() {
    let home = Home::new();
    let args = [&PING[..], &["--side", "product", "--json"]].concat();
    let record = record(&home.run(&net(&args)).ok());
    assert_eq!((record.device.name.as_str(), record.remote.expect("a device").name.as_str()), ("lo", "lo"));
    assert!(record.cells.len() >= 2, "{}", record.cells.len());
    for cell in &record.cells {
        let median = cell.latency_ns.median().expect("a median");
        let (p99, min) = (cell.p99_ns.as_ref().expect("a percentile"), cell.min_ns.expect("a minimum"));
        assert!(min > 0.0 && min <= median && median <= p99.max, "{cell:?}");
        assert!(!cell.remote.cpu_nodes.is_empty() && cell.striping.is_none(), "{cell:?}");
    }
}

#[test]
fn wrong_input_is_rejected() {
    let home = Home::new();
    let failed = |args: &[&str], parts: &[&str]| {
        home.run(&net(&[&["--peer", "localhost"], args].concat())).failed(2, parts);
    };
    failed(&["--ping", "--streams", "2"], &["cannot be used with"]);
    failed(&["--ping", "--engine", "iperf3"], &["cannot be used with"]);
    failed(&["--rail", "127.0.0.1=127.0.0.1"], &["expected 2 to 8 --rail, got 1"]);
    failed(&["--ping", "--rail", "eth0"], &["expected ADDRESS=PEER"]);
    failed(&["--ping", "--rail", "127.0.0.1=127.0.0.1"], &["expected 2 to 8 --rail, got 1"]);
    let foreign = "192.0.2.1=192.0.2.2";
    failed(&["--ping", "--rail", foreign, "--rail", foreign], &["no interface", "192.0.2.1"]);
    failed(&["--ping", "--irq-nodes", "0"], &["cannot be used with"]);
    failed(&["--irq-nodes", "x"], &["--irq-nodes"]);
}

#[test]
fn interface_without_interrupts_is_reported() {
    let home = Home::new();
    home.run(&net(&["--peer", "localhost", "--irq-nodes", "0"]))
        .failed(1, &["interface 'lo' has no interrupts to move", "veth"]);
}

/// Runs the words after the host in a shell, with the server's output through a program.
fn through(filter: &str) -> String {
    format!(
        r#"
        if [ "$1" = -G ]; then echo "hostname 127.0.0.1"; exit; fi
        while [ "$1" != -- ]; do shift; done
        shift 2
        sh -c "$*" | {filter}"#
    )
}

#[test]
fn hostile_peers_lead_to_clear_errors() {
    let home = Home::new();
    let numaio = env!("CARGO_BIN_EXE_numaio");
    let args = ["--peer", "example", "--remote-numaio", numaio, "--ping", "--sizes", "64", "--no-save"];
    let failed = |filter: &str, parts: &[&str]| {
        run_with_ssh(&home, &through(filter), &args).failed(1, parts);
    };
    failed("sed -u 's/\"kind\":\"prepared\"/\"kind\":\"refused\",\"reason\":\"no memory\"/'", &["no memory"]);
    failed("sed -u 's/\"kind\":\"prepared\"/\"kind\":\"listening\",\"ports\":[]/'", &["unexpected answer"]);
    failed("sed -u 's/.*\"prepared\".*/garbage/'", &["invalid message"]);
}

/// Rails of a test: two veth pairs with these rates (tc-tbf(8)) in both directions.
fn two_rails(rates: [&str; 2]) -> Result<Namespaces, String> {
    let namespaces = Namespaces::new()?;
    let [a, b] = &namespaces.0;
    let lines = [
        format!("-n {a} link add wa type veth peer name wb netns {b}"),
        format!("-n {a} addr add 203.0.113.1/24 dev wa"),
        format!("-n {b} addr add 203.0.113.2/24 dev wb"),
        format!("-n {a} link set wa up"),
        format!("-n {b} link set wb up"),
    ];
    lines.iter().try_for_each(|line| Namespaces::ip(line))?;
    for (namespace, names) in [(a, ["va", "wa"]), (b, ["vb", "wb"])] {
        for (name, rate) in names.iter().zip(rates) {
            let shape = format!(
                "netns exec {namespace} tc qdisc add dev {name} root tbf rate {rate} burst 64k latency 100ms"
            );
            Namespaces::ip(&shape)?;
        }
    }
    Ok(namespaces)
}

/// The shares follow the rates of the rails: three to one.
#[test]
fn messages_are_striped_by_the_measured_share_of_each_rail() {
    let namespaces = match two_rails(["300mbit", "100mbit"]) {
        Ok(namespaces) => namespaces,
        Err(reason) => return print_skip(&format!("skipped: no network namespaces: {reason}")),
    };
    let [a, b] = &namespaces.0;
    let home = Home::new();
    let server = Server::start(&home, &["ip", "netns", "exec", b], &[]);
    let args = [
        "--peer",
        "198.51.100.2",
        "--port",
        &server.port,
        "--token",
        &server.token,
        "--ping",
        "--sizes",
        "2M",
        "--rail",
        "198.51.100.1=198.51.100.2",
        "--rail",
        "203.0.113.1=203.0.113.2",
        "--json",
    ];
    let mut command = home.command_by(&["ip", "netns", "exec", a], &net(&args));
    let record = record(&CommandOutput::of(command.limited_output().expect("numaio")).ok());
    let names: Vec<&str> = record.rails.iter().map(|rail| rail.device.name.as_str()).collect();
    assert_eq!(names, ["va", "wa"]);
    let of = |striping| record.cells.iter().find(|cell| cell.striping == Some(striping)).expect("a cell");
    let ns = |striping| of(striping).latency_ns.median().expect("a median");
    let parts = &of(Striping::Measured).parts;
    let share = parts[0] as f64 / 2_097_152.0;
    assert!((0.6..0.9).contains(&share), "{parts:?}");
    // tbf sets the order, whatever else this machine does.
    assert!(ns(Striping::Measured) < ns(Striping::Even), "{:?}", record.cells);
    assert!(ns(Striping::Measured) < ns(Striping::Single(0)), "{:?}", record.cells);
    assert!(ns(Striping::Single(0)) < ns(Striping::Single(1)), "{:?}", record.cells);
}

#[test]
fn tape_keeps_the_runs_and_the_record() {
    let home = Home::new();
    let tape = home.path("net.tape");
    let bench = "net --peer localhost --ping --sizes 64 --window 100 --precision 90 --seconds 10 --no-save";
    let args = ["record", "-o", &tape, "--bench", bench, "--no-measure", "--quiet"];
    home.run(&args).ok();
    let csv = home.run(&["report", "--machine", &tape, "--format", "csv", "-o", "-"]).ok();
    assert_eq!(csv.lines().filter(|line| line.contains(",ping,")).count(), 1, "{csv}");
    let text = fs::read_to_string(home.0.join("net.tape")).expect("a tape");
    assert!(text.contains("\"kind\":\"ping\"") && text.contains("numaio/ping/1"), "no run on the tape");
}

/// Bandwidth of each rail alone, of both, and the sum; tbf sets the order.
#[test]
fn several_interfaces_are_measured_alone_and_at_the_same_time() {
    let namespaces = match two_rails(["300mbit", "100mbit"]) {
        Ok(namespaces) => namespaces,
        Err(reason) => return print_skip(&format!("skipped: no network namespaces: {reason}")),
    };
    let [a, b] = &namespaces.0;
    let home = Home::new();
    let server = Server::start(&home, &["ip", "netns", "exec", b], &[]);
    let rails = ["--rail", "198.51.100.1=198.51.100.2", "--rail", "203.0.113.1=203.0.113.2"];
    let reach = ["bench", "net", "--peer", "198.51.100.2", "--port", &server.port, "--token", &server.token];
    let limits = ["--direction", "write", "--streams", "2", "--precision", "20", "--seconds", "30"];
    let bench = |more: &[&str]| {
        let args = [&reach[..], &rails[..], &limits[..], more].concat();
        let mut command = home.command_by(&["ip", "netns", "exec", a], &args);
        CommandOutput::of(command.limited_output().expect("numaio"))
    };
    bench(&["--side", "receiver"]).failed(2, &["placements of this machine only"]);
    bench(&["--engine", "iperf3"]).failed(2, &["engine tcp only"]);
    let record = AggregateRecord::from_json(&bench(&["--json"]).ok()).expect("a record");
    let names: Vec<&str> = record.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["va", "wa"]);
    let cell = record.aggregates().next().expect("a row");
    let alone =
        |index| record.alone(cell, index).and_then(|cell| cell.bytes_per_s.median()).expect("a figure");
    let sum = cell.bytes_per_s.median().expect("a figure");
    assert!(alone(0) > 1.5 * alone(1), "{record:?}");
    assert!(sum > 1.05 * alone(0), "both carry more than one: {record:?}");
}
