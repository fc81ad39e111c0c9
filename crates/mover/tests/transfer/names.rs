//! Files of several names, and names that are told twice.

use numaio_machine::port::{Event, Fault, Names, Operation, Outcome, Stamp, Why};
use numaio_mover::drive::{PortCommand,TransferCore};
use numaio_mover::report::Report;
use numaio_mover::sink::{PreserveOptions, WriterIdentity, Sink, SinkOptions};
use numaio_mover::source::{Source, SourceOptions};
use numaio_mover::wire::{ProblemSubject, Reason};
use numaio_sim::mover::{Disk, Inode, Kind, Object};
use crate::sides::{sink_options, run, sink, source, source_options, run_operations};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

type Outcomes = Outcome<Vec<u8>>;

/// Copies all; the names of which something was told to be wrong. What the source lists it sees in some way.
fn copy(from: &mut Disk, to: &mut Disk, seen: impl Fn(Outcomes) -> Outcomes) -> BTreeSet<String> {
    copy_with(from, to, |_, outcome| seen(outcome), |_, outcome| outcome)
}

/// The same; each side hears of its operations, and whether they are writes, in some way.
fn copy_with(
    from: &mut Disk,
    to: &mut Disk,
    at_source: impl Fn(bool, Outcomes) -> Outcomes,
    at_sink: impl Fn(bool, Outcomes) -> Outcomes,
) -> BTreeSet<String> {
    copy_by((source(false, false), sink(false)), (from, to), at_source, at_sink)
}

