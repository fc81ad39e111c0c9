//! Resolution of other machines by the routes to them.

use super::walk::{Position, Resource, Walk};
use crate::locate::{LocateError, LocateExt};
use std::net::IpAddr;

/// Maximum number of addresses to try per host.
const MAX_ADDRESSES: usize = 16;

/// Follows a host by name or address: the first address with a route.
pub(super) fn follow(walk: &mut Walk, at: Position, name: &str) {
    // A link-local address includes its interface (RFC 4007).
    if let Some((_, interface)) = name.split_once('%') {
        return walk.follow(at, Resource::Net(interface.to_owned()), "the zone of the address", interface);
    }
    let source = format!("addresses of {name}");
    let addresses = match walk.ground.locate.addresses(name) {
        Ok(addresses) => addresses,
        Err(error) => return locate_failed(walk, at, name, &error),
    };
    let value = addresses.iter().map(IpAddr::to_string).collect::<Vec<String>>().join(" ");
    let has_route = |address: &&IpAddr| walk.ground.locate.routes(**address).is_ok();
    let tried = addresses.iter().take(MAX_ADDRESSES);
    match tried.clone().find(has_route).or(addresses.first()) {
        // An address as text needs no separate step.
        Some(address) if address.to_string() == name => follow_address(walk, at, *address),
        Some(address) => walk.follow(at, Resource::Address(*address), &source, &value),
        None => locate_failed(walk, at, name, &LocateError::Absent(source)),
    }
}

/// Follows an address by the kernel's routes, including policy rules.
pub(super) fn follow_address(walk: &mut Walk, at: Position, address: IpAddr) {
    let routes = match walk.ground.locate.routes(address) {
        Ok(routes) => routes,
        Err(error) => return locate_failed(walk, at, &address.to_string(), &error),
    };
    let at = match routes.len() {
        0 | 1 => at,
        _ => walk.divide(at, "each connection uses one next hop, by the hash of its addresses"),
    };
    for route in routes {
        let mut value = format!("dev {}", route.interface);
        let add = |value: &mut String, word: &str, address: Option<IpAddr>| {
            if let Some(address) = address {
                value.push_str(&format!(" {word} {address}"));
            }
        };
        add(&mut value, "via", route.gateway);
        add(&mut value, "src", route.source);
        value.push_str(&format!(" table {}", route.table));
        if route.weight > 1 {
            value.push_str(&format!(" weight {}", route.weight));
        }
        walk.follow(at, Resource::Net(route.interface), &format!("route to {address}"), &value);
    }
}

/// Reports why a query failed.
pub(super) fn locate_failed(walk: &mut Walk, at: Position, subject: &str, error: &LocateError) {
    let (rule, remedy) = match error {
        LocateError::NotOnTape(_) => {
            ("near-not-on-tape", "Record it with the handle: numaio record --near HANDLE; or name a device.")
        }
        LocateError::NotLive(_) => ("near-not-live", "Name a device, or run numaio on the machine itself."),
        LocateError::Absent(_) => ("near-absent", "Check the spelling."),
        LocateError::Denied(_) => (super::resolved::RULE_DENIED, "Run numaio as its owner or as root."),
        LocateError::NoRoute(_) => ("near-no-route", "Check the routes with ip route get ADDRESS."),
        LocateError::Failed { .. } | LocateError::OtherAnswer(_) => {
            ("near-unanswered", "Name a device instead.")
        }
    };
    let mut what = error.to_string();
    what.push('.');
    walk.dead_end(at, rule, subject, &what, remedy);
}
