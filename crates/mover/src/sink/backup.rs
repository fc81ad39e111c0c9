//! Backups of objects that are replaced.

use super::options::SinkOptions;
use super::pending_ops::PendingOp;
use crate::name::Name;
use crate::port::{Attributes, FileInfo, FileKind, FilePath, NewObject, Object};

impl SinkOptions {
    /// Returns how an object is kept that is about to be replaced, if backups are requested.
    pub(super) fn backup(&self, name: &Name, found: Option<&FileInfo>) -> Option<(NewObject, PendingOp)> {
        let names = self.backup.as_ref()?;
        found.filter(|found| found.metadata.kind != FileKind::Directory)?;
        let making = NewObject {
            at: FilePath::new(names.root, [name.as_bytes(), &names.suffix].concat()),
            object: Object::Backup(FilePath::new(0, name.as_bytes())),
            attributes: Attributes::default(),
        };
        Some((making, PendingOp::unreported(name.clone())))
    }
}
