//! The request that describes a transfer to both sides, and the sides that it sets up.

mod capabilities;
mod destination;
mod directory_marker;
mod owners;
mod sides;
mod transfer_request;

pub use capabilities::Capabilities;
pub use directory_marker::DestinationMarkers;
pub use transfer_request::{TransferRequest, VERSION};
