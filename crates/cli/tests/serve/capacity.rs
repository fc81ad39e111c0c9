//! Capacity that `numaio serve` lends: shares of devices, turns, and transfers of its host.

use crate::client::{same, skipped, User, HEAD, OPEN};
use crate::daemon::{error_lines, Daemon};
use crate::queue::device_of_data;
use crate::support::{content, kill, until, Home, Limited};
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};

/// Serves the programs of this host.
const LOCAL: &str = "[local]\nsocket = \"FOLDER/broker\"\n";

/// A daemon with a device of some bandwidth per direction, and users; `None` without a device.
fn shared(more: &str, device_table: &str, users: &[(&User, &str, &str)]) -> Option<Daemon> {
    let (probed, _) = crate::client::open("");
    let device = device_of_data(&probed)?;
    let known: Vec<String> = users.iter().map(|(user, name, more)| user.known_as(name) + more).collect();
    let text = format!("{HEAD}{more}{LOCAL}{OPEN}[device.{device:?}]\n{device_table}\n{}", known.concat());
    let daemon = Daemon::start(&text);
    users.iter().for_each(|(user, ..)| user.trust(&daemon));
    Some(daemon)
}

/// Returns the transfers at a daemon.
fn queue(daemon: &Daemon) -> Vec<Value> {
    let mut command = daemon.home.numaio(&["jobs", "queue", "--json"]);
    command.env("NUMAIO_BROKER", daemon.home.path("broker"));
    let output = command.limited_output().expect("numaio");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    serde_json::from_str(&text).expect("JSON")
}

/// Waits until the transfers of a daemon have a property.
fn until_queue(daemon: &Daemon, property: impl Fn(&[Value]) -> bool) {
    until(|| property(&queue(daemon)), || format!("{:#?}\n{}", queue(daemon), daemon.log()));
}

fn rates(transfers: &[Value]) -> Vec<Option<u64>> {
    transfers.iter().map(|transfer| transfer["rate"].as_u64()).collect()
}

fn state_of<'v>(transfers: &'v [Value], user: &str) -> &'v str {
    let found = transfers.iter().find(|transfer| transfer["user"] == user);
    found.and_then(|transfer| transfer["state"].as_str()).unwrap_or("none")
}

