//! A daemon's configuration, and stored files that may be damaged.

use crate::decode;
use crate::displayed_text::is_displayable;
use numaio_mover_linux::port::net::PublicKey;
use numaio_transfer::daemon::config::{Config, ConfigError};
use std::path::Path;

const KEY: &str = "ed25519:fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
const SCHEME: &[u8] = b"numaio://";

/// Parses a daemon's configuration, with and without an empty line above it.
pub fn serve_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = text.matches('\n').count() + 1;
    let read = Config::parse(text);
    match &read {
        Ok(config) => check(config, lines),
        Err(errors) => {
            assert!(!errors.is_empty() && errors.is_sorted());
            for ConfigError { line, text } in errors {
                assert!((1..=lines).contains(line), "line {line} of {lines}: {text}");
                assert!(!text.is_empty() && is_displayable(text), "{text:?}");
            }
        }
    }
    // A byte order mark is valid only at the start of the file.
    if text.starts_with('\u{feff}') {
        return;
    }
    match (read, Config::parse(&format!("\n{text}"))) {
        (Ok(config), Ok(shifted)) => {
            assert_eq!((shifted.key.line, shifted.key.value), (config.key.line + 1, config.key.value));
            assert_eq!((shifted.users, shifted.limits), (config.users, config.limits));
        }
        (Err(errors), Err(shifted)) => {
            // A missing table or key is reported on the first line.
            let is_shifted = |error: &ConfigError| {
                let is_on = |line| shifted.contains(&ConfigError { line, text: error.text.clone() });
                is_on(error.line + 1) || error.line == 1 && is_on(1)
            };
            assert!(errors.len() == shifted.len() && errors.iter().all(is_shifted), "{errors:?} {shifted:?}");
        }
        _ => panic!("an empty line above changed the result"),
    }
}

/// Asserts the limits that the documentation states for a configuration.
fn check(config: &Config, lines: usize) {
    let is_line = |line| (1..=lines).contains(&line);
    assert!(!config.listen.is_empty() && config.listen.iter().all(|at| is_line(at.line)));
    assert!(config.key.value.is_absolute() && is_line(config.key.line));
    assert!(config.stop.as_secs() <= 86_400);
    if let Some(records) = &config.records {
        assert!(records.directory.value.is_absolute() && is_line(records.directory.line));
        assert!((1..=36_500).contains(&records.keep_days));
    }
    let limits = &config.limits;
    assert!((1..=4_096).contains(&limits.connections) && (1..=4_096).contains(&limits.per_address));
    assert!((1..=600).contains(&limits.login_grace.as_secs()));
    let is_name =
        |name: &str| !name.is_empty() && name.len() <= 64 && name.is_ascii() && is_displayable(name);
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
        assert!(is_name(&user.class), "{:?}", user.class);
    }
}

/// Parses files that numaio writes: keys, known daemons and jobs.
pub fn stored_files(input: &[u8]) {
    if let Some(key) = PublicKey::from_der(input) {
        assert_eq!(key.to_string().parse(), Ok(key), "a printed key parses to another key");
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    known_daemons(text);
    private_key(text);
    job(text);
}

/// Parses an address in the first line and a list of known daemons in the others.
///
/// Asserts that a key added for the address is found for it, and for no other address.
fn known_daemons(text: &str) {
    let (address, list) = text.split_once('\n').unwrap_or((text, ""));
    let Ok((url, host_port)) = decode::address(address.as_bytes()) else { return };
    let rest = url.strip_prefix(SCHEME).expect("a URL with its scheme");
    assert_eq!(
        decode::address(rest),
        Ok((url.clone(), host_port.clone())),
        "a printed URL parses to another"
    );
    let key: PublicKey = KEY.parse().expect("a key");
    let extended = decode::with_known_key(list, &host_port, key);
    match decode::known_keys(list, &host_port) {
        Ok(mut keys) => {
            let other = "other.example:1";
            if host_port != other {
                assert_eq!(decode::known_keys(&extended, other), decode::known_keys(list, other));
            }
            keys.push(key);
            assert_eq!(decode::known_keys(&extended, &host_port), Ok(keys));
        }
        Err(message) => {
            let line = message.split(' ').find_map(|word| word.parse().ok()).expect("a line number");
            assert!((1..=list.lines().count()).contains(&line) && is_displayable(&message), "{message:?}");
            assert_eq!(decode::known_keys(&extended, &host_port), Err(message), "the list stays invalid");
        }
    }
}

/// Asserts that a private key does not parse as a public one, and that errors do not contain the
/// file.
fn private_key(text: &str) {
    match decode::private_key(text) {
        Ok((key, public)) => {
            assert!(key.text().parse::<PublicKey>().is_err());
            assert_eq!(decode::private_key(&key.text()).map(|(_, public)| public), Ok(public));
            assert!(text.to_lowercase().contains(&key.text()), "the key is not in the file");
        }
        Err(message) => assert!(message.len() < 100 && is_displayable(&message), "{message:?}"),
    }
}

/// Asserts that a job record survives a round trip, and that its text is safe to display.
fn job(text: &str) {
    match decode::job(text) {
        Ok((json, texts, command)) => {
            let (copy, _, copied_command) = decode::job(&json).expect("the encoded record");
            assert!(copy == json && copied_command == command, "{json}");
            assert!(texts.iter().flat_map(|text| text.lines()).all(is_displayable), "{texts:?}");
        }
        Err(message) => assert!(!message.is_empty() && is_displayable(&message), "{message:?}"),
    }
}

/// Returns the seeds of the target `serve-config`: the examples of the documentation, and an
/// invalid file.
pub fn config_seeds() -> Vec<Vec<u8>> {
    let page = include_str!("../../docs/copy/daemon.md");
    let examples = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let invalid =
        "listen = \"x\"\nstop_seconds = 1e9\n[root.\"a/b\"]\nread = [\"none\", 3]\n[user.u]\nkeys = 'k'\n";
    examples.chain([invalid]).map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns the seeds of the target `stored-files`.
pub fn seeds() -> Vec<Vec<u8>> {
    let private = "private-ed25519:9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let list = format!("me@h:70/r/a/b\n# known\nh:70 {KEY}\n[::1]:6862 {KEY}\n");
    let der = [&[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0][..], &[7; 32]].concat();
    let job = include_bytes!("../../crates/schema/tests/fixtures/job-1.json").to_vec();
    let state = String::from_utf8_lossy(&job).replace("\"interrupted\"", "\"\\u001b[2J\"").into_bytes();
    vec![list.into_bytes(), format!("# mine\n{private}\n").into_bytes(), der, job, state]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_decoded() {
        let seeds = seeds();
        let [list, key, der, job, _] = &seeds[..] else { panic!("seeds") };
        let [list, key, job] = [list, key, job].map(|seed| std::str::from_utf8(seed).expect("text"));
        let (address, list) = list.split_once('\n').expect("lines");
        let (_, host_port) = decode::address(address.as_bytes()).expect("an address");
        assert_eq!(decode::known_keys(list, &host_port).map(|keys| keys.len()), Ok(1));
        assert!(decode::private_key(key).is_ok() && decode::job(job).is_ok());
        assert!(PublicKey::from_der(der).is_some());
        let [example, .., invalid] = &config_seeds()[..] else { panic!("seeds") };
        let parse = |seed: &[u8]| Config::parse(std::str::from_utf8(seed).expect("text"));
        assert!(parse(example).is_ok() && parse(invalid).is_err_and(|errors| errors.len() > 5));
    }
}
