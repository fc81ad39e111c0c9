//! A hostile source: no packet can change anything outside of the destination, and the sink reports
//! why it fails.

use crate::support::{CommandOutput, Home, Limited, LIMIT};
use numaio_mover::drive::{drive, TransferCore};
use numaio_mover::entry::{
    Content, DeviceNumber, Entry, FileNumber, Inode, Kind, Mode, Object, Owner, Target, Time, Xattrs,
};
use numaio_mover::extent::Extent;
use numaio_mover::filter::{Action, Filter, Pattern};
use numaio_mover::hash::HashKind;
use numaio_mover::name::Name;
use numaio_mover::port::{Digest, BLOCK};
use numaio_mover::report::{Report, TransferOutcome};
use numaio_mover::simulator::{sink_options, Chance};
use numaio_mover::sink::{RequestedEntries, Sink, SinkOptions};
use numaio_mover::source::Origin;
use numaio_mover::wire::{
    BatchEncoder, Chunk, ChunkPart, EndTotals, FileSent, Frame, Side, StreamHeader, TransferId,
};
use numaio_mover_linux::files::Roots;
use numaio_mover_linux::port::{FilePort, Pool, Setting, StreamPair};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The frames and the data of a packet.
type RawPacket = (Vec<u8>, Vec<u8>);

fn options() -> SinkOptions {
    SinkOptions { requested: None, ..sink_options() }
}

/// Encodes a packet as it is sent over a stream.
fn packet((frames, data): &RawPacket) -> Vec<u8> {
    let head = [(frames.len() as u32).to_be_bytes(), (data.len() as u32).to_be_bytes()].concat();
    [&head[..], frames, data].concat()
}

/// Runs a sink on `dst` with these packets as input; returns the outcome and the reported problems.
fn sink(home: &Home, packets: &[RawPacket]) -> (TransferOutcome, String) {
    sink_with(home, options(), packets)
}

/// A file port on `dst`.
fn port(home: &Home, link: UnixStream) -> FilePort {
    let roots = Roots::open(&[&home.0.join("dst")]).expect("a root");
    let setting = Setting { rings: true, ..Setting::new(roots, 2, Pool::new(4)) };
    let from = link.try_clone().expect("a socket");
    FilePort::over(setting, StreamPair { from: Box::new(from), to: Box::new(link) }).expect("a port")
}

fn sink_with(home: &Home, options: SinkOptions, packets: &[RawPacket]) -> (TransferOutcome, String) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let mut port = port(home, theirs);
    let mut core = Sink::new(options);
    let mut problems = String::new();
    let start = Instant::now();
    let (mut to, mut back) = (ours.try_clone().expect("a socket"), ours);
    thread::scope(|scope| {
        scope.spawn(move || {
            const BATCH: u8 = 1;
            const END: u8 = 5;
            let mut unanswered = 0;
            for (index, sent @ (frames, data)) in packets.iter().enumerate() {
                let waits = index > 0 && !data.is_empty() || frames.first() == Some(&END);
                (0..if waits { std::mem::take(&mut unanswered) } else { 0 })
                    .for_each(|_| await_answer(&mut back));
                unanswered += u32::from(frames.first() == Some(&BATCH));
                // The sink may have closed the stream.
                let _ = to.write_all(&packet(sent));
            }
            let _ = to.shutdown(std::net::Shutdown::Write);
            let _ = back.set_read_timeout(Some(LIMIT)).map(|()| back.read_to_end(&mut Vec::new()));
            // A sink that still runs fails now.
            let _ = back.shutdown(std::net::Shutdown::Both);
        });
        drive(
            &mut core,
            &mut port,
            || start.elapsed(),
            |core| {
                for report in core.reports() {
                    if let Report::Problem(problem) = report {
                        problems +=
                            &format!("{:?} {:?} {}\n", problem.about, problem.reason, problem.text.as_str());
                    }
                }
            },
        );
        let ended = core.outcome().cloned().expect("an end");
        drop(port);
        (ended, problems.clone())
    })
}

/// Reads packets, one frame each, until the sink requests data or closes the stream.
fn await_answer(from: &mut UnixStream) {
    const WANTS: u8 = 6;
    // After a failure the sink sends nothing, but its thread keeps the socket open.
    from.set_read_timeout(Some(Duration::from_secs(2))).expect("a time limit");
    let mut head = [0; 8];
    while from.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let mut frames = vec![0; length as usize];
        if from.read_exact(&mut frames).is_err() || frames.first() == Some(&WANTS) {
            return;
        }
    }
}

