//! Generators for the property tests of this crate.

use crate::name::Name;
use proptest::prelude::*;

/// Returns the configuration. Failing seeds are not stored in files: a failure prints its case.
pub fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Generates a byte, mostly one with a special meaning in names.
pub fn odd_byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(b'/'), 4 => Just(b'.'), 4 => Just(b'a'), 1 => Just(0), 2 => any::<u8>()]
}

/// Generates a valid component of a name.
pub fn component() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => b'a'..=b'c', 1 => Just(b'.'), 1 => any::<u8>()];
    proptest::collection::vec(byte, 1..6)
        .prop_filter("a component", |bytes| Name::new(bytes.as_slice()).is_ok() && !bytes.contains(&b'/'))
}

/// Generates a name, possibly the root.
pub fn name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(component(), 0..5).prop_map(|components| {
        components.iter().fold(Name::root(), |name, component| name.join(component).expect("a short name"))
    })
}
