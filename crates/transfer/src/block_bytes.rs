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
        let parse = |block: &str| {
            let json = format!(
                r#"{{"eager_data":false,"hard_links":true,"named_acls":true,"in_order":false,"block":{block}}}"#
            );
            serde_json::from_str::<Capabilities>(&json)
        };
        let bytes = |block: &str| parse(block).expect("capabilities").block_size().bytes();
        assert_eq!((bytes("null"), bytes("65536")), (1 << 20, 65_536));
        for block in ["0", "65537", "33554432", r#""1M""#] {
            assert!(parse(block).is_err(), "{block}");
        }
    }
}
