//! Sessions of `numaio serve` that wait in its queue.

use crate::client::{open, same, skipped, User, HEAD, OPEN};
use crate::daemon::{error_lines, Daemon};
use crate::support::{kill, until, CommandOutput, Limited};
use std::fs;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A copy that another one delays, with the lines of its standard error.
struct Delayed {
    child: Child,
    lines: Arc<Mutex<String>>,
}

impl Delayed {
    fn start(user: &User, args: &[&str]) -> Self {
        let mut child = user.copying(args);
        let lines = error_lines(&mut child);
        Self { child, lines }
    }

    fn text(&self) -> String {
        self.lines.lock().expect("a lock").clone()
    }

    /// Waits until it reports its place in the queue with this reason.
    fn wait_for(&self, why: &str) {
        let is_queued =
            || self.text().contains("waiting in the queue of 127.0.0.1:") && self.text().contains(why);
        until(is_queued, || format!("{why:?} is not in: {}", self.text()));
    }

    fn end(mut self) -> Option<i32> {
        self.child.limited_status().expect("ended").code()
    }
}

#[test]
fn session_beyond_the_limit_of_its_user_waits() {
    let user = User::new();
    let limited = format!("{}sessions = 1\n", user.known_as("alice"));
    let daemon = Daemon::start(&format!("{HEAD}{OPEN}{limited}"));
    user.trust(&daemon);
    let first = user.copying_slowly(&daemon, "100K");
    let to = daemon.url("data/second");
    let second = Delayed::start(&user, &["-r", "src/", &to]);
    second.wait_for("position 1: alice has 1 sessions already, which is the limit");
    let jobs = || user.home.run(&["jobs"]).ok();
    until(|| jobs().contains(" waiting "), jobs);
    let job = user.home.run(&["jobs", "show", "2"]).ok();
    assert!(job.contains("Job 2, waiting: position 1 in the queue of 127.0.0.1:"), "{job}");
    kill("-TERM", first.id());
    CommandOutput::of(first.wait_with_output().expect("ended"));
    assert_eq!(second.end(), Some(0));
    same(&user.home, "src", &daemon.home.0.join("data/second"));
}

/// Returns the name of the device of the root `data`; `None` if it has none.
pub fn device_of_data(daemon: &Daemon) -> Option<String> {
    let output = daemon.home.run(&["serve", "--check", "--config", "serve.toml"]).ok();
    let line = output.lines().find(|line| line.starts_with("root data, "))?.to_owned();
    let (_, device) = line.rsplit_once(": ").filter(|_| !line.contains("no device"))?;
    Some(device.to_owned())
}

#[test]
fn sessions_wait_for_a_device_and_a_killed_client_frees_its_place() {
    let (probed, _) = open("");
    let Some(device) = device_of_data(&probed) else {
        return skipped("no device is known for the directory of the test");
    };
    let users = [User::new(), User::new()];
    let known: Vec<String> =
        users.iter().zip(["alice", "bob"]).map(|(user, name)| user.known_as(name)).collect();
    let head = format!("{HEAD}records = \"FOLDER/records\"\n{OPEN}[device.{device:?}]\nthreads = 1\n");
    let daemon = Daemon::start(&format!("{head}{}", known.concat()));
    users.iter().for_each(|user| user.trust(&daemon));
    let first = users[0].copying_slowly(&daemon, "100K");
    let (bobs, to) = (&users[1], daemon.url("data/second"));
    let why = format!("{device} serves 1 at once");
    let mut killed = Delayed::start(bobs, &["-r", "src/", &to]);
    killed.wait_for(&why);
    let metrics = || bobs.home.run(&["metrics", "--records", &daemon.home.path("records")]).ok();
    let waiting = |count: u32| metrics().contains(&format!("\nnumaio_sessions_waiting {count}\n"));
    until(|| waiting(1), metrics);
    killed.child.kill().expect("killed");
    drop(killed.child.limited_status());
    until(|| waiting(0), metrics);
    daemon.wait_for_log("bob writes to data: interrupted: ");
    let last = Delayed::start(bobs, &["-r", "src/", &to]);
    last.wait_for(&format!("position 1: {why}"));
    kill("-TERM", first.id());
    drop(first.wait_with_output());
    assert_eq!(last.end(), Some(0));
    same(&bobs.home, "src", &daemon.home.0.join("data/second"));
}

