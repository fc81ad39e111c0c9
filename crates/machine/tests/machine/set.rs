//! Text formats of id sets: round trips and hostile input.

use numaio_machine::ids::MAX_ID;
use numaio_machine::ids::{CpuId, Id};
use numaio_machine::set::CpuSet;
use proptest::prelude::*;

fn any_set() -> impl Strategy<Value = CpuSet> {
    let id = prop_oneof![0..200u32, 0..=MAX_ID];
    proptest::collection::btree_set(id, 0..60).prop_map(|ids| ids.into_iter().map(CpuId).collect())
}

/// Formats a mask independently of the parser.
fn mask_of(set: &CpuSet) -> String {
    let words = set.iter().next_back().map_or(1, |last| last.0 / 32 + 1);
    let word =
        |word: u32| set.iter().filter(|id| id.0 / 32 == word).map(|id| 1u32 << (id.0 % 32)).sum::<u32>();
    (0..words).rev().map(|index| format!("{:08x}", word(index))).collect::<Vec<_>>().join(",")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn list_round_trips(set in any_set()) {
        prop_assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set.clone()));
        let json = serde_json::to_string(&set).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<CpuSet>(&json).expect("a set"), set);
    }

    #[test]
    fn mask_round_trips(set in any_set()) {
        let set: CpuSet = set.iter().filter(|id| id.0 < MAX_ID).collect();
        prop_assert_eq!(CpuSet::parse_mask(&mask_of(&set)), Ok(set));
    }

    #[test]
    fn list_is_minimal(set in any_set()) {
        let runs = set.iter().filter(|id| id.0 == 0 || !set.contains(CpuId(id.0 - 1))).count();
        let parts = set.to_string().split(',').filter(|part| !part.is_empty()).count();
        prop_assert_eq!(parts, runs);
    }

    #[test]
    fn set_operations_obey_set_laws(a in any_set(), b in any_set()) {
        let (union, both) = (a.union(&b), a.intersection(&b));
        prop_assert_eq!(union.len() + both.len(), a.len() + b.len());
        prop_assert_eq!(a.difference(&b).union(&both), a.clone());
        prop_assert!(both.is_subset(&a) && a.is_subset(&union));
        prop_assert_eq!(union.first(), a.first().into_iter().chain(b.first()).min());
    }

    #[test]
    fn parse_never_panics(text in "[-0-9a-fx,:/ +]{0,40}") {
        let _ = CpuSet::parse_list(&text);
        let _ = CpuSet::parse_mask(&text);
    }

    /// Checks the kernel's definition: the first `used` ids of each group.
    #[test]
    fn strides_count_from_the_first_id(first in 0..100u32, length in 0..100u32, used in 1..10u32, more in 0..10u32) {
        let (last, group) = (first + length, used + more);
        let read = CpuSet::parse_list(&format!("{first}-{last}:{used}/{group}")).expect("a list");
        let wanted: CpuSet = (0..=length).filter(|step| step % group < used).map(|step| CpuId(first + step)).collect();
        prop_assert_eq!(read, wanted);
    }
}

#[test]
fn bounds_work_for_hostile_text() {
    // Work that grows with ranges and ids together, or with the square of either, would not end
    // here.
    let many = vec![format!("0-{MAX_ID}"); 1 << 20].join(",");
    assert!(CpuSet::parse_list(&many).is_err());
    assert!(CpuSet::parse_list(&vec!["7"; 1 << 20].join(",")).is_err(), "a million repeated ids");
    assert!(CpuSet::parse_mask(&vec!["ffffffff"; 1 << 20].join(",")).is_err());
    assert!(CpuSet::parse_list(&"9".repeat(1 << 20)).is_err());
    assert_eq!(CpuSet::parse_list(&format!("0-{MAX_ID}")).expect("the largest").len(), MAX_ID as usize + 1);
}

#[test]
fn rejects_signs_and_words() {
    for text in ["+1", "1-+2", "0-3:+1/2", "all", "N", "0x1", "1-2-3", "1-", "0-1:2/1", "0-1:1/0"] {
        assert!(CpuSet::parse_list(text).is_err(), "{text}");
    }
    for text in ["+1", "-1", "1,+1", "0x", "0x+1", "g"] {
        assert!(CpuSet::parse_mask(text).is_err(), "{text}");
    }
    assert_eq!(
        CpuSet::parse_mask("0x3,0x1").expect("a prefix on each word, as some tools write it").len(),
        3
    );
    assert_eq!(CpuId::from_number(3).number(), 3);
}
