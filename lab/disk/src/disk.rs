//! The disk: takes requests from QEMU's rings, and answers each when its time has come.

use crate::request::{Kind, Request};
use crate::settings::Settings;
use crate::share::Share;
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
use vmm_sys_util::timerfd::TimerFd;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Vring = VringRwLock<Memory>;

/// Of each ring; QEMU's default too.
const QUEUE_SIZE: usize = 128;
/// Virtio-user features that the protocol itself needs: vhost-user, "Feature bits".
const PROTOCOL_FEATURES: u32 = 30;
/// What is made good at most of a delay by the host, in seconds.
const MOST_LATE: f64 = 0.02;

/// A transfer under way.
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
    began: Instant,
    read: Share,
    write: Share,
    /// Bytes by node of the buffer.
    read_count: Vec<u64>,
    write_count: Vec<u64>,
    transfers: HashMap<u64, Transfer>,
    next: u64,
    /// Bytes of all transfers that were asked for.
    asked: u64,
    timer: TimerFd,
    /// When the timer was to ring, in seconds since `began`.
    rings_at: Option<f64>,
    /// How late it rang the last time, in seconds.
    late: f64,
}

impl Disk {
    /// A disk that nobody uses yet.
    ///
    /// # Errors
    ///
    /// The image cannot be opened, or there is no timer.
    pub fn open(settings: Settings, memory: Memory) -> io::Result<Self> {
        let image = File::options().read(true).write(true).open(&settings.image)?;
        let bytes =
            image.metadata()?.len() / u64::from(settings.sector_bytes) * u64::from(settings.sector_bytes);
        let count = vec![0; settings.read.nodes.len()];
        Ok(Self {
            image,
            bytes,
            memory,
            began: Instant::now(),
            read: Share::new(&settings.read),
            write: Share::new(&settings.write),
            read_count: count.clone(),
            write_count: count,
            transfers: HashMap::new(),
            next: 0,
            asked: 0,
            timer: TimerFd::new().map_err(io::Error::from)?,
            rings_at: None,
            late: 0.0,
            settings,
        })
    }

    /// What to wait for beside the rings, and its number as an event.
    pub fn timer(&self) -> (RawFd, u16) {
        (self.timer.as_raw_fd(), self.settings.queues + 1)
    }

