//! Tests of the complete format: round trips, canonical encodings and hostile input.

use super::*;
use crate::entry::{Content, DeviceNumber, Entry, Inode, Kind, Mode, Object, Owner, Target, Time, Xattrs};
use crate::entry::{EntryError, FileNumber};
use crate::extent::Extent;
use crate::hash::HashKind;
use crate::name::{Name, NameError};
use crate::port::Digest;
use crate::testing;
use proptest::prelude::*;

fn owner() -> impl Strategy<Value = Owner> {
    let name =
        proptest::option::of(prop_oneof![Just(b"root".to_vec()), proptest::collection::vec(1u8.., 1..9)]);
    let id = prop_oneof![Just(0), Just(1_000), 0..u32::MAX];
    (id, name).prop_map(|(id, name)| Owner::new(id, name.as_deref()).expect("an owner"))
}

fn content() -> impl Strategy<Value = Content> {
    let extent =
        (0u64..1 << 20, 1u64..1 << 18).prop_filter_map("too far", |(at, length)| Extent::at(at, length));
    let metadata = (0u64..1 << 20, proptest::collection::vec(extent, 0..5));
    let content = prop_oneof![
        (0..i64::MAX as u64).prop_map(|size| Content::dense(size).expect("a size")),
        (0u64..3_000).prop_map(|size| Content::dense(size).expect("a size")),
        metadata.prop_map(|(size, extents)| Content::from_extents(size, extents).expect("a file")),
    ];
    (content, proptest::option::of(time())).prop_map(|(content, changed)| content.with_ctime(changed))
}

fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(s, ns)| Time::new(s, ns).expect("a time"))
}

fn kind() -> impl Strategy<Value = Kind> {
    let device = (0u32..4_096, 0u32..1 << 20).prop_map(|(major, minor)| DeviceNumber::new(major, minor));
    let device = device.prop_map(|device| device.expect("a device"));
    let target =
        proptest::collection::vec(1u8.., 1..20).prop_map(|bytes| Target::new(bytes).expect("a target"));
    prop_oneof![
        4 => content().prop_map(Kind::File),
        1 => Just(Kind::Directory),
        1 => target.prop_map(Kind::Symlink),
        1 => Just(Kind::Fifo),
        1 => device.clone().prop_map(Kind::CharacterDevice),
        1 => device.prop_map(Kind::BlockDevice),
    ]
}

fn xattrs() -> impl Strategy<Value = Xattrs> {
    let one = (proptest::collection::vec(1u8.., 1..8), proptest::collection::vec(any::<u8>(), 0..8));
    let some = proptest::collection::vec(one, 1..4).prop_map(|all| {
        all.iter().fold(Xattrs::default(), |mut xattrs, (name, value)| {
            xattrs.insert(name, value).expect("room");
            xattrs
        })
    });
    prop_oneof![4 => Just(Xattrs::default()), 1 => some]
}

fn inode() -> impl Strategy<Value = Inode> {
    let mode = prop_oneof![Just(0o644), Just(0o755), 0u32..0o10000]
        .prop_map(|bits| Mode::new(bits).expect("a mode"));
    (kind(), mode, time(), owner(), owner(), xattrs())
        .prop_map(|(kind, mode, mtime, user, group, xattrs)| Inode { kind, mode, mtime, user, group, xattrs })
}

fn batch() -> impl Strategy<Value = Batch> {
    let object = prop_oneof![8 => inode().prop_map(Ok), 1 => testing::name().prop_map(Err)];
    let entries = proptest::collection::vec((testing::name(), object), 1..8);
    (0u64..1 << 40, entries)
        .prop_map(|(first, all)| {
            let mut entries = Vec::new();
            for (name, object) in all {
                let object = match object {
                    Err(to) if to.is_root() => continue,
                    Err(to) => Object::HardLink(to),
                    Ok(inode) => Object::New(inode),
                };
                let directory = matches!(&object, Object::New(Inode { kind: Kind::Directory, .. }));
                let name =
                    if name.is_root() && !directory { Name::new(*b"x").expect("a name") } else { name };
                entries.push(Entry { name, object });
            }
            (first, entries)
        })
        .prop_filter("an entry", |(_, entries)| !entries.is_empty())
        .prop_map(|(first, entries)| as_batch(first, &entries))
}

