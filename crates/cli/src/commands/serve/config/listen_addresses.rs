//! Where a daemon listens, by its file.

use super::table_reader::{Located, TableReader};
use crate::commands::copy::DAEMON_PORT;
use std::net::{Ipv6Addr, SocketAddr};

/// All addresses that a file names, else all of this machine.
pub fn addresses(fields: &mut TableReader<'_, '_>) -> Vec<Located<SocketAddr>> {
    let is_set = fields.has("listen");
    let texts = fields.texts("listen");
    if texts.is_empty() {
        if is_set {
            fields.error_at(
                fields.line(),
                "listen names no address; without it the daemon listens at all of them",
            );
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
                        fields.error_at(line, &format!("listen: {value} is there twice"));
                    }
                    Some(other) => {
                        fields.error_at(line, &format!("listen: {other} and {value} are the same in part"))
                    }
                    None => addresses.push(Located { value, line }),
                }
            }
            Err(_) => fields.error_at(
                line,
                &format!(
                    "listen: {value:?} is no address with a port, as \"192.0.2.1:6862\" or \"[::]:6862\""
                ),
            ),
        }
    }
    addresses
}

/// Whether nobody can listen at both: all addresses of IPv6 are those of IPv4, too. Port 0 is any that is free.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let holds =
        |all: SocketAddr, other: SocketAddr| all.ip().is_unspecified() && (all.is_ipv6() || other.is_ipv4());
    let same_port = one.port() == other.port() && one.port() != 0;
    one == other || same_port && (holds(one, other) || holds(other, one))
}
