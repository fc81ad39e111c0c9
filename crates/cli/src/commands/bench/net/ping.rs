//! `numaio bench net --ping` and `bench rdma --ping`: latency of messages by node of both ends.

use super::endpoints::{local_device, Endpoints};
use crate::commands::bench::shared::{measure_one, BoundsArgs};
use crate::commands::measuring::{self, MeasuredMachine};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Common;
use crate::store::Kind;
use numaio_linux::io::tcp::interface_by_address;
use numaio_machine::near::ResolveContext;
use numaio_machine::topology::Topology;
use numaio_machine::workload::Rail;
use numaio_measure::{PingEngine, PingOptions};
use numaio_report::ping_text;
use numaio_schema::{PingRail, PingRecord};
use std::net::IpAddr;

/// Maximum number of rails.
const MAX_RAILS: usize = 8;

/// Resolves the rails of the command line to their devices.
pub fn rails(context: ResolveContext, requested: &[Rail], peer: &str) -> Result<Vec<PingRail>, Failure> {
    if requested.len() == 1 || requested.len() > MAX_RAILS {
        return Err(Failure::usage(format!("expected 2 to {MAX_RAILS} --rail, got {}", requested.len()))
            .hint("without --rail, the path of the session is measured"));
    }
    let rail = |rail: &Rail| {
        let name = interface_by_address(rail.local).ok_or_else(|| {
            Failure::usage(format!("no interface of this machine has the address {} of --rail", rail.local))
                .hint("ip address lists them")
        })?;
        Ok(PingRail { rail: *rail, device: local_device(context, &name, peer) })
    };
    requested.iter().map(rail).collect()
}

/// Parses `ADDRESS=PEER`.
pub fn rail(text: &str) -> Result<Rail, String> {
    let wrong = || format!("expected ADDRESS=PEER, as in 192.0.2.1=192.0.2.2, got '{text}'");
    let (local, remote) = text.split_once('=').ok_or_else(wrong)?;
    let parse = |address: &str| address.parse::<IpAddr>().map_err(|_| wrong());
    let (local, remote) = (parse(local)?, parse(remote)?);
    match local.is_ipv4() == remote.is_ipv4() {
        true => Ok(Rail { local, remote }),
        false => Err(format!("the addresses of '{text}' are of different families")),
    }
}

/// Measures, shows, writes and saves latency.
pub fn measure(
    common: &Common,
    machine: &Machine,
    topology: &Topology,
    bounds: &BoundsArgs,
    endpoints: &Endpoints,
    (engine, options): (&PingEngine, &PingOptions),
) -> Result<PingRecord, Failure> {
    let devices = endpoints.devices.clone();
    let measure = |setting: MeasuredMachine| {
        measuring::measure_ping(common, setting, machine.time(), engine, devices, options)
    };
    let of = (machine, topology, Kind::Ping);
    measure_one(common, of, bounds.keep(), measure, |record| &record.provenance, ping_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rails() {
        let parsed = rail("192.0.2.1=192.0.2.2").expect("a rail");
        assert_eq!(parsed.to_string(), "192.0.2.1=192.0.2.2");
        assert!(rail("2001:db8::1=2001:db8::2").is_ok());
        for wrong in ["", "=", "192.0.2.1", "192.0.2.1=", "192.0.2.1=x", "192.0.2.1=2001:db8::2", "eth0=eth1"]
        {
            assert!(rail(wrong).is_err(), "{wrong}");
        }
    }
}
