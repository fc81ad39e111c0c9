//! TCP streams between two hosts, with threads and buffers placed at both ends.
//!
//! Bytes count at the end that receives them. A [`Server`] runs at the other host; a [`Peer`] is its client's hold on
//! it, one session long. What they say to each other is told in `protocol`.

mod client;
mod desk;
mod interface;
mod outcome;
mod protocol;
mod secret;
mod server;
mod session;
mod slices;
mod streams;
mod talk;
mod tools;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Peer, PeerError};
pub use interface::{behind, Behind};
pub use protocol::{About, AboutNode, Interface, PROTOCOL};
pub use server::{Server, Told};
