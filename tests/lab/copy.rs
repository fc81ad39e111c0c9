//! `numaio copy` on an emulated machine: the placement of its threads and pages.

use numaio_lab::{Folder, Lab};
use std::fs;

/// A plan problem whose only solution reads storage of node 0 by a thread of node 1.
const PROBLEM: &str = r#"
threads_per_node = 2
nodes = [{ node = 0 }, { node = 1 }]
storage = [{ device = "disk", node = 0, bytes = 1_000_000_000 }]
nics = [{ device = "net", node = 0 }]
storage_paths = [{ device_node = 0, memory_node = 1, thread_bytes_per_s = 1e9, max_bytes_per_s = 1e9 }]
network_paths = [{ device_node = 0, memory_node = 1, thread_bytes_per_s = 1e9, max_bytes_per_s = 1e9 }]
"#;

/// `mover_of PID` prints the process that moves the files of a copy: the child of the command.
const MOVER_OF: &str = r#"
mover_of() {
    for process in /proc/[0-9]*; do
        read -r _ _ _ parent _ <$process/stat && [ "$parent" = $1 ] && echo ${process#/proc/} && return
    done 2>/dev/null
    echo $1
}
"#;

/// Copies slowly, and records threads and pages once a buffer is in use.
const OBSERVE_COPY: &str = "
numaio plan --file /out/problem.toml --json >/out/plan.json || exit 1
dd if=/dev/zero of=/tmp/from bs=1M count=16 2>/dev/null
numaio copy --json --bwlimit 512K --plan /out/plan.json /tmp/from /tmp/to >/out/events &
copy=$!
for try in $(seq 120); do
    mover=$(mover_of $copy)
    grep -q 'bind[^ ]*:1 .* N1=' /proc/$mover/numa_maps && break
    sleep 1
done
cp /proc/$mover/numa_maps /out/pages
for task in /proc/$mover/task/*; do
    echo $(cat $task/comm): $(grep Cpus_allowed_list $task/status)
done >/out/threads
kill $copy
wait $copy
cat /sys/devices/system/node/node1/cpulist >/out/cpus
";

#[test]
fn threads_and_pages_of_a_copy_are_on_the_planned_nodes() {
    let Some(lab) = Lab::open("threads_and_pages_of_a_copy_are_on_the_planned_nodes") else { return };
    let folder = Folder::new("copy");
    let script = format!("cat >/out/problem.toml <<'END'\n{PROBLEM}END\n{MOVER_OF}{OBSERVE_COPY}");
    let output = lab.run("uniform-2n", &folder.0, &["sh", "-c", &script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    assert_eq!(text("cpus").trim(), "2-3", "node 1");
    let threads = text("threads");
    let is_pinned = |line: &&str| line.starts_with("files ") && line.ends_with("Cpus_allowed_list: 2");
    let pinned = threads.lines().filter(is_pinned).count();
    assert_eq!(pinned, 1, "the plan has one thread, on the first core of node 1: {threads}");
    let pages = text("pages");
    // Fields of numa_maps: address, policy with its nodes, pages by node.
    let policy = |line: &&str| {
        line.split(' ').nth(1).is_some_and(|word| word.starts_with("bind") && word.ends_with(":1"))
    };
    let bound: Vec<&str> = pages.lines().filter(policy).collect();
    assert!(bound.iter().any(|line| line.contains(" N1=")), "{pages}");
    assert!(bound.iter().all(|line| !line.contains(" N0=")), "{pages}");
    let first = text("events").lines().next().map(str::to_owned).unwrap_or_default();
    let event: serde_json::Value = serde_json::from_str(&first).expect("an event");
    let group = &event["groups"][0];
    assert_eq!((&group["threads"], &group["cpus"]), (&1.into(), &"2".into()), "{event}");
    assert_eq!(group["node"], 1, "{event}");
}

/// Copies from the disk of node 0 to another host, through the network card of node 1.
///
/// The host is a network namespace on a bridge, of which the card is a port. `observe` copies
/// slowly until the threads of the data streams and a thread of the files run on the expected CPUs,
/// and records the CPUs of all threads.
const OBSERVE_NETWORK_COPY: &str = r#"
mkdir /data; mke2fs /dev/nvme0n1 >/dev/null; mount -t ext4 /dev/nvme0n1 /data || exit 1
dd if=/dev/zero of=/data/from bs=1M count=32 2>/dev/null
unshare -n sleep 1000 & remote=$!
while [ "$(readlink /proc/$remote/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
brctl addbr br0; brctl addif br0 eth0
ip link add v0 type veth; brctl addif br0 v0; ip link set veth0 netns $remote
for up in eth0 v0 br0; do ip link set $up up; done
ip addr add 10.1.0.1/24 dev br0
nsenter -t $remote -n ip addr add 10.1.0.2/24 dev veth0; nsenter -t $remote -n ip link set veth0 up
cat >/tmp/ssh <<END
#!/bin/sh
[ "\$1" = -G ] && { echo hostname 10.1.0.2; exit; }
while [ "\$1" != -- ]; do shift; done
shift 2
exec nsenter -t $remote -n sh -c "\$*"
END
chmod +x /tmp/ssh; export NUMAIO_SSH=/tmp/ssh
# observe NAME NETWORK_CPUS FILE_CPUS OPTION...
observe() {
    name=$1 network=$2 files=$3; shift 3
    numaio copy --json --no-job --bwlimit 512K --streams 2 --data-port 4000-4009 "$@" /data/from remote:/tmp/$name >/out/$name.events &
    copy=$!
    for try in $(seq 60); do
        sleep 1
        for task in /proc/$(mover_of $copy)/task/*; do
            echo $(cat $task/comm): $(grep Cpus_allowed_list $task/status)
        done >/out/$name.threads 2>/dev/null
        [ $(grep -c "^data .* $network$" /out/$name.threads) = 3 ] && grep -q "^files .* $files$" /out/$name.threads && break
    done
    kill $copy; wait $copy
    true
}
observe none 0-3 0-3 --placement none
observe local 2-3 0-1
numaio plan --file /out/problem.toml --json >/out/plan.json
observe plan 1 0 --plan /out/plan.json
numaio model --quiet --device nvme0n1 --pause-balancing >/dev/null
numaio run --quiet --near file:/data/from --direction read -- grep Cpus_allowed_list /proc/self/status >/out/near
observe model 2-3 $(sed 's/.*[[:space:]]//' /out/near) --placement model
"#;

/// Returns the CPUs of the threads whose names start with `name`.
fn cpus_of(threads: &str, name: &str) -> Vec<String> {
    let of_name = threads.lines().filter(|line| line.starts_with(name));
    let mut cpus: Vec<String> =
        of_name.filter_map(|line| line.split(' ').next_back()).map(str::to_owned).collect();
    cpus.dedup();
    cpus
}

#[test]
fn threads_of_data_streams_run_on_the_node_of_the_network_card() {
    let Some(lab) = Lab::open("threads_of_data_streams_run_on_the_node_of_the_network_card") else { return };
    let folder = Folder::new("copy-net");
    // The path uses the memory of node 0, which is local to the storage and remote from the card.
    let problem = PROBLEM
        .replace("memory_node = 1", "memory_node = 0")
        .replace(r#""disk""#, r#""nvme0n1""#)
        .replace(r#""net", node = 0"#, r#""eth0", node = 1"#)
        .replace("network_paths = [{ device_node = 0", "network_paths = [{ device_node = 1");
    let script = format!("cat >/out/problem.toml <<'END'\n{problem}END\n{MOVER_OF}{OBSERVE_NETWORK_COPY}");
    let modules = ["crc32c_generic", "ext4", "bridge", "veth"];
    let output = lab.run_with_modules(&modules, "uniform-2n", &folder.0, &["sh", "-c", &script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file of results");
    let near = text("near").split_whitespace().last().map(str::to_owned).expect("CPUs");
    for (name, files, by, network, network_by) in [
        ("none", "0-3", "the kernel", "0-3", None),
        ("local", "0-1", "the storage's node", "2-3", Some("the network's node")),
        ("plan", "0", "the plan", "1", Some("the plan")),
        ("model", &near, "the model", "2-3", Some("the network's node")),
    ] {
        let threads = text(&format!("{name}.threads"));
        assert_eq!(cpus_of(&threads, "files "), [files], "{name}: {threads}");
        assert_eq!(cpus_of(&threads, "data "), [network], "{name}: {threads}");
        let events = text(&format!("{name}.events"));
        let event = events.lines().find(|line| line.contains("placement")).expect("an event");
        let event: serde_json::Value = serde_json::from_str(event).expect("an event");
        let cpus: Vec<&str> = network_by.map(|_| network).into_iter().collect();
        let placed = serde_json::json!({"by": network_by.unwrap_or("the kernel"), "cpus": cpus});
        assert_eq!((&event["by"], &event["network"]), (&by.into(), &placed), "{name}: {event}");
    }
}

/// Copies slowly from two disks at the same time, with a daemon that lends the capacity of both,
/// and records threads, pages and the reads of each disk.
const COPY_FROM_TWO_DISKS: &str = r#"
ip link set lo up
for disk in a b; do
    mkdir /$disk; mke2fs /dev/vd$disk >/dev/null; mount -t ext4 /dev/vd$disk /$disk || exit 1
    dd if=/dev/zero of=/$disk/from bs=1M count=48 2>/dev/null
    # The kernel names disks in the order in which it finds them.
    eval node_$disk=$(cat /sys/block/vd$disk/device/../numa_node)
    eval echo \$node_$disk >/out/$disk.node
done
sync; echo 3 >/proc/sys/vm/drop_caches
cd /tmp; numaio keygen key >/dev/null
cat >serve.toml <<END
listen = "127.0.0.1:6862"
key = "/tmp/key"
as_root = true
[local]
socket = "/tmp/broker"
[root.a]
path = "/a"
read = "me"
[user.me]
keys = "$(numaio keygen client_key)"
END
numaio serve --config serve.toml & daemon=$!
for try in $(seq 100); do [ -S /tmp/broker ] && break; sleep 0.2; done
export NUMAIO_BROKER=/tmp/broker
reads() { for disk in a b; do read -r _ _ sectors _ </sys/block/vd$disk/stat; echo $sectors; done; }
for disk in a b; do
    numaio copy --json --no-job --bwlimit 2M /$disk/from to-$disk >/out/$disk.events &
    eval copy_$disk=$!
done
for try in $(seq 60); do
    sleep 1
    for disk in a b; do
        eval mover=\$\(mover_of \$copy_$disk\)
        cp /proc/$mover/numa_maps /out/$disk.pages
        for task in /proc/$mover/task/*; do
            echo $(cat $task/comm): $(grep Cpus_allowed_list $task/status)
        done >/out/$disk.threads
    done 2>/dev/null
    grep -q "bind[^ ]*:$node_a .* N$node_a=" /out/a.pages && grep -q "bind[^ ]*:$node_b .* N$node_b=" /out/b.pages && break
done
numaio jobs queue >/out/queue
reads >/out/before; sleep 2; reads >/out/after
kill $copy_a $copy_b; wait $copy_a $copy_b
kill $daemon; wait $daemon
true
"#;

#[test]
fn transfers_of_two_disks_use_both_from_their_own_nodes() {
    let Some(lab) = Lab::open("transfers_of_two_disks_use_both_from_their_own_nodes") else { return };
    let folder = Folder::new("copy-two");
    let script = format!("{MOVER_OF}{COPY_FROM_TWO_DISKS}");
    let modules = ["crc32c_generic", "ext4"];
    let output = lab.run_with_modules(&modules, "two-disks-2n", &folder.0, &["sh", "-c", &script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap_or_else(|_| panic!("no {name}"));
    let mut nodes = [0, 0];
    for (found, disk) in nodes.iter_mut().zip(["a", "b"]) {
        *found = text(&format!("{disk}.node")).trim().parse().expect("a node");
        let (node, cpus) = if *found == 0 { (0, "0-1") } else { (1, "2-3") };
        let threads = text(&format!("{disk}.threads"));
        // The kernel places the threads of the destination, a file system in memory.
        let placed = cpus_of(&threads, "files ");
        assert!(placed.iter().any(|found| found == cpus), "{disk}: {threads}");
        assert!(placed.iter().all(|found| [cpus, "0-3"].contains(&found.as_str())), "{disk}: {threads}");
        let pages = text(&format!("{disk}.pages"));
        let is_bound = |line: &&str| {
            line.split(' ')
                .nth(1)
                .is_some_and(|word| word.starts_with("bind") && word.ends_with(&format!(":{node}")))
        };
        let bound: Vec<&str> = pages.lines().filter(is_bound).collect();
        let other = format!(" N{}=", 1 - node);
        assert!(!bound.is_empty() && bound.iter().all(|line| !line.contains(&other)), "{disk}: {pages}");
    }
    let sectors =
        |name: &str| -> Vec<u64> { text(name).lines().map(|line| line.parse().expect("sectors")).collect() };
    let (before, after) = (sectors("before"), sectors("after"));
    assert!(before.iter().zip(&after).all(|(before, after)| before < after), "{before:?} {after:?}");
    let queue = text("queue");
    assert!(queue.contains("vda read") && queue.contains("vdb read"), "{queue}");
}