/// Returns a batch after encoding and decoding, the only way to create one.
fn as_batch(first: u64, entries: &[Entry]) -> Batch {
    let mut encoder = BatchEncoder::new(number(first));
    for entry in entries {
        assert_eq!(encoder.push(entry), Ok(true));
    }
    let mut bytes = hello_bytes();
    assert_eq!(encoder.take(&mut bytes).map(FileNumber::get), Ok(first + entries.len() as u64));
    let (_, mut frames) = decode(&bytes, &[]).expect("a batch");
    let Some(Frame::Batch(batch)) = frames.pop() else { panic!("no batch") };
    let decoded: Vec<&Entry> = batch.entries().map(|(_, entry)| entry).collect();
    assert_eq!(decoded, entries.iter().collect::<Vec<_>>());
    assert_eq!(batch.entries().next().map(|(number, _)| number.get()), Some(first));
    batch
}

fn number(number: u64) -> FileNumber {
    FileNumber::new(number).expect("a number")
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Source), Just(Side::Sink)]
}

fn change() -> impl Strategy<Value = Frame> {
    let action = proptest::sample::select(&ChangeKind::ALL[..]);
    let kind = proptest::sample::select(&ItemKind::ALL[..]);
    let item = (kind, testing::name(), any::<u64>()).prop_map(|(kind, name, size)| {
        let mut item = Itemized::new(b'>', kind);
        item.mark(attribute::MODE, b'p');
        item.target = Some(name.as_bytes().into()).filter(|_| !name.is_root());
        item.size = size;
        Box::new(item)
    });
    let item = proptest::option::of(item);
    (action, testing::name(), any::<u64>(), item).prop_map(|(action, name, bytes, itemized)| {
        let bytes = if action == ChangeKind::Copied { bytes } else { 0 };
        Frame::Change(SinkChange { name, action, bytes, itemized })
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let file = || (0u64..1 << 63).prop_filter_map("too large", |number| FileNumber::new(number).ok());
    let part = (file(), 0u64..1 << 40, 1u64..100, any::<[u8; 32]>());
    let chunk = (proptest::sample::select(&HashKind::ALL[..]), proptest::collection::vec(part, 1..5));
    let chunk = chunk.prop_filter_map("too far", |(hash, parts)| {
        let parts = parts.into_iter().filter_map(|(file, at, length, bytes)| {
            let mut digest = Digest::default();
            digest.0[..hash.bytes()].copy_from_slice(&bytes[..hash.bytes()]);
            Some(ChunkPart { file, extent: Extent::at(at, length)?, digest })
        });
        Chunk::new(hash, parts.collect()).ok()
    });
    let chunk = (chunk, proptest::option::of(any::<u64>())).prop_map(|(chunk, packed)| match packed {
        // One byte cannot be compressed.
        Some(bytes) if chunk.length() > 1 => {
            let bytes = 1 + bytes % (chunk.length() - 1);
            chunk.compressed_to(bytes).expect("fewer")
        }
        _ => chunk,
    });
    let needed = prop_oneof![
        Just(NeededData::Nothing),
        Just(NeededData::All),
        Just(NeededData::Hash),
        content().prop_map(|content| match content.extents().collect::<Vec<_>>() {
            none if none.is_empty() => NeededData::All,
            extents => NeededData::Some(extents),
        }),
    ];
    let want = (0u64..1 << 40, 1u64..100, needed).prop_map(|(first, count, what)| DataRequest {
        first: number(first),
        count,
        what,
    });
    let wants =
        proptest::collection::vec(want, 1..5).prop_map(|wants| DataRequests::new(wants).expect("answers"));
    let about = prop_oneof![
        Just(ProblemSubject::Transfer),
        (file(), testing::name()).prop_map(|(file, name)| ProblemSubject::File(file, name)),
        testing::name().prop_map(ProblemSubject::Name)
    ];
    let reason = proptest::sample::select(Reason::ALL);
    let problem = (about, side(), reason, any::<String>()).prop_map(|(about, side, reason, words)| {
        Frame::Problem(Problem { about, side, reason, text: DisplayText::new(&words) })
    });
    let holes = (file(), content()).prop_map(|(file, content)| match content.extents().collect::<Vec<_>>() {
        none if none.is_empty() => Frame::FileSent(FileSent { file, bytes: 0 }),
        extents => Frame::Holes(Holes::new(file, extents).expect("holes")),
    });
    prop_oneof![
        3 => batch().prop_map(Frame::Batch),
        2 => chunk.prop_map(Frame::Chunk),
        1 => (file(), any::<u64>()).prop_map(|(file, bytes)| Frame::FileSent(FileSent { file, bytes })),
        1 => (file(), any::<u64>()).prop_map(|(file, size)| Frame::Truncated(TruncatedFile { file, size })),
        2 => wants.prop_map(Frame::DataRequests),
        1 => holes,
        1 => testing::name().prop_map(Frame::MountPoint),
        1 => (file(), any::<[u8; 32]>()).prop_map(|(file, hash)| Frame::FileHash(FileHash { file, digest: Digest(hash) })),
        1 => (testing::name().prop_filter("the root", |name| !name.is_root()), any::<[u8; 32]>())
            .prop_map(|(name, hash)| Frame::ManifestEntry(ManifestEntry { name, digest: Digest(hash) })),
        1 => change(),
        1 => (proptest::collection::btree_set(file(), 0..9), any::<bool>()).prop_map(|(entries, is_last)| {
            let stored = StoredEntries::new(entries.into_iter().collect(), is_last);
            Frame::StoredEntries(stored.expect("ascending numbers"))
        }),
        1 => Just(Frame::AllSent),
        1 => problem,
    ]
}

/// The end frame of every stream in these tests.
const END: EndTotals = EndTotals {
    entries: 1,
    failed: 2,
    bytes: u64::MAX,
    size: 3,
    resumed: 4,
    unchanged: 5,
    removed: u64::MAX,
};

fn hello_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    StreamHeader { side: Side::Source, transfer: TransferId([7; 16]) }.encode(&mut bytes);
    bytes
}

/// Encodes frames with chunk data; `ended` appends the end frame.
fn stream(frames: &[Frame], ended: bool) -> Vec<u8> {
    let mut bytes = hello_bytes();
    for frame in frames {
        frame.encode(&mut bytes);
        if let Frame::Chunk(chunk) = frame {
            bytes.extend((0..chunk.wire_length()).map(|n| n as u8));
        }
    }
    if ended {
        Frame::End(END).encode(&mut bytes);
    }
    bytes
}

/// Decodes bytes that arrive in pieces of the given lengths, then of 100 bytes; returns the data of
/// all chunks concatenated, and the frames.
fn decode(bytes: &[u8], pieces: &[usize]) -> Result<(Vec<u8>, Vec<Frame>), WireError> {
    let (mut decoder, mut data, mut frames) = (Decoder::new(), Vec::new(), Vec::new());
    let mut rest = bytes;
    let mut pieces = pieces.iter().copied().chain(std::iter::repeat(100));
    loop {
        while let Some(received) = decoder.pull()? {
            match received {
                StreamItem::Header(hello) => assert_eq!(hello.transfer, TransferId([7; 16])),
                StreamItem::Frame(frame) => frames.push(frame),
                StreamItem::Data(bytes) => {
                    assert!(!bytes.is_empty());
                    data.extend_from_slice(bytes);
                }
            }
        }
        if rest.is_empty() {
            return Ok((data, frames));
        }
        let piece = pieces.next().unwrap_or(1).clamp(1, rest.len());
        let taken = decoder.push(&rest[..piece]);
        assert!(taken > 0, "a decoder that needs more bytes has space");
        rest = &rest[taken..];
    }
}

#[test]
fn largest_entry_fits_into_a_batch() {
    use crate::entry::{MAX_ACCOUNT, MAX_EXTENTS, MAX_XATTRS, MAX_XATTR_LIST};
    // Every number at its maximum length; as many attributes as the name list may have.
    let numbers = 10 * 6;
    let name = 3 + crate::name::MAX_NAME;
    let owners = 2 * (5 + 2 + MAX_ACCOUNT);
    let xattrs = MAX_XATTRS + MAX_XATTR_LIST / 2 * (2 + 3);
    let content = MAX_EXTENTS * 2 * 9;
    let limit = 1 + numbers + name + owners + xattrs + content;
    assert!(limit <= MAX_PAYLOAD, "{limit}");
}

#[test]
fn full_batch_rejects_further_entries() {
    let inode = |size| Inode {
        kind: Kind::File(Content::dense(size).expect("a size")),
        mode: Mode::new(0o644).expect("a mode"),
        mtime: Time::new(0, 0).expect("a time"),
        user: Owner::new(0, None).expect("an owner"),
        group: Owner::new(0, None).expect("an owner"),
        xattrs: Xattrs::default(),
    };
    let entry = |index: usize, letters: usize| Entry {
        name: Name::new(
            format!("{index:08}/{}", ["x".repeat(255), "/".into()].concat().repeat(letters) + "a")
                .into_bytes(),
        )
        .expect("a name"),
        object: Object::New(inode(index as u64)),
    };
    for (letters, limit) in [(0, MAX_BATCH), (15, 600)] {
        let mut encoder = BatchEncoder::new(number(5));
        let taken =
            (0..).take_while(|&index| encoder.push(&entry(index, letters)).expect("a good entry")).count();
        assert!(taken <= limit && taken > 120, "{taken}");
        assert!(encoder.length() <= MAX_PAYLOAD);
        let mut bytes = hello_bytes();
        assert_eq!(encoder.take(&mut bytes).map(FileNumber::get), Ok(5 + taken as u64));
        // Twice, so that the second frame does not fit behind the first in a decoder.
        let frame = bytes.split_off(hello_bytes().len());
        let (_, frames) = decode(&[bytes, frame.clone(), frame].concat(), &[usize::MAX; 9]).expect("batches");
        let [Frame::Batch(one), Frame::Batch(other)] = &frames[..] else { panic!("two batches") };
        assert_eq!((one.entries().count(), one), (taken, other));
        let mut nothing = Vec::new();
        assert!(encoder.take(&mut nothing).is_ok() && nothing.is_empty());
    }
}

#[test]
fn batch_rejects_impossible_entries() {
    let link = |to| Entry { name: Name::new(*b"a").expect("a name"), object: Object::HardLink(to) };
    let other = Name::new(*b"b").expect("a name");
    let mut encoder = BatchEncoder::new(number(5));
    assert_eq!(encoder.push(&link(Name::root())), Err(WireError::InvalidValue("a hard link to the root")));
    assert_eq!(encoder.push(&link(other.clone())), Ok(true));
    let root = Entry { name: Name::root(), object: Object::HardLink(other) };
    assert_eq!(encoder.push(&root), Err(WireError::InvalidValue("a root that is not a directory")));
    assert_eq!(encoder.take(&mut Vec::new()).map(FileNumber::get), Ok(6));
}

#[test]
fn distinguishes_other_protocols_and_versions() {
    let first = |bytes: &[u8]| {
        let mut decoder = Decoder::new();
        decoder.push(bytes);
        decoder.pull().map(|received| received.is_some())
    };
    assert_eq!(first(b"SSH-2.0-OpenSSH\r\n"), Err(WireError::Magic));
    assert_eq!(first(b"S"), Err(WireError::Magic));
    assert_eq!(first(&hello_bytes()), Ok(true));
    let with = |version: [u8; 2]| [&MAGIC[..], &version].concat();
    assert_eq!(first(&with([0, 1])), Ok(false));
    assert_eq!(first(&with([0, 2])), Err(WireError::Version(2)));
    assert_eq!(first(&with([1, 0])), Err(WireError::Version(256)));
}

/// Returns the decoder's error for one frame after a stream header.
fn error_of(frame: &[u8]) -> WireError {
    decode(&[&hello_bytes()[..], frame].concat(), &[]).expect_err("a bad frame")
}

#[test]
fn rejects_invalid_frames_immediately() {
    let long = |length, limit| WireError::TooLong { what: "a frame", length, limit };
    // The payloads of these frames are missing.
    assert_eq!(error_of(&[1, 0x81, 0x80, 0x20]), long(524_289, 524_288));
    assert_eq!(
        error_of(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        long(u64::MAX, 524_288)
    );
    assert_eq!(error_of(&[2, 0xff, 0xff, 0x7f]), long(2_097_151, 63_489));
    assert_eq!(error_of(&[5, 71]), long(71, 70));
    assert_eq!(error_of(&[0]), WireError::Kind(0));
    assert_eq!(error_of(&[9, 3, 5, 1, b'a']), WireError::InvalidValue("the kind of a change"));
    assert_eq!(error_of(&[9, 4, 2, 1, b'a', 0]), WireError::Trailing);
    assert_eq!(error_of(&[9, 3, 1, 1, b'a']), WireError::Truncated("a count of bytes"));
    assert_eq!(error_of(&[99]), WireError::Kind(99));
    assert_eq!(error_of(&[10, 0xff, 0xff, 0x7f]), long(2_097_151, 63_499));
    // A chunk of three bytes, compressed to none and to three.
    let compressed_to = |bytes| error_of(&[10, 5, bytes, 0, 0, 0, 3]);
    assert_eq!(
        [compressed_to(0), compressed_to(3)],
        [(); 2].map(|()| WireError::InvalidValue("the length of compressed data"))
    );
    assert_eq!(error_of(&[10, 2, 0x80, 0]), WireError::NotCanonical("a count of bytes"));
    assert_eq!(error_of(&[7, 43]), long(43, 42));
    assert_eq!(
        error_of(&[&[8, 33, 0][..], &[0; 32]].concat()),
        WireError::InvalidValue("a file without a name")
    );
    assert_eq!(error_of(&[2, 0x80, 0]), WireError::NotCanonical("the length of a frame"));
    // A chunk of a block and a byte, an empty one, and one beyond the largest file.
    let limit = MAX_CHUNK;
    assert_eq!(
        error_of(&[2, 7, 0, 0, 0, 0x81, 0x80, 0x80, 0x08]),
        WireError::TooLong { what: "a chunk", length: limit + 1, limit }
    );
    assert_eq!(error_of(&[2, 4, 0, 0, 0, 0]), WireError::InvalidValue("the extent of a chunk"));
    let far = [&[2, 13, 0, 0][..], &[0xff; 9], &[1], &[1]].concat();
    assert_eq!(error_of(&far[..]), WireError::InvalidValue("the extent of a chunk"));
    assert_eq!(error_of(&[3, 3, 0, 1, 0]), WireError::Trailing);
    assert_eq!(error_of(&[2, 3, 0, 0, 0]), WireError::Truncated("a chunk"));
    assert_eq!(error_of(&[2, 1, 0]), WireError::InvalidValue("a chunk without parts"));
    assert_eq!(error_of(&[2, 5, 1, 0, 0, 1, 9]), WireError::Truncated("a hash"));
    assert_eq!(error_of(&[2, 1, 3]), WireError::InvalidValue("the kind of a hash"));
    assert_eq!(error_of(&[6, 0]), WireError::InvalidValue("a frame without requests"));
    assert_eq!(error_of(&[6, 3, 0, 1, 4]), WireError::InvalidValue("the kind of a request"));
    assert_eq!(error_of(&[6, 3, 0, 0, 1]), WireError::InvalidValue("a file count"));
    assert_eq!(error_of(&[6, 4, 0, 1, 2, 0]), WireError::InvalidValue("the extents of a file"));
    assert_eq!(error_of(&[6, 8, 0, 1, 2, 2, 0, 1, 0, 1]), WireError::InvalidValue("the extents of a file"));
    assert_eq!(error_of(&[4, 4, 3, 1, 0, 0]), WireError::InvalidValue("a side"));
    assert_eq!(error_of(&[4, 4, 1, 0, 0, 0]), WireError::InvalidValue("the code of a reason"));
    assert_eq!(
        error_of(&[4, 5, 1, 1, 0, 1, 0x1b]),
        WireError::InvalidValue("a text with control characters")
    );
    assert_eq!(error_of(&[4, 5, 1, 1, 0, 1, 0xff]), WireError::InvalidValue("a text that is not UTF-8"));
    assert_eq!(error_of(&[4, 7, 1, 1, 2, 2, b'.', b'.', 0]), WireError::Name(NameError::Dots));
    assert_eq!(error_of(&[1, 1, 0]), WireError::Truncated("an entry"));
}

/// Returns the decoder's error for a batch of one entry with number 9.
fn error_of_entry(entry: &[u8]) -> WireError {
    error_of(&[&[1, entry.len() as u8 + 1, 9], entry].concat())
}

#[test]
fn entries_are_canonical_and_stay_inside_the_root() {
    // Flags, name, mode 0o644, time 0, user 0, group 0, then the fields of the kind.
    let named = |flags: u8, name: &[u8], rest: &[u8]| {
        [&[flags, 0, name.len() as u8][..], name, &[0xa4, 3, 0, 0, 0, 0, 0, 0], rest].concat()
    };
    let good = named(0, b"a", &[1]);
    assert!(decode(&[&hello_bytes()[..], &[1, 1 + good.len() as u8, 9], &good].concat(), &[]).is_ok());
    assert_eq!(error_of_entry(&named(0, b"../a", &[1])), WireError::Name(NameError::Dots));
    assert_eq!(error_of_entry(&named(0, b"/a", &[1])), WireError::Name(NameError::Absolute));
    assert_eq!(
        error_of_entry(&named(0, b"", &[1])),
        WireError::InvalidValue("a root that is not a directory")
    );
    assert_eq!(error_of_entry(&[0, 1, 1, b'a']), WireError::InvalidValue("a prefix of a name"));
    assert_eq!(error_of_entry(&named(0x82, b"a", &[])), WireError::InvalidValue("the flags of an entry"));
    assert_eq!(error_of_entry(&named(0x08, b"a", &[1])), WireError::InvalidValue("the flags of an entry"));
    assert_eq!(error_of_entry(&[0x0c, 0, 1, b'a', 1]), WireError::NotCanonical("the flags of a hard link"));
    assert_eq!(error_of_entry(&[4, 0, 1, b'a', 0, 2, b'.', b'.']), WireError::Name(NameError::Dots));
    assert_eq!(error_of_entry(&[4, 0, 1, b'a', 0, 0]), WireError::InvalidValue("a hard link to the root"));
    assert_eq!(error_of_entry(&[4, 0, 1, b'a', 1, 1, b'b']), WireError::InvalidValue("a prefix of a name"));
    assert_eq!(
        error_of_entry(&named(1, b"a", &[5, 1, 0, 5])),
        WireError::NotCanonical("a file without holes")
    );
    assert_eq!(error_of_entry(&named(1, b"a", &[5, 2, 0, 1, 0, 1])), WireError::Entry(EntryError::Extents));
    assert_eq!(error_of_entry(&named(1, b"a", &[5, 1, 4, 2])), WireError::Entry(EntryError::Extents));
    let many = WireError::TooLong { what: "the extents of a file", length: 4_097, limit: 4_096 };
    assert_eq!(error_of_entry(&named(1, b"a", &[5, 0x81, 0x20])), many);
    let of_xattrs = |xattrs: &[u8]| [&[0x40, 0, 1, b'a', 0xa4, 3, 0, 0, 0, 0, 0, 0], xattrs, &[1]].concat();
    assert_eq!(error_of_entry(&of_xattrs(&[0])), WireError::NotCanonical("extended attributes"));
    let order = WireError::NotCanonical("the order of extended attributes");
    assert_eq!(error_of_entry(&of_xattrs(&[2, 1, b'b', 0, 1, b'a', 0])), order);
    assert_eq!(error_of_entry(&of_xattrs(&[2, 1, b'b', 0, 1, b'b', 0])), order);
    // The second entry shares a letter and the mode with the first, and must encode that.
    let second = |bytes: &[u8]| error_of_entry(&[&good[..], bytes].concat());
    assert_eq!(second(&named(0x38, b"ab", &[1])), WireError::NotCanonical("the prefix of a name"));
    let repeated = WireError::NotCanonical("an entry that repeats attributes of the previous one");
    assert_eq!(second(&[0x30, 1, 1, b'b', 0xa4, 3, 0, 0, 1]), repeated);
}

#[test]
fn rejects_a_batch_with_too_many_entries() {
    let links: Vec<u8> = std::iter::once([4, 0, 1, b'a', 0, 1, b'x'])
        .flatten()
        .chain(std::iter::repeat_n([4, 1, 0, 1, 0], MAX_BATCH).flatten())
        .collect();
    let mut bytes = hello_bytes();
    super::bytes::put_frame(&mut bytes, 1, &[&[9][..], &links].concat());
    assert_eq!(decode(&bytes, &[]), Err(WireError::TooLong { what: "a batch", length: 1_025, limit: 1_024 }));
}

#[test]
fn text_is_sanitized_and_truncated() {
    assert_eq!(DisplayText::new("a\u{1b}[31m\nb").as_str(), "a\u{fffd}[31m\u{fffd}b");
    assert_eq!(DisplayText::new(&"ä".repeat(600)).as_str(), "ä".repeat(512));
}

#[test]
fn stream_needs_exactly_one_end() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.close(), Err(WireError::UnexpectedEnd));
    let mut bytes = stream(&[], true);
    decoder.push(&bytes);
    while decoder.pull().expect("a good stream").is_some() {}
    assert_eq!(decoder.close(), Ok(()));
    assert_eq!(decoder.push(&[0]), 1);
    assert_eq!(decoder.close(), Err(WireError::AfterEnd));
    for _ in 0..2 {
        assert_eq!(decoder.pull(), Err(WireError::AfterEnd));
    }
    bytes.pop();
    let mut decoder = Decoder::new();
    decoder.push(&bytes);
    while decoder.pull().expect("a good stream").is_some() {}
    assert_eq!(decoder.close(), Err(WireError::UnexpectedEnd));
}

