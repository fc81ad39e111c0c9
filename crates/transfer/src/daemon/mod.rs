//! The daemon of `numaio serve`: clients copy to and from it without ssh.
//!
//! The listening process ([`run`]) reads only the tickets of data connections
//! (`pending_connections`). Each other connection gets its own process ([`session`]), which
//! authenticates the client and confines itself.

mod accounting;
mod capacity_queue;
pub mod config;
mod device_capacity;
mod error;
pub mod hello;
mod listener;
mod loaded_config;
mod local_connections;
mod local_users;
mod log;
pub mod log_options;
mod notify;
mod open_files;
mod pending_connections;
mod record_writer;
pub mod session;
pub mod session_ipc;
mod session_table;
mod subordinate_ids;

pub use config::Config;
pub use device_capacity::{DeviceCapacity, DirectionCapacity};
pub use error::{count, DaemonError};
pub use listener::run;
pub use loaded_config::LoadedConfig;
pub use log::Log;
