//! Values that options name: on the command line, in configuration files and in requests.

use numaio_mover::compression::CompressMode;
use numaio_mover::hash::HashKind;
use numaio_mover::sink::SyncMode;
use numaio_mover::source::{ReadMode, ReadOrder};
use numaio_mover_linux::files::DirectIo;
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

/// Values that an option names.
pub trait Choice: Copy + PartialEq + 'static {
    /// All values with their names.
    const NAMED: &'static [(&'static str, Self)];

    /// Returns the value with a name.
    fn from_name(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Serializes a value as its name.
pub fn serialize<C: Choice, S: Serializer>(choice: &C, to: S) -> Result<S::Ok, S::Error> {
    C::NAMED.iter().find(|(_, value)| value == choice).map(|(name, _)| name).serialize(to)
}

/// Deserializes a value, and rejects unknown names of a peer.
pub fn deserialize<'de, C: Choice, D: Deserializer<'de>>(from: D) -> Result<C, D::Error> {
    let name = String::deserialize(from)?;
    C::from_name(&name).ok_or_else(|| de::Error::custom(format_args!("unknown value '{name}'")))
}

impl Choice for HashKind {
    const NAMED: &'static [(&'static str, Self)] =
        &[("xxh3", Self::Xxh3), ("blake3", Self::Blake3), ("none", Self::None)];
}

impl Choice for SyncMode {
    const NAMED: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("file", Self::File), ("end", Self::End)];
}

impl Choice for CompressMode {
    const NAMED: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("auto", Self::Auto), ("zstd", Self::Zstd)];
}

impl Choice for DirectIo {
    const NAMED: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

impl Choice for ReadOrder {
    const NAMED: &'static [(&'static str, Self)] = &[
        ("auto", Self::PhysicalIfSlow),
        ("inode", Self::Inode),
        ("physical", Self::Physical),
        ("none", Self::Listed),
    ];
}

impl Choice for ReadMode {
    const NAMED: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("stripe", Self::Stripe), ("pipeline", Self::Pipeline)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Request {
        #[serde(with = "crate::choice")]
        hash: HashKind,
    }

    #[test]
    fn values_are_sent_by_name_and_unknown_names_are_rejected() {
        for (name, hash) in HashKind::NAMED {
            let json = format!(r#"{{"hash":"{name}"}}"#);
            assert_eq!(serde_json::to_string(&Request { hash: *hash }).expect("a request"), json);
            assert_eq!(serde_json::from_str::<Request>(&json).expect("a request").hash, *hash);
        }
        for value in [r#""md5""#, "1", "null"] {
            assert!(serde_json::from_str::<Request>(&format!(r#"{{"hash":{value}}}"#)).is_err(), "{value}");
        }
    }
}
