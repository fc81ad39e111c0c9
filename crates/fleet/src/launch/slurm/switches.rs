//! Switches of a cluster, from `scontrol show topology`.

/// Parses the leaf switches of `scontrol show topology` (topology.conf(5)): their names and host
/// lists. Other lines are ignored.
pub fn parse_switches(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let field = |key: &str| line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key));
        let is_leaf = field("Level=").is_none_or(|level| level == "0");
        let nodes = field("Nodes=").filter(|nodes| is_leaf && !nodes.is_empty() && *nodes != "(null)")?;
        Some((field("SwitchName=")?.to_owned(), nodes.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_switches_have_nodes() {
        // Format of scontrol 22.05.
        let text = "\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]
scontrol: error: No topology information available
";
        let expected = [("s0", "n[1-2]"), ("s1", "n[3-4]")].map(|(name, nodes)| (name.into(), nodes.into()));
        assert_eq!(parse_switches(text), expected);
    }
}