#[test]
fn data_may_bypass_the_decoder() {
    let extent = Extent::at(4_096, 1_000).expect("an extent");
    let part = ChunkPart { file: number(3), extent, digest: Digest::default() };
    let chunk = Chunk::new(HashKind::None, vec![part]).expect("a chunk");
    let bytes = stream(&[Frame::Chunk(chunk.clone())], true);
    let header = hello_bytes().len() + 2 + 6;
    let mut decoder = Decoder::new();
    decoder.push(&bytes[..header + 10]);
    assert_eq!(decoder.due(), 0);
    assert!(matches!(decoder.pull(), Ok(Some(StreamItem::Header(_)))));
    assert_eq!(decoder.pull(), Ok(Some(StreamItem::Frame(Frame::Chunk(chunk)))));
    assert_eq!((decoder.due(), decoder.skip(990)), (0, 0), "ten bytes are buffered and returned first");
    assert!(matches!(decoder.pull(), Ok(Some(StreamItem::Data([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])))));
    assert_eq!(decoder.due(), 990);
    assert_eq!(decoder.skip(900), 900);
    assert_eq!(decoder.pull(), Ok(None));
    assert_eq!(decoder.skip(900), 90);
    decoder.push(&bytes[header + 1_000..]);
    assert!(matches!(decoder.pull(), Ok(Some(StreamItem::Frame(Frame::End(_))))));
}

