//! Changes of single entries in the letters of rsync's `--itemize-changes`.

use super::bytes::{put_bytes, put_number, Reader};
use super::error::WireError;
use crate::entry::MAX_TARGET;
use crate::name::MAX_NAME;

/// Maximum length of the target of a link: that of a symbolic link, or the name of a hard link.
const MAX_LINK: usize = if MAX_TARGET > MAX_NAME { MAX_TARGET } else { MAX_NAME };
/// Maximum encoded length: letters, kind, target and size.
pub(super) const MAX_ITEMIZED: usize = LETTERS + 1 + 10 + MAX_LINK + 10;
const LETTERS: usize = 11;

/// How an entry changed, in the format of rsync(1): update, kind, and an attribute per letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Itemized {
    /// The letters, such as `>f.st......`; ASCII.
    letters: [u8; LETTERS],
    /// The kind of object.
    pub kind: ItemKind,
    /// The target of a link: as stored in a symbolic link, or the first name of a hard link.
    pub target: Option<Box<[u8]>>,
    /// The size of a regular file in bytes.
    pub size: u64,
}

/// The kind of a changed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device.
    Device,
    /// A named pipe or a socket.
    Special,
}

impl ItemKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::File, Self::Directory, Self::Symlink, Self::Device, Self::Special];

    /// Returns the letter of rsync.
    pub fn letter(self) -> u8 {
        match self {
            Self::File => b'f',
            Self::Directory => b'd',
            Self::Symlink => b'L',
            Self::Device => b'D',
            Self::Special => b'S',
        }
    }
}

/// The letters of a removed entry.
const REMOVED: [u8; LETTERS] = *b"*deleting  ";

impl Itemized {
    /// Creates an item without changed attributes; `update` is rsync's first letter.
    pub fn new(update: u8, kind: ItemKind) -> Self {
        let mut letters = [b'.'; LETTERS];
        (letters[0], letters[1]) = (update, kind.letter());
        Self { letters, kind, target: None, size: 0 }
    }

    /// Creates the item of a removed entry.
    pub fn removed(kind: ItemKind) -> Self {
        Self { letters: REMOVED, kind, target: None, size: 0 }
    }

    /// Marks the entry as new.
    pub fn mark_new(&mut self) {
        self.letters[2..].fill(b'+');
    }

    /// Marks an attribute as changed; see the positions of [`attribute`].
    pub fn mark(&mut self, position: usize, letter: u8) {
        self.letters[position] = letter;
    }

    /// Replaces the letters of attributes by blanks if none changed, except for a transferred file.
    pub fn finish(mut self) -> Self {
        if self.letters[0] != b'>' && self.letters[2..].iter().all(|letter| *letter == b'.') {
            self.letters[2..].fill(b' ');
        }
        self
    }

    /// Returns the letters.
    pub fn letters(&self) -> &str {
        std::str::from_utf8(&self.letters).unwrap_or_default()
    }

    /// Returns whether the entry is new.
    pub fn is_new(&self) -> bool {
        self.letters[2] == b'+'
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.letters);
        out.push(self.kind.letter());
        put_bytes(out, self.target.as_deref().unwrap_or_default());
        put_number(out, self.size);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let letters: [u8; LETTERS] = reader.exactly("the letters of a change")?;
        if !letters.iter().all(|letter| letter.is_ascii_graphic() || *letter == b' ') {
            return Err(WireError::InvalidValue("the letters of a change"));
        }
        let letter = reader.byte("the kind of a changed entry")?;
        let kind = ItemKind::ALL.into_iter().find(|kind| kind.letter() == letter);
        let kind = kind.ok_or(WireError::InvalidValue("the kind of a changed entry"))?;
        let target = reader.bytes("the target of a changed link", MAX_LINK)?;
        let target = (!target.is_empty()).then(|| target.into());
        Ok(Self { letters, kind, target, size: reader.number("the size of a changed file")? })
    }
}

/// Positions of attributes in the letters.
pub mod attribute {
    /// The content: of a regular file by its hash, of another object its target or number.
    pub const CONTENT: usize = 2;
    /// The size.
    pub const SIZE: usize = 3;
    /// The time of modification.
    pub const TIME: usize = 4;
    /// The mode.
    pub const MODE: usize = 5;
    /// The owning user.
    pub const USER: usize = 6;
    /// The owning group.
    pub const GROUP: usize = 7;
    /// The ACLs.
    pub const ACL: usize = 9;
    /// Other extended attributes.
    pub const XATTRS: usize = 10;
}
