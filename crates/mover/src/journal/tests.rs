//! Tests of the journal against a simple model, with arbitrary damage to the file.

use super::*;
use crate::testing;
use proptest::prelude::*;

const ID: TransferId = TransferId([1; 16]);

#[derive(Debug, Clone, Copy)]
enum LogEvent {
    Durable(u64, u64, u64),
    Invalid(u64),
    Compact,
}

/// The expected state as bit masks: files below 6, bytes below 64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    durable: BTreeMap<u64, u64>,
}

impl Model {
    fn apply(&mut self, events: LogEvent) {
        match events {
            LogEvent::Durable(file, start, end) => {
                let bits = (start..end).fold(0, |bits, bit| bits | 1 << bit);
                *self.durable.entry(file).or_default() |= bits;
            }
            LogEvent::Invalid(file) => _ = self.durable.remove(&file),
            LogEvent::Compact => {}
        }
    }

    /// Returns the state of a journal for files of 64 bytes, as the same bit masks.
    fn of(journal: &Journal) -> Self {
        let mut model = Self::default();
        for file in 0..6 {
            let left = journal.missing(number(file), &Content::dense(64).expect("a size"));
            let left = left.iter().flat_map(|extent| extent.start()..extent.end());
            let bits = !left.fold(0, |bits, bit| bits | 1 << bit);
            if bits != 0 {
                model.durable.insert(file, bits);
            }
        }
        model
    }
}

fn number(number: u64) -> FileNumber {
    FileNumber::new(number).expect("a number")
}

fn extent(start: u64, end: u64) -> Extent {
    Extent::between(start, end).expect("an extent")
}

fn events() -> impl Strategy<Value = Vec<LogEvent>> {
    let durable =
        (0u64..6, 0u64..64, 1u64..40).prop_map(|(file, at, n)| LogEvent::Durable(file, at, (at + n).min(64)));
    let one = prop_oneof![
        12 => durable,
        3 => (0u64..6).prop_map(LogEvent::Invalid),
    ];
    proptest::collection::vec(one, 0..30)
}

/// Applies events to a journal and its file; returns the file length and the state after each
/// event.
fn write(journal: &mut Journal, file: &mut Vec<u8>, all: &[LogEvent]) -> Vec<(usize, Model)> {
    let mut model = Model::of(journal);
    file.extend(journal.take_pending());
    let mut steps = vec![(file.len(), model.clone())];
    for &events in all {
        match events {
            LogEvent::Durable(n, start, end) => journal.mark_durable(number(n), extent(start, end)),
            LogEvent::Invalid(n) => _ = journal.invalidate(n..n + 1, None),
            LogEvent::Compact => *file = journal.compact(),
        }
        file.extend(journal.take_pending());
        model.apply(events);
        assert_eq!(Model::of(journal), model);
        assert_eq!(journal.is_empty(), model == Model::default());
        steps.push((file.len(), model.clone()));
    }
    steps
}

fn replay(bytes: &[u8]) -> Result<(Journal, u64), JournalError> {
    let mut replay = JournalReader::new(ID);
    replay.push(bytes)?;
    replay.finish()
}

/// Returns the expected state if only the first `whole` bytes of the file are intact.
fn expected_state(steps: &[(usize, Model)], whole: usize) -> Option<&(usize, Model)> {
    steps.iter().rev().find(|(length, _)| *length <= whole)
}

/// Checks that exactly the records before the damage are applied.
fn check_damaged(good: &[u8], bad: &[u8], steps: &[(usize, Model)]) -> Result<(), TestCaseError> {
    let whole = good.iter().zip(bad).take_while(|(good, bad)| good == bad).count();
    match (replay(bad), expected_state(steps, whole)) {
        (Ok((journal, valid)), Some((length, model))) => {
            prop_assert_eq!(&Model::of(&journal), model);
            prop_assert_eq!(valid, *length as u64);
        }
        (Err(_), None) => {}
        (got, expected) => prop_assert!(false, "{:?} instead of {:?}", got, expected),
    }
    Ok(())
}

