//! How the bytes of a published row moved, by the words of its engine.

use crate::set::{PublishedRow, PublishedSet};
use crate::text::{has, has_prefix, words};
use numaio_machine::ids::NodeId;
use numaio_model::TransferMethod;

/// CPUs or kernels of a GPU load and store.
const LOADS: [&str; 26] = [
    "cpu copies",
    "cpu copy",
    "cpu executor",
    "loads",
    "stores",
    "memcpy sm",
    "mlc",
    "stream copy",
    "stream triad",
    "stream add",
    "stream scale",
    "stream benchmark",
    "babelstream",
    "lmbench",
    "mmap",
    "mapped",
    "zero copy",
    "managed memory",
    "unified memory",
    "uvm",
    "pageable",
    "dax",
    "devdax",
    "fsdax",
    "pmem",
    "persistent memory",
];

/// Kernels of a GPU, not of an operating system.
const GPU_KERNELS: [&str; 9] = [
    "gpu kernel",
    "copy kernel",
    "kernel copy",
    "kernel copies",
    "kernel reads",
    "kernel writes",
    "kernels",
    "shader",
    "sm copies",
];

/// Latency decides.
const LATENCY: [&str; 25] = [
    "queue depth 1",
    "queue depth of 1",
    "qd1",
    "qd 1",
    "iodepth 1",
    "iodepth1",
    "depth 1",
    "t1q1",
    "q1t1",
    "one request",
    "dpdk",
    "poll mode",
    "polling",
    "busy poll",
    "pktgen",
    "small packets",
    "small messages",
    "ping pong",
    "pingpong",
    "latency",
    "lat",
    "tcp rr",
    "udp rr",
    "request response",
    "mmio",
];

/// Both ends are devices.
const PEERS: [&str; 13] = [
    "p2p",
    "peer to peer",
    "peer access",
    "peer copy",
    "peer copies",
    "gpudirect",
    "gpu direct",
    "gdr",
    "nccl",
    "rccl",
    "nvshmem",
    "device to device",
    "gpu to gpu",
];

/// Engines that copy large blocks by DMA.
const DMA: [&str; 26] = [
    "dma",
    "sdma",
    "copy engine",
    "pinned",
    "bandwidthtest",
    "bandwidth test",
    "nvbandwidth",
    "transferbench",
    "fio",
    "libaio",
    "io uring",
    "spdk",
    "vdbench",
    "dd",
    "direct i o",
    "perftest",
    "rdma",
    "roce",
    "infiniband",
    "verbs",
    "ucx",
    "iperf",
    "netperf",
    "nuttcp",
    "tcp",
    "udp",
];
const DMA_PREFIXES: [&str; 6] = ["cudamemcpy", "hipmemcpy", "aclrt", "memcpyasync", "ib ", "iperf"];

/// Buffers up to this size fit the caches of a server.
const CACHED_BYTES: u64 = 64 << 20;
/// Requests below this size are bound by latency.
const SMALL_BYTES: u64 = 4096;

/// How the bytes of a row moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineMethod<'a> {
    /// The method.
    pub method: TransferMethod<'a>,
    /// Whether the engine was recognized; else DMA is assumed.
    pub is_known: bool,
}

/// Returns how the bytes of a row moved.
pub fn engine_method<'a>(
    set: &PublishedSet,
    row: &PublishedRow,
    latency_ns: &'a [(NodeId, f64)],
) -> EngineMethod<'a> {
    let (engine, device) = (words(&format!("{} {}", row.label, row.engine)), words(&set.device));
    let all = format!("{engine}{device}");
    let known = |method| EngineMethod { method, is_known: true };
    let sizes = sizes(&engine);
    if row.is_between_devices || has(&all, &PEERS) || joins_devices(&engine, &device) {
        known(TransferMethod::PeerToPeer)
    } else if is_loaded(&engine, &device) {
        known(TransferMethod::LoadsAndStores { latency_ns })
    } else if has(&all, &LATENCY) || sizes.iter().max().is_some_and(|most| *most < SMALL_BYTES) {
        known(TransferMethod::LatencyBound)
    } else if is_gpu(&all) && sizes.iter().max().is_some_and(|most| *most <= CACHED_BYTES) {
        known(TransferMethod::DmaWithinCaches)
    } else {
        let is_known = has(&all, &DMA) || has_prefix(&engine, &DMA_PREFIXES);
        EngineMethod { method: TransferMethod::Dma, is_known }
    }
}

fn is_gpu(words: &str) -> bool {
    has_prefix(words, &["gpu", "cuda", "hip", "rocm"])
}

/// Whether a NIC or drive reaches memory of a GPU.
fn joins_devices(engine: &str, device: &str) -> bool {
    let is_card = has_prefix(device, &["nic ", "rdma", "hca", "ssd", "nvme", "connectx", "infiniband"]);
    let all = format!("{engine}{device}");
    is_card && has(&all, &["gpu memory", "gpus", "memory of gpus", "gpu"])
}