#[test]
fn shutdown_ends_waiting_sessions() {
    let user = User::new();
    let limited = format!("stop_seconds = 1\n{OPEN}{}sessions = 1\n", user.known_as("alice"));
    let mut daemon = Daemon::start(&format!("{HEAD}{limited}"));
    user.trust(&daemon);
    let first = user.copying_slowly(&daemon, "100K");
    let second = Delayed::start(&user, &["-r", "--retry", "0", "src/", &daemon.url("data/second")]);
    second.wait_for("alice has 1 sessions already");
    daemon.signal("-TERM");
    assert!(daemon.wait_for_exit().success(), "{}", daemon.log());
    let text = second.lines.clone();
    assert_eq!(second.end(), Some(1));
    let text = text.lock().expect("a lock").clone();
    assert!(text.contains("the daemon is shutting down"), "{text}");
    // It would try to connect again.
    kill("-TERM", first.id());
    drop(first.wait_with_output());
}

/// A daemon that serves one connection at once, with a user who has it.
fn full() -> (Daemon, User, Child) {
    let (daemon, user) = open("[limits]\nconnections = 1\n");
    let first = user.copying_slowly(&daemon, "100K");
    (daemon, user, first)
}

#[test]
fn client_waits_for_a_slot_of_a_full_daemon() {
    let (daemon, user, first) = full();
    let to = daemon.url("data/second");
    let second = Delayed::start(&user, &["-r", "src/", &to]);
    second.wait_for("position 1: limits.connections reached");
    daemon.wait_for_log("waits for a slot: limits.connections reached");
    // As many connections may wait as may be open.
    user.copy(&["-r", "--retry", "0", "src/", &daemon.url("data/third")])
        .failed(1, &[" is full: limits.connections reached", "hint: ", "--retry forever"]);
    kill("-TERM", first.id());
    drop(first.wait_with_output());
    assert_eq!(second.end(), Some(0));
    same(&user.home, "src", &daemon.home.0.join("data/second"));
}

#[test]
fn wait_for_a_slot_ends_with_the_time_to_retry_or_by_a_signal() {
    let (daemon, user, first) = full();
    let (began, to) = (Instant::now(), daemon.url("data/second"));
    user.copy(&["-r", "--retry", "3", "src/", &to]).failed(1, &["position 1", " is full: "]);
    assert!(began.elapsed() >= Duration::from_secs(3), "it waited");
    let waiting = Delayed::start(&user, &["-r", "--retry", "forever", "src/", &to]);
    waiting.wait_for("position 1: limits.connections reached");
    kill("-TERM", waiting.child.id());
    assert_eq!(waiting.end(), Some(130));
    kill("-TERM", first.id());
    drop(first.wait_with_output());
}

#[test]
fn first_connection_is_retried_forever_on_request() {
    let (mut daemon, user) = open("");
    daemon.stop();
    let args = ["-r", "src/", &daemon.url("data")];
    user.copy(&[&["--retry", "9"][..], &args].concat()).failed(1, &["no numaio daemon answers"]);
    let forever = [&["--retry", "forever"][..], &args].concat();
    let is_retrying = |copy: &Delayed| {
        until(|| copy.text().contains("retrying in 1.0 s"), || copy.text());
    };
    let ended = Delayed::start(&user, &forever);
    is_retrying(&ended);
    kill("-TERM", ended.child.id());
    assert_eq!(ended.end(), Some(130));
    let copy = Delayed::start(&user, &forever);
    is_retrying(&copy);
    daemon.restart();
    assert_eq!(copy.end(), Some(0));
    same(&user.home, "src", &daemon.home.0.join("data"));
}

#[test]
fn permanent_failures_are_not_retried_forever() {
    let (daemon, user) = open("");
    let copy = |user: &User, to: &str| user.copy(&["-r", "--retry", "forever", "src/", to]);
    copy(&user, &daemon.url("nothing")).failed(1, &["there is no root"]);
    copy(&user, &daemon.url("data/../..")).failed(1, &[]);
    let unknown = User::new();
    unknown.trust(&daemon);
    copy(&unknown, &daemon.url("data")).failed(1, &["no user here has the key"]);
    fs::remove_file(user.home.0.join(".config/numaio/known_hosts")).expect("removed");
    copy(&user, &daemon.url("data")).failed(1, &["is not known"]);
}
