//! `numaio vm` on an emulated machine with several nodes: threads and memory of a process that
//! looks like a guest move and return. Witnesses are the kernel's affinities and pages.

use crate::support::{with_retries, Folder};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::parse_program_memory;
use numaio_schema::GuestBench;
use std::fs;

/// The guest starts on node 2, the farthest from `eth0` on node 7. Instead of ssh, commands for the
/// guest run on the host.
const SCRIPT: &str = r#"
    echo 0 >/proc/sys/kernel/numa_balancing
    ip link set lo up
    printf '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec sh -c "$*"\n' >/tmp/ssh
    chmod +x /tmp/ssh; export NUMAIO_SSH=/tmp/ssh
    taskset 30 qemu-system-x86_64 -name guest=web,debug-threads=on -m 24 -smp 2 & guest=$!
    sleep 2
    witness() { cp /proc/$guest/numa_maps /out/$1.maps
        for task in /proc/$guest/task/*; do
            echo "$(cat $task/comm) $(sed -n 's/^Cpus_allowed_list:\t//p' $task/status)"; done | sort >/out/$1.cpus; }
    witness before
    numaio vm apply web --near eth0 2>/out/apply.txt; witness applied
    numaio undo; witness undone
    numaio vm bench web --near eth0 --peer localhost --sizes 4096,51200 --direction write --rounds 1 --seconds 20 \
        --output /out/bench.json >/out/bench.txt 2>/out/bench.err
    witness after
    numaio undo --list >/out/receipts
    kill $guest"#;

/// Bytes of the guest's memory by node, without small mappings.
fn ram(folder: &Folder, name: &str) -> Vec<(u32, u64)> {
    let text = fs::read_to_string(folder.0.join(format!("{name}.maps"))).expect("pages");
    let on = parse_program_memory(&text).private;
    on.iter().filter(|(_, bytes)| **bytes > 1 << 20).map(|(node, bytes)| (node.0, bytes >> 20)).collect()
}

#[test]
fn guest_moves_between_nodes_is_measured_on_each_and_returns() {
    let test = "guest_moves_between_nodes_is_measured_on_each_and_returns";
    with_retries(test, |lab| {
        let folder = Folder::new("vm");
        let program = folder.0.join("qemu-system-x86_64");
        if !lab.build(test, "guest.c", &program) {
            return;
        }
        let add = program.to_string_lossy().into_owned();
        let output = lab.run_with_options(&["--add", &add], "amd-dl585-g7", &folder.0, &["sh", "-c", SCRIPT]);
        let text = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_default();
        let errors =
            [&text("apply.txt"), &text("bench.err"), &*String::from_utf8_lossy(&output.stderr)].join("\n");
        assert!(output.status.success(), "{errors}");
        assert_eq!(ram(&folder, "before"), [(2, 24)]);
        assert_eq!(ram(&folder, "applied"), [(7, 24)], "{errors}");
        let applied = text("applied.cpus");
        assert!(applied.contains("CPU 0/TCG 14\n") && applied.contains("CPU 1/TCG 15\n"), "{applied}");
        for name in ["undone", "after"] {
            assert_eq!(ram(&folder, name), [(2, 24)], "{name}: {errors}");
            assert_eq!(text(&format!("{name}.cpus")), text("before.cpus"), "{errors}");
        }
        assert!(!text("receipts").contains("vm-"), "{}", text("receipts"));
        let bench = GuestBench::from_json(&text("bench.json")).expect("a result");
        assert_eq!((bench.local, bench.device.as_str()), (NodeId(7), "eth0"));
        let nodes: Vec<(NodeId, NodeId)> = bench.situations.iter().map(|it| (it.vcpus, it.memory)).collect();
        let (local, remote) = (bench.local, bench.remote);
        assert_eq!(nodes, [(local, local), (local, remote), (remote, local), (remote, remote)]);
        for situation in &bench.situations {
            assert_eq!(situation.failure, None, "{errors}");
            let sizes: Vec<u64> = situation.cells.iter().map(|cell| cell.message_bytes).collect();
            assert_eq!(sizes, [4096, 51200]);
            assert!(situation.cells.iter().all(|cell| cell.bytes_per_s.iter().all(|rate| *rate > 0.0)));
        }
        assert!(text("bench.txt").contains("node 7, local"), "{}", text("bench.txt"));
    });
}
