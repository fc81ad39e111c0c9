//! Lines of the control channel that precede a transfer, or control a measurement.

use crate::decode::{self, DecodedRequest};
use crate::displayed_text::{assert_displayable, is_displayable};
use crate::test_world::TestWorld;
use numaio_linux::io::tcp::protocol::{self, Request};
use numaio_mover::wire::Side;
use numaio_mover_linux::files::Base;
use numaio_mover_linux::port::net::PublicKey;
use numaio_transfer::daemon::config::Config;
use numaio_transfer::daemon::hello::CapacityExchange;
use numaio_transfer::daemon::session_ipc::MAX_REQUEST_BYTES;
use numaio_transfer::entry_options::EntryOptions;
use numaio_transfer::options::{DeletionLimits, OmittedAttributes};
use numaio_transfer::peer::{GrantKind, Grants};
use serde_json::{json, Value};
use std::net::IpAddr;
use std::sync::LazyLock;

/// Largest size of a hello and of a greeting, without the line end (docs/internals/protocol.md).
const LONGEST_LINE: usize = 4_096;
/// What the daemon grants each user.
const STREAMS: u16 = 8;
const BYTES_PER_SECOND: u64 = 1_000;
/// Most threads that a request may ask for.
const MOST_THREADS: u64 = 64;

const ADA: &str = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const BOB: &str = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
const UNKNOWN: &str = "ed25519:fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";

/// A daemon with two users and three roots.
static DAEMON: LazyLock<Config> = LazyLock::new(|| {
    let text = format!(
        "key = '/k'\n[root.in]\npath = '/in'\nwrite = 'ada'\n[root.out]\npath = '/out'\nread = '*'\n\
         [root.both]\npath = '/both'\nread = 'ada'\nwrite = '*'\n[user.ada]\nkeys = '{ADA}'\n[user.bob]\nkeys = '{BOB}'\n"
    );
    Config::parse(&text).expect("a valid configuration")
});
/// Permitted transfers: user, root, and whether the root is the source.
const PERMITTED: [(&str, &str, bool); 6] = [
    ("ada", "in", false),
    ("ada", "out", true),
    ("ada", "both", true),
    ("ada", "both", false),
    ("bob", "out", true),
    ("bob", "both", false),
];

fn key(text: &str) -> PublicKey {
    text.parse().expect("a key")
}

/// Decodes an input as every kind of message.
pub fn control_messages(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        let line = text.lines().next().unwrap_or_default();
        hello(line);
        bench_message(line);
        if let Some((system, file)) = decode::remote_system(text) {
            assert!(
                is_displayable(&system) && file.starts_with('/') && !file.contains('\n'),
                "{system:?} {file:?}"
            );
        }
    }
    if let Some(user) = decode::admission_request(input) {
        assert!(input.len() <= MAX_REQUEST_BYTES, "{} bytes", input.len());
        assert!(json_of(input).is_none_or(|json| json["Admission"]["user"] == user), "{user:?}");
    }
    if decode::capacity_request(input).is_some() {
        assert!(input.len() <= MAX_REQUEST_BYTES, "{} bytes", input.len());
    }
    if let Some(notice) = decode::capacity_reply(input) {
        assert!(is_displayable(&notice), "{notice:?}");
    }
    greeting(input);
    peer_reply(input);
    event(input);
    let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if json_of(line).is_some_and(|json| json.get("role").is_some()) {
        peer_request(input);
    }
}

