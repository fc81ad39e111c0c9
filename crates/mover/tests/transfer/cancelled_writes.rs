//! Writes that a port rejects because the transfer is cancelled.

use crate::sides::{sink, source};
use numaio_mover::drive::TransferCore;
use numaio_mover::port::{Fault, FaultKind, Operation, Outcome, Stamp, BLOCK};
use numaio_mover::report::{Report, TransferOutcome};
use numaio_mover::simulator::{run, Disk, Inode, Object};
use numaio_mover::wire::{ProblemSubject, Reason};

const BLOCKS: usize = 12;
const WRITTEN: usize = 5;

#[test]
fn resumes_after_cancelled_writes() {
    let (mut from, mut to) = (Disk::default(), Disk::default());
    let mtime = Stamp { seconds: 5, nanoseconds: 6 };
    let content: Vec<u8> = (0..BLOCKS * BLOCK).map(|index| (index >> 12) as u8 | 1).collect();
    let object = Object::File(content.clone(), (0..BLOCKS as u64 * 256).collect());
    from.put(b"file", Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() });
    let (mut first_sink, mut first_source, mut writes) = (sink(false), source(false, false), 0);
    run(
        (&mut first_source, &mut first_sink),
        |operation| from.run(operation),
        |operation| match operation {
            Operation::Write { puts, data: Some(_), .. } if writes == WRITTEN => {
                let fault = || Err(Fault::new(FaultKind::Cancelled, "it was interrupted"));
                Outcome::Results(puts.iter().map(|_| fault()).collect())
            }
            operation => {
                writes += usize::from(matches!(operation, Operation::Write { data: Some(_), .. }));
                to.run(operation)
            }
        },
    );
    assert_eq!(first_sink.outcome(), Some(&TransferOutcome::Failed));
    let reports = first_sink.reports();
    let is_it = |report: &Report| {
        matches!(report, Report::Problem(problem)
            if problem.about == ProblemSubject::Transfer && problem.reason == Reason::Cancelled)
    };
    assert!(reports.iter().all(is_it) && reports.len() == 1, "no file may fail: {reports:?}");
    to.end_process();
    let (mut second_sink, mut second_source) = (sink(false), source(false, false));
    run(
        (&mut second_source, &mut second_sink),
        |operation| from.run(operation),
        |operation| to.run(operation),
    );
    assert_eq!((second_sink.outcome(), second_sink.totals().failed), (Some(&TransferOutcome::Done), 0));
    assert_eq!(second_sink.totals().resumed, (WRITTEN * BLOCK) as u64);
}
