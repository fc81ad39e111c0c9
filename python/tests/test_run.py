"""Commands run as child processes; their results, progress and errors."""

import os
import re
import stat
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import numaio
from numaio import _run, documents

from . import support


def program(folder, script):
    """Writes a program in place of numaio."""
    path = Path(folder, "numaio")
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return mock.patch.dict(os.environ, {"NUMAIO": str(path)})


class Results(unittest.TestCase):
    def test_a_command_returns_its_document(self):
        model = numaio.run("model", machine=support.MACHINE, device="nvme0n1", no_save=True)
        self.assertIsInstance(model, documents.Model)
        self.assertEqual([target.target for target in model.targets], [7])
        write = model.target("nvme0n1").direction("write")
        self.assertEqual([str(found.nodes) for found in write.classes], ["7", "0-1,4-6", "2-3"])
        self.assertEqual((write.rank(3), write.rank(7)), (3, 1))

    def test_options_repeat_and_words_follow_the_command(self):
        model = numaio.run("model", machine=support.MACHINE, node=[1, 7], direction="read", no_save=True)
        self.assertEqual([target.target for target in model.targets], [1, 7])
        near = numaio.run("near", "nvme0n1", machine=support.MACHINE)
        self.assertEqual(near.handles[0].nodes[0].node, 7)

    def test_an_underscore_at_the_end_avoids_words_of_python(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            numaio.dump(support.fixture("model-1.json"), path)
            model = numaio.run("model", from_=path, level=50)
            classes = model.targets[0].directions[0].classes
            self.assertEqual([str(found.nodes) for found in classes], ["0", "1-3"])

    def test_a_format_returns_text(self):
        text = numaio.run("place", near="nvme0n1", machine=support.MACHINE, format="numactl")
        self.assertIn("--physcpubind=", text)

    def test_findings_with_status_1_are_a_result(self):
        with tempfile.TemporaryDirectory() as folder, program(folder, 'echo "{\\"a\\": [1]}"; exit 1'):
            self.assertEqual(numaio.run("doctor"), {"a": [1]})

    def test_a_copy_returns_its_events(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "source")
            source.mkdir()
            Path(source, "a").write_text("content")
            events = []
            result = numaio.run(
                "copy", f"{source}/", f"{folder}/sink", recursive=True, no_job=True, on_progress=events.append
            )
            self.assertEqual(Path(folder, "sink/a").read_text(), "content")
            self.assertEqual((result[-1]["event"], result[-1]["done"]), ("end", True))
            self.assertIn("end", [event["event"] for event in events])

    def test_output_larger_than_a_pipe_is_read(self):
        script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; echo x >&2; i=$((i+1)); done"
        with tempfile.TemporaryDirectory() as folder, program(folder, script):
            self.assertEqual(len(numaio.run("report")), 220_000)


class Commands(unittest.TestCase):
    def test_commands_that_print_json_are_known(self):
        page = (support.ROOT / "docs/reference/commands.md").read_text()
        checked = 0
        for section in re.split(r"^##+ numaio ", page, flags=re.M)[1:]:
            words = section.split("\n", 1)[0].split()
            if "\nCommands:\n" in section and words not in (["jobs"], ["fleet", "run"]):
                continue
            prints_json = re.search(r"^ +--json\b(?!-)", section, re.M) is not None
            self.assertEqual(_run._prints_json(words), prints_json, words)
            checked += 1
        self.assertGreater(checked, 35)


class Progress(unittest.TestCase):
    def test_a_measurement_reports_its_progress(self):
        events = []
        numaio.run("stream", machine="amd-2p", no_save=True, on_progress=events.append)
        visited = [event for event in events if event["event"] == "visited"]
        self.assertGreater(len(visited), 10)
        self.assertLessEqual(visited[0]["reached"], visited[-1]["reached"])
        self.assertEqual(
            set(visited[0]), {"event", "round", "reached", "settled", "cells", "elapsed_s", "remaining_s"}
        )
        self.assertIn("loop-chosen", {event["event"] for event in events})

    def test_an_exception_of_the_callback_is_raised(self):
        def fail(event):
            raise KeyError(event["event"])

        with self.assertRaises(KeyError):
            numaio.run("stream", machine="amd-2p", no_save=True, on_progress=fail)

    def test_without_a_callback_there_are_no_events(self):
        with tempfile.TemporaryDirectory() as folder, program(folder, 'echo "$NUMAIO_PROGRESS."'):
            with mock.patch.dict(os.environ, {"NUMAIO_PROGRESS": "json"}):
                self.assertEqual(numaio.run("report"), ".\n")
            self.assertEqual(numaio.run("report", on_progress=print), "json.\n")


class Errors(unittest.TestCase):
    def test_an_error_has_message_hint_and_status(self):
        with self.assertRaises(numaio.NumaioError) as caught:
            numaio.run("near", "eth9", machine=support.MACHINE)
        error = caught.exception
        self.assertEqual((error.message, error.status), ('there is no device "eth9"', 2))
        self.assertIn("known devices: eth0", error.hint)
        self.assertIn("\n  hint: known devices", str(error))

    def test_wrong_usage_is_an_error(self):
        with self.assertRaises(numaio.NumaioError) as caught:
            numaio.run("model", letter=True)
        self.assertEqual(
            (caught.exception.status, caught.exception.message), (2, "unexpected argument '--letter' found")
        )

    def test_a_failure_without_a_message_names_the_command(self):
        with tempfile.TemporaryDirectory() as folder, program(folder, "exit 3"):
            with self.assertRaises(numaio.NumaioError) as caught:
                numaio.run("report", "x")
        self.assertEqual(str(caught.exception), "numaio report x: exit status 3")

    def test_a_missing_program_is_an_error_with_a_hint(self):
        with mock.patch.dict(os.environ, {"NUMAIO": "/nonexistent/numaio"}):
            with self.assertRaises(numaio.NumaioError) as caught:
                numaio.run("topology")
        self.assertIn("NUMAIO=/nonexistent/numaio", str(caught.exception))

    def test_a_timeout_interrupts_the_command(self):
        script = "trap 'echo interrupted > \"$0.log\"; exit 130' INT; while :; do sleep 0.01; done"
        with tempfile.TemporaryDirectory() as folder, program(folder, script):
            with self.assertRaises(numaio.NumaioError) as caught:
                numaio.run("model", timeout=0.5)
            self.assertIn("no result within 0.5 s", str(caught.exception))
            self.assertEqual(Path(folder, "numaio.log").read_text(), "interrupted\n")

    def test_threads_run_commands_side_by_side(self):
        results = []

        def run(machine):
            results.append(numaio.run("topology", machine=machine).identity.fingerprint)

        threads = [
            threading.Thread(target=run, args=(name,)) for name in [support.MACHINE, "amd-2p", "intel-r820"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(results)), 3)
