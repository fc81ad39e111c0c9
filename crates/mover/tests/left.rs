//! Partial files that a run before this one may have left: with each name that needs nothing one is tried.

mod sides;

use numaio_machine::port::{
    Event, Fault, FileKind, FilePath, Found, Journal as Opened, Listing, Names, Operation, Outcome, Ticket,
    Why,
};
use numaio_mover::drive::{Command, Core};
use numaio_mover::journal::Journal;
use numaio_mover::report::Ended;
use numaio_mover::sink::{Keep, Own, Sink, SinkOptions, JOURNAL};
use numaio_mover::source::Source;
use numaio_mover::wire::{Reason, TransferId, MAX_BATCH};
use sides::{demands, run, sink, source, work};
use std::time::Duration;

const FILES: usize = 10_000;
/// Most names that are tried by one operation, and those that wait for it.
const AT_ONCE: usize = 512;
const MOST: usize = 4_096;

/// An empty file, or the root.
fn found(name: &[u8]) -> Found {
    let kind = if name.is_empty() { FileKind::Directory } else { FileKind::File };
    sides::found(kind)
}

/// Some of the files, from one of them on.
fn listed(from: usize, most: usize) -> Outcome<Vec<u8>> {
    let end = FILES.min(from + most);
    let one = |name: String| (name.as_bytes().into(), Ok(found(name.as_bytes())));
    let found = (from..end).map(|number| one(number.to_string())).collect();
    Outcome::Listed(Ok(Listing { found, more: (end < FILES).then_some(end as u64), names: Names::Apart }))
}

/// What both sides find: the same files, and a journal of a run that was cut.
fn there(operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
    match operation {
        Operation::List { most, .. } => listed(0, most),
        Operation::More { listing, most, .. } => listed(listing as usize, most),
        Operation::Look { at, .. } => {
            Outcome::Looked(at.iter().map(|at| Ok(Some(found(&at.name)))).collect())
        }
        Operation::Open { .. } => {
            Outcome::Opened(Ok(Opened::Ours(Journal::new(TransferId([1; 16])).take_log())))
        }
        Operation::Make(all) => Outcome::Each(vec![Ok(()); all.len()]),
        Operation::Adorn(all) => Outcome::Each(vec![Ok(()); all.len()]),
        Operation::Remove(all) => Outcome::Each(vec![Ok(()); all.len()]),
        Operation::Record(_) => Outcome::Each(vec![Ok(())]),
        other => panic!("{other:?}"),
    }
}

/// How many partial files are tried.
fn tried(removed: &[FilePath]) -> usize {
    removed.iter().filter(|at| *at.name != *JOURNAL).count()
}

/// A transfer of files that are there already, to where an earlier one was cut. Its sink's removals take their time.
struct Again {
    source: Source<Vec<u8>>,
    sink: Sink<Vec<u8>>,
    removals: Vec<(Ticket, Vec<FilePath>)>,
}

impl Again {
    fn new() -> Self {
        Self { source: source(false, false), sink: sink(false), removals: Vec::new() }
    }

    /// Does all that can be done before a removal ends.
    fn go_on(&mut self) {
        loop {
            let said = work(&mut self.source, there);
            let mut answers = Vec::new();
            while let Some(command) = self.sink.poll(Duration::ZERO) {
                match command {
                    Command::Submit(ticket, Operation::Remove(all)) => self.removals.push((ticket, all)),
                    Command::Submit(ticket, operation) => {
                        self.sink.handle(Event::Done(ticket, there(operation)));
                    }
                    Command::Send(packet) => answers.push(packet),
                }
            }
            if said.is_empty() && answers.is_empty() {
                return;
            }
            said.into_iter().for_each(|packet| self.sink.handle(Event::Received(packet)));
            answers.into_iter().for_each(|packet| self.source.handle(Event::Received(packet)));
        }
    }

    /// A removal ends; gives what it was to remove.
    fn remove(&mut self) -> Option<Vec<FilePath>> {
        let (ticket, all) = self.removals.pop()?;
        let nothing = Outcome::Each(vec![Ok(()); all.len()]);
        self.sink.handle(Event::Done(ticket, nothing));
        Some(all)
    }
}

#[test]
fn each_name_that_needs_nothing_is_tried_once() {
    let (mut source, mut sink, mut removed) = (source(false, false), sink(false), Vec::new());
    let at_sink = |operation| {
        if let Operation::Remove(all) = &operation {
            removed.extend(all.iter().cloned());
        }
        there(operation)
    };
    run((&mut source, &mut sink), there, at_sink);
    assert_eq!((tried(&removed), removed.len()), (FILES, FILES + 1), "and the journal goes");
    removed.sort_unstable();
    removed.dedup();
    assert_eq!(removed.len(), FILES + 1);
}

