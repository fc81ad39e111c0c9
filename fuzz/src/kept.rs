//! Files that are kept: that of a daemon, and those that numaio writes and reads again, which others may have damaged.

use crate::words::is_harmless;
use numaio_cli::decoders::{self, Config, ConfigError};
use numaio_linux::port::net::PublicKey;
use std::path::Path;

const KEY: &str = "ed25519:fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
const SCHEME: &[u8] = b"numaio://";

/// The file of a daemon.
pub fn serve_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = text.matches('\n').count() + 1;
    let read = Config::parse(text);
    match &read {
        Ok(config) => check(config, lines),
        Err(faults) => {
            assert!(!faults.is_empty() && faults.is_sorted());
            for ConfigError { line, text } in faults {
                assert!((1..=lines).contains(line), "line {line} of {lines}: {text}");
                assert!(!text.is_empty() && is_harmless(text), "{text:?}");
            }
        }
    }
    // A mark of the order of bytes is one at the beginning alone.
    if text.starts_with('\u{feff}') {
        return;
    }
    match (read, Config::parse(&format!("\n{text}"))) {
        (Ok(config), Ok(lower)) => {
            assert_eq!((lower.key.line, lower.key.value), (config.key.line + 1, config.key.value));
            assert_eq!((lower.users, lower.limits), (config.users, config.limits));
        }
        (Err(faults), Err(lower)) => {
            // What the whole file lacks is told at its first line.
            let same = |fault: &ConfigError| {
                let at = |line| lower.contains(&ConfigError { line, text: fault.text.clone() });
                at(fault.line + 1) || fault.line == 1 && at(1)
            };
            assert!(faults.len() == lower.len() && faults.iter().all(same), "{faults:?} {lower:?}");
        }
        _ => panic!("an empty line above changes nothing"),
    }
}

/// All that a file says holds what its documentation promises.
fn check(config: &Config, lines: usize) {
    let is_line = |line| (1..=lines).contains(&line);
    assert!(!config.listen.is_empty() && config.listen.iter().all(|at| is_line(at.line)));
    assert!(config.key.value.is_absolute() && is_line(config.key.line));
    assert!(config.stop.as_secs() <= 86_400);
    let limits = &config.limits;
    assert!((1..=4_096).contains(&limits.connections) && (1..=4_096).contains(&limits.per_address));
    assert!((1..=600).contains(&limits.opening.as_secs()));
    let is_name = |name: &str| !name.is_empty() && name.len() <= 64 && name.is_ascii() && is_harmless(name);
    for (name, root) in &config.roots {
        assert!(is_name(name) && root.path.value.is_absolute() && is_line(root.path.line), "{name:?}");
        assert!(Path::new(name).components().count() == 1 && name != "." && name != "..", "{name:?}");
    }
    for (name, user) in &config.users {
        assert!(is_name(name) && !user.keys.is_empty(), "{name:?}");
        assert!(
            user.keys.iter().all(|key| config.user(*key).is_some_and(|(owner, _)| owner == name)),
            "{name}"
        );
        assert!((1..=32).contains(&user.streams) && (1..=4_096).contains(&user.sessions));
        assert_ne!(user.bytes_per_second, Some(0));
    }
}

