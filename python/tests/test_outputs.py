"""What commands print is a document of the package, and valid by its JSON Schema."""

import importlib.util
import json
import os
import tempfile
import unittest
from unittest import mock

import numaio
from numaio import documents

from . import support

DISK = str(support.ROOT / "machines/amd-dl585-g7-disk.tape")

#: Words and options of commands, with the kind of document that they print.
COMMANDS = [
    (["topology"], {"machine": support.MACHINE, "matrix": True}, documents.TopologyDocument),
    (["stream"], {"machine": "amd-2p", "no_save": True}, documents.StreamRecord),
    (["latency"], {"machine": "amd-2p", "no_save": True}, documents.LatencyRecord),
    (["model"], {"machine": "amd-2p", "all": True, "no_save": True}, documents.Model),
    (["near", "nvme0n1"], {"machine": support.MACHINE}, documents.NearDocument),
    (["place"], {"machine": support.MACHINE, "near": ["nvme0n1", "eth0"], "tasks": 3}, documents.PlacementPlan),
    (["doctor"], {"machine": support.MACHINE}, documents.Diagnosis),
    (["doctor"], {}, documents.Diagnosis),
    (["devices"], {"machine": support.MACHINE}, documents.DevicesDocument),
    (["compare"], {"machine": support.MACHINE, "node": 7}, documents.Comparison),
    (["status", str(os.getpid())], {}, documents.Status),
    (["irq", "show"], {}, documents.IrqDocument),
    (["export"], {"machine": support.MACHINE, "format": "weights", "json": True}, documents.InterleaveWeights),
    (["validate"], {"machine": DISK}, documents.Validation),
    (["bench", "disk"], {"machine": DISK, "device": "vda", "no_save": True}, documents.IoRecord),
    (["predict"], {"machine": DISK, "device": "vda", "mix": "0:1,7:1"}, documents.IoPrediction),
    (["plan"], {"file": support.ROOT / "docs/examples/two-socket-dtn.toml"}, documents.Plan),
]


class Outputs(unittest.TestCase):
    def test_commands_print_documents(self):
        with tempfile.TemporaryDirectory() as state:
            with mock.patch.dict(os.environ, {"XDG_STATE_HOME": state}):
                for words, options, cls in COMMANDS:
                    with self.subTest(" ".join(words)):
                        document = numaio.run(*words, **options)
                        self.assertIs(type(document), cls)
                        self.assertEqual(numaio.loads(numaio.dumps(document)), document)
                        validate(document)


def validate(document):
    """Validates a document by its schema, if jsonschema is installed."""
    if importlib.util.find_spec("jsonschema") is None:
        return
    import jsonschema

    schema = support.schema_of(document.schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(numaio.dumps(document)))
