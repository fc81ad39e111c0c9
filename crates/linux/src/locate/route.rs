//! Route lookup by the kernel, with its policy rules, tables and next hops.

use super::rtnetlink::{reply, request, Reply, Route, FIB_MATCH, LOOKUP_TABLE};
use numaio_machine::locate::RouteFacts;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{retry_on_intr, Errno};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::IpAddr;

/// Maximum reply size: a multipath route has about 24 bytes per next hop, and hundreds are allowed.
const MAX_REPLY: usize = 64 << 10;

/// Returns the next hops of the route to an address.
///
/// # Errors
/// `ENETUNREACH`, `EHOSTUNREACH`, `EACCES` or `EINVAL` as stated by a route, or without a route.
pub fn routes(to: IpAddr) -> Result<Vec<RouteFacts>, Errno> {
    // NETLINK_ROUTE is protocol 0.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let first = query(&socket, to, None, LOOKUP_TABLE)?;
    // Like connect(2): once a source address is chosen, the rules for that source apply.
    let source = first.source;
    let route = match source {
        Some(_) => query(&socket, to, source, LOOKUP_TABLE).unwrap_or(first),
        None => first,
    };
    // The lookup returns one next hop, the table all of them. Only the lookup maps a local address
    // to `lo`.
    let whole =
        query(&socket, to, source, FIB_MATCH | LOOKUP_TABLE).ok().filter(|whole| whole.next_hops.len() > 1);
    let route = whole.unwrap_or(route);
    let facts = |route: Route| -> Result<Vec<RouteFacts>, Errno> {
        let next_hops = route.next_hops.iter().map(|next_hop| {
            let interface = rustix::net::netdevice::index_to_name(&socket, next_hop.interface)?;
            let (gateway, weight) = (next_hop.gateway, next_hop.weight);
            Ok(RouteFacts { interface, gateway, source: route.source.or(source), table: route.table, weight })
        });
        next_hops.collect()
    };
    facts(route)
        .and_then(|next_hops| if next_hops.is_empty() { Err(Errno::NETUNREACH) } else { Ok(next_hops) })
}

fn query(socket: &OwnedFd, to: IpAddr, from: Option<IpAddr>, flags: u32) -> Result<Route, Errno> {
    let message = request(to, from, flags);
    retry_on_intr(|| rustix::net::send(socket.as_fd(), &message, SendFlags::empty()))?;
    let mut buffer = vec![0; MAX_REPLY];
    let (count, _) =
        retry_on_intr(|| rustix::net::recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty()))?;
    match reply(&buffer[..count]) {
        Reply::Route(route) => Ok(route),
        Reply::Error(number) => Err(Errno::from_raw_os_error(number)),
        Reply::Other => Err(Errno::BADMSG),
    }
}
