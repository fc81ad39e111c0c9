//! Conformance checks of the file operations of a [`Port`](crate::port::Port).
//!
//! The checks run operations through a function, so that a simulated disk without a port can run
//! the same checks as the kernel.

use crate::port::{
    Attributes, ContentHash, Decompression, Details, Digest, Fault, FaultKind, FileCompletion, FileInfo,
    FileKind, FilePath, FileWrite, Identity, JournalState, JournalWrite, Listing, NewObject, Object,
    OpenMode, OpenedJournal, Operation, Outcome, Part, ReadPiece, RunningHash, SourceRemoval, Stamp, BLOCK,
};
use std::collections::BTreeSet;

/// A function that runs operations, and a function that creates buffers.
pub struct Files<'a, B> {
    /// Runs an operation to completion.
    pub run: &'a mut dyn FnMut(Operation<B>) -> Outcome<B>,
    /// Creates a buffer that starts with these bytes.
    pub buffer: &'a dyn Fn(&[u8]) -> B,
}

const CONTENT: &[u8] = b"content of the file";
const WHEN: Stamp = Stamp { seconds: 1_000_000_000, nanoseconds: 987_654_321 };

/// Checks an implementation whose root 0 is an empty directory.
///
/// # Panics
/// At the first violation.
pub fn files<B: AsRef<[u8]>>(mut files: Files<'_, B>) {
    let files = &mut files;
    directories(files);
    whole_files(files);
    files_in_parts(files);
    reading(files);
    summing(files);
    listing(files);
    links(files);
    replacing(files);
    removing(files);
    journal(files);
    assert_eq!(files.each(Operation::Sync { root: 0 }), [Ok(())]);
}

/// Checks compressed reads and writes of an implementation whose root 0 is an empty directory.
///
/// # Panics
/// At the first violation.
pub fn compression<B: AsRef<[u8]>>(mut files: Files<'_, B>) {
    let files = &mut files;
    files.make("d", Object::Directory).expect("a directory");
    packed_reads(files);
    packed_writes(files);
}

fn at(name: &str) -> FilePath {
    FilePath::new(0, name.as_bytes())
}

/// Hashes the contents of these checks: length and polynomial sum.
fn hash(bytes: &[u8]) -> Digest {
    let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(257).wrapping_add(u64::from(*byte)));
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&sum.to_be_bytes());
    digest[8..16].copy_from_slice(&(bytes.len() as u64).to_be_bytes());
    Digest(digest)
}

fn attributes(mode: u32) -> Attributes {
    Attributes { mode: Some(mode), mtime: Some(WHEN), ..Attributes::default() }
}

fn settle(name: &str, size: usize) -> FileCompletion {
    FileCompletion { size: size as u64, attributes: attributes(0o640), name: at(name), sync: false }
}

/// Creates a write of a file with its complete content.
fn put(name: &str, begin: OpenMode, bytes: &[u8], settle: Option<FileCompletion>) -> FileWrite {
    let all = 0..bytes.len();
    FileWrite {
        at: at(name),
        begin,
        held: Vec::new(),
        check: vec![(all.clone(), hash(bytes))],
        parts: vec![Part { bytes: all, offset: 0 }],
        sparse: false,
        settle,
    }
}

fn why(result: &Result<(), Fault>) -> Option<FaultKind> {
    result.as_ref().err().map(|fault| fault.why)
}

