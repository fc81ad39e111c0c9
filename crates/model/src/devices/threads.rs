//! Number of threads that a device needs, by its kind and bandwidth.

use numaio_schema::{Sourced, TransferDeviceKind};

/// Assumed bandwidth of one thread; see [`THREAD_BYTES_PER_S`](crate::THREAD_BYTES_PER_S).
const THREAD: f64 = crate::THREAD_BYTES_PER_S;
/// Threads for a solid state disk, and for a device of unknown bandwidth: enough to keep its queue
/// filled.
const FEW: u32 = 4;
/// Threads for a network file system: a request waits for a round trip without a CPU.
const OF_SERVERS: u32 = 8;
/// Maximum number of derived threads of a device, so that one device does not take all CPUs.
pub const MOST_DEVICE_THREADS: u32 = 32;

/// Returns the threads for one direction of a device.
///
/// `members` is the number of its disks, and `cores` that of the machine. The rules follow Li's
/// dissertation (section 6.2): a thread per rotational disk, since concurrent streams on one disk
/// cost seeks, and otherwise the threads that reach its bandwidth.
pub fn device_threads(
    kind: TransferDeviceKind,
    bytes_per_s: Option<f64>,
    members: usize,
    cores: usize,
) -> Sourced<u32> {
    use TransferDeviceKind::{Hdd, Memory, NetworkFileSystem, Nic, Nvme, Other, Ssd};
    let most = u32::try_from(cores).unwrap_or(u32::MAX).clamp(1, MOST_DEVICE_THREADS);
    let disks = u32::try_from(members.max(1)).unwrap_or(u32::MAX).min(MOST_DEVICE_THREADS);
    match (kind, bytes_per_s) {
        (Hdd, _) if disks > 1 => Sourced::assumed(disks, "one thread for each rotational disk"),
        (Hdd, _) => Sourced::assumed(1, "concurrent streams on a rotational disk cost seeks"),
        (Ssd, _) => Sourced::assumed(FEW, format!("{FEW} threads keep the queue of an SSD filled")),
        (NetworkFileSystem, _) => {
            Sourced::assumed(OF_SERVERS, format!("{OF_SERVERS} threads hide the round trips to the server"))
        }
        (Nvme | Nic | Memory | Other, Some(rate)) => {
            let threads = (rate / THREAD).ceil().clamp(1.0, f64::from(most)) as u32;
            let why = match rate / THREAD > f64::from(most) {
                true => format!("limited to {most}, by the cores of the machine and the maximum per device"),
                false => format!("one thread for each {:.1} GB/s", THREAD / 1e9),
            };
            Sourced::assumed(threads, why)
        }
        (Nvme | Nic | Memory | Other, None) => Sourced::assumed(FEW.min(most), "the bandwidth is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_schema::TransferDeviceKind::{Hdd, Memory, NetworkFileSystem, Nic, Nvme, Other, Ssd};
    use numaio_schema::ValueSource;

    fn threads(kind: TransferDeviceKind, gigabytes_per_s: Option<f64>) -> u32 {
        device_threads(kind, gigabytes_per_s.map(|rate| rate * 1e9), 0, 64).value
    }

    #[test]
    fn rotational_disk_gets_one_thread_whatever_its_bandwidth() {
        assert_eq!([None, Some(0.2), Some(50.0)].map(|rate| threads(Hdd, rate)), [1, 1, 1]);
        assert_eq!(device_threads(Hdd, None, 8, 4).value, 8);
        assert_eq!(device_threads(Hdd, None, 1000, 4).value, MOST_DEVICE_THREADS);
    }

    #[test]
    fn threads_reach_the_bandwidth_of_fast_devices() {
        for kind in [Nvme, Nic, Memory, Other] {
            let of = [0.1, 2.0, 2.1, 12.5, 400.0].map(|rate| threads(kind, Some(rate)));
            assert_eq!(of, [1, 1, 2, 7, MOST_DEVICE_THREADS], "{kind}");
            assert_eq!(threads(kind, None), 4, "{kind}");
        }
        assert_eq!((threads(Ssd, Some(0.5)), threads(NetworkFileSystem, Some(0.1))), (4, 8));
    }

    #[test]
    fn cores_limit_threads_that_need_a_cpu() {
        let limited = device_threads(Nic, Some(50e9), 0, 2);
        assert_eq!(limited.value, 2);
        let ValueSource::Assumed { reason: why } = limited.source else { panic!("{limited:?}") };
        assert!(why.contains("limited to 2"), "{why}");
        assert_eq!(device_threads(Nvme, Some(1e9), 0, 0).value, 1);
    }
}
