//! How much memory both sides of a transfer take for each file, over disks that hold nothing: they tell of as many files
//! as they are asked for, so that millions of them need neither room nor time.
//!
//! `NUMAIO_FILES=10000000` measures with so many, and tells the peak of each case; docs/copy/tuning.md has the table.

use numaio_machine::port::{
    Event, FileKind, FilePath, Found, Journal, Listed, Listing, Names, Operation, Outcome, Packet, Seen,
    Stamp, Summing,
};
use numaio_mover::chunk::Policy;
use numaio_mover::drive::{Command, Core};
use numaio_mover::filter::Filter;
use numaio_mover::hash::HashKind;
use numaio_mover::packing::Compress;
use numaio_mover::sink::{Asked, Keep, Own, Sink, SinkOptions, Spared, Sync};
use numaio_mover::source::{Origin, Source, SourceOptions};
use numaio_mover::wire::TransferId;
use std::io::Write;
use std::time::Duration;

const TRANSFER: TransferId = TransferId([7; 16]);
/// Files of a folder.
const FOLDER: u64 = 1_000;
/// Bytes by which two runs may differ otherwise.
const SLACK: u64 = 3 << 20;
/// Where a child process finds what to measure: the name of a case, and how many files.
const RUN: &str = "NUMAIO_MANY";

/// What is asked for, and what it may cost.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    delete: bool,
    checksum: bool,
    manifest: bool,
    /// Where else each file has a name.
    further: Further,
    /// Two sources, of which one may hold what the other one does.
    merged: bool,
    /// Most bytes of memory for a file.
    most: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Further {
    Nowhere,
    /// In a folder of the second half.
    Within,
    /// In a folder that is not moved.
    Outside,
}

const PLAIN: Case = Case {
    name: "plain",
    delete: false,
    checksum: false,
    manifest: false,
    further: Further::Nowhere,
    merged: false,
    most: 0.0,
};

const CASES: [Case; 7] = [
    PLAIN,
    Case { name: "delete", delete: true, most: 9.0, ..PLAIN },
    Case { name: "checksum", checksum: true, ..PLAIN },
    Case { name: "manifest", manifest: true, ..PLAIN },
    Case { name: "two names each", further: Further::Within, most: 14.0, ..PLAIN },
    Case { name: "names outside", further: Further::Outside, most: 14.0, ..PLAIN },
    Case { name: "merged sources", merged: true, most: 20.0, ..PLAIN },
];

/// A disk with folders of files, or, as a destination, with nothing or the same files.
struct Vast {
    folders: u64,
    further: Further,
    size: u64,
    /// Seconds since 1970 at which files were changed; none if there are none.
    changed: Option<i64>,
}

impl Vast {
    fn found(&self, kind: FileKind, inode: u64) -> Found {
        let links = if self.further == Further::Nowhere || kind != FileKind::File { 1 } else { 2 };
        let size = if kind == FileKind::File { self.size } else { 0 };
        let mtime = Stamp { seconds: self.changed.unwrap_or_default(), nanoseconds: 0 };
        let ctime = mtime;
        let seen = Seen { kind, mode: 0o644, user: 0, group: 0, size, mtime, ctime, inode, volume: 1, links };
        Found {
            seen,
            hides: false,
            target: None,
            xattrs: Vec::new(),
            data: None,
            address: None,
            led_to: false,
        }
    }

    /// What stands behind a name: a folder if there is no slash in it.
    fn look(&self, at: &FilePath) -> Option<Found> {
        let is_file = at.name.contains(&b'/');
        let kind = if is_file { FileKind::File } else { FileKind::Directory };
        (at.name.is_empty() || self.changed.is_some()).then(|| self.found(kind, 1))
    }

    /// Some of what is in a directory: folder 0 is the root, and `listing` has the folder and how many were listed.
    fn list(&self, folder: u64, from: u64, most: usize) -> Listing {
        let all = if folder == 0 { self.folders } else { FOLDER };
        let end = all.min(from + most as u64);
        let one = |index: u64| -> Listed {
            if folder == 0 {
                return (
                    format!("folder-{index:05}").into_bytes().into(),
                    Ok(self.found(FileKind::Directory, index)),
                );
            }
            let half = self.folders.div_ceil(2);
            let first = if self.further == Further::Within { (folder - 1) % half } else { folder - 1 };
            let inode = 1_000_000 + first * FOLDER + index;
            (format!("file-{index:05}").into_bytes().into(), Ok(self.found(FileKind::File, inode)))
        };
        Listing {
            found: (from..end).map(one).collect(),
            more: (end < all).then_some(folder << 32 | end),
            names: Names::Apart,
        }
    }

    fn run(&self, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        let done = |count: usize| Outcome::Each(vec![Ok(()); count]);
        match operation {
            Operation::List { directory, most, .. } => {
                let index = directory
                    .name
                    .strip_prefix(b"folder-")
                    .and_then(|digits| std::str::from_utf8(digits).ok());
                let folder = index.map_or(0, |digits| digits.parse::<u64>().expect("a number") + 1);
                Outcome::Listed(Ok(self.list(folder, 0, most)))
            }
            Operation::More { listing, most, .. } => {
                Outcome::Listed(Ok(self.list(listing >> 32, listing & 0xffff_ffff, most)))
            }
            Operation::Look { at, .. } => Outcome::Looked(at.iter().map(|at| Ok(self.look(at))).collect()),
            Operation::Sum(summing) => Outcome::Summed(Ok(Summing { ended: true, ..summing })),
            Operation::Read { .. } => panic!("no file has data that is needed"),
            Operation::Write { puts, .. } => done(puts.len()),
            Operation::Make(all) => done(all.len()),
            Operation::Adorn(all) => done(all.len()),
            Operation::Remove(all) => done(all.len()),
            Operation::Open { .. } => Outcome::Opened(Ok(Journal::Absent)),
            Operation::Record(_) | Operation::Sync { .. } => done(1),
        }
    }
}

