//! Batches: many entries of a scan in one frame.
//!
//! A name is encoded as the length of the prefix that it shares with the previous name, and the
//! rest; mode and owners are omitted where they equal those of the previous object. Batches are
//! independent.

use super::bytes::{put_bytes, put_frame, put_number, put_signed, Reader};
use super::error::{WireError, MAX_PAYLOAD};
use super::extents::{put_extents, read_extents};
use crate::entry::{
    Content, DeviceNumber, Entry, FileNumber, Inode, Kind, Mode, Object, Owner, Target, Time, Xattrs,
    MAX_ACCOUNT, MAX_TARGET, MAX_XATTR_LIST, MAX_XATTR_NAME, MAX_XATTR_VALUE,
};
use crate::name::{Name, MAX_NAME};

/// The frame kind of a batch.
pub const BATCH: u8 = 1;
/// Maximum entries of a batch.
pub const MAX_BATCH: usize = 1_024;

const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const DIRECTORY: u8 = 2;
const SYMLINK: u8 = 3;
const HARD_LINK: u8 = 4;
const FIFO: u8 = 5;
const CHARACTER_DEVICE: u8 = 6;
const BLOCK_DEVICE: u8 = 7;
const KIND: u8 = 0x07;
const SAME_MODE: u8 = 0x08;
const SAME_USER: u8 = 0x10;
const SAME_GROUP: u8 = 0x20;
const HAS_XATTRS: u8 = 0x40;
/// The entry of a regular file includes its ctime.
const HAS_CTIME: u8 = 0x80;

/// Consecutive entries of a scan: at least one. The root, if included, is a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    first: FileNumber,
    entries: Vec<Entry>,
}

impl Batch {
    /// Iterates over the entries with their numbers.
    pub fn entries(&self) -> impl Iterator<Item = (FileNumber, &Entry)> {
        let number = |index: usize| FileNumber::new(self.first.get() + index as u64);
        self.entries.iter().enumerate().filter_map(move |(index, entry)| Some((number(index).ok()?, entry)))
    }

    /// Returns the number of the first entry, and the entries.
    pub fn into_parts(self) -> (FileNumber, Vec<Entry>) {
        (self.first, self.entries)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.first.get());
        let mut previous = PreviousEntry::default();
        for entry in &self.entries {
            put_entry(out, entry, &previous);
            previous.update(entry);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let first = FileNumber::new(reader.number("the number of a batch's first entry")?)?;
        let mut entries = Vec::new();
        let mut previous = PreviousEntry::default();
        while !reader.is_empty() || entries.is_empty() {
            if entries.len() == MAX_BATCH {
                let (length, limit) = (MAX_BATCH as u64 + 1, MAX_BATCH as u64);
                return Err(WireError::TooLong { what: "a batch", length, limit });
            }
            let entry = read_entry(reader, &previous)?;
            number_of(first, entries.len())?;
            check(&entry)?;
            previous.update(&entry);
            entries.push(entry);
        }
        Ok(Self { first, entries })
    }
}

/// Encodes entries into a batch frame, one at a time, until the frame is full.
///
/// The encoder writes entries directly in wire format: it holds the payload so far and the previous
/// entry, against which the next one is delta-encoded. When [`BatchEncoder::push`] returns `false`,
/// the caller takes the frame with [`BatchEncoder::take`] and pushes the entry again; numbering
/// continues. [`Decoder`](super::Decoder) yields the frame as a [`Batch`].
#[derive(Debug)]
pub struct BatchEncoder {
    first: FileNumber,
    count: usize,
    previous: PreviousEntry,
    payload: Vec<u8>,
}

impl BatchEncoder {
    /// Creates an empty batch whose first entry will have the number `first`.
    pub fn new(first: FileNumber) -> Self {
        let mut payload = Vec::new();
        put_number(&mut payload, first.get());
        Self { first, count: 0, previous: PreviousEntry::default(), payload }
    }

