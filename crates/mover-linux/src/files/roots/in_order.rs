//! Files that are written from their start to their end, and stay open meanwhile: file systems
//! that accept data only in this order end a file when it is closed.

use crate::files::data::write_all;
use numaio_mover::port::{Fault, FaultKind, FilePath};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of open files, more than the source reads at once. Files that the source stops
/// sending are closed when they are removed, or at the end.
const MAX_OPEN: usize = 512;
/// Bytes of zeros that are written at once for a hole.
const ZEROS: usize = 1 << 18;

/// A file that is written in order.
#[derive(Debug)]
pub struct AppendedFile {
    pub file: OwnedFd,
    /// Number of bytes written.
    length: u64,
}

/// The open files, by their names.
#[derive(Debug, Default)]
pub struct AppendedFiles(Mutex<HashMap<FilePath, AppendedFile>>);

impl AppendedFiles {
    /// Takes the open file with a name.
    pub fn take(&self, at: &FilePath) -> Option<AppendedFile> {
        self.files().remove(at)
    }

    /// Keeps a file open for the next write.
    pub fn keep(&self, at: &FilePath, file: AppendedFile) -> Result<(), Fault> {
        let mut files = self.files();
        if files.len() >= MAX_OPEN {
            return Err(Fault::new(FaultKind::Other, "too many partial files"));
        }
        files.insert(at.clone(), file);
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, HashMap<FilePath, AppendedFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AppendedFile {
    /// Starts with an empty file.
    pub fn new(file: OwnedFd) -> Self {
        Self { file, length: 0 }
    }

    /// Writes bytes at an offset that is not before the end, after zeros for a hole between them.
    pub fn append(&mut self, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        if offset < self.length {
            let text = "data arrived too late for a file system that accepts it in order only";
            return Err(Fault::new(FaultKind::Other, text));
        }
        self.extend(offset)?;
        write_all(&self.file, bytes, offset)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Writes zeros up to a length.
    pub fn extend(&mut self, length: u64) -> Result<(), Fault> {
        let zeros = [0; ZEROS];
        while self.length < length {
            let some = (length - self.length).min(ZEROS as u64);
            write_all(&self.file, &zeros[..some as usize], self.length)?;
            self.length += some;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn holes_become_zeros_and_late_data_is_refused() {
        let path = std::env::temp_dir().join(format!("numaio-in-order-{}", std::process::id()));
        let mut file = AppendedFile::new(fs::File::create(&path).expect("a file").into());
        let hole = ZEROS as u64 + 7;
        file.append(b"start", 0).expect("written");
        file.append(b"more", 5).expect("written");
        file.append(b"end", 9 + hole).expect("written");
        file.extend(9 + hole + 4).expect("written");
        let late = file.append(b"x", 9 + hole).expect_err("it is behind");
        assert!(late.text.contains("arrived too late"), "{late}");
        let expected = [&b"startmore"[..], &vec![0; hole as usize], b"end\0"].concat();
        assert!(fs::read(&path).expect("a file") == expected);
        fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn number_of_open_files_is_limited() {
        let files = AppendedFiles::default();
        let keep = |number: usize| {
            let file = AppendedFile::new(fs::File::open("/dev/null").expect("a file").into());
            files.keep(&FilePath::new(0, number.to_string().into_bytes()), file)
        };
        assert!((0..MAX_OPEN).all(|number| keep(number).is_ok()));
        assert!(keep(MAX_OPEN).is_err());
        assert!(files.take(&FilePath::new(0, *b"3")).is_some() && keep(MAX_OPEN).is_ok());
    }
}
