//! Applies changes to a machine and undoes them.
//!
//! Other crates decide which changes to make. This crate applies them completely or not at all, and
//! records them in a [`numaio_schema::Receipt`], so that they can be undone, also after a crash.

mod changes;
mod guests;
pub mod irq;
mod relocation;
mod status;
mod verify;

pub use changes::{
    apply, relocate, undo, without_reassigned, without_unmovable, ApplyError, ReassignedIrq, RelocationReport,
};
pub use guests::{check_guest, guest_memory_changes, guest_thread_changes, GuestChangeError, GuestCheck};
pub use relocation::{relocation_changes, RelocatedProcess};
pub use status::{status, used_devices};
pub use verify::PlacementWatch;
