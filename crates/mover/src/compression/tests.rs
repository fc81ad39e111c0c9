//! What is decided about packing, and what packing does.

use super::*;
use crate::testing;
use proptest::prelude::*;

const BLOCK: u64 = 1 << 20;
/// Packs 400 MB/s, to 30 %.
const ESTIMATE: BlockEstimate = BlockEstimate {
    bytes: BLOCK,
    ratio: 0.3,
    seconds_per_byte: 1.0 / 400e6,
    idle: false,
    waiting: 0,
    bytes_per_s: Some(100e6),
};

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What packing a block to so many bytes came to, at 400 MB/s, by a thread that had a CPU for a part of the time.
fn packed(bytes: Option<u64>, busy: f64) -> Packed {
    let took = Duration::from_secs_f64(BLOCK as f64 / 400e6);
    Packed { bytes: bytes.map(|bytes| bytes as usize), took, worked: took.mul_f64(busy) }
}

#[test]
fn a_block_is_packed_if_it_is_there_sooner_so() {
    let rate = |bytes_per_s| BlockEstimate { bytes_per_s: Some(bytes_per_s), ..ESTIMATE };
    let (fast, queue) = (rate(1e9), BlockEstimate { waiting: 8 * BLOCK, ..rate(1e9) });
    let hardly = BlockEstimate { ratio: 0.99, ..ESTIMATE };
    let cases = [
        ("nothing is known of the way", BlockEstimate { bytes_per_s: None, ..ESTIMATE }, true),
        ("a slow way", rate(10e6), true),
        // What packing saves is 70 % of the time to send: even at 280 MB/s.
        ("a way a little slower than even", rate(270e6), true),
        ("a way a little faster than even", rate(290e6), false),
        ("a fast way", fast, false),
        ("a fast way, and CPUs that are idle", BlockEstimate { idle: true, ..fast }, false),
        ("a fast way that is behind, and CPUs that are idle", BlockEstimate { idle: true, ..queue }, true),
        ("a fast way that is behind, and no CPU", queue, false),
        (
            "a way that is behind for less than packing takes",
            BlockEstimate { waiting: BLOCK, idle: true, ..fast },
            false,
        ),
        ("data that hardly becomes smaller", hardly, false),
        ("the same for nothing", BlockEstimate { waiting: BLOCK, idle: true, ..hardly }, true),
        ("data that stays as it is", BlockEstimate { ratio: 1.0, waiting: BLOCK, idle: true, ..ESTIMATE }, false),
        ("a way that stands still", rate(1e-3), true),
    ];
    for (name, seen, wanted) in cases {
        assert_eq!(seen.is_worthwhile(), wanted, "{name}");
    }
}

/// A packer by auto, whose way carries so many bytes a second, and that packed a block to 30 %.
fn by_auto(limit: u64, busy: f64) -> (CompressionPolicy, CompressionHistory) {
    let (mut packer, mut large) = (CompressionPolicy::new(CompressMode::Auto, Some(limit)), CompressionHistory::default());
    assert!(packer.should_compress(Some(&mut large), BLOCK), "what was never packed is");
    packer.record(Some(&mut large), &packed(Some(BLOCK * 3 / 10), busy), BLOCK);
    (packer, large)
}

#[test]
fn auto_goes_by_the_way() {
    let (mut packer, mut large) = by_auto(10_000_000, 1.0);
    assert!((0..1000).all(|_| packer.should_compress(Some(&mut large), BLOCK)));
    let (mut packer, mut large) = by_auto(1_000_000_000, 1.0);
    let should_compress = (0..1000).filter(|_| packer.should_compress(Some(&mut large), BLOCK)).count();
    assert_eq!(should_compress, 1000 / (PROBE_INTERVAL as usize + 1), "now and then, to see whether it is worth it by now");
    // A queue, which an idle CPU shortens.
    let queue = |busy| {
        let (mut packer, mut large) = by_auto(1_000_000_000, busy);
        packer.link.queued(50 * BLOCK);
        packer.link.update(ms(1));
        packer.should_compress(Some(&mut large), BLOCK)
    };
    assert_eq!((queue(1.0), queue(0.5)), (true, false));
}

#[test]
fn what_is_not_asked_for_or_too_small_is_not_packed() {
    let mut none = CompressionPolicy::new(CompressMode::None, Some(1));
    assert!(!none.should_compress(None, BLOCK) && !none.should_compress(Some(&mut CompressionHistory::default()), BLOCK));
    let mut all = CompressionPolicy::new(CompressMode::Zstd, None);
    assert!(!all.should_compress(None, MIN_BYTES - 1) && all.should_compress(None, MIN_BYTES));
    all.record(None, &packed(Some(BLOCK - 1), 0.1), BLOCK);
    for second in 1..3 {
        all.link.sent(1 << 40);
        all.link.update(ms(1_000 * second));
    }
    assert!(all.should_compress(None, MIN_BYTES), "however fast the way is");
}

/// How many blocks were left alone between those that were packed to so many bytes.
fn pauses(packer: &mut CompressionPolicy, mut large: Option<&mut CompressionHistory>, results: &[Option<u64>]) -> Vec<u32> {
    let pause = |result: &Option<u64>| {
        let left = (0..).take_while(|_| !packer.should_compress(large.as_deref_mut(), BLOCK)).count();
        packer.record(large.as_deref_mut(), &packed(*result, 1.0), BLOCK);
        left as u32
    };
    results.iter().map(pause).collect()
}

