//! `numaio copy` over separate data connections: encryption, authentication, and reconnection.

use crate::support::{content, CommandOutput, Home, Limited};
use numaio_mover_linux::port::net::{Credentials, DataListener, KeyPair};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Content of a file, searched for in the captured traffic.
const SECRET: &[u8] = b"words that no other user may read";

fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/d")).expect("a folder");
    for (name, size) in [("src/big", 12_345_678), ("src/d/block", 1 << 20), ("src/empty", 0)] {
        fs::write(home.0.join(name), content(size, size as u8)).expect("a file");
    }
    for index in 0..100 {
        fs::write(home.0.join(format!("src/d/{index}")), content(index * 97, 3)).expect("a file");
    }
    fs::write(home.0.join("src/words"), SECRET).expect("a file");
    home
}

fn same(home: &Home, to: &str) {
    let output = home.command("diff", &["-r", "src", to]).limited_output().expect("diff");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Writes a program in place of ssh that runs the shell script `body`, in which `$*` is the remote
/// command. Each call adds a line to the file `calls`.
fn ssh(home: &Home, body: &str) -> String {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then echo hostname 127.0.0.1; exit; fi\n\
         while [ \"$1\" != -- ]; do shift; done\nshift 2\necho call >>calls\n{body}\n"
    );
    home.script("ssh", &script)
}

const PLAIN: &str = "exec sh -c \"$*\"";

fn calls(home: &Home) -> usize {
    fs::read_to_string(home.0.join("calls")).unwrap_or_default().lines().count()
}

/// Runs `numaio copy -a` with that program in place of ssh.
fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    let args = [&["copy", "-a", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    let command = &mut home.numaio(&args);
    CommandOutput::of(
        command
            .env("NUMAIO_SSH", home.0.join("ssh"))
            .env_remove("SSH_CONNECTION")
            .limited_output()
            .expect("numaio"),
    )
}

/// A TCP proxy between both sides of data connections: the ssh program replaces the port in the
/// peer's reply by that of the proxy.
struct Proxy {
    port: u16,
    /// All bytes sent to the listener, of every connection.
    captured: Arc<Mutex<Vec<u8>>>,
}

/// Modifies bytes sent to the listener, given the number of bytes forwarded before on that
/// connection. Returning false closes the connection.
type Tamper = dyn Fn(usize, &mut Vec<u8>) -> bool + Send + Sync;

/// Writes an ssh program that saves the peer's reply to `answer` and replaces the port in it.
fn route_through(home: &Home, port: u16) -> String {
    ssh(
        home,
        &format!(
            "sh -c \"$*\" | {{ IFS= read -r line; printf '%s\\n' \"$line\" >answer.new; mv answer.new answer\n\
             printf '%s\\n' \"$line\" | sed 's/\"port\":[0-9]*/\"port\":{port}/'; exec cat; }}"
        ),
    )
}

/// Connects to the listener named in the reply; None before the reply arrives.
fn connect_to_listener(home: &Path) -> Option<TcpStream> {
    let text = fs::read_to_string(home.join("answer")).ok()?;
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let port = answer["Ready"]["endpoint"]["Ok"]["port"].as_u64().and_then(|port| port.try_into().ok());
    TcpStream::connect((Ipv4Addr::LOCALHOST, port.expect("a port"))).ok()
}

impl Proxy {
    fn new(home: &Home, tamper: Arc<Tamper>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        route_through(home, port);
        let captured = Arc::new(Mutex::new(Vec::new()));
        let (home, log) = (home.0.clone(), captured.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Another program on this machine may connect before the reply arrives.
                let Some(server) = connect_to_listener(&home) else { continue };
                let (back, forth) =
                    (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
                thread::spawn(move || forward(server, back, &|_, _| true));
                let (log, tamper) = (log.clone(), tamper.clone());
                thread::spawn(move || {
                    forward(client, forth, &|before, bytes| {
                        log.lock().expect("a lock").extend_from_slice(bytes);
                        tamper(before, bytes)
                    });
                });
            }
        });
        Self { port, captured }
    }

    fn has_captured(&self, bytes: &[u8]) -> bool {
        self.captured.lock().expect("a lock").windows(bytes.len()).any(|part| part == bytes)
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, tamper: &dyn Fn(usize, &mut Vec<u8>) -> bool) {
    let (mut buffer, mut before) = (vec![0; 64 << 10], 0);
    while let Ok(count) = from.read(&mut buffer) {
        let mut bytes = buffer[..count].to_vec();
        if count == 0 {
            drop(to.shutdown(Shutdown::Write));
            return;
        }
        if !tamper(before, &mut bytes) || to.write_all(&bytes).is_err() {
            break;
        }
        before += count;
    }
    for socket in [from, to] {
        drop(socket.shutdown(Shutdown::Both));
    }
}

#[test]
fn trees_are_equal_with_and_without_tls_and_tls_encrypts() {
    for (security, encrypted) in [("tls", true), ("none", false)] {
        let home = home();
        let proxy = Proxy::new(&home, Arc::new(|_, _| true));
        let port = proxy.port.to_string();
        // --data-port forbids data through ssh. The first port is in use, so others are tried.
        let ports = format!("{port}-65535");
        let args = ["--data-security", security, "--data-port", &ports, "--streams", "3"];
        let output = copy(&home, &[&args[..], &["src/", "host:there"]].concat()).ok();
        assert!(!output.contains("failed"), "{output}");
        same(&home, "there");
        assert!(
            proxy.captured.lock().expect("a lock").len() > 12_000_000,
            "{security}: data bypassed the proxy"
        );
        assert_eq!(proxy.has_captured(SECRET), !encrypted, "{security}");
        copy(&home, &[&args[..], &["host:src/", "back"]].concat()).ok();
        same(&home, "back");
    }
    let home = home();
    ssh(&home, PLAIN);
    copy(&home, &["--tunnel", "src/", "host:there"]).ok();
    same(&home, "there");
    copy(&home, &["--tunnel", "host:src/", "back"]).ok();
    same(&home, "back");
}

#[test]
fn corrupted_compressed_data_fails_only_its_file() {
    /// Magic number of a zstd frame (RFC 8878, section 3.1.1).
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let home = home();
    let proxy = Proxy::new(
        &home,
        Arc::new(|_, bytes| {
            while let Some(at) = bytes.windows(4).position(|part| part == MAGIC) {
                bytes[at] = 0;
            }
            true
        }),
    );
    let ports = format!("{}-65535", proxy.port);
    let args = ["--compress", "zstd", "--data-security", "none", "--data-port", &ports, "src/", "host:there"];
    // More than ten files have this cause, and the rest of them is counted: big may be among those.
    let message = "the peer sent compressed data that cannot be decompressed";
    copy(&home, &args).failed(3, &[message, "(destination)"]);
    assert!(home.0.join("there/empty").exists() && !home.0.join("there/big").exists());
    ssh(&home, PLAIN);
    copy(&home, &["--compress", "zstd", "src/", "host:there"]).ok();
    same(&home, "there");
}

#[test]
fn rejects_a_man_in_the_middle() {
    let home = home();
    let key = |keys: &KeyPair| keys.public().to_vec();
    let (own, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    // The impostor does not know the key of the connecting side, and accepts any.
    let credentials = Credentials::Tls { peer: key(&other), own };
    let listener = DataListener::bind(credentials, None, 5).expect("a door");
    route_through(&home, listener.port().expect("a port").expect("a TCP port"));
    let output = copy(&home, &["--data-port", "20000-65535", "src/", "host:there"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(
        output.err.contains("does not have the key received through the control channel"),
        "{}",
        output.err
    );
    assert!(!home.0.join("there/words").exists());
    // Without --data-port, numaio falls back to data through ssh, which -v reports.
    let output = copy(&home, &["-v", "src/", "host:there"]);
    assert!(
        output.code == Some(0) && output.err.contains("data goes through ssh"),
        "{:?} {}",
        output.code,
        output.err
    );
    same(&home, "there");
    assert!(listener.into_streams(Duration::from_millis(50)).is_err(), "a peer was accepted");
}

#[test]
fn unauthenticated_connections_do_not_block_the_peer() {
    for security in ["tls", "none"] {
        let home = home();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (opened, path) = (connections.clone(), home.0.clone());
        let connect_first = move |before: usize, _: &mut Vec<u8>| {
            let mut opened = opened.lock().expect("a lock");
            // Before the first byte of the real peer.
            if opened.is_empty() && before == 0 {
                for index in 0..80 {
                    let mut peer = connect_to_listener(&path).expect("a connection");
                    if index % 2 == 0 {
                        drop(peer.write_all(&content(200, index)));
                    }
                    opened.push(peer);
                }
            }
            true
        };
        let proxy = Proxy::new(&home, Arc::new(connect_first));
        let ports = format!("{}-65535", proxy.port);
        copy(&home, &["--data-security", security, "--data-port", &ports, "src/", "host:there"]).ok();
        same(&home, "there");
        assert_eq!(connections.lock().expect("a lock").len(), 80);
    }
}

#[test]
fn resumes_after_connection_reset() {
    for security in ["tls", "none"] {
        let home = home();
        let interruptions = Arc::new(AtomicUsize::new(0));
        let counter = interruptions.clone();
        // Once, in the middle of the data.
        let tamper = move |before: usize, _: &mut Vec<u8>| {
            before < 1_500_000 || counter.fetch_add(1, Ordering::SeqCst) > 0
        };
        let proxy = Proxy::new(&home, Arc::new(tamper));
        let ports = format!("{}-65535", proxy.port);
        let args =
            ["--data-security", security, "--data-port", &ports, "--streams", "2", "src/", "host:there"];
        let output = copy(&home, &args);
        assert_eq!(output.code, Some(0), "{}", output.err);
        assert!(interruptions.load(Ordering::SeqCst) > 0, "no connection was interrupted");
        assert!(output.err.contains("retrying in 0.5 s"), "{}", output.err);
        assert_eq!(output.out.lines().count(), 1, "expected one summary: {}", output.out);
        assert_eq!(calls(&home), 2);
        same(&home, "there");
    }
}

#[test]
fn corrupted_stream_fails_with_a_clear_error() {
    for security in ["tls", "none"] {
        let home = home();
        let tamper = |before: usize, bytes: &mut Vec<u8>| {
            if before > 500_000 {
                bytes.fill(b'x');
            }
            true
        };
        let proxy = Proxy::new(&home, Arc::new(tamper));
        let ports = format!("{}-65535", proxy.port);
        let args = [
            "--data-security",
            security,
            "--data-port",
            &ports,
            "--retry",
            "0",
            "--streams",
            "1",
            "src/",
            "host:there",
        ];
        let output = copy(&home, &args);
        assert_eq!(output.code, Some(1), "{}", output.err);
        assert!(
            output.err.contains("the transfer failed: the connection to the destination was lost"),
            "{security}: {}",
            output.err
        );
        assert_eq!(calls(&home), 1);
        let big = fs::read(home.0.join("there/big")).ok();
        assert!(big.is_none_or(|big| big == content(12_345_678, 12_345_678_usize as u8)), "{security}");
    }
}

#[test]
fn restarts_a_lost_ssh_but_not_a_rejected_one() {
    let home = home();
    // Data goes through ssh; its first channel ends early.
    ssh(
        &home,
        "[ $(wc -l <calls) -gt 1 ] && exec sh -c \"$*\"\nsh -c \"$*\" | dd bs=64k count=60 status=none",
    );
    let output = copy(&home, &["--tunnel", "--manifest", "sums", "host:src/", "back"]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("retrying"), "{}", output.err);
    assert_eq!((calls(&home), output.out.lines().count()), (2, 1), "{}", output.out);
    same(&home, "back");
    let sums = fs::read_to_string(home.0.join("sums")).expect("a manifest");
    let names: BTreeSet<&str> = sums.lines().map(|line| line.split_once("  ").expect("a name").1).collect();
    assert_eq!(names.len(), sums.lines().count(), "the manifest repeats a name: {sums}");
    // From the second call on, ssh itself fails: numaio retries until the --retry limit.
    fs::remove_file(home.0.join("calls")).expect("calls");
    ssh(&home, "[ $(wc -l <calls) -gt 1 ] && exit 255\nsh -c \"$*\" | dd bs=64k count=60 status=none");
    let output = copy(&home, &["--tunnel", "--retry", "4", "host:src/", "again"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.err.contains("no numaio answers on host; retrying"), "{}", output.err);
    assert!(calls(&home) >= 3, "{}", calls(&home));
    // A rejected retry ends the transfer.
    fs::remove_file(home.0.join("calls")).expect("calls");
    ssh(&home, "[ $(wc -l <calls) -gt 1 ] && mv src away\nsh -c \"$*\" | dd bs=64k count=60 status=none");
    let output = copy(&home, &["--tunnel", "--json", "host:src/", "third"]);
    assert!(output.code != Some(0) && calls(&home) == 2, "{}", output.err);
    let end: Value = serde_json::from_str(output.out.lines().last().expect("an end")).expect("JSON");
    assert_eq!((&end["event"], &end["done"]), (&"end".into(), &false.into()), "{end}");
    // Totals of the first attempt; how much it wrote varies.
    assert!(end["entries"].as_u64().is_some_and(|entries| entries > 0), "{end}");
    fs::rename(home.0.join("away"), home.0.join("src")).expect("a name");
    // A rejection would repeat, and a host that was never reached may not exist.
    for (body, args) in [
        (PLAIN, ["src/", "host:no/such/folder"]),
        ("exit 255", ["src/", "host:there"]),
        (PLAIN, ["host:src/words/", "x"]),
    ] {
        drop(fs::remove_file(home.0.join("calls")));
        ssh(&home, body);
        let output = copy(&home, &args);
        assert!(!output.err.contains("retrying") && output.code != Some(0), "{args:?}: {}", output.err);
        assert_eq!(calls(&home), 1, "{args:?}");
    }
}

#[test]
fn restarts_a_killed_remote_process() {
    let home = home();
    // Only the first remote process writes its ID; the thread below kills that process.
    let body = "[ $(wc -l <calls) -gt 1 ] && exec sh -c \"$*\"\nsh -c 'echo $$ >pid; exec '\"$*\"";
    ssh(&home, body);
    let path = home.0.clone();
    let killer = thread::spawn(move || {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            let large = fs::read_dir(path.join("there")).into_iter().flatten().flatten();
            let written: u64 = large.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum();
            if written > 1 << 20 {
                let pid = fs::read_to_string(path.join("pid")).expect("a process");
                return Command::new("kill")
                    .args(["-KILL", pid.trim()])
                    .limited_status()
                    .expect("kill")
                    .success();
            }
            thread::sleep(Duration::from_millis(2));
        }
        false
    });
    let output = copy(&home, &["--bwlimit", "4M", "src/", "host:there"]);
    assert!(killer.join().expect("joined"), "the process exited before it could be killed");
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("retrying"), "{}", output.err);
    same(&home, "there");
}

#[test]
fn rejects_invalid_connection_options() {
    let home = Home::new();
    for (args, message) in [
        (&["--tunnel", "--streams", "2"][..], "cannot be used with"),
        (&["--streams", "0"], "expected an integer from 1 to 32"),
        (&["--streams", "33"], "expected an integer from 1 to 32"),
        (&["--data-port", "7-5"], "expected a port"),
        (&["--data-security", "ssl"], "possible values"),
        (&["--retry", "-1"], "unexpected"),
    ] {
        let output = copy(&home, &[args, &["src/", "host:x"]].concat());
        assert!(
            output.code == Some(2) && output.err.contains(message),
            "{args:?}: {:?} {}",
            output.code,
            output.err
        );
    }
}
