//! `numaio copy` over data connections of its own: what goes over the wire, who is let in, and what happens when a
//! connection is cut.

use crate::support::{Home, Limited, Said};
use numaio_linux::port::net::{Credentials, DataListener, KeyPair};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What stands in a file, to be looked for on the wire.
const SECRET: &[u8] = b"words that nobody else is to read";

fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 9) as u8) ^ seed).collect()
}

fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("src/d")).expect("a folder");
    for (name, size) in [("src/big", 12_345_678), ("src/d/block", 1 << 20), ("src/empty", 0)] {
        fs::write(home.0.join(name), bytes(size, size as u8)).expect("a file");
    }
    for index in 0..100 {
        fs::write(home.0.join(format!("src/d/{index}")), bytes(index * 97, 3)).expect("a file");
    }
    fs::write(home.0.join("src/words"), SECRET).expect("a file");
    home
}

fn same(home: &Home, to: &str) {
    let output = home.command("diff", &["-r", "src", to]).limited_output().expect("diff");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A program in place of ssh, which runs the other side here. What it does beside that stands in `body`; `$*` is what to
/// run. Each call of it leaves a line in the file `calls`.
fn ssh(home: &Home, body: &str) -> String {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then echo hostname 127.0.0.1; exit; fi\n\
         while [ \"$1\" != -- ]; do shift; done\nshift 2\necho call >>calls\n{body}\n"
    );
    let path = home.file("ssh", &script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

const PLAIN: &str = "exec sh -c \"$*\"";

fn calls(home: &Home) -> usize {
    fs::read_to_string(home.0.join("calls")).unwrap_or_default().lines().count()
}

/// Runs `numaio copy -a` with the script as ssh.
fn copy(home: &Home, args: &[&str]) -> Said {
    let args = [&["copy", "-a", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    let command = &mut home.numaio(&args);
    Said::of(
        command
            .env("NUMAIO_SSH", home.0.join("ssh"))
            .env_remove("SSH_CONNECTION")
            .limited_output()
            .expect("numaio"),
    )
}

/// Somebody between both sides of data connections: the other side's answer passes through the script, which puts the
/// port of this one in.
struct Proxy {
    port: u16,
    /// All that was sent to the door, of every connection.
    captured: Arc<Mutex<Vec<u8>>>,
}

/// Changes bytes on their way to the listener: bytes that the connection has passed on before, and the bytes.
/// False closes the connection.
type Tamper = dyn Fn(usize, &mut Vec<u8>) -> bool + Send + Sync;

/// The script that leads to somebody between: first the answer, then what else is said.
fn route_through(home: &Home, port: u16) -> String {
    ssh(
        home,
        &format!(
            "sh -c \"$*\" | {{ IFS= read -r line; printf '%s\\n' \"$line\" >answer.new; mv answer.new answer\n\
             printf '%s\\n' \"$line\" | sed 's/\"port\":[0-9]*/\"port\":{port}/'; exec cat; }}"
        ),
    )
}

/// Connects to the listener that the answer names; none before there is an answer.
fn connect_to_listener(home: &Path) -> Option<TcpStream> {
    let text = fs::read_to_string(home.join("answer")).ok()?;
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let port = answer["Ready"]["door"]["Ok"]["port"].as_u64().and_then(|port| port.try_into().ok());
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
                // A connection of some other program on this machine may come before there is an answer.
                let Some(server) = connect_to_listener(&home) else { continue };
                let (back, forth) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
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

    fn has_captured(&self, words: &[u8]) -> bool {
        self.captured.lock().expect("a lock").windows(words.len()).any(|part| part == words)
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
fn every_way_makes_the_same_trees_and_tls_hides_them() {
    for (how, hides) in [("tls", true), ("none", false)] {
        let home = home();
        let proxy = Proxy::new(&home, Arc::new(|_, _| true));
        let port = proxy.port.to_string();
        // With a port data never goes through ssh; this one is taken, so the next ones are tried.
        let ports = format!("{port}-65535");
        let args = ["--data-security", how, "--data-port", &ports, "--streams", "3"];
        let output = copy(&home, &[&args[..], &["src/", "host:there"]].concat()).ok();
        assert!(!output.contains("failed"), "{output}");
        same(&home, "there");
        assert!(proxy.captured.lock().expect("a lock").len() > 12_000_000, "{how}: data took another way");
        assert_eq!(proxy.has_captured(SECRET), !hides, "{how}");
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
fn packed_data_that_is_none_is_told_and_fails_its_files_alone() {
    /// What a frame of zstd begins with (RFC 8878, section 3.1.1).
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
    let words = "big: the peer sent compressed data that cannot be decompressed";
    copy(&home, &args).failed(3, &[words, "(destination)"]);
    assert!(home.0.join("there/empty").exists() && !home.0.join("there/big").exists());
    ssh(&home, PLAIN);
    copy(&home, &["--compress", "zstd", "src/", "host:there"]).ok();
    same(&home, "there");
}

#[test]
fn a_man_in_the_middle_with_another_key_is_refused() {
    let home = home();
    let key = |keys: &KeyPair| keys.public().to_vec();
    let (own, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    // It does not know the key of the side that connects either, and takes whoever comes.
    let credentials = Credentials::Tls { peer: key(&other), own, by_kernel: false };
    let listener = DataListener::bind(credentials, None, 5).expect("a door");
    route_through(&home, listener.port().expect("a port").expect("one of its own"));
    let output = copy(&home, &["--data-port", "20000-65535", "src/", "host:there"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.err.contains("does not have the key that came through the control channel"), "{}", output.err);
    assert!(!home.0.join("there/words").exists());
    // Where no port was asked for, data goes through ssh, and that is said to who wants to know.
    let output = copy(&home, &["-v", "src/", "host:there"]);
    assert!(
        output.code == Some(0) && output.err.contains("data goes through ssh"),
        "{:?} {}",
        output.code,
        output.err
    );
    same(&home, "there");
    assert!(listener.into_streams(Duration::from_millis(50)).is_err(), "nobody was let in");
}

#[test]
fn strangers_who_come_first_do_not_take_the_place_of_the_peer() {
    for how in ["tls", "none"] {
        let home = home();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (opened, path) = (connections.clone(), home.0.clone());
        let connect_first = move |before: usize, _: &mut Vec<u8>| {
            let mut opened = opened.lock().expect("a lock");
            // Before the first byte of the peer.
            if opened.is_empty() && before == 0 {
                for index in 0..80 {
                    let mut peer = connect_to_listener(&path).expect("a connection");
                    if index % 2 == 0 {
                        drop(peer.write_all(&bytes(200, index)));
                    }
                    opened.push(peer);
                }
            }
            true
        };
        let proxy = Proxy::new(&home, Arc::new(connect_first));
        let ports = format!("{}-65535", proxy.port);
        copy(&home, &["--data-security", how, "--data-port", &ports, "src/", "host:there"]).ok();
        same(&home, "there");
        assert_eq!(connections.lock().expect("a lock").len(), 80);
    }
}

#[test]
fn a_connection_that_is_cut_is_made_anew_and_the_tree_is_right() {
    for how in ["tls", "none"] {
        let home = home();
        let interruptions = Arc::new(AtomicUsize::new(0));
        let counter = interruptions.clone();
        // Once, in the midst of data.
        let tamper = move |before: usize, _: &mut Vec<u8>| {
            before < 1_500_000 || counter.fetch_add(1, Ordering::SeqCst) > 0
        };
        let proxy = Proxy::new(&home, Arc::new(tamper));
        let ports = format!("{}-65535", proxy.port);
        let args = ["--data-security", how, "--data-port", &ports, "--streams", "2", "src/", "host:there"];
        let output = copy(&home, &args);
        assert_eq!(output.code, Some(0), "{}", output.err);
        assert!(interruptions.load(Ordering::SeqCst) > 0, "nothing was cut");
        assert!(output.err.contains("retrying in 0.5 s"), "{}", output.err);
        assert_eq!(output.out.lines().count(), 1, "one summary: {}", output.out);
        assert_eq!(calls(&home), 2);
        same(&home, "there");
    }
}

#[test]
fn what_is_changed_on_the_way_ends_in_words() {
    for (how, words) in
        [("tls", "the connection to the source was lost"), ("none", "the connection to the source was lost")]
    {
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
            how,
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
            "{words}: {}",
            output.err
        );
        assert_eq!(calls(&home), 1);
        let big = fs::read(home.0.join("there/big")).ok();
        assert!(big.is_none_or(|big| big == bytes(12_345_678, 12_345_678_usize as u8)), "{how}");
    }
}

#[test]
fn ssh_that_is_lost_is_started_again_and_a_refusal_is_not() {
    let home = home();
    // Through ssh; the first time its channel ends early.
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
    assert_eq!(names.len(), sums.lines().count(), "each name once: {sums}");
    // ssh itself fails from the second time on: this is tried for as long as was asked for.
    fs::remove_file(home.0.join("calls")).expect("calls");
    ssh(&home, "[ $(wc -l <calls) -gt 1 ] && exit 255\nsh -c \"$*\" | dd bs=64k count=60 status=none");
    let output = copy(&home, &["--tunnel", "--retry", "4", "host:src/", "again"]);
    assert_eq!(output.code, Some(1), "{}", output.err);
    assert!(output.err.contains("no numaio answers on host; retrying"), "{}", output.err);
    assert!(calls(&home) >= 3, "{}", calls(&home));
    // A try that is refused ends what others before it began.
    fs::remove_file(home.0.join("calls")).expect("calls");
    ssh(&home, "[ $(wc -l <calls) -gt 1 ] && mv src gone\nsh -c \"$*\" | dd bs=64k count=60 status=none");
    let output = copy(&home, &["--tunnel", "--json", "host:src/", "third"]);
    assert!(output.code != Some(0) && calls(&home) == 2, "{}", output.err);
    let end: Value = serde_json::from_str(output.out.lines().last().expect("an end")).expect("JSON");
    assert_eq!((&end["event"], &end["done"]), (&"end".into(), &false.into()), "{end}");
    // Of the first one; how much of it was written by then is not the same each time.
    assert!(end["entries"].as_u64().is_some_and(|entries| entries > 0), "{end}");
    fs::rename(home.0.join("gone"), home.0.join("src")).expect("a name");
    // What the other side refuses it would refuse again, and who was never reached may not be there.
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
fn a_far_side_that_is_killed_is_started_again() {
    let home = home();
    // The first time it has no more than a moment.
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
    assert!(killer.join().expect("looked"), "it was gone before it was killed");
    assert_eq!(output.code, Some(0), "{}", output.err);
    assert!(output.err.contains("retrying"), "{}", output.err);
    same(&home, "there");
}

#[test]
fn wrong_options_are_said() {
    let home = Home::new();
    for (args, words) in [
        (&["--tunnel", "--streams", "2"][..], "cannot be used with"),
        (&["--streams", "0"], "no whole number from 1 to 32"),
        (&["--streams", "33"], "no whole number from 1 to 32"),
        (&["--data-port", "7-5"], "expected a port"),
        (&["--data-security", "ssl"], "possible values"),
        (&["--retry", "-1"], "unexpected"),
    ] {
        let output = copy(&home, &[args, &["src/", "host:x"]].concat());
        assert!(output.code == Some(2) && output.err.contains(words), "{args:?}: {:?} {}", output.code, output.err);
    }
}
