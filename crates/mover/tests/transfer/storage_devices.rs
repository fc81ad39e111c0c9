//! Sources on several storage devices, whose operations complete in any order.

use crate::sides::{found, sink_options, source_options};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::filter::Filter;
use numaio_mover::name::Name;
use numaio_mover::port::{Details, Event, FileKind, Listing, NameMatching, Operation, Outcome, Ticket};
use numaio_mover::report::TransferOutcome;
use numaio_mover::simulator::{run_operations, Chance, Disk, Inode, Object};
use numaio_mover::sink::{RequestedEntries, Sink, SinkOptions};
use numaio_mover::source::{Origin, ReadOrder, Source, SourceDevice, SourceOptions, SourceStorage};
use std::collections::BTreeMap;
use std::time::Duration;

const SEEDS: u64 = 300;

/// The disks of a source, one for each root.
struct Disks(Vec<Disk>);

impl Disks {
    /// Returns the disk that an operation reads. Numbers of listings are made unique by
    /// [`Disks::run`].
    fn of(&self, operation: &Operation<Vec<u8>>) -> usize {
        match operation {
            Operation::List { directory, .. } => directory.root as usize,
            Operation::ListMore { listing, .. } => *listing as usize % self.0.len(),
            Operation::Read { pieces, .. } => pieces[0].at.root as usize,
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        let count = self.0.len();
        match operation {
            Operation::Stat { at, details, .. } => {
                let look = |at: numaio_mover::port::FilePath| {
                    let disk = &mut self.0[at.root as usize];
                    match disk.run(Operation::Stat { at: vec![at], details, links: Vec::new() }) {
                        Outcome::Stat(mut found) => found.remove(0),
                        other => panic!("{other:?}"),
                    }
                };
                Outcome::Stat(at.into_iter().map(look).collect())
            }
            Operation::ListMore { listing, most, details } => {
                let (disk, listing) = (listing as usize % count, listing / count as u64);
                self.listed(disk, Operation::ListMore { listing, most, details })
            }
            operation @ Operation::List { .. } => self.listed(self.of(&operation), operation),
            Operation::Read { pieces, hash, .. } => {
                // A bundle may have files of several directories of a device.
                let (mut all, mut bytes) = (Vec::new(), Vec::new());
                for piece in pieces {
                    let (disk, length) = (piece.at.root as usize, piece.length);
                    let read = Operation::Read { pieces: vec![piece], hash, pack: None };
                    let Outcome::Read { results, data, .. } = self.0[disk].run(read) else {
                        panic!("a read")
                    };
                    all.extend(results);
                    bytes.extend_from_slice(&data[..length]);
                }
                Outcome::Read { results: all, data: bytes, packed: None }
            }
            other => panic!("{other:?}"),
        }
    }

    fn listed(&mut self, disk: usize, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        let count = self.0.len() as u64;
        match self.0[disk].run(operation) {
            Outcome::Listed(listing) => Outcome::Listed(listing.map(|mut listing| {
                listing.more = listing.more.map(|more| more * count + disk as u64);
                listing
            })),
            other => other,
        }
    }
}

fn inode(object: Object) -> Inode {
    let mtime = found(FileKind::File).metadata.mtime;
    Inode { object, mode: 0o755, user: 0, group: 0, mtime, xattrs: Vec::new() }
}

/// Creates sides that copy an entry of each disk, or everything that it has.
fn sides(only: &[Option<&str>], devices: usize) -> (Source<Vec<u8>>, Sink<Vec<u8>>) {
    sides_in_order(only, &vec![ReadOrder::Inode; devices])
}

/// Creates such sides with a device for each order of reads.
fn sides_in_order(only: &[Option<&str>], orders: &[ReadOrder]) -> (Source<Vec<u8>>, Sink<Vec<u8>>) {
    let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
    let origin = |(root, only): (usize, &Option<&str>)| Origin {
        root: root as u32,
        only: only.map(name),
        enter: true,
        with_parents: false,
    };
    let origins: Vec<Origin> = only.iter().enumerate().map(origin).collect();
    let requested = Some(RequestedEntries::new(&origins, true, false));
    let devices = orders.iter().map(|&order| SourceDevice { reads: 2, order }).collect();
    let of_roots = (0..only.len()).map(|root| root % orders.len()).collect();
    let storage = SourceStorage::new(devices, of_roots).expect("devices");
    let source =
        SourceOptions { origins, storage, filter: Filter::default(), ..source_options(false, false) };
    let sink = sink_options(false);
    (Source::new(source).expect("a policy"), Sink::new(SinkOptions { requested, ..sink }))
}

/// Copies to an empty disk. Operations of the source for which `next` returns no index wait.
fn copy(
    (mut source, mut sink): (Source<Vec<u8>>, Sink<Vec<u8>>),
    mut at_source: impl FnMut(Operation<Vec<u8>>) -> Outcome<Vec<u8>>,
    mut next: impl FnMut(&[(Ticket, Operation<Vec<u8>>)]) -> Option<usize>,
) -> (Disk, Option<TransferOutcome>) {
    let (mut to, mut pending) = (Disk::default(), Vec::new());
    loop {
        let mut sent = Vec::new();
        while let Some(command) = source.poll(Duration::ZERO) {
            match command {
                PortCommand::Submit(ticket, operation) => pending.push((ticket, operation)),
                PortCommand::Send(packet) => sent.push(packet),
            }
        }
        let is_idle = sent.is_empty();
        sent.into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
        let answers = run_operations(&mut sink, |operation| to.run(operation));
        let is_idle = is_idle && answers.is_empty();
        answers.into_iter().for_each(|packet| source.handle(Event::Received(packet)));
        match next(&pending) {
            Some(index) => {
                let (ticket, operation) = pending.remove(index);
                source.handle(Event::Done(ticket, at_source(operation)));
            }
            None if is_idle => return (to, sink.outcome().cloned()),
            None => {}
        }
    }
}

/// Generates a tree of few names; every file has the number of its disk as content.
fn tree(number: u8, chance: &mut Chance) -> Disk {
    let mut disk = Disk::default();
    for _ in 0..chance.below(25) {
        let parts = (0..=chance.below(3)).map(|_| ["a", "b", "c"][chance.below(3) as usize]);
        let name = parts.collect::<Vec<_>>().join("/").into_bytes();
        let above = name.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |slash| &name[..slash]);
        let tree = disk.tree();
        let is_directory = matches!(tree.get(above), Some((_, Inode { object: Object::Directory(_), .. })));
        if tree.contains_key(&name) || !is_directory {
            continue;
        }
        let object = match chance.once_in(2) {
            true => Object::Directory(Default::default()),
            false => Object::File(vec![number; 300], [0].into()),
        };
        disk.put(&name, Inode { mode: 0o700 + u32::from(number), ..inode(object) });
    }
    disk
}

