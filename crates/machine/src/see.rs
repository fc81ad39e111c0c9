//! Looking at a whole machine.

use crate::sysfs::Sysfs;
use crate::topology::Topology;
use crate::{conditions, devices, findings, topology};

/// Reads everything below `root`: nodes, devices, and what looks wrong with them.
///
/// Never fails: what cannot be read is absent from the result or stands among its findings.
pub fn see(root: &dyn Sysfs) -> Topology {
    let mut machine = topology::read(root);
    machine.devices = devices::read(root, &machine);
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
