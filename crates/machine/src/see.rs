//! Looking at a whole machine.

use crate::sysfs::Sysfs;
use crate::topology::Topology;
use crate::{conditions, devices, findings, topology};
use std::panic::resume_unwind;
use std::thread;

/// Reads everything below `root`: nodes, devices, and what looks wrong with them.
///
/// Never fails: what cannot be read is absent from the result or stands among its findings. Nodes and devices
/// are read at the same time, as a large machine has tens of thousands of files.
pub fn see(root: &(dyn Sysfs + Sync)) -> Topology {
    let (mut machine, mut devices) = thread::scope(|scope| {
        let devices = scope.spawn(|| devices::scan(root));
        let machine = topology::read(root);
        (machine, devices.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    devices::locate(root, &machine, &mut devices);
    machine.devices = devices;
    machine.identity.fingerprint = topology::fingerprint(&machine);
    let found = findings::find(&machine, &conditions::read(root));
    machine.findings.extend(found);
    machine
        .findings
        .sort_by(|a, b| (b.severity, &a.rule, &a.subject).cmp(&(a.severity, &b.rule, &b.subject)));
    machine
}

/// Whether there are files of a machine below this root at all.
pub fn is_machine(root: &dyn Sysfs) -> bool {
    root.list("/sys").is_ok() || root.list("/proc").is_ok()
}
