//! Receive side scaling of network interfaces: the indirection table, by the ioctl interface of
//! ethtool (include/uapi/linux/ethtool.h). The netlink interface can change it only since Linux
//! 6.17 (Documentation/networking/ethtool-netlink.rst, `RSS_SET`).

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{socket, AddressFamily, SocketType};
use std::ffi::c_char;

/// `ETHTOOL_GRXFHINDIR`: read the table.
const READ_TABLE: u32 = 0x38;
/// `ETHTOOL_SRXFHINDIR`: write the table.
const WRITE_TABLE: u32 = 0x39;
/// Maximum number of entries.
const MAX_ENTRIES: u32 = 65_536;

/// Reads the receive queue of each entry of an interface's indirection table.
///
/// # Errors
/// `EOPNOTSUPP` without receive side scaling, `ENODEV` without the interface.
pub fn receive_table(interface: &str) -> Result<Vec<u32>, Errno> {
    let control = Control::open()?;
    // A size of 0 asks for the size.
    let mut request = vec![READ_TABLE, 0];
    control.call(interface, &mut request)?;
    let entries = request[1];
    if entries == 0 || entries > MAX_ENTRIES {
        return Err(Errno::OPNOTSUPP);
    }
    let mut request = vec![0; entries as usize + 2];
    (request[0], request[1]) = (READ_TABLE, entries);
    control.call(interface, &mut request)?;
    Ok(request.split_off(2))
}

/// Writes the receive queue of each entry of an interface's indirection table.
///
/// # Errors
/// As [`receive_table`]; `EPERM` without CAP_NET_ADMIN, `EINVAL` if the number of entries is
/// another one or a queue does not exist.
pub fn set_receive_table(interface: &str, queues: &[u32]) -> Result<(), Errno> {
    // An empty table would ask for the default.
    let entries = u32::try_from(queues.len()).map_err(|_| Errno::INVAL)?;
    if entries == 0 || entries > MAX_ENTRIES {
        return Err(Errno::INVAL);
    }
    let mut request = vec![WRITE_TABLE, entries];
    request.extend(queues);
    Control::open()?.call(interface, &mut request)
}

/// A socket for requests.
struct Control(OwnedFd);

impl Control {
    fn open() -> Result<Self, Errno> {
        socket(AddressFamily::INET, SocketType::DGRAM, None).map(Self)
    }

    /// Sends a request, which the kernel overwrites with the answer. A request for a table with
    /// more entries than the size in it is rejected by the kernel.
    fn call(&self, interface: &str, request: &mut [u32]) -> Result<(), Errno> {
        // SAFETY: an ifreq of zeros is valid.
        let mut target: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = interface.as_bytes();
        if name.is_empty() || name.len() >= target.ifr_name.len() || name.contains(&0) {
            return Err(Errno::NODEV);
        }
        for (to, from) in target.ifr_name.iter_mut().zip(name) {
            *to = *from as c_char;
        }
        target.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
        // SAFETY: the kernel reads the name, and reads and writes at most the two words and the
        // entries that the request's second word states, all of which the slice has.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut target) };
        match result {
            -1 => Err(std::io::Error::last_os_error()
                .raw_os_error()
                .map_or(Errno::IO, Errno::from_raw_os_error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_without_tables_are_errors() {
        assert_eq!(receive_table("nosuch0"), Err(Errno::NODEV));
        assert_eq!(receive_table("a-name-of-more-than-15-bytes"), Err(Errno::NODEV));
        assert_eq!(receive_table("lo"), Err(Errno::OPNOTSUPP));
        assert_eq!(set_receive_table("lo", &[]), Err(Errno::INVAL));
        assert!(set_receive_table("lo", &[0, 0]).is_err());
    }
}