fn stream_header() -> Vec<u8> {
    let mut bytes = Vec::new();
    StreamHeader { side: Side::Source, transfer: TransferId([2; 16]) }.encode(&mut bytes);
    bytes
}

fn entry(name: &[u8], kind: Kind) -> Entry {
    let owner = || Owner::new(0, None).expect("an owner");
    let inode = Inode {
        kind,
        mode: Mode::new(0o644).expect("a mode"),
        mtime: Time::new(5, 5).expect("a time"),
        user: owner(),
        group: owner(),
        xattrs: Xattrs::default(),
    };
    Entry { name: Name::new(name).expect("a name"), object: Object::New(inode) }
}

fn file(name: &[u8], size: u64) -> Entry {
    entry(name, Kind::File(Content::dense(size).expect("a size")))
}

fn batch(first: u64, entries: &[Entry]) -> Vec<u8> {
    let mut encoder = BatchEncoder::new(FileNumber::new(first).expect("a number"));
    assert!(entries.iter().all(|entry| encoder.push(entry) == Ok(true)));
    let mut bytes = Vec::new();
    encoder.take(&mut bytes).expect("a batch");
    bytes
}

fn chunk(number: u64, offset: u64, data: &[u8], digest: Option<Digest>) -> RawPacket {
    let part = ChunkPart {
        file: FileNumber::new(number).expect("a number"),
        extent: Extent::at(offset, data.len() as u64).expect("an extent"),
        digest: digest.unwrap_or_else(|| HashKind::Xxh3.function()(data)),
    };
    let mut bytes = Vec::new();
    Frame::Chunk(Chunk::new(HashKind::Xxh3, vec![part]).expect("a chunk")).encode(&mut bytes);
    (bytes, data.to_vec())
}

fn end() -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::End(EndTotals::default()).encode(&mut bytes);
    bytes
}

fn plain(frames: Vec<u8>) -> RawPacket {
    (frames, Vec::new())
}

fn home() -> Home {
    let home = Home::new();
    for folder in ["dst", "outside"] {
        fs::create_dir(home.0.join(folder)).expect("a folder");
    }
    home
}

/// Checks that the home contains only the two directories, and that the outer one is empty.
fn assert_outside_untouched(home: &Home) {
    let names = |folder: &str| {
        let entries = fs::read_dir(home.0.join(folder)).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect::<Vec<_>>()
    };
    assert_eq!(names("outside"), Vec::<String>::new());
    let mut all = names("");
    all.sort();
    assert_eq!(all, ["dst", "outside"]);
}

#[test]
fn rejects_names_that_leave_the_root() {
    for name in ["../evil", "/evil", "a/../../evil", ".", "a//b"] {
        let home = home();
        // A valid batch, patched with the bad name.
        let long = "x".repeat(name.len());
        let frames = batch(0, &[file(long.as_bytes(), 0)]);
        let at = frames.windows(long.len()).position(|part| part == long.as_bytes()).expect("the name");
        let bad = [&frames[..at], name.as_bytes(), &frames[at + long.len()..]].concat();
        let (ended, problems) = sink(&home, &[plain(stream_header()), plain(bad), plain(end())]);
        assert_eq!(ended, TransferOutcome::Failed, "{name}: {problems}");
        assert!(problems.contains("Transfer Protocol"), "{name}: {problems}");
        assert_outside_untouched(&home);
    }
}

