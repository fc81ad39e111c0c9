//! I/O requests by Linux AIO (io_submit(2)).

use super::disk_part::DiskPart;
use crate::io::streams::RequestQueue;
use std::io;
use std::os::fd::AsRawFd;

/// `include/uapi/linux/aio_abi.h`
const IOCB_CMD_PREAD: u16 = 0;
/// `include/uapi/linux/aio_abi.h`
const IOCB_CMD_PWRITE: u16 = 1;

/// `struct iocb` of `include/uapi/linux/aio_abi.h`, little-endian layout: two fields swap on
/// big-endian machines, which numaio does not support.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    reqprio: i16,
    fildes: u32,
    buf: u64,
    nbytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    resfd: u32,
}

/// `struct io_event` of `include/uapi/linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// AIO context of one worker.
pub struct AioQueue {
    context: libc::c_ulong,
    part: DiskPart,
    free: Vec<u32>,
    iocbs: Vec<Iocb>,
    events: Vec<IoEvent>,
}

impl AioQueue {
    /// Creates a context with as many requests as the part has slots.
    ///
    /// # Errors
    /// The kernel's error: AIO is unavailable, or `/proc/sys/fs/aio-max-nr` is reached.
    pub fn new(part: DiskPart) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context, which lives through the call.
        let made =
            unsafe { libc::syscall(libc::SYS_io_setup, part.slots as libc::c_ulong, &raw mut context) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        let slots = part.slots as usize;
        Ok(Self {
            context,
            free: (0..part.slots).rev().collect(),
            iocbs: vec![Iocb::default(); slots],
            events: vec![IoEvent::default(); slots],
            part,
        })
    }

    fn submit_all(&mut self) -> Result<(), String> {
        let mut batch: Vec<*mut Iocb> = Vec::with_capacity(self.free.len());
        for slot in &self.free {
            let at = self.part.blocks.next();
            self.part.at[*slot as usize] = at;
            let iocb = &mut self.iocbs[*slot as usize];
            *iocb = Iocb {
                data: (*slot).into(),
                opcode: if self.part.write { IOCB_CMD_PWRITE } else { IOCB_CMD_PREAD },
                fildes: self.part.file.as_raw_fd() as u32,
                buf: self.part.slot(*slot).expose_provenance() as u64,
                nbytes: self.part.block_bytes.into(),
                offset: at as i64,
                ..Iocb::default()
            };
            batch.push(&raw mut *iocb);
        }
        let mut given = 0;
        while given < batch.len() {
            let left = &mut batch[given..];
            // SAFETY: the control blocks and their array live through the call; no other request
            // uses these buffer slots until these requests complete.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    left.len() as libc::c_long,
                    left.as_mut_ptr(),
                )
            };
            match usize::try_from(taken) {
                Ok(taken) => given += taken,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    self.free.drain(..given);
                    return match error.raw_os_error() {
                        Some(libc::EINTR) => Ok(()),
                        Some(libc::EAGAIN) if self.in_flight() > 0 => Ok(()),
                        _ => Err(format!("io_submit: {error}")),
                    };
                }
            }
        }
        self.free.clear();
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.part.slots as usize - self.free.len()
    }

    /// Waits for at least one completion and collects all completions.
    fn reap(&mut self) -> Result<u64, String> {
        if self.in_flight() == 0 {
            return Ok(0);
        }
        // SAFETY: the kernel writes at most that many events into the array, which lives through
        // the call.
        let found = unsafe {
            let timeout = std::ptr::null_mut::<libc::timespec>();
            let (most, events) = (self.events.len() as libc::c_long, self.events.as_mut_ptr());
            libc::syscall(libc::SYS_io_getevents, self.context, 1 as libc::c_long, most, events, timeout)
        };
        let Ok(found) = usize::try_from(found) else {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINTR) => Ok(0),
                _ => Err(format!("io_getevents: {error}")),
            };
        };
        let (mut bytes, mut failed) = (0, None);
        for event in &self.events[..found] {
            let slot = event.data as u32;
            self.free.push(slot);
            match self.part.completed_bytes(slot, event.res) {
                Ok(more) => bytes += more,
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        failed.map_or(Ok(bytes), Err)
    }
}

impl RequestQueue for AioQueue {
    fn submit_and_reap(&mut self) -> Result<u64, String> {
        self.submit_all()?;
        self.reap()
    }
}

impl Drop for AioQueue {
    fn drop(&mut self) {
        // SAFETY: the context is ours; io_destroy(2) waits until all its requests have completed.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
