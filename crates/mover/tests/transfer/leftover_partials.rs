//! Partial files that an earlier run may have left: the sink tries to remove one per unchanged
//! name.

use crate::sides::{sink, sink_options, source};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::journal::Journal;
use numaio_mover::port::{
    Event, Fault, FaultKind, FileInfo, FileKind, FilePath, JournalState, Listing, NameMatching,
    OpenedJournal as Opened, Operation, Outcome, Ticket,
};
use numaio_mover::report::TransferOutcome;
use numaio_mover::simulator::{run, run_operations};
use numaio_mover::sink::{Sink, SinkOptions};
use numaio_mover::source::Source;
use numaio_mover::wire::{Reason, TransferId, MAX_BATCH};
use std::time::Duration;

/// The journal of these sinks.
const JOURNAL: &[u8] = b".numaio-journal";

const FILES: usize = 10_000;
/// Maximum removals per operation, and maximum waiting removals.
const REMOVAL_BATCH: usize = 512;
const MAX_PENDING_REMOVALS: usize = 4_096;

/// Returns an empty file, or the root.
fn found(name: &[u8]) -> FileInfo {
    let kind = if name.is_empty() { FileKind::Directory } else { FileKind::File };
    crate::sides::found(kind)
}

/// Returns some of the files, starting at `from`.
fn listed(from: usize, most: usize) -> Outcome<Vec<u8>> {
    let end = FILES.min(from + most);
    let one = |name: String| (name.as_bytes().into(), Ok(found(name.as_bytes())));
    let found = (from..end).map(|number| one(number.to_string())).collect();
    Outcome::Listed(Ok(Listing {
        found,
        more: (end < FILES).then_some(end as u64),
        names: NameMatching::Exact,
    }))
}

/// Simulates the disks of both sides: equal files, and a journal of an interrupted run at the sink.
fn run_operation(operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
    match operation {
        Operation::List { most, .. } => listed(0, most),
        Operation::ListMore { listing, most, .. } => listed(listing as usize, most),
        Operation::Stat { at, .. } => Outcome::Stat(at.iter().map(|at| Ok(Some(found(&at.name)))).collect()),
        Operation::OpenJournal { .. } => Outcome::OpenedJournal(Ok(opened(JournalState::Content(
            Journal::new(TransferId([1; 16])).take_pending(),
        )))),
        Operation::Create(all) => Outcome::Results(vec![Ok(()); all.len()]),
        Operation::SetAttributes(all) => Outcome::Results(vec![Ok(()); all.len()]),
        Operation::Remove(all) => Outcome::Results(vec![Ok(()); all.len()]),
        Operation::WriteJournal(_) => Outcome::Results(vec![Ok(())]),
        other => panic!("{other:?}"),
    }
}

/// Counts the partial files among removed paths.
fn count_partials(removed: &[FilePath]) -> usize {
    removed.iter().filter(|at| *at.name != *JOURNAL).count()
}

/// A transfer without changes to the destination of an interrupted one, in which removals are slow.
struct SlowRemovals {
    source: Source<Vec<u8>>,
    sink: Sink<Vec<u8>>,
    removals: Vec<(Ticket, Vec<FilePath>)>,
}

impl SlowRemovals {
    fn new() -> Self {
        Self { source: source(false, false), sink: sink(false), removals: Vec::new() }
    }

    /// Runs everything that does not wait for a removal.
    fn run_until_blocked(&mut self) {
        loop {
            let sent = run_operations(&mut self.source, run_operation);
            let mut answers = Vec::new();
            while let Some(command) = self.sink.poll(Duration::ZERO) {
                match command {
                    PortCommand::Submit(ticket, Operation::Remove(all)) => self.removals.push((ticket, all)),
                    PortCommand::Submit(ticket, operation) => {
                        self.sink.handle(Event::Done(ticket, run_operation(operation)));
                    }
                    PortCommand::Send(packet) => answers.push(packet),
                }
            }
            if sent.is_empty() && answers.is_empty() {
                return;
            }
            sent.into_iter().for_each(|packet| self.sink.handle(Event::Received(packet)));
            answers.into_iter().for_each(|packet| self.source.handle(Event::Received(packet)));
        }
    }

    /// Completes a removal; returns its paths.
    fn remove(&mut self) -> Option<Vec<FilePath>> {
        let (ticket, all) = self.removals.pop()?;
        let nothing = Outcome::Results(vec![Ok(()); all.len()]);
        self.sink.handle(Event::Done(ticket, nothing));
        Some(all)
    }
}

#[test]
fn tries_each_unchanged_name_once() {
    let (mut source, mut sink, mut removed) = (source(false, false), sink(false), Vec::new());
    let at_sink = |operation| {
        if let Operation::Remove(all) = &operation {
            removed.extend(all.iter().cloned());
        }
        run_operation(operation)
    };
    run((&mut source, &mut sink), run_operation, at_sink);
    assert_eq!(
        (count_partials(&removed), removed.len()),
        (FILES, FILES + 1),
        "partial files and the journal"
    );
    removed.sort_unstable();
    removed.dedup();
    assert_eq!(removed.len(), FILES + 1);
}

