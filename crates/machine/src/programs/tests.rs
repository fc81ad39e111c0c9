use super::*;
use crate::ids::{CpuId, NodeId};
use crate::sysfs::{ReadError, Sysfs, SysfsExt};
use crate::tree::Tree;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// A program of a tree: id, CPU, ticks, bytes read from storage.
struct Program {
    pid: u32,
    start: u64,
    flags: u64,
    cpu: u32,
    ticks: u64,
    read: u64,
}

impl Program {
    fn new(pid: u32) -> Self {
        Self { pid, start: 500, flags: 0, cpu: 0, ticks: 0, read: 0 }
    }

    fn write(&self, tree: &mut Tree) {
        let Self { pid, start, flags, cpu, ticks, read } = self;
        let stat = format!(
            "{pid} (dd) R 1 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 0 0{} 17 {cpu} 0 0\n",
            " 0".repeat(13)
        );
        tree.file(&format!("/proc/{pid}/stat"), stat.clone());
        tree.file(&format!("/proc/{pid}/task/{pid}/stat"), stat);
        let status = "Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0-3\nRssAnon:\t40 kB\n";
        tree.file(&format!("/proc/{pid}/status"), status);
        tree.file(&format!("/proc/{pid}/task/{pid}/status"), status);
        let io = format!("rchar: {read}\nwchar: 0\nread_bytes: {read}\nwrite_bytes: 0\n");
        tree.file(&format!("/proc/{pid}/io"), io);
        tree.file(&format!("/proc/{pid}/cgroup"), "0::/a.service\n");
        let numa_maps = "1000 default heap anon=10 dirty=10 N2=10 kernelpagesize_kB=4\n";
        tree.file(&format!("/proc/{pid}/numa_maps"), numa_maps);
    }
}

/// A tree that counts reads of each path.
#[derive(Default)]
struct CountingTree {
    tree: Tree,
    reads: RefCell<BTreeMap<String, u32>>,
}

impl CountingTree {
    fn reads_of(&self, path: &str) -> u32 {
        self.reads.borrow().get(path).copied().unwrap_or(0)
    }
}

impl Sysfs for CountingTree {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        *self.reads.borrow_mut().entry(path.to_owned()).or_default() += 1;
        self.tree.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.tree.list(path)
    }
    fn resolve(&self, path: &str) -> Result<String, ReadError> {
        self.tree.resolve(path)
    }
}

