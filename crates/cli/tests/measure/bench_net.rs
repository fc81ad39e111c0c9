//! `numaio bench net` and `bench rdma`, over the loopback and between two network namespaces.

use crate::support::limits::read_line;
use crate::support::{unique_id, CommandOutput, Home, Limited};
use numaio_schema::{IoEngine, IoRecord};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Options for a short campaign that settles at once.
const SHORT: [&str; 6] = ["--window", "100", "--precision", "90", "--seconds", "20"];

/// A token that no server printed.
const OTHER_TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn net<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "net"], args, &SHORT].concat()
}

fn records(json: &str) -> Vec<IoRecord> {
    match serde_json::from_str::<serde_json::Value>(json).expect("JSON") {
        serde_json::Value::Array(records) => {
            records.iter().map(|record| IoRecord::from_json(&record.to_string()).expect("a record")).collect()
        }
        _ => vec![IoRecord::from_json(json).expect("a record")],
    }
}

pub(crate) fn print_skip(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .limited_status()
        .is_ok()
}

/// A manually started server.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: String,
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn start(home: &Home, starter: &[&str], args: &[&str]) -> Self {
        let mut command = home.command_by(starter, &[&["bench", "net", "--serve"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a server");
        let line = read_line(child.stdout.take().expect("a pipe"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let token = words.iter().find_map(|word| word.strip_prefix("NUMAIO_TOKEN=")).expect("a token");
        let port = words.iter().position(|word| *word == "--port").map(|at| words[at + 1]).expect("a port");
        Self { child, port: port.to_owned(), token: token.to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.limited_status();
    }
}

#[test]
fn measures_the_loopback_and_saves_the_record() {
    let home = Home::new();
    let output = home.run(&net(&["--peer", "localhost", "--streams", "1", "--sizes", "64K,1K"]));
    let text = output.ok();
    for part in
        ["I/O through lo with 127.0.0.1, on", "Device write (this machine sends)", "64 KiB", "CPU s/GB LOCAL"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let saved = fs::read_dir(home.0.join("state/numaio/io")).expect("a folder").count();
    assert_eq!(saved, 1);
}

#[test]
fn record_describes_both_ends() {
    let home = Home::new();
    let args =
        ["--peer", "localhost", "--streams", "1,2", "--side", "both", "--matrix", "cpu-memory", "--json"];
    let output = home.run(&net(&args)).ok();
    let record = records(&output).remove(0);
    assert_eq!((record.method.engine, record.device.name.as_str()), (IoEngine::Tcp, "lo"));
    assert_eq!(record.remote.expect("the other end's device").name, "lo");
    // Both directions, both numbers of streams, and at least one placement at each end.
    assert!(record.cells.len() >= 8, "{}", record.cells.len());
    for cell in &record.cells {
        assert!(cell.bytes_per_s.median().is_some_and(|rate| rate > 0.0), "{cell:?}");
        assert!(cell.cpu_ns_per_byte.is_some_and(|ns| ns > 0.0), "{cell:?}");
        let remote = cell.remote.as_ref().expect("the other end");
        assert!(
            remote.cpu_ns_per_byte.is_some_and(|ns| ns > 0.0) && !remote.cpu_nodes.is_empty(),
            "{remote:?}"
        );
        assert_eq!(cell.operation, None);
    }
}

#[test]
fn congestion_control_is_set_and_stored() {
    let home = Home::new();
    let run = |name: &str| {
        home.run(&net(&["--peer", "localhost", "--streams", "1", "--congestion", name, "--json"]))
    };
    let record = records(&run("reno").ok()).remove(0);
    let network = record.method.network.expect("settings of the network");
    assert_eq!([network.congestion.as_deref(), network.remote_congestion.as_deref()], [Some("reno"); 2]);
    assert!(network.mtu.is_some_and(|mtu| mtu > 1000) && network.remote_mtu == network.mtu, "{network:?}");
    run("nosuch").failed(1, &["cannot set 'nosuch': "]);
    run("a b").failed(2, &["expected a name such as cubic or bbr"]);
}

#[test]
fn both_directions_at_once_are_measured_beside_each_alone() {
    let home = Home::new();
    let engines = if is_installed("iperf3") { &["tcp", "iperf3"][..] } else { &["tcp"] };
    for engine in engines {
        let peer = ["--peer", "localhost", "--streams", "2", "--cpu-nodes", "0", "--engine", engine];
        let file = format!("{engine}.json");
        let text = home.run(&net(&[&peer[..], &["--duplex", "-o", &file]].concat())).ok();
        assert!(text.contains("Both directions at once") && text.matches("RECEIVED").count() > 1, "{text}");
        let record = records(&fs::read_to_string(home.path(&file)).expect("a record")).remove(0);
        let [send, receive, both] = record.cells.as_slice() else { panic!("three cells: {text}") };
        assert!(both.duplex_placement().is_some() && both.group_bytes_per_s.len() == 2, "{both:?}");
        assert!(send.is_alone(both, 0) && receive.is_alone(both, 1), "{text}");
        let rates: Vec<f64> = both.group_bytes_per_s.iter().flatten().map(|rate| rate.median).collect();
        assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
    }
    for more in ["--ping", "--direction=read"] {
        home.run(&net(&["--peer", "localhost", "--duplex", more])).failed(2, &["cannot be used with"]);
    }
}

#[test]
fn iperf3_and_built_in_streams_are_compared() {
    if !is_installed("iperf3") {
        return print_skip("skipped: no iperf3");
    }
    let home = Home::new();
    let args = ["--peer", "localhost", "--streams", "2", "--direction", "read", "--engine", "all"];
    let json = home.run(&net(&[&args[..], &["--json"]].concat())).ok();
    let records = records(&json);
    let engines: Vec<IoEngine> = records.iter().map(|record| record.method.engine).collect();
    assert_eq!(engines, [IoEngine::Tcp, IoEngine::Iperf3]);
    assert!(records[1].method.version.starts_with("3."), "{}", records[1].method.version);
    for record in &records {
        assert!(record.cells[0].bytes_per_s.median().is_some_and(|rate| rate > 0.0), "{:?}", record.cells);
        assert!(record.cells[0].cpu_ns_per_byte.is_some(), "{:?}", record.cells);
    }
}

#[test]
fn running_server_requires_its_token_once() {
    let home = Home::new();
    let server = Server::start(&home, &[], &["--bind", "127.0.0.1"]);
    let peer =
        ["--peer", "localhost", "--port", server.port.as_str(), "--streams", "1", "--direction", "write"];
    home.run(&net(&peer)).failed(2, &["requires a token", "NUMAIO_TOKEN"]);
    // Unauthenticated peers do not occupy the session, whether they are silent or not.
    let unauthenticated = [&b""[..], b"GET / HTTP/1.1\r\n\r\n"].map(|bytes| {
        let port = server.port.parse().expect("a port");
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
        socket.write_all(bytes).expect("sent");
        socket
    });
    let wrong = [&peer[..], &["--token", OTHER_TOKEN]].concat();
    home.run(&net(&wrong)).failed(1, &["the token is not the one", "the server prints"]);
    let truncated = [&peer[..], &["--token", &server.token[..40]]].concat();
    let output = home.run(&net(&truncated));
    assert!(!output.err.contains(&server.token[..40]), "the error shows the token: {}", output.err);
    output.failed(2, &["invalid token of 40 characters", "64 hexadecimal digits"]);
    let mut right = home.numaio(&net(&peer));
    CommandOutput::of(right.env("NUMAIO_TOKEN", &server.token).limited_output().expect("numaio")).ok();
    drop(unauthenticated);
    let again = [&peer[..], &["--token", server.token.as_str()]].concat();
    home.run(&net(&again)).failed(1, &["127.0.0.1", "token"]);
}

#[test]
fn unreachable_peers_and_unknown_devices_are_reported() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    drop(listener);
    let unreachable = ["--peer", "localhost", "--port", &port, "--token", OTHER_TOKEN];
    home.run(&net(&unreachable)).failed(1, &["cannot reach 127.0.0.1:", "--via"]);
    home.run(&net(&[])).failed(2, &["no other host specified", "--peer"]);
    home.run(&net(&["--peer", "-oProxyCommand=x"])).failed(2, &[]);
    home.run(&net(&["--peer", "localhost", "--machine", "amd-2p"]))
        .failed(2, &["cannot measure the network"]);
    home.run(&net(&["--peer", "localhost", "--sizes", "0"])).failed(2, &["expected sizes from 1"]);
    home.run(&net(&["--peer", "localhost", "--device", "nope0"])).failed(2, &["there is no device 'nope0'"]);
    home.run(&net(&["--peer", "localhost", "--cpu-nodes", "900"])).failed(2, &["there is no node 900"]);
}

/// Runs numaio with a program named ssh first on PATH.
pub(crate) fn run_with_ssh(home: &Home, script: &str, args: &[&str]) -> CommandOutput {
    let bin = home.0.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    home.script("bin/ssh", &format!("#!/bin/sh\n{script}\n"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = home.numaio(&net(args));
    CommandOutput::of(command.env("PATH", path).limited_output().expect("numaio"))
}

#[test]
fn reaches_the_other_host_over_ssh() {
    let home = Home::new();
    // Like ssh: resolves the name for -G, and runs the words after the host in a shell.
    let script = r#"
        if [ "$1" = -G ]; then echo "hostname 127.0.0.1"; exit; fi
        while [ "$1" != -- ]; do shift; done
        echo "host $2" >> ssh.log
        shift 2
        exec sh -c "$*""#;
    let numaio = env!("CARGO_BIN_EXE_numaio");
    let args = ["--peer", "me@example", "--remote-numaio", numaio, "--streams", "1", "--direction", "read"];
    let text = run_with_ssh(&home, script, &args).ok();
    assert!(text.contains("with 127.0.0.1, on"), "{text}");
    assert_eq!(fs::read_to_string(home.0.join("ssh.log")).expect("a log"), "host me@example\n");
    let absent = ["--peer", "example", "--remote-numaio", "/no/such 'program'"];
    run_with_ssh(&home, script, &absent).failed(1, &["cannot start numaio on 'example'", "--remote-numaio"]);
    run_with_ssh(&home, "echo no route >&2; exit 255", &["--peer", "example"])
        .failed(1, &["no route", "ssh failed to connect"]);
    // Also when started by a program that ignores SIGCHLD.
    let mut command = home.command_by(&["env", "--ignore-signal=CHLD"], &net(&["--peer", "example"]));
    let path = format!("{}:{}", home.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = CommandOutput::of(command.env("PATH", path).limited_output().expect("started"));
    output.failed(1, &["no route", "ssh failed to connect"]);
    let other = r#"echo '{"numaio_net":99,"port":1,"token":"x"}'; cat >/dev/null"#;
    run_with_ssh(&home, other, &["--peer", "example"])
        .failed(1, &["has protocol version 99", "install one version on both hosts"]);
    run_with_ssh(&home, "echo welcome to example", &["--peer", "example"])
        .failed(1, &["cannot start numaio"]);
}

/// Two network namespaces connected by veth; removed on drop.
pub(crate) struct Namespaces(pub(crate) [String; 2]);

impl Namespaces {
    /// Creates the namespaces, or returns why that is not possible.
    pub(crate) fn new() -> Result<Self, String> {
        let id = unique_id();
        let namespaces = Self([format!("numaio-a{id}"), format!("numaio-b{id}")]);
        let [a, b] = &namespaces.0;
        let lines = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add va type veth peer name vb netns {b}"),
            format!("-n {a} addr add 198.51.100.1/24 dev va"),
            format!("-n {b} addr add 198.51.100.2/24 dev vb"),
            format!("-n {a} link set va up"),
            format!("-n {b} link set vb up"),
        ];
        lines.iter().try_for_each(|line| Self::ip(line))?;
        Ok(namespaces)
    }

    /// Runs ip(8), or returns its error.
    pub(crate) fn ip(line: &str) -> Result<(), String> {
        let output = Command::new("ip").args(line.split(' ')).limited_output();
        let output = output.map_err(|error| format!("ip: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).limited_status();
        }
    }
}

#[test]
fn measures_between_two_network_namespaces() {
    let namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(reason) => return print_skip(&format!("skipped: no network namespaces: {reason}")),
    };
    let [a, b] = &namespaces.0;
    let home = Home::new();
    let server = Server::start(&home, &["ip", "netns", "exec", b], &[]);
    let peer = ["--peer", "198.51.100.2", "--port", server.port.as_str(), "--token", server.token.as_str()];
    let args = net(&[&peer[..], &["--streams", "2", "--json"]].concat());
    let mut command = home.command_by(&["ip", "netns", "exec", a], &args);
    let json = CommandOutput::of(command.limited_output().expect("numaio")).ok();
    let record = records(&json).remove(0);
    assert_eq!((record.device.name.as_str(), record.remote.expect("its device").name.as_str()), ("va", "vb"));
    assert!(record.cells.iter().all(|cell| cell.bytes_per_s.median().is_some()), "{:?}", record.cells);
}

#[test]
fn reports_a_missing_rdma_device() {
    let home = Home::new();
    let args = |device| vec!["bench", "rdma", "--peer", "localhost", "--device", device];
    home.run(&args("../x")).failed(2, &["invalid RDMA device '../x'", "rdma link"]);
    home.run(&args("mlx5_99")).failed(2, &["there is no device 'mlx5_99'"]);
}
