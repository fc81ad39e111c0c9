//! Pages stay clean and within their width, and drawings well-formed, for arbitrary names.

#![allow(clippy::unwrap_used)]

use crate::common::{machines, models};
use numaio_report::{model_text, topology_svg, topology_text, Detail, TextStyle};
use numaio_schema::MachineExpectation;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

/// Arbitrary characters, with more dangerous ones.
fn name() -> impl Strategy<Value = String> {
    let dangerous = prop::sample::select(vec![
        '\x1b', '\n', '\r', '\t', '\u{9b}', '\u{202e}', '\u{200d}', '<', '&', ',', '"',
    ]);
    prop::collection::vec(prop_oneof![3 => any::<char>(), 1 => dangerous, 2 => Just(' ')], 0..160)
        .prop_map(|chars| chars.into_iter().collect())
}

fn check(page: &str, width: usize) -> Result<(), TestCaseError> {
    for line in page.lines() {
        prop_assert!(line.width() <= width, "{} columns: {:?}", line.width(), line);
        prop_assert_eq!(line, line.trim_end());
    }
    let hidden = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
    };
    prop_assert!(!page.contains(hidden));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pages_and_drawings_stay_well_formed(names in prop::collection::vec(name(), 12), width in 76usize..160) {
        let mut machine = machines::hostile();
        let mut names = names.into_iter();
        let mut next = || names.next().unwrap();
        machine.identity.product = next();
        machine.identity.hostname = next();
        machine.nodes[0].memory_kind = Some(next());
        machine.devices[0].names = vec![next(), next()];
        machine.devices[0].driver = Some(next());
        machine.devices[1].model = next();
        machine.devices[2].path = next();
        machine.findings[0].message = next();
        machine.confinement.sources = vec![next()];
        let style = TextStyle { width, ..TextStyle::default() };
        check(&topology_text(&machine, &MachineExpectation::default(), Detail::Complete, &style), width)?;
        let svg = topology_svg(&machine);
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{}", svg);

        let mut model = models::doubtful();
        model.record.provenance.machine = machine.identity.clone();
        model.record.provenance.warnings[0].message = next();
        model.targets[0].devices = vec![next()];
        check(&model_text(&model, &style), width)?;
    }
}
