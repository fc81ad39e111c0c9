//! The bandwidth limit, with a clock that advances only while the transfer waits.

use crate::sides::{sink, source_options};
use numaio_mover::drive::{PortCommand, TransferCore};
use numaio_mover::port::{Event, Stamp};
use numaio_mover::report::TransferOutcome;
use numaio_mover::simulator::{run_operations, Disk, Inode, Object};
use numaio_mover::source::{Source, SourceOptions};
use std::collections::BTreeSet;
use std::time::Duration;

/// Returns the time for copying files of these sizes at 1,000 bytes per second.
fn copy_time(sizes: &[usize]) -> Duration {
    let (mut from, mut to, mut now) = (Disk::default(), Disk::default(), Duration::ZERO);
    for (number, size) in sizes.iter().enumerate() {
        let object = Object::File(vec![1; *size], BTreeSet::from([0]));
        let mtime = Stamp { seconds: 5, nanoseconds: 6 };
        let inode = Inode { object, mode: 0o640, user: 1, group: 2, mtime, xattrs: Vec::new() };
        from.put(number.to_string().as_bytes(), inode);
    }
    let options = SourceOptions { limit: Some(1_000), ..source_options(false, false) };
    let (mut source, mut sink) = (Source::<Vec<u8>>::new(options).expect("a policy"), sink(false));
    while sink.outcome().is_none() || source.outcome().is_none() {
        let mut sent = Vec::new();
        while let Some(command) = source.poll(now) {
            match command {
                PortCommand::Submit(ticket, operation) => {
                    source.handle(Event::Done(ticket, from.run(operation)))
                }
                PortCommand::Send(packet) => sent.push(packet),
            }
        }
        let is_quiet = sent.is_empty();
        sent.into_iter().for_each(|packet| sink.handle(Event::Received(packet)));
        let answers = run_operations(&mut sink, |operation| to.run(operation));
        if is_quiet && answers.is_empty() && source.outcome().is_none() {
            now = source.wake().expect("a wake-up time");
        }
        answers.into_iter().for_each(|packet| source.handle(Event::Received(packet)));
    }
    assert_eq!(
        (sink.outcome(), sink.totals().bytes),
        (Some(&TransferOutcome::Done), sizes.iter().sum::<usize>() as u64)
    );
    now
}

/// Even a transfer of a single block or bundle is limited.
#[test]
fn bandwidth_limit_applies_to_large_and_small_files() {
    let seconds = Duration::from_secs;
    assert_eq!(copy_time(&[300_000]), seconds(300));
    assert_eq!(copy_time(&[100_000; 3]), seconds(300));
    assert_eq!(copy_time(&[100; 100]), seconds(10));
    assert_eq!(copy_time(&[600_000; 3]), seconds(1_800));
}