/// What numaio wrote, and reads again.
pub fn kept(input: &[u8]) {
    if let Some(key) = PublicKey::from_der(input) {
        assert_eq!(key.to_string().parse(), Ok(key), "a key can be read as it is written");
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    known(text);
    private(text);
    job(text);
}

/// A daemon's address, and below it a list of those that are known. A key that is added is found by its address, and nothing
/// else is.
fn known(text: &str) {
    let (address, list) = text.split_once('\n').unwrap_or((text, ""));
    let Ok((written, place)) = decoders::address(address.as_bytes()) else { return };
    let rest = written.strip_prefix(SCHEME).expect("it begins with its scheme");
    assert_eq!(decoders::address(rest), Ok((written.clone(), place.clone())), "it is read as it is written");
    let key: PublicKey = KEY.parse().expect("a key");
    let more = decoders::with_known_key(list, &place, key);
    match decoders::known_keys(list, &place) {
        Ok(mut keys) => {
            let other = "other.example:1";
            if place != other {
                assert_eq!(decoders::known_keys(&more, other), decoders::known_keys(list, other));
            }
            keys.push(key);
            assert_eq!(decoders::known_keys(&more, &place), Ok(keys));
        }
        Err(words) => {
            let line = words.split(' ').find_map(|word| word.parse().ok()).expect("the number of a line");
            assert!((1..=list.lines().count()).contains(&line) && is_harmless(&words), "{words:?}");
            assert_eq!(decoders::known_keys(&more, &place), Err(words), "what is wrong stays so");
        }
    }
}

/// A private key is shown to nobody, and taken for no public one.
fn private(text: &str) {
    match decoders::private_key(text) {
        Ok((key, public)) => {
            assert!(key.text().parse::<PublicKey>().is_err());
            assert_eq!(decoders::private_key(&key.text()).map(|(_, public)| public), Ok(public));
            assert!(text.to_lowercase().contains(&key.text()), "it is what stands there");
        }
        Err(words) => assert!(words.len() < 100 && is_harmless(&words), "{words:?}"),
    }
}

/// A job is noted as it was read, and harmless when it is shown.
fn job(text: &str) {
    match decoders::job(text) {
        Ok((again, shown, command)) => {
            let (third, _, same) = decoders::job(&again).expect("what is noted can be read");
            assert!(third == again && same == command, "{again}");
            assert!(shown.iter().flat_map(|text| text.lines()).all(is_harmless), "{shown:?}");
        }
        Err(words) => assert!(!words.is_empty() && is_harmless(&words), "{words:?}"),
    }
}

/// What the target `serve-config` begins with: the examples of the documentation.
pub fn config_seeds() -> Vec<Vec<u8>> {
    let page = include_str!("../../docs/copy/daemon.md");
    let examples = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let wrong =
        "listen = \"x\"\nstop_seconds = 1e9\n[root.\"a/b\"]\nread = [\"nobody\", 3]\n[user.u]\nkeys = 'k'\n";
    examples.chain([wrong]).map(|text| text.as_bytes().to_vec()).collect()
}

/// What the target `kept` begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let private = "private-ed25519:9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let list = format!("me@h:70/r/a/b\n# known\nh:70 {KEY}\n[::1]:6862 {KEY}\n");
    let der = [&[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0][..], &[7; 32]].concat();
    let job = include_bytes!("../../crates/schema/tests/fixtures/job-1.json").to_vec();
    let state = String::from_utf8_lossy(&job).replace("\"cut\"", "\"\\u001b[2J\"").into_bytes();
    vec![list.into_bytes(), format!("# mine\n{private}\n").into_bytes(), der, job, state]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_understood() {
        let kept = seeds();
        let [list, key, der, job, _] = &kept[..] else { panic!("seeds") };
        let [list, key, job] = [list, key, job].map(|seed| std::str::from_utf8(seed).expect("text"));
        let (address, list) = list.split_once('\n').expect("lines");
        let (_, place) = decoders::address(address.as_bytes()).expect("an address");
        assert_eq!(decoders::known_keys(list, &place).map(|keys| keys.len()), Ok(1));
        assert!(decoders::private_key(key).is_ok() && decoders::job(job).is_ok());
        assert!(PublicKey::from_der(der).is_some());
        let [example, .., wrong] = &config_seeds()[..] else { panic!("seeds") };
        let parse = |seed: &[u8]| Config::parse(std::str::from_utf8(seed).expect("text"));
        assert!(parse(example).is_ok() && parse(wrong).is_err_and(|faults| faults.len() > 5));
    }
}
