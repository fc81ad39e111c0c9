"""Documents and tapes are read, written, and rejected with the field that is wrong."""

import copy
import doctest
import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

import numaio
from numaio import IdSet, _codec, _idset, documents

from . import support


class Documents(unittest.TestCase):
    def test_reads_every_fixture_and_writes_it_again(self):
        self.assertGreaterEqual(len(support.FIXTURES), 25)
        for path in support.FIXTURES:
            with self.subTest(path.name):
                document = numaio.load(path)
                schema = json.loads(path.read_text())["schema"]
                self.assertIs(type(document), documents.DOCUMENTS[schema])
                self.assertEqual(numaio.loads(numaio.dumps(document)), document)

    def test_written_documents_keep_every_value_of_the_fixture(self):
        for path in support.FIXTURES:
            with self.subTest(path.name):
                original = json.loads(path.read_text())
                written = json.loads(numaio.dumps(numaio.load(path)))
                self.assertEqual(missing(original, written), [])

    def test_fixtures_and_written_documents_are_valid(self):
        support.need("schemas", "jsonschema")
        import jsonschema

        for path in support.FIXTURES:
            with self.subTest(path.name):
                document = json.loads(path.read_text())
                schema = support.schema_of(document["schema"])
                validator = jsonschema.Draft202012Validator(schema)
                validator.check_schema(schema)
                validator.validate(document)
                validator.validate(json.loads(numaio.dumps(numaio.load(path))))
                document["schema"] = "numaio/letter/1"
                self.assertFalse(validator.is_valid(document))

    def test_names_the_wrong_field(self):
        text = (support.ROOT / "crates/schema/tests/fixtures/model-1.json").read_text()
        for old, new, field in [
            ('"rank": 1', '"rank": "first"', "targets[0].directions[0].classes[0].rank"),
            ('"level": 0.1', '"leevel": 0.1', "targets[0].directions[0].level"),
            ('"rule": "measured"', '"rule": "guessed"', "targets[0].directions[0].rule"),
            ('"neighbors": "1"', '"neighbors": "3-1"', "targets[0].neighbors"),
            ('"settled": true', '"settled": 1', "targets[0].directions[0].nodes[0].settled"),
        ]:
            self.assertIn(old, text)
            with self.assertRaises(numaio.DocumentError) as caught:
                numaio.loads(text.replace(old, new, 1))
            self.assertIn(f"'{field}'", str(caught.exception))

    def test_names_the_wrong_field_of_an_alternative(self):
        path = support.ROOT / "crates/schema/tests/fixtures/receipt-1.json"
        receipt = json.loads(path.read_text())
        receipt["applied"][0]["inverse"]["mode"] = "on"
        with self.assertRaises(numaio.DocumentError) as caught:
            numaio.loads(json.dumps(receipt))
        self.assertIn("'applied[0].inverse.mode'", str(caught.exception))

    def test_rejects_other_files(self):
        for text, message in [
            ("", "not JSON"),
            ("{}", "no field 'schema'"),
            ("[1]", "no field 'schema'"),
            ('{"schema": "numaio/letter/1"}', "unknown kind of document 'numaio/letter/1'"),
            ('{"schema": "numaio/model/9"}', "this package reads numaio/model/1"),
        ]:
            with self.assertRaises(numaio.DocumentError) as caught:
                numaio.loads(text)
            self.assertIn(message, str(caught.exception), text)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "letter.json")
            path.write_text("{}")
            with self.assertRaises(numaio.DocumentError) as caught:
                numaio.load(path)
            self.assertIn(str(path), str(caught.exception))

    def test_ignores_unknown_fields(self):
        path = support.ROOT / "crates/schema/tests/fixtures/view-1.json"
        view = json.loads(path.read_text())
        view["of_a_newer_numaio"] = {"x": 1}
        self.assertEqual(numaio.loads(json.dumps(view)), numaio.load(path))

    def test_optional_fields_of_a_hand_written_view_have_defaults(self):
        view = numaio.loads(
            '{"schema": "numaio/view/1", "name": "mine", "title": "Mine", "machine": "0", "target": 0,'
            ' "quantity": "score", "nodes": [{"node": 0, "value": 7}]}'
        )
        self.assertEqual(
            (view.level, view.classes, view.direction, view.nodes[0].value), (0.1, [], None, 7.0)
        )
        self.assertIsInstance(view.nodes[0].value, float)


def missing(original, written, path=""):
    """Returns the paths of values that are in one JSON value and not in the other.

    Fields with the value of their default may be left out.
    """
    if isinstance(original, dict) and isinstance(written, dict):
        found = [p for key in written if key not in original for p in [f"{path}.{key}: added"]]
        for key, value in original.items():
            if key in written:
                found += missing(value, written[key], f"{path}.{key}")
            elif value not in (None, [], {}, "", 0, False):
                found.append(f"{path}.{key}")
        return found
    if isinstance(original, list) and isinstance(written, list) and len(original) == len(written):
        pairs = enumerate(zip(original, written))
        return [p for index, (one, other) in pairs for p in missing(one, other, f"{path}[{index}]")]
    return [] if original == written else [path]


