//! Looking at a whole machine.

use crate::devices::{Bridges, Device, Scan};
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use crate::{conditions, findings, topology};
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// Reads everything below `root`: nodes, devices, and what looks wrong with them.
///
/// Never fails: what cannot be read is absent from the result or stands among its findings. Two threads share
/// the work, as a large machine has tens of thousands of files.
pub fn see(root: &(dyn Sysfs + Sync)) -> Topology {
    let scan = OnceLock::new();
    let functions = || scan.get_or_init(|| Scan::new(root)).functions(root);
    let ((mut machine, some), others) = both(|| (topology::read(root), functions()), functions);
    let functions: Vec<Device> = some.into_iter().chain(others).collect();
    let bridges = Bridges::above(&functions);
    let (some, (conditions, others)) =
        both(|| bridges.read(root), || (conditions::read(root), bridges.read(root)));
    let scan = scan.get_or_init(|| Scan::new(root));
    let found = functions.into_iter().chain(some).chain(others);
    machine.devices = scan.finish(root, &machine, found);
    machine.identity.fingerprint = topology::fingerprint(&machine);
    let found = findings::find(&machine, &conditions);
    machine.findings.extend(found);
    machine
        .findings
        .sort_by(|a, b| (b.severity, &a.rule, &a.subject).cmp(&(a.severity, &b.rule, &b.subject)));
    machine
}

/// Does two things at the same time, the first in this thread.
fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let second = scope.spawn(second);
        let first = first();
        (first, second.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Whether there are files of a machine below this root at all.
pub fn is_machine(root: &dyn Sysfs) -> bool {
    root.list("/sys/devices/system").is_ok() || root.read("/proc/cpuinfo").is_ok()
}
