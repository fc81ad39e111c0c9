//! Hard links, duplicate names, and names that the destination changes.

use crate::sides::{sink, sink_options, source, source_options};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::port::{Event, Fault, FaultKind, NameMatching, Operation, Outcome, Stamp};
use numaio_mover::report::Report;
use numaio_mover::simulator::{run, run_operations, Disk, Inode, Kind, Object};
use numaio_mover::sink::{Sink, SinkOptions};
use numaio_mover::source::{Source, SourceOptions};
use numaio_mover::wire::{ProblemSubject, Reason};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

type Outcomes = Outcome<Vec<u8>>;

/// Copies everything; returns the names with problems. `metadata` modifies the listings of the
/// source.
fn copy(from: &mut Disk, to: &mut Disk, metadata: impl Fn(Outcomes) -> Outcomes) -> BTreeSet<String> {
    copy_with(from, to, |_, outcome| metadata(outcome), |_, outcome| outcome)
}

/// Like [`copy`]; the functions modify outcomes, given whether the operation is a write.
fn copy_with(
    from: &mut Disk,
    to: &mut Disk,
    at_source: impl Fn(bool, Outcomes) -> Outcomes,
    at_sink: impl Fn(bool, Outcomes) -> Outcomes,
) -> BTreeSet<String> {
    copy_by((source(false, false), sink(false)), (from, to), at_source, at_sink)
}

/// Like [`copy_with`], with these sides.
fn copy_by(
    (mut source, mut sink): (Source<Vec<u8>>, Sink<Vec<u8>>),
    (from, to): (&mut Disk, &mut Disk),
    at_source: impl Fn(bool, Outcomes) -> Outcomes,
    at_sink: impl Fn(bool, Outcomes) -> Outcomes,
) -> BTreeSet<String> {
    let run_modified =
        |disk: &mut Disk, operation: Operation<_>, modify: &dyn Fn(bool, Outcomes) -> Outcomes| {
            let is_write = matches!(operation, Operation::Write { .. });
            modify(is_write, disk.run(operation))
        };
    run(
        (&mut source, &mut sink),
        |operation| run_modified(from, operation, &at_source),
        |operation| run_modified(to, operation, &at_sink),
    );
    let name = |report| match report {
        Report::Problem(problem) => match problem.about {
            ProblemSubject::File(_, name) | ProblemSubject::Name(name) => Some(name.to_string()),
            ProblemSubject::Transfer => panic!("{:?}", problem.text),
        },
        _ => None,
    };
    sink.reports().into_iter().filter_map(name).collect()
}

/// Sorts a listing by name.
fn by_name(outcome: Outcomes) -> Outcomes {
    match outcome {
        Outcome::Listed(Ok(mut listing)) => {
            listing.found.sort_by(|one, other| one.0.cmp(&other.0));
            Outcome::Listed(Ok(listing))
        }
        outcome => outcome,
    }
}

fn file(content: &[u8]) -> Inode {
    let object = Object::File(content.to_vec(), BTreeSet::from([0]));
    let mtime = Stamp { seconds: content.len() as i64, nanoseconds: 0 };
    Inode { object, mode: 0o640, user: 0, group: 0, mtime, xattrs: Vec::new() }
}

fn content(disk: &Disk, name: &str) -> Option<Vec<u8>> {
    match disk.tree().remove(name.as_bytes())?.1.object {
        Object::File(content, _) => Some(content),
        _ => None,
    }
}

#[test]
fn duplicate_name_fails_once_and_the_file_is_complete() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    let large = vec![7; 3 << 20];
    from.put(b"f", Inode { object: Object::File(large.clone(), (0..768).collect()), ..file(b"") });
    let twice = |outcome| match outcome {
        Outcome::Listed(Ok(mut listing)) => {
            let again = listing.found.clone();
            listing.found.extend(again);
            Outcome::Listed(Ok(listing))
        }
        outcome => outcome,
    };
    assert_eq!(copy(&mut from, &mut to, twice), BTreeSet::from(["f".to_owned()]));
    assert!(content(&to, "f") == Some(large));
}

#[test]
fn hard_link_to_a_failed_file_keeps_its_old_content() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    to.put(b"a", file(b"old"));
    to.put(b"b", file(&[9; 900]));
    to.capacity = 10;
    let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    assert_eq!(copy(&mut from, &mut to, by_name), both);
    assert_eq!(content(&to, "a"), Some(b"old".to_vec()));
    assert_eq!(content(&to, "b"), Some(vec![9; 900]));
    to.capacity = u64::MAX;
    assert_eq!(copy(&mut from, &mut to, by_name), BTreeSet::new());
    assert_eq!(to.tree()[&b"a"[..]].0, to.tree()[&b"b"[..]].0, "hard links of one file");
}