fn node_of(cpu: CpuId) -> Option<NodeId> {
    Some(NodeId(cpu.0 / 2))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn rates_are_differences_by_node_and_counter() {
    let mut root = CountingTree::default();
    let mut program = Program { cpu: 5, ..Program::new(7) };
    let mut watch = ProgramWatch::new(WatchOptions { all_active: true, ..WatchOptions::default() });
    program.write(&mut root.tree);
    let first = watch.observe(&root, &[7, 8], seconds(0), &node_of);
    assert_eq!((first.len(), first[0].rates.clone()), (1, None));
    program.ticks = 150;
    program.read = 40_000_000;
    program.write(&mut root.tree);
    let second = watch.observe(&root, &[7], seconds(2), &node_of);
    let rates = second[0].rates.clone().expect("two samples");
    assert_eq!((rates.cpus, rates.cpus_on), (0.75, BTreeMap::from([(NodeId(2), 0.75)])));
    assert_eq!(rates.io.map(|io| (io.storage_read, io.storage_write)), Some((20e6, 0.0)));
    let sample = &second[0].sample;
    assert_eq!(sample.memory.as_ref().map(|memory| memory.private[&NodeId(2)]), Some(40 << 10));
    let details = sample.details.as_ref().expect("an active program");
    assert_eq!((details.threads.len(), details.control_group.as_deref()), (1, Some("/a.service")));
    assert_eq!(details.status.anonymous_bytes, 40 << 10);
}

#[test]
fn reused_process_id_has_no_rates() {
    let mut root = CountingTree::default();
    let mut watch = ProgramWatch::default();
    Program { read: 900, ..Program::new(7) }.write(&mut root.tree);
    watch.observe(&root, &[7], seconds(0), &node_of);
    Program { start: 900, ticks: 50, ..Program::new(7) }.write(&mut root.tree);
    assert_eq!(watch.observe(&root, &[7], seconds(2), &node_of)[0].rates, None);
}

#[test]
fn idle_programs_and_kernel_threads_are_read_rarely() {
    let mut root = CountingTree::default();
    let mut busy = Program::new(10);
    for program in [&Program::new(7), &Program { flags: 0x0020_0000, ..Program::new(8) }, &busy] {
        program.write(&mut root.tree);
    }
    let mut watch = ProgramWatch::default();
    let rounds = 16;
    for round in 0..rounds {
        busy.ticks += 100;
        busy.write(&mut root.tree);
        let found = watch.observe(&root, &[7, 8, 10], seconds(2 * round), &node_of);
        assert_eq!(found.iter().map(|program| program.sample.pid).collect::<Vec<u32>>(), [7, 10]);
        assert_eq!(found[1].is_active, round > 0, "the first round has no rates");
    }
    assert_eq!(root.reads_of("/proc/8/stat"), 1, "kernel threads are remembered");
    assert_eq!(root.reads_of("/proc/7/stat"), 16);
    assert!(root.reads_of("/proc/7/io") <= 5, "{}", root.reads_of("/proc/7/io"));
    assert_eq!((root.reads_of("/proc/7/status"), root.reads_of("/proc/7/numa_maps")), (0, 0));
    assert_eq!(root.reads_of("/proc/10/io"), 16);
    assert!((2..=4).contains(&root.reads_of("/proc/10/numa_maps")));
    watch.expire_memory(10);
    let before = root.reads_of("/proc/10/numa_maps");
    busy.ticks += 100;
    busy.write(&mut root.tree);
    watch.observe(&root, &[10], seconds(2 * rounds), &node_of);
    assert_eq!(root.reads_of("/proc/10/numa_maps"), before + 1);
}

/// Rates of a program whose I/O counters were read in an earlier round cover the time between
/// reads.
#[test]
fn rates_of_rarely_read_counters_cover_their_interval() {
    let mut root = CountingTree::default();
    let mut program = Program::new(7);
    let mut watch = ProgramWatch::default();
    let mut rates = Vec::new();
    for round in 0..20 {
        program.read = round * 8_000_000;
        program.write(&mut root.tree);
        let found = watch.observe(&root, &[7], seconds(2 * round), &node_of);
        rates.extend(found[0].rates.as_ref().and_then(|rates| rates.io).map(|io| io.storage_read));
    }
    assert!(rates.len() > 8 && rates.iter().all(|rate| *rate == 4e6), "{rates:?}");
}

#[test]
fn movable_ranges_need_readable_files() {
    let mut tree = Tree::new();
    Program::new(7).write(&mut tree);
    assert_eq!(read_movable_ranges(&tree, 7, false, false), None);
    tree.file("/proc/7/maps", "1000-b000 rw-p 00000000 00:00 0 [heap]\n");
    assert_eq!(
        read_movable_ranges(&tree, 7, false, false),
        Some(vec![std::ops::Range { start: 0x1000, end: 0xb000 }])
    );
    assert_eq!(read_movable_ranges(&tree, 7, true, false), None, "locked ranges are unknown");
    tree.file("/proc/7/smaps", "1000-b000 rw-p 00000000 00:00 0 [heap]\nVmFlags: rd wr lo\n");
    assert_eq!(read_movable_ranges(&tree, 7, true, false), Some(Vec::new()));
    assert!(read_counters(&tree, 7).is_ok_and(|sample| sample.io.is_some() && sample.details.is_none()));
    assert!(read_counters(&tree, 9).is_err() && tree.exists("/proc/7/io"));
}