/// For a single file, the root is the parent directory of the path that the user named.
#[test]
fn single_file_transfer_rejects_other_entries() {
    let directory = || Entry { name: Name::root(), ..entry(b"d", Kind::Directory) };
    for entries in [
        vec![directory()],
        vec![entry(b"d", Kind::Directory)],
        vec![file(b"d/evil", 0)],
        vec![file(b"one", 0), file(b"evil", 0)],
        vec![directory(), file(b"one", 0)],
    ] {
        let home = home();
        home.file("dst/there", "precious");
        let alias = Some(Name::new(&b"named"[..]).expect("a name"));
        let options = || SinkOptions { alias: alias.clone(), delete: true, ..options() };
        let packets = [plain(stream_header()), plain(batch(0, &entries)), plain(end())];
        let (ended, problems) = sink_with(&home, options(), &packets);
        assert!(
            ended == TransferOutcome::Failed && problems.contains("Transfer Protocol"),
            "{entries:?}: {problems}"
        );
        let second = [
            plain(stream_header()),
            plain(batch(0, &[file(b"one", 0)])),
            plain(batch(1, &[file(b"evil", 0)])),
            plain(end()),
        ];
        let (ended, problems) = sink_with(&home, options(), &second);
        assert!(ended == TransferOutcome::Failed && problems.contains("Transfer Protocol"), "{problems}");
        let names = fs::read_dir(home.0.join("dst")).expect("a folder").flatten().map(|it| it.file_name());
        // The journal exists if the first entry was started before the failure.
        let names: Vec<_> = names.collect();
        let may_be =
            |name: &&OsString| ["there", "named", ".numaio-journal"].iter().any(|known| **name == **known);
        assert_eq!(names.iter().find(|name| !may_be(name)), None, "{entries:?}");
        assert!(home.0.join("dst/there").exists());
    }
}

/// The entries that a destination requests: these names of the source root.
fn requested(names: &[&str], recursive: bool, listed: bool) -> RequestedEntries {
    let only = |name: &str| (!name.is_empty()).then(|| Name::new(name.as_bytes()).expect("a name"));
    let origin = |name: &&str| Origin { root: 0, only: only(name), enter: true, with_parents: listed };
    RequestedEntries::new(&names.iter().map(origin).collect::<Vec<_>>(), recursive, listed)
}

/// An entry for a directory if the name ends with a slash, otherwise for a file.
fn entry_named(name: &str) -> Entry {
    match name.strip_suffix('/') {
        None => file(name.as_bytes(), 0),
        Some("") => Entry { name: Name::root(), ..entry(b"d", Kind::Directory) },
        Some(name) => entry(name.as_bytes(), Kind::Directory),
    }
}

/// Entries before the rejected one in the same packet are not created either.
#[test]
fn rejects_entries_that_were_not_requested() {
    let one = || requested(&["one"], false, false);
    let tree = || requested(&["d"], true, false);
    let list = |recursive| requested(&["d/e/f"], recursive, true);
    let link = |name: &str, to: &str| {
        let object = Object::HardLink(Name::new(to.as_bytes()).expect("a name"));
        Entry { object, ..entry_named(name) }
    };
    // The request, allowed entries, and an entry that was not requested.
    let cases: [(RequestedEntries, &[&str], Entry); 15] = [
        (one(), &["one"], entry_named(".bashrc")),
        (one(), &[], entry_named("/")),
        (one(), &[], entry_named("one/")),
        (one(), &["one"], entry_named("one/below")),
        (one(), &[], link("one", "there")),
        (one(), &["one"], link("two", "one")),
        (requested(&[""], false, false), &[], entry_named("any")),
        (tree(), &["d/", "d/a"], entry_named(".ssh/")),
        (tree(), &["d/", "d/a"], entry_named(".ssh/authorized_keys")),
        (tree(), &["d/"], entry_named("d/left.o")),
        (tree(), &["d/"], entry_named("d/left/a")),
        (list(false), &["d/", "d/e/", "d/e/f"], entry_named("d/a")),
        (list(false), &["d/", "d/e/", "d/e/f/"], entry_named("d/e/f/a")),
        (list(true), &["d/", "d/e/", "d/e/f/", "d/e/f/a"], entry_named("d/e/g")),
        (list(true), &[], entry_named("d")),
    ];
    for (requested, allowed, other) in cases {
        let home = home();
        home.file("dst/there", "precious");
        let mut filter = Filter::default();
        ["*.o", "left/"].iter().for_each(|pattern| {
            filter.add(Action::Exclude, Pattern::new(pattern.as_bytes()).expect("a pattern"));
        });
        let options = SinkOptions { requested: Some(requested), filter, delete: true, ..options() };
        let message =
            format!("Transfer Protocol the source sent an entry that was not requested: {}\n", other.name);
        let all: Vec<Entry> = allowed.iter().map(|name| entry_named(name)).chain([other]).collect();
        let packets = [plain(stream_header()), plain(batch(0, &all)), plain(end())];
        assert_eq!(sink_with(&home, options, &packets), (TransferOutcome::Failed, message), "{all:?}");
        assert_eq!(names(&home, "dst"), ["there"], "{all:?}");
        assert_outside_untouched(&home);
    }
}

