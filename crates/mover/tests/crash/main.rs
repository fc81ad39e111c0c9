//! Simulated transfers that are interrupted at arbitrary steps, and the state of the disks
//! afterwards.
//!
//! Failures name their seed: `NUMAIO_SEED=N` runs only that one, `NUMAIO_SEEDS=N` runs this number.

mod lookup_faults;
mod oracle;
mod trees;
mod world;

use numaio_mover::compression::CompressMode;
use numaio_mover::hash::HashKind;
use numaio_mover::simulator::{Chance, Disk, Inode, Kind, Object, Refusals};
use numaio_mover::sink::SyncMode;
use world::{Interruption, Options, RunResult, World};

/// Runs a property for a number of seeds.
fn seeds(usual: u64, mut property: impl FnMut(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("NUMAIO_SEED") {
        return property(seed);
    }
    (0..number("NUMAIO_SEEDS").unwrap_or(usual)).for_each(property);
}

/// Returns the operations that the file system of the sink refuses, mostly none.
fn refusals(chance: &mut Chance) -> Refusals {
    Refusals { links: chance.once_in(3), locks: chance.once_in(6), xattrs: chance.once_in(5) }
}

#[test]
fn transferred_tree_equals_the_source() {
    seeds(100, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::source(&mut chance, 0);
        let sink = trees::sink(&mut chance, &source);
        let options = Options::random(&mut chance);
        let mut world = World::new(source, sink, seed);
        world.sink.refuses = refusals(&mut chance);
        world.is_shared = chance.once_in(4);
        let ended = world.run(&options, None);
        assert_eq!(ended.failures, Vec::<String>::new(), "seed {seed}");
        assert!(ended.done, "seed {seed}");
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
        oracle::manifest_is_right(&world.source, &world.sink, &options, &ended.manifest, seed);
        let again = world.run(&options, None);
        assert!(
            again.done && (options.ignore_times || again.totals.bytes == 0),
            "seed {seed}: {:?}",
            again.totals
        );
        // Refused attributes are tried again, and copies of links compared by time only.
        let Refusals { links, xattrs, .. } = world.sink.refuses;
        let may_move = options.ignore_times || xattrs || links && options.checksum;
        assert!(may_move || again.totals.moved == 0, "seed {seed}: {:?}", again.totals);
    });
}