impl<B: AsRef<[u8]>> Files<'_, B> {
    fn each(&mut self, operation: Operation<B>) -> Vec<Result<(), Fault>> {
        match (self.run)(operation) {
            Outcome::Results(results) => results,
            _ => panic!("outcome of another operation"),
        }
    }

    fn make(&mut self, name: &str, object: Object) -> Result<(), Fault> {
        let made = self.each(Operation::Create(vec![NewObject {
            at: at(name),
            object,
            attributes: attributes(0o700),
        }]));
        made.into_iter().next().expect("a result")
    }

    fn write(&mut self, put: FileWrite, bytes: &[u8]) -> Result<(), Fault> {
        let data = Some((self.buffer)(bytes));
        let written = self.each(Operation::Write { puts: vec![put], data, hash, packed: None });
        written.into_iter().next().expect("a result")
    }

    /// Writes a complete file.
    fn file(&mut self, name: &str, bytes: &[u8]) {
        let part = format!("{name}.part");
        let whole = put(&part, OpenMode::Fresh, bytes, Some(settle(name, bytes.len())));
        self.write(whole, bytes).expect("a file");
    }

    fn look(&mut self, name: &str) -> Option<FileInfo> {
        let details = Details { holes: true, ..Details::default() };
        match (self.run)(Operation::Stat { at: vec![at(name)], details, links: Vec::new() }) {
            Outcome::Stat(mut found) => found.pop().expect("a result").expect(name),
            _ => panic!("outcome of another operation"),
        }
    }

    fn read(&mut self, pieces: Vec<ReadPiece>) -> (Vec<Result<Digest, Fault>>, Vec<u8>) {
        let room = pieces.iter().map(|piece| piece.length).sum();
        match (self.run)(Operation::Read { pieces, hash, pack: None }) {
            Outcome::Read { results, data, .. } => {
                (results, data.as_ref().iter().copied().take(room).collect())
            }
            _ => panic!("outcome of another operation"),
        }
    }

    fn piece(&mut self, name: &str, offset: u64, length: usize) -> ReadPiece {
        let identity = self.look(name).expect(name).metadata.identity();
        ReadPiece { at: at(name), identity, offset, length, as_it_is: false }
    }

    /// Returns the content of an existing file.
    fn content(&mut self, name: &str) -> Vec<u8> {
        let size = self.look(name).expect(name).metadata.size as usize;
        let piece = self.piece(name, 0, size);
        let (results, data) = self.read(vec![piece]);
        assert_eq!(results, [Ok(hash(&data))], "{name}: the hash matches the data");
        data
    }

    fn listed(&mut self, operation: Operation<B>) -> Result<Listing, Fault> {
        match (self.run)(operation) {
            Outcome::Listed(listing) => listing,
            _ => panic!("outcome of another operation"),
        }
    }
}

fn directories<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    files.make("d", Object::Directory).expect("a directory");
    files.make("d/e", Object::Directory).expect("a directory in it");
    for (name, mode, made) in [("d/closed", 0, 0o700), ("d/open", 0o055, 0o755)] {
        let attributes = Attributes { mode: Some(mode), masked: true, ..Attributes::default() };
        let making = NewObject { at: at(name), object: Object::Directory, attributes };
        assert_eq!(files.each(Operation::Create(vec![making])), [Ok(())]);
        let found = files.look(name).map(|found| found.metadata.mode);
        assert_eq!(found, Some(made), "{name}: its mode, and access for its owner");
    }
    let inode = files.look("d").expect("a directory").metadata.inode;
    files.make("d", Object::Directory).expect("an existing directory stays");
    let found = files.look("d").expect("a directory").metadata;
    assert_eq!((found.inode, found.kind), (inode, FileKind::Directory));
    let missing = files.make("absent/e", Object::Directory);
    assert_eq!(why(&missing), Some(FaultKind::NotFound), "parent directories are not created");
    assert_eq!(files.look("absent"), None);
    assert!(files.look("d/e").is_some());
}

