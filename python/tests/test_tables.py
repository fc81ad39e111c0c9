"""Matrices, tables, and their conversion to other packages."""

import math
import unittest
from unittest import mock

import numaio

from . import support


class Matrices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stream = numaio.run("stream", machine="amd-2p", no_save=True)
        cls.latency = numaio.run("latency", machine="amd-2p", no_save=True)
        cls.model = numaio.run("model", machine="amd-2p", all=True, no_save=True)

    def test_unknown_names_are_errors_with_the_measured_ones(self):
        for document, name, known in ((self.model, "copy", "write, read"), (self.stream, "cpy", "copy")):
            with self.assertRaises(numaio.NumaioError) as raised:
                document.matrix(name)
            self.assertIn(f"'{name}'", raised.exception.message)
            self.assertEqual(raised.exception.hint, f"measured: {known}")

    def test_stream_has_a_value_for_each_pair_of_nodes(self):
        matrix = self.stream.matrix("copy")
        self.assertEqual((matrix.rows, matrix.columns), ([0, 1, 2, 3], [0, 1, 2, 3]))
        cell = next(
            cell for cell in self.stream.cells if (cell.op, cell.cpu_node, cell.memory_node) == ("copy", 2, 1)
        )
        self.assertEqual(matrix[2, 1], cell.bytes_per_s.summary.median)
        self.assertEqual(matrix.best(), max(value for row in matrix.values for value in row))

    def test_the_best_latency_is_the_lowest(self):
        matrix = self.latency.matrix()
        self.assertEqual(
            (matrix.unit, matrix.best()), ("ns", min(value for row in matrix.values for value in row))
        )

    def test_a_model_of_all_nodes_is_a_matrix(self):
        matrix = self.model.matrix("read")
        self.assertEqual(matrix[1, 3], self.model.target(1).direction("read").bandwidth(3))
        self.assertEqual(
            len(self.model.table()), sum(len(d.nodes) for t in self.model.targets for d in t.directions)
        )

    def test_rows_of_a_model_have_their_class(self):
        for row in self.model.table().rows():
            self.assertEqual(
                row["class"], self.model.target(row["target"]).direction(row["direction"]).rank(row["node"])
            )

    def test_targets_are_selected_by_node_or_device(self):
        model = support.fixture("model-1.json")
        self.assertIs(model.target(), model.targets[0])
        self.assertIs(model.target("nvme0n1"), model.target(0))
        for wrong in [9, "eth9"]:
            with self.assertRaises(numaio.NumaioError) as caught:
                model.target(wrong)
            self.assertIn(f"no target '{wrong}'", str(caught.exception))
        with self.assertRaises(numaio.NumaioError):
            self.model.target()

    def test_documents_are_tables(self):
        views = support.fixture("comparison-1.json")
        self.assertEqual(len(views.table()), sum(len(view.nodes) for view in views.views))
        self.assertEqual(views.view("slit").table().columns["node"], [0, 1, 2, 3])
        self.assertEqual(len(support.fixture("sweep-1.json").table()), 4)
        sweep = support.fixture("sweep-1.json").matrix()
        self.assertEqual(sweep.unit, "B/s")
        topology = numaio.run("topology", machine=support.MACHINE)
        self.assertEqual((topology.matrix()[0, 0], topology.node(7).id), (10.0, 7))

    def test_a_missing_package_is_an_error_with_a_hint(self):
        with mock.patch.dict("sys.modules", {"pandas": None}):
            with self.assertRaises(numaio.NumaioError) as caught:
                self.stream.to_pandas()
        self.assertEqual(caught.exception.hint, "pip install pandas")

    def test_pandas(self):
        support.need("pandas", "pandas")
        frame = self.stream.matrix("copy").to_pandas()
        self.assertEqual(frame.loc[2, 1], self.stream.matrix("copy")[2, 1])
        self.assertEqual((frame.index.name, frame.columns.name), ("CPU node", "memory node"))
        frame = self.model.to_pandas()
        self.assertEqual(len(frame), len(self.model.table()))
        self.assertEqual(frame[frame["class"] == 1]["numa_factor"].min(), 1.0)

    def test_polars(self):
        support.need("polars", "polars")
        self.assertEqual(self.stream.to_polars().height, len(self.stream.cells))

    def test_pyarrow(self):
        support.need("pyarrow", "pyarrow")
        self.assertEqual(self.latency.to_arrow().num_rows, len(self.latency.cells))

    def test_numpy(self):
        support.need("numpy", "numpy")
        import numpy

        matrix = numaio.Matrix("x", "", "row", [0, 1], "column", [5], [[1.0], [None]])
        array = numpy.asarray(matrix)
        self.assertEqual((array.shape, array[0, 0]), ((2, 1), 1.0))
        self.assertTrue(math.isnan(array[1, 0]))


class Plots(unittest.TestCase):
    def setUp(self):
        support.need("plots", "matplotlib")
        import matplotlib

        matplotlib.use("Agg")

    def test_a_heat_map_shows_every_value(self):
        matrix = numaio.run("stream", machine="amd-2p", no_save=True).matrix("copy")
        axes = matrix.plot()
        texts = [text.get_text() for text in axes.texts]
        self.assertEqual(len(texts), 16)
        self.assertEqual(texts[0], f"{matrix[0, 0] / 1e9:.3f}")
        self.assertEqual(axes.get_title(), "STREAM copy, GB/s")
        shades = axes.images[0].get_array()
        self.assertEqual(shades.min(), 0.0)

    def test_bars_of_a_class_have_one_color(self):
        model = support.fixture("model-1.json").targets[0].direction("write")
        axes = model.plot()
        colors = [bar.get_facecolor() for bar in axes.patches]
        self.assertEqual(len(colors), 4)
        self.assertEqual(colors[2], colors[3])
        self.assertEqual(len(set(colors)), 3)
        labels = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(labels[0].split(), ["class", "1", "0"])