    /// Mebibytes of each node that were written and read.
    pub fn summary(&self) -> String {
        let text = |count: &[u64]| count.iter().map(|bytes| format!(" {}", bytes >> 20)).collect::<String>();
        format!("MiB by node: write{}; read{}", text(&self.write_count), text(&self.read_count))
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
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
                    Some(request) => self.begin(Transfer { queue, vring: vring.clone(), head, request })?,
                    None => answer(vring, head, 0)?,
                }
            }
            if !vring.enable_notification().map_err(io::Error::other)? {
                return Ok(());
            }
        }
    }

    fn begin(&mut self, transfer: Transfer) -> io::Result<()> {
        let (status, bytes) = match transfer.request.kind {
            Kind::Read | Kind::Write => match self.parts(&transfer.request) {
                Some(parts) => {
                    self.submit(transfer, &parts);
                    return Ok(());
                }
                None => (VIRTIO_BLK_S_IOERR, 0),
            },
            // The image lives as long as the emulated machine: there is nothing to keep.
            Kind::Flush => (VIRTIO_BLK_S_OK, 0),
            Kind::Serial => self.tell_serial(&transfer.request),
            Kind::Unknown => (VIRTIO_BLK_S_UNSUPP, 0),
        };
        self.finish(&transfer, status, bytes)
    }

    /// Bytes by node of a transfer that the disk will make.
    fn parts(&mut self, request: &Request) -> Option<Vec<(usize, u64)>> {
        if !request.fits(self.bytes, self.settings.sector_bytes) {
            return None;
        }
        self.asked += request.bytes();
        let over = |most: Option<u64>| most.is_some_and(|most| self.asked > most);
        if over(self.settings.vanish_after_bytes) {
            // Again and again while it is there: that does no harm.
            let told = File::create(&self.settings.vanished);
            told.map_err(|error| eprintln!("numaio-lab-disk: {error}")).ok()?;
            return None;
        }
        if over(self.settings.error_after_bytes) {
            return None;
        }
        request.by_node(&self.settings)
    }

    fn submit(&mut self, transfer: Transfer, parts: &[(usize, u64)]) {
        let now = self.now();
        let since = now - self.late;
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

    fn tell_serial(&self, request: &Request) -> (u32, u64) {
        let mut serial = self.settings.serial.clone().into_bytes();
        serial.resize(VIRTIO_BLK_ID_BYTES as usize, 0);
        let told = request.data.first().filter(|buffer| buffer.size >= serial.len() as u64);
        let told = told.and_then(|buffer| self.memory.memory().write_slice(&serial, buffer.address).ok());
        told.map_or((VIRTIO_BLK_S_UNSUPP, 0), |()| (VIRTIO_BLK_S_OK, serial.len() as u64))
    }

    /// Moves the bytes of a transfer and answers it.
    fn end(&mut self, transfer: &Transfer) -> io::Result<()> {
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
        // A guest that gives a bad address for the status learns nothing.
        let _ = self.memory.memory().write_obj(status as u8, transfer.request.status);
        answer(&transfer.vring, transfer.head, to_guest + 1)
    }

    fn end_due(&mut self) -> io::Result<()> {
        loop {
            let now = self.now();
            let due = self.write.pop_served(now).or_else(|| self.read.pop_served(now));
            let Some(due) = due else { return Ok(()) };
            // A ring that stopped has taken its transfers with it.
            if let Some(transfer) = self.transfers.remove(&due) {
                self.end(&transfer)?;
            }
        }
    }

    fn note_delay(&mut self) {
        let now = self.now();
        // It may have been set anew since it rang.
        if let Some(at) = self.rings_at.filter(|&at| at <= now) {
            self.late = (now - at).min(MOST_LATE);
        }
    }

    /// Sleeps until the next transfer ends.
    fn set_timer(&mut self) -> io::Result<()> {
        let ends = [self.write.next_end(), self.read.next_end()];
        let Some(end) = ends.into_iter().flatten().min_by(f64::total_cmp) else {
            self.rings_at = None;
            return self.timer.clear().map_err(io::Error::from);
        };
        self.rings_at = Some(end);
        // Zero would stop the timer.
        let wait = Duration::from_secs_f64((end - self.now()).max(1e-9)).max(Duration::from_nanos(1));
        self.timer.reset(wait, None).map_err(io::Error::from)
    }

    /// The device's configuration: virtio 1.2, section 5.2.4.
    fn config(&self) -> [u8; 60] {
        let mut config = [0; 60];
        config[..8].copy_from_slice(&(self.bytes / crate::request::SECTOR).to_le_bytes());
        // A chain also holds the header and the status.
        config[12..16].copy_from_slice(&(QUEUE_SIZE as u32 - 2).to_le_bytes());
        config[20..24].copy_from_slice(&self.settings.sector_bytes.to_le_bytes());
        config[34..36].copy_from_slice(&self.settings.queues.to_le_bytes());
        config
    }
}

fn answer(vring: &Vring, head: u16, written: u64) -> io::Result<()> {
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
        // More than eight regions of memory need slots that are added one by one.
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
    }

    /// The framework sets it on the rings.
    fn set_event_idx(&mut self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = self.config().into_iter().chain(std::iter::repeat(0));
        config.skip(offset as usize).take(size as usize).collect()
    }

    fn update_memory(&mut self, _memory: Memory) -> io::Result<()> {
        Ok(()) // it is the one that `open` was given
    }

    fn stop_vring(&mut self, index: u32) -> io::Result<()> {
        // They end early: the guest is about to take its buffers back.
        let of_ring = self.transfers.extract_if(|_, transfer| u32::from(transfer.queue) == index);
        let stopped: Vec<Transfer> = of_ring.map(|(_, transfer)| transfer).collect();
        stopped.iter().try_for_each(|transfer| self.end(transfer))
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
            None => self.note_delay(),
        }
        self.end_due()?;
        self.set_timer()
    }
}
