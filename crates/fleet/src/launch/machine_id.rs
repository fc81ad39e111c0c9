//! The identity of a host (machine-id(5)).

use numaio_machine::sysfs::{Sysfs, SysfsExt};
use sha2::{Digest, Sha256};

/// Application ID of numaio: random, and never changed.
const APPLICATION: [u8; 16] =
    [0x6e, 0x1b, 0xd4, 0x0f, 0x93, 0x27, 0x4c, 0x58, 0xa1, 0x7e, 0x35, 0xc9, 0x02, 0xf6, 0x8d, 0xb4];
/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

/// Returns the application-specific hash of a host's machine-id; `None` if it has none.
///
/// The machine-id itself is confidential (machine-id(5)), so it is hashed as by
/// `sd_id128_get_machine_app_specific(3)`.
pub fn read(root: &dyn Sysfs) -> Option<String> {
    let text = root.optional("/etc/machine-id")?;
    let id = parse(text.trim())?;
    Some(application_specific(id, APPLICATION))
}

/// Parses 32 hexadecimal digits; `uninitialized` and all zeros are not an ID.
fn parse(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let id = u128::from_str_radix(text, 16).ok().filter(|id| *id != 0)?;
    Some(id.to_be_bytes())
}

/// Returns the hash of a machine-id for an application: HMAC-SHA256 with the machine-id as key, cut
/// to 128 bits with the version of a random UUID.
fn application_specific(machine: [u8; 16], application: [u8; 16]) -> String {
    let mac = hmac_sha256(machine, application);
    let mut id = [0; 16];
    id.copy_from_slice(&mac[..16]);
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA256 (RFC 2104) with a key shorter than a block.
fn hmac_sha256(key: [u8; 16], message: [u8; 16]) -> [u8; 32] {
    let pad = |value: u8| {
        let mut block = [value; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::tree::Tree;

    #[test]
    fn hash_equals_that_of_systemd() {
        // systemd-id128 machine-id --app-specific=c273277323db454ea63bb96e79b53e97 of this ID.
        let machine = parse("2f4d81c0a6b34e5f9d7c1e2a3b4c5d6e").expect("an ID");
        let application = parse("c273277323db454ea63bb96e79b53e97").expect("an ID");
        assert_eq!(application_specific(machine, application), "bd9a58b852bb4d048c42379ed792700b");
    }

    #[test]
    fn raw_and_missing_ids_are_not_reported() {
        let id = "2f4d81c0a6b34e5f9d7c1e2a3b4c5d6e";
        let hash = |text: &str| read(Tree::new().file("/etc/machine-id", text));
        let found = hash(&format!("{id}\n")).expect("a hash");
        assert!(found.len() == 32 && found != id);
        for text in
            ["", "uninitialized\n", "00000000000000000000000000000000", "+f4d81c0a6b34e5f9d7c1e2a3b4c5d6e"]
        {
            assert_eq!(hash(text), None, "{text}");
        }
        assert_eq!(read(&Tree::new()), None);
    }
}
