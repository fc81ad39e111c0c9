//! Execution of the operations of a port.

use super::data::{checksum, finish_read, Block, BlockOperation, Started};
use super::data_runs::RunBudget;
use super::fault::no_buffer;
use super::path::Resolver;
use super::remove::remove;
use super::roots::Roots;
use numaio_mover::port::{Fault, FaultKind, FilePath, NewObject, Object, Operation, Outcome};
use rustix::io::Errno;

impl Roots {
    /// Executes an operation. `buffer` provides the buffer for reads.
    pub(crate) fn run<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        operation: Operation<B>,
        buffer: impl FnOnce() -> Option<B>,
    ) -> Outcome<B> {
        match self.start(operation, buffer) {
            Started::Done(outcome) => outcome,
            Started::Pending(block) => self.move_now(block),
        }
    }

    /// Executes an operation except for a block that the device must move.
    pub(crate) fn start<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        operation: Operation<B>,
        buffer: impl FnOnce() -> Option<B>,
    ) -> Started<B> {
        let read_only = matches!(operation, Operation::Stat { .. });
        let mut resolver = Resolver::new(&self.roots, read_only).following(self.followed.as_ref());
        Started::Done(match operation {
            // Compression is done by `port::compression`.
            Operation::Read { pieces, hash, .. } => match buffer() {
                Some(buffer) => return self.read(resolver, pieces, hash, buffer),
                None => Outcome::Results(pieces.iter().map(|_| Err(no_buffer())).collect()),
            },
            Operation::Write { puts, data, hash, .. } => return self.write(resolver, &puts, data, hash),
            Operation::List { directory, most, details } => {
                Outcome::Listed(self.list(&mut resolver, &directory, most, details))
            }
            Operation::ListMore { listing, most, details } => {
                Outcome::Listed(self.list_more(listing, most, details))
            }
            Operation::Stat { at, details, links } => {
                let (mut budget, mut links) = (RunBudget::default(), links.iter().peekable());
                let mut look = |(index, at)| {
                    let link = links.next_if(|(of, _)| *of == index).map(|(_, target)| &**target);
                    self.stat(&mut resolver, at, details, link, &mut budget)
                };
                Outcome::Stat(at.iter().enumerate().map(&mut look).collect())
            }
            Operation::HashFile(summing) => Outcome::HashedFile(checksum(&mut resolver, summing)),
            Operation::Create(makings) => {
                let mut unsaved: Option<&FilePath> = None;
                let make = |making: &NewObject| {
                    if unsaved.take() == Some(&making.at) {
                        return Err(Fault::new(FaultKind::Exists, "not replaced: its backup failed"));
                    }
                    let made = self.make(&mut resolver, making);
                    if let (Object::Backup(of), Err(_)) = (&making.object, &made) {
                        unsaved = makings.iter().map(|making| &making.at).find(|at| *at == of);
                    }
                    made
                };
                Outcome::Results(makings.iter().map(make).collect())
            }
            Operation::SetAttributes(all) => {
                let set_attributes = |(at, attributes)| self.set_attributes(&mut resolver, at, attributes);
                Outcome::Results(
                    all.iter().map(|(at, attributes)| (at, attributes)).map(set_attributes).collect(),
                )
            }
            Operation::Remove(all) => {
                Outcome::Results(all.iter().map(|at| self.remove(&mut resolver, at)).collect())
            }
            Operation::RemoveSources(all) => {
                let remove = |removal| self.remove_source(&mut resolver, removal);
                Outcome::Results(all.iter().map(remove).collect())
            }
            Operation::OpenJournal { journal, most } => {
                Outcome::OpenedJournal(self.open_journal(&mut resolver, &journal, most))
            }
            Operation::WriteJournal(record) => Outcome::Results(self.record(&mut resolver, &record)),
            Operation::Sync { root } => Outcome::Results(vec![self.sync(root)]),
        })
    }

    /// Removes an object, and closes it: one that is being written cannot be removed everywhere.
    fn remove(&self, resolver: &mut Resolver<'_>, at: &FilePath) -> Result<(), Fault> {
        drop(self.in_order.as_ref().and_then(|appended| appended.take(at)));
        remove(resolver, at)?;
        self.close_removed_journal(at);
        Ok(())
    }

    /// Moves a block in this thread and finishes its operation.
    pub(crate) fn move_now<B: AsRef<[u8]> + AsMut<[u8]>>(&self, mut block: Block<B>) -> Outcome<B> {
        let moved = block.move_now();
        self.finish(block, moved)
    }

    /// Finishes the operation of a block, given the number of bytes moved.
    pub(crate) fn finish<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        block: Block<B>,
        moved: Result<usize, Errno>,
    ) -> Outcome<B> {
        match block.into_parts() {
            (part, BlockOperation::Read(piece, hash)) => finish_read(part, &piece, hash, moved),
            (part, BlockOperation::Write(put)) => self.finish_direct_write(&part, &put, moved),
        }
    }
}