fn whole_files<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let whole = put("d/part", OpenMode::Fresh, CONTENT, Some(settle("d/whole", CONTENT.len())));
    files.write(whole, CONTENT).expect("a file");
    assert_eq!(files.look("d/part"), None, "the file was renamed");
    let metadata = files.look("d/whole").expect("the completed file").metadata;
    assert_eq!(
        (metadata.kind, metadata.size, metadata.mode, metadata.mtime),
        (FileKind::File, 19, 0o640, WHEN)
    );
    assert_eq!(files.content("d/whole"), CONTENT);

    let mut lie = put("d/lie", OpenMode::Fresh, CONTENT, Some(settle("d/liar", CONTENT.len())));
    lie.check[0].1 = hash(b"other bytes");
    assert_eq!(why(&files.write(lie, CONTENT)), Some(FaultKind::Mismatch));
    assert_eq!((files.look("d/lie"), files.look("d/liar")), (None, None), "unverified data is not written");

    files.make("d/there", Object::Directory).expect("a directory");
    let onto = put("d/onto", OpenMode::Fresh, CONTENT, Some(settle("d/there", CONTENT.len())));
    assert_eq!(
        why(&files.write(onto, CONTENT)),
        Some(FaultKind::Exists),
        "a file never replaces a directory"
    );
    assert_eq!(files.look("d/there").expect("the directory stays").metadata.kind, FileKind::Directory);

    files.file("d/empty", b"");
    assert_eq!(files.look("d/empty").expect("an empty file").metadata.size, 0);
}

fn files_in_parts<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let part = |begin, bytes: &[u8], offset, settle| FileWrite {
        parts: vec![Part { bytes: 0..bytes.len(), offset }],
        settle,
        ..put("d/slow", begin, bytes, None)
    };
    let early = files.write(part(OpenMode::Continue, b"x", 0, None), b"x");
    assert_eq!(why(&early), Some(FaultKind::NotFound), "only a started file is continued");
    files.write(part(OpenMode::Fresh, b"tail", 8192, None), b"tail").expect("the last part first");
    assert_eq!(files.look("d/slow").expect("a partial file").metadata.size, 8196);
    let lost = FileWrite { held: vec![0..1, 8192..8197], ..FileWrite::new(at("d/slow"), OpenMode::Continue) };
    assert_eq!(why(&files.write(lost, b"")), Some(FaultKind::Changed), "it contains less than was written");
    let held = FileWrite {
        held: std::iter::once(8192..8196).collect(),
        ..FileWrite::new(at("d/slow"), OpenMode::Continue)
    };
    files.write(held, b"").expect("it contains the written data");
    let last = part(OpenMode::Continue, b"head", 0, Some(settle("d/parts", 8194)));
    files.write(last, b"head").expect("the rest");
    let content = files.content("d/parts");
    assert_eq!((content.len(), &content[..5], &content[8190..]), (8194, &b"head\0"[..], &b"\0\0ta"[..]));

    files.write(part(OpenMode::Fresh, b"longer", 0, None), b"longer").expect("a file");
    files.write(part(OpenMode::Fresh, b"new", 0, None), b"new").expect("a replacement");
    assert_eq!(files.content("d/slow"), b"new", "the old content is removed");
    files.write(part(OpenMode::InPlace, b"on", 0, None), b"on").expect("the file in place");
    assert_eq!(files.content("d/slow"), b"on", "the file was truncated");
    files.write(part(OpenMode::ContinueInPlace, b"ward", 2, None), b"ward").expect("more data");
    assert_eq!(files.content("d/slow"), b"onward");
    let settled = Some(settle("d/slow", 6));
    files
        .write(FileWrite { settle: settled, ..FileWrite::new(at("d/slow"), OpenMode::ContinueInPlace) }, b"")
        .expect("the completion");
    others_in_place(files);

    // Zeros overwrite other data, whether or not they become holes.
    let ones = [1; 5 * 4096];
    files.write(put("d/full", OpenMode::InPlace, &ones, None), &ones).expect("a file");
    let mut bytes = vec![0; 4 * 4096];
    bytes[3 * 4096..][..10].fill(2);
    let parts = vec![Part { bytes: 0..bytes.len(), offset: 100 }];
    let zeros = FileWrite { parts, sparse: true, ..put("d/full", OpenMode::ContinueInPlace, &bytes, None) };
    files.write(zeros, &bytes).expect("zeros");
    let expected = [&[1; 100][..], &bytes, &[1; 4096 - 100]].concat();
    assert!(files.content("d/full") == expected, "exactly the zeros can become holes");
}