/// Starts a copy on the daemon's host.
fn copy_locally(daemon: &Daemon, home: &Home, args: &[&str]) -> Child {
    let mut command = home.numaio(&[&["copy"], args].concat());
    command.env("NUMAIO_BROKER", daemon.home.path("broker"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("numaio")
}

#[test]
fn sessions_share_the_bandwidth_of_a_device_fairly_by_user() {
    let [alice, bob] = [User::new(), User::new()];
    let bandwidth = "read = \"2MB\"\nwrite = \"2MB\"";
    let Some(daemon) = shared("", bandwidth, &[(&alice, "alice", ""), (&bob, "bob", "")]) else {
        return skipped("no device is known for the directory of the test");
    };
    let to = |name: &str| daemon.url(&format!("data/{name}"));
    let first = alice.copying(&["-r", "src/", &to("1")]);
    until_queue(&daemon, |all| rates(all) == [Some(2_000_000)]);
    let second = alice.copying(&["-r", "src/", &to("2")]);
    let third = bob.copying(&["-r", "src/", &to("3")]);
    until_queue(&daemon, |all| {
        let mut rates = rates(all);
        rates.sort_unstable();
        rates == [500_000, 500_000, 1_000_000].map(Some)
    });
    for mut copy in [first, second, third] {
        assert_eq!(copy.limited_status().expect("ended").code(), Some(0));
    }
    until_queue(&daemon, <[Value]>::is_empty);
    ["1", "2", "3"].iter().for_each(|name| same(&alice.home, "src", &daemon.home.0.join("data").join(name)));
}

#[test]
fn higher_priority_suspends_a_session_which_continues_later() {
    let [alice, bob] = [User::new(), User::new()];
    let users = [(&alice, "alice", ""), (&bob, "bob", "priority = 9\n")];
    let Some(daemon) = shared("[limits]\ntime_slice_seconds = 1\n", "threads = 1", &users) else {
        return skipped("no device is known for the directory of the test");
    };
    let mut slow = alice.copying_slowly(&daemon, "1M");
    let mut urgent = bob.copying(&["-r", "--bwlimit", "1M", "src/", &daemon.url("data/urgent")]);
    until_queue(&daemon, |all| {
        (state_of(all, "alice"), state_of(all, "bob")) == ("suspended", "transferring")
    });
    let job = || alice.home.run(&["jobs", "show"]).ok();
    until(|| job().contains("The other host's daemon: suspended, position 1: "), job);
    assert_eq!(urgent.limited_status().expect("ended").code(), Some(0));
    until_queue(&daemon, |all| state_of(all, "alice") != "suspended");
    assert_eq!(slow.limited_status().expect("ended").code(), Some(0));
    same(&bob.home, "src", &daemon.home.0.join("data/urgent"));
    same(&alice.home, "src/d", &daemon.home.0.join("data/d"));
}

/// The daemons of both hosts agree on the smaller rate, and again when a neighbor ends.
#[test]
fn two_daemons_agree_on_the_smaller_rate() {
    let user = User::new();
    let other = User::new();
    let both = [(&user, "alice", ""), (&other, "bob", "")];
    let table = |bandwidth: &str| format!("read = {bandwidth:?}\nwrite = {bandwidth:?}");
    let Some(there) = shared("", &table("3MB"), &both) else {
        return skipped("no device is known for the directory of the test");
    };
    let Some(here) = shared("", &table("2MB"), &[]) else { return };
    fs::write(user.home.0.join("src/larger"), content(12_000_000, 1)).expect("a file");
    let to = |name: &str| there.url(&format!("data/{name}"));
    let mut first = copy_locally(&here, &user.home, &["-r", "src/", &to("1")]);
    // What the first host does not lend is left at the second one.
    until_queue(&here, |all| rates(all) == [Some(2_000_000)]);
    until_queue(&there, |all| rates(all) == [Some(2_000_000)]);
    let mut neighbor = other.copying(&["-r", "src/", &to("2")]);
    until_queue(&there, |all| rates(all) == [Some(1_500_000); 2]);
    until_queue(&here, |all| rates(all) == [Some(1_500_000)]);
    let job = || user.home.run(&["jobs", "show"]).ok();
    until(|| job().contains("The other host's daemon: transferring, 1.4 MiB/s"), job);
    assert_eq!(neighbor.limited_status().expect("ended").code(), Some(0));
    until_queue(&here, |all| rates(all) == [Some(2_000_000)]);
    assert_eq!(first.limited_status().expect("ended").code(), Some(0));
    until_queue(&here, <[Value]>::is_empty);
    same(&user.home, "src", &there.home.0.join("data/1"));
}

#[test]
fn local_copies_share_the_devices_and_survive_the_daemon() {
    let user = User::new();
    let Some(daemon) = shared("", "read = \"1MB\"\nwrite = \"1MB\"", &[(&user, "alice", "")]) else {
        return skipped("no device is known for the directory of the test");
    };
    let home = &daemon.home;
    fs::create_dir_all(home.0.join("from")).expect("a directory");
    fs::write(home.0.join("from/large"), content(9_000_000, 1)).expect("a file");
    let (from, to) = (home.path("from"), home.path("to"));
    let mut local = copy_locally(&daemon, &user.home, &["-a", &format!("{from}/"), &to]);
    let lines = error_lines(&mut local);
    until_queue(&daemon, |all| rates(all) == [Some(1_000_000)]);
    let jobs = || user.home.run(&["jobs", "show"]).ok();
    until(|| jobs().contains("This host's daemon: transferring"), jobs);
    // It reads and writes one device, as the session writes it.
    let mut session = user.copying(&["-r", "src/", &daemon.url("data/session")]);
    until_queue(&daemon, |all| rates(all) == [Some(500_000); 2]);
    daemon.signal("-KILL");
    // Its process continues, too.
    assert_eq!(session.limited_status().expect("ended").code(), Some(0));
    assert_eq!(local.limited_status().expect("ended").code(), Some(0));
    let text = lines.lock().expect("a lock").clone();
    assert!(text.contains("continuing without this host's daemon: it has ended"), "{text}");
    let copied = fs::read(format!("{to}/large")).expect("a copy");
    assert!(copied == content(9_000_000, 1));
}

#[test]
fn far_side_started_by_ssh_shares_the_devices_without_waiting() {
    let user = User::new();
    let table = "threads = 1\nread = \"1MB\"\nwrite = \"1MB\"";
    let Some(daemon) = shared("", table, &[(&user, "alice", "")]) else {
        return skipped("no device is known for the directory of the test");
    };
    fs::write(user.home.0.join("src/larger"), content(5_000_000, 1)).expect("a file");
    let mut session = user.copying(&["-r", "src/", &daemon.url("data/session")]);
    until_queue(&daemon, |all| rates(all) == [Some(1_000_000)]);
    let (from, to) = (user.home.path("src/"), daemon.home.path("by-ssh"));
    let program = env!("CARGO_BIN_EXE_numaio");
    let args = ["copy", "--remote-numaio", program, "-r", "--no-broker", &from, &format!("host:{to}")];
    let mut command = user.home.numaio(&args);
    command.env("NUMAIO_BROKER", daemon.home.path("broker")).env("NUMAIO_SSH", user.home.local_ssh());
    let mut by_ssh = command.stdout(Stdio::null()).spawn().expect("numaio");
    until_queue(&daemon, |all| rates(all) == [Some(500_000); 2]);
    assert!(queue(&daemon).iter().all(|transfer| transfer["state"] == "transferring"));
    for copy in [&mut session, &mut by_ssh] {
        assert_eq!(copy.limited_status().expect("ended").code(), Some(0));
    }
    until_queue(&daemon, <[Value]>::is_empty);
    same(&user.home, "src", daemon.home.0.join("by-ssh").as_path());
}

#[test]
fn local_copy_waits_for_its_turn_and_can_be_interrupted() {
    let user = User::new();
    let Some(daemon) = shared("", "threads = 1", &[(&user, "alice", "")]) else {
        return skipped("no device is known for the directory of the test");
    };
    let first = user.copying_slowly(&daemon, "100K");
    let (from, to) = (user.home.path("src/"), daemon.home.path("local"));
    let start = || {
        let mut local = copy_locally(&daemon, &user.home, &["-r", &from, &to]);
        let lines = error_lines(&mut local);
        let text = move || lines.lock().expect("a lock").clone();
        until(|| text().contains("waiting in the queue of this host's daemon, position 1: "), &text);
        (local, text)
    };
    let (mut interrupted, text) = start();
    kill("-INT", interrupted.id());
    assert_eq!(interrupted.limited_status().expect("ended").code(), Some(130), "{}", text());
    let (mut local, _) = start();
    let mut without = copy_locally(&daemon, &user.home, &["-r", "--no-broker", &from, &format!("{to}-2")]);
    assert_eq!(without.limited_status().expect("ended").code(), Some(0), "it does not ask");
    kill("-TERM", first.id());
    drop(first.wait_with_output());
    assert_eq!(local.limited_status().expect("ended").code(), Some(0));
    same(&user.home, "src", daemon.home.0.join("local").as_path());
}
