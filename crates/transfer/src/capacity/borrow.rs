//! Borrows capacity of this host's broker for a transfer, and waits until it may begin.

use super::link::{CapacityLink, CurrentRate};
use super::local_broker::{self, SubmittedTransfer};
use super::messages::{CapacityReply, LocalTransfer};
use crate::endpoint::{Endpoint, Host};
use crate::keys::KnownDaemons;
use crate::reporter::{Notice, Reporter};
use crate::transfer::Transfer;
use crate::TransferError;
use numaio_linux::interrupt::interrupted;
use numaio_mover_linux::port::net::PublicKey;
use numaio_schema::TransferDirection;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the wait looks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the far side of a transfer waits for its share: the other host waits for it.
const FAR_SIDE_PATIENCE: Duration = Duration::from_secs(2);
/// Name of the broker in messages.
const THIS_HOST: &str = "this host's daemon";

/// The capacity that this host's broker lends.
pub struct Borrowed {
    link: CapacityLink,
    /// Name of this host's daemon, if the other host may lend capacity, too.
    pub host: Option<String>,
}

impl Borrowed {
    /// Returns the present rate.
    pub fn current(&self) -> Arc<CurrentRate> {
        self.link.current()
    }
}

/// Waits until this host's broker lets the transfer begin; `None` if there is no broker.
///
/// # Errors
/// An interrupt.
pub fn borrow(transfer: &Transfer, reporter: &mut Reporter<'_>) -> Result<Option<Borrowed>, TransferError> {
    // Without a daemon, the usual case, the transfer need not be described: that resolves a name.
    let is_absent = |path: &&PathBuf| path.try_exists().is_ok_and(|exists| !exists);
    let Some(path) = transfer.broker.as_ref().filter(|path| !is_absent(path)) else { return Ok(None) };
    let borrowed = SubmittedTransfer::submit(path, &description(transfer))
        .and_then(|submitted| wait_for_turn(submitted, reporter));
    match borrowed {
        Ok(borrowed) => Ok(Some(borrowed)),
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            Err(TransferError::InterruptedBeforeReply { host: THIS_HOST.to_owned() })
        }
        // The daemon has ended.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => {
            reporter.notice(Notice::NoCapacity { why: error.to_string() });
            Ok(None)
        }
    }
}

/// Shares the devices of this host as the far side of a transfer that reads or writes these paths;
/// `None` if there is no broker, or it does not reply.
pub fn share_as_far_side(paths: &[&[u8]], direction: TransferDirection) -> Option<CapacityLink> {
    let broker = local_broker::socket().filter(|path| path.exists())?;
    let mut file_systems: Vec<_> =
        paths.iter().filter_map(|path| Some((file_system(path)?, direction))).collect();
    file_systems.dedup();
    let transfer = LocalTransfer {
        file_systems,
        network: ssh_address().map(|address| (address, direction.opposite())),
        rate_limit: None,
        peer: None,
        is_far_side: true,
    };
    let deadline = Instant::now() + FAR_SIDE_PATIENCE;
    let mut submitted = SubmittedTransfer::submit(&broker, &transfer).ok()?;
    while Instant::now() < deadline {
        if let Some(CapacityReply::Lent(lent)) = submitted.next(POLL_INTERVAL).ok()? {
            return submitted.begin(lent).ok();
        }
    }
    None
}

/// Returns the address of this host in the connection of sshd, which states both ends in
/// `SSH_CONNECTION` (ssh(1)).
fn ssh_address() -> Option<IpAddr> {
    std::env::var("SSH_CONNECTION").ok()?.split_whitespace().nth(2)?.parse().ok()
}

/// Waits until the transfer may begin. If the other host reserves its devices first, this host
/// must not be waited for: the transfer connects, and waits before its first data.
fn wait_for_turn(mut submitted: SubmittedTransfer, reporter: &mut Reporter<'_>) -> io::Result<Borrowed> {
    let (mut host, mut must_wait) = (None, true);
    loop {
        let reply = submitted.next(POLL_INTERVAL)?;
        if interrupted() {
            return Err(ErrorKind::Interrupted.into());
        }
        reporter.alive();
        let lent = match reply {
            None => continue,
            Some(CapacityReply::Order { host: name, is_first }) => {
                (host, must_wait) = (Some(name), is_first);
                continue;
            }
            Some(CapacityReply::Lent(lent)) => lent,
            Some(CapacityReply::Refused(why)) => return Err(io::Error::other(why)),
            Some(CapacityReply::ForPeer(_) | CapacityReply::Transfers(_)) => {
                return Err(io::Error::new(ErrorKind::InvalidData, "unexpected reply"));
            }
        };
        if !must_wait || lent.state.has_threads() {
            return Ok(Borrowed { link: submitted.begin(lent)?, host });
        }
        let (host, position) = (THIS_HOST.to_owned(), lent.position.unwrap_or(1));
        reporter.notice(Notice::Queued { host, position, why: lent.reason, starts_in: lent.starts_in });
    }
}

/// Returns the other host, and what this one does with the files; `None` within this host.
fn other_host(transfer: &Transfer) -> Option<(&Host, TransferDirection)> {
    let source = transfer.sources.first().and_then(|source| source.host.as_ref());
    let to = transfer.destination.host.as_ref().map(|host| (host, TransferDirection::Write));
    to.or_else(|| source.map(|host| (host, TransferDirection::Read)))
}

/// Returns the key of a host's daemon, if it is known.
fn key_of(host: &Host, trusted: Option<PublicKey>) -> Option<String> {
    let Host::Daemon(address) = host else { return None };
    let known = KnownDaemons::read().ok().and_then(|known| known.keys(&address.host_port()).ok());
    known.and_then(|keys| keys.first().copied()).or(trusted).map(|key| key.to_string())
}

/// Describes what a transfer uses of this host.
fn description(transfer: &Transfer) -> LocalTransfer {
    let local = |ends: &[Endpoint], direction| -> Vec<(u64, TransferDirection)> {
        let local = ends.iter().filter(|end| end.host.is_none());
        local.filter_map(|end| Some((file_system(&end.path)?, direction))).collect()
    };
    let mut file_systems = local(&transfer.sources, TransferDirection::Read);
    file_systems.extend(local(std::slice::from_ref(&transfer.destination), TransferDirection::Write));
    file_systems.dedup();
    let other = other_host(transfer);
    LocalTransfer {
        file_systems,
        network: other.and_then(|(host, direction)| Some((address_towards(host)?, direction))),
        rate_limit: transfer.options.bytes_per_second,
        peer: other.and_then(|(host, _)| key_of(host, transfer.network.trust)),
        is_far_side: false,
    }
}

/// Returns the number of the file system of a path or, if it does not exist yet, of its directory.
fn file_system(path: &[u8]) -> Option<u64> {
    let path = std::path::absolute(OsStr::from_bytes(path)).ok()?;
    path.ancestors().find_map(|path: &Path| path.metadata().ok()).map(|metadata| metadata.dev())
}

/// Returns the address from which this host would reach another one.
fn address_towards(host: &Host) -> Option<IpAddr> {
    let mut addresses = match host {
        Host::Daemon(address) => (address.host.as_str(), address.port).to_socket_addrs().ok()?,
        Host::Ssh(name) => (name.rsplit('@').next()?, 22).to_socket_addrs().ok()?,
    };
    let to = addresses.next()?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel chooses the route when a datagram socket is connected; it sends nothing.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