#[test]
fn missing_data_excludes_holes() {
    let mut journal = Journal::new(ID);
    let content = Content::sparse(100, vec![extent(10, 30), extent(50, 60)]).expect("a file");
    let left = |journal: &Journal| {
        let left = journal.missing(number(7), &content);
        left.iter().map(|extent| (extent.start(), extent.end())).collect::<Vec<_>>()
    };
    assert_eq!(left(&journal), [(10, 30), (50, 60)]);
    journal.mark_durable(number(7), extent(0, 15));
    journal.mark_durable(number(8), extent(0, 100));
    journal.mark_durable(number(7), extent(20, 55));
    assert_eq!(left(&journal), [(15, 20), (55, 60)]);
    journal.mark_durable(number(7), extent(0, 70));
    assert_eq!(left(&journal), []);
    journal.invalidate(7..8, None);
    assert_eq!(left(&journal), [(10, 30), (50, 60)]);
}

#[test]
fn invalidates_a_range_of_files() {
    let mut journal = Journal::new(ID);
    for file in [2, 3, 5, 8] {
        journal.mark_durable(number(file), extent(0, 64));
    }
    assert!(journal.invalidate(3..8, FileNumber::new(6).ok()) && !journal.invalidate(3..6, None));
    let left = |journal: &Journal, file| journal.missing(number(file), &Content::dense(64).expect("a size"));
    let known =
        |journal: &Journal| (0..10).filter(|&file| left(journal, file).is_empty()).collect::<Vec<_>>();
    assert_eq!(known(&journal), [2, 8]);
    let (mut journal, _) = replay(&journal.take_pending()).expect("a journal");
    assert_eq!(known(&journal), [2, 8]);
    assert!(!journal.is_empty());
    assert!(journal.invalidate(0..u64::MAX, None) && !journal.invalidate(0..u64::MAX, None));
    assert!(journal.is_empty());
}

#[test]
fn rejects_other_files() {
    let file = Journal::new(TransferId([2; 16])).take_pending();
    let events = |bytes: &[u8]| replay(bytes).err();
    assert_eq!(events(&file), Some(JournalError::OtherTransfer(TransferId([2; 16]))));
    assert_eq!(events(b"a file of another kind, long enough"), Some(JournalError::NotAJournal));
    assert_eq!(events(b"a file"), Some(JournalError::NotAJournal));
    assert_eq!(events(&file[..29]), Some(JournalError::Truncated));
    assert_eq!(events(&[]), Some(JournalError::Truncated));
    let mut damaged = Journal::new(ID).take_pending();
    damaged[12] ^= 1;
    assert_eq!(events(&damaged), Some(JournalError::DamagedHeader));
    let mut newer = [&MAGIC[..], &[0, 2], &[1; 16]].concat();
    newer.extend(checksum(0, &newer).to_be_bytes());
    assert_eq!(events(&newer), Some(JournalError::Version(2)));
}

#[test]
fn file_format_matches_the_specification() {
    let mut journal = Journal::new(TransferId(*b"0123456789abcdef"));
    journal.mark_durable(number(300), extent(4_096, 8_192));
    journal.invalidate(300..301, None);
    let log = journal.take_pending();
    assert_eq!(log[..26], *b"numaioJ\n\x00\x010123456789abcdef");
    assert_eq!(log[30..37], [1, 0xac, 2, 0x80, 0x20, 0x80, 0x20]);
    assert_eq!(log[41..44], [3, 0xac, 2]);
    assert_eq!(log.len(), 48);
    // Checksums computed independently: zlib's crc32 of all preceding bytes without checksums.
    let sums = [&log[26..30], &log[37..41], &log[44..48]].map(|sum| sum.to_vec());
    assert_eq!(sums, [[0x22, 0xe9, 0xf2, 0xdc], [0xe1, 0x3a, 0x0d, 0x5f], [0x05, 0xf9, 0x3b, 0x11]]);
}