#[test]
fn complete_files_survive_any_crash_and_a_later_run_copies_the_rest() {
    let mut crashes = [0u32; 3];
    seeds(200, |seed| {
        let mut chance = Chance::new(1_000_000 + seed);
        let large = if seed.is_multiple_of(8) { 1 } else { 0 };
        let source = trees::source(&mut chance, large);
        let sink = trees::sink(&mut chance, &source);
        let mut options = Options::random(&mut chance);
        options.in_place = false;
        let mut world = World::new(source, sink, seed);
        world.sink.refuses = refusals(&mut chance);
        world.is_shared = chance.once_in(4);
        let mut lost_power = false;
        for _ in 0..1 + chance.below(3) {
            let crash = match chance.below(3) {
                0 => Interruption::Kill,
                1 => Interruption::Disconnect,
                // Only synced data survives a power loss.
                _ if options.sync == SyncMode::File => Interruption::Power,
                _ => Interruption::Kill,
            };
            lost_power |= crash == Interruption::Power;
            let at = 1 + chance.below(120);
            options = options.with_random_block(&mut chance);
            if world.run(&options, Some((at, crash))).crashed {
                crashes[crash as usize] += 1;
            }
            oracle::finished_are_right(&world.source, &world.sink, &world.before, seed);
        }
        let ended = world.run(&options, None);
        assert!(ended.done && ended.failures.is_empty(), "seed {seed}: {ended:?}");
        // Without a journal, nothing names the partial files of a killed run.
        let may_leave_parts = lost_power || world.sink.refuses.locks;
        oracle::same(&world.source, &world.sink, &world.before, &options, may_leave_parts, seed);
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || crashes.iter().all(|count| *count > 10), "{crashes:?}");
}

#[test]
fn recorded_data_is_not_sent_again() {
    let mut resumed = 0;
    seeds(12, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::one_large(&mut chance, 40 << 20);
        let mut world = World::new(source, Disk::default(), seed);
        let options = Options { sync: SyncMode::None, ..Options::plain() };
        let cut = world.run(&options, Some((120 + chance.below(60), Interruption::Kill)));
        if !cut.crashed {
            return;
        }
        let (read, written) = (world.source.read, world.sink.written);
        let ended = world.run(&options, None);
        assert!(ended.done, "seed {seed}");
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
        if ended.totals.moved == 0 {
            // Only finalization was interrupted.
            return;
        }
        let (read, wrote) = (world.source.read - read, world.sink.written - written);
        assert_eq!(read, (40 << 20) - ended.totals.resumed, "seed {seed}: reads only the rest");
        assert_eq!(read, wrote, "seed {seed}: writes it once");
        resumed += ended.totals.resumed;
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || resumed > 100 << 20, "{resumed} bytes were resumed");
}

/// A block of a partial file that changed between two runs is sent again.
#[test]
fn damaged_partial_files_are_repaired() {
    let (mut resumed, mut damaged) = (0, 0);
    seeds(12, |seed| {
        let mut chance = Chance::new(7_000_000 + seed);
        let source = trees::one_large(&mut chance, 40 << 20);
        let mut world = World::new(source, Disk::default(), seed);
        let hash = if chance.once_in(2) { HashKind::Xxh3 } else { HashKind::Blake3 };
        let options = Options { hash, ..Options::plain() };
        world.run(&options, Some((120 + chance.below(60), Interruption::Kill)));
        damaged += u32::from(world.damage_partial());
        let ended = world.run(&options, None);
        assert!(ended.done && ended.failures.is_empty(), "seed {seed}: {ended:?}");
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
        resumed += ended.totals.resumed;
    });
    let is_single = std::env::var("NUMAIO_SEED").is_ok();
    assert!(is_single || resumed > 60 << 20 && damaged > 3, "{resumed} bytes were resumed, {damaged}");
}

/// The blocks of earlier runs are larger or smaller than those of the next one, and some of them
/// are damaged meanwhile.
#[test]
fn file_is_resumed_with_any_block_size() {
    let (mut resumed, mut changes) = (0, 0);
    seeds(60, |seed| {
        let mut chance = Chance::new(4_000_000 + seed);
        let source = trees::one_large(&mut chance, 40 << 20);
        let mut world = World::new(source, Disk::default(), seed);
        let mut options = Options { mode: Options::random(&mut chance).mode, ..Options::plain() };
        for _ in 0..2 + chance.below(3) {
            let before = options.block;
            options = options.with_random_block(&mut chance);
            changes += u32::from(options.block != before);
            // Large blocks take few steps.
            let at = 20 + chance.below(if options.block.length() > 1 << 20 { 40 } else { 160 });
            let crash = if chance.once_in(2) { Interruption::Kill } else { Interruption::Disconnect };
            resumed += world.run(&options, Some((at, crash))).totals.resumed;
            if chance.once_in(3) {
                world.damage_partial();
            }
        }
        options = options.with_random_block(&mut chance);
        let ended = world.run(&options, None);
        assert!(ended.done && ended.failures.is_empty(), "seed {seed}: {ended:?}");
        resumed += ended.totals.resumed;
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
    });
    let is_single = std::env::var("NUMAIO_SEED").is_ok();
    assert!(
        is_single || resumed > 400 << 20 && changes > 60,
        "{resumed} bytes were resumed, {changes} changes"
    );
}

#[test]
fn versions_of_a_file_never_mix() {
    let mut resumed = 0;
    seeds(40, |seed| {
        let mut chance = Chance::new(3_000_000 + seed);
        let mut options = Options::random(&mut chance);
        (options.in_place, options.hash) = (false, HashKind::Xxh3);
        // Without hash comparison, size and mtime identify versions.
        let distrusts = options.checksum || options.ignore_times;
        let versions = trees::versions(&mut chance, 2, distrusts);
        let mut world = World::new(Disk::default(), Disk::default(), seed);
        world.fails_records = chance.once_in(3).then_some(3);
        for _ in 0..3 + chance.below(3) {
            trees::choose(&mut chance, &versions, &mut world.source);
            if chance.once_in(4) {
                world.remove_partials();
            }
            let crash = if chance.once_in(2) { Interruption::Kill } else { Interruption::Disconnect };
            let at = 10 + chance.below(60);
            options.eager &= chance.once_in(2);
            options = options.with_random_block(&mut chance);
            resumed += world.run(&options, Some((at, crash))).totals.resumed;
        }
        trees::choose(&mut chance, &versions, &mut world.source);
        let ended = world.run(&options, None);
        assert!(ended.done && ended.failures.is_empty(), "seed {seed}: {ended:?}");
        resumed += ended.totals.resumed;
        oracle::same(
            &world.source,
            &world.sink,
            &world.before,
            &options,
            world.fails_records.is_some(),
            seed,
        );
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || resumed > 15 << 20, "{resumed} bytes were resumed");
}

#[test]
fn partial_file_is_removed_if_its_name_becomes_another_object() {
    let mut left = 0;
    seeds(12, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::one_large(&mut chance, 9 << 20);
        let mut world = World::new(source, Disk::default(), seed);
        let cut = world.run(&Options::plain(), Some((20 + chance.below(20), Interruption::Kill)));
        let is_partial = |name: &Vec<u8>| name.starts_with(b".numaio-part-");
        left += usize::from(cut.crashed && world.sink.tree().keys().any(is_partial));
        let link = Object::Special(Kind::Symlink(b"elsewhere".as_slice().into()));
        world.source.put(b"large", trees::inode(&mut chance, link));
        let ended = world.run(&Options::plain(), None);
        assert!(ended.done && ended.failures.is_empty(), "seed {seed}: {ended:?}");
        oracle::same(&world.source, &world.sink, &world.before, &Options::plain(), false, seed);
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || left > 6, "{left}");
}

#[test]
fn full_disk_is_reported_and_does_not_affect_complete_files() {
    seeds(60, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::source(&mut chance, 0);
        let mut world = World::new(source, Disk::default(), seed);
        world.sink.capacity = chance.below(4 << 20);
        let options = Options { eager: seed.is_multiple_of(2), ..Options::plain() };
        let ended = world.run(&options, None);
        assert!(ended.done, "seed {seed}: the transfer continues: {ended:?}");
        oracle::finished_are_right(&world.source, &world.sink, &world.before, seed);
        let reported = oracle::missing_are_reported(&world.source, &world.sink, &ended.failures, seed);
        world.sink.capacity = u64::MAX;
        let again = world.run(&options, None);
        assert!(
            again.done && again.failures.is_empty(),
            "seed {seed}: {reported} had failed, then {again:?}"
        );
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
    });
}

#[test]
fn file_that_changes_during_the_transfer_is_reported() {
    let mut reported = 0;
    seeds(40, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::one_large(&mut chance, 9 << 20);
        let mut world = World::new(source, Disk::default(), seed);
        world.change_at = Some(1 + chance.below(40));
        let (eager, active_files) = (seed.is_multiple_of(2), seed.is_multiple_of(3));
        let options = Options { eager, active_files, ..Options::plain() };
        let ended = world.run(&options, None);
        assert!(ended.done, "seed {seed}");
        let there = world.sink.tree().contains_key(&b"large"[..]);
        let changed = ended.failures.iter().any(|failure| failure.contains("Changed"));
        assert_eq!(there, !changed || options.active_files, "seed {seed}: {:?}", ended.failures);
        reported += u32::from(changed);
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || (5..40).contains(&reported), "{reported}");
}

/// One fate of one file: it is reported once, and what was read up to its new end is a copy.
#[test]
fn truncated_file_is_copied_up_to_its_end() {
    let content = |disk: &Disk| match disk.tree().get(&b"large"[..]) {
        Some((_, Inode { object: Object::File(content, _), .. })) => content.clone(),
        other => panic!("expected a file, got {other:?}"),
    };
    let (mut cut, mut emptied) = (0, 0);
    seeds(150, |seed| {
        let mut chance = Chance::new(8_000_000 + seed);
        let size = if chance.once_in(2) { 60_000 } else { (5 << 20) + 7 };
        let source = trees::one_large(&mut chance, size);
        let before = content(&source);
        let mut world = World::new(source, Disk::default(), seed);
        let sizes = [0, 1 + chance.below(size - 1), (1 << 20).min(size - 1), size - 1];
        let first = sizes[chance.below(4) as usize];
        let at = 1 + chance.below(if size < 1 << 20 { 14 } else { 40 });
        world.truncations = vec![(at, first)];
        if first > 0 && chance.once_in(3) {
            world.truncations.push((at + 1 + chance.below(20), chance.below(first)));
        }
        let options = Options { in_place: chance.once_in(4), ..Options::random(&mut chance) };
        let options = Options { active_files: true, checksum: false, ..options };
        let ended = world.run(&options, None);
        assert!(ended.done, "seed {seed}: {ended:?}");
        let there = content(&world.sink);
        let sizes = world.truncations.iter().map(|(_, size)| *size).chain([size]);
        assert!(sizes.into_iter().any(|size| size == there.len() as u64), "seed {seed}: {}", there.len());
        assert!(before.starts_with(&there), "seed {seed}");
        assert!(ended.failures.len() < 2, "seed {seed}: {:?}", ended.failures);
        if !ended.failures.is_empty() {
            assert!(ended.failures[0].contains("reason: Changed"), "seed {seed}: {:?}", ended.failures);
            cut += u32::from(!there.is_empty());
            emptied += u32::from(there.is_empty());
        }
        world.truncations.clear();
        let again = world.run(&options, None);
        assert!(again.done && again.failures.is_empty(), "seed {seed}: {again:?}");
        assert!(content(&world.source) == content(&world.sink), "seed {seed}");
    });
    let is_single = std::env::var("NUMAIO_SEED").is_ok();
    assert!(is_single || cut > 20 && emptied > 5, "{cut} were cut, {emptied} emptied");
}

#[test]
fn checksums_detect_damage_and_changes_during_hashing_are_reported() {
    let mut reported = 0;
    seeds(40, |seed| {
        let mut chance = Chance::new(seed);
        // One of the files is hashed in two steps.
        let source = trees::one_large(&mut chance, if seed == 0 { 33 << 20 } else { 2 << 20 });
        let mut world = World::new(source, Disk::default(), seed);
        assert!(world.run(&Options::plain(), None).done, "seed {seed}");
        let options = Options { checksum: true, ..Options::plain() };
        let same = world.run(&options, None);
        assert!(same.done && same.totals.bytes == 0 && same.totals.moved == 0, "seed {seed}: {same:?}");
        world.damage_sink();
        world.change_at = seed.is_multiple_of(2).then(|| 1 + chance.below(20));
        let ended = world.run(&options, None);
        assert!(ended.done, "seed {seed}: {ended:?}");
        let changed = ended.failures.iter().any(|failure| failure.contains("Changed"));
        reported += u32::from(changed);
        if !changed {
            oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
        }
    });
    assert!(std::env::var("NUMAIO_SEED").is_ok() || (3..20).contains(&reported), "{reported}");
}

#[test]
fn many_files_need_few_packets() {
    let source = trees::many(3_000);
    let mut world = World::new(source, Disk::default(), 1);
    world.in_order = true;
    let ended: RunResult = world.run(&Options::plain(), None);
    assert!(ended.done && ended.totals.moved == 3_000, "{ended:?}");
    assert!(ended.packets < 200, "{} packets for 3,000 files", ended.packets);
}

#[test]
fn eager_source_does_not_wait_for_answers() {
    seeds(40, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::source(&mut chance, u64::from(seed.is_multiple_of(4)));
        let mut world = World::new(source, Disk::default(), seed);
        let options = Options { eager: true, in_place: seed.is_multiple_of(3), ..Options::plain() };
        let ended = world.run_without_answers(&options);
        assert!(ended.done && ended.failures.is_empty(), "seed {seed}: {ended:?}");
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
    });
}

