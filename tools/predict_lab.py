"""Predictions of mixes on the lab's disks, each with another rule of sharing; `tools/bench predict-lab` prints them.

Each disk is measured as a user would: every node alone, then at most three mixes that `numaio predict --suggest` names.
Then random mixes are predicted and measured; they are not learned from.
"""

import collections
import json
import os
import random
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINES = ["sharing-4n", "sharing-6n", "sharing-8n"]
DIRECTIONS = ["write", "read"]
SEED = 20_032
# Mixes that are measured before the predictions, and unseen ones of each direction.
LEARNED, UNSEEN = 3, 8
# Numbers of streams of a node alone.
STREAMS = "1,2,4"
# Time limits of the nodes alone and of a mix in seconds, and length of a visit in milliseconds.
ALONE_S, MIX_S, WINDOW_MS = 90, 8, 300
# Time limit of a disk in seconds.
TIME_LIMIT_S = 1500

# Prints the streams of the suggested mix as NODE:STREAMS,...
SUGGESTED = r"""
/"suggested"/ { found = 1 }
/"predictions"/ { if (found) exit }
found && /"node"/ { gsub(/[^0-9]/, ""); node = $0 }
found && /"streams": *[0-9]/ { gsub(/[^0-9]/, ""); mix = mix (mix == "" ? "" : ",") node ":" $0 }
END { print mix }
"""


def description(machine):
    text = subprocess.run(["lab/run", "--show", machine], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)


def disks(machine):
    """Returns the machine's disks, in the order of their names: vda, vdb, ..."""
    return [device for device in machine["devices"] if device["kind"] == "vhost-disk"]


def rule_of(disk):
    """Names the rules of both directions of a disk."""
    def name(rates):
        sharing = rates.get("sharing", {"rule": "bytes"})
        rules = "+".join(rule["rule"] for rule in sharing.get("rules", []))
        weights = ", weighted" if sharing.get("weights") else ""
        return sharing["rule"] + (f" ({rules})" if rules else "") + weights + (", stalls" if rates.get("stalls") else "")
    names = [name(disk[direction]) for direction in DIRECTIONS]
    return names[0] if names[0] == names[1] else " / ".join(names)


def random_mixes(seed, nodes):
    """Returns different mixes of 2 to 6 streams on 2 to 4 nodes, for each direction."""
    chosen = random.Random(seed)
    found = {direction: [] for direction in DIRECTIONS}
    for mixes in found.values():
        while len(mixes) < UNSEEN:
            mix = collections.Counter(chosen.choices(range(nodes), k=chosen.randint(2, 6)))
            text = ",".join(f"{node}:{streams}" for node, streams in sorted(mix.items()))
            if 2 <= len(mix) <= 4 and text not in mixes:
                mixes.append(text)
    return found


def script(name, mixes):
    """Returns the guest's commands for one disk. A mix to predict is neither saved nor learned from."""
    destroys = f"--i-know-this-destroys {name}"
    lines = [f"numaio bench disk -q --device {name} {destroys} --exhaustive --streams {STREAMS} --seconds {ALONE_S} "
             f"--window {WINDOW_MS} >/out/{name}-alone.txt"]
    for direction in DIRECTIONS:
        predict = f"numaio predict -q --device {name} --direction {direction}"
        measure = f"--measure --mix-only --window {WINDOW_MS} --seconds {MIX_S} {destroys if direction == 'write' else ''}"
        for _ in range(LEARNED):
            lines += [f"mix=$({predict} --suggest --json | awk -f /out/suggested.awk)",
                      f"[ -n \"$mix\" ] && {predict} --mix $mix {measure} >/dev/null && echo $mix >>/out/{name}-{direction}.learned"]
        lines += [f"{predict} --mix {mix} {measure} --no-save --json -o /out/{name}-{direction}-{number}.json"
                  for number, mix in enumerate(mixes[direction])]
    return "\n".join(lines)


