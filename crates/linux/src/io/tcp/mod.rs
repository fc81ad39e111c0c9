//! TCP streams between two hosts, with threads and buffers placed at both ends.
//!
//! Bytes count at the end that receives them. A [`Server`] runs at the other host; a [`Peer`] is its client's hold on
//! it, one session long. What they say to each other is told in `protocol`.

mod admission;
mod client;
mod control_channel;
mod interface;
mod line_connection;
mod outcome;
mod protocol;
mod server;
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
pub use server::{Server, ServerEvent};