#[test]
fn compressed_data_is_smaller_and_arrives_intact() {
    let size = 20 << 20;
    for (compress, least, most) in [
        (CompressMode::None, size, size),
        (CompressMode::Auto, 1, size / 10),
        (CompressMode::Zstd, 1, size / 10),
    ] {
        let mut world = World::new(trees::one_large(&mut Chance::new(7), size), Disk::default(), 7);
        let options = Options { compress, ..Options::plain() };
        let ended = world.run(&options, None);
        assert!(ended.done && ended.totals.bytes == size, "{compress:?}: {ended:?}");
        assert!((least..=most).contains(&ended.totals.sent), "{compress:?}: {:?}", ended.totals);
        oracle::same(&world.source, &world.sink, &world.before, &options, false, 7);
    }
}

#[test]
fn compressed_data_that_was_not_negotiated_aborts_the_transfer() {
    let mut world = World::new(trees::one_large(&mut Chance::new(7), 3 << 20), Disk::default(), 7);
    world.rejects_compressed = true;
    let ended = world.run(&Options { compress: CompressMode::Zstd, ..Options::plain() }, None);
    let reported = ended.failures.iter().any(|failure| failure.contains("was not negotiated"));
    assert!(!ended.done && reported, "{ended:?}");
    assert!(!world.sink.tree().contains_key(&b"large"[..]));
}

#[test]
fn corrupted_compressed_data_fails_only_its_files() {
    seeds(20, |seed| {
        let mut chance = Chance::new(seed);
        let source = trees::source(&mut chance, 1);
        let mut world = World::new(source, Disk::default(), seed);
        world.corrupts_data = true;
        let options =
            Options { compress: CompressMode::Zstd, eager: seed.is_multiple_of(2), ..Options::plain() };
        let ended = world.run(&options, None);
        assert!(ended.done, "seed {seed}: the transfer continues: {ended:?}");
        let reported = ended.failures.iter().any(|failure| failure.contains("cannot be decompressed"));
        assert!(reported, "seed {seed}: {:?}", ended.failures);
        oracle::finished_are_right(&world.source, &world.sink, &world.before, seed);
        oracle::missing_are_reported(&world.source, &world.sink, &ended.failures, seed);
        world.corrupts_data = false;
        let again = world.run(&options, None);
        assert!(again.done && again.failures.is_empty(), "seed {seed}: {again:?}");
        oracle::same(&world.source, &world.sink, &world.before, &options, false, seed);
    });
}