fn sides(case: Case) -> (Source<Vec<u8>>, Sink<Vec<u8>>) {
    let origins = if case.merged { 2 } else { 1 };
    let source = SourceOptions {
        origins: (0..origins).map(|root| Origin { root, only: None, enter: true, way: false }).collect(),
        recursive: true,
        listed: false,
        accounts: None,
        xattrs: false,
        devices: false,
        filter: Filter::default(),
        except: None,
        hash: HashKind::Xxh3,
        policy: Policy::of_blocks(),
        reads: 4,
        by_address: true,
        limit: None,
        compress: Compress::None,
        unasked: false,
        holes: true,
        links: true,
        changed: true,
        acls: true,
        transfer: TRANSFER,
    };
    let sink = SinkOptions {
        keep: Keep::default(),
        own: Own::default(),
        devices: false,
        update: false,
        ignore_times: false,
        checksum: case.checksum,
        manifest: case.manifest,
        accounts: None,
        sizes: 0..=u64::MAX,
        delete: case.delete,
        filter: Filter::default(),
        asked: Some(Asked::new(&source.origins, source.recursive, source.listed)),
        rehearse: false,
        spared_since: numaio_machine::port::Stamp { seconds: i64::MAX, nanoseconds: 0 },
        names: Names::Apart,
        spared: Spared::default(),
        made: false,
        tell: true,
        alias: None,
        in_place: false,
        sync: Sync::None,
        hash: HashKind::Xxh3,
        packed: false,
        acls: true,
        unasked: false,
        again: false,
        transfer: TRANSFER,
    };
    (Source::new(source).expect("a policy"), Sink::new(sink))
}

/// Does one thing that a side wants: false if it wants nothing. What it tells its user is heard at once, and what it sends is
/// put behind `said`.
fn step<C: Core<Vec<u8>>>(core: &mut C, disk: &Vast, said: &mut Vec<Packet<Vec<u8>>>) -> bool {
    drop(core.reports());
    match core.poll(Duration::ZERO) {
        Some(Command::Submit(ticket, operation)) => core.handle(Event::Done(ticket, disk.run(operation))),
        Some(Command::Send(packet)) => said.push(packet),
        None => return false,
    }
    true
}

fn transfer(case: Case, files: u64) {
    let size = u64::from(case.checksum);
    let folders = files / FOLDER;
    let from = Vast { folders, further: case.further, size, changed: Some(2) };
    let to = Vast { folders: 0, further: Further::Nowhere, size, changed: case.checksum.then_some(1) };
    let (mut source, mut sink) = sides(case);
    let mut said = Vec::new();
    loop {
        let source_works = step(&mut source, &from, &mut said);
        said.drain(..).for_each(|packet| sink.handle(Event::Received(packet)));
        let sink_works = step(&mut sink, &to, &mut said);
        said.drain(..).for_each(|packet| source.handle(Event::Received(packet)));
        if !source_works && !sink_works {
            break;
        }
    }
    assert!(sink.ended().is_some() && source.ended().is_some(), "{case:?}");
    let totals = sink.totals();
    assert_eq!((totals.entries, totals.failed), (folders * FOLDER + folders + 1, 0), "{case:?}");
}

/// Most memory that this process had until now, in bytes (proc_pid_status(5), `VmHWM`).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Peak of a process of its own that does nothing else.
fn measured(case: Case, files: u64) -> u64 {
    let mut command = std::process::Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", "a_run", "--nocapture"]).env(RUN, format!("{files} {}", case.name));
    let output = command.output().expect("this program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak =
        text.lines().find_map(|line| line.split_once("peak ")).and_then(|(_, digits)| digits.parse().ok());
    peak.unwrap_or_else(|| panic!("{}: {text}{}", case.name, String::from_utf8_lossy(&output.stderr)))
}

/// What [`measured`] starts; by itself it does nothing.
#[test]
fn a_run() {
    let Ok(text) = std::env::var(RUN) else { return };
    let (files, name) = text.split_once(' ').expect("files and a name");
    let case = CASES.into_iter().find(|case| case.name == name).expect("a case");
    transfer(case, files.parse().expect("a number"));
    writeln!(std::io::stdout(), "peak {}", peak()).expect("told");
}

#[test]
fn memory_does_not_grow_with_files_but_for_what_is_said() {
    if let Some(files) = std::env::var("NUMAIO_FILES").ok().and_then(|text| text.parse().ok()) {
        for case in CASES {
            let (few, all) = (measured(case, files / 4), measured(case, files));
            let each = all.saturating_sub(few) as f64 / (files - files / 4) as f64;
            let mib = all as f64 / f64::from(1 << 20);
            let _ = writeln!(
                std::io::stderr(),
                "{}: {files} files, {mib:.0} MiB, {each:.1} bytes each",
                case.name
            );
        }
        return;
    }
    // Enough that whatever is filled once is full.
    let (few, many) = (200_000, 300_000);
    // Those that take nothing for a file: what is under way at once differs, and how the allocator lays out the same.
    let alike = CASES.into_iter().filter(|case| case.most == 0.0);
    let base = alike.map(|case| measured(case, few)).max().unwrap_or_default();
    for case in CASES {
        let most = base + SLACK + (case.most * many as f64) as u64;
        let peak = measured(case, many);
        assert!(peak <= most, "{}: {peak} bytes with {many} files, and {base} with {few}", case.name);
    }
}
