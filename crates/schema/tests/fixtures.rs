//! Documents of released versions are still read. A fixture is never changed: a new version gets a new one.

use numaio_machine::control::Change;
use numaio_machine::ids::NodeId;
use numaio_schema::{Model, NotThatDocument, Receipt, Record, TopologyDocument};

#[test]
fn a_model_of_version_1_is_read() {
    let model = Model::from_json(include_str!("fixtures/model-1.json")).expect("a model");
    let classes: Vec<String> =
        model.targets[0].directions[0].classes.iter().map(|class| class.nodes.to_string()).collect();
    assert_eq!((model.targets[0].target, classes), (NodeId(0), vec!["0".into(), "1".into(), "2-3".into()]));
}

#[test]
fn a_record_of_version_1_is_read() {
    let record = Record::from_json(include_str!("fixtures/record-1.json")).expect("a record");
    assert_eq!(record.cells.len(), 7);
    assert!(record.complete && record.cells.iter().all(|cell| cell.bytes_copied_per_s.is_some()));
}

#[test]
fn a_topology_of_version_1_is_read() {
    let document = TopologyDocument::from_json(include_str!("fixtures/topology-1.json")).expect("a topology");
    assert_eq!(document.topology.nodes.len(), 4);
    assert_eq!(document.topology.device_nodes().to_string(), "0,2");
}

#[test]
fn a_receipt_of_version_1_is_read() {
    let receipt = Receipt::from_json(include_str!("fixtures/receipt-1.json")).expect("a receipt");
    assert_eq!(receipt.applied[0].inverse, Change::NumaBalancing { mode: 1 });
}

#[test]
fn other_documents_and_versions_are_refused_by_name() {
    let refused = |text: &str| Model::from_json(text).expect_err("no model of version 1");
    let later = include_str!("fixtures/model-1.json").replacen("numaio/model/1", "numaio/model/2", 1);
    assert!(matches!(refused(&later), NotThatDocument::Other { found, .. } if found == "numaio/model/2"));
    let record = include_str!("fixtures/record-1.json");
    assert!(matches!(refused(record), NotThatDocument::Other { found, .. } if found == "numaio/record/1"));
    assert!(matches!(refused("{}"), NotThatDocument::Malformed { .. }));
}
