//! Parsers of `/proc/PID/status` and `/proc/PID/io` (Documentation/filesystems/proc.rst, tables 1-2
//! and 3.3).

use crate::set::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};

/// Facts of a status file that decide whether a program may be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StatusFacts {
    /// Effective user id.
    pub uid: Option<u32>,
    /// Memory locked by mlock(2) or counted against that limit, in bytes.
    pub locked_bytes: u64,
    /// Memory pinned for devices (RDMA, registered buffers of io_uring), in bytes.
    pub pinned_bytes: u64,
    /// Reserved huge pages in use, in bytes.
    pub huge_bytes: u64,
    /// Swapped-out private memory, in bytes.
    pub swapped_bytes: u64,
    /// Private anonymous memory in RAM, in bytes.
    pub anonymous_bytes: u64,
    /// CPUs on which the main thread may run.
    pub cpus_allowed: Option<CpuSet>,
    /// Nodes on which it may allocate.
    pub nodes_allowed: Option<NodeSet>,
}

/// Parses a status file; absent or malformed fields keep their default.
pub fn parse_status(text: &str) -> StatusFacts {
    let mut facts = StatusFacts::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name {
            "Uid" => facts.uid = value.split_ascii_whitespace().nth(1).and_then(|uid| uid.parse().ok()),
            "VmLck" => facts.locked_bytes = kilobytes(value),
            "VmPin" => facts.pinned_bytes = kilobytes(value),
            "VmSwap" => facts.swapped_bytes = kilobytes(value),
            "RssAnon" => facts.anonymous_bytes = kilobytes(value),
            "HugetlbPages" => facts.huge_bytes = kilobytes(value),
            "Cpus_allowed_list" => facts.cpus_allowed = CpuSet::parse_list(value).ok(),
            "Mems_allowed_list" => facts.nodes_allowed = NodeSet::parse_list(value).ok(),
            _ => {}
        }
    }
    facts
}

/// Parses `12 kB`; 0 for other formats.
pub(crate) fn kilobytes(value: &str) -> u64 {
    let number = value.split_ascii_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// Bytes that a process read and wrote since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct IoCounters {
    /// Bytes that read(2) and similar calls returned, from files, pipes and caches.
    pub requested_read: u64,
    /// Bytes passed to write(2) and similar calls.
    pub requested_write: u64,
    /// Bytes fetched from storage.
    pub storage_read: u64,
    /// Bytes sent to storage, or to be sent.
    pub storage_write: u64,
}

/// Parses an I/O file; `None` if a counter is missing.
pub fn parse_io(text: &str) -> Option<IoCounters> {
    let field = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    Some(IoCounters {
        requested_read: field("rchar:")?,
        requested_write: field("wchar:")?,
        storage_read: field("read_bytes:")?,
        storage_write: field("write_bytes:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CpuId, NodeId};
    use proptest::prelude::*;

    const STATUS: &str = "\
Name:\tdd
Uid:\t0\t1000\t0\t0
VmLck:\t       8 kB
VmPin:\t      16 kB
RssAnon:\t    1500 kB
VmSwap:\t       4 kB
HugetlbPages:\t    2048 kB
Cpus_allowed_list:\t0-3,8
Mems_allowed_list:\t0,4
";

    #[test]
    fn parses_limits_and_amounts_of_a_status_file() {
        let facts = parse_status(STATUS);
        let amounts = (facts.locked_bytes, facts.pinned_bytes, facts.swapped_bytes, facts.anonymous_bytes);
        assert_eq!(amounts, (8 << 10, 16 << 10, 4 << 10, 1500 << 10));
        assert_eq!((facts.uid, facts.huge_bytes), (Some(1000), 2 << 20));
        assert!(facts.cpus_allowed.is_some_and(|cpus| cpus.len() == 5 && cpus.contains(CpuId(8))));
        assert!(facts.nodes_allowed.is_some_and(|nodes| nodes.contains(NodeId(4)) && nodes.len() == 2));
    }

    #[test]
    fn parses_counters_of_an_io_file() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 30\nwrite_bytes: 40\n\
                    cancelled_write_bytes: 0\n";
        let counters =
            IoCounters { requested_read: 10, requested_write: 20, storage_read: 30, storage_write: 40 };
        assert_eq!((parse_io(text), parse_io("rchar: 1\n")), (Some(counters), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parsers_never_panic(text in ".*", cut in 0..STATUS.len(), number: u64) {
            let _ = (parse_status(&text), parse_io(&text), parse_status(&STATUS[..cut]));
            let _ = parse_status(&format!("VmLck: {number} kB\nUid: {number} {number}\nCpus_allowed_list: {number}"));
        }
    }
}