/// Returns the objects of a destination by name, without those of the sink itself.
fn objects(disk: &Disk) -> BTreeMap<Vec<u8>, Inode> {
    let own = |name: &[u8]| name.starts_with(b".numaio");
    let all = disk.tree().into_iter().filter(|(name, _)| !own(name));
    all.map(|(name, (_, mut inode))| {
        if let Object::Directory(entries) = &mut inode.object {
            // Inode numbers depend on the order of creation.
            entries.clear();
        }
        (name, inode)
    })
    .collect()
}

#[test]
fn first_source_with_a_name_wins_in_any_order_of_completion() {
    for seed in 0..SEEDS {
        let mut chance = Chance::new(seed);
        let only: &[Option<&str>] = match chance.below(4) {
            0 => &[Some("a"), Some("a"), None],
            1 => &[Some("a"), Some("b"), Some("a")],
            _ => &[None, None, None],
        };
        let make = |chance: &mut Chance| Disks((0..3).map(|number| tree(number, chance)).collect());
        let mut disks = make(&mut Chance::new(seed));
        let in_order = |pending: &[_]| (!pending.is_empty()).then_some(0);
        let (expected, outcome) = copy(sides(only, 1), |operation| disks.run(operation), in_order);
        assert_eq!(outcome, Some(TransferOutcome::Done), "seed {seed}");
        let mut disks = make(&mut Chance::new(seed));
        let any = |pending: &[_]| match pending.len() as u64 {
            0 => None,
            count => Some(chance.below(count) as usize),
        };
        let (found, outcome) =
            copy(sides(only, 2 + seed as usize % 2), |operation| disks.run(operation), any);
        assert_eq!(outcome, Some(TransferOutcome::Done), "seed {seed}");
        let summary = |disk: &Disk| -> Vec<String> {
            let all = objects(disk).into_iter();
            all.map(|(name, inode)| format!("{} {:o}", String::from_utf8_lossy(&name), inode.mode)).collect()
        };
        assert_eq!(summary(&found), summary(&expected), "seed {seed}, {only:?}");
    }
}

