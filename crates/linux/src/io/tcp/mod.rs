//! TCP streams between two hosts, with threads and buffers placed at both ends.
//!
//! The receiving end counts the bytes. [`serve_session`] runs on the other host, and a [`Peer`] is
//! the client's end of that session. See [`protocol`] for the messages. Callers open and
//! authenticate all connections ([`ControlStreams`], [`StreamListener`], [`StreamConnector`]).

mod client;
mod connections;
mod control_channel;
mod interface;
mod line_connection;
mod outcome;
mod ping;
pub mod protocol;
mod session;
mod slices;
mod streams;
mod tools;

pub use client::{Peer, PeerError};
pub use connections::{ControlStreams, IncomingStreams, StreamConnector, StreamEndpoint, StreamListener};
pub use interface::{by_address as interface_by_address, locate_interface, InterfaceLocation};
pub use line_connection::ConnectionError;
pub use protocol::{HostInfo, HostNode, Interface, PROTOCOL};
pub use session::serve_session;
