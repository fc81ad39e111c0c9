"""The examples of docs/guide/python.md run and print what the page shows."""

import contextlib
import doctest
import io
import os
import re
import shutil
import tempfile
import unittest

import numaio

from . import support

PAGE = support.ROOT / "docs/guide/python.md"

#: Packages that a block needs, by what occurs in it.
PACKAGES = [("to_pandas", "pandas"), (".plot(", "matplotlib"), ("to_polars", "polars"), ("torch", "torch")]


def blocks(language):
    """Yields the line number and the text of each block of a language."""
    text = PAGE.read_text()
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
        yield text[: found.start()].count("\n") + 2, found[1]


def missing_package(text):
    """Returns the reason why a block cannot run, if there is one."""
    for use, package in PACKAGES:
        if use in text:
            try:
                support.need("guide", package)
            except unittest.SkipTest as reason:
                return str(reason)
    return None


class Guide(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        shutil.copy(support.ROOT / "machines/amd-2p.tape", "server.tape")

    def test_examples_print_what_the_page_shows(self):
        variables = {"numaio": numaio}
        failures = []
        run = 0
        runner = doctest.DocTestRunner(
            verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        for line, text in blocks("pycon"):
            if missing_package(text):
                continue
            test = doctest.DocTestParser().get_doctest(text, variables, PAGE.name, str(PAGE), line - 1)
            test.globs = variables
            runner.run(test, out=failures.append, clear_globs=False)
            run += len(test.examples)
        self.assertFalse(failures, "".join(failures))
        self.assertGreater(run, 15)

    def test_examples_for_this_machine_run(self):
        device = support.live_device("guide")
        support.memory_policy("guide")
        run = 0
        for _, text in blocks("python"):
            if missing_package(text):
                compile(text, str(PAGE), "exec")
                continue
            code = compile(text.replace("nvme0n1", device), str(PAGE), "exec")
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, {"__name__": "guide", "numaio": numaio})
            run += 1
        self.assertGreater(run, 2)