/// Both old files have the expected size and mtime, and are copied because of `ignore_times`.
#[test]
fn hard_link_to_a_failed_file_keeps_old_content_of_equal_age() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    to.put(b"a", file(&[0; 900]));
    to.put(b"b", file(&[9; 900]));
    to.capacity = 10;
    let ignore_times = SinkOptions { ignore_times: true, ..sink_options(false) };
    let sides = (source(false, false), Sink::new(ignore_times));
    let problems = copy_by(sides, (&mut from, &mut to), |_, outcome| by_name(outcome), |_, outcome| outcome);
    assert_eq!(problems, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(content(&to, "a"), Some(vec![0; 900]));
    assert_eq!(content(&to, "b"), Some(vec![9; 900]));
}

/// The name `notes.` of the source is listed as `notes`, as on FAT.
#[test]
fn name_without_its_trailing_dot_is_not_removed() {
    for (names, expected) in [
        (NameMatching::CaseInsensitiveTrimmed, &["old"][..]),
        (NameMatching::CaseInsensitive, &["notes", "old"]),
    ] {
        let (mut from, mut to) = (Disk::default(), Disk::default());
        from.put(b"notes.", file(b"new"));
        [&b"notes."[..], b"old"].into_iter().for_each(|name| to.put(name, file(b"new")));
        let options = SinkOptions { delete: true, names, ..sink_options(false) };
        let mut removed = BTreeSet::new();
        let at_sink = |operation| {
            if let Operation::Remove(all) = &operation {
                removed.extend(all.iter().map(|at| String::from_utf8_lossy(&at.name).into_owned()));
            }
            match to.run(operation) {
                Outcome::Listed(Ok(mut listing)) => {
                    let cut = listing.found.iter_mut().filter(|(name, _)| **name == *b"notes.");
                    cut.for_each(|(name, _)| *name = (*b"notes").into());
                    Outcome::Listed(Ok(listing))
                }
                outcome => outcome,
            }
        };
        run((&mut source(false, false), &mut Sink::new(options)), |operation| from.run(operation), at_sink);
        assert_eq!(removed.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{names:?}");
    }
}

/// The destination stores even seconds only, as FAT does.
#[test]
fn odd_seconds_match_even_ones_on_fat() {
    for (names, moved) in
        [(NameMatching::CaseInsensitiveTrimmed, [1, 0]), (NameMatching::CaseInsensitive, [1, 1])]
    {
        let (mut from, mut to) = (Disk::default(), Disk::default());
        from.put(b"f", Inode { mtime: Stamp { seconds: 905, nanoseconds: 7 }, ..file(b"new") });
        let problems = [(); 2].map(|()| {
            let options = SinkOptions { names, ..sink_options(false) };
            let (mut source, mut sink) = (source(false, false), Sink::new(options));
            let even = |stamp: Stamp| Stamp { seconds: stamp.seconds & !1, nanoseconds: 0 };
            let at_sink = |operation| match to.run(operation) {
                Outcome::Stat(mut found) => {
                    for found in found.iter_mut().flatten().flatten().filter(|found| found.metadata.size > 0)
                    {
                        (found.metadata.mtime, found.metadata.ctime) =
                            (even(found.metadata.mtime), even(found.metadata.ctime));
                    }
                    Outcome::Stat(found)
                }
                outcome => outcome,
            };
            run((&mut source, &mut sink), |operation| from.run(operation), at_sink);
            sink.totals().moved
        });
        assert_eq!(problems, moved, "{names:?}");
    }
}

/// The disk is full when the journal is created, and the user interrupts the transfer.
#[test]
fn partial_files_without_a_journal_are_removed() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"f", Inode { object: Object::File(vec![7; 9 << 20], (0..2_304).collect()), ..file(b"") });
    for is_noted in [false, true] {
        let (mut source, mut sink) = (source(false, false), sink(false));
        let (mut written, mut sent) = (0, VecDeque::new());
        while sink.outcome().is_none() {
            sent.extend(run_operations(&mut source, |operation| from.run(operation)));
            sent.pop_front().into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
            let at_sink = |operation| match operation {
                Operation::WriteJournal(_) if !is_noted => {
                    Outcome::Results(vec![Err(Fault::new(FaultKind::NoSpace, "disk full"))])
                }
                operation => {
                    written += usize::from(matches!(operation, Operation::Write { data: Some(_), .. }));
                    to.run(operation)
                }
            };
            let answers = run_operations(&mut sink, at_sink);
            answers.into_iter().for_each(|packet| source.handle(Event::Received(packet)));
            if written > 0 {
                sink.stop(Reason::Cancelled, "enough");
            }
        }
        let is_left = to.tree().keys().any(|name| name.starts_with(b".numaio-part-"));
        assert_eq!(is_left, is_noted);
    }
}