#[test]
fn compaction_merges_consecutive_blocks() {
    let mut journal = Journal::new(ID);
    (0..10_000).for_each(|n| journal.mark_durable(number(1), extent(10 * n, 10 * n + 10)));
    assert!(journal.is_bloated());
    journal.take_pending();
    let compact = journal.compact();
    assert!(compact.len() < 50, "{}", compact.len());
    assert!(!journal.is_bloated());
    let (again, _) = replay(&compact).expect("a journal");
    assert!(again.missing(number(1), &Content::dense(100_000).expect("a size")).is_empty());
}

fn hash(first: u64) -> BlockHash {
    BlockHash { kind: HashKind::Xxh3, first }
}

/// Returns the durable ranges and the hashes of file 1, also after reading the log.
fn ranges_and_hashes(journal: &mut Journal) -> (Vec<Extent>, Vec<(Extent, BlockHash)>) {
    let durable = |journal: &Journal| {
        let missing = journal.missing(number(1), &Content::dense(100).expect("a size"));
        missing.missing_in(extent(0, 100)).collect::<Vec<_>>()
    };
    let both = |journal: &Journal| (durable(journal), journal.hashes(number(1)).collect::<Vec<_>>());
    let mut log = Vec::new();
    log.extend(journal.take_pending());
    let found = both(journal);
    if !log.is_empty() {
        let (again, _) = replay(&log).expect("a journal");
        assert_eq!(both(&again), found, "the log has the same state");
    }
    let (compact, _) = replay(&journal.clone().compact()).expect("a journal");
    assert_eq!(both(&compact), found, "compaction changes nothing");
    found
}

#[test]
fn hash_of_another_block_size_replaces_those_of_overlapping_blocks() {
    let mut journal = Journal::new(ID);
    for at in [0, 10, 20, 30] {
        journal.record_hash(number(1), extent(at, at + 10), hash(at));
    }
    journal.mark_durable(number(1), extent(0, 40));
    // A larger block covers two of them.
    journal.record_hash(number(1), extent(0, 20), hash(100));
    journal.mark_durable(number(1), extent(0, 20));
    // A smaller one leaves a rest without a hash, which must be written again.
    journal.record_hash(number(1), extent(20, 25), hash(101));
    journal.mark_durable(number(1), extent(20, 25));
    // The same block again.
    journal.record_hash(number(1), extent(30, 40), hash(102));
    let (durable, hashes) = ranges_and_hashes(&mut journal);
    assert_eq!(durable, [extent(0, 25), extent(30, 40)]);
    let expected = [(extent(0, 20), hash(100)), (extent(20, 25), hash(101)), (extent(30, 40), hash(102))];
    assert_eq!(hashes, expected);
}

/// Records of kind 4 have no length, because all blocks had 1 MiB.
#[test]
fn reads_hashes_without_a_length() {
    let mut journal = Journal::new(ID);
    let mut log = journal.take_pending();
    let mut record = vec![DEFAULT_BLOCK_HASH];
    [1, 2 << 20, u64::from(HashKind::Xxh3.code()), 7]
        .iter()
        .for_each(|&value| put_number(&mut record, value));
    record.extend_from_slice(&checksum(last_checksum(&log), &record).to_be_bytes());
    log.extend_from_slice(&record);
    let (again, valid) = replay(&log).expect("a journal");
    assert_eq!(valid, log.len() as u64);
    assert_eq!(again.hashes(number(1)).collect::<Vec<_>>(), [(extent(2 << 20, 3 << 20), hash(7))]);
}

#[test]
fn invalidating_unknown_files_logs_nothing() {
    let mut journal = Journal::new(ID);
    journal.mark_durable(number(1), extent(0, 5));
    journal.take_pending();
    assert!(!journal.invalidate(2..9, None) && journal.take_pending().is_empty());
}

