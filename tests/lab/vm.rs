//! `numaio vm` on an emulated machine with several nodes: threads and memory of QEMU, and of a
//! process that looks like it, move and return. Witnesses are the kernel's affinities and pages.

use numaio_lab::{measure, skip, Folder};
use numaio_machine::guests::ThreadRole;
use numaio_machine::ids::NodeId;
use numaio_machine::programs::parse_program_memory;
use numaio_schema::{GuestBench, GuestsDocument};
use std::fs;
use std::path::Path;

/// The guest starts on node 2, the farthest from `eth0` on node 7, with memory on two nodes.
/// Instead of ssh, commands for the guest run on the host, without the numaio that they expect.
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
    numaio vm bench web --near eth0 --peer localhost --sizes 4096,51200 --direction write --rounds 1 --seconds 6 \
        --remote-numaio guest-numaio --bootstrap --output /out/bench.json >/out/bench.txt 2>/out/bench.err
    witness after; ls /root/.cache/numaio >/out/installed
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
    measure(test, |lab| {
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
        // A huge page may belong to both parts of the memory.
        let before = ram(&folder, "before");
        assert!(matches!(before[..], [(0, 5..=8), (2, 15..=18)]), "{before:?}");
        assert_eq!(ram(&folder, "applied"), [(7, 24)], "{errors}");
        let applied = text("applied.cpus");
        assert!(applied.contains("CPU 0/TCG 14\n") && applied.contains("CPU 1/TCG 15\n"), "{applied}");
        for name in ["undone", "after"] {
            assert_eq!(ram(&folder, name), before, "{name}: {errors}");
            assert_eq!(text(&format!("{name}.cpus")), text("before.cpus"), "{errors}");
        }
        assert!(!text("receipts").contains("vm-"), "{}", text("receipts"));
        assert!(text("installed").starts_with("numaio-"), "{errors}");
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

/// A guest in the control groups of libvirt, which confine it to node 2, and whose worker may use
/// one CPU. Instead of libvirt, a script sets them as libvirt does.
const LIBVIRT_SCRIPT: &str = r#"
    echo 0 >/proc/sys/kernel/numa_balancing
    group=/sys/fs/cgroup/guest
    mount -t cgroup2 none /sys/fs/cgroup; echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    mkdir $group; echo 4-5 >$group/cpuset.cpus; echo 2 >$group/cpuset.mems
    (echo 0 >$group/cgroup.procs; exec qemu-system-x86_64 -name guest=web,debug-threads=on -m 24 -smp 2 \
        -object '{"qom-type":"secret","id":"masterKey0","file":"x"}') & guest=$!
    sleep 2
    echo 0-15 >$group/cpuset.cpus
    for name in 'CPU 0/TCG:vcpu0' 'CPU 1/TCG:vcpu1' worker:emulator qemu-system-x86:emulator; do
        child=$group/${name#*:}
        [ -d $child ] || { mkdir $child; echo threaded >$child/cgroup.type; }
        echo +cpuset >$group/cgroup.subtree_control; echo 4-5 >$child/cpuset.cpus
        task=$(grep -lx "${name%:*}" /proc/$guest/task/*/comm); task=${task%/comm}; task=${task##*/}
        echo $task >$child/cgroup.threads; ln -sfn $task /tmp/${name#*:}
    done
    taskset -p 10 $(cd /proc/$guest/task; grep -lx worker */comm | sed 's:/comm::')
    cat >/tmp/virsh <<'END'
#!/bin/sh
for argument in "$@"; do
    case $argument in
        --cpulist=*) cpus=${argument#*=} ;; --vcpu=*) child=vcpu${argument#*=} ;; --nodeset=*) nodes=${argument#*=} ;;
    esac
done
[ $1 = numatune ] && { echo $nodes >/sys/fs/cgroup/guest/cpuset.mems; exit; }
: ${child:=emulator}
echo $cpus >/sys/fs/cgroup/guest/$child/cpuset.cpus
taskset -pc $cpus $(readlink /tmp/$child)
END
    chmod +x /tmp/virsh; export PATH=/tmp:$PATH
    witness() { cp /proc/$guest/numa_maps /out/$1.maps; grep Mems_allowed_list /proc/$guest/status >/out/$1.nodes
        for task in /proc/$guest/task/*; do
            echo "$(cat $task/comm) $(sed -n 's/^Cpus_allowed_list:\t//p' $task/status)"; done | sort >/out/$1.cpus; }
    witness before
    numaio vm apply web --near eth0 2>/out/apply.txt; witness applied
    numaio undo; witness undone
    kill $guest"#;

#[test]
fn confined_guest_of_libvirt_moves_and_returns() {
    let test = "confined_guest_of_libvirt_moves_and_returns";
    measure(test, |lab| {
        let folder = Folder::new("vm-libvirt");
        let program = folder.0.join("qemu-system-x86_64");
        if !lab.build(test, "guest.c", &program) {
            return;
        }
        let add = program.to_string_lossy().into_owned();
        let output =
            lab.run_with_options(&["--add", &add], "amd-dl585-g7", &folder.0, &["sh", "-c", LIBVIRT_SCRIPT]);
        let text = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_default();
        let errors = [&text("apply.txt"), &*String::from_utf8_lossy(&output.stderr)].join("\n");
        assert!(output.status.success(), "{errors}");
        let cpus = |vcpu0: &str, vcpu1: &str, worker: &str, main: &str| {
            format!("CPU 0/TCG {vcpu0}\nCPU 1/TCG {vcpu1}\nqemu-system-x86 {main}\nworker {worker}\n")
        };
        for (name, node, expected) in [
            ("before", 2, cpus("4-5", "4-5", "4", "4-5")),
            ("applied", 7, cpus("14", "15", "14-15", "14-15")),
            ("undone", 2, cpus("4-5", "4-5", "4", "4-5")),
        ] {
            assert_eq!(text(&format!("{name}.nodes")), format!("Mems_allowed_list:\t{node}\n"), "{errors}");
            assert_eq!(ram(&folder, name), [(node, 24)], "{name}: {errors}");
            assert_eq!(text(&format!("{name}.cpus")), expected, "{name}: {errors}");
        }
    });
}

/// QEMU emulates two CPUs on node 2, with its firmware in 64 MiB that it allocates at the start.
/// The guest is also moved while it is stopped, and ends before its second move is undone.
const QEMU_SCRIPT: &str = r#"
    echo 0 >/proc/sys/kernel/numa_balancing
    taskset 30 QEMU -name guest=web,debug-threads=on -machine q35,accel=tcg,memory-backend=ram0 -smp 2 -m 64M \
        -object memory-backend-ram,id=ram0,size=64M,prealloc=on -object iothread,id=iothread1 \
        -nodefaults -display none -serial none -monitor none & guest=$!
    tries=0
    until grep -qs 'CPU 1/TCG' /proc/$guest/task/*/comm; do
        tries=$((tries + 1)); [ $tries -lt 90 ] && [ -d /proc/$guest ] || exit 1; sleep 1
    done
    witness() { cp /proc/$guest/numa_maps /out/$1.maps
        for task in /proc/$guest/task/*; do
            echo "$(cat $task/comm) $(sed -n 's/^Cpus_allowed_list:\t//p' $task/status)"; done | sort >/out/$1.cpus; }
    witness before; numaio vm show web --json >/out/before.json
    numaio vm apply web --near eth0 2>/out/apply.txt; echo $? >/out/apply.status
    witness applied; numaio vm show web --json >/out/applied.json
    numaio undo; witness undone
    kill -STOP $guest; numaio vm apply web --near eth0 2>/out/stopped.txt; witness stopped
    kill $guest; kill -CONT $guest; wait $guest
    numaio undo >/out/undo.txt 2>&1; echo $? >>/out/undo.txt"#;

/// Files of QEMU beside its libraries, as distributions place them: its emulation of the CPU, and
/// the firmware of the guest.
const QEMU_FILES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so",
    "/usr/lib/qemu/accel-tcg-x86_64.so",
    "/usr/lib64/qemu/accel-tcg-x86_64.so",
    "/usr/share/seabios/bios-256k.bin",
    "/usr/share/qemu/bios-256k.bin",
    "/usr/share/qemu/kvmvapic.bin",
];

fn shown(folder: &Folder, name: &str) -> GuestsDocument {
    let text = fs::read_to_string(folder.0.join(name)).expect("a document");
    GuestsDocument::from_json(&text).expect("a document")
}

#[test]
fn qemu_moves_between_nodes_and_returns() {
    let test = "qemu_moves_between_nodes_and_returns";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::env::split_paths(&path).map(|folder| folder.join("qemu-system-x86_64"));
    let Some(qemu) = programs.into_iter().find(|program| program.is_file()) else {
        return skip(test, "qemu-system-x86_64 is not installed");
    };
    let qemu = qemu.to_string_lossy().into_owned();
    let files = QEMU_FILES.into_iter().filter(|file| Path::new(file).is_file());
    let options: Vec<&str> = files.chain([qemu.as_str()]).flat_map(|file| ["--host-file", file]).collect();
    let script = QEMU_SCRIPT.replace("QEMU", &qemu);
    measure(test, |lab| {
        let folder = Folder::new("vm-qemu");
        let output = lab.run_with_options(&options, "amd-dl585-g7", &folder.0, &["sh", "-c", &script]);
        let text = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_default();
        let errors = [&text("apply.txt"), &text("stopped.txt"), &*String::from_utf8_lossy(&output.stderr)];
        let errors = errors.join("\n");
        assert!(output.status.success(), "{errors}");
        // The memory of the guest and of QEMU itself.
        let is_on = |name: &str, node: u32| matches!(ram(&folder, name)[..], [(on, size)] if on == node && size >= 64);
        // Pages that QEMU allocated after the move were never on another node.
        let returned = ram(&folder, "undone");
        let new_mib: u64 = returned.iter().filter(|(on, _)| *on != 2).map(|(_, mib)| mib).sum();
        assert!(is_on("before", 2), "{:?}", ram(&folder, "before"));
        assert!(is_on("applied", 7), "{:?}: {errors}", ram(&folder, "applied"));
        assert!(returned[0].0 == 2 && returned[0].1 >= 64 && new_mib <= 2, "{returned:?}: {errors}");
        assert!(is_on("stopped", 7), "{:?}: {errors}", ram(&folder, "stopped"));
        let lines = |name: &str| text(name).lines().map(str::to_owned).collect::<Vec<String>>();
        let services = |line: &&String| !line.starts_with("CPU ");
        for name in ["applied.cpus", "stopped.cpus"] {
            let threads = lines(name);
            assert_eq!(threads[..2], ["CPU 0/TCG 14", "CPU 1/TCG 15"], "{errors}");
            assert!(threads.contains(&"IO iothread1 14-15".to_owned()), "{threads:?}");
            assert!(threads.iter().filter(services).all(|line| line.ends_with(" 14-15")), "{threads:?}");
        }
        assert!(text("before.cpus").lines().all(|line| line.ends_with(" 4-5")), "{}", text("before.cpus"));
        assert_eq!(text("undone.cpus"), text("before.cpus"), "{errors}");
        assert_eq!(text("apply.status"), "0\n", "{errors}");
        assert!(text("undo.txt").ends_with("\n0\n"), "{}", text("undo.txt"));
        for (name, node) in [("before.json", 2), ("applied.json", 7)] {
            let guest = shown(&folder, name).guests.remove(0);
            assert_eq!(
                (guest.name.as_str(), guest.configuration.accelerator.as_deref()),
                ("web", Some("tcg"))
            );
            let vcpus = guest.threads.iter().filter(|thread| thread.role.is_vcpu()).count();
            let io = guest.threads.iter().any(
                |thread| matches!(&thread.role, ThreadRole::Io { io_thread } if io_thread == "iothread1"),
            );
            assert_eq!((vcpus, io), (2, true));
            let regions = &guest.memory.as_ref().expect("root").regions;
            assert_eq!(regions.iter().map(|region| region.bytes).sum::<u64>(), 64 << 20, "{regions:?}");
            assert_eq!(guest.bytes_on.expect("root"), [(NodeId(node), 64 << 20)].into());
        }
    });
}
