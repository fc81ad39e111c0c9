//! Resolution of user-supplied handles to devices and their nodes.
//!
//! [`resolve`] follows a [`Handle`] through bonds and bridges, volumes and RAID, mounts and routes
//! down to devices. It records every step with its source and value. An unresolvable part is a
//! finding, never an error.

mod block;
mod chain;
mod fabric;
pub(crate) mod file;
mod gpu;
mod handle;
mod host;
mod mapper;
mod md;
mod members;
pub(crate) mod mounts;
mod names;
mod net;
mod paths;
mod process;
mod resolved;
pub(crate) mod servers;
mod shares;
mod sockets;
mod walk;

pub use handle::{Handle, InvalidHandle};
pub use resolved::{NearDevice, NearNode, Resolved, Step, RULE_DENIED, RULE_UNKNOWN};
pub use sockets::OwnConnections;
pub use walk::ResolveContext;

/// Resolves the open files and connections of one process of several.
///
/// `own` holds the connections of this process's network namespace, which the kernel takes
/// milliseconds to list. The processes of that namespace share it.
pub fn resolve_process(ground: ResolveContext<'_>, pid: u32, own: &OwnConnections) -> Resolved {
    let mut walk = walk::Walk::new(ground);
    walk.own_connections = Some(own);
    walk.start(walk::Resource::Process(pid));
    walk.finish(&Handle::Process(pid))
}

/// Resolves a handle; never fails, because unresolvable parts become findings.
pub fn resolve(ground: ResolveContext<'_>, handle: &Handle) -> Resolved {
    let mut walk = walk::Walk::new(ground);
    match handle {
        Handle::Pci(address) => names::pci(&mut walk, *address),
        Handle::Name(name) => names::name(&mut walk, name),
        Handle::Path(path) => walk.start(walk::Resource::Path(path.clone())),
        Handle::Host { name, .. } => walk.start(walk::Resource::Host(name.clone())),
        Handle::Cuda(number) => gpu::cuda(&mut walk, *number),
        Handle::Gpu(uuid) => gpu::uuid(&mut walk, uuid),
        Handle::Process(pid) => walk.start(walk::Resource::Process(*pid)),
    }
    walk.finish(handle)
}
