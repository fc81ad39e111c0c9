//! Block sizes in requests and replies: numbers of bytes, or null.

use numaio_mover::port::BlockSize;
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

/// Serializes a block size.
pub fn serialize<S: Serializer>(block: &Option<BlockSize>, to: S) -> Result<S::Ok, S::Error> {
    block.map(BlockSize::length).serialize(to)
}

/// Deserializes a block size, and rejects invalid sizes of a peer.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BlockSize>, D::Error> {
    let bytes = Option::<u64>::deserialize(from)?;
    bytes.map(|bytes| BlockSize::new(bytes).map_err(de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use crate::request::Capabilities;

    #[test]
    fn rejects_invalid_sizes_of_peers() {
        let parse = |json: &str| serde_json::from_str::<Capabilities>(json);
        let bytes = |json: &str| parse(json).expect("capabilities").block_size().bytes();
        assert_eq!(bytes("{}"), 1 << 20, "an older numaio");
        assert_eq!(bytes(r#"{"block":null}"#), 1 << 20);
        assert_eq!(bytes(r#"{"block":65536}"#), 65_536);
        for json in [r#"{"block":0}"#, r#"{"block":65537}"#, r#"{"block":33554432}"#, r#"{"block":"1M"}"#] {
            assert!(parse(json).is_err(), "{json}");
        }
    }
}
