//! Discovery of devices by one or more threads.

use super::device::Device;
use super::locality::Localities;
use super::names::{self, Group, Owner};
use super::pci_address::PciAddress;
use super::read::{self, Reader};
use super::{irqs, pci};
use crate::ids::NodeId;
use crate::set::CpuSet;
use crate::sysfs::Sysfs;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Finds the devices that move data and the bridges above them; `topology` has no devices yet.
///
/// Returns each PCI function once, by address, then other devices by path. Never fails: unreadable
/// or implausible attributes are omitted.
pub fn read(root: &dyn Sysfs, nodes: &[(NodeId, &CpuSet)]) -> Vec<Device> {
    let scan = Scan::new(root);
    let functions = scan.functions(root);
    let bridges = Bridges::above(&functions).read(root);
    scan.finish(root, nodes, functions.into_iter().chain(bridges))
}

/// Queue of work items for several threads.
struct Queue<T> {
    items: Vec<T>,
    next: AtomicUsize,
}

impl<T> Queue<T> {
    fn new(items: Vec<T>) -> Self {
        Self { items, next: AtomicUsize::new(0) }
    }

    /// Returns the remaining items.
    fn take(&self) -> impl Iterator<Item = &T> {
        iter::from_fn(|| self.items.get(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

/// State of a discovery.
pub(crate) struct Scan {
    functions: Queue<(PciAddress, Option<Group>)>,
    /// Named devices outside of PCI, by path.
    others: Vec<(String, Group)>,
    /// Interrupt names by number.
    interrupts: HashMap<u32, String>,
}

impl Scan {
    /// Lists functions and names.
    pub fn new(root: &dyn Sysfs) -> Self {
        let mut groups = names::collect(root);
        let functions = all_functions(root, &groups)
            .into_iter()
            .map(|address| (address, groups.remove(&Owner::Pci(address))))
            .collect();
        let others = groups.into_iter().filter_map(|(owner, group)| match owner {
            Owner::Pci(_) => None,
            Owner::Other(path) => Some((path, group)),
        });
        Self {
            functions: Queue::new(functions),
            others: others.collect(),
            interrupts: irqs::interrupt_names(root),
        }
    }

    /// Reads functions until none remain for this thread.
    pub fn functions(&self, root: &dyn Sysfs) -> Vec<Device> {
        let mut reader = Reader::new(root, &self.interrupts);
        self.functions
            .take()
            .filter_map(|(address, group)| reader.function(*address, group.as_ref()))
            .collect()
    }

    /// Combines the results of all threads: functions first, then bridges.
    pub fn finish(
        &self,
        root: &dyn Sysfs,
        nodes: &[(NodeId, &CpuSet)],
        found: impl Iterator<Item = Device>,
    ) -> Vec<Device> {
        let mut functions: BTreeMap<PciAddress, Device> =
            found.filter_map(|device| Some((device.pci?, device))).collect();
        read::join_virtual_functions(&mut functions);
        read::name_cuda_devices(&mut functions);
        let others = self.others.iter().filter_map(|(path, group)| read::other(root, path, group));
        let mut devices: Vec<Device> = functions.into_values().chain(others).collect();
        let mut localities = Localities::new(root, nodes.to_vec());
        for device in &mut devices {
            device.locality = localities.of(device);
        }
        devices
    }
}

/// The bridges above functions, by address, with their paths.
pub(crate) struct Bridges(Queue<(PciAddress, String)>);

impl Bridges {
    /// Lists the bridges above functions.
    pub fn above(functions: &[Device]) -> Self {
        let mut above = BTreeMap::new();
        for (bridge, path) in functions.iter().flat_map(|device| pci::upstream(&device.path)) {
            above.entry(bridge).or_insert_with(|| path.to_owned());
        }
        Self(Queue::new(above.into_iter().collect()))
    }

    /// Reads bridges until none remain for this thread.
    pub fn read(&self, root: &dyn Sysfs) -> Vec<Device> {
        self.0.take().filter_map(|(address, path)| read::bridge(root, *address, path)).collect()
    }
}

/// Returns the functions that the kernel lists and those with a named child.
fn all_functions(root: &dyn Sysfs, groups: &BTreeMap<Owner, Group>) -> BTreeSet<PciAddress> {
    let named = groups.keys().filter_map(|owner| match owner {
        Owner::Pci(address) => Some(*address),
        Owner::Other(_) => None,
    });
    named.chain(pci::functions(root)).collect()
}
