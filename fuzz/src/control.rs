//! What another side says before a transfer begins: lines of a control channel.

use crate::ground::Ground;
use crate::words::{all_harmless, is_harmless};
use numaio_cli::decoders::{self, Config, DecodedRequest, Grants};
use numaio_linux::files::Base;
use numaio_linux::port::net::PublicKey;
use numaio_mover::wire::Side;
use serde_json::{json, Value};
use std::net::IpAddr;
use std::sync::LazyLock;

/// Most bytes of a hello and of a greeting, without the end of the line (docs/internals/protocol.md).
const LONGEST: usize = 4_096;
/// What a daemon allows one of its users.
const STREAMS: u16 = 8;
const BYTES_PER_SECOND: u64 = 1_000;
const MOST_THREADS: u64 = 64;

const ADA: &str = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const BOB: &str = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
const NOBODY: &str = "ed25519:fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";

/// A daemon, and below it all that its users may do: user, root, and whether files are taken from there.
static DAEMON: LazyLock<Config> = LazyLock::new(|| {
    let text = format!(
        "key = '/k'\n[root.in]\npath = '/in'\nwrite = 'ada'\n[root.out]\npath = '/out'\nread = '*'\n\
         [root.both]\npath = '/both'\nread = 'ada'\nwrite = '*'\n[user.ada]\nkeys = '{ADA}'\n[user.bob]\nkeys = '{BOB}'\n"
    );
    Config::parse(&text).expect("a file without faults")
});
const MAY: [(&str, &str, bool); 6] = [
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

/// Any line, taken for each that there is.
pub fn calls(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        hello(text.lines().next().unwrap_or_default());
        if let Some((system, file)) = decoders::remote_system(text) {
            assert!(
                is_harmless(&system) && file.starts_with('/') && !file.contains('\n'),
                "{system:?} {file:?}"
            );
        }
    }
    if let Some(user) = decoders::admission_request(input) {
        assert!(input.len() <= LONGEST, "{} bytes", input.len());
        assert!(said(input).is_none_or(|said| said["user"] == user), "{user:?}");
    }
    greeting(input);
    answer(input);
    event(input);
    let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if serde_json::from_slice::<Value>(line).is_ok_and(|said| said.get("ask").is_some()) {
        call(input);
    }
}