    /// Adds an entry; returns `false` if it does not fit. An empty batch fits any entry.
    ///
    /// # Errors
    /// [`WireError::InvalidValue`] for a hard link to the root and for a root that is not a
    /// directory; then nothing is added.
    pub fn push(&mut self, entry: &Entry) -> Result<bool, WireError> {
        if self.count == MAX_BATCH {
            return Ok(false);
        }
        number_of(self.first, self.count)?;
        check(entry)?;
        let length = self.payload.len();
        put_entry(&mut self.payload, entry, &self.previous);
        if self.payload.len() > MAX_PAYLOAD {
            self.payload.truncate(length);
            return Ok(false);
        }
        self.previous.update(entry);
        self.count += 1;
        Ok(true)
    }

    /// Returns the current payload length; a sender need not wait until the batch is full.
    pub fn length(&self) -> usize {
        self.payload.len()
    }

    /// Takes the payload for [`Batch::read`] and restarts with the same number; `None` if empty.
    pub(super) fn take_payload(&mut self) -> Option<Vec<u8>> {
        let old = std::mem::replace(self, Self::new(self.first));
        (old.count > 0).then_some(old.payload)
    }

    /// Appends the frame to `out` unless the batch is empty, and starts the next batch. Returns the
    /// number of its first entry.
    ///
    /// # Errors
    /// [`WireError::Entry`] if file numbers are exhausted.
    pub fn take(&mut self, out: &mut Vec<u8>) -> Result<FileNumber, WireError> {
        let next = number_of(self.first, self.count)?;
        if self.count > 0 {
            put_frame(out, BATCH, &self.payload);
            *self = Self::new(next);
        }
        Ok(next)
    }
}

fn number_of(first: FileNumber, index: usize) -> Result<FileNumber, WireError> {
    Ok(FileNumber::new(first.get().saturating_add(index as u64))?)
}

fn check(entry: &Entry) -> Result<(), WireError> {
    match &entry.object {
        Object::HardLink(to) if to.is_root() => Err(WireError::InvalidValue("a hard link to the root")),
        Object::New(Inode { kind: Kind::Directory, .. }) => Ok(()),
        _ if entry.name.is_root() => Err(WireError::InvalidValue("a root that is not a directory")),
        _ => Ok(()),
    }
}

/// The state that the next entry is encoded against.
#[derive(Debug, Default)]
struct PreviousEntry {
    name: Vec<u8>,
    /// The target of the last hard link.
    to: Vec<u8>,
    shared: Option<(Mode, Owner, Owner)>,
}

impl PreviousEntry {
    fn update(&mut self, entry: &Entry) {
        self.name.clear();
        self.name.extend_from_slice(entry.name.as_bytes());
        let inode = match &entry.object {
            Object::New(inode) => inode,
            Object::HardLink(to) => {
                self.to.clear();
                return self.to.extend_from_slice(to.as_bytes());
            }
        };
        match &mut self.shared {
            Some((mode, user, group)) => {
                *mode = inode.mode;
                // Most files of a tree have one owner, so clone only on change.
                if *user != inode.user {
                    user.clone_from(&inode.user);
                }
                if *group != inode.group {
                    group.clone_from(&inode.group);
                }
            }
            none => *none = Some((inode.mode, inode.user.clone(), inode.group.clone())),
        }
    }