/// Checks that `ContinueInPlace` writes only to a file that was opened with `InPlace`.
fn others_in_place<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let further = |files: &mut Files<'_, B>| {
        let wrote = files.write(put("d/slow", OpenMode::ContinueInPlace, b"forward", None), b"forward");
        why(&wrote)
    };
    let begin = |files: &mut Files<'_, B>| {
        files.write(put("d/slow", OpenMode::InPlace, b"be", None), b"be").expect("the file in place");
    };
    assert_eq!(further(files), Some(FaultKind::Changed), "it is complete");
    begin(files);
    files.file("d/slow", b"other");
    assert_eq!(further(files), Some(FaultKind::Changed), "another file has its name");
    assert_eq!(files.content("d/slow"), b"other");
    begin(files);
    files.make("d/second", Object::HardLink(at("d/slow"))).expect("a hard link");
    assert_eq!(further(files), Some(FaultKind::Changed), "it has another hard link");
    assert_eq!(files.content("d/second"), b"be");
    files.each(Operation::Remove(vec![at("d/slow")]));
    assert_eq!(further(files), Some(FaultKind::NotFound), "the name does not exist");
    files.file("d/slow", b"other");
    assert_eq!(further(files), Some(FaultKind::Changed), "it was not opened in place");
}

fn reading<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    files.file("d/one", b"first");
    files.file("d/two", b"second");
    let (one, two) = (files.piece("d/one", 1, 3), files.piece("d/two", 0, 6));
    let mut other = one.clone();
    other.identity.mtime.nanoseconds -= 1;
    let absent = ReadPiece { at: at("d/absent"), ..one.clone() };
    let beyond = ReadPiece { offset: 4, length: 2, ..one.clone() };
    let active = ReadPiece { as_it_is: true, ..other.clone() };
    assert_eq!(files.read(vec![active]).0, [Ok(hash(b"irs"))], "read although it has changed");
    let (results, data) = files.read(vec![other, one, absent, beyond, two]);
    let found: Vec<_> = results.into_iter().map(|result| result.map_err(|fault| fault.why)).collect();
    let wanted = [
        Err(FaultKind::Changed),
        Ok(hash(b"irs")),
        Err(FaultKind::NotFound),
        Err(FaultKind::Changed),
        Ok(hash(b"second")),
    ];
    assert_eq!(found, wanted);
    assert_eq!(&data[..9], b"irssecond", "failed pieces leave no gaps");
}

/// A hash that stores all bytes and returns their [`hash`].
#[derive(Debug, Default)]
struct Kept(Vec<u8>);

impl RunningHash for Kept {
    fn update(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn digest(&self) -> Digest {
        hash(&self.0)
    }
}

/// Checks hashes of complete files in steps.
fn summing<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let whole = |files: &mut Files<'_, B>, name: &str, identity, most| {
        let running = Box::new(Kept::default());
        let mut summing = ContentHash { at: at(name), identity, offset: 0, most, running, ended: false };
        let mut times = 0;
        while !summing.ended {
            let before = summing.offset;
            summing = match (files.run)(Operation::HashFile(summing)) {
                Outcome::HashedFile(outcome) => outcome.map_err(|fault| fault.why)?,
                _ => panic!("outcome of another operation"),
            };
            times += 1;
            assert!(summing.offset - before <= most && times < 100, "steps have a maximum and make progress");
        }
        Ok((summing.running.digest(), times))
    };
    files.file("d/summed", CONTENT);
    let found = files.look("d/summed").expect("a file").metadata.identity();
    assert_eq!(whole(files, "d/summed", Some(found), 1000).map(|(digest, _)| digest), Ok(hash(CONTENT)));
    let (digest, times) = whole(files, "d/summed", None, 5).expect("a hash");
    assert!(digest == hash(CONTENT) && times >= 4, "19 bytes, five per step: {times}");
    let mut other = found;
    other.mtime.seconds += 1;
    assert_eq!(whole(files, "d/summed", Some(other), 1000), Err(FaultKind::Changed));
    assert_eq!(whole(files, "d/absent", None, 1000), Err(FaultKind::NotFound));
    assert_eq!(whole(files, "d", None, 1000), Err(FaultKind::Changed), "a directory has no bytes");
    files.make("d/summed", Object::Fifo).expect("a pipe");
    assert_eq!(whole(files, "d/summed", None, 1000), Err(FaultKind::Changed), "a pipe does not block");
}