/// Blocks of zeros or of an older journal may follow if writes did not reach the disk in order.
#[test]
fn long_invalid_tail_is_not_buffered() {
    let mut journal = Journal::new(ID);
    journal.mark_durable(number(1), extent(0, 5));
    let mut replay = JournalReader::new(ID);
    let log = journal.take_pending();
    replay.push(&log).expect("a journal");
    for _ in 0..1_000 {
        replay.push(&[0; 4_096]).expect("a tail");
    }
    assert!(replay.rest.capacity() < 20_000);
    assert_eq!(replay.finish().map(|(_, valid)| valid), Ok(log.len() as u64));
}

proptest! {
    #![proptest_config(testing::config())]

    #[test]
    fn journal_round_trips(
        all in events(),
        compact in proptest::option::of(any::<prop::sample::Index>()),
        pieces in proptest::collection::vec(1usize..50, 1..20),
        later in events(),
    ) {
        let mut all = all;
        if let Some(index) = compact {
            all.insert(index.index(all.len() + 1), LogEvent::Compact);
        }
        let (mut journal, mut file) = (Journal::new(ID), Vec::new());
        let steps = write(&mut journal, &mut file, &all);
        let mut replay = JournalReader::new(ID);
        let (mut rest, mut pieces) = (&file[..], pieces.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(pieces.next().unwrap_or(1).min(rest.len()));
            prop_assert_eq!(replay.push(piece), Ok(()));
            rest = later;
        }
        let (mut again, valid) = replay.finish().expect("a journal");
        prop_assert_eq!(valid, file.len() as u64);
        prop_assert_eq!(Some(Model::of(&again)), steps.last().map(|(_, model)| model.clone()));
        // Continue the journal.
        let steps = write(&mut again, &mut file, &later);
        let (last, _) = self::replay(&file).expect("a journal");
        prop_assert_eq!(Some(Model::of(&last)), steps.last().map(|(_, model)| model.clone()));
    }

    #[test]
    fn torn_tail_is_discarded(all in events(), cut in any::<prop::sample::Index>(), junk in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut good = Vec::new();
        let steps = write(&mut Journal::new(ID), &mut good, &all);
        let bad = [&good[..cut.index(good.len() + 1)], &junk].concat();
        check_damaged(&good, &bad, &steps)?;
    }

    /// Blocks of the tail are reordered, duplicated or missing.
    #[test]
    fn reordered_tail_is_discarded(all in events(), block in 1usize..40, order in proptest::collection::vec(0usize..12, 0..12)) {
        let mut good = Vec::new();
        let steps = write(&mut Journal::new(ID), &mut good, &all);
        let blocks: Vec<&[u8]> = good.chunks(block).collect();
        let mut bad = blocks.clone();
        let zeros = vec![0; block];
        for (at, from) in order.into_iter().enumerate().filter(|(at, _)| *at < blocks.len()) {
            let at = blocks.len() - 1 - at;
            bad[at] = if from == 11 { &zeros } else { blocks[blocks.len() - 1 - from.min(blocks.len() - 1)] };
        }
        check_damaged(&good, &bad.concat(), &steps)?;
    }

    #[test]
    fn changed_bit_ends_the_log(all in events(), bit in any::<prop::sample::Index>()) {
        let mut good = Vec::new();
        let steps = write(&mut Journal::new(ID), &mut good, &all);
        let mut bad = good.clone();
        let bit = bit.index(8 * good.len());
        bad[bit / 8] ^= 1 << (bit % 8);
        check_damaged(&good, &bad, &steps)?;
    }

    /// Reused blocks may contain an older journal of the same transfer.
    #[test]
    fn tail_of_an_older_journal_is_discarded(all in events(), older in events(), cut in any::<prop::sample::Index>()) {
        let (mut good, mut old) = (Vec::new(), Vec::new());
        let steps = write(&mut Journal::new(ID), &mut good, &all);
        write(&mut Journal::new(ID), &mut old, &older);
        let cut = cut.index(good.len() + 1);
        let bad = [&good[..cut], old.get(cut..).unwrap_or_default()].concat();
        // If both logs are equal up to the cut, the older records are valid as well.
        if good[..cut] != old[..cut.min(old.len())] {
            check_damaged(&good, &bad, &steps)?;
        }
    }
}
