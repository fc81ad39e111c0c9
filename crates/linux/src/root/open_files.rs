//! Reading and listing of open files.

use numaio_machine::sysfs::{ReadErrorKind, MAX_FILE_BYTES};
use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, OFlags};
use rustix::io::{retry_on_intr, Errno};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Bytes of the first read(2) and minimum of later ones; a sysfs attribute has at most a page.
const READ_BYTES: usize = 4 << 10;

/// Buffer size of a file that is read by lines.
const LINES_BYTES: usize = 128 << 10;

/// Flags to read a file or list a directory. NONBLOCK: opening a FIFO in a recorded tree would
/// block forever.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Reads the open file at a path.
pub(super) fn content(path: &str, file: &OwnedFd) -> Result<Vec<u8>, ReadErrorKind> {
    // A short read of a sysfs attribute is complete. This avoids a second read(2): these reads
    // are most of the work of discovering a topology.
    let short_read_is_end = path.starts_with("/sys/");
    read_to_end(file, short_read_is_end)
}

/// Lists an open directory.
pub(super) fn names(dir: OwnedFd) -> Result<Vec<String>, ReadErrorKind> {
    let mut names = Vec::new();
    for entry in Dir::new(dir).map_err(list_error)? {
        let entry = entry.map_err(list_error)?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Passes the lines of an open file.
pub(super) fn pass_lines(file: OwnedFd, line: &mut dyn FnMut(&[u8])) -> Result<(), ReadErrorKind> {
    if !is_file(&file)? {
        return Err(ReadErrorKind::WrongKind);
    }
    let mut file = BufReader::with_capacity(LINES_BYTES, File::from(file).take(MAX_FILE_BYTES as u64 + 1));
    let (mut bytes, mut text) = (0, Vec::new());
    loop {
        text.clear();
        let failed = |error| read_error(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let count = file.read_until(b'\n', &mut text).map_err(failed)?;
        bytes += count;
        if bytes > MAX_FILE_BYTES {
            return Err(ReadErrorKind::TooLong);
        }
        if count == 0 {
            return Ok(());
        }
        line(text.strip_suffix(b"\n").unwrap_or(&text));
    }
}

/// Reads to the end, regardless of the reported size: sysfs reports 4096, proc 0. Outside of sysfs
/// a short read is not the end.
fn read_to_end(file: &OwnedFd, short_read_is_end: bool) -> Result<Vec<u8>, ReadErrorKind> {
    // Most files fit into this buffer, so that the result allocates no more than their size.
    let mut first = [0; READ_BYTES];
    let count = retry_on_intr(|| rustix::io::read(file, &mut first)).map_err(read_error)?;
    // An empty or long result may come from a FIFO or device in a recorded tree.
    if (count == 0 || count == READ_BYTES) && !is_file(file)? {
        return Err(ReadErrorKind::WrongKind);
    }
    let mut content = first[..count].to_vec();
    if count == 0 || (count < READ_BYTES && short_read_is_end) {
        return Ok(content);
    }
    loop {
        content.reserve(READ_BYTES);
        match retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut content))).map_err(read_error)? {
            0 => return Ok(content),
            _ if content.len() > MAX_FILE_BYTES => return Err(ReadErrorKind::TooLong),
            _ => {}
        }
    }
}

fn is_file(file: &OwnedFd) -> Result<bool, ReadErrorKind> {
    let state = rustix::fs::fstat(file).map_err(read_error)?;
    Ok(FileType::from_raw_mode(state.st_mode) == FileType::RegularFile)
}

pub(super) fn read_error(errno: Errno) -> ReadErrorKind {
    match errno {
        // If a component is a file, the path cannot exist.
        Errno::NOENT | Errno::NOTDIR => ReadErrorKind::Absent,
        Errno::ACCESS | Errno::PERM => ReadErrorKind::Denied,
        Errno::ISDIR => ReadErrorKind::WrongKind,
        Errno::LOOP => ReadErrorKind::Failed("too many links".to_owned()),
        _ => ReadErrorKind::Failed(errno.to_string()),
    }
}

fn list_error(errno: Errno) -> ReadErrorKind {
    match errno {
        Errno::NOTDIR => ReadErrorKind::WrongKind,
        _ => read_error(errno),
    }
}