/// Compresses equal bytes to a single inverted byte.
fn pack(bytes: &[u8], into: &mut [u8]) -> Option<usize> {
    let (first, into) = (*bytes.first()?, into.first_mut()?);
    *into = !first;
    bytes.iter().all(|byte| *byte == first).then_some(1)
}

fn unpack(bytes: &[u8], into: &mut [u8]) -> Result<(), String> {
    let [byte] = bytes else { return Err("expected one byte".to_owned()) };
    into.fill(!*byte);
    Ok(())
}

fn packed_reads<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let (same, other) = ([b'x'; 5000], b"xyz");
    let written = [("d/same", &same[..]), ("d/other", &other[..])];
    written.iter().for_each(|(name, bytes)| files.file(name, bytes));
    let (same_piece, other_piece) = (files.piece("d/same", 0, 5000), files.piece("d/other", 0, 3));
    let beyond = ReadPiece { offset: 4999, length: 2, ..same_piece.clone() };
    let mut read =
        |pieces: Vec<ReadPiece>| match (files.run)(Operation::Read { pieces, hash, pack: Some(pack) }) {
            Outcome::Read { results, data, packed } => {
                (results, data, packed.and_then(|packed| packed.bytes))
            }
            _ => panic!("outcome of another operation"),
        };
    let pieces = vec![same_piece.clone(), beyond, same_piece.clone()];
    let (results, data, packed) = read(pieces);
    assert_eq!(
        (results[0].clone(), results[2].clone()),
        (Ok(hash(&same)), Ok(hash(&same))),
        "hashes are of uncompressed bytes"
    );
    assert!(results[1].is_err());
    assert_eq!((packed, data.as_ref()[0]), (Some(1), !b'x'), "all pieces are compressed together");
    let (results, data, packed) = read(vec![same_piece, other_piece]);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!((packed, &data.as_ref()[5000..5003]), (None, &other[..]), "the data stays uncompressed");
}

fn packed_writes<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let mut write = |name: &str, packed: &[u8], plain: usize| {
        let bytes = vec![b'y'; 3000];
        let put = put(&format!("{name}.part"), OpenMode::Fresh, &bytes, Some(settle(name, bytes.len())));
        let packed_as = Decompression { bytes: packed.len(), plain, with: unpack };
        let data = Some((files.buffer)(packed));
        let puts = vec![put.clone(), FileWrite { at: at("d/second"), settle: None, ..put }];
        files.each(Operation::Write { puts, data, hash, packed: Some(packed_as) })
    };
    assert_eq!(write("d/good", &[!b'y'], 3000), [Ok(()), Ok(())]);
    let why_not = |results: Vec<Result<(), Fault>>| results.iter().map(why).collect::<Vec<_>>();
    let refused = [Some(FaultKind::Mismatch); 2];
    assert_eq!(why_not(write("d/bad", &[!b'y'; 2], 3000)), refused, "malformed data");
    assert_eq!(why_not(write("d/bad", b"y", 3000)), refused, "other content");
    assert_eq!(why_not(write("d/bad", &[!b'y'], BLOCK + 1)), refused, "more than a block");
    assert_eq!(files.content("d/good"), vec![b'y'; 3000]);
    assert_eq!(
        (files.look("d/bad"), files.look("d/bad.part")),
        (None, None),
        "unverified data is not written"
    );
}

