//! Replies of QEMU's machine protocol (QMP, `docs/interop/qmp-spec.rst`) that name threads.

use super::threads::ThreadRole;
use serde::Deserialize;

/// The commands that a monitor is sent, one line each; the first one ends its negotiation.
pub const MONITOR_COMMANDS: [&str; 3] = [
    r#"{"execute":"qmp_capabilities"}"#,
    r#"{"execute":"query-cpus-fast"}"#,
    r#"{"execute":"query-iothreads"}"#,
];

/// Threads of a guest, as its monitor reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MonitorThreads {
    /// Thread id of each virtual CPU, with its number.
    vcpus: Vec<(u32, u32)>,
    /// Thread id of each I/O thread, with its id.
    io: Vec<(u32, String)>,
}

impl MonitorThreads {
    /// Returns the role of a thread, if it was reported. QEMU may run all virtual CPUs in one.
    pub fn role(&self, tid: u32) -> Option<ThreadRole> {
        let mut numbers = self.vcpus.iter().filter(|(thread, _)| *thread == tid).map(|(_, number)| *number);
        match (numbers.next(), numbers.next()) {
            (Some(number), None) => Some(ThreadRole::Vcpu { number }),
            (Some(_), Some(_)) => Some(ThreadRole::AllVcpus),
            (None, _) => {
                let found = self.io.iter().find(|(thread, _)| *thread == tid);
                found.map(|(_, name)| ThreadRole::Io { io_thread: name.clone() })
            }
        }
    }
}

#[derive(Deserialize)]
struct Reply {
    #[serde(rename = "return")]
    value: Vec<ReportedThread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ReportedThread {
    thread_id: u32,
    cpu_index: Option<u32>,
    id: Option<String>,
}

/// Parses the lines of a monitor; lines that name no threads, such as events, are skipped.
pub fn parse_threads(lines: &str) -> MonitorThreads {
    let mut found = MonitorThreads::default();
    for line in lines.lines() {
        let Ok(Reply { value }) = serde_json::from_str::<Reply>(line) else { continue };
        for thread in value {
            match (thread.cpu_index, thread.id) {
                (Some(number), _) => found.vcpus.push((thread.thread_id, number)),
                (None, Some(id)) => found.io.push((thread.thread_id, id)),
                (None, None) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_threads_between_other_lines() {
        let lines = concat!(
            r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": []}}"#,
            "\n{\"return\": {}}\n",
            r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RESUME"}"#,
            "\n",
            r#"{"return": [{"thread-id": 70, "props": {}, "qom-path": "/m", "cpu-index": 0, "target": "x86_64"},"#,
            r#" {"thread-id": 71, "cpu-index": 1}]}"#,
            "\n",
            r#"{"return": [{"poll-max-ns": 1, "id": "io1", "thread-id": 72}]}"#,
            "\n{\"return\": [\n"
        );
        let found = parse_threads(lines);
        assert_eq!(found.role(71), Some(ThreadRole::Vcpu { number: 1 }));
        assert_eq!(found.role(72), Some(ThreadRole::Io { io_thread: "io1".into() }));
        assert_eq!(found.role(73), None);
        let shared = parse_threads(
            r#"{"return": [{"thread-id": 7, "cpu-index": 0}, {"thread-id": 7, "cpu-index": 1}]}"#,
        );
        assert_eq!(shared.role(7), Some(ThreadRole::AllVcpus));
    }
}