/// Checks the hexadecimal example in `docs/internals/protocol.md` against this implementation.
#[test]
fn specification_example_matches_the_encoder() {
    let specification = include_str!("../../../../docs/internals/protocol.md");
    let example = specification.split("```hex\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = example.expect("an example").lines().map(|line| line.split('#').next().unwrap_or_default());
    let digits: Vec<u8> = lines.flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
    let digits = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
    let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("a byte")).collect();

    let root = |mode| Inode {
        kind: Kind::Directory,
        mode: Mode::new(mode).expect("a mode"),
        mtime: Time::new(1_763_700_000, 5).expect("a time"),
        user: Owner::new(1_000, Some(b"ada")).expect("an owner"),
        group: Owner::new(100, None).expect("an owner"),
        xattrs: Xattrs::default(),
    };
    let file = |content, mtime, xattrs| Inode { kind: Kind::File(content), mtime, xattrs, ..root(0o644) };
    let mut xattrs = Xattrs::default();
    xattrs.insert(b"user.a", b"1").expect("room");
    let hole = Content::from_extents(1 << 20, Extent::at(1 << 19, 4_096)).expect("a file");
    let new =
        |name: &[u8], inode| Entry { name: Name::new(name).expect("a name"), object: Object::New(inode) };
    let entries = [
        Entry { name: Name::root(), object: Object::New(root(0o755)) },
        new(b"data.bin", file(hole, Time::new(-1, 500_000_000).expect("a time"), Xattrs::default())),
        new(b"data.txt", file(Content::dense(5).expect("a size"), Time::new(0, 0).expect("a time"), xattrs)),
        Entry {
            name: Name::new(*b"more").expect("a name"),
            object: Object::HardLink(Name::new(*b"data.txt").expect("a name")),
        },
    ];
    let problem = Problem {
        about: ProblemSubject::Name(Name::new(*b"secret").expect("a name")),
        side: Side::Source,
        reason: Reason::Permission,
        text: DisplayText::new("may not be read"),
    };
    let mut written = Vec::new();
    StreamHeader { side: Side::Source, transfer: TransferId(*b"an example of 16") }.encode(&mut written);
    Frame::Batch(as_batch(0, &entries)).encode(&mut written);
    Frame::Problem(problem).encode(&mut written);
    let extent = Extent::at(0, 5).expect("an extent");
    let part = ChunkPart { file: number(2), extent, digest: HashKind::Xxh3.function()(b"hello") };
    Frame::Chunk(Chunk::new(HashKind::Xxh3, vec![part]).expect("a chunk")).encode(&mut written);
    written.extend_from_slice(b"hello");
    let wants = [
        DataRequest {
            first: number(1),
            count: 1,
            what: NeededData::Some(vec![Extent::at(1 << 19, 4_096).expect("an extent")]),
        },
        DataRequest { first: number(2), count: 1, what: NeededData::All },
        DataRequest { first: number(4), count: 2, what: NeededData::Hash },
    ];
    Frame::FileSent(FileSent { file: number(1), bytes: 4_096 }).encode(&mut written);
    Frame::DataRequests(DataRequests::new(wants.into()).expect("answers")).encode(&mut written);
    let digest = HashKind::Blake3.function()(b"hello");
    Frame::FileHash(FileHash { file: number(4), digest }).encode(&mut written);
    let name = Name::new(*b"data.txt").expect("a name");
    Frame::ManifestEntry(ManifestEntry { name, digest }).encode(&mut written);
    let name = Name::new(*b"old").expect("a name");
    Frame::Change(SinkChange { name, action: ChangeKind::Removed, bytes: 0, itemized: None })
        .encode(&mut written);
    Frame::End(EndTotals { entries: 4, failed: 1, bytes: 4_101, ..EndTotals::default() })
        .encode(&mut written);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    assert_eq!(hex(&bytes), hex(&written));
}