/// Whether CPUs or kernels of a GPU move the bytes. The rates of a CXL memory device are those of
/// loads and stores, unless a DMA engine is named.
fn is_loaded(engine: &str, device: &str) -> bool {
    let is_gpu_used = is_gpu(&format!("{engine}{device}"));
    // `memcpy` of a GPU's driver is DMA.
    let is_memcpy = has(engine, &["memcpy", "memset"]) && !is_gpu_used;
    let is_kernel = has(engine, &GPU_KERNELS) && is_gpu_used;
    let is_memory = has(device, &["cxl", "cxl memory"]) && !is_gpu(device) && !has(device, &["ssd", "nvme"]);
    let is_memory = is_memory && !has(engine, &["dma", "dsa", "pinned"]);
    engine.starts_with(" cpu ")
        || has(engine, &LOADS)
        || has(device, &LOADS)
        || is_memcpy
        || is_kernel
        || is_memory
}

/// Returns the sizes in bytes that a text names, such as `32 mib` or `64 b`; not rates.
fn sizes(words: &str) -> Vec<u64> {
    let list: Vec<&str> = words.split_whitespace().collect();
    let of = |at: usize| {
        let (digits, joined) =
            list[at].split_at(list[at].find(|c: char| !c.is_ascii_digit()).unwrap_or(list[at].len()));
        let (unit, next) = match joined.is_empty() {
            true => (*list.get(at + 1)?, at + 2),
            false => (joined, at + 1),
        };
        if list.get(next) == Some(&"s") {
            return None;
        }
        let scale: u64 = match unit {
            "b" | "byte" | "bytes" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(scale)
    };
    (0..list.len()).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::RowDirection;

    fn method(device: &str, label: &str, engine: &str) -> (TransferMethod<'static>, bool) {
        let set = PublishedSet {
            name: String::new(),
            sockets: None,
            device: device.to_owned(),
            device_nodes: vec![Some(0)],
            latency_ns: Vec::new(),
            memory: crate::MemoryMatrix::None,
            rows: Vec::new(),
        };
        let row = PublishedRow {
            label: label.to_owned(),
            direction: RowDirection::Read,
            engine: engine.to_owned(),
            by: String::new(),
            other_unit: None,
            rates: Vec::new(),
            is_between_devices: false,
        };
        let found = engine_method(&set, &row, &[]);
        (found.method, found.is_known)
    }

    #[test]
    fn engines_that_paths_do_not_bound_are_recognized() {
        use TransferMethod::{DmaWithinCaches, LatencyBound, PeerToPeer};
        let loads = TransferMethod::LoadsAndStores { latency_ns: &[] };
        let rows = [
            ("10 GbE NIC", "rx", "DPDK poll mode, 1 thread", LatencyBound),
            ("NVMe SSD", "read", "fio libaio, 4 KiB, QD=1", LatencyBound),
            ("NIC ConnectX-6", "send", "ib_send_lat", LatencyBound),
            ("NIC ConnectX-6", "send", "ib_send_bw, 64 B messages", LatencyBound),
            ("RDMA NIC, memory of MI300X GPUs", "read", "ib_read_bw 2 MB", PeerToPeer),
            ("8 x GPU", "write", "nccl-tests", PeerToPeer),
            ("GPU A100", "d2h", "zero-copy stores", loads),
            ("8 x GPU MI300X", "h2d", "CPU copies into GPU memory, 64 MiB", loads),
            ("8 x GPU MI300X", "d2h", "GPU kernel writes", loads),
            ("CXL memory device", "read", "Intel MLC", loads),
            ("CXL type 3 device", "read", "sysbench", loads),
            ("GPU P100", "h2d", "CUDA bandwidthTest, pinned, 32 MiB", DmaWithinCaches),
        ];
        for (device, label, engine, expected) in rows {
            assert_eq!(method(device, label, engine), (expected, true), "{device}: {engine}");
        }
    }

    #[test]
    fn plain_dma_is_recognized_and_other_engines_are_not() {
        let rows = [
            ("NVMe SSD", "read", "fio libaio, 128 KiB, iodepth 32"),
            ("NVMe SSD", "read", "fio, kernel 5.15, queue depth 16"),
            ("NIC ConnectX-5 100 Gb/s", "send", "iperf3, 8 streams"),
            ("NIC ConnectX-5 100 Gb/s", "write", "ib_write_bw 64 KiB"),
            ("GPU A100", "h2d", "cudaMemcpyAsync, 2 GiB"),
            ("GPU A100", "h2d", "nvbandwidth host_to_device_memcpy_ce"),
            ("GPU A100", "h2d", "pinned CUDA memcpy, Linux kernel 6.1"),
            ("Ascend NPU", "h2d", "aclrtMemcpy"),
            ("4 x GPU MI210", "bidir", "rocm-bandwidth-test 2.x"),
        ];
        for (device, label, engine) in rows {
            assert_eq!(method(device, label, engine), (TransferMethod::Dma, true), "{device}: {engine}");
        }
        assert_eq!(method("a card", "write", "our tool"), (TransferMethod::Dma, false));
    }
}
