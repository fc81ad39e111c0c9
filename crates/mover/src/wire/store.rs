//! A compact in-memory store of entries.

use super::batch::{Batch, BatchEncoder};
use super::bytes::Reader;
use crate::entry::{Entry, FileNumber};

/// A stack of entries in wire format: names share prefixes, and owners and modes are stored once.
#[derive(Debug)]
pub struct EntryStore {
    full: Vec<Box<[u8]>>,
    last: BatchEncoder,
}

impl Default for EntryStore {
    fn default() -> Self {
        Self { full: Vec::new(), last: BatchEncoder::new(FileNumber::FIRST) }
    }
}

impl EntryStore {
    /// Adds an entry that is valid on the wire.
    pub fn push(&mut self, entry: Entry) {
        if self.last.push(&entry) == Ok(false) {
            self.full.extend(self.last.take_payload().map(Vec::into_boxed_slice));
            // An empty batch fits any entry.
            drop(self.last.push(&entry));
        }
    }

    /// Removes and returns the newest entries, in the order in which they were added.
    pub fn pop(&mut self) -> Option<Vec<Entry>> {
        let payload = self.last.take_payload().map(Vec::into_boxed_slice).or_else(|| self.full.pop())?;
        let batch = Batch::read(&mut Reader::new(&payload)).ok()?;
        Some(batch.into_parts().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Object;
    use crate::name::Name;

    #[test]
    fn pops_newest_entries_first() {
        let name = |index: usize| Name::new(format!("a/{index:05}").into_bytes()).expect("a name");
        let entry = |index| Entry { name: name(index), object: Object::HardLink(name(index + 1)) };
        let mut store = EntryStore::default();
        (0..3_000).for_each(|index| store.push(entry(index)));
        let mut all = Vec::new();
        while let Some(mut part) = store.pop() {
            part.append(&mut all);
            all = part;
        }
        assert_eq!(all, (0..3_000).map(entry).collect::<Vec<_>>());
    }
}
