//! Runs the operations of a port on the simulated disk.

use super::disk::{Chance, Disk};
use super::state::{Change, Inode, Kind, Object, PAGE, ROOT};
use crate::port::{
    Attributes, CompressFn, CompressionResult, ContentHash, Decompression, Details, Digest, Fault, FaultKind,
    FileCompletion, FileInfo, FileKind, FilePath, FileStat, FileWrite, Hash, JournalState, JournalWrite,
    Listing, NameMatching, NewObject, Object as Wanted, OpenMode, OpenedJournal, Operation, Outcome,
    ReadPiece, SourceRemoval, Stamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The umask of new objects.
const UMASK: u32 = 0o022;

fn fault(why: FaultKind) -> Fault {
    Fault::new(why, format_args!("simulated: {why:?}"))
}

/// Compresses at 500 MB/s, on a thread that uses a full CPU.
fn packed(pack: CompressFn, data: &mut Vec<u8>) -> CompressionResult {
    let mut into = vec![0; data.len()];
    let bytes = pack(data, &mut into);
    let took = Duration::from_nanos(2 * data.len() as u64);
    if let Some(bytes) = bytes {
        into.truncate(bytes);
        *data = into;
    }
    CompressionResult { bytes, took, worked: took }
}

fn unpacked(packed: &Decompression, data: &[u8], block: usize) -> Result<Vec<u8>, Fault> {
    let mut plain = vec![0; block];
    packed.run(data, &mut plain)?;
    plain.truncate(packed.plain);
    Ok(plain)
}

impl Disk {
    /// Runs an operation.
    pub fn run(&mut self, operation: Operation<Vec<u8>>) -> Outcome<Vec<u8>> {
        match operation {
            Operation::List { directory, most, details } => {
                Outcome::Listed(self.list(&directory, most, details))
            }
            Operation::ListMore { listing, most, details } => {
                Outcome::Listed(self.more(listing, most, details))
            }
            Operation::Stat { at, details, links } => {
                let mut found: Vec<_> = at.iter().map(|at| self.stat(at, details)).collect();
                for (index, target) in links {
                    if let Ok(Some(found)) = &mut found[index] {
                        found.is_link_destination = found.metadata.kind != FileKind::Symlink
                            && self.resolves_into(&at[index].name, &target);
                    }
                }
                Outcome::Stat(found)
            }
            Operation::Read { pieces, hash, pack } => {
                let mut data = Vec::with_capacity(self.block.bytes());
                let results = pieces.iter().map(|piece| self.read_piece(piece, hash, &mut data)).collect();
                assert!(data.len() <= self.block.bytes(), "a read must fit into a buffer");
                let packed = pack.map(|pack| packed(pack, &mut data));
                Outcome::Read { results, data, packed }
            }
            Operation::HashFile(summing) => Outcome::HashedFile(self.hash_range(summing)),
            Operation::Write { puts, data, hash, packed } => {
                let bytes = match (data, packed) {
                    (Some(data), Some(packed)) => unpacked(&packed, &data, self.block.bytes()),
                    (data, _) => Ok(data.unwrap_or_default()),
                };
                let bytes = match bytes {
                    Ok(bytes) => bytes,
                    Err(fault) => return Outcome::Results(puts.iter().map(|_| Err(fault.clone())).collect()),
                };
                Outcome::Results(puts.iter().map(|put| self.write(put, &bytes, hash)).collect())
            }
            Operation::Create(all) => Outcome::Results(all.iter().map(|making| self.make(making)).collect()),
            Operation::SetAttributes(all) => {
                let mut set_attributes = |at: &FilePath, attributes: &Attributes| {
                    let inode = self.find(&at.name)?;
                    self.set_attributes(inode, attributes)
                };
                Outcome::Results(all.iter().map(|(at, attributes)| set_attributes(at, attributes)).collect())
            }
            Operation::Remove(all) => Outcome::Results(all.iter().map(|at| self.remove(at)).collect()),
            Operation::RemoveSources(all) => {
                Outcome::Results(all.iter().map(|removal| self.remove_source(removal)).collect())
            }
            Operation::OpenJournal { journal, most } => Outcome::OpenedJournal(self.open(&journal, most)),
            Operation::WriteJournal(record) => Outcome::Results(self.record(&record)),
            Operation::Sync { .. } => {
                self.sync_all();
                Outcome::Results(vec![Ok(())])
            }
        }
    }

    /// Runs a part of an operation, whose process is killed meanwhile.
    pub fn run_partially(&mut self, operation: Operation<Vec<u8>>, chance: &mut Chance) {
        match operation {
            Operation::Write { mut puts, data, hash, packed } => {
                puts.truncate(chance.below(puts.len() as u64 + 1) as usize);
                if let Some(last) = puts.last_mut().filter(|_| chance.once_in(2)) {
                    last.settle = None;
                    last.parts.truncate(chance.below(last.parts.len() as u64 + 1) as usize);
                }
                self.run(Operation::Write { puts, data, hash, packed });
            }
            Operation::Create(mut all) => {
                all.truncate(chance.below(all.len() as u64 + 1) as usize);
                self.run(Operation::Create(all));
            }
            Operation::WriteJournal(mut record) => {
                record.bytes.truncate(chance.below(record.bytes.len() as u64 + 1) as usize);
                self.run(Operation::WriteJournal(record));
            }
            _ => {}
        }
    }

    /// Returns the inode of a name without following links.
    pub(super) fn find(&self, name: &[u8]) -> Result<u64, Fault> {
        let mut at = ROOT;
        for component in name.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
            match self.now.0.get(&at).map(|inode| &inode.object) {
                Some(Object::Directory(names)) => {
                    at = *names.get(component).ok_or_else(|| fault(FaultKind::NotFound))?;
                }
                Some(Object::Special(Kind::Symlink(_))) => return Err(fault(FaultKind::Link)),
                _ => return Err(fault(FaultKind::Exists)),
            }
        }
        Ok(at)
    }

    fn parent_and_name<'a>(&self, at: &'a FilePath) -> Result<(u64, &'a [u8]), Fault> {
        let slash = at.name.iter().rposition(|&byte| byte == b'/');
        let parent = self.find(slash.map_or(&b""[..], |slash| &at.name[..slash]))?;
        match self.now.0.get(&parent).map(|inode| &inode.object) {
            Some(Object::Directory(_)) => Ok((parent, slash.map_or(&at.name, |slash| &at.name[slash + 1..]))),
            _ => Err(fault(FaultKind::Exists)),
        }
    }

    fn found(&self, number: u64, details: Details) -> Option<FileInfo> {
        let inode = self.now.0.get(&number)?;
        let links = self.now.0.values().map(|inode| match &inode.object {
            Object::Directory(names) => names.values().filter(|named| **named == number).count() as u64,
            _ => 0,
        });
        let (kind, size) = match &inode.object {
            Object::File(content, _) => (FileKind::File, content.len() as u64),
            Object::Directory(_) => (FileKind::Directory, 0),
            Object::Special(Kind::Symlink(_)) => (FileKind::Symlink, 0),
            Object::Special(Kind::Fifo) => (FileKind::Fifo, 0),
            Object::Special(Kind::CharacterDevice(a, b)) => (FileKind::CharacterDevice(*a, *b), 0),
            Object::Special(Kind::BlockDevice(a, b)) => (FileKind::BlockDevice(*a, *b), 0),
        };
        let metadata = FileStat {
            kind,
            mode: inode.mode,
            user: inode.user,
            group: inode.group,
            size,
            mtime: inode.mtime,
            // Times are not rounded.
            ctime: Stamp { nanoseconds: 999_999_999, ..inode.mtime },
            inode: number,
            volume: 1,
            links: links.sum(),
        };
        let target = match &inode.object {
            Object::Special(Kind::Symlink(target)) => Some(target.clone()),
            _ => None,
        };
        let data = match &inode.object {
            Object::File(content, pages) if details.holes => {
                let end = content.len() as u64;
                Some(pages.iter().map(|page| (page * PAGE, ((page + 1) * PAGE).min(end))).collect())
            }
            _ => None,
        };
        let xattrs = if details.xattrs { inode.xattrs.clone() } else { Vec::new() };
        // A file has an arbitrary but fixed address.
        let address =
            (details.address && kind == FileKind::File).then(|| number.wrapping_mul(0x9e37_79b9) % 1_000);
        Some(FileInfo {
            metadata,
            has_hidden_xattrs: false,
            other_xattrs: Vec::new(),
            target,
            xattrs,
            data,
            address,
            is_link_destination: false,
            handle: None,
        })
    }

    /// Whether a relative link target resolves to the entry at the link's own name, or into it,
    /// without other links.
    fn resolves_into(&self, name: &[u8], target: &[u8]) -> bool {
        let mut path: Vec<&[u8]> = name.split(|&byte| byte == b'/').collect();
        path.pop();
        for part in target.split(|&byte| byte == b'/') {
            match part {
                b"." => {}
                b".." => drop(path.pop()),
                part => path.push(part),
            }
        }
        let path = path.join(&b'/');
        let into = path.strip_prefix(name).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        into && self.find(&path).is_ok()
    }

    fn stat(&self, at: &FilePath, details: Details) -> Result<Option<FileInfo>, Fault> {
        match self.find(&at.name) {
            Ok(inode) => Ok(self.found(inode, details)),
            Err(_) => Ok(None),
        }
    }

    fn list(&mut self, at: &FilePath, most: usize, details: Details) -> Result<Listing, Fault> {
        let number = self.find(&at.name)?;
        match self.now.0.get(&number).map(|inode| &inode.object) {
            Some(Object::Directory(names)) => {
                let names = names.keys().rev().cloned().collect();
                self.next_batch(number, names, most, details)
            }
            _ => Err(fault(FaultKind::Exists)),
        }
    }

    fn more(&mut self, listing: u64, most: usize, details: Details) -> Result<Listing, Fault> {
        let (number, names) = self.listings.remove(&listing).ok_or_else(|| fault(FaultKind::Other))?;
        self.next_batch(number, names, most, details)
    }

    fn next_batch(
        &mut self,
        number: u64,
        mut names: Vec<Box<[u8]>>,
        most: usize,
        details: Details,
    ) -> Result<Listing, Fault> {
        let some = names.split_off(names.len().saturating_sub(most));
        let Some(Object::Directory(there)) = self.now.0.get(&number).map(|inode| &inode.object) else {
            return Err(fault(FaultKind::NotFound));
        };
        let found = some.into_iter().filter_map(|name| {
            let found = self.found(*there.get(&name)?, details)?;
            Some((name, Ok(found)))
        });
        let found = found.collect();
        let more = (!names.is_empty()).then(|| {
            let listing = self.listings.keys().next_back().map_or(1, |last| last + 1);
            self.listings.insert(listing, (number, names));
            listing
        });
        Ok(Listing { found, more, names: NameMatching::Exact })
    }

    fn read_piece(&mut self, piece: &ReadPiece, hash: Hash, data: &mut Vec<u8>) -> Result<Digest, Fault> {
        let number = self.find(&piece.at.name)?;
        let found = self.found(number, Details::default()).ok_or_else(|| fault(FaultKind::NotFound))?;
        let has_changed = found.metadata.identity() != piece.identity && !piece.as_it_is;
        if has_changed || found.metadata.kind != FileKind::File {
            return Err(fault(FaultKind::Changed));
        }
        let Some(Object::File(content, _)) = self.now.0.get(&number).map(|inode| &inode.object) else {
            return Err(fault(FaultKind::Changed));
        };
        let start = piece.offset as usize;
        let bytes = content.get(start..start + piece.length).ok_or_else(|| fault(FaultKind::Changed))?;
        data.extend_from_slice(bytes);
        self.read += bytes.len() as u64;
        Ok(hash(bytes))
    }

    fn hash_range(&mut self, mut summing: ContentHash) -> Result<ContentHash, Fault> {
        let number = self.find(&summing.at.name)?;
        let found = self.found(number, Details::default()).ok_or_else(|| fault(FaultKind::NotFound))?;
        if summing.identity.is_some_and(|identity| identity != found.metadata.identity()) {
            return Err(fault(FaultKind::Changed));
        }
        let Some(Object::File(content, _)) = self.now.0.get(&number).map(|inode| &inode.object) else {
            return Err(fault(FaultKind::Changed));
        };
        let rest = content.get(summing.offset as usize..).ok_or_else(|| fault(FaultKind::Changed))?;
        let some = &rest[..rest.len().min(summing.most as usize)];
        summing.running.update(some);
        summing.offset += some.len() as u64;
        summing.ended = some.len() == rest.len();
        Ok(summing)
    }

    fn write(&mut self, put: &FileWrite, data: &[u8], hash: Hash) -> Result<(), Fault> {
        let done = self.write_parts(put, data, hash);
        if done.is_err() || put.settle.is_some() {
            self.in_place.remove(&put.at);
        }
        done
    }

    fn write_parts(&mut self, put: &FileWrite, data: &[u8], hash: Hash) -> Result<(), Fault> {
        for (range, digest) in &put.check {
            if data.get(range.clone()).map(hash) != Some(*digest) {
                return Err(fault(FaultKind::Mismatch));
            }
        }
        let number = self.open_for_write(put)?;
        for part in &put.parts {
            let bytes = data.get(part.bytes.clone()).ok_or_else(|| fault(FaultKind::Other))?;
            if self.written + bytes.len() as u64 > self.capacity {
                return Err(fault(FaultKind::NoSpace));
            }
            self.written += bytes.len() as u64;
            self.change(Change::Data(number, part.offset, bytes.to_vec()));
            let mtime = self.tick();
            self.set_attributes(number, &Attributes { mtime: Some(mtime), ..Attributes::default() })?;
        }
        match &put.settle {
            Some(settle) => self.finish_file(&put.at, number, settle),
            None => Ok(()),
        }
    }

    fn open_for_write(&mut self, put: &FileWrite) -> Result<u64, Fault> {
        let (directory, name) = self.parent_and_name(&put.at)?;
        let there = self.find(&put.at.name).ok();
        let found = there.and_then(|number| self.found(number, Details::default()));
        match (put.begin, there, found.map(|found| found.metadata.kind)) {
            (OpenMode::Continue, Some(number), Some(FileKind::File)) => {
                let size = self.found(number, Details::default()).map_or(0, |found| found.metadata.size);
                match put.held.last().is_none_or(|last| last.end <= size) {
                    true => Ok(number),
                    false => Err(fault(FaultKind::Changed)),
                }
            }
            (OpenMode::ContinueInPlace, Some(number), Some(FileKind::File)) => {
                let has_another_name =
                    self.found(number, Details::default()).is_none_or(|found| found.metadata.links > 1);
                match self.in_place.get(&put.at) == Some(&number) && !has_another_name {
                    true => Ok(number),
                    false => Err(fault(FaultKind::Changed)),
                }
            }
            (OpenMode::Continue | OpenMode::ContinueInPlace, ..) => Err(fault(FaultKind::NotFound)),
            (_, _, Some(FileKind::Directory)) => Err(fault(FaultKind::Exists)),
            (OpenMode::InPlace, Some(number), Some(FileKind::File)) => {
                self.change(Change::Size(number, 0));
                self.in_place.insert(put.at.clone(), number);
                Ok(number)
            }
            _ => {
                let number = self.add(Object::File(Vec::new(), BTreeSet::new()), 0o600);
                self.change(Change::Names(vec![(directory, name.into(), Some(number))]));
                if put.begin == OpenMode::InPlace {
                    self.in_place.insert(put.at.clone(), number);
                }
                Ok(number)
            }
        }
    }

    fn finish_file(&mut self, at: &FilePath, number: u64, settle: &FileCompletion) -> Result<(), Fault> {
        self.change(Change::Size(number, settle.size));
        let attributes_set = self.set_attributes(number, &settle.attributes);
        if settle.sync {
            self.sync_one(number);
        }
        if *at == settle.name {
            return attributes_set;
        }
        let (from, to) = (self.parent_and_name(at)?, self.parent_and_name(&settle.name)?);
        self.not_a_directory(&settle.name)?;
        self.change(Change::Names(vec![(from.0, from.1.into(), None), (to.0, to.1.into(), Some(number))]));
        attributes_set
    }

    fn not_a_directory(&self, at: &FilePath) -> Result<(), Fault> {
        let there = self.find(&at.name).ok().and_then(|number| self.now.0.get(&number));
        match there.is_some_and(|inode| matches!(inode.object, Object::Directory(_))) {
            true => Err(fault(FaultKind::Exists)),
            false => Ok(()),
        }
    }

    fn set_attributes(&mut self, number: u64, wanted: &Attributes) -> Result<(), Fault> {
        let Some(inode) = self.now.0.get(&number) else { return Err(fault(FaultKind::NotFound)) };
        let refused = self.refuses.xattrs && wanted.xattrs.as_ref().is_some_and(|xattrs| !xattrs.is_empty());
        let xattrs = wanted.xattrs.clone().filter(|_| !refused);
        let new = Inode {
            object: Object::Special(Kind::Fifo),
            mode: wanted.mode.map_or(inode.mode, |mode| if wanted.masked { mode & !UMASK } else { mode }),
            user: wanted.user.unwrap_or(inode.user),
            group: wanted.group.unwrap_or(inode.group),
            mtime: wanted.mtime.unwrap_or(inode.mtime),
            xattrs: xattrs.unwrap_or_else(|| inode.xattrs.clone()),
        };
        self.change(Change::Attributes(number, Box::new(new)));
        match refused {
            true => Err(fault(FaultKind::Attribute)),
            false => Ok(()),
        }
    }

    fn make(&mut self, making: &NewObject) -> Result<(), Fault> {
        let (directory, name) = self.parent_and_name(&making.at)?;
        if let Wanted::HardLink(to) | Wanted::LinkOrClone(to) | Wanted::Backup(to) = &making.object {
            let number = self.find(&to.name)?;
            self.not_a_directory(&making.at)?;
            if self.refuses.links && self.find(&making.at.name) != Ok(number) {
                return Err(fault(FaultKind::NotKept));
            }
            self.change(Change::Names(vec![(directory, name.into(), Some(number))]));
            return Ok(());
        }
        let object = match &making.object {
            Wanted::Directory => {
                if making.at.name.is_empty() || self.not_a_directory(&making.at).is_err() {
                    return Ok(());
                }
                let Attributes { mode, masked, .. } = making.attributes;
                let mode = mode.unwrap_or_default() & if masked { !UMASK } else { !0 };
                let number = self.add(Object::Directory(BTreeMap::new()), mode | 0o700);
                self.change(Change::Names(vec![(directory, name.into(), Some(number))]));
                return Ok(());
            }
            Wanted::Symlink(target) => Kind::Symlink(target.clone()),
            Wanted::Fifo => Kind::Fifo,
            Wanted::CharacterDevice(a, b) => Kind::CharacterDevice(*a, *b),
            Wanted::BlockDevice(a, b) => Kind::BlockDevice(*a, *b),
            Wanted::Clone(..) => return Err(fault(FaultKind::Unsupported)),
            Wanted::HardLink(_) | Wanted::LinkOrClone(_) | Wanted::Backup(_) => {
                return Err(fault(FaultKind::Other));
            }
        };
        self.not_a_directory(&making.at)?;
        let is_link = matches!(object, Kind::Symlink(_));
        let number = self.add(Object::Special(object), if is_link { 0o777 } else { 0o600 });
        self.change(Change::Names(vec![(directory, name.into(), Some(number))]));
        let mode = making.attributes.mode.filter(|_| !is_link);
        self.set_attributes(number, &Attributes { mode, ..making.attributes.clone() })
    }

    fn remove(&mut self, at: &FilePath) -> Result<(), Fault> {
        if self.find(&at.name).is_err() {
            return Ok(());
        }
        let (directory, name) = self.parent_and_name(at)?;
        self.change(Change::Names(vec![(directory, name.into(), None)]));
        Ok(())
    }

    fn remove_source(&mut self, removal: &SourceRemoval) -> Result<(), Fault> {
        let Ok(number) = self.find(&removal.at.name) else { return Ok(()) };
        let found = self.found(number, Details::default()).ok_or_else(|| fault(FaultKind::NotFound))?;
        let metadata = found.metadata;
        if metadata.kind == FileKind::Directory || metadata.identity() != removal.identity {
            return Err(fault(FaultKind::Changed));
        }
        let copy = removal.destination.as_ref().and_then(|copy| self.find(&copy.name).ok());
        if copy == Some(number) {
            return Err(fault(FaultKind::Exists));
        }
        self.remove(&removal.at)
    }

    fn open(&mut self, at: &FilePath, most: usize) -> Result<OpenedJournal, Fault> {
        Ok(OpenedJournal { state: self.open_journal(at, most)?, has_others: false })
    }

    fn open_journal(&mut self, at: &FilePath, most: usize) -> Result<JournalState, Fault> {
        if self.refuses.locks {
            return Err(fault(FaultKind::Unsupported));
        }
        if self.journal.is_some() {
            return Ok(JournalState::Locked);
        }
        let Ok(number) = self.find(&at.name) else { return Ok(JournalState::Absent) };
        let Some(Object::File(content, _)) = self.now.0.get(&number).map(|inode| &inode.object) else {
            return Err(fault(FaultKind::Exists));
        };
        let content = content[..content.len().min(most)].to_vec();
        self.journal = Some(number);
        Ok(JournalState::Content(content))
    }

    fn record(&mut self, record: &JournalWrite) -> Vec<Result<(), Fault>> {
        let mut results: Vec<Result<(), Fault>> = Vec::new();
        for [at, name] in &record.after {
            let found = self.find(&at.name).or_else(|_| self.find(&name.name));
            results.push(found.map(|number| self.sync_one(number)));
        }
        let failed = results.iter().find_map(|result| result.as_ref().err()).cloned();
        results.push(failed.map_or_else(|| self.write_record(record), Err));
        results
    }

    fn write_record(&mut self, record: &JournalWrite) -> Result<(), Fault> {
        if self.refuses.locks {
            return Err(fault(FaultKind::Unsupported));
        }
        let number = match self.journal {
            Some(number) => number,
            None => {
                let (directory, name) = self.parent_and_name(&record.journal)?;
                let number = self.add(Object::File(Vec::new(), BTreeSet::new()), 0o600);
                self.change(Change::Names(vec![(directory, name.into(), Some(number))]));
                number
            }
        };
        self.journal = Some(number);
        let end = record.offset + record.bytes.len() as u64;
        self.change(Change::Data(number, record.offset, record.bytes.clone()));
        self.change(Change::Size(number, end));
        if record.sync {
            self.sync_one(number);
        }
        Ok(())
    }
}
