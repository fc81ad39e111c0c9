//! Requests of the guest: virtio 1.2, section 5.2.6.

use crate::settings::Settings;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Unit of a request's position, independent of the disk's logical sector size.
pub const SECTOR: u64 = 512;

/// Largest request; larger ones from the guest are rejected.
const MAX_BYTES: u64 = 64 << 20;

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Transfer from the disk to the guest.
    Read,
    /// Transfer from the guest to the disk.
    Write,
    /// Flush written data.
    Flush,
    /// Query the serial number.
    Serial,
    /// An operation that the disk does not offer.
    Unknown,
}

/// A buffer of the guest.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Guest-physical address.
    pub address: GuestAddress,
    /// Size in bytes.
    pub size: u64,
}

/// A request of the guest.
#[derive(Debug)]
pub struct Request {
    /// Operation.
    pub kind: Kind,
    /// First byte on the disk.
    pub position: u64,
    /// Buffers in order.
    pub data: Vec<Buffer>,
    /// Address for the status.
    pub status: GuestAddress,
}

impl Request {
    /// Reads a request; none if it has no buffer for the status, and so cannot be completed.
    pub fn read(memory: &GuestMemoryMmap, chain: impl Iterator<Item = Descriptor>) -> Option<Self> {
        let mut descriptors: Vec<Descriptor> = chain.collect();
        let status = descriptors.pop().filter(|last| last.is_write_only() && last.len() >= 1)?;
        let mut header = [0; 16];
        let head = descriptors.first().filter(|head| !head.is_write_only() && head.len() == 16);
        let known = head.is_some_and(|head| memory.read_slice(&mut header, head.addr()).is_ok());
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let sector = u64::from_le_bytes(header[8..].try_into().ok()?);
        let kind = match kind {
            _ if !known => Kind::Unknown,
            VIRTIO_BLK_T_IN => Kind::Read,
            VIRTIO_BLK_T_OUT => Kind::Write,
            VIRTIO_BLK_T_FLUSH => Kind::Flush,
            VIRTIO_BLK_T_GET_ID => Kind::Serial,
            _ => Kind::Unknown,
        };
        let to_guest = matches!(kind, Kind::Read | Kind::Serial);
        let data = descriptors.iter().skip(1);
        let directions_match = data.clone().all(|buffer| buffer.is_write_only() == to_guest);
        let data = data.map(|buffer| Buffer { address: buffer.addr(), size: buffer.len().into() }).collect();
        Some(Self {
            kind: if directions_match { kind } else { Kind::Unknown },
            position: sector.saturating_mul(SECTOR),
            data,
            status: status.addr(),
        })
    }

