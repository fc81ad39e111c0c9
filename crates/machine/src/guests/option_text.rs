//! Options of hypervisors: `key=value` lists of QEMU and Cloud Hypervisor, and QEMU's JSON form.

use serde_json::Value;

/// Maximum length of an option's value; a longer one is not parsed.
const MAX_OPTION_BYTES: usize = 1 << 16;
/// Maximum number of pairs of an option.
const MAX_PAIRS: usize = 4096;

/// The pairs of an option. The key of a leading value without key is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OptionPairs(Vec<(String, String)>);

impl OptionPairs {
    /// Parses `type,key=value,flag`, where `,,` is a comma within a value (qemu(1), "Device URL
    /// Syntax" and `qemu_opts_parse`), or an object in JSON, whose nested keys are joined by dots.
    pub(super) fn parse(text: &str) -> Self {
        if text.len() > MAX_OPTION_BYTES {
            return Self::default();
        }
        if text.trim_start().starts_with('{') {
            let mut pairs = Vec::new();
            if let Ok(value) = serde_json::from_str::<Value>(text) {
                flatten("", &value, &mut pairs);
            }
            return Self(pairs);
        }
        let parts = split_commas(text).into_iter().take(MAX_PAIRS).enumerate();
        let pair = |(index, part): (usize, String)| match part.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None if index == 0 => (String::new(), part),
            None => (part, "on".to_owned()),
        };
        Self(parts.map(pair).collect())
    }

    /// Returns the last value of a key, as the programs do.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a key, in order.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the leading value without key, or that of one of these keys.
    pub(super) fn kind(&self, keys: &[&str]) -> Option<&str> {
        self.get("").or_else(|| keys.iter().find_map(|key| self.get(key)))
    }

    /// Returns whether a flag is on.
    pub(super) fn is_on(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| matches!(value, "on" | "yes" | "true" | "y"))
    }
}

/// Splits at single commas; two commas are one within a part.
fn split_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            (',', Some(',')) => {
                rest.next();
                push(&mut parts, ',');
            }
            (',', _) => parts.push(String::new()),
            _ => push(&mut parts, c),
        }
    }
    parts
}

fn push(parts: &mut [String], c: char) {
    if let Some(last) = parts.last_mut() {
        last.push(c);
    }
}

/// Adds the scalar values below a JSON value. Members of arrays have the key of the array.
fn flatten(key: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    if pairs.len() >= MAX_PAIRS {
        return;
    }
    let mut add = |text: String| pairs.push((key.to_owned(), text));
    match value {
        Value::Null => {}
        Value::Bool(flag) => add(if *flag { "on" } else { "off" }.to_owned()),
        Value::Number(number) => add(number.to_string()),
        Value::String(text) => add(text.clone()),
        Value::Array(members) => members.iter().for_each(|member| flatten(key, member, pairs)),
        Value::Object(members) => {
            for (name, member) in members {
                let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(&below, member, pairs);
            }
        }
    }
}

/// Parses a size such as `4096`, `4194304k`, `4G` or `4GiB`; a number alone is in `unit` bytes.
pub(super) fn size(text: &str, unit: u64) -> Option<u64> {
    match text.parse::<u64>() {
        Ok(number) => number.checked_mul(unit),
        Err(_) => crate::units::parse_size(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lists_and_json() {
        let pairs = OptionPairs::parse("node,nodeid=0,cpus=0-3,cpus=8,memdev=a,,b,share");
        assert_eq!((pairs.kind(&[]), pairs.get("memdev")), (Some("node"), Some("a,b")));
        assert_eq!(pairs.all("cpus").collect::<Vec<_>>(), ["0-3", "8"]);
        assert!(pairs.is_on("share") && !pairs.is_on("nodeid"));
        let json = OptionPairs::parse(
            r#"{"qom-type":"memory-backend-ram","size":4096,"host-nodes":[0,2],"x":{"y":true}}"#,
        );
        assert_eq!(json.kind(&["qom-type"]), Some("memory-backend-ram"));
        assert_eq!(json.all("host-nodes").collect::<Vec<_>>(), ["0", "2"]);
        assert!(json.is_on("x.y"));
        assert_eq!(OptionPairs::parse("{\"open\":"), OptionPairs::default());
    }

    #[test]
    fn sizes_without_suffix_have_the_unit_of_the_option() {
        assert_eq!((size("64", 1 << 20), size("4194304k", 1 << 20)), (Some(64 << 20), Some(4 << 30)));
        assert_eq!((size("", 1), size("-1", 1), size("18446744073709551615", 2)), (None, None, None));
    }
}
