//! Files in TOML that users and administrators write for commands: settings, limits of a balancer,
//! guests and planning problems.

use crate::displayed_text::is_displayable;
use numaio_cli::text_files::{parse_guests, parse_problem, parse_settings, BalanceConfig};
use numaio_machine::printable::printable;

/// Parses the input as each of these files.
pub fn text_files(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse_settings(text) {
        // The values become environment variables.
        Ok(settings) => assert!(settings.iter().all(|(_, value)| !value.contains('\0')), "{settings:?}"),
        Err(fault) => check(&fault),
    }
    let faults = [
        BalanceConfig::parse(text).err(),
        parse_guests(text).err(),
        parse_problem(text).err().map(|(fault, _)| fault),
    ];
    faults.iter().flatten().for_each(|fault| check(fault));
}

/// Asserts that a fault can be shown.
fn check(fault: &str) {
    assert!(!fault.is_empty() && is_displayable(&printable(fault)), "{fault:?}");
}

/// Returns a file of each kind, and one with all settings.
pub fn seeds() -> Vec<Vec<u8>> {
    let settings = "unit = \"Gbit/s\"\ncolor = \"never\"\ntime-limit = 9.5\nhash = \"blake3\"\nstreams = 3\n\
        ssh = \"ssh -x\"\nbroker = \"/b\\u0001\"\n";
    // Names of users would be looked up.
    let balance =
        "horizon = 30\nlimit = \"1G\"\n[allow]\nunits = [\"db.service\"]\n[deny]\ncommands = [\"dd\"]\n";
    let guests = example(include_str!("../../docs/guide/vm.md"), "[[guest]]");
    let problem = example(include_str!("../../docs/internals/planning.md"), "direction");
    [settings, balance, guests, problem].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Returns the first TOML text of a page that contains some text.
fn example(page: &'static str, part: &str) -> &'static str {
    let mut texts = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    texts.find(|text| text.contains(part)).expect("an example")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_parsed() {
        let seeds = seeds();
        let [settings, balance, guests, problem] =
            [0, 1, 2, 3].map(|at| std::str::from_utf8(&seeds[at]).expect("text"));
        assert_eq!(parse_settings(settings).map(|settings| settings.len()), Ok(7));
        assert!(BalanceConfig::parse(balance).is_ok());
        assert!(parse_guests(guests).is_ok_and(|file| !file.guest.is_empty()));
        assert!(parse_problem(problem).is_ok());
    }
}
