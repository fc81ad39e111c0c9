//! One stream of copies between a buffer and a device.

use super::driver::{Address, Raw, NOT_READY};
use super::objects::{Context, Owned};
use crate::memory::Buffer;
use numaio_machine::probe::ProbeError;
use numaio_machine::workload::Direction;
use std::ffi::c_void;

/// Copies of equal blocks, one after the other, some of them in flight. The buffer holds a block for each that is in
/// flight; the device's memory holds one, as copies of a stream follow each other.
pub struct Lane<'c> {
    context: &'c Context<'c>,
    direction: Direction,
    block: usize,
    /// One for each block in flight: it comes when the copy is done.
    events: Vec<Owned<'c, Raw>>,
    // What follows is given back in this order: nothing goes while a copy may still use it.
    stream: Owned<'c, Raw>,
    device: Owned<'c, Address>,
    host: Owned<'c, *mut c_void>,
}

impl<'c> Lane<'c> {
    /// Prepares copies from or to a buffer of `depth` blocks, whose pages are there. The context must be the calling
    /// thread's.
    ///
    /// # Safety
    /// The buffer must outlive the lane, and nobody else may use it meanwhile.
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
        let events = (0..depth).map(|_| context.event()).collect::<Result<_, _>>()?;
        Ok(Self { context, direction, block, events, stream, device, host })
    }

    /// Copies that can be in flight.
    pub fn depth(&self) -> usize {
        self.events.len()
    }

    /// Puts a copy of a slot's block into the stream. The slot's copy before must be done.
    pub fn submit(&self, slot: usize) -> Result<(), ProbeError> {
        let of = &self.context.driver.functions;
        let (block, stream, device) = (self.block, self.stream.raw, self.device.raw);
        // SAFETY: a slot is less than the depth, so the block lies in the buffer.
        let host = unsafe { self.host.raw.byte_add(slot * block) };
        let (what, code) = match self.direction {
            // SAFETY: both ranges are as long as the block, registered or allocated, and outlive the copy: the drop
            // waits for it.
            Direction::Write => ("copy to the GPU (cuMemcpyHtoDAsync)", unsafe {
                (of.to_device)(device, host, block, stream)
            }),
            // SAFETY: as above.
            Direction::Read => ("copy from the GPU (cuMemcpyDtoHAsync)", unsafe {
                (of.to_host)(host, device, block, stream)
            }),
        };
        self.context.driver.check(what, code)?;
        // SAFETY: event and stream are alive.
        self.context.driver.check("cuEventRecord", unsafe { (of.record)(self.events[slot].raw, stream) })
    }

    /// Whether a slot's copy is done.
    pub fn done(&self, slot: usize) -> Result<bool, ProbeError> {
        // SAFETY: the event is alive.
        match unsafe { (self.context.driver.functions.query)(self.events[slot].raw) } {
            NOT_READY => Ok(false),
            code => self.context.driver.check("a copy of the GPU (cuEventQuery)", code).map(|()| true),
        }
    }

    /// Waits until nothing is in flight.
    pub fn drain(&self) -> Result<(), ProbeError> {
        // SAFETY: the stream is alive.
        let code = unsafe { (self.context.driver.functions.synchronize)(self.stream.raw) };
        self.context.driver.check("cuStreamSynchronize", code)
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        // A device that is lost does no copies any more; the error was told where it was met.
        drop(self.drain());
    }
}
