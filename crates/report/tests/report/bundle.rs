//! Bundles: assignment of documents to machines.

#![allow(clippy::unwrap_used)]

use crate::common::{machines, models};
use numaio_machine::topology::{Identity, Topology};
use numaio_machine::units::BandwidthUnit;
use numaio_report::Bundle;
use numaio_schema::{Document, Model, Quantity, TopologyDocument, View, VIEW_SCHEMA};

fn topology(host: &str) -> Document {
    let mut topology: Topology = machines::uniform();
    topology.identity.hostname = host.into();
    Document::Topology(Box::new(TopologyDocument::new(topology)))
}

fn model(host: &str) -> Document {
    let mut model: Model = models::uniform();
    model.record.provenance.machine = machines::uniform().identity;
    model.record.provenance.machine.hostname = host.into();
    Document::Model(Box::new(model))
}

fn view() -> Document {
    let machine = machines::uniform().identity.fingerprint;
    let text = format!(
        r#"{{"schema": "{VIEW_SCHEMA}", "machine": "{machine}", "name": "slit", "title": "SLIT",
            "quantity": "distance", "target": 0, "nodes": [], "classes": [], "level": 0.1,
            "incomplete": false}}"#
    );
    let view = View::from_json(&text).unwrap();
    assert_eq!(view.quantity, Quantity::Distance);
    Document::View(Box::new(view))
}

/// Returns the hosts of a bundle, with the number of their topologies, models and views.
fn hosts(documents: impl IntoIterator<Item = Document>) -> Vec<(String, usize, usize, usize)> {
    let mut bundle = Bundle::default();
    documents.into_iter().for_each(|document| bundle.add(document).unwrap());
    let counts = bundle.machines.iter().map(|machine| {
        let topologies = usize::from(machine.topology.is_some());
        (machine.hostname.clone(), topologies, machine.models.len(), machine.views.len())
    });
    counts.collect()
}

#[test]
fn machines_with_equal_fingerprints_are_separated_by_host() {
    let host = |name: &str, topologies, models, views| (name.to_owned(), topologies, models, views);
    let two = [topology("a"), model("a"), model("b")];
    assert_eq!(hosts(two), [host("a", 1, 1, 0), host("b", 0, 1, 0)]);
    // Documents without a host name join the only machine, in any order.
    assert_eq!(hosts([topology("a"), model(""), view()]), [host("a", 1, 1, 1)]);
    assert_eq!(hosts([view(), model(""), topology("a")]), [host("a", 1, 1, 1)]);
    // With several candidates they are kept separate.
    let unknown = [topology("a"), topology("b"), model(""), view(), model("a")];
    assert_eq!(hosts(unknown), [host("a", 1, 1, 0), host("b", 1, 0, 0), host("", 0, 1, 1)]);
}

#[test]
fn html_adds_fingerprints_to_equal_machine_names() {
    let page = |fingerprints: &[&str]| {
        let mut bundle = Bundle::default();
        for fingerprint in fingerprints {
            let mut topology: Topology = machines::uniform();
            topology.identity.fingerprint = (*fingerprint).into();
            let document = TopologyDocument::new(topology);
            bundle.add(Document::Topology(Box::new(document))).unwrap();
        }
        numaio_report::html(&bundle, BandwidthUnit::default())
    };
    let two = page(&["0123456789abcdef", "fedcba9876543210"]);
    for fingerprint in ["0123456789abcdef", "fedcba9876543210"] {
        assert!(two.contains(&format!("<code>{fingerprint}</code>")));
        assert!(two.contains(&format!(", {fingerprint}</h2>")), "{fingerprint} is not in a heading");
    }
    let one = page(&["0123456789abcdef"]);
    assert!(one.contains("<code>0123456789abcdef</code>") && !one.contains(", 0123456789abcdef<"));
}

#[test]
fn csv_rows_have_the_host_of_their_measurement() {
    let mut bundle = Bundle::default();
    [topology("a"), model("b")].into_iter().for_each(|document| bundle.add(document).unwrap());
    let csv = numaio_report::csv(&bundle).unwrap();
    let hosts: Vec<&str> = csv.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| *host == "b"), "{csv}");
}

/// Measurements from an earlier host name belong to the machine and are marked with that name.
#[test]
fn add_as_accepts_a_renamed_host() {
    let mut bundle = Bundle::default();
    let own = machines::uniform().identity;
    bundle.add(topology("a")).unwrap();
    let own = Identity { hostname: "a".into(), ..own };
    bundle.add_as(model("b"), &own).unwrap();
    bundle.add(model("a")).unwrap();
    let [machine] = bundle.machines.as_slice() else { panic!("{:?}", bundle.machines) };
    assert_eq!((machine.hostname.as_str(), machine.models.len()), ("a", 2));
    let page = numaio_report::html(&bundle, BandwidthUnit::default());
    assert_eq!((page.matches(", as host b").count(), page.matches(", as host a").count()), (1, 0));
    let text = numaio_report::markdown(&bundle, BandwidthUnit::default());
    assert_eq!((text.matches(" on host b by").count(), text.matches(" on host a").count()), (1, 0), "{text}");
    let csv = numaio_report::csv(&bundle).unwrap();
    let hosts: Vec<&str> = csv.lines().skip(1).filter_map(|line| line.split(',').nth(1)).collect();
    let of = |name: &str| hosts.iter().filter(|host| **host == name).count();
    assert!(of("a") > 0 && of("a") == of("b"), "{csv}");
    // A different fingerprint is a different machine.
    let other = Identity { fingerprint: "another".into(), ..own };
    bundle.add_as(model("c"), &other).unwrap();
    assert_eq!(bundle.machines.len(), 2);
}
