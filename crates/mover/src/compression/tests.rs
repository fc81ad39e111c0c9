//! Tests of the compression decision and of the codec.

use super::*;
use crate::testing;
use proptest::prelude::*;

const BLOCK: u64 = 1 << 20;
/// Compression at 400 MB/s to 30 %.
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

/// The result of compressing a block at 400 MB/s on a thread that had a CPU for the share `busy`.
fn packed(bytes: Option<u64>, busy: f64) -> CompressionResult {
    let took = Duration::from_secs_f64(BLOCK as f64 / 400e6);
    CompressionResult { bytes: bytes.map(|bytes| bytes as usize), took, worked: took.mul_f64(busy) }
}

#[test]
fn compresses_a_block_if_that_sends_it_sooner() {
    let rate = |bytes_per_s| BlockEstimate { bytes_per_s: Some(bytes_per_s), ..ESTIMATE };
    let (fast, queue) = (rate(1e9), BlockEstimate { waiting: 8 * BLOCK, ..rate(1e9) });
    let hardly = BlockEstimate { ratio: 0.99, ..ESTIMATE };
    let cases = [
        ("unknown link rate", BlockEstimate { bytes_per_s: None, ..ESTIMATE }, true),
        ("slow link", rate(10e6), true),
        // Compression saves 70 % of the sending time: break-even is at 280 MB/s.
        ("link slightly below break-even", rate(270e6), true),
        ("link slightly above break-even", rate(290e6), false),
        ("fast link", fast, false),
        ("fast link, idle CPUs", BlockEstimate { idle: true, ..fast }, false),
        ("fast link with a queue, idle CPUs", BlockEstimate { idle: true, ..queue }, true),
        ("fast link with a queue, busy CPUs", queue, false),
        (
            "queue shorter than the compression time",
            BlockEstimate { waiting: BLOCK, idle: true, ..fast },
            false,
        ),
        ("data that hardly shrinks", hardly, false),
        (
            "data that hardly shrinks, free of cost",
            BlockEstimate { waiting: BLOCK, idle: true, ..hardly },
            true,
        ),
        ("incompressible data", BlockEstimate { ratio: 1.0, waiting: BLOCK, idle: true, ..ESTIMATE }, false),
        ("stalled link", rate(1e-3), true),
    ];
    for (name, metadata, wanted) in cases {
        assert_eq!(metadata.is_worthwhile(), wanted, "{name}");
    }
}

/// An automatic policy for a link of `limit` bytes per second after compressing a block to 30 %.
fn by_auto(limit: u64, busy: f64) -> (CompressionPolicy, CompressionHistory) {
    let (mut policy, mut large) =
        (CompressionPolicy::new(CompressMode::Auto, Some(limit)), CompressionHistory::default());
    assert!(policy.should_compress(Some(&mut large), BLOCK), "the first block is compressed");
    policy.record(Some(&mut large), &packed(Some(BLOCK * 3 / 10), busy), BLOCK);
    (policy, large)
}

#[test]
fn automatic_mode_depends_on_the_link_rate() {
    let (mut policy, mut large) = by_auto(10_000_000, 1.0);
    assert!((0..1000).all(|_| policy.should_compress(Some(&mut large), BLOCK)));
    let (mut policy, mut large) = by_auto(1_000_000_000, 1.0);
    let compressed = (0..1000).filter(|_| policy.should_compress(Some(&mut large), BLOCK)).count();
    assert_eq!(compressed, 1000 / (PROBE_INTERVAL as usize + 1), "probes at a fixed interval");
    // An idle CPU shortens the queue.
    let queue = |busy| {
        let (mut policy, mut large) = by_auto(1_000_000_000, busy);
        policy.link.queued(50 * BLOCK);
        policy.link.update(ms(1));
        policy.should_compress(Some(&mut large), BLOCK)
    };
    assert_eq!((queue(1.0), queue(0.5)), (true, false));
}

#[test]
fn does_not_compress_if_disabled_or_too_small() {
    let mut none = CompressionPolicy::new(CompressMode::None, Some(1));
    assert!(
        !none.should_compress(None, BLOCK)
            && !none.should_compress(Some(&mut CompressionHistory::default()), BLOCK)
    );
    let mut all = CompressionPolicy::new(CompressMode::Zstd, None);
    assert!(!all.should_compress(None, MIN_BYTES - 1) && all.should_compress(None, MIN_BYTES));
    all.record(None, &packed(Some(BLOCK - 1), 0.1), BLOCK);
    for second in 1..3 {
        all.link.sent(1 << 40);
        all.link.update(ms(1_000 * second));
    }
    assert!(all.should_compress(None, MIN_BYTES), "independent of the link rate");
}

