//! Shards as texts of requests and events: `"2/8"`, or null.

use numaio_mover::shard::Shard;
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

/// Serializes a shard.
pub fn serialize<S: Serializer>(shard: &Option<Shard>, to: S) -> Result<S::Ok, S::Error> {
    shard.map(|shard| shard.to_string()).serialize(to)
}

/// Deserializes a shard, and rejects invalid numbers of a peer.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Shard>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use numaio_mover::shard::Shard;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Request {
        #[serde(with = "crate::shard_text")]
        shard: Option<Shard>,
    }

    #[test]
    fn rejects_invalid_shards_of_peers() {
        let parse = |json: &str| serde_json::from_str::<Request>(json);
        let shard = |json: &str| parse(json).expect("options").shard.map(|shard| shard.to_string());
        assert_eq!(shard(r#"{"shard":null}"#), None);
        assert_eq!(shard(r#"{"shard":"2/8"}"#).as_deref(), Some("2/8"));
        for json in [r#"{"shard":"9/8"}"#, r#"{"shard":"0/0"}"#, r#"{"shard":2}"#] {
            assert!(parse(json).is_err(), "{json}");
        }
    }
}
