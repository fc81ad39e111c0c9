//! Network interfaces (`Documentation/ABI/testing/sysfs-class-net`,
//! `Documentation/networking/bonding.rst`).

use crate::near::ResolveContext;
use crate::sysfs::{ReadErrorKind, Sysfs, SysfsExt};

/// Directory of the interfaces.
const NET: &str = "/sys/class/net";

/// An interface of a device, or a bond of interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Its name.
    pub name: String,
    /// Interfaces of a bond; empty for an interface of a device.
    pub members: Vec<String>,
    /// Whether it has a link.
    pub link: LinkState,
    /// Speed in bits per second, if the kernel reports it.
    pub bits_per_s: Option<u64>,
    /// Index of its device in the topology; `None` for a bond.
    pub device: Option<usize>,
}

/// Whether an interface has a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It has a link.
    Up,
    /// It has no link, or is disabled.
    Down,
    /// Unknown, as on a machine whose recording lacks it.
    Unknown,
}

/// Returns the names of all interfaces, virtual ones included.
pub fn interface_names(root: &dyn Sysfs) -> Vec<String> {
    root.names(NET)
}

/// Reads the interfaces of devices, and the bonds, by name.
pub(super) fn read(context: ResolveContext<'_>) -> Vec<NetworkInterface> {
    let root = context.root;
    root.names(NET).into_iter().filter_map(|name| interface(context, root, name)).collect()
}

fn interface(context: ResolveContext<'_>, root: &dyn Sysfs, name: String) -> Option<NetworkInterface> {
    let path = root.resolve(&format!("{NET}/{name}")).ok()?;
    let device = context.topology.device_at(&path);
    let members = root.optional(&format!("{path}/bonding/slaves")).unwrap_or_default();
    let members: Vec<String> = members.split_whitespace().map(str::to_owned).collect();
    if device.is_none() && members.is_empty() {
        return None;
    }
    let bits_per_s = speed(root, &path);
    let link = match root.text(&format!("{path}/carrier")) {
        Ok(text) if text == "1" => LinkState::Up,
        Ok(_) => LinkState::Down,
        // The kernel rejects the read while the interface is disabled.
        Err(error) if matches!(error.why, ReadErrorKind::Failed(_)) => LinkState::Down,
        Err(_) if bits_per_s.is_some() => LinkState::Up,
        Err(_) => LinkState::Unknown,
    };
    Some(NetworkInterface { name, members, link, bits_per_s, device })
}

/// Returns the speed; the kernel reports -1 if it is unknown, old kernels as an unsigned number.
fn speed(root: &dyn Sysfs, path: &str) -> Option<u64> {
    let megabits: u64 = root.value(&format!("{path}/speed")).ok()?;
    let unknown = [0, u64::from(u16::MAX), u64::from(u32::MAX)].contains(&megabits);
    (!unknown).then(|| megabits.checked_mul(1_000_000)).flatten()
}