    /// Returns the bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|buffer| buffer.size).sum()
    }

    /// Returns whether the transfer is within the disk, sector-aligned, and not too large.
    pub fn fits(&self, disk_bytes: u64, sector_bytes: u32) -> bool {
        let bytes = self.bytes();
        let aligned = (self.position | bytes).is_multiple_of(sector_bytes.into());
        let end = self.position.checked_add(bytes);
        aligned && bytes > 0 && bytes <= MAX_BYTES && end.is_some_and(|end| end <= disk_bytes)
    }

    /// Returns the bytes by node; none if a part of a buffer is outside of all nodes.
    pub fn by_node(&self, settings: &Settings) -> Option<Vec<(usize, u64)>> {
        let mut parts: Vec<(usize, u64)> = Vec::new();
        for buffer in &self.data {
            let mut at = buffer.address.0;
            let end = at.checked_add(buffer.size)?;
            while at < end {
                let memory = settings.memory_of(at)?;
                let part = end.min(memory.start + memory.size) - at;
                match parts.iter_mut().find(|(node, _)| *node == memory.node) {
                    Some((_, bytes)) => *bytes += part,
                    None => parts.push((memory.node, part)),
                }
                at += part;
            }
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtio_bindings::bindings::virtio_ring::VRING_DESC_F_WRITE;

    const HEADER: u64 = 0x100;
    const STATUS: u64 = 0x200;
    const DATA: u64 = 0x1000;

    /// Creates 64 KiB of guest memory with a request header for sector 8.
    fn guest(kind: u32) -> GuestMemoryMmap {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 64 << 10)]).expect("memory");
        memory.write_obj(kind, GuestAddress(HEADER)).expect("a header");
        memory.write_obj(8u64, GuestAddress(HEADER + 8)).expect("a header");
        memory
    }

    fn descriptor(address: u64, size: u32, to_guest: bool) -> Descriptor {
        Descriptor::new(address, size, if to_guest { VRING_DESC_F_WRITE as u16 } else { 0 }, 0)
    }

    fn request(kind: u32, data: &[Descriptor]) -> Request {
        let mut chain = vec![descriptor(HEADER, 16, false)];
        chain.extend(data);
        chain.push(descriptor(STATUS, 1, true));
        Request::read(&guest(kind), chain.into_iter()).expect("a buffer for the status")
    }

    fn settings() -> Settings {
        let text = r#"{"socket": "s", "image": "i", "serial": "", "sector_bytes": 512, "queues": 1, "vanished": "v",
            "memory": [{"start": 0, "size": 8192, "node": 0}, {"start": 8192, "size": 8192, "node": 1}],
            "write": {"nodes": [1, 1], "cap": 1}, "read": {"nodes": [1, 1], "cap": 1}}"#;
        Settings::parse(text).expect("valid settings")
    }

    #[test]
    fn transfers_are_decoded() {
        let read =
            request(VIRTIO_BLK_T_IN, &[descriptor(DATA, 512, true), descriptor(DATA + 4096, 1024, true)]);
        assert_eq!((read.kind, read.position, read.bytes()), (Kind::Read, 4096, 1536));
        assert_eq!(read.status, GuestAddress(STATUS));
        assert_eq!(request(VIRTIO_BLK_T_OUT, &[descriptor(DATA, 512, false)]).kind, Kind::Write);
        assert_eq!(request(VIRTIO_BLK_T_FLUSH, &[]).kind, Kind::Flush);
    }

    #[test]
    fn unsupported_requests_are_unknown() {
        let discard = virtio_bindings::virtio_blk::VIRTIO_BLK_T_DISCARD;
        assert_eq!(request(discard, &[descriptor(DATA, 16, false)]).kind, Kind::Unknown);
        assert_eq!(request(VIRTIO_BLK_T_IN, &[descriptor(DATA, 512, false)]).kind, Kind::Unknown);
        let outside = [descriptor(1 << 40, 16, false), descriptor(STATUS, 1, true)];
        let request = Request::read(&guest(0), outside.into_iter()).expect("a buffer for the status");
        assert_eq!(request.kind, Kind::Unknown);
    }

    #[test]
    fn chains_without_a_status_buffer_are_not_requests() {
        assert!(Request::read(&guest(0), std::iter::empty()).is_none());
        assert!(Request::read(&guest(0), [descriptor(HEADER, 16, false)].into_iter()).is_none());
    }

    #[test]
    fn transfers_must_be_aligned_and_within_the_disk() {
        let read = request(VIRTIO_BLK_T_IN, &[descriptor(DATA, 4096, true)]);
        assert!(read.fits(8192, 512) && read.fits(8192, 4096));
        assert!(!read.fits(8191, 512));
        let small = request(VIRTIO_BLK_T_IN, &[descriptor(DATA, 512, true)]);
        assert!(small.fits(8192, 512) && !small.fits(8192, 4096));
        assert!(!request(VIRTIO_BLK_T_IN, &[]).fits(8192, 512));
        let huge = vec![descriptor(0, u32::MAX - 511, true); 3];
        assert!(!request(VIRTIO_BLK_T_IN, &huge).fits(1 << 40, 512));
    }

    #[test]
    fn bytes_are_counted_by_node() {
        let across = [descriptor(4096, 512, false), descriptor(8192 - 512, 1024, false)];
        let parts = request(VIRTIO_BLK_T_OUT, &across).by_node(&settings());
        assert_eq!(parts, Some(vec![(0, 1024), (1, 512)]));
        let outside = [descriptor(16384 - 512, 1024, false)];
        assert_eq!(request(VIRTIO_BLK_T_OUT, &outside).by_node(&settings()), None);
    }
}