#[test]
fn what_does_not_become_smaller_is_tried_ever_less() {
    for compress in [CompressMode::Auto, CompressMode::Zstd] {
        let mut packer = CompressionPolicy::new(compress, None);
        let (mut one, mut other) = (CompressionHistory::default(), CompressionHistory::default());
        let found = pauses(&mut packer, Some(&mut one), &[None; 10]);
        assert_eq!(found, [0, 4, 8, 16, 32, 64, 128, 256, 256, 256], "{compress:?}");
        let found = pauses(&mut packer, Some(&mut other), &[Some(9), Some(9), None, Some(9), None, None]);
        assert_eq!(found, [0, 0, 0, 4, 0, 4], "{compress:?}: another file");
        let found = pauses(&mut packer, None, &[None; 5]);
        assert_eq!(found, [0, 4, 8, 8, 8], "{compress:?}: small files have little to do with each other");
        assert_eq!(pauses(&mut packer, Some(&mut one), &[Some(9), None]), [256, 0]);
    }
}

#[test]
fn the_way_is_measured_while_there_is_something_to_send() {
    let mut link = LinkRate::default();
    let mut now = Duration::ZERO;
    let mut send = |link: &mut LinkRate, blocks: u64, each: u64| {
        for _ in 0..blocks {
            now += ms(each);
            link.sent(BLOCK);
            link.update(now);
        }
        now
    };
    link.queued(100 * BLOCK);
    link.update(Duration::ZERO);
    assert_eq!((link.bytes_per_s(), link.waiting()), (None, 100 * BLOCK));
    send(&mut link, 3, 10);
    assert_eq!(link.bytes_per_s(), None, "too early");
    send(&mut link, 17, 10);
    let is = |link: &LinkRate, wanted: f64, within: f64| {
        let rate = link.bytes_per_s().expect("a rate");
        assert!((rate / wanted - 1.0).abs() < within, "{rate} in place of {wanted}");
    };
    is(&link, BLOCK as f64 / 0.01, 1e-6);
    assert_eq!(link.waiting(), 80 * BLOCK);
    let idle_from = send(&mut link, 80, 10);
    link.update(idle_from + ms(100_000));
    is(&link, BLOCK as f64 / 0.01, 1e-6);
    // A way that turns slow is known to be so within seconds.
    let mut now = idle_from + ms(100_000);
    link.queued(16 * BLOCK);
    link.update(now);
    for _ in 0..16 {
        now += ms(1_000);
        link.sent(BLOCK);
        link.update(now);
    }
    is(&link, BLOCK as f64, 0.2);
    // One that stands still: nothing is divided by nothing.
    link.queued(BLOCK);
    (1..100).for_each(|second| link.update(now + ms(1_000 * second)));
    assert!(link.bytes_per_s().is_some_and(|rate| rate > 0.0 && rate < 1e3));
}

#[test]
fn blocks_are_packed_and_hostile_ones_refused() {
    let text: Vec<u8> = (0..1 << 20).map(|index| b"numaio "[index % 7] ^ (index >> 14) as u8).collect();
    let mut into = vec![0; 1 << 20];
    let length = compress(&text, &mut into).expect("it is smaller");
    assert!(length < text.len() / 20, "{length}");
    let frame = into[..length].to_vec();
    let mut plain = vec![0; 1 << 20];
    decompress(&frame, &mut plain).expect("what was packed");
    assert!(plain == text);
    // Shorter, longer, cut, turned, with something behind it, twice, and nothing.
    assert!(decompress(&frame, &mut plain[1..]).is_err());
    assert!(decompress(&frame, &mut vec![0; (1 << 20) + 1]).expect_err("shorter").contains("1048576 bytes"));
    assert!(decompress(&frame[..length - 1], &mut plain).is_err());
    assert!(decompress(&[&frame[..], b"x"].concat(), &mut plain).is_err());
    assert!(decompress(&frame.repeat(2), &mut plain).is_err());
    assert!(decompress(b"", &mut plain).is_err() && decompress(b"no frame", &mut plain).is_err());
    // One that says it is 2^60 bytes: magic, a content size of eight bytes, and an empty last block (RFC 8878, 3.1.1).
    let lie = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1u64 << 60).to_le_bytes(), &[1, 0, 0]].concat();
    assert!(decompress(&lie, &mut plain).is_err());
    // One that needs a dictionary.
    assert!(decompress(&[0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 1, 9, 0, 0, b'x'], &mut plain[..1]).is_err());
    // What does not become smaller by a 16th, or does not fit.
    let mut noise = vec![0; 1 << 20];
    let mut word = 1u64;
    noise.chunks_mut(8).for_each(|chunk| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        chunk.copy_from_slice(&(word ^ word >> 29).to_be_bytes());
    });
    assert_eq!(compress(&noise, &mut into), None);
    assert_eq!(compress(&text, &mut into[..length - 1]), None);
    assert_eq!((compress(b"", &mut into), compress(b"a", &mut into)), (None, None));
}

proptest! {
    #![proptest_config(testing::config())]

    #[test]
    fn what_was_packed_comes_back(bytes in proptest::collection::vec(0u8..4, 0..5_000)) {
        let (mut into, mut plain) = (vec![0; bytes.len()], vec![0; bytes.len()]);
        if let Some(length) = compress(&bytes, &mut into) {
            prop_assert!(length <= bytes.len() - bytes.len() / 16);
            prop_assert_eq!(decompress(&into[..length], &mut plain), Ok(()));
            prop_assert_eq!(plain, bytes);
        }
    }
}