/// Parses a line; none if it is not JSON, or has invalid strings in fields that numaio ignores.
fn json_of(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

/// Asserts that only authorized clients are admitted, and that others get a readable refusal.
fn hello(text: &str) {
    if text.len() > LONGEST_LINE {
        return;
    }
    for (owner, owners_key) in [(Some("ada"), ADA), (Some("bob"), BOB), (None, UNKNOWN)] {
        match decode::client_hello(&DAEMON, key(owners_key), text) {
            Ok(admitted) => {
                let (user, root, is_source) = (&admitted.user, &admitted.root, admitted.is_source);
                assert_eq!(Some(&user[..]), owner);
                assert!(PERMITTED.contains(&(user, root, is_source)), "{admitted:?}");
                if let Some(json) = json_of(text.as_bytes()) {
                    assert!(json["root"] == *root && json["takes_files"] == is_source, "{admitted:?}");
                    assert!(json["user"].is_null() || json["user"] == *user, "{admitted:?}");
                }
            }
            Err(line) => {
                assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
                assert!(line.len() <= LONGEST_LINE + 1, "{} bytes", line.len());
                let refusal = decode::greeting(line.as_bytes()).expect_err("a refusal");
                assert!(!refusal.contains("expected a greeting"), "{refusal}");
            }
        }
    }
}

/// Asserts that a greeting is within its limit, and that its error message is safe to display.
fn greeting(input: &[u8]) {
    match decode::greeting(input) {
        Ok(streams) => {
            let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
            assert!(line.len() <= LONGEST_LINE, "{} bytes", line.len());
            assert!(json_of(line).is_none_or(|json| json["Welcome"]["streams"] == streams), "{streams}");
        }
        Err(message) => {
            assert!(!message.is_empty() && message.len() < 1_200 && is_displayable(&message), "{message:?}")
        }
    }
}

/// Asserts that a reply survives a round trip, and that the first data address is ssh's.
fn peer_reply(input: &[u8]) {
    let at = IpAddr::from([192, 0, 2, 7]);
    match decode::peer_reply(input, at) {
        Ok(decoded) => {
            let copy = decode::peer_reply(decoded.reply.as_bytes(), at).expect("the encoded reply");
            assert_eq!((&copy.reply, &copy.addresses), (&decoded.reply, &decoded.addresses));
            let addresses = &decoded.addresses;
            assert!(addresses.len() <= 3, "{addresses:?}");
            assert!(addresses.first().is_none_or(|first| first.ip() == at), "{addresses:?}");
        }
        Err(message) => assert!(message.len() <= 1_024 && is_displayable(&message), "{message:?}"),
    }
}

/// Asserts that a peer's event survives a round trip, and that its text is safe to display.
fn event(input: &[u8]) {
    let Some((text, json, message)) = decode::event(input) else { return };
    let copy = decode::event(text.as_bytes()).expect("the encoded event");
    assert_eq!(copy.0, text);
    assert!(is_displayable(&message), "{message:?}");
    assert_displayable(&serde_json::from_str(&json).expect("JSON"));
}

/// Asserts that messages of `numaio bench net` survive a round trip, and that accepted runs are
/// within the limits.
fn bench_message(text: &str) {
    if let Some(request) = decode::bench_request(text) {
        let copy = decode::bench_request(&String::from_utf8_lossy(&protocol::line(&request)));
        assert_eq!(copy.as_ref(), Some(&request));
        if let Request::Run(run) = request {
            let buffers = u128::from(run.block_bytes) * u128::from(run.depth) * u128::from(run.streams());
            let is_limited = (1..=256).contains(&run.streams()) && buffers <= 4 << 30;
            assert!(is_limited || run.check_limits().is_err(), "{run:?}");
        } else if let Request::Ping(ping) = request {
            let bytes: u128 = ping.parts.iter().map(|part| u128::from(*part)).sum();
            let is_limited = (1..=8).contains(&ping.parts.len()) && (1..=64 << 20).contains(&bytes);
            assert_eq!(is_limited, ping.check_limits().is_ok(), "{ping:?}");
        }
    }
    if let Some(answer) = decode::bench_answer(text) {
        let copy = decode::bench_answer(&String::from_utf8_lossy(&protocol::line(&answer)));
        assert_eq!(copy, Some(answer));
    }
}

/// Asserts that a request is granted for one side at most, and that it survives a round trip.
fn peer_request(input: &[u8]) {
    let world = TestWorld::new();
    let granted = [Side::Source, Side::Sink].into_iter().filter(|side| {
        let Ok(decoded) = checked_request(input, *side, &world) else { return false };
        let copy = checked_request(decoded.request.as_bytes(), *side, &world).expect("the encoded request");
        assert_eq!(copy.request, decoded.request);
        let routes = [None, Some("\"DataConnections\"\n"), Some("\"ControlChannel\"\n")];
        assert!(routes.contains(&decoded.route.as_deref()), "{:?}", decoded.route);
        true
    });
    assert!(granted.count() <= 1, "a request was granted for both sides");
}

/// Decodes a request; asserts that it is within the grants and that nothing changed outside of the
/// root.
fn checked_request(input: &[u8], side: Side, world: &TestWorld) -> Result<DecodedRequest, String> {
    let grants = Grants {
        base: Base::below(&world.root).expect("a directory"),
        kind: GrantKind::Daemon(side),
        streams: STREAMS,
        bytes_per_second: Some(BYTES_PER_SECOND),
        set_id: false,
        capacity: None,
        exchange: CapacityExchange::None,
    };
    let decoded = decode::peer_request(input, &grants);
    if let Ok(decoded) = &decoded {
        check_limits(&decoded.request, side);
        let directories = decoded.directories.as_deref().unwrap_or_default();
        assert!(directories.iter().all(|at| at.starts_with(&world.root)), "{directories:?}");
    }
    world.check();
    decoded
}

/// Asserts that a decoded request is for the given side, and within the user's limits.
fn check_limits(request: &str, side: Side) {
    let request: Value = serde_json::from_str(request).expect("JSON");
    let transfer = match side {
        Side::Source => &request["role"]["Source"],
        Side::Sink => &request["role"]["Sink"][0],
    };
    assert_eq!(transfer["numaio_copy"], 1);
    assert!(transfer["bytes_per_second"].as_u64().is_some_and(|limit| limit <= BYTES_PER_SECOND));
    let threads = transfer["threads"].as_u64();
    assert!(transfer["threads"].is_null() || threads.is_some_and(|n| (1..=MOST_THREADS).contains(&n)));
    assert!(transfer["named_acls"] == false, "a daemon without root resolves no names of accounts");
    let offer = &request["offer"];
    let streams = offer["streams"].as_u64();
    assert!(offer.is_null() || streams.is_some_and(|n| n <= STREAMS.into()));
}

/// Requests each line of an input as a source and as a destination.
pub fn paths(input: &[u8]) {
    let world = TestWorld::new();
    for path in input.split(|&byte| byte == b'\n').take(4) {
        checked_request(&source_request(&[path]), Side::Source, &world).expect("a request");
        checked_request(&sink_request(path, true), Side::Sink, &world).expect("a request");
        checked_request(&sink_request(path, false), Side::Sink, &world).expect("a request");
    }
}

fn transfer_request(from: &[&[u8]], to: &[u8]) -> Value {
    let mut request = json!({
        "numaio_copy": 1, "from": from, "to": to, "file_list": null, "recursive": true, "archive": true,
        "rules": [{"include": false, "pattern": b"*.o"}], "size_range": [0, u64::MAX], "checksum": false,
        "manifest": false, "numeric_ids": false, "update": false, "ignore_times": false, "delete": false,
        "in_place": false, "dry_run": false, "reports_changes": true, "hash": "blake3", "fsync": "file", "bytes_per_second": null,
        "compress": "auto", "placement": "none", "threads": 2, "streams": 4, "may_use_fewer_streams": true, "is_retry": false,
        "transfer": ([7; 16]),
    });
    let capabilities = json!({"eager_data": false, "hard_links": true, "named_acls": true, "in_order": false, "block": null});
    let choices = json!({
        "omitted": OmittedAttributes::default(), "deletion": DeletionLimits::default(), "active_files": "fail",
        "reflink": "never", "io": "auto", "work_sharing": true, "direct": "auto", "order": "auto", "mode": "auto",
    });
    let entries = json!(EntryOptions::default());
    for more in [capabilities, choices, entries] {
        request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    }
    request
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

fn source_request(from: &[&[u8]]) -> Vec<u8> {
    let offer =
        json!({"streams": 32, "ports": [1, 9], "credential": {"Secret": ([9; 32])}, "ticket": ([3; 16])});
    line(&json!({"role": {"Source": transfer_request(from, b"x")}, "offer": offer}))
}

fn sink_request(to: &[u8], one_file: bool) -> Vec<u8> {
    line(&json!({"role": {"Sink": [transfer_request(&[b"x"], to), one_file]}, "offer": null}))
}

/// Returns the seeds of the target `control-messages`: a message of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut listed = transfer_request(&[b"a"], b"x");
    listed["file_list"] = json!(["b", "b/c"]);
    (listed["threads"], listed["bytes_per_second"]) = (json!(100), json!(1_000_000));
    let opened = json!({"port": 5000, "key": [48, 42], "address": "192.0.2.9"});
    let totals = json!({
        "entries": 3, "size": 10, "moved": 2, "unchanged": 1, "removed": 0, "failed": 0, "bytes": 7, "sent": 7, "resumed": 0
    });
    let mut end = totals.clone();
    (end["event"], end["done"], end["seconds"]) = (json!("end"), json!(true), json!(1.5));
    let mut progress = totals;
    (progress["event"], progress["reached"]) = (json!("progress"), json!(7));
    let mut seeds = vec![
        line(
            &json!({"numaio_copy": 1, "user": "ada", "root": "both", "takes_files": true, "has_no_key": false, "capacity": {}}),
        ),
        line(
            &json!({"numaio_copy": 1, "user": null, "root": "\u{7f}".repeat(4_000), "takes_files": true, "has_no_key": false, "capacity": {}}),
        ),
        [source_request(&[b"a", b"in/b"]), b"\"DataConnections\"\n".to_vec()].concat(),
        [sink_request(b"a/new", false), b"\"ControlChannel\"\n".to_vec()].concat(),
        line(&json!({"role": {"Source": listed}, "offer": null})),
        line(
            &json!({"Ready": {"is_one_file": false, "endpoint": {"Ok": opened}, "remarks": [], "eager_data": false, "hard_links": true, "named_acls": false, "in_order": false, "block": null}}),
        ),
        line(&json!({"event": "did", "action": "copied", "name": "a/b", "bytes": 7})),
        b"@numaio system Linux x86_64\n@numaio there\n@numaio sum abc\n@numaio file /home/a/.cache/x\n"
            .to_vec(),
    ];
    seeds.extend([
        json!({"Welcome": {"streams": 8, "capacity": "reports"}}),
        json!({"Refused": "no"}),
        json!({"Busy": "later"}),
        json!({"Ready": {"is_one_file": true, "endpoint": {"Err": "no port"}, "remarks": [], "eager_data": true, "hard_links": true, "named_acls": false, "in_order": false, "block": 65536}}),
        json!({"event": "problem", "name": "a", "side": "source", "reason": "NoSpace", "text": "no space"}),
        json!({"Admission": {"user": "ada", "root": "data", "direction": "read", "capacity": {}}}),
        json!({"Queued": {"position": 1, "reason": "sda serves 1 at once"}}),
        json!({"Submit": {"file_systems": [[7, "read"]], "network": ["192.0.2.9", "write"], "rate_limit": null}}),
        json!({"Progress": 7}),
        json!({"FromPeer": {"Offer": {"turn": 1, "rate": 1_000_000}}}),
        json!({"ForPeer": {"Lent": {"state": "suspended", "position": 2, "reason": "sda serves 1 at once"}}}),
        json!({"Welcome": {"streams": 8, "capacity": "negotiates"}}),
        json!({"numaio_copy": 1, "user": "ada", "root": "both", "takes_files": true, "has_no_key": false, "capacity": {"host": "ed25519:00", "offer": {"turn": 1, "rate": null}}}),
        json!({"Lent": {"state": "waiting", "position": 1, "reason": "sda serves 1 at once", "starts_in": 9}}),
        json!({
            "kind": "run", "groups": [{"streams": 2, "direction": "write"}, {"streams": 1, "direction": "read"}],
            "block_bytes": 4096, "depth": 2, "slice_ns": 1_000_000, "slices": 5, "placement": ["0-3", 1],
        }),
        json!({
            "kind": "tool", "program": "iperf3", "args": ["-s"], "processes": 1, "placement": null, "time_limit_ms": 9,
        }),
        json!({"kind": "ping", "parts": [65536, 0], "placement": null}),
        json!({"kind": "ready", "port": 5000, "key": ([9; 32])}),
        json!({"kind": "slice", "ns": 1_000_000, "bytes": [7, 0]}),
        json!({"kind": "welcome", "numaio": "1", "nodes": [{"node": 0, "cpus": "0-3", "memory": true}], "interface": null}),
        end,
        progress,
    ].iter().map(line));
    seeds
}

/// Returns the seeds of the target `paths`.
pub fn path_seeds() -> Vec<Vec<u8>> {
    [
        &b"a/b/\nin/b\nnew"[..],
        b"out/x\nup/outside\nabs/tmp\n../outside/new",
        b"a/../../outside\n/tmp\n.\nin/../new/",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that no decoder accepts does not help a fuzzer.
    #[test]
    fn a_decoder_accepts_every_seed() {
        let at = IpAddr::from([192, 0, 2, 7]);
        let world = TestWorld::new();
        let is_accepted = |seed: &[u8]| {
            let text = std::str::from_utf8(seed).expect("text");
            let grants = |side| Grants {
                base: Base::below(&world.root).expect("a directory"),
                kind: GrantKind::Daemon(side),
                streams: STREAMS,
                bytes_per_second: None,
                set_id: false,
                capacity: None,
                exchange: CapacityExchange::None,
            };
            let is_granted = |side| {
                decode::peer_request(seed, &grants(side)).is_ok_and(|request| request.directories.is_ok())
            };
            let is_refusal =
                ["Refused", "Busy", "Queued"].iter().any(|name| text.starts_with(&format!("{{\"{name}\"")));
            is_refusal
                && decode::greeting(seed).is_err_and(|message| !message.contains("expected a greeting"))
                || decode::client_hello(&DAEMON, key(ADA), text).is_ok()
                || decode::client_hello(&DAEMON, key(ADA), text)
                    .is_err_and(|line| line.contains("there is no root"))
                || decode::greeting(seed).is_ok()
                || decode::peer_reply(seed, at).is_ok_and(|reply| !reply.addresses.is_empty())
                || decode::peer_reply(seed, at).is_err_and(|message| message == "no port")
                || decode::event(seed).is_some()
                || decode::remote_system(text).is_some()
                || decode::admission_request(seed).is_some()
                || decode::capacity_request(seed).is_some()
                || decode::capacity_reply(seed).is_some()
                || decode::bench_request(text).is_some()
                || decode::bench_answer(text).is_some()
                || is_granted(Side::Source)
                || is_granted(Side::Sink)
        };
        for seed in seeds() {
            assert!(is_accepted(&seed), "{}", seed.escape_ascii());
        }
    }

    #[test]
    fn unsafe_characters_are_not_displayable() {
        for text in ["a\u{1b}[2J", "a\nb", "\u{202e}"] {
            assert!(!is_displayable(text), "{text:?}");
        }
        assert!(is_displayable("ä b"));
    }
}
