//! Memory use of both sides per file, measured with virtual disks that generate any number of files
//! and need neither space nor time.
//!
//! `NUMAIO_FILES=10000000` measures with this number and prints the peak of each case;
//! docs/copy/tuning.md has the table.

use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::port::{
    ContentHash, Event, FileInfo, FileKind, FilePath, FileStat, JournalState, ListedEntry, Listing,
    NameMatching, OpenedJournal, Operation, Outcome, Packet, Stamp,
};
use numaio_mover::simulator::{all_of_root, sink_options, source_options};
use numaio_mover::sink::{RequestedEntries, Sink, SinkOptions};
use numaio_mover::source::{Origin, Source, SourceOptions};
use std::io::Write;
use std::time::Duration;

/// Files per folder.
const FOLDER: u64 = 1_000;
/// Bytes by which two runs may differ for other reasons.
const SLACK: u64 = 3 << 20;
/// Environment variable for the child process: the number of files and the name of a case.
const RUN: &str = "NUMAIO_MANY";

/// A transfer to measure, and its memory limit.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    delete: bool,
    checksum: bool,
    manifest: bool,
    /// Location of a second hard link of each file.
    second_name: SecondName,
    /// Whether there are two sources that may overlap.
    merged: bool,
    /// Maximum bytes of memory per file.
    most: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondName {
    None,
    /// A folder in the second half.
    SecondHalf,
    /// A folder that is not copied.
    NotCopied,
}

const PLAIN: Case = Case {
    name: "plain",
    delete: false,
    checksum: false,
    manifest: false,
    second_name: SecondName::None,
    merged: false,
    most: 0.0,
};

const CASES: [Case; 7] = [
    PLAIN,
    Case { name: "delete", delete: true, most: 9.0, ..PLAIN },
    Case { name: "checksum", checksum: true, ..PLAIN },
    Case { name: "manifest", manifest: true, ..PLAIN },
    Case { name: "two links each", second_name: SecondName::SecondHalf, most: 14.0, ..PLAIN },
    Case { name: "links outside", second_name: SecondName::NotCopied, most: 14.0, ..PLAIN },
    Case { name: "merged sources", merged: true, most: 20.0, ..PLAIN },
];

/// A virtual disk with folders of files; as a destination, it is empty or has the same files.
struct VirtualTree {
    folders: u64,
    second_name: SecondName,
    size: u64,
    /// The mtime of all files in seconds since 1970; `None` if there are no files.
    changed: Option<i64>,
}

impl VirtualTree {
    fn found(&self, kind: FileKind, inode: u64) -> FileInfo {
        let links = if self.second_name == SecondName::None || kind != FileKind::File { 1 } else { 2 };
        let size = if kind == FileKind::File { self.size } else { 0 };
        let mtime = Stamp { seconds: self.changed.unwrap_or_default(), nanoseconds: 0 };
        let ctime = mtime;
        let metadata =
            FileStat { kind, mode: 0o644, user: 0, group: 0, size, mtime, ctime, inode, volume: 1, links };
        FileInfo { metadata, ..crate::sides::found(kind) }
    }

    /// Returns the object with a name: a folder unless it contains a slash.
    fn look(&self, at: &FilePath) -> Option<FileInfo> {
        let is_file = at.name.contains(&b'/');
        let kind = if is_file { FileKind::File } else { FileKind::Directory };
        (at.name.is_empty() || self.changed.is_some()).then(|| self.found(kind, 1))
    }

    /// Returns part of a listing. Folder 0 is the root; `more` encodes the folder and the position.
    fn list(&self, folder: u64, from: u64, most: usize) -> Listing {
        let all = if folder == 0 { self.folders } else { FOLDER };
        let end = all.min(from + most as u64);
        let one = |index: u64| -> ListedEntry {
            if folder == 0 {
                return (
                    format!("folder-{index:05}").into_bytes().into(),
                    Ok(self.found(FileKind::Directory, index)),
                );
            }
            let half = self.folders.div_ceil(2);
            let first =
                if self.second_name == SecondName::SecondHalf { (folder - 1) % half } else { folder - 1 };
            let inode = 1_000_000 + first * FOLDER + index;
            (format!("file-{index:05}").into_bytes().into(), Ok(self.found(FileKind::File, inode)))
        };
        Listing {
            found: (from..end).map(one).collect(),
            more: (end < all).then_some(folder << 32 | end),
            names: NameMatching::Exact,
        }
    }

