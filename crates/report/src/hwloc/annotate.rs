//! Formats memory attributes as a script of `hwloc-annotate` commands.

use super::attributes::MemoryAttribute;
use super::bitmap::bitmap;
use crate::phrases;
use crate::style::clean;
use numaio_machine::topology::Topology;
use std::fmt::Write;

/// The start of the script. It maps OS node numbers to hwloc's logical indexes, which
/// `hwloc-annotate` expects.
const HEAD: &str = r#"set -eu
if [ $# -ne 2 ]; then
    echo "usage: sh $0 IN.xml OUT.xml    (create IN.xml with 'lstopo IN.xml' on the machine)" >&2
    exit 2
fi
# OUT.xml is written completely or not at all.
out=$2.$$.tmp
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM
indexes=$(lstopo-no-graphics -i "$1" --only NUMANode | sed -n 's/.*L#\([0-9]*\) (P#\([0-9]*\).*/\2 \1/p')
cp "$1" "$out"
register() { # name, flags
    # A file from an earlier run has the attribute already; its values are overwritten.
    grep -q "<memattr name=\"$1\" flags=\"$2\"" "$out" || hwloc-annotate "$out" "$out" root memattr "$1" "$2"
}
set_value() { # name, node by its OS index, CPUs, value
    node=$(printf '%s\n' "$indexes" | sed -n "s/^$2 //p")
    if [ -z "$node" ]; then
        echo "warning: node $2 is not in the hwloc topology: $1 skipped" >&2
        return
    fi
    hwloc-annotate "$out" "$out" "NUMANode:$node" memattr "$1" "$3" "$4"
}
"#;

/// Returns the script for these attributes.
pub fn script(topology: &Topology, attributes: &[MemoryAttribute]) -> String {
    let mut text = String::from("#!/bin/sh\n");
    // `clean` keeps the name on one line: text after a line end would run as a command.
    let name = clean(&phrases::machine_name(&topology.identity));
    let _ = writeln!(text, "# Bandwidth in MiB/s and latency in ns, measured by numaio on {name}");
    text.push_str(HEAD);
    for attribute in attributes {
        if !attribute.standard {
            let _ = writeln!(text, "register {} {}", attribute.name, attribute.flags);
        }
        for ((initiator, target), value) in &attribute.values {
            let Some(node) = topology.node(*initiator) else { continue };
            let _ = writeln!(text, "set_value {} {target} {} {value}", attribute.name, bitmap(&node.cpus));
        }
    }
    text.push_str("mv \"$out\" \"$2\"\n");
    text
}
