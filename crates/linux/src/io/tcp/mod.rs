//! TCP streams between two hosts, with threads and buffers placed at both ends.
//!
//! The receiving end counts the bytes. A [`Server`] runs on the other host, and a [`Peer`] is the
//! client's session with it. See `protocol` for the messages.

mod admission;
mod client;
mod control_channel;
mod interface;
mod line_connection;
mod outcome;
mod protocol;
mod server;
mod server_event;
mod session;
mod slices;
mod streams;
mod token;
mod tools;

#[cfg(test)]
mod tests;

pub use client::{Peer, PeerError};
pub use interface::{locate_interface, InterfaceLocation};
pub use protocol::{HostInfo, HostNode, Interface, PROTOCOL};
pub use server::Server;
pub use server_event::ServerEvent;