    fn run(&self, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        let done = |count: usize| Outcome::Results(vec![Ok(()); count]);
        match operation {
            Operation::List { directory, most, .. } => {
                let index = directory
                    .name
                    .strip_prefix(b"folder-")
                    .and_then(|digits| std::str::from_utf8(digits).ok());
                let folder = index.map_or(0, |digits| digits.parse::<u64>().expect("a number") + 1);
                Outcome::Listed(Ok(self.list(folder, 0, most)))
            }
            Operation::ListMore { listing, most, .. } => {
                Outcome::Listed(Ok(self.list(listing >> 32, listing & 0xffff_ffff, most)))
            }
            Operation::Stat { at, .. } => Outcome::Stat(at.iter().map(|at| Ok(self.look(at))).collect()),
            Operation::HashFile(summing) => Outcome::HashedFile(Ok(ContentHash { ended: true, ..summing })),
            Operation::Read { .. } => panic!("unexpected read of file data"),
            Operation::Write { puts, .. } => done(puts.len()),
            Operation::Create(all) => done(all.len()),
            Operation::SetAttributes(all) => done(all.len()),
            Operation::Remove(all) => done(all.len()),
            Operation::RemoveSources(all) => done(all.len()),
            Operation::OpenJournal { .. } => {
                Outcome::OpenedJournal(Ok(OpenedJournal { state: JournalState::Absent, has_others: false }))
            }
            Operation::WriteJournal(_) | Operation::Sync { .. } => done(1),
        }
    }
}

fn sides(case: Case) -> (Source<Vec<u8>>, Sink<Vec<u8>>) {
    let Case { checksum, manifest, delete, merged, .. } = case;
    let origins: Vec<Origin> = (0..if merged { 2 } else { 1 }).map(all_of_root).collect();
    let requested = Some(RequestedEntries::new(&origins, true, false));
    let source = SourceOptions { origins, xattrs: false, ..source_options() };
    let sink = SinkOptions { checksum, manifest, delete, requested, report_changes: true, ..sink_options() };
    (Source::new(source).expect("a policy"), Sink::new(sink))
}

/// Executes one command of a side; returns `false` if there is none. Discards reports, and appends
/// packets to `sent`.
fn step<C: TransferCore<Vec<u8>>>(core: &mut C, disk: &VirtualTree, sent: &mut Vec<Packet<Vec<u8>>>) -> bool {
    drop(core.reports());
    match core.poll(Duration::ZERO) {
        Some(PortCommand::Submit(ticket, operation)) => core.handle(Event::Done(ticket, disk.run(operation))),
        Some(PortCommand::Send(packet)) => sent.push(packet),
        None => return false,
    }
    true
}

fn transfer(case: Case, files: u64) {
    let size = u64::from(case.checksum);
    let folders = files / FOLDER;
    let from = VirtualTree { folders, second_name: case.second_name, size, changed: Some(2) };
    let to =
        VirtualTree { folders: 0, second_name: SecondName::None, size, changed: case.checksum.then_some(1) };
    let (mut source, mut sink) = sides(case);
    let mut sent = Vec::new();
    loop {
        let source_works = step(&mut source, &from, &mut sent);
        sent.drain(..).for_each(|packet| sink.handle(Event::Received(packet)));
        let sink_works = step(&mut sink, &to, &mut sent);
        sent.drain(..).for_each(|packet| source.handle(Event::Received(packet)));
        if !source_works && !sink_works {
            break;
        }
    }
    assert!(sink.outcome().is_some() && source.outcome().is_some(), "{case:?}");
    let totals = sink.totals();
    assert_eq!((totals.entries, totals.failed), (folders * FOLDER + folders + 1, 0), "{case:?}");
}

/// Returns the peak memory use of this process in bytes (proc_pid_status(5), `VmHWM`).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Returns the peak memory use of a child process that runs only this transfer.
fn measure_peak(case: Case, files: u64) -> u64 {
    let mut command = std::process::Command::new(std::env::current_exe().expect("a program"));
    command
        .args(["--exact", "memory_use::child_process", "--nocapture"])
        .env(RUN, format!("{files} {}", case.name));
    let output = command.output().expect("this program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak =
        text.lines().find_map(|line| line.split_once("peak ")).and_then(|(_, digits)| digits.parse().ok());
    peak.unwrap_or_else(|| panic!("{}: {text}{}", case.name, String::from_utf8_lossy(&output.stderr)))
}

/// Started by [`measure_peak`]; without its environment variable it does nothing.
#[test]
fn child_process() {
    let Ok(text) = std::env::var(RUN) else { return };
    let (files, name) = text.split_once(' ').expect("files and a name");
    let case = CASES.into_iter().find(|case| case.name == name).expect("a case");
    transfer(case, files.parse().expect("a number"));
    writeln!(std::io::stdout(), "peak {}", peak()).expect("standard output");
}

#[test]
fn memory_per_file_is_within_its_limit() {
    if let Some(files) = std::env::var("NUMAIO_FILES").ok().and_then(|text| text.parse().ok()) {
        for case in CASES {
            let (few, all) = (measure_peak(case, files / 4), measure_peak(case, files));
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
    // Enough files to fill all buffers and windows.
    let (few, many) = (200_000, 300_000);
    // Cases without per-file memory differ in what is in flight, and in allocator layout.
    let alike = CASES.into_iter().filter(|case| case.most == 0.0);
    let base = alike.map(|case| measure_peak(case, few)).max().unwrap_or_default();
    for case in CASES {
        let most = base + SLACK + (case.most * many as f64) as u64;
        let peak = measure_peak(case, many);
        assert!(peak <= most, "{}: {peak} bytes with {many} files, and {base} with {few}", case.name);
    }
}
