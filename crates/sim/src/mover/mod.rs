//! A simulated file system for movers: it forgets what was not synced, and keeps what it kept in another order.
//!
//! A disk has two states: what programs see, and what is durable. Every change is made to what programs see, and
//! waits to become durable. `fsync` of a file makes its content and attributes durable (not its name), `syncfs`
//! everything. When the power is lost, each change that waits is kept or lost by chance, so that a rename may be kept
//! and the data before it lost; a write may be kept in part. When a process is killed, nothing is lost that was done,
//! and what was under way is done in part.
//!
//! Allowed faults end there: a durable change is never lost, and a file system is never damaged.

mod disk;
mod operate;
mod state;

pub use disk::{Chance, Disk};
pub use state::{Inode, Kind, Object};
