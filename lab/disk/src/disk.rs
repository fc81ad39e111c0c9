//! The disk: takes requests from QEMU's rings, and completes each at its computed time.

use crate::request::{Kind, Request};
use crate::service::Service;
use crate::settings::Settings;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackendMut, VringRwLock, VringT};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_ID_BYTES,
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::QueueT;
use vm_memory::{Bytes, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{new_event_consumer_and_notifier, EventConsumer, EventFlag, EventNotifier};
use vmm_sys_util::timerfd::TimerFd;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Vring = VringRwLock<Memory>;

/// Entries of each ring, which is also QEMU's default.
const QUEUE_SIZE: usize = 128;
/// Bit of the vhost-user protocol features (vhost-user specification, "Feature bits").
const PROTOCOL_FEATURES: u32 = 30;
/// Largest delay by the host that is compensated, in seconds.
const MAX_COMPENSATED_DELAY: f64 = 0.02;

/// A transfer in progress.
struct Transfer {
    queue: u16,
    vring: Vring,
    head: u16,
    request: Request,
}

/// A vhost-user-blk device.
pub struct Disk {
    settings: Settings,
    image: File,
    bytes: u64,
    memory: Memory,
    start: Instant,
    read: Service,
    write: Service,
    /// Bytes read, by node of the buffer.
    read_count: Vec<u64>,
    /// Bytes written, by node of the buffer.
    write_count: Vec<u64>,
    transfers: HashMap<u64, Transfer>,
    next: u64,
    /// Bytes of all requested transfers.
    requested: u64,
    timer: TimerFd,
    /// Expiry of the timer, in seconds since `start`.
    expires_at: Option<f64>,
    /// Delay of the last expiry, in seconds.
    delay: f64,
}

impl Disk {
    /// Opens the disk's image.
    ///
    /// # Errors
    ///
    /// The image cannot be opened, or the timer cannot be created.
    pub fn open(settings: Settings, memory: Memory) -> io::Result<Self> {
        let image = File::options().read(true).write(true).open(&settings.image)?;
        let bytes =
            image.metadata()?.len() / u64::from(settings.sector_bytes) * u64::from(settings.sector_bytes);
        let count = vec![0; settings.read.nodes.len()];
        Ok(Self {
            image,
            bytes,
            memory,
            start: Instant::now(),
            read: Service::new(&settings.read),
            write: Service::new(&settings.write),
            read_count: count.clone(),
            write_count: count,
            transfers: HashMap::new(),
            next: 0,
            requested: 0,
            timer: TimerFd::new().map_err(io::Error::from)?,
            expires_at: None,
            delay: 0.0,
            settings,
        })
    }

    /// Returns the descriptor of the timer and its event number.
    pub fn timer(&self) -> (RawFd, u16) {
        (self.timer.as_raw_fd(), self.settings.queues + 1)
    }

    /// Formats the mebibytes written and read by node.
    pub fn summary(&self) -> String {
        let text = |count: &[u64]| count.iter().map(|bytes| format!(" {}", bytes >> 20)).collect::<String>();
        format!("MiB by node: write{}; read{}", text(&self.write_count), text(&self.read_count))
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn take_requests(&mut self, queue: u16, vring: &Vring) -> io::Result<()> {
        loop {
            vring.disable_notification().map_err(io::Error::other)?;
            loop {
                let memory = self.memory.memory();
                let chain = vring.get_mut().get_queue_mut().pop_descriptor_chain(memory.clone());
                let Some(chain) = chain else { break };
                let head = chain.head_index();
                match Request::read(&memory, chain) {
                    Some(request) => {
                        self.start_transfer(Transfer { queue, vring: vring.clone(), head, request })?
                    }
                    None => complete(vring, head, 0)?,
                }
            }
            if !vring.enable_notification().map_err(io::Error::other)? {
                return Ok(());
            }
        }
    }

    fn start_transfer(&mut self, transfer: Transfer) -> io::Result<()> {
        let (status, bytes) = match transfer.request.kind {
            Kind::Read | Kind::Write => match self.parts(&transfer.request) {
                Some(parts) => {
                    self.submit(transfer, &parts);
                    return Ok(());
                }
                None => (VIRTIO_BLK_S_IOERR, 0),
            },
            // The image is removed with the emulated machine, so flushing it is unnecessary.
            Kind::Flush => (VIRTIO_BLK_S_OK, 0),
            Kind::Serial => self.write_serial(&transfer.request),
            Kind::Unknown => (VIRTIO_BLK_S_UNSUPP, 0),
        };
        self.finish(&transfer, status, bytes)
    }

    /// Returns the bytes of a transfer by node; none if it must fail.
    fn parts(&mut self, request: &Request) -> Option<Vec<(usize, u64)>> {
        if !request.fits(self.bytes, self.settings.sector_bytes) {
            return None;
        }
        self.requested += request.bytes();
        let exceeds = |limit: Option<u64>| limit.is_some_and(|limit| self.requested > limit);
        if exceeds(self.settings.vanish_after_bytes) {
            // Repeated for each request until the disk is unplugged.
            let created = File::create(&self.settings.vanished);
            created.map_err(|error| eprintln!("numaio-lab-disk: {error}")).ok()?;
            return None;
        }
        if exceeds(self.settings.error_after_bytes) {
            return None;
        }
        request.by_node(&self.settings)
    }

    fn submit(&mut self, transfer: Transfer, parts: &[(usize, u64)]) {
        let now = self.now();
        let since = now - self.delay;
        let (share, count) = match transfer.request.kind {
            Kind::Write => (&mut self.write, &mut self.write_count),
            _ => (&mut self.read, &mut self.read_count),
        };
        for &(node, bytes) in parts {
            count[node] += bytes;
        }
        share.submit(now, since, self.next, parts);
        self.transfers.insert(self.next, transfer);
        self.next += 1;
    }

    /// Writes the serial number to the guest's buffer; returns status and bytes.
    fn write_serial(&self, request: &Request) -> (u32, u64) {
        let mut serial = self.settings.serial.clone().into_bytes();
        serial.resize(VIRTIO_BLK_ID_BYTES as usize, 0);
        let buffer = request.data.first().filter(|buffer| buffer.size >= serial.len() as u64);
        let written =
            buffer.and_then(|buffer| self.memory.memory().write_slice(&serial, buffer.address).ok());
        written.map_or((VIRTIO_BLK_S_UNSUPP, 0), |()| (VIRTIO_BLK_S_OK, serial.len() as u64))
    }

    /// Copies the bytes of a transfer and completes it.
    fn execute(&mut self, transfer: &Transfer) -> io::Result<()> {
        let bytes = transfer.request.bytes();
        let to_guest = if transfer.request.kind == Kind::Read { bytes } else { 0 };
        match self.copy(&transfer.request) {
            Ok(()) => self.finish(transfer, VIRTIO_BLK_S_OK, to_guest),
            Err(error) => {
                eprintln!("numaio-lab-disk: {error}");
                self.finish(transfer, VIRTIO_BLK_S_IOERR, 0)
            }
        }
    }

    fn copy(&mut self, request: &Request) -> io::Result<()> {
        let memory = self.memory.memory();
        self.image.seek(SeekFrom::Start(request.position))?;
        for buffer in &request.data {
            let size = usize::try_from(buffer.size).map_err(io::Error::other)?;
            match request.kind {
                Kind::Read => memory.read_exact_volatile_from(buffer.address, &mut self.image, size),
                _ => memory.write_all_volatile_to(buffer.address, &mut self.image, size),
            }
            .map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn finish(&self, transfer: &Transfer, status: u32, to_guest: u64) -> io::Result<()> {
        // An invalid status address is the guest's error.
        let _ = self.memory.memory().write_obj(status as u8, transfer.request.status);
        complete(&transfer.vring, transfer.head, to_guest + 1)
    }

    /// Executes the transfers whose time has come.
    fn execute_due(&mut self) -> io::Result<()> {
        loop {
            let now = self.now();
            let due = self.write.pop_served(now).or_else(|| self.read.pop_served(now));
            let Some(due) = due else { return Ok(()) };
            // Stopping a ring completes its transfers early.
            if let Some(transfer) = self.transfers.remove(&due) {
                self.execute(&transfer)?;
            }
        }
    }

    /// Records how late the timer expired.
    fn measure_delay(&mut self) {
        let now = self.now();
        // The timer may have been set again since it expired.
        if let Some(at) = self.expires_at.filter(|&at| at <= now) {
            self.delay = (now - at).min(MAX_COMPENSATED_DELAY);
        }
    }

    /// Sets the timer to the end of the next transfer.
    fn set_timer(&mut self) -> io::Result<()> {
        let ends = [self.write.next_end(), self.read.next_end()];
        let Some(end) = ends.into_iter().flatten().min_by(f64::total_cmp) else {
            self.expires_at = None;
            return self.timer.clear().map_err(io::Error::from);
        };
        self.expires_at = Some(end);
        // A duration of zero would stop the timer.
        let wait = Duration::from_secs_f64((end - self.now()).max(1e-9)).max(Duration::from_nanos(1));
        self.timer.reset(wait, None).map_err(io::Error::from)
    }

    /// Returns the device's configuration (virtio 1.2, section 5.2.4).
    fn config(&self) -> [u8; 60] {
        let mut config = [0; 60];
        config[..8].copy_from_slice(&(self.bytes / crate::request::SECTOR).to_le_bytes());
        // A chain also contains the header and the status.
        config[12..16].copy_from_slice(&(QUEUE_SIZE as u32 - 2).to_le_bytes());
        config[20..24].copy_from_slice(&self.settings.sector_bytes.to_le_bytes());
        config[34..36].copy_from_slice(&self.settings.queues.to_le_bytes());
        config
    }
}

/// Returns a descriptor chain to the guest, and notifies it if necessary.
fn complete(vring: &Vring, head: u16, written: u64) -> io::Result<()> {
    vring.add_used(head, u32::try_from(written).unwrap_or(u32::MAX)).map_err(io::Error::other)?;
    if vring.needs_notification().map_err(io::Error::other)? {
        vring.signal_used_queue()?;
    }
    Ok(())
}

impl VhostUserBackendMut for Disk {
    type Bitmap = ();
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        self.settings.queues.into()
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let bits = [
            VIRTIO_BLK_F_BLK_SIZE,
            VIRTIO_BLK_F_FLUSH,
            VIRTIO_BLK_F_MQ,
            VIRTIO_BLK_F_SEG_MAX,
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_EVENT_IDX,
            VIRTIO_RING_F_INDIRECT_DESC,
            PROTOCOL_FEATURES,
        ];
        bits.iter().fold(0, |all, bit| all | 1 << bit)
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        // More than eight memory regions need separate memory slots.
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
    }

    /// The framework enables it on the rings.
    fn set_event_idx(&mut self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = self.config().into_iter().chain(std::iter::repeat(0));
        config.skip(offset as usize).take(size as usize).collect()
    }

    /// Without one the framework waits for its thread without a limit when QEMU has ended.
    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::CLOEXEC).ok()
    }

    fn update_memory(&mut self, _memory: Memory) -> io::Result<()> {
        Ok(()) // the memory is the one passed to `open`
    }

    fn stop_vring(&mut self, index: u32) -> io::Result<()> {
        // The transfers end early, because the guest is about to reuse its buffers.
        let removed = self.transfers.extract_if(|_, transfer| u32::from(transfer.queue) == index);
        let stopped: Vec<Transfer> = removed.map(|(_, transfer)| transfer).collect();
        stopped.iter().try_for_each(|transfer| self.execute(transfer))
    }

    fn handle_event(
        &mut self,
        event: u16,
        _set: EventSet,
        vrings: &[Vring],
        _thread: usize,
    ) -> io::Result<()> {
        match vrings.get(usize::from(event)) {
            Some(vring) => self.take_requests(event, vring)?,
            None => self.measure_delay(),
        }
        self.execute_due()?;
        self.set_timer()
    }
}
