//! Where the threads of data connections run: by a plan, or near the network interface that data goes through.

use super::place::Seen;
use super::planned::Planned;
use numaio_linux::port::Crew;
use numaio_machine::near::{Handle, Resolved};
use numaio_machine::set::CpuSet;
use serde_json::{json, Value};
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

    /// Places for connections to an address, beside the threads of `crews`, and what is to be said of them.
    pub fn new(
        seen: &Seen,
        peer: Option<IpAddr>,
        plan: Option<&Planned>,
        crews: &[Crew],
    ) -> (Self, Option<String>) {
        let found = peer.map(|peer| seen.found(&Handle::Host { name: peer.to_string(), port: None }));
        if let Some(plan) = plan {
            let devices = found.as_ref().map(|found| seen.devices(found)).unwrap_or_default();
            let taken = crews.iter().flat_map(|crew| &crew.cpus);
            let taken = taken.fold(CpuSet::new(), |all, cpus| all.union(cpus));
            let (places, note) = plan.network(&seen.topology, &devices, &taken);
            if !places.is_empty() {
                return (Self { by: "the plan", places }, note);
            }
        }
        let cpus = found.map(|found| near(seen, &found)).unwrap_or_default();
        match cpus.is_empty() {
            true => (Self::anywhere(), None),
            false => (Self { by: "the network's node", places: vec![cpus] }, None),
        }
    }

    /// For programs.
    pub fn event(&self) -> Value {
        let cpus: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        json!({"by": self.by, "cpus": cpus})
    }

    /// For people.
    pub fn line(&self) -> String {
        let places: Vec<String> = self.places.iter().map(cpus_in_words).collect();
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
