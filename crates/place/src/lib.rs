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

pub use changes::{apply, undo, without_reassigned, without_unmovable, ApplyError, ReassignedIrq};
pub use guests::{check_guest, guest_changes, GuestChangeError, GuestChanges, GuestCheck};
pub use relocation::{relocate, relocation_changes, RelocatedProcess, RelocationReport};
pub use status::{status, used_devices};
pub use verify::PlacementWatch;
