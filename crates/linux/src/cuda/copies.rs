//! Queue of copies between a buffer and a device.

use super::driver::{DeviceAddress, Handle, NOT_READY};
use super::objects::{Context, DriverObject};
use crate::io::streams::RequestQueue;
use crate::memory::Buffer;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Direction;
use std::ffi::c_void;
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a copy is polled without sleeping: longer than a small copy takes.
const SPIN_TIME: Duration = Duration::from_micros(100);
/// Interval of polling after that; another copy is in flight in the meantime.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Maximum wait per call, so that the caller can check for an early end.
const BATCH_TIMEOUT: Duration = Duration::from_millis(100);

/// Copies of equal blocks in order, several in flight. The buffer holds one block per copy in
/// flight; the device memory holds a single block, since the copies of a stream are serialized.
pub struct CopyQueue<'c> {
    context: &'c Context<'c>,
    direction: Direction,
    block: usize,
    /// Slot of the oldest copy in flight.
    oldest: usize,
    in_flight: usize,
    /// One event per slot, recorded after its copy.
    events: Vec<DriverObject<'c, Handle>>,
    // Dropped in this order: resources are released after the copies that use them.
    stream: DriverObject<'c, Handle>,
    device: DriverObject<'c, DeviceAddress>,
    host: DriverObject<'c, *mut c_void>,
}

impl<'c> CopyQueue<'c> {
    /// Prepares copies from or to a populated buffer of `depth` blocks. The context must be current
    /// on the calling thread.
    ///
    /// # Safety
    /// The buffer must outlive the queue, and nothing else may use it until then.
    pub unsafe fn new(
        context: &'c Context<'c>,
        buffer: &Buffer,
        depth: usize,
        direction: Direction,
    ) -> Result<Self, ProbeError> {
        let block = buffer.bytes() / depth.max(1);
        // SAFETY: the caller's promise.
        let host = unsafe { context.register(buffer.start(), buffer.bytes()) }?;
        let device = context.allocate(block)?;
        let stream = context.stream()?;
        let events = (0..depth.max(1)).map(|_| context.event()).collect::<Result<_, _>>()?;
        Ok(Self { context, direction, block, oldest: 0, in_flight: 0, events, stream, device, host })
    }

    /// Enqueues the copy of a slot's block. The slot's previous copy must have completed.
    fn submit(&self, slot: usize) -> Result<(), ProbeError> {
        let of = &self.context.driver.functions;
        let (block, stream, device) = (self.block, self.stream.raw, self.device.raw);
        // SAFETY: the buffer has as many blocks as slots.
        let host = unsafe { self.host.raw.byte_add(slot * block) };
        // SAFETY: both ranges have the length of a block, are registered or allocated, and outlive
        // the copy: drop waits for it.
        let (what, code) = unsafe {
            match self.direction {
                Direction::Write => {
                    ("copy to the GPU (cuMemcpyHtoDAsync)", (of.to_device)(device, host, block, stream))
                }
                Direction::Read => {
                    ("copy from the GPU (cuMemcpyDtoHAsync)", (of.to_host)(host, device, block, stream))
                }
            }
        };
        self.context.driver.check(what, code)?;
        // SAFETY: event and stream are alive.
        let code = unsafe { (of.record)(self.events[slot].raw, stream) };
        self.context.driver.check("cuEventRecord", code)
    }

    /// Whether a slot's copy has completed.
    fn is_done(&self, slot: usize) -> Result<bool, ProbeError> {
        // SAFETY: the event is alive.
        match unsafe { (self.context.driver.functions.query)(self.events[slot].raw) } {
            NOT_READY => Ok(false),
            code => self.context.driver.check("wait for the GPU (cuEventQuery)", code).map(|()| true),
        }
    }

    /// Waits for a slot's copy, at most [`BATCH_TIMEOUT`]; returns whether it has completed.
    fn wait(&self, slot: usize) -> Result<bool, ProbeError> {
        let began = Instant::now();
        while !self.is_done(slot)? {
            let waited = began.elapsed();
            if waited > BATCH_TIMEOUT {
                return Ok(false);
            }
            // With a single copy in flight, sleeping would leave the device idle.
            match self.events.len() > 1 && waited > SPIN_TIME {
                true => thread::sleep(POLL_INTERVAL),
                false => std::hint::spin_loop(),
            }
        }
        Ok(true)
    }

    fn next(&mut self) -> Result<u64, ProbeError> {
        let depth = self.events.len();
        while self.in_flight < depth {
            self.submit((self.oldest + self.in_flight) % depth)?;
            self.in_flight += 1;
        }
        if !self.wait(self.oldest)? {
            return Ok(0);
        }
        self.oldest = (self.oldest + 1) % depth;
        self.in_flight -= 1;
        Ok(self.block as u64)
    }
}

impl RequestQueue for CopyQueue<'_> {
    fn submit_and_reap(&mut self) -> Result<u64, String> {
        self.next().map_err(|error| error.to_string())
    }
}

impl Drop for CopyQueue<'_> {
    fn drop(&mut self) {
        // SAFETY: the stream is alive. A lost device makes no copies; its error was reported
        // earlier.
        unsafe { (self.context.driver.functions.synchronize)(self.stream.raw) };
    }
}