#[test]
fn hard_link_to_a_file_that_lacks_only_an_attribute_is_created() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    to.put(b"a", file(b"old"));
    to.put(b"b", file(b"older"));
    let no_owner = |is_write, outcome| match outcome {
        Outcome::Results(results) if is_write => {
            let fault = |_| Err(Fault::new(FaultKind::Permission, "set its owner"));
            Outcome::Results(results.into_iter().map(fault).collect())
        }
        outcome => outcome,
    };
    let problems = copy_with(&mut from, &mut to, |_, outcome| by_name(outcome), no_owner);
    assert_eq!(problems, BTreeSet::from(["a".to_owned()]));
    assert_eq!(content(&to, "b"), Some(vec![9; 900]));
}

#[test]
fn hard_link_to_a_skipped_file_is_not_created() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", Inode { object: Object::Special(Kind::CharacterDevice(1, 3)), ..file(b"") });
    from.link(b"a", b"b");
    to.put(b"a", file(b"old"));
    let problems = copy(&mut from, &mut to, |outcome| outcome);
    assert_eq!(problems, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(content(&to, "b"), None, "devices are skipped");
}

#[test]
fn directory_creation_failure_is_reported_once() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"d", Inode { object: Object::Directory(Default::default()), ..file(b"") });
    let (mut source, mut sink) = (source(false, false), sink(false));
    let refused = |operation| match operation {
        Operation::Create(all) => {
            Outcome::Results(vec![Err(Fault::new(FaultKind::Permission, "make a directory")); all.len()])
        }
        other => to.run(other),
    };
    run((&mut source, &mut sink), |operation| from.run(operation), refused);
    // The existing root, and the directory.
    assert_eq!(sink.totals().failed, 2);
}

#[test]
fn names_become_separate_files_without_hard_link_support() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    let source_options = SourceOptions { links: false, ..source_options(false, false) };
    let (mut source, mut sink) = (Source::new(source_options).expect("a policy"), sink(false));
    run((&mut source, &mut sink), |operation| from.run(operation), |operation| to.run(operation));
    assert_eq!([content(&to, "a"), content(&to, "b")], [Some(vec![9; 900]), Some(vec![9; 900])]);
    assert_ne!(to.tree()[&b"a"[..]].0, to.tree()[&b"b"[..]].0);
}

#[test]
fn reused_inode_is_not_a_hard_link_of_the_removed_file() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    let directory = || Inode { object: Object::Directory(Default::default()), ..file(b"") };
    from.put(b"old", directory());
    from.put(b"new", directory());
    from.put(b"old/a", file(b"what was"));
    from.link(b"old/a", b"old/b");
    let (mut source, mut sink) = (source(false, false), sink(false));
    // The second directory is listed when the files of the first are copied and removed.
    let mut late = None;
    while sink.outcome().is_none() || source.outcome().is_none() {
        let mut sent = Vec::new();
        while let Some(command) = source.poll(Duration::ZERO) {
            match command {
                PortCommand::Submit(ticket, Operation::List { directory, most, details })
                    if *directory.name == *b"new" =>
                {
                    late = Some((ticket, Operation::List { directory, most, details }));
                }
                PortCommand::Submit(ticket, operation) => {
                    source.handle(Event::Done(ticket, from.run(operation)))
                }
                PortCommand::Send(packet) => sent.push(packet),
            }
        }
        let answers = run_operations(&mut sink, |operation| to.run(operation));
        if sent.is_empty() && answers.is_empty() {
            let (ticket, list) = late.take().expect("an operation in flight");
            from.replace(b"old/a", b"new/c", file(b"what is there now"));
            from.link(b"new/c", b"new/d");
            source.handle(Event::Done(ticket, from.run(list)));
        }
        sent.into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
        answers.into_iter().for_each(|packet| source.handle(Event::Received(packet)));
    }
    assert_eq!(sink.totals().failed, 0);
    let moved = ["old/a", "old/b", "new/c", "new/d"].map(|name| content(&to, name));
    let [was, is] = [b"what was".to_vec(), b"what is there now".to_vec()].map(Some);
    assert_eq!(moved, [was.clone(), was, is.clone(), is]);
    let number = |name: &[u8]| to.tree()[name].0;
    assert_eq!([number(b"old/a"), number(b"new/c")], [number(b"old/b"), number(b"new/d")]);
}
