//! Size, sectors, file system and current use of a disk or file.

use crate::refusal::refused;
use numaio_machine::locate::DeviceNumber;
use numaio_machine::probe::ProbeError;
use numaio_machine::storage;
use numaio_machine::sysfs::{Sysfs, SysfsExt};
use numaio_machine::workload::{DiskPath, IoWorkload};
use rustix::fs::{FileType, FsWord, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// Assumed sector size where the kernel reports none.
const SECTOR_BYTES: u64 = 512;
/// `include/uapi/linux/magic.h`
const TMPFS_MAGIC: FsWord = 0x0102_1994;
/// `include/uapi/linux/magic.h`
const RAMFS_MAGIC: FsWord = 0x8584_58f6;

/// Properties of a block device or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFacts {
    /// Whether it is a block device.
    pub is_device: bool,
    /// Its length in bytes.
    pub bytes: u64,
    /// Sector size: O_DIRECT requires multiples of it.
    pub sector_bytes: u64,
    /// Whether the file system is in memory.
    pub in_memory: bool,
}

/// Returns the properties of a readable path.
///
/// # Errors
/// The kernel's error.
pub fn disk_facts(root: &dyn Sysfs, path: &str) -> io::Result<DiskFacts> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    Ok(disk_facts_of(root, &file)?)
}

/// Returns the properties of an open file.
pub fn disk_facts_of(root: &dyn Sysfs, file: &impl AsFd) -> Result<DiskFacts, Errno> {
    let stat = rustix::fs::fstat(file)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = if is_device { stat.st_rdev } else { stat.st_dev };
    let reported = is_device.then(|| rustix::fs::ioctl_blksszget(file).ok()).flatten().map(u64::from);
    let sector =
        reported.or_else(|| storage::queue_attribute(root, device_number(number), "logical_block_size"));
    // The size of a directory is not a content length.
    let bytes = match (is_device, FileType::from_raw_mode(stat.st_mode)) {
        (true, _) => rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?,
        (false, FileType::RegularFile) => u64::try_from(stat.st_size).unwrap_or(0),
        _ => 0,
    };
    let kind = rustix::fs::fstatfs(file)?.f_type;
    Ok(DiskFacts {
        is_device,
        bytes,
        sector_bytes: sector.filter(|bytes| bytes.is_power_of_two()).unwrap_or(SECTOR_BYTES),
        in_memory: !is_device && is_memory(kind),
    })
}

/// Whether a file system type (statfs(2), `f_type`) is in memory.
pub fn is_memory(kind: FsWord) -> bool {
    matches!(kind, TMPFS_MAGIC | RAMFS_MAGIC)
}

impl DiskFacts {
    /// Rejects blocks that are not aligned to sectors, and areas beyond the end.
    pub(super) fn check(&self, workload: &IoWorkload, path: &DiskPath) -> Result<(), ProbeError> {
        let (block, sector) = (workload.block_bytes, self.sector_bytes);
        let whole = |bytes: u64| bytes.is_multiple_of(sector);
        if path.direct && !(whole(block) && whole(path.offset)) {
            let what = format!("blocks of {block} bytes at byte {}", path.offset);
            let why = format!(
                "'{}' has sectors of {sector} bytes, and O_DIRECT requires multiples of them",
                path.path
            );
            return refused(&what, why);
        }
        if path.offset.saturating_add(path.bytes) > self.bytes {
            let what = format!("{} bytes at byte {}", path.bytes, path.offset);
            return refused(&what, format!("'{}' has {} bytes", path.path, self.bytes));
        }
        Ok(())
    }

    /// Returns a note that qualifies the measured values.
    pub(super) fn note(&self) -> Option<String> {
        self.in_memory.then(|| "the file system is in memory: no device is measured".to_owned())
    }
}

/// Splits a device number of stat(2) into major and minor.
pub fn device_number(device: u64) -> DeviceNumber {
    DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
}

/// Returns how a block device or one of its partitions is used: mounted
/// (`Documentation/filesystems/proc.rst`, mountinfo), as swap (proc_swaps(5)), or held by a volume
/// or RAID.
pub fn current_use(root: &dyn Sysfs, device: u64) -> Option<String> {
    let device_path = storage::device_path(root, device_number(device))?;
    let own = device_path.rsplit('/').next()?.to_owned();
    let is_partition = |name: &String| root.optional(&format!("{device_path}/{name}/partition")).is_some();
    let partitions = root.list(&device_path).unwrap_or_default().into_iter().filter(is_partition);
    let all: Vec<(String, String)> = partitions
        .map(|name| (format!("{device_path}/{name}"), name))
        .chain([(device_path.clone(), own)])
        .collect();
    let mounts = root.optional("/proc/self/mountinfo").unwrap_or_default();
    let swaps = root.optional("/proc/swaps").unwrap_or_default();
    all.iter().find_map(|(device_path, name)| {
        let number = root.optional(&format!("{device_path}/dev")).unwrap_or_default().trim().to_owned();
        let mounted = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let source = fields.iter().position(|field| *field == "-").and_then(|at| fields.get(at + 2));
            let ours =
                fields.get(2) == Some(&number.as_str()) || source == Some(&format!("/dev/{name}").as_str());
            ours.then(|| format!("{name} is mounted at {}", fields.get(4).unwrap_or(&"?")))
        });
        let swap = || {
            let ours = |line: &str| line.split_ascii_whitespace().next() == Some(&format!("/dev/{name}"));
            swaps.lines().any(ours).then(|| format!("{name} is used for swap"))
        };
        let held = || {
            let holder = root.list(&format!("{device_path}/holders")).ok()?.into_iter().next()?;
            Some(format!("{name} is part of {holder}"))
        };
        mounted.or_else(swap).or_else(held)
    })
}
