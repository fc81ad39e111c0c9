//! What options of `numaio plan` say: names with sizes, nodes with cores.

use numaio_machine::ids::NodeId;
use numaio_machine::near::{Handle, InvalidHandle};
use numaio_machine::units::parse_size;

/// `nvme0n1=2TB`.
pub fn data(text: &str) -> Result<(Handle, u64), String> {
    let (handle, size) = text
        .rsplit_once('=')
        .ok_or_else(|| format!("{text:?} has no size; write it as nvme0n1=2TB or /data=500G"))?;
    Ok((handle.parse().map_err(|error: InvalidHandle| error.to_string())?, parse_size(size)?))
}

/// `eth0=12.5GB`, a second.
pub fn capacity(text: &str) -> Result<(String, u64), String> {
    let (name, size) =
        text.rsplit_once('=').ok_or_else(|| format!("{text:?} has no size; write it as eth0=12.5GB"))?;
    Ok((name.to_owned(), parse_size(size)?))
}

/// `0:2`.
pub fn reserve(text: &str) -> Result<(NodeId, u32), String> {
    let wrong = || format!("{text:?} is no NODE:CORES, as in 0:2");
    let (node, cores) = text.split_once(':').ok_or_else(wrong)?;
    Ok((NodeId(node.parse().map_err(|_| wrong())?), cores.parse().map_err(|_| wrong())?))
}
