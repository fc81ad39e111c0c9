"""Writes a feature file of Node Feature Discovery from `numaio topology --json`.

    features.py TOPOLOGY|- [FILE]

NFD's local source turns each line NAME=VALUE into the node label feature.node.kubernetes.io/NAME. Without FILE the
lines go to standard output. FILE is replaced atomically.
"""

import json
import os
import re
import sys

# Kinds of devices that get labels, by the beginning of their label.
KINDS = {"network": "nic", "rdma": "rdma", "block": "block", "nvme": "nvme", "gpu": "gpu", "accelerator": "accelerator"}
MAX_LABEL = 63


def label(*parts):
    """Returns a label name that Kubernetes accepts."""
    text = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(("numaio", *parts)))
    return text[:MAX_LABEL].rstrip("-._")


def features(topology):
    """Returns the labels of a machine by name."""
    nodes = topology["nodes"]
    packages = {package for node in nodes for package in node["packages"]}
    labels = {label("nodes"): len(nodes), label("packages"): len(packages),
              label("memory-only-nodes"): sum(not node["cpus"] for node in nodes)}
    for device in topology["devices"]:
        kind, node = KINDS.get(device["kind"]), device["locality"].get("node")
        if kind is None or node is None:
            continue
        labels[label(kind, "nodes", str(node))] = "true"
        for name in device["names"][:1]:
            labels[label(kind, name, "node")] = node
    for severity in ("problem", "warning"):
        labels[label(severity + "s")] = sum(f["severity"] == severity for f in topology["findings"])
    return labels


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with open(0 if sys.argv[1] == "-" else sys.argv[1], encoding="utf-8") as file:
        topology = json.load(file)
    if topology.get("schema") != "numaio/topology/1":
        sys.exit(f"features: {sys.argv[1]} is '{topology.get('schema')}', expected 'numaio/topology/1'")
    lines = "".join(f"{name}={value}\n" for name, value in sorted(features(topology).items()))
    if len(sys.argv) == 2:
        print(lines, end="")
        return
    # NFD ignores files whose names begin with a dot.
    part = os.path.join(os.path.dirname(sys.argv[2]), "." + os.path.basename(sys.argv[2]))
    with open(part, "w", encoding="utf-8") as file:
        file.write(lines)
    os.rename(part, sys.argv[2])


if __name__ == "__main__":
    main()