fn listing<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    files.make("many", Object::Directory).expect("a directory");
    let names: BTreeSet<String> = (0..10).map(|number| format!("file {number}")).collect();
    names.iter().for_each(|name| files.file(&format!("many/{name}"), name.as_bytes()));
    let details = Details::default();
    let mut operation = Operation::List { directory: at("many"), most: 3, details };
    let mut found = BTreeSet::new();
    loop {
        let listing = files.listed(operation).expect("a listing");
        assert!(listing.found.len() <= 3, "at most the requested number of entries");
        for (name, what) in listing.found {
            let name = String::from_utf8(name.into_vec()).expect("a name of this test");
            assert_eq!(what.expect("a file").metadata.size as usize, name.len());
            assert!(found.insert(name), "each name is listed once");
        }
        let Some(listing) = listing.more else { break };
        operation = Operation::ListMore { listing, most: 3, details };
    }
    assert_eq!(found, names);
    let absent = files.listed(Operation::List { directory: at("absent"), most: 3, details });
    assert_eq!(absent.map_err(|fault| fault.why), Err(FaultKind::NotFound));
    for replaced in ["d/whole", "d/whole/below"] {
        let directory = at(replaced);
        let listed = files.listed(Operation::List { directory, most: 3, details });
        assert_eq!(
            listed.map_err(|fault| fault.why),
            Err(FaultKind::Exists),
            "a file is not an absent directory"
        );
    }
}

fn links<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    files.make("away", Object::Symlink(b"d".as_slice().into())).expect("a link");
    let link = files.look("away").expect("a link");
    assert_eq!((link.metadata.kind, link.target.as_deref()), (FileKind::Symlink, Some(&b"d"[..])));
    let through = files.write(put("away/new", OpenMode::Fresh, CONTENT, None), CONTENT);
    // The parent directory is opened as a directory, which a link is not.
    assert!(
        matches!(why(&through), Some(FaultKind::Link | FaultKind::Exists)),
        "links in the path are not followed"
    );
    assert!(files.make("away/new", Object::Directory).is_err());
    assert_eq!(files.look("d/new"), None);

    files.make("end", Object::Symlink(b"d/whole".as_slice().into())).expect("a link");
    assert!(
        files.write(put("end", OpenMode::Continue, b"x", None), b"x").is_err(),
        "a final link is not followed"
    );
    assert_eq!(files.content("d/whole"), CONTENT);

    let would = [
        ("d/whole", &b"../d/./whole"[..]),
        ("d/whole", b"../d"),
        ("d", b"d"),
        ("d", b"d/whole"),
        ("away", b"away"),
        ("end", b"d/whole"),
    ];
    let links = would.iter().enumerate().map(|(index, (_, target))| (index, (*target).into())).collect();
    let at_all = would.iter().map(|(name, _)| at(name)).collect();
    let details = Details::default();
    let Outcome::Stat(found) = (files.run)(Operation::Stat { at: at_all, details, links }) else {
        panic!("outcome of another operation")
    };
    let is_link_destination =
        found.into_iter().map(|found| found.expect("metadata").expect("an object").is_link_destination);
    let is_link_destination: Vec<bool> = is_link_destination.collect();
    assert_eq!(
        is_link_destination,
        [true, false, true, true, false, false],
        "links that resolve to what they replace"
    );

    files.make("d/again", Object::HardLink(at("d/whole"))).expect("a hard link");
    let (one, other) = (files.look("d/whole"), files.look("d/again"));
    let (one, other) = (one.expect("the file").metadata, other.expect("the hard link").metadata);
    assert_eq!((one.inode, one.links, other.links), (other.inode, 2, 2));
}

