//! Clients without a key.

use crate::client::{User, HEAD, OPEN};
use crate::daemon::Daemon;
use crate::support::{content, kill, until, CommandOutput, Home, Limited};
use std::fs;
use std::process::Stdio;

/// A root that is open to anyone, and one of the user alice.
fn open_daemon(more: &str) -> (Daemon, User) {
    let user = User::new();
    let root = "[root.open]\npath = \"FOLDER/outside\"\nanonymous = true\n";
    let daemon = Daemon::start(&format!("{HEAD}{OPEN}{root}{more}{}", user.known_as("alice")));
    user.trust(&daemon);
    fs::write(daemon.home.0.join("outside/file"), content(1 << 20, 1)).expect("a file");
    (daemon, user)
}

/// Copies without a key.
fn copy(daemon: &Daemon, home: &Home, from: &str, to: &str) -> CommandOutput {
    home.run(&["copy", "-r", "--trust", &daemon.key, from, to])
}

#[test]
fn clients_without_a_known_key_read_open_roots_and_nothing_else() {
    let (daemon, alice) = open_daemon("");
    let (home, url) = (Home::new(), |path| daemon.url(path));
    home.file("mine", "mine");
    let with_unknown_key = User::new();
    with_unknown_key.trust(&daemon);
    for home in [&home, &with_unknown_key.home] {
        copy(&daemon, home, &url("open"), "got").ok();
        assert!(fs::read(home.0.join("got/file")).expect("a file") == content(1 << 20, 1));
        assert!(!home.run(&["copy", "-r", &url("open/../data"), "no"]).err.is_empty());
    }
    daemon.wait_for_log("anonymous reads open: done; files=1");
    // Roots that exist and roots that do not look alike.
    for root in ["data", "none"] {
        copy(&daemon, &home, &url(root), "no").failed(1, &["clients without a key have no access here"]);
        let refused = with_unknown_key.copy(&["-r", &url(root), "no"]);
        refused.failed(1, &["no user here has the key"]);
    }
    copy(&daemon, &home, "mine", &url("open")).failed(1, &["numaio keygen"]);
    with_unknown_key.copy(&["-r", "src/", &url("open")]).failed(1, &["no user here has the key"]);
    with_unknown_key
        .copy(&["-r", &url("open").replace("//", "//alice@"), "no"])
        .failed(1, &["no user here has the key"]);
    alice.copy(&["-r", &url("open"), "got"]).ok();
    daemon.wait_for_log("alice reads open: done; files=1");
    alice.copy(&["-r", "src/", &url("open")]).failed(1, &["alice may not write to open"]);
    assert_eq!(fs::read_dir(daemon.home.0.join("outside")).expect("a folder").count(), 1);
}

#[test]
fn anonymous_clients_leave_connections_for_users() {
    let (daemon, alice) = open_daemon("[user.anonymous]\nconnections = 1\nbytes_per_second = \"50K\"\n");
    let home = Home::new();
    let mut first = home
        .numaio(&["copy", "-r", "--trust", &daemon.key, &daemon.url("open"), "got"])
        .stderr(Stdio::null())
        .spawn()
        .expect("numaio");
    daemon.wait_for_log("anonymous reads open (process ");
    copy(&daemon, &Home::new(), &daemon.url("open"), "got")
        .failed(1, &["anonymous clients have all their 1 connections"]);
    alice.copy(&["-r", &daemon.url("open"), "got"]).ok();
    assert!(first.try_wait().expect("asked").is_none(), "it is limited to 50 KiB/s");
    kill("-TERM", first.id());
    drop(first.limited_status());
    let ended = || daemon.log().contains("anonymous reads open: interrupted");
    until(ended, || daemon.log());
}