/// The same by sides that were made for it.
fn copy_by(
    (mut source, mut sink): (Source<Vec<u8>>, Sink<Vec<u8>>),
    (from, to): (&mut Disk, &mut Disk),
    at_source: impl Fn(bool, Outcomes) -> Outcomes,
    at_sink: impl Fn(bool, Outcomes) -> Outcomes,
) -> BTreeSet<String> {
    let hear = |disk: &mut Disk, operation: Operation<_>, heard: &dyn Fn(bool, Outcomes) -> Outcomes| {
        let is_write = matches!(operation, Operation::Write { .. });
        heard(is_write, disk.run(operation))
    };
    run(
        (&mut source, &mut sink),
        |operation| hear(from, operation, &at_source),
        |operation| hear(to, operation, &at_sink),
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

/// What is listed, in the order of names.
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
fn a_name_that_is_told_twice_fails_once_and_is_whole() {
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
fn a_further_name_of_a_file_that_failed_keeps_what_it_has() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    to.put(b"a", file(b"old"));
    to.put(b"b", file(&[9; 900]));
    to.room = 10;
    let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    assert_eq!(copy(&mut from, &mut to, by_name), both);
    assert_eq!(content(&to, "a"), Some(b"old".to_vec()));
    assert_eq!(content(&to, "b"), Some(vec![9; 900]));
    to.room = u64::MAX;
    assert_eq!(copy(&mut from, &mut to, by_name), BTreeSet::new());
    assert_eq!(to.tree()[&b"a"[..]].0, to.tree()[&b"b"[..]].0, "one file of two names");
}

/// What both names have is as large and old as what they are to have, and is asked for all the same.
#[test]
fn a_further_name_of_a_file_that_failed_keeps_what_is_as_old() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    to.put(b"a", file(&[0; 900]));
    to.put(b"b", file(&[9; 900]));
    to.room = 10;
    let anew = SinkOptions { ignore_times: true, ..sink_options(false, PreserveOptions::default(), WriterIdentity::default()) };
    let sides = (source(false, false), Sink::new(anew));
    let told = copy_by(sides, (&mut from, &mut to), |_, outcome| by_name(outcome), |_, outcome| outcome);
    assert_eq!(told, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(content(&to, "a"), Some(vec![0; 900]));
    assert_eq!(content(&to, "b"), Some(vec![9; 900]));
}

/// What the source told as `notes.` is listed as `notes`, as by FAT.
#[test]
fn what_has_its_name_without_dots_is_not_removed() {
    for (names, expected) in [(Names::FoldedAndCut, &["old"][..]), (Names::Folded, &["notes", "old"])] {
        let (mut from, mut to) = (Disk::default(), Disk::default());
        from.put(b"notes.", file(b"new"));
        [&b"notes."[..], b"old"].into_iter().for_each(|name| to.put(name, file(b"new")));
        let options = SinkOptions { delete: true, names, ..sink_options(false, PreserveOptions::default(), WriterIdentity::default()) };
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

/// What is looked at there has every second second, as on FAT.
#[test]
fn odd_seconds_are_kept_as_even_ones_where_names_are_as_on_fat() {
    for (names, moved) in [(Names::FoldedAndCut, [1, 0]), (Names::Folded, [1, 1])] {
        let (mut from, mut to) = (Disk::default(), Disk::default());
        from.put(b"f", Inode { mtime: Stamp { seconds: 905, nanoseconds: 7 }, ..file(b"new") });
        let told = [(); 2].map(|()| {
            let options = SinkOptions { names, ..sink_options(false, PreserveOptions::default(), WriterIdentity::default()) };
            let (mut source, mut sink) = (source(false, false), Sink::new(options));
            let even = |stamp: Stamp| Stamp { seconds: stamp.seconds & !1, nanoseconds: 0 };
            let at_sink = |operation| match to.run(operation) {
                Outcome::Looked(mut found) => {
                    for found in found.iter_mut().flatten().flatten().filter(|found| found.seen.size > 0) {
                        (found.seen.mtime, found.seen.ctime) =
                            (even(found.seen.mtime), even(found.seen.ctime));
                    }
                    Outcome::Looked(found)
                }
                outcome => outcome,
            };
            run((&mut source, &mut sink), |operation| from.run(operation), at_sink);
            sink.totals().moved
        });
        assert_eq!(told, moved, "{names:?}");
    }
}

/// A disk that is full already when the journal is made, and a user who gives up.
#[test]
fn what_no_later_run_would_know_is_removed() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"f", Inode { object: Object::File(vec![7; 9 << 20], (0..2_304).collect()), ..file(b"") });
    for is_noted in [false, true] {
        let (mut source, mut sink) = (source(false, false), sink(false));
        let (mut written, mut sent) = (0, VecDeque::new());
        while sink.outcome().is_none() {
            sent.extend(run_operations(&mut source, |operation| from.run(operation)));
            sent.pop_front().into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
            let at_sink = |operation| match operation {
                Operation::Record(_) if !is_noted => {
                    Outcome::Each(vec![Err(Fault::new(Why::NoSpace, "it is full"))])
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
fn a_further_name_of_a_file_that_lacks_an_attribute_is_made() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", file(&[9; 900]));
    from.link(b"a", b"b");
    to.put(b"a", file(b"old"));
    to.put(b"b", file(b"older"));
    let no_owner = |is_write, outcome| match outcome {
        Outcome::Each(results) if is_write => {
            let fault = |_| Err(Fault::new(Why::Permission, "set its owner"));
            Outcome::Each(results.into_iter().map(fault).collect())
        }
        outcome => outcome,
    };
    let told = copy_with(&mut from, &mut to, |_, outcome| by_name(outcome), no_owner);
    assert_eq!(told, BTreeSet::from(["a".to_owned()]));
    assert_eq!(content(&to, "b"), Some(vec![9; 900]));
}

#[test]
fn nothing_is_a_further_name_of_what_was_not_told() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"a", Inode { object: Object::Special(Kind::CharacterDevice(1, 3)), ..file(b"") });
    from.link(b"a", b"b");
    to.put(b"a", file(b"old"));
    let told = copy(&mut from, &mut to, |outcome| outcome);
    assert_eq!(told, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(content(&to, "b"), None, "devices are not asked for");
}

#[test]
fn a_directory_that_cannot_be_made_is_told_once() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    from.put(b"d", Inode { object: Object::Directory(Default::default()), ..file(b"") });
    let (mut source, mut sink) = (source(false, false), sink(false));
    let refused = |operation| match operation {
        Operation::Make(all) => {
            Outcome::Each(vec![Err(Fault::new(Why::Permission, "make a directory")); all.len()])
        }
        other => to.run(other),
    };
    run((&mut source, &mut sink), |operation| from.run(operation), refused);
    // The root, which is there, and the other one.
    assert_eq!(sink.totals().failed, 2);
}

#[test]
fn each_name_is_a_file_where_there_are_no_further_names() {
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
fn a_file_that_has_the_inode_of_one_that_is_gone_is_no_further_name_of_it() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    let directory = || Inode { object: Object::Directory(Default::default()), ..file(b"") };
    from.put(b"old", directory());
    from.put(b"new", directory());
    from.put(b"old/a", file(b"what was"));
    from.link(b"old/a", b"old/b");
    let (mut source, mut sink) = (source(false, false), sink(false));
    // One directory is listed when what the other one held was moved, and is gone.
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
                PortCommand::Submit(ticket, operation) => source.handle(Event::Done(ticket, from.run(operation))),
                PortCommand::Send(packet) => sent.push(packet),
            }
        }
        let answers = run_operations(&mut sink, |operation| to.run(operation));
        if sent.is_empty() && answers.is_empty() {
            let (ticket, list) = late.take().expect("something is under way");
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
