//! Where the threads of data connections run: by a plan, or near the network interface that data goes through.

use super::place::Seen;
use super::planned::Planned;
use numaio_linux::port::WorkerGroup;
use numaio_machine::devices::Device;
use numaio_machine::near::{Handle, Resolved};
use numaio_machine::set::CpuSet;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where the threads of data connections run.
#[derive(Debug)]
pub struct Network {
    by: &'static str,
    /// CPUs, which threads take in turn; anywhere if there are none.
    pub places: Vec<CpuSet>,
}

impl Network {
    /// Wherever the kernel likes.
    pub fn anywhere() -> Self {
        Self { by: "the kernel", places: Vec::new() }
    }

    /// Places for connections to addresses, beside the threads of `worker_groups`, and what is to be said of them.
    pub fn new(
        seen: &Seen,
        peers: &[Option<IpAddr>],
        plan: Option<&Planned>,
        worker_groups: &[WorkerGroup],
    ) -> (Self, Option<String>) {
        let found: BTreeMap<IpAddr, Resolved> = peers
            .iter()
            .flatten()
            .map(|peer| (*peer, seen.found(&Handle::Host { name: peer.to_string(), port: None })))
            .collect();
        if let Some(plan) = plan {
            let devices: Vec<&Device> = found.values().flat_map(|found| seen.devices(found)).collect();
            let taken = worker_groups.iter().flat_map(|crew| &crew.cpus);
            let taken = taken.fold(CpuSet::new(), |all, cpus| all.union(cpus));
            let (places, note) = plan.network(&seen.topology, &devices, &taken);
            if !places.is_empty() {
                return (Self { by: "the plan", places }, note);
            }
        }
        let near: BTreeMap<IpAddr, CpuSet> =
            found.iter().map(|(peer, found)| (*peer, near(seen, found))).collect();
        let of = |peer: &Option<IpAddr>| near.get(peer.as_ref()?).filter(|cpus| !cpus.is_empty()).cloned();
        let mut places: Vec<Option<CpuSet>> = peers.iter().map(of).collect();
        if places.iter().all(|place| Some(place) == places.first()) {
            places.truncate(1);
        }
        (Self::by_nodes(seen, places), None)
    }

    /// A place for each connection, or one for all if it is the same. What has none runs on any of our CPUs.
    fn by_nodes(seen: &Seen, places: Vec<Option<CpuSet>>) -> Self {
        if places.iter().all(Option::is_none) {
            return Self::anywhere();
        }
        let nodes = seen.topology.nodes.iter();
        let any = nodes.fold(CpuSet::new(), |all, node| all.union(&seen.topology.usable_cpus(node.id)));
        let places = places.into_iter().map(|place| place.unwrap_or_else(|| any.clone())).collect();
        Self { by: "the network's node", places }
    }

    /// For programs.
    pub fn event(&self) -> Value {
        let cpus: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        json!({"by": self.by, "cpus": cpus})
    }

    /// For people.
    pub fn line(&self) -> String {
        let mut places: Vec<String> = Vec::new();
        for place in self.places.iter().map(cpus_in_words) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        match &places[..] {
            [] => "data connections on any CPU".to_owned(),
            places => format!("data connections on {}, placed by {}", places.join(" and "), self.by),
        }
    }
}

/// CPUs that we may use of the nodes of what carries the data; one that stands by does not.
fn near(seen: &Seen, found: &Resolved) -> CpuSet {
    let nodes = found.nodes.iter().filter(|near| near.share > 0.0);
    nodes.fold(CpuSet::new(), |all, near| all.union(&seen.topology.usable_cpus(near.node)))
}

/// CPUs, as they are told to people.
pub fn cpus_in_words(cpus: &CpuSet) -> String {
    let s = if cpus.len() == 1 { "" } else { "s" };
    format!("CPU{s} {cpus}")
}