fn names(home: &Home, folder: &str) -> Vec<String> {
    let found = fs::read_dir(home.0.join(folder)).expect("a folder").flatten();
    let mut names: Vec<_> = found.map(|entry| entry.file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// A pattern in the request and its replacement, as for sed(1).
type Change<'a> = (&'a str, &'a str);

/// Copies from a host that receives a modified request, and so sends unrequested entries.
fn copy_from_tampered_host(home: &Home, changes: &[Change], args: &[&str]) -> CommandOutput {
    let change = |(from, to): &Change| format!("s/{from}/{to}/;");
    let changes: String = changes.iter().map(change).collect();
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nread -r call\n\
         {{ printf '%s\\n' \"$call\" | sed '{changes}'; exec cat; }} | sh -c \"$*\"\n"
    );
    let ssh = home.script("ssh", &script);
    let args = [&["copy", "--tunnel", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", ssh).limited_output().expect("numaio"))
}

#[test]
fn rejects_a_host_that_sends_unrequested_entries() {
    let home = home();
    fs::create_dir_all(home.0.join("src/.ssh")).expect("a folder");
    for name in [".bashrc", ".ssh/authorized_keys", "report", "two"] {
        home.file(&format!("src/{name}"), name);
    }
    let list = home.file("list", "report\n");
    let instead =
        |path: &str| format!("\"from\":[{}]", serde_json::to_string(path.as_bytes()).expect("JSON"));
    let from = r#""from":\[\[[0-9,]*\]\]"#;
    let (bashrc, all, ssh) = (instead("src/.bashrc"), instead("src/"), instead("src/.ssh"));
    let recursive = (r#""recursive":false"#, r#""recursive":true"#);
    let no_rules = (r#""rules":\[.*\],"size_range""#, r#""rules":[],"size_range""#);
    let longer = (r#""file_list":\["report"\]"#, r#""file_list":["report",".ssh\/authorized_keys"]"#);
    // Changes to the request, arguments of the copy, and the first unrequested entry.
    let cases: [(&[Change], &[&str], &str); 8] = [
        (&[(from, &bashrc)], &["host:src/report"], ".bashrc"),
        (&[(from, &all), recursive], &["host:src/report"], "."),
        (&[(from, &ssh), recursive], &["host:src/report"], ".ssh"),
        (&[(from, &all)], &["-r", "host:src/report"], "."),
        (&[recursive], &["host:src/.ssh"], ".ssh"),
        (&[recursive], &["host:src/"], "."),
        (&[no_rules], &["-r", "--exclude", ".b*", "host:src/"], ".bashrc"),
        (&[longer], &["--files-from", &list, "host:src"], ".ssh"),
    ];
    for (changes, args, shown) in cases {
        let message = format!(
            "the transfer failed: the source sent an entry that was not requested: {shown} (destination)"
        );
        for dst in ["dst", "new", "new/"] {
            let _ = fs::remove_dir_all(home.0.join("new"));
            copy_from_tampered_host(&home, changes, &[args, &[dst]].concat()).failed(1, &[&message]);
            let left = [names(&home, "dst"), names(&home, "outside")].concat();
            assert_eq!(left, Vec::<String>::new(), "{args:?} {dst}");
            // A missing destination may have been created, as a directory.
            let made = if home.0.join("new").is_dir() { names(&home, "new") } else { Vec::new() };
            assert!(made.is_empty() && !home.0.join("new").is_file(), "{args:?} {dst}: {made:?}");
        }
    }
    copy_from_tampered_host(&home, &[], &["host:src/report", "one"]).ok();
    copy_from_tampered_host(&home, &[], &["-r", "--exclude", ".b*", "host:src/", "all"]).ok();
    assert_eq!(names(&home, "all"), [".ssh", "report", "two"]);
}

/// Source paths as users type them, and names in a list.
const SOURCES: [&str; 20] = [
    "src",
    "src/",
    "src/.",
    "src//d",
    "src/d/",
    "src/d/.",
    "src/d/..",
    "src/d/../d/e",
    "src/link",
    "src/link/",
    "src/link/e/",
    "src/nowhere",
    "src/a",
    "./src/./a",
    "src/.b",
    "src/further",
    "src/d/up",
    "src/d/up/",
    "src/absent",
    "src/d/e/f/g.o",
];
const LISTED: [&str; 13] = [
    "a", "d", "d/", "d/e/a", "/d/e/f", ".", "link", "link/a", "d/up/a", "absent/x", "further", "d/../.b",
    "nowhere",
];
const RULES: [&str; 7] = [
    "--exclude=*.o",
    "--exclude=d/",
    "--exclude=/d/e",
    "--include=d/a",
    "--exclude=*",
    "--exclude=f/**",
    "--exclude=/src/d",
];

/// With any arguments: spellings of paths, several sources, lists and rules.
#[test]
fn never_rejects_an_honest_host() {
    let home = home();
    fs::create_dir_all(home.0.join("src/d/e/f")).expect("a folder");
    for name in ["a", ".b", "d/a", "d/c.o", "d/e/a", "d/e/f/g.o"] {
        home.file(&format!("src/{name}"), name);
    }
    for (link, to) in [("src/link", "d"), ("src/d/up", ".."), ("src/nowhere", "x")] {
        std::os::unix::fs::symlink(to, home.0.join(link)).expect("a link");
    }
    fs::hard_link(home.0.join("src/d/a"), home.0.join("src/further")).expect("a name");
    let mut chance = Chance::new(7);
    let mut one_of = |all: &[&str]| all[chance.below(all.len() as u64) as usize].to_owned();
    for round in 0..90 {
        let is_far = round % 3 == 0;
        let mut args = vec![one_of(&["-r", "-a", "--", "-rn", "-rc", "-rI", "-ru"])];
        args.extend((0..round % 4).map(|_| one_of(&RULES)));
        args.retain(|word| word != "--");
        let is_listed = one_of(&["y", "n", "n"]) == "y";
        if is_listed {
            let lines: Vec<String> = (0..1 + round % 5).map(|_| one_of(&LISTED)).collect();
            args.extend(["--files-from".to_owned(), home.file("list", &lines.join("\n"))]);
        } else if args.iter().any(|word| word.starts_with("-r")) && one_of(&["y", "n"]) == "y" {
            args.push("--delete".to_owned());
        }
        let host = if is_far { "host:" } else { "" };
        let count = if is_listed { 1 } else { 1 + round % 3 };
        args.extend((0..count).map(|_| host.to_owned() + &one_of(&SOURCES)));
        args.push(one_of(&["dst", "dst/", "new", "new/"]));
        let _ = fs::remove_dir_all(home.0.join("new"));
        let _ = fs::remove_file(home.0.join("new"));
        let output =
            copy_from_tampered_host(&home, &[], &args.iter().map(String::as_str).collect::<Vec<_>>());
        let is_rejected = ["not requested", "invalid data from the peer", "the transfer failed"]
            .iter()
            .any(|it| output.err.contains(it));
        assert!(!is_rejected, "{args:?}: {}", output.err);
    }
    assert_eq!(names(&home, "outside"), Vec::<String>::new());
}

#[test]
fn does_not_follow_links_created_by_the_source() {
    let home = home();
    let target = home.path("outside").into_bytes();
    let link = entry(b"l", Kind::Symlink(Target::new(target).expect("a target")));
    let packets = [
        plain(stream_header()),
        plain(batch(0, &[link, file(b"l/evil", 5)])),
        plain(batch(2, &[file(b"l/empty", 0), entry(b"l/pipe", Kind::Fifo), entry(b"l/d", Kind::Directory)])),
        chunk(1, 0, b"hello", None),
        plain(end()),
    ];
    let (ended, problems) = sink(&home, &packets);
    assert_eq!(ended, TransferOutcome::Done, "{problems}");
    for name in ["l/evil", "l/empty", "l/pipe", "l/d"] {
        assert!(problems.contains(&format!("{name:?}")), "{name}: {problems}");
    }
    assert_outside_untouched(&home);
}

#[test]
fn rejects_unexpected_data() {
    let big = vec![7; BLOCK];
    let cases: [(&str, Vec<RawPacket>); 6] = [
        ("beyond its end", vec![chunk(0, 0, b"longer", None)]),
        ("in the middle of a block", vec![chunk(0, 1, b"ello", None)]),
        ("twice", vec![chunk(1, 0, &big, None), chunk(1, 0, &big, None)]),
        ("an end before all data", vec![plain(end())]),
        ("a wrong byte count", {
            let mut bytes = Vec::new();
            Frame::FileSent(FileSent { file: FileNumber::new(1).expect("a number"), bytes: 9 })
                .encode(&mut bytes);
            vec![plain(bytes)]
        }),
        ("frames in place of data", vec![(chunk(0, 0, b"hello", None).0, b"hell".to_vec())]),
    ];
    for (what, sent) in cases {
        let home = home();
        let entries = batch(0, &[file(b"five", 5), file(b"two", 2 * BLOCK as u64)]);
        let (ended, problems) = sink(&home, &[vec![plain(stream_header()), plain(entries)], sent].concat());
        assert_eq!(ended, TransferOutcome::Failed, "{what}: {problems}");
        assert!(problems.contains("Transfer Protocol"), "{what}: {problems}");
        let named = ["five", "two"].map(|name| home.0.join("dst").join(name).exists());
        assert_eq!(named, [false, false], "{what}");
        assert_outside_untouched(&home);
    }
}

#[test]
fn corrupted_data_gets_no_name() {
    let home = home();
    let wrong = Digest([3; 32]);
    let mut digest = Digest::default();
    digest.0[..16].copy_from_slice(&wrong.0[..16]);
    let packets = [
        plain(stream_header()),
        plain(batch(0, &[file(b"bad", 5), file(b"good", 5)])),
        chunk(0, 0, b"hello", Some(digest)),
        chunk(1, 0, b"hello", None),
        plain(end()),
    ];
    let (ended, problems) = sink(&home, &packets);
    assert_eq!(ended, TransferOutcome::Done, "{problems}");
    assert!(problems.contains("\"bad\") Mismatch"), "{problems}");
    let names: Vec<_> = fs::read_dir(home.0.join("dst")).expect("a folder").flatten().collect();
    assert_eq!(names.iter().map(|entry| entry.file_name()).collect::<Vec<_>>(), ["good"]);
}

#[test]
fn rejects_a_peer_that_is_not_numaio() {
    let home = home();
    let (ended, problems) = sink(&home, &[plain(b"SSH-2.0-x\r\n".to_vec())]);
    assert!(ended == TransferOutcome::Failed && problems.contains("does not speak"), "{problems}");
    let (ended, problems) = sink(&home, &[plain(stream_header())]);
    assert!(
        ended == TransferOutcome::Failed && problems.contains("the connection to the source was lost"),
        "{problems}"
    );
    // Data before the sink has requested any.
    let early =
        [stream_header(), batch(0, &[file(b"two", 2 * BLOCK as u64)]), chunk(0, 0, &[7; BLOCK], None).0]
            .concat();
    let (ended, problems) = sink(&home, &[(early, vec![7; BLOCK])]);
    assert!(ended == TransferOutcome::Failed && problems.contains("Transfer Protocol"), "{problems}");
}

/// Failing entries cost a source almost nothing, but each reported problem contains a full name.
#[test]
fn stops_reading_while_problems_are_not_consumed() {
    const BATCH: u64 = 1024;
    let home = home();
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let mut port = port(&home, theirs);
    let (mut core, reported) = (Sink::new(options()), AtomicU64::new(0));
    let above = format!("{}/", "x".repeat(255)).repeat(15);
    let device = Kind::CharacterDevice(DeviceNumber::new(1, 3).expect("a device"));
    let entry = |number: u64| entry(format!("{above}{number}").as_bytes(), device.clone());
    // Sends a batch only after all earlier problems were reported; gives up after two seconds.
    let is_reported = |sent: u64| {
        let attempt = (0..200).find(|_| {
            let is_reported = reported.load(Ordering::SeqCst) >= sent;
            (!is_reported).then(|| thread::sleep(Duration::from_millis(10)));
            is_reported
        });
        attempt.is_some()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            ours.write_all(&packet(&plain(stream_header()))).expect("sent");
            for first in (0..64).map(|number| number * BATCH).take_while(|first| is_reported(*first)) {
                let entries: Vec<Entry> = (first..first + BATCH).map(entry).collect();
                let _ = ours.write_all(&packet(&plain(batch(first, &entries))));
            }
            drop(ours);
        });
        let start = Instant::now();
        drive(
            &mut core,
            &mut port,
            || start.elapsed(),
            |core| {
                reported.fetch_add(core.reports().len() as u64, Ordering::SeqCst);
            },
        );
        drop(port);
    });
    let reported = reported.into_inner();
    assert!((8 * BATCH..24 * BATCH).contains(&reported), "{reported} problems of 4 KiB are queued");
}
