//! TCP data connections, authenticated through a control channel.
//!
//! One side opens a [`DataListener`], the other one starts [`OutgoingConnections`]. [`Credentials`]
//! authenticate a connection: with TLS the public keys that both sides exchanged through the
//! control channel, otherwise a shared secret. Each connection carries data in one direction, so
//! that no connection is shared between a sending and a receiving thread.
//! `docs/internals/protocol.md` specifies the bytes.

mod connect;
pub mod control;
mod credentials;
mod data_listener;
mod data_stream;
mod deadline;
mod full_notice;
mod keepalive;
mod net_error;
mod shared_secret;
mod tcp_tuning;
#[cfg(test)]
mod tests;
mod ticket;
mod tls;

pub use connect::{connect, OutgoingConnections};
pub use credentials::Credentials;
pub use data_listener::DataListener;
pub use data_stream::DataStream;
pub use full_notice::{FullNotice, FullReason};
pub use net_error::NetError;
pub use shared_secret::{InvalidSecret, Secret};
pub(super) use tcp_tuning::{limit_unsent, min_round_trip, UnpacedPhase};
pub use tcp_tuning::{listen, restore_congestion_control};
pub use ticket::{hand_over, receive_socket, Ticket};
pub use tls::{InvalidPrivateKey, InvalidPublicKey, KeyPair, PrivateKey, PublicKey};

/// Maximum number of connections of a transfer; fewer than the buffers of a [`super::Pool`].
pub const MAX_STREAMS: usize = 33;