fn replacing<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    files.file("old", b"old");
    files.file("old", b"newer");
    assert_eq!(files.content("old"), b"newer", "a file replaces a file");
    files.make("old", Object::Symlink(b"x".as_slice().into())).expect("a link replaces a file");
    files.make("old", Object::Fifo).expect("a pipe replaces a link");
    assert_eq!(files.look("old").expect("a pipe").metadata.kind, FileKind::Fifo);
    files.make("old", Object::Directory).expect("a directory replaces a pipe");
    files.file("old/in", b"in");
    let onto = files.make("old", Object::Fifo);
    assert_eq!(why(&onto), Some(FaultKind::Exists), "nothing replaces a directory");
    assert_eq!(files.content("old/in"), b"in");

    let new = Attributes { mode: Some(0o600), mtime: Some(Stamp::default()), ..Attributes::default() };
    let results =
        files.each(Operation::SetAttributes(vec![(at("old/in"), new.clone()), (at("old/absent"), new)]));
    assert_eq!((why(&results[0]), why(&results[1])), (None, Some(FaultKind::NotFound)));
    let metadata = files.look("old/in").expect("a file").metadata;
    assert_eq!((metadata.mode, metadata.mtime), (0o600, Stamp::default()));
}

fn removing<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let names = vec![at("away"), at("old"), at("absent"), at("absent/too"), at("end")];
    assert_eq!(files.each(Operation::Remove(names)), vec![Ok(()); 5], "a missing object is not a fault");
    assert_eq!((files.look("away"), files.look("old"), files.look("old/in")), (None, None, None));
    files.file("sent", b"sent");
    let identity = files.look("sent").expect("a file").metadata.identity();
    let removal = |identity, destination| SourceRemoval { at: at("sent"), identity, destination };
    let other = Identity { size: 5, ..identity };
    let directory = SourceRemoval { at: at("d"), ..removal(identity, None) };
    let kept = vec![removal(other, None), directory, removal(identity, Some(at("sent")))];
    let kept: Vec<_> = files.each(Operation::RemoveSources(kept)).iter().map(why).collect();
    assert_eq!(kept, [FaultKind::Changed, FaultKind::Changed, FaultKind::Exists].map(Some));
    assert_eq!(files.content("sent"), b"sent");
    let removals = vec![removal(identity, Some(at("absent"))), removal(identity, None)];
    assert_eq!(files.each(Operation::RemoveSources(removals)), vec![Ok(()); 2]);
    assert_eq!(files.look("sent"), None);
    assert_eq!(files.content("d/whole"), CONTENT, "the target of a removed link stays");
}

fn journal<B: AsRef<[u8]>>(files: &mut Files<'_, B>) {
    let name = "journal";
    let open = |files: &mut Files<'_, B>, most| match (files.run)(Operation::OpenJournal {
        journal: at(name),
        most,
    }) {
        Outcome::OpenedJournal(opened) => opened.expect("an opened journal"),
        _ => panic!("outcome of another operation"),
    };
    assert_eq!(open(files, 100), OpenedJournal { state: JournalState::Absent, has_others: false });
    let record = |offset, bytes: &[u8], after: Vec<[FilePath; 2]>| {
        Operation::WriteJournal(JournalWrite {
            journal: at(name),
            offset,
            bytes: bytes.to_vec(),
            after,
            sync: true,
        })
    };
    let whole = [at("d/whole"), at("d/absent")];
    let renamed = [at("d/absent"), at("d/whole")];
    let absent = [at("d/absent"), at("d/absent")];
    assert_eq!(
        files.each(record(0, b"first, and a long one", vec![whole.clone(), renamed])),
        vec![Ok(()); 3]
    );
    assert_eq!(files.each(record(5, b"!", Vec::new())), [Ok(())]);
    let late = files.each(record(6, b"?", vec![whole, absent]));
    let late: Vec<_> = late.iter().map(why).collect();
    let wanted = [None, Some(FaultKind::NotFound), Some(FaultKind::NotFound)];
    assert_eq!(late, wanted, "the journal is written after its files are durable");
    assert_eq!(files.content(name), b"first!", "the journal is truncated after the last write");
}