/// Returns how many blocks were skipped before each of the given compression results.
fn pauses(
    policy: &mut CompressionPolicy,
    mut large: Option<&mut CompressionHistory>,
    results: &[Option<u64>],
) -> Vec<u32> {
    let pause = |result: &Option<u64>| {
        let left = (0..).take_while(|_| !policy.should_compress(large.as_deref_mut(), BLOCK)).count();
        policy.record(large.as_deref_mut(), &packed(*result, 1.0), BLOCK);
        left as u32
    };
    results.iter().map(pause).collect()
}

#[test]
fn pauses_grow_for_incompressible_data() {
    for compress in [CompressMode::Auto, CompressMode::Zstd] {
        let mut policy = CompressionPolicy::new(compress, None);
        let (mut one, mut other) = (CompressionHistory::default(), CompressionHistory::default());
        let found = pauses(&mut policy, Some(&mut one), &[None; 10]);
        assert_eq!(found, [0, 4, 8, 16, 32, 64, 128, 256, 256, 256], "{compress:?}");
        let found = pauses(&mut policy, Some(&mut other), &[Some(9), Some(9), None, Some(9), None, None]);
        assert_eq!(found, [0, 0, 0, 4, 0, 4], "{compress:?}: another file");
        let found = pauses(&mut policy, None, &[None; 5]);
        assert_eq!(found, [0, 4, 8, 8, 8], "{compress:?}: small files are unrelated to each other");
        assert_eq!(pauses(&mut policy, Some(&mut one), &[Some(9), None]), [256, 0]);
    }
}

#[test]
fn measures_the_link_rate_only_while_data_is_queued() {
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
    // A link that becomes slow is recognized within seconds.
    let mut now = idle_from + ms(100_000);
    link.queued(16 * BLOCK);
    link.update(now);
    for _ in 0..16 {
        now += ms(1_000);
        link.sent(BLOCK);
        link.update(now);
    }
    is(&link, BLOCK as f64, 0.2);
    // A stalled link: no division by zero.
    link.queued(BLOCK);
    (1..100).for_each(|second| link.update(now + ms(1_000 * second)));
    assert!(link.bytes_per_s().is_some_and(|rate| rate > 0.0 && rate < 1e3));
}

#[test]
fn compresses_blocks_and_rejects_hostile_data() {
    let text: Vec<u8> = (0..1 << 20).map(|index| b"numaio "[index % 7] ^ (index >> 14) as u8).collect();
    let mut into = vec![0; 1 << 20];
    let length = compress(&text, &mut into).expect("it is smaller");
    assert!(length < text.len() / 20, "{length}");
    let frame = into[..length].to_vec();
    let mut plain = vec![0; 1 << 20];
    decompress(&frame, &mut plain).expect("a valid frame");
    assert!(plain == text);
    // Output too short or too long, truncated and trailing data, two frames, and no frame.
    assert!(decompress(&frame, &mut plain[1..]).is_err());
    assert!(decompress(&frame, &mut vec![0; (1 << 20) + 1])
        .expect_err("too short")
        .contains("1048576 bytes"));
    assert!(decompress(&frame[..length - 1], &mut plain).is_err());
    assert!(decompress(&[&frame[..], b"x"].concat(), &mut plain).is_err());
    assert!(decompress(&frame.repeat(2), &mut plain).is_err());
    assert!(decompress(b"", &mut plain).is_err() && decompress(b"no frame", &mut plain).is_err());
    // A frame header that claims 2^60 bytes: magic, content size, and an empty last block (RFC
    // 8878, 3.1.1).
    let lie = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1u64 << 60).to_le_bytes(), &[1, 0, 0]].concat();
    assert!(decompress(&lie, &mut plain).is_err());
    // A frame that needs a dictionary.
    assert!(decompress(&[0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 1, 9, 0, 0, b'x'], &mut plain[..1]).is_err());
    // Data that does not shrink by 1/16, or does not fit.
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
    fn compressed_block_round_trips(bytes in proptest::collection::vec(0u8..4, 0..5_000)) {
        let (mut into, mut plain) = (vec![0; bytes.len()], vec![0; bytes.len()]);
        if let Some(length) = compress(&bytes, &mut into) {
            prop_assert!(length <= bytes.len() - bytes.len() / 16);
            prop_assert_eq!(decompress(&into[..length], &mut plain), Ok(()));
            prop_assert_eq!(plain, bytes);
        }
    }
}