    /// Returns the flags of the attributes that equal the previous ones.
    fn same(&self, inode: &Inode) -> u8 {
        let Some((mode, user, group)) = &self.shared else { return 0 };
        let flag = |same: bool, flag: u8| if same { flag } else { 0 };
        flag(*mode == inode.mode, SAME_MODE)
            | flag(*user == inode.user, SAME_USER)
            | flag(*group == inode.group, SAME_GROUP)
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry, previous: &PreviousEntry) {
    let flags = match &entry.object {
        Object::HardLink(_) => HARD_LINK,
        Object::New(inode) => {
            let xattrs = if inode.xattrs.is_empty() { 0 } else { HAS_XATTRS };
            let ctime = if ctime(&inode.kind).is_some() { HAS_CTIME } else { 0 };
            kind_code(&inode.kind) | previous.same(inode) | xattrs | ctime
        }
    };
    out.push(flags);
    put_name(out, entry.name.as_bytes(), &previous.name);
    match &entry.object {
        Object::HardLink(to) => put_name(out, to.as_bytes(), &previous.to),
        Object::New(inode) => put_inode(out, inode, flags),
    }
}

fn read_entry(reader: &mut Reader<'_>, previous: &PreviousEntry) -> Result<Entry, WireError> {
    let flags = reader.byte("an entry")?;
    let name = read_name(reader, &previous.name)?;
    let object = if flags & KIND == HARD_LINK {
        if flags != HARD_LINK {
            return Err(WireError::NotCanonical("the flags of a hard link"));
        }
        Object::HardLink(read_name(reader, &previous.to)?)
    } else {
        Object::New(read_inode(reader, flags, previous)?)
    };
    Ok(Entry { name, object })
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Writes a name as the length of the prefix shared with `previous`, and the rest.
pub(crate) fn put_name(out: &mut Vec<u8>, name: &[u8], previous: &[u8]) {
    let shared = shared_prefix(previous, name);
    put_number(out, shared as u64);
    put_bytes(out, &name[shared..]);
}

/// Reads a name written by [`put_name`].
pub(crate) fn read_name(reader: &mut Reader<'_>, previous: &[u8]) -> Result<Name, WireError> {
    let shared = reader.number("a name")?;
    let rest = reader.bytes("a name", MAX_NAME)?;
    let prefix = usize::try_from(shared).ok().and_then(|shared| previous.get(..shared));
    let name = [prefix.ok_or(WireError::InvalidValue("a prefix of a name"))?, rest].concat();
    if shared_prefix(previous, &name) as u64 != shared {
        return Err(WireError::NotCanonical("the prefix of a name"));
    }
    Ok(if name.is_empty() { Name::root() } else { Name::new(name)? })
}

fn kind_code(kind: &Kind) -> u8 {
    match kind {
        Kind::File(content) if content.is_dense() => DENSE,
        Kind::File(_) => SPARSE,
        Kind::Directory => DIRECTORY,
        Kind::Symlink(_) => SYMLINK,
        Kind::Fifo => FIFO,
        Kind::CharacterDevice(_) => CHARACTER_DEVICE,
        Kind::BlockDevice(_) => BLOCK_DEVICE,
    }
}

fn put_inode(out: &mut Vec<u8>, inode: &Inode, flags: u8) {
    if flags & SAME_MODE == 0 {
        put_number(out, inode.mode.bits().into());
    }
    put_time(out, inode.mtime);
    for (flag, owner) in [(SAME_USER, &inode.user), (SAME_GROUP, &inode.group)] {
        if flags & flag == 0 {
            put_number(out, owner.id().into());
            put_bytes(out, owner.name().unwrap_or_default());
        }
    }
    if flags & HAS_XATTRS != 0 {
        put_number(out, inode.xattrs.len() as u64);
        for (name, value) in inode.xattrs.iter() {
            put_bytes(out, name);
            put_bytes(out, value);
        }
    }
    put_kind(out, &inode.kind);
    if let Some(ctime) = ctime(&inode.kind) {
        put_time(out, ctime);
    }
}

fn ctime(kind: &Kind) -> Option<Time> {
    match kind {
        Kind::File(content) => content.ctime(),
        _ => None,
    }
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    put_signed(out, time.seconds());
    put_number(out, time.nanoseconds().into());
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time, WireError> {
    Ok(Time::new(reader.signed("a time")?, reader.number32("a time")?)?)
}

fn read_inode(reader: &mut Reader<'_>, flags: u8, previous: &PreviousEntry) -> Result<Inode, WireError> {
    let is_file = matches!(flags & KIND, DENSE | SPARSE);
    if (flags & HAS_CTIME != 0 && !is_file)
        || (previous.shared.is_none() && flags & (SAME_MODE | SAME_USER | SAME_GROUP) != 0)
    {
        return Err(WireError::InvalidValue("the flags of an entry"));
    }
    let shared = previous.shared.as_ref();
    let mode = match shared {
        Some((mode, ..)) if flags & SAME_MODE != 0 => *mode,
        _ => Mode::new(reader.number32("a mode")?)?,
    };
    let mtime = read_time(reader)?;
    let user = match shared {
        Some((_, user, _)) if flags & SAME_USER != 0 => user.clone(),
        _ => read_owner(reader)?,
    };
    let group = match shared {
        Some((.., group)) if flags & SAME_GROUP != 0 => group.clone(),
        _ => read_owner(reader)?,
    };
    let xattrs = if flags & HAS_XATTRS != 0 { read_xattrs(reader)? } else { Xattrs::default() };
    let kind = match read_kind(reader, flags & KIND)? {
        Kind::File(content) if flags & HAS_CTIME != 0 => {
            Kind::File(content.with_ctime(Some(read_time(reader)?)))
        }
        kind => kind,
    };
    let inode = Inode { kind, mode, mtime, user, group, xattrs };
    if previous.same(&inode) & !flags != 0 {
        return Err(WireError::NotCanonical("an entry that repeats attributes of the previous one"));
    }
    Ok(inode)
}

fn read_owner(reader: &mut Reader<'_>) -> Result<Owner, WireError> {
    let id = reader.number32("an owner")?;
    let name = reader.bytes("the name of an owner", MAX_ACCOUNT)?;
    Ok(Owner::new(id, Some(name).filter(|name| !name.is_empty()))?)
}

fn read_xattrs(reader: &mut Reader<'_>) -> Result<Xattrs, WireError> {
    // Each name has at least one byte and counts with its NUL.
    const MOST: u64 = (MAX_XATTR_LIST / 2) as u64;
    let what = "extended attributes";
    let count = reader.number(what)?;
    if count == 0 {
        return Err(WireError::NotCanonical(what));
    }
    if count > MOST {
        return Err(WireError::TooLong { what, length: count, limit: MOST });
    }
    let mut xattrs = Xattrs::default();
    let mut previous: &[u8] = b"";
    for _ in 0..count {
        let name = reader.bytes("the name of an extended attribute", MAX_XATTR_NAME)?;
        let value = reader.bytes("the value of an extended attribute", MAX_XATTR_VALUE)?;
        xattrs.insert(name, value)?;
        if name <= previous {
            return Err(WireError::NotCanonical("the order of extended attributes"));
        }
        previous = name;
    }
    Ok(xattrs)
}

fn put_kind(out: &mut Vec<u8>, kind: &Kind) {
    match kind {
        Kind::File(content) => put_content(out, content),
        Kind::Symlink(target) => put_bytes(out, target.as_bytes()),
        Kind::CharacterDevice(device) | Kind::BlockDevice(device) => {
            put_number(out, device.major().into());
            put_number(out, device.minor().into());
        }
        Kind::Directory | Kind::Fifo => {}
    }
}

fn read_kind(reader: &mut Reader<'_>, code: u8) -> Result<Kind, WireError> {
    Ok(match code {
        DENSE => Kind::File(Content::dense(reader.number("the size of a file")?)?),
        SPARSE => Kind::File(read_sparse(reader)?),
        DIRECTORY => Kind::Directory,
        SYMLINK => Kind::Symlink(Target::new(reader.bytes("the target of a link", MAX_TARGET)?)?),
        FIFO => Kind::Fifo,
        CHARACTER_DEVICE => Kind::CharacterDevice(read_device(reader)?),
        BLOCK_DEVICE => Kind::BlockDevice(read_device(reader)?),
        _ => return Err(WireError::InvalidValue("the kind of an entry")),
    })
}

fn read_device(reader: &mut Reader<'_>) -> Result<DeviceNumber, WireError> {
    Ok(DeviceNumber::new(reader.number32("a device")?, reader.number32("a device")?)?)
}

fn put_content(out: &mut Vec<u8>, content: &Content) {
    put_number(out, content.size());
    if content.is_dense() {
        return;
    }
    put_extents(out, &content.extents().collect::<Vec<_>>());
}

fn read_sparse(reader: &mut Reader<'_>) -> Result<Content, WireError> {
    let size = reader.number("the size of a file")?;
    let content = Content::sparse(size, read_extents(reader)?)?;
    if content.is_dense() {
        return Err(WireError::NotCanonical("a file without holes"));
    }
    Ok(content)
}
