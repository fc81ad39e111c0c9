//! The addresses on which a daemon listens.

use super::table_reader::{Located, TableReader};
use crate::daemon_address::DEFAULT_PORT as DAEMON_PORT;
use std::net::{Ipv6Addr, SocketAddr};

/// Returns the configured addresses, or the default: all addresses of this machine.
pub fn addresses(fields: &mut TableReader<'_, '_>) -> Vec<Located<SocketAddr>> {
    let is_set = fields.has("listen");
    let texts = fields.texts("listen");
    if texts.is_empty() {
        if is_set {
            fields.error_at(fields.line(), "listen is empty; remove it to listen on all addresses");
        }
        let default = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DAEMON_PORT));
        return vec![Located { value: default, line: 1 }];
    }
    let mut addresses: Vec<Located<SocketAddr>> = Vec::new();
    for Located { value, line } in texts {
        match value.parse() {
            Ok(value) => {
                let other = addresses.iter().find(|other| overlap(other.value, value));
                match other.map(|other| other.value) {
                    Some(other) if other == value => {
                        fields.error_at(line, &format!("listen: {value} is listed twice"));
                    }
                    Some(other) => {
                        fields.error_at(line, &format!("listen: {other} and {value} overlap"))
                    }
                    None => addresses.push(Located { value, line }),
                }
            }
            Err(_) => fields.error_at(
                line,
                &format!(
                    "listen: expected an address with a port such as \"192.0.2.1:6862\" or \"[::]:6862\", got {value:?}"
                ),
            ),
        }
    }
    addresses
}

/// Whether both addresses cannot be bound together: `[::]` includes all IPv4 addresses. Port 0 is
/// any free port.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let holds =
        |all: SocketAddr, other: SocketAddr| all.ip().is_unspecified() && (all.is_ipv6() || other.is_ipv4());
    let same_port = one.port() == other.port() && one.port() != 0;
    one == other || same_port && (holds(one, other) || holds(other, one))
}
