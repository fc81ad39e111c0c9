//! Finding the devices, by one thread or several.

use super::locality::Localities;
use super::names::{self, Group, Owner};
use super::read::{self, Reader};
use super::{irqs, pci, Device, PciAddress};
use crate::sysfs::Sysfs;
use crate::topology::Topology;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Finds devices that move data and the bridges above them; `topology` lacks devices yet.
///
/// PCI functions come first, by address, then other devices by path. Each PCI function stands there once.
/// Never fails: an attribute that cannot be read, or is no sense, is absent from the device.
pub fn read(root: &dyn Sysfs, topology: &Topology) -> Vec<Device> {
    let scan = Scan::new(root);
    let functions = scan.functions(root);
    let bridges = Bridges::above(&functions).read(root);
    scan.finish(root, topology, functions.into_iter().chain(bridges))
}

/// Work that threads take from as they are free.
struct Queue<T> {
    items: Vec<T>,
    next: AtomicUsize,
}

impl<T> Queue<T> {
    fn new(items: Vec<T>) -> Self {
        Self { items, next: AtomicUsize::new(0) }
    }

    /// What no thread has taken yet.
    fn take(&self) -> impl Iterator<Item = &T> {
        iter::from_fn(|| self.items.get(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A search for devices.
pub(crate) struct Scan {
    functions: Queue<(PciAddress, Option<Group>)>,
    /// What is named and not on PCI, by path.
    others: Vec<(String, Group)>,
    /// Names of interrupts by number.
    interrupts: HashMap<u32, String>,
}

impl Scan {
    /// Finds which functions and names there are.
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

    /// Reads the functions that no other thread has taken.
    pub fn functions(&self, root: &dyn Sysfs) -> Vec<Device> {
        let mut reader = Reader::new(root, &self.interrupts);
        self.functions
            .take()
            .filter_map(|(address, group)| reader.function(*address, group.as_ref()))
            .collect()
    }

    /// Puts together what all threads found: functions first, then bridges.
    pub fn finish(
        &self,
        root: &dyn Sysfs,
        topology: &Topology,
        found: impl Iterator<Item = Device>,
    ) -> Vec<Device> {
        let mut functions: BTreeMap<PciAddress, Device> =
            found.filter_map(|device| Some((device.pci?, device))).collect();
        read::join_virtual_functions(&mut functions);
        read::name_cuda_devices(&mut functions);
        let others = self.others.iter().filter_map(|(path, group)| read::other(root, path, group));
        let mut devices: Vec<Device> = functions.into_values().chain(others).collect();
        let mut localities = Localities::new(root, topology);
        for device in &mut devices {
            device.locality = localities.of(device);
        }
        devices
    }
}

/// The bridges above functions, by address, each with its path.
pub(crate) struct Bridges(Queue<(PciAddress, String)>);

impl Bridges {
    pub fn above(functions: &[Device]) -> Self {
        let mut above = BTreeMap::new();
        for (bridge, path) in functions.iter().flat_map(|device| pci::upstream(&device.path)) {
            above.entry(bridge).or_insert_with(|| path.to_owned());
        }
        Self(Queue::new(above.into_iter().collect()))
    }

    /// Reads the bridges that no other thread has taken.
    pub fn read(&self, root: &dyn Sysfs) -> Vec<Device> {
        self.0.take().filter_map(|(address, path)| read::bridge(root, *address, path)).collect()
    }
}

/// Functions the kernel lists, and those that something named lies below.
fn all_functions(root: &dyn Sysfs, groups: &BTreeMap<Owner, Group>) -> BTreeSet<PciAddress> {
    let named = groups.keys().filter_map(|owner| match owner {
        Owner::Pci(address) => Some(*address),
        Owner::Other(_) => None,
    });
    named.chain(pci::functions(root)).collect()
}