/// The line by itself; none if it has texts that are none where nobody looks.
fn said(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

/// As long as a hello may be. Only who may is served, whatever is said; and who is not hears why in a line that it can read.
fn hello(text: &str) {
    if text.len() > LONGEST {
        return;
    }
    for (owner, of) in [(Some("ada"), ADA), (Some("bob"), BOB), (None, NOBODY)] {
        match decoders::hello(&DAEMON, key(of), text) {
            Ok(it) => {
                assert_eq!(Some(&it.user[..]), owner);
                assert!(MAY.contains(&(&it.user, &it.root, it.is_source)), "{it:?}");
                if let Some(said) = said(text.as_bytes()) {
                    assert!(said["root"] == it.root && said["take"] == it.is_source, "{it:?}");
                    assert!(said["user"].is_null() || said["user"] == it.user, "{it:?}");
                }
            }
            Err(line) => {
                assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
                assert!(line.len() <= LONGEST + 1, "{} bytes", line.len());
                let heard = decoders::greeting(line.as_bytes()).expect_err("a refusal");
                assert!(!heard.starts_with("host:1: expected a greeting"), "{heard}");
            }
        }
    }
}

/// A greeting is no longer than it may be, and what is shown of it is harmless.
fn greeting(input: &[u8]) {
    match decoders::greeting(input) {
        Ok(streams) => {
            let line = input.split(|&byte| byte == b'\n').next().unwrap_or_default();
            assert!(line.len() <= LONGEST, "{} bytes", line.len());
            assert!(said(line).is_none_or(|said| said["Welcome"]["streams"] == streams), "{streams}");
        }
        Err(words) => assert!(!words.is_empty() && words.len() < 1_200 && is_harmless(&words), "{words:?}"),
    }
}

/// An answer is the same when it is said again; data connections are tried first where ssh leads.
fn answer(input: &[u8]) {
    let at = IpAddr::from([192, 0, 2, 7]);
    match decoders::peer_reply(input, at) {
        Ok(said) => {
            let again = decoders::peer_reply(said.reply.as_bytes(), at).expect("what it says can be heard");
            assert_eq!((&again.reply, &again.addresses), (&said.reply, &said.addresses));
            let doors = &said.addresses;
            assert!(doors.len() <= 3 && doors.first().is_none_or(|first| first.ip() == at), "{doors:?}");
        }
        Err(words) => assert!(words.len() <= 1_024 && is_harmless(&words), "{words:?}"),
    }
}

/// What another numaio tells is the same when it is told again, and harmless when it is shown.
fn event(input: &[u8]) {
    let Some((text, shown, words)) = decoders::event(input) else { return };
    let again = decoders::event(text.as_bytes()).expect("what is told can be heard");
    assert_eq!(again.0, text);
    assert!(is_harmless(&words), "{words:?}");
    all_harmless(&serde_json::from_str(&shown).expect("JSON"));
}

/// What a user asks a daemon for is what it may, and the same when it is asked again.
fn call(said: &[u8]) {
    let ground = Ground::new();
    let taken = [Side::Source, Side::Sink].into_iter().filter(|side| {
        let Ok(called) = allowed(said, *side, &ground) else { return false };
        let again = allowed(called.request.as_bytes(), *side, &ground).expect("what it says can be heard");
        assert_eq!(again.request, called.request);
        let choices = [None, Some("\"Lanes\"\n"), Some("\"Tunnel\"\n")];
        assert!(choices.contains(&called.route.as_deref()), "{:?}", called.route);
        true
    });
    assert!(taken.count() <= 1, "it is the side that the hello said");
}

/// A call of somebody who may ask for that side: nothing happens outside of the root, and all else is within limits.
fn allowed(said: &[u8], side: Side, ground: &Ground) -> Result<DecodedRequest, String> {
    let terms = Grants {
        base: Base::below(&ground.root).expect("a directory"),
        side,
        streams: STREAMS,
        bytes_per_second: Some(BYTES_PER_SECOND),
        set_id: false,
    };
    let called = decoders::peer_request(said, &terms);
    if let Ok(called) = &called {
        check(&called.request, side);
        let directories = called.directories.as_deref().unwrap_or_default();
        assert!(directories.iter().all(|at| at.starts_with(&ground.root)), "{directories:?}");
    }
    ground.check();
    called
}

/// The side that was agreed on, with no more connections, bytes and threads than a user may have.
fn check(call: &str, side: Side) {
    let call: Value = serde_json::from_str(call).expect("JSON");
    let order = match side {
        Side::Source => &call["ask"]["Source"],
        Side::Sink => &call["ask"]["Sink"][0],
    };
    assert!(
        order["numaio_copy"] == 1 && order["limit"].as_u64().is_some_and(|limit| limit <= BYTES_PER_SECOND)
    );
    assert!(
        order["threads"].is_null()
            || order["threads"].as_u64().is_some_and(|n| (1..=MOST_THREADS).contains(&n))
    );
    assert!(order["acls"] == false, "who has not root's rights is not told whose numbers are whose");
    let offer = &call["offer"];
    let streams = offer["streams"].as_u64();
    assert!(offer.is_null() || streams.is_some_and(|n| n <= STREAMS.into()));
}

/// Paths, one a line, each as a source and as a destination that a daemon is asked for.
pub fn paths(input: &[u8]) {
    let ground = Ground::new();
    for path in input.split(|&byte| byte == b'\n').take(4) {
        allowed(&source_call(&[path]), Side::Source, &ground).expect("a call");
        allowed(&sink_call(path, true), Side::Sink, &ground).expect("a call");
        allowed(&sink_call(path, false), Side::Sink, &ground).expect("a call");
    }
}

fn order(from: &[&[u8]], to: &[u8]) -> Value {
    json!({
        "numaio_copy": 1, "from": from, "to": to, "listed": null, "recursive": true, "archive": true,
        "rules": [{"include": false, "pattern": b"*.o"}], "sizes": [0, u64::MAX], "checksum": false,
        "manifest": false, "numeric_ids": false, "update": false, "ignore_times": false, "delete": false,
        "in_place": false, "rehearse": false, "told": true, "hash": 1, "fsync": 1, "limit": null,
        "compress": "Auto", "placement": "None", "threads": 2, "streams": 4, "sparing": true, "acls": true,
        "transfer": ([7; 16]),
    })
}

fn line(said: &Value) -> Vec<u8> {
    format!("{said}\n").into_bytes()
}

fn source_call(from: &[&[u8]]) -> Vec<u8> {
    let offer = json!({"streams": 32, "ports": [1, 9], "word": {"Secret": ([9; 32])}, "ticket": ([3; 16])});
    line(&json!({"ask": {"Source": order(from, b"x")}, "offer": offer}))
}

fn sink_call(to: &[u8], one_file: bool) -> Vec<u8> {
    line(&json!({"ask": {"Sink": [order(&[b"x"], to), one_file]}, "offer": null}))
}

/// What the target `calls` begins with: each line that there is.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut listed = order(&[b"a"], b"x");
    listed["listed"] = json!(["b", "b/c"]);
    (listed["threads"], listed["limit"]) = (json!(100), json!(1_000_000));
    let opened = json!({"port": 5000, "key": [48, 42], "address": "192.0.2.9"});
    let totals = json!({
        "entries": 3, "size": 10, "moved": 2, "unchanged": 1, "removed": 0, "failed": 0, "bytes": 7, "sent": 7, "resumed": 0
    });
    let mut end = totals.clone();
    (end["event"], end["done"], end["seconds"]) = (json!("end"), json!(true), json!(1.5));
    let mut progress = totals;
    progress["event"] = json!("progress");
    let mut seeds = vec![
        line(&json!({"numaio_copy": 1, "user": "ada", "root": "both", "take": true})),
        line(&json!({"numaio_copy": 1, "user": null, "root": "\u{7f}".repeat(4_000), "take": true})),
        [source_call(&[b"a", b"in/b"]), b"\"Lanes\"\n".to_vec()].concat(),
        [sink_call(b"a/new", false), b"\"Tunnel\"\n".to_vec()].concat(),
        line(&json!({"ask": {"Source": listed}, "offer": null})),
        line(&json!({"Ready": {"one_file": false, "door": {"Ok": opened}, "packs": true}})),
        line(&json!({"event": "did", "action": "copied", "name": "a/b", "bytes": 7})),
        b"@numaio system Linux x86_64\n@numaio there\n@numaio sum abc\n@numaio file /home/a/.cache/x\n"
            .to_vec(),
    ];
    seeds.extend([
        json!({"Welcome": {"streams": 8}}),
        json!({"Refused": "no"}),
        json!({"Busy": "later"}),
        json!({"Ready": {"one_file": true, "door": {"Err": "no port"}, "packs": false}}),
        json!({"event": "problem", "name": "a", "side": "source", "reason": "NoSpace", "text": "no space"}),
        json!({"user": "ada"}),
        end,
        progress,
    ].iter().map(line));
    seeds
}