#[test]
fn entries_are_judged_no_faster_than_what_may_be_left_of_them_is_removed() {
    let mut again = Again::new();
    let (mut ended, mut steps) = (0, 0);
    again.go_on();
    while let Some(some) = again.remove() {
        assert!(some.len() <= AT_ONCE && again.removals.is_empty(), "{} at once", some.len());
        let judged = again.sink.totals().unchanged as usize;
        assert!(judged <= ended + AT_ONCE + MOST + MAX_BATCH, "{judged} were judged, and {ended} tried");
        ended += tried(&some);
        steps += 1;
        again.go_on();
    }
    assert_eq!((again.sink.ended(), ended), (Some(&Ended::Done), FILES));
    assert!(steps > FILES / AT_ONCE && again.sink.totals().failed == 0);
}

#[test]
fn who_is_interrupted_waits_for_no_more_than_is_under_way() {
    let mut again = Again::new();
    again.go_on();
    again.sink.stop(Reason::Other, "interrupted");
    again.go_on();
    assert!(again.sink.ended().is_none(), "a removal is under way");
    assert!(again.remove().is_some());
    again.go_on();
    assert!(again.removals.is_empty());
    assert_eq!(again.sink.ended(), Some(&Ended::Failed));
}

/// What a sink submits at a time.
fn submitted(sink: &mut Sink<Vec<u8>>, now: Duration) -> Vec<(Ticket, Operation<Vec<u8>>)> {
    let commands = std::iter::from_fn(|| sink.poll(now));
    let operation = |command| match command {
        Command::Submit(ticket, operation) => Some((ticket, operation)),
        Command::Send(_) => None,
    };
    commands.filter_map(operation).collect()
}

/// What of it opens the journal.
fn asks(sink: &mut Sink<Vec<u8>>, now: Duration) -> Option<Ticket> {
    let is_open = |(_, operation): &(_, _)| matches!(operation, Operation::Open { .. });
    submitted(sink, now).into_iter().find(is_open).map(|(ticket, _)| ticket)
}

/// A try that was lost may hold the journal for a while: the next one waits for it, and does not move all anew.
#[test]
fn a_journal_that_an_earlier_try_has_is_asked_for_again() {
    let taken = |ticket| Event::Done(ticket, Outcome::Opened(Ok(Opened::Taken)));
    let sink = |again| Sink::new(SinkOptions { again, ..demands(false, Keep::default(), Own::default()) });
    let mut first: Sink<Vec<u8>> = sink(false);
    let ticket = asks(&mut first, Duration::ZERO).expect("it is asked for");
    first.handle(taken(ticket));
    assert_eq!((asks(&mut first, Duration::ZERO), first.wake()), (None, None), "others have it for long");
    let mut next: Sink<Vec<u8>> = sink(true);
    let (mut now, mut asked) = (Duration::from_secs(7), 0);
    let mut ticket = asks(&mut next, now);
    while let Some(open) = ticket {
        asked += 1;
        next.handle(taken(open));
        assert_eq!(asks(&mut next, now), None, "not at once");
        let Some(wake) = next.wake() else { break };
        assert!(wake > now);
        now = wake;
        ticket = asks(&mut next, now);
    }
    assert!(asked > 20 && now > Duration::from_secs(40) && next.wake().is_none(), "{asked} {now:?}");
    // One that is given up meanwhile ends at once.
    let mut last: Sink<Vec<u8>> = sink(true);
    let ticket = asks(&mut last, now).expect("it is asked for");
    last.handle(taken(ticket));
    last.stop(Reason::Other, "enough");
    asks(&mut last, now);
    assert_eq!(last.ended(), Some(&Ended::Failed));
}

/// What the earlier try still finishes is not there before the journal is free: what was seen before that says nothing.
#[test]
fn nothing_is_looked_at_before_an_earlier_try_lets_go_of_the_journal() {
    let mut source = source(false, false);
    let mut sink = Sink::new(SinkOptions { again: true, ..demands(false, Keep::default(), Own::default()) });
    let ticket = asks(&mut sink, Duration::ZERO).expect("it is asked for");
    sink.handle(Event::Done(ticket, Outcome::Opened(Ok(Opened::Taken))));
    for packet in work(&mut source, there) {
        sink.handle(Event::Received(packet));
    }
    assert!(submitted(&mut sink, Duration::ZERO).is_empty(), "it waits");
    let now = sink.wake().expect("it asks again");
    let all = submitted(&mut sink, now);
    let [(ticket, Operation::Open { .. })] = all[..] else { panic!("{all:?}") };
    sink.handle(Event::Done(ticket, Outcome::Opened(Ok(Opened::Absent))));
    let looked = submitted(&mut sink, now);
    let is_look = |(_, operation): &_| matches!(operation, Operation::Look { .. });
    assert!(!looked.is_empty() && looked.iter().all(is_look), "{looked:?}");
}

/// Nobody knows when somebody else's journal goes: none is kept then, but for `--delete` that transfer may be under way.
#[test]
fn the_journal_of_somebody_else_is_not_waited_for() {
    let mut sink = Sink::new(SinkOptions { again: true, ..demands(false, Keep::default(), Own::default()) });
    let ticket = asks(&mut sink, Duration::ZERO).expect("it is asked for");
    let fault = Fault::new(Why::Exists, "the journal is somebody else's");
    sink.handle(Event::Done(ticket, Outcome::Opened(Err(fault))));
    assert_eq!((asks(&mut sink, Duration::ZERO), sink.wake()), (None, None));
}