class Tapes(unittest.TestCase):
    def test_reads_the_shipped_tapes(self):
        self.assertGreaterEqual(len(support.TAPES), 4)
        for path in support.TAPES:
            with self.subTest(path.name):
                tape = numaio.load(path)
                self.assertEqual(tape.header.tape, "numaio/tape/1")
                lines = path.read_text().splitlines()
                runs = [json.loads(line) for line in lines if '"run"' in line]
                self.assertEqual(len(tape.runs), len(runs))
                for run, line in list(zip(tape.runs, runs))[:50]:
                    self.assertEqual(missing(line["run"], _codec.encode(run.workload)), [])
                self.assertGreater(len(tape.files), 100)
                self.assertIn("0", tape.text("/sys/devices/system/node/online"))

    def test_reads_the_documents_of_a_tape(self):
        tape = numaio.load(support.ROOT / "machines/amd-dl585-g7-disk.tape")
        [(document, (first, end))] = tape.documents
        self.assertIsInstance(document, documents.IoRecord)
        self.assertTrue(0 <= first < end <= len(tape.runs))
        self.assertGreater(len(document.table()), 0)

    def test_skips_an_incomplete_last_line_only(self):
        header = '{"tape": "numaio/tape/1", "numaio": "0.1.0", "name": "x", "recorded_at": 1}\n'
        line = '{"file": "/sys/a", "hex": "ff00"}\n'
        tape = numaio.loads(header + line + line[:-9])
        self.assertEqual(tape.files, {"/sys/a": b"\xff\x00"})
        for text in [header + line[:-9] + "\n" + line, header + '{"letter": 1}\n' + line]:
            with self.assertRaises(numaio.DocumentError) as caught:
                numaio.loads(text)
            self.assertIn("line 2", str(caught.exception))
        with self.assertRaises(numaio.DocumentError):
            numaio.loads(header.replace("tape/1", "tape/2"))

    def test_reads_all_kinds_of_lines(self):
        header = '{"tape": "numaio/tape/1", "numaio": "0.1.0", "name": "x", "recorded_at": 1}\n'
        tape = numaio.loads(
            header + '{"file": "/proc/a", "text": "1\\n"}\n{"file": "/proc/a", "read": 3, "text": "2\\n"}\n'
            '{"link": "/sys/l", "target": "a"}\n{"dir": "/sys/d"}\n{"unreadable": "/sys/u", "error": "denied"}\n'
            '{"unreachable": "/sys/v", "error": {"failed": "EIO"}}\n'
        )
        self.assertEqual((tape.text("/proc/a"), tape.changes["/proc/a"][0].read), ("1", 3))
        self.assertEqual((tape.links, tape.directories), ({"/sys/l": "a"}, ["/sys/d"]))
        self.assertEqual(tape.unreadable["/sys/u"], "denied")
        self.assertEqual(tape.unreadable["/sys/v"], documents.ReadErrorKindFailed(failed="EIO"))


class IdSets(unittest.TestCase):
    def test_examples(self):
        result = doctest.testmod(_idset)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 0)

    def test_parses_the_kernels_list_format(self):
        for text, ids in [
            ("", []),
            ("0-3,8\n", [0, 1, 2, 3, 8]),
            ("10-14:2", [10, 12, 14]),
            ("0-9:2/4", [0, 1, 4, 5, 8, 9]),
        ]:
            self.assertEqual(list(IdSet.parse(text)), ids)
        self.assertEqual(str(IdSet([9, 1, 2, 3, 70])), "1-3,9,70")
        for text in ["x", "3-1", "0-", "1,,2", "-1", "0-99999999", "0-9:0", "\u0663"]:
            with self.assertRaises(ValueError, msg=text):
                IdSet.parse(text)

    def test_masks_have_bit_0_for_id_0(self):
        self.assertEqual(IdSet.parse("0,2,65").mask(), 0b101 | 1 << 65)
        self.assertEqual(IdSet().mask(), 0)

    def test_copies_and_pickles(self):
        import pickle

        ids = IdSet.parse("1-3")
        for other in [copy.deepcopy(ids), pickle.loads(pickle.dumps(ids))]:
            self.assertEqual(other, ids)
            self.assertIsInstance(other, IdSet)


class Generated(unittest.TestCase):
    def test_every_document_has_a_class(self):
        with tempfile.TemporaryDirectory() as folder:
            support.generate("schemas", "--dir", folder)
            schemas = {json.loads(path.read_text())["title"] for path in Path(folder).glob("*.json")}
        self.assertEqual(schemas - {"numaio/tape/1"}, set(documents.DOCUMENTS))

    def test_types_are_strict(self):
        support.need("types", "mypy")
        import os
        import subprocess
        import sys

        folder = support.ROOT / "python"
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "mypy",
                    "--strict",
                    "--cache-dir",
                    cache,
                    "src/numaio",
                    "tests/typed_use.py",
                ],
                cwd=folder,
                env={**os.environ, "MYPYPATH": "src"},
                capture_output=True,
                text=True,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