/// What the target `paths` begins with.
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

    /// A seed that is not understood leads a fuzzer nowhere.
    #[test]
    fn every_seed_is_understood() {
        let at = IpAddr::from([192, 0, 2, 7]);
        let ground = Ground::new();
        let understood = |seed: &[u8]| {
            let text = std::str::from_utf8(seed).expect("text");
            let terms = |side| Grants {
                base: Base::below(&ground.root).expect("a directory"),
                side,
                streams: STREAMS,
                bytes_per_second: None,
                set_id: false,
            };
            let called = |side| {
                decoders::peer_request(seed, &terms(side)).is_ok_and(|called| called.directories.is_ok())
            };
            let is_greeting = text.starts_with("{\"Refused\"") || text.starts_with("{\"Busy\"");
            is_greeting && decoders::greeting(seed).is_err_and(|words| !words.contains("expected a greeting"))
                || decoders::hello(&DAEMON, key(ADA), text).is_ok()
                || decoders::hello(&DAEMON, key(ADA), text)
                    .is_err_and(|line| line.contains("there is no root"))
                || decoders::greeting(seed).is_ok()
                || decoders::peer_reply(seed, at).is_ok_and(|said| !said.addresses.is_empty())
                || decoders::peer_reply(seed, at).is_err_and(|words| words == "no port")
                || decoders::event(seed).is_some()
                || decoders::remote_system(text).is_some()
                || decoders::admission_request(seed).is_some()
                || called(Side::Source)
                || called(Side::Sink)
        };
        for seed in seeds() {
            assert!(understood(&seed), "{}", seed.escape_ascii());
        }
    }

    #[test]
    fn what_harms_is_seen() {
        assert!(
            !is_harmless("a\u{1b}[2J")
                && !is_harmless("a\nb")
                && !is_harmless("\u{202e}")
                && is_harmless("ä b")
        );
    }
}
