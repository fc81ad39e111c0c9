//! Waiting for several files (poll(2)).

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::AsFd;
use std::io;
use std::time::Duration;

/// Returns the files that can be read or accepted from; empty after `most` or a signal.
///
/// # Errors
/// I/O errors.
pub fn ready<F: AsFd>(files: &[F], most: Duration) -> io::Result<Vec<&F>> {
    let most = Timespec::try_from(most).map_err(io::Error::other)?;
    let mut waited: Vec<PollFd<'_>> = files.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
    match poll(&mut waited, Some(&most)) {
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        ready => ready?,
    };
    let ready: Vec<bool> = waited.iter().map(|waited| !waited.revents().is_empty()).collect();
    Ok(files.iter().zip(ready).filter(|(_, ready)| *ready).map(|(file, _)| file).collect())
}