def cases(folder, name):
    """Reads the predicted and measured mixes of a disk."""
    found = []
    for direction in DIRECTIONS:
        for number in range(UNSEEN):
            path = os.path.join(folder, f"{name}-{direction}-{number}.json")
            if not os.path.exists(path):
                continue
            with open(path) as file:
                mix = json.load(file)["mix"]
            if mix["measured"] is None:
                continue
            limits, measured = mix["limits"], mix["measured"]["bytes_per_s"]
            found.append({
                "direction": direction,
                "mix": ",".join(f"{part['node']}:{part['streams']}" for part in mix["streams"]),
                "predicted": limits["bytes_per_s"], "low": limits["low"], "high": limits["high"], "measured": measured,
                "error": limits["bytes_per_s"] / measured - 1, "held": limits["low"] <= measured <= limits["high"],
                "equation_1": mix["equation_1"]["bytes_per_s"] / measured - 1,
            })
    return found


def measure(static, machine, number, nodes):
    """Measures a disk of a machine; returns its cases."""
    name = "vd" + chr(ord("a") + number)
    lines = ["echo 0 >/proc/sys/kernel/numa_balancing", f"cat >/out/suggested.awk <<'END_OF_AWK'{SUGGESTED}END_OF_AWK",
             script(name, random_mixes(f"{SEED}-{machine}-{number}", nodes))]
    with tempfile.TemporaryDirectory() as folder:
        command = ["lab/run", machine, "--timeout", str(TIME_LIMIT_S), "--bin", static, "--get", folder, "--", "sh", "-c", "\n".join(lines)]
        # A failed prediction is counted as missing, and the others are kept.
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        for direction in DIRECTIONS:
            path = os.path.join(folder, f"{name}-{direction}.learned")
            learned = open(path).read().split() if os.path.exists(path) else []
            print(f"{machine} {name}, device {direction}: measured {'; '.join(learned) or 'no mix'}", flush=True)
        return cases(folder, name)


def summary(name, found):
    """Returns a row of the summary."""
    if not found:
        return [name, 0] + ["-"] * 6
    errors = sorted(abs(case["error"]) for case in found)
    equation_1 = sorted(abs(case["equation_1"]) for case in found)
    at = lambda values, share: f"{values[round((len(values) - 1) * share)]:.1%}".replace("%", " %")
    held = sum(case["held"] for case in found) / len(found)
    return [name, len(found), at(errors, 0.5), at(errors, 0.95), at(errors, 1), f"{held:.1%}".replace("%", " %"),
            at(equation_1, 0.5), at(equation_1, 1)]


def selected(arguments):
    """Returns the numbers of the disks to measure by machine; MACHINE or MACHINE:DISK selects, default all."""
    found = {}
    for argument in arguments or MACHINES:
        machine, _, number = argument.partition(":")
        found.setdefault(machine, []).extend([int(number)] if number else range(len(disks(description(machine)))))
    return found


def predict_lab(static, arguments, table):
    """Prints the predictions of all selected disks, and a summary. `table` prints a head and rows."""
    print("## Predicted mixes of emulated disks\n", flush=True)
    rows, summaries, all_cases = [], [], []
    for machine, numbers in selected(arguments).items():
        described = description(machine)
        for number in numbers:
            found = measure(static, machine, number, len(described["nodes"]))
            name = f"{machine}:{number} {rule_of(disks(described)[number])}"
            summaries.append(summary(name, found))
            all_cases += found
            rows += [[f"{machine}:{number}", case["direction"], case["mix"], *(f"{case[key] / 1e6:.1f}" for key in ("predicted", "low", "high", "measured")),
                      f"{case['error']:+.1%}", "yes" if case["held"] else "NO", f"{case['equation_1']:+.1%}"] for case in found]
    print(flush=True)
    table(["disk", "direction", "mix", "predicted MB/s", "low", "high", "measured", "error", "held", "Equation 1 error"], rows)
    table(["disk and rule", "mixes", "median", "p95", "worst", "interval holds", "Equation 1 median", "worst"],
          [*summaries, summary("all", all_cases)])
    expected = 2 * UNSEEN * sum(len(numbers) for numbers in selected(arguments).values())
    if len(all_cases) < expected:
        print(f"{expected - len(all_cases)} of {expected} mixes were not measured\n", flush=True)
