//! Announcing the entries that the scan finds.

use super::announced_files::AnnouncedFile;
use super::inode::{blocks_with_data, inode};
use super::scan::{PreviousName, ScannedEntry};
use super::select::Selection;
use super::Source;
use crate::entry::{Content, Entry, Kind, Object};
use crate::name::Name;
use crate::port::{FaultKind, FileInfo, FileKind, FilePath};
use crate::report::reason;
use crate::wire::{Frame, ProblemSubject, Reason};

impl<B: AsRef<[u8]>> Source<B> {
    /// Announces a scanned entry, unless it is skipped.
    pub(super) fn add_scanned(&mut self, scanned: ScannedEntry) {
        let ScannedEntry { path, name, enter, listed_in, found } = scanned;
        let found = match found {
            Ok(found) => found,
            Err(fault) if self.options.is_absent_from_shard(&name, &fault) => return,
            Err(fault) => {
                return self.peer.report_problem(ProblemSubject::Name(name), reason(fault.why), &fault.text)
            }
        };
        let is_in_shard = self.options.is_in_shard(&name, &found.metadata);
        match self.options.select(&name, enter, &found) {
            Selection::Copy => {}
            Selection::Report(_) if !is_in_shard => return,
            Selection::Skip => return,
            Selection::Report(why) => return self.skip_entry(name, why),
        }
        let is_directory = found.metadata.kind == FileKind::Directory;
        let is_mount_point = self.options.one_file_system
            && is_directory
            && listed_in.as_ref().is_some_and(|above| above.identity.volume != found.metadata.volume);
        let is_loop = self.options.follow_links
            && is_directory
            && listed_in.as_ref().is_some_and(|above| above.is_or_is_within(&found.directory_identity()));
        if is_loop {
            let text = "this symbolic link leads to a directory that contains it";
            return self.peer.report_problem(ProblemSubject::Name(name), Reason::Link, text);
        }
        if is_mount_point && self.options.announce_mount_points {
            self.peer.send(&Frame::MountPoint(name.clone()));
        }
        let enter = enter && !is_mount_point;
        match self.scan.record_name(&name, is_directory) {
            PreviousName::New => {}
            // Directories of several origins are merged.
            PreviousName::Directory if is_directory && enter => {
                return self.scan.enter(path, name, found.directory_identity(), listed_in);
            }
            PreviousName::Other if is_directory && enter => {
                return self
                    .skip_entry(name, "an earlier source has a different kind of file with this name");
            }
            PreviousName::Directory | PreviousName::Other => return,
        }
        // Only now, because the first of several origins with a name wins in all shards.
        if !is_in_shard {
            return;
        }
        let inode = match inode(&found, &self.options, &mut self.accounts) {
            Ok(inode) => inode,
            Err(text) => return self.skip_entry(name, &text),
        };
        self.count_other_xattrs(&name, &found);
        if !is_directory {
            self.stored.add(self.announcements.next(), &path, &name, &found.metadata);
        }
        // Only after the checks above, so that links refer to announced files.
        if let Some(object) = self.as_hard_link(&name, &found) {
            return self.send_entry(Entry { name, object });
        }
        if is_directory && enter {
            self.scan.enter(path.clone(), name.clone(), found.directory_identity(), listed_in);
        }
        if let Kind::File(content) = &inode.kind {
            self.add_file(path, &name, content, &found);
        }
        self.send_entry(Entry { name, object: Object::New(inode) });
    }

    /// Adds a regular file whose entry is sent next.
    fn add_file(&mut self, path: FilePath, name: &Name, content: &Content, found: &FileInfo) {
        let block = self.options.policy.block;
        let data = blocks_with_data(content, found, block);
        let at = (self.options.storage.device_of(path.root), path);
        let file = AnnouncedFile::new(at, name.clone(), found.metadata.identity(), content.clone(), data);
        self.files.insert(self.announcements.next(), file);
    }

    /// Counts extended attributes that are not copied.
    fn count_other_xattrs(&mut self, name: &Name, found: &FileInfo) {
        for xattr in &found.other_xattrs {
            let text = format!("the extended attribute {} is not copied", xattr.escape_ascii());
            self.unpreserved.add(name, FaultKind::NotKept, &text);
        }
    }

    fn skip_entry(&mut self, name: Name, text: &str) {
        self.peer.report_problem(ProblemSubject::Name(name), Reason::Unsupported, text);
    }

    /// Returns the hard link to an earlier name of the file, if there is one.
    fn as_hard_link(&mut self, name: &Name, found: &FileInfo) -> Option<Object> {
        let metadata = &found.metadata;
        if !self.options.links || metadata.links < 2 || metadata.kind == FileKind::Directory {
            return None;
        }
        self.links.first(metadata, name).map(Object::HardLink)
    }

    fn send_entry(&mut self, entry: Entry) {
        for _ in 0..2 {
            match self.announcements.push(&entry) {
                Ok(true) => {
                    self.peer.entry_counts.add(&entry.object);
                    return self.peer.totals.entries += 1;
                }
                Ok(false) => self.send_batch(),
                Err(error) => {
                    self.files.remove(self.announcements.next());
                    self.stored.forget(self.announcements.next());
                    let about = ProblemSubject::Name(entry.name);
                    return self.peer.report_problem(about, Reason::Unsupported, &error.to_string());
                }
            }
        }
    }

    /// Sends the pending entries, unless more follow soon and the sink has enough work.
    pub(super) fn flush_batch(&mut self) {
        let starving = self.reading.is_idle() && self.awaited() == 0;
        let is_due = self.announcements.is_large() || starving || self.scan.is_finished();
        if !self.announcements.is_flushed() && is_due {
            self.send_batch();
        }
    }

    fn send_batch(&mut self) {
        let (frames, numbers) = match self.announcements.take_batch() {
            Ok(batch) => batch,
            Err(error) => return self.abort(Reason::Other, &error.to_string()),
        };
        if !frames.is_empty() {
            self.peer.send_bytes(frames);
        }
        if self.options.eager {
            for number in numbers {
                if let Some(started) = self.files.begin_eager(number) {
                    self.send_file(started);
                }
            }
        }
    }
}