proptest! {
    #![proptest_config(testing::config())]

    #[test]
    fn stream_round_trips_for_any_split(
        frames in proptest::collection::vec(frame(), 0..6),
        pieces in proptest::collection::vec(1usize..40, 0..60),
    ) {
        let bytes = stream(&frames, true);
        let (data, mut decoded) = decode(&bytes, &pieces).expect("a good stream");
        prop_assert_eq!(decoded.pop(), Some(Frame::End(END)));
        prop_assert_eq!(&decoded, &frames);
        let due = frames.iter().map(|frame| if let Frame::Chunk(chunk) = frame { chunk.wire_length() } else { 0 });
        prop_assert_eq!(data.len() as u64, due.sum::<u64>());
    }

    /// Modified bytes are rejected, or decode to frames that encode to the same bytes.
    #[test]
    fn accepted_bytes_reencode_identically(
        frame in frame(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            // Parsers tend to miss single-bit changes.
            bytes[index] = if byte < 128 { bytes[index] ^ (1 << (byte % 8)) } else { byte };
        }
        let whole = [&hello_bytes()[..], &bytes].concat();
        let Ok((data, decoded)) = decode(&whole, &[usize::MAX]) else { return Ok(()) };
        let mut written = Vec::new();
        for frame in &decoded {
            frame.encode(&mut written);
            if let Frame::Chunk(_) = frame {
                written.extend_from_slice(&data);
                break;
            }
        }
        let same = written.len().min(bytes.len());
        prop_assert_eq!(&written[..same], &bytes[..same]);
    }

    #[test]
    fn arbitrary_input_neither_panics_nor_grows_memory(
        junk in proptest::collection::vec(any::<u8>(), 0..300),
        kind in 0u8..17,
        length in 0usize..300,
    ) {
        let mut bytes = hello_bytes();
        super::bytes::put_frame(&mut bytes, kind, &junk[..length.min(junk.len())]);
        bytes.extend_from_slice(&junk);
        let mut decoder = Decoder::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[decoder.push(rest)..];
            loop {
                match decoder.pull() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        prop_assert_eq!(decoder.pull(), Err(error));
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// A sender floods a decoder that is never pulled.
#[test]
fn decoder_buffers_at_most_one_frame() {
    let mut decoder = Decoder::new();
    let flood = vec![1; 100_000];
    let taken: usize = (0..20).map(|_| decoder.push(&flood)).sum();
    assert_eq!(taken, MAX_PAYLOAD + 11);
    assert!(decoder.capacity() <= MAX_PAYLOAD + 11, "{}", decoder.capacity());
    assert_eq!(decoder.pull(), Err(WireError::Magic));
    assert_eq!(decoder.capacity(), 0);
}