/// Returns the next names of a directory with more files than fit into the window.
fn list_many(from: u64, most: usize) -> Outcome<Vec<u8>> {
    const FILES: u64 = 20_000;
    let to = FILES.min(from + most as u64);
    let file = |number: u64| {
        let mut file = found(FileKind::File);
        (file.metadata.inode, file.metadata.size) = (number, 5);
        (format!("slow-{number}").into_bytes().into(), Ok(file))
    };
    let more = Some(to).filter(|to| *to < FILES);
    Outcome::Listed(Ok(Listing { found: (from..to).map(file).collect(), more, names: NameMatching::Exact }))
}

#[test]
fn device_that_does_not_respond_delays_only_its_own_files() {
    let mut fast = Disk::default();
    fast.put(b"fast", inode(Object::Directory(Default::default())));
    for number in 0..1_000 {
        let file = inode(Object::File(vec![0; 5], [0].into()));
        fast.put(format!("fast/{number}").as_bytes(), file);
    }
    let mut slow = Disk::default();
    slow.put(b"slow", inode(Object::Directory(Default::default())));
    let mut disks = Disks(vec![slow, fast]);
    let at_source = |operation: Operation<Vec<u8>>| match operation {
        Operation::List { directory, most, .. } if directory.root == 0 => list_many(0, most),
        // The other directory's listings have odd numbers.
        Operation::ListMore { listing, most, .. } if listing % 512 == 0 => list_many(listing, most),
        operation => disks.run(operation),
    };
    let is_answered = |operation: &Operation<Vec<u8>>| match operation {
        Operation::Read { pieces, .. } => pieces[0].at.root == 1,
        _ => true,
    };
    let next = |pending: &[(Ticket, Operation<Vec<u8>>)]| pending.iter().position(|(_, it)| is_answered(it));
    let (found, outcome) = copy(sides(&[Some("slow"), Some("fast")], 2), at_source, next);
    assert_eq!(outcome, None, "the first device still reads");
    let files = objects(&found).into_iter().filter(|(_, it)| matches!(it.object, Object::File(..)));
    let names: Vec<Vec<u8>> = files.map(|(name, _)| name).collect();
    assert!(names.len() == 1_000 && names.iter().all(|name| name.starts_with(b"fast/")), "{}", names.len());
}

#[test]
fn each_device_is_read_in_its_own_order() {
    let mut disks = Disks(vec![Disk::default(), Disk::default()]);
    for number in 0..100 {
        for (disk, name) in disks.0.iter_mut().zip(["a", "b"]) {
            disk.put(format!("{name}{number}").as_bytes(), inode(Object::File(vec![0; 300], [0].into())));
        }
    }
    let mut read = [Vec::new(), Vec::new()];
    let at_source = |operation: Operation<Vec<u8>>| {
        if let Operation::Read { pieces, .. } = &operation {
            pieces.iter().for_each(|piece| read[piece.at.root as usize].push(piece.at.clone()));
        }
        disks.run(operation)
    };
    let sides = sides_in_order(&[None, None], &[ReadOrder::PhysicalIfSlow, ReadOrder::Inode]);
    let next = |pending: &[_]| (!pending.is_empty()).then_some(0);
    assert_eq!(copy(sides, at_source, next).1, Some(TransferOutcome::Done));
    let [by_address, by_inode] = read.map(|at| {
        let details = Details { address: true, ..Details::default() };
        let Outcome::Stat(found) = disks.run(Operation::Stat { at, details, links: Vec::new() }) else {
            panic!("expected a lookup")
        };
        let found = found.into_iter().map(|found| found.expect("a file").expect("a file"));
        found.map(|found| (found.metadata.inode, found.address.expect("an address"))).collect::<Vec<_>>()
    });
    assert!(by_address.len() == 100 && by_inode.len() == 100);
    assert!(by_address.is_sorted_by_key(|(_, address)| *address) && !by_address.is_sorted());
    assert!(by_inode.is_sorted() && !by_inode.is_sorted_by_key(|(_, address)| *address));
}
