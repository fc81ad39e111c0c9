//! Parsers of option values of `numaio plan`: names with sizes, nodes with cores.

use numaio_machine::ids::NodeId;
use numaio_machine::near::{Handle, InvalidHandle};
use numaio_machine::units::parse_size;

/// Parses `HANDLE=SIZE`, for example `nvme0n1=2TB`.
///
/// # Errors
/// A message: no size, an invalid handle or an invalid size.
pub fn data(text: &str) -> Result<(Handle, u64), String> {
    let (handle, size) = text
        .rsplit_once('=')
        .ok_or_else(|| "expected HANDLE=SIZE, for example nvme0n1=2TB or /data=500G".to_owned())?;
    Ok((handle.parse().map_err(|error: InvalidHandle| error.to_string())?, parse_size(size)?))
}

/// Parses `DEV=SIZE`, bytes per second, for example `eth0=12.5GB`.
///
/// # Errors
/// A message: no size or an invalid size.
pub fn capacity(text: &str) -> Result<(String, u64), String> {
    let (name, size) =
        text.rsplit_once('=').ok_or_else(|| "expected DEV=SIZE, for example eth0=12.5GB".to_owned())?;
    Ok((name.to_owned(), parse_size(size)?))
}

/// Parses `NODE:CORES`, for example `0:2`.
///
/// # Errors
/// A message: text of another form.
pub fn reserve(text: &str) -> Result<(NodeId, u32), String> {
    let invalid = || "expected NODE:CORES, for example 0:2".to_owned();
    let (node, cores) = text.split_once(':').ok_or_else(invalid)?;
    Ok((NodeId(node.parse().map_err(|_| invalid())?), cores.parse().map_err(|_| invalid())?))
}