#[test]
fn entries_are_decided_no_faster_than_leftovers_are_removed() {
    let mut transfer = SlowRemovals::new();
    let (mut ended, mut steps) = (0, 0);
    transfer.run_until_blocked();
    while let Some(some) = transfer.remove() {
        assert!(some.len() <= REMOVAL_BATCH && transfer.removals.is_empty(), "{} at once", some.len());
        let decided = transfer.sink.totals().unchanged as usize;
        assert!(
            decided <= ended + REMOVAL_BATCH + MAX_PENDING_REMOVALS + MAX_BATCH,
            "{decided} decided, {ended} tried"
        );
        ended += count_partials(&some);
        steps += 1;
        transfer.run_until_blocked();
    }
    assert_eq!((transfer.sink.outcome(), ended), (Some(&TransferOutcome::Done), FILES));
    assert!(steps > FILES / REMOVAL_BATCH && transfer.sink.totals().failed == 0);
}

#[test]
fn interruption_waits_only_for_the_removal_in_flight() {
    let mut transfer = SlowRemovals::new();
    transfer.run_until_blocked();
    transfer.sink.stop(Reason::Other, "interrupted");
    transfer.run_until_blocked();
    assert!(transfer.sink.outcome().is_none(), "a removal is in flight");
    assert!(transfer.remove().is_some());
    transfer.run_until_blocked();
    assert!(transfer.removals.is_empty());
    assert_eq!(transfer.sink.outcome(), Some(&TransferOutcome::Failed));
}

/// Returns the operations that a sink submits at `now`.
fn submitted(sink: &mut Sink<Vec<u8>>, now: Duration) -> Vec<(Ticket, Operation<Vec<u8>>)> {
    let commands = std::iter::from_fn(|| sink.poll(now));
    let operation = |command| match command {
        PortCommand::Submit(ticket, operation) => Some((ticket, operation)),
        PortCommand::Send(_) => None,
    };
    commands.filter_map(operation).collect()
}

/// Returns the ticket of an operation that opens the journal, if one is submitted at `now`.
fn opens_journal(sink: &mut Sink<Vec<u8>>, now: Duration) -> Option<Ticket> {
    let is_open = |(_, operation): &(_, _)| matches!(operation, Operation::OpenJournal { .. });
    submitted(sink, now).into_iter().find(is_open).map(|(ticket, _)| ticket)
}

/// A lost attempt may hold the journal for a while; the next one waits instead of starting over.
#[test]
fn retries_a_journal_that_an_earlier_attempt_holds() {
    let taken = |ticket| Event::Done(ticket, Outcome::OpenedJournal(Ok(opened(JournalState::Locked))));
    let sink = |is_retry| Sink::new(SinkOptions { is_retry, ..sink_options(false) });
    let mut first: Sink<Vec<u8>> = sink(false);
    let ticket = opens_journal(&mut first, Duration::ZERO).expect("an operation");
    first.handle(taken(ticket));
    assert_eq!(
        (opens_journal(&mut first, Duration::ZERO), first.wake()),
        (None, None),
        "no retry for others"
    );
    let mut next: Sink<Vec<u8>> = sink(true);
    let (mut now, mut asked) = (Duration::from_secs(7), 0);
    let mut ticket = opens_journal(&mut next, now);
    while let Some(open) = ticket {
        asked += 1;
        next.handle(taken(open));
        assert_eq!(opens_journal(&mut next, now), None, "not immediately");
        let Some(wake) = next.wake() else { break };
        assert!(wake > now);
        now = wake;
        ticket = opens_journal(&mut next, now);
    }
    assert!(asked > 20 && now > Duration::from_secs(40) && next.wake().is_none(), "{asked} {now:?}");
    // An aborted sink stops waiting immediately.
    let mut last: Sink<Vec<u8>> = sink(true);
    let ticket = opens_journal(&mut last, now).expect("an operation");
    last.handle(taken(ticket));
    last.stop(Reason::Other, "enough");
    opens_journal(&mut last, now);
    assert_eq!(last.outcome(), Some(&TransferOutcome::Failed));
}

/// The earlier attempt may still complete files, so lookups before the journal is free are
/// outdated.
#[test]
fn no_lookup_before_an_earlier_attempt_releases_the_journal() {
    let mut source = source(false, false);
    let mut sink = Sink::new(SinkOptions { is_retry: true, ..sink_options(false) });
    let ticket = opens_journal(&mut sink, Duration::ZERO).expect("an operation");
    sink.handle(Event::Done(ticket, Outcome::OpenedJournal(Ok(opened(JournalState::Locked)))));
    for packet in run_operations(&mut source, run_operation) {
        sink.handle(Event::Received(packet));
    }
    assert!(submitted(&mut sink, Duration::ZERO).is_empty(), "the sink waits");
    let now = sink.wake().expect("a retry");
    let all = submitted(&mut sink, now);
    let [(ticket, Operation::OpenJournal { .. })] = all[..] else { panic!("{all:?}") };
    sink.handle(Event::Done(ticket, Outcome::OpenedJournal(Ok(opened(JournalState::Absent)))));
    let looked = submitted(&mut sink, now);
    let is_look = |(_, operation): &_| matches!(operation, Operation::Stat { .. });
    assert!(!looked.is_empty() && looked.iter().all(is_look), "{looked:?}");
}

/// The journal of another user may be held for any time. It is not waited for.
#[test]
fn does_not_wait_for_the_journal_of_another_user() {
    let mut sink = Sink::new(SinkOptions { is_retry: true, ..sink_options(false) });
    let ticket = opens_journal(&mut sink, Duration::ZERO).expect("an operation");
    let fault = Fault::new(FaultKind::Exists, "the journal belongs to another user");
    sink.handle(Event::Done(ticket, Outcome::OpenedJournal(Err(fault))));
    assert_eq!((opens_journal(&mut sink, Duration::ZERO), sink.wake()), (None, None));
}

fn opened(state: JournalState) -> Opened {
    Opened { state, has_others: false }
}
