"""Placements near devices, and binding of threads and workers."""

import concurrent.futures
import multiprocessing
import os
import pickle
import threading
import unittest

import numaio
from numaio import _placement, documents

from . import support


class Placements(unittest.TestCase):
    def test_a_placement_has_cpus_and_masks(self):
        placement = numaio.place("nvme0n1", machine=support.MACHINE, direction="read", tasks=4, spread=True)
        self.assertEqual(len(placement.tasks), 4)
        masks = [task.memory.node_mask for task in placement.tasks]
        self.assertEqual(placement.node_mask, masks[0] | masks[1] | masks[2] | masks[3])
        self.assertEqual(placement.cpus, frozenset().union(*(task.cpus for task in placement.tasks)))

    def test_a_placement_of_another_machine_is_rejected(self):
        placement = numaio.place("nvme0n1", machine=support.MACHINE)
        for use in [numaio.bind, numaio.worker_init, lambda placement: numaio.near(placement).__enter__()]:
            before = os.sched_getaffinity(0)
            with self.assertRaises(numaio.NumaioError) as caught:
                use(placement)
            self.assertIn("recorded machine 'amd-dl585-g7'", str(caught.exception))
            self.assertEqual(os.sched_getaffinity(0), before)

    def test_a_missing_device_is_an_error(self):
        with self.assertRaises(numaio.NumaioError) as caught:
            numaio.near("eth9", machine=support.MACHINE)
        self.assertEqual(caught.exception.status, 2)


class Policies(unittest.TestCase):
    def policies(self, policy, nodes):
        binding = documents.MemoryBinding(policy=policy, nodes=numaio.IdSet.parse(nodes))
        return [
            (found.mode & ~_placement._STATIC_NODES, found.mask) for found in _placement._policies(binding)
        ]

    def test_older_kernels_get_a_simpler_policy(self):
        self.assertEqual(self.policies("bind", "1,3"), [(2, 0b1010)])
        self.assertEqual(self.policies("preferred", "1"), [(1, 0b10)])
        self.assertEqual(self.policies("preferred", "1,3"), [(5, 0b1010), (1, 0b10)])
        self.assertEqual(self.policies("interleave", "0-1"), [(3, 0b11)])
        self.assertEqual(self.policies("weighted-interleave", "0-1"), [(6, 0b11), (3, 0b11)])


def policy_of_worker(_):
    """Returns the CPUs and the memory policy of a worker."""
    return os.sched_getaffinity(0), _placement._Kernel().policy()


def preferred(placement):
    """Returns the policy that a placement on one node sets."""
    return _placement._Policy(1 | _placement._STATIC_NODES, placement.node_mask)


class Binding(unittest.TestCase):
    def setUp(self):
        self.device = support.live_device("binding")
        self.policy = support.memory_policy("binding")
        self.cpus = os.sched_getaffinity(0)

    def assert_unbound(self):
        self.assertEqual(os.sched_getaffinity(0), self.cpus)
        self.assertEqual(_placement._Kernel().policy(), self.policy)

    def test_near_binds_and_restores(self):
        with numaio.near(self.device, tasks=1, cores=1) as placement:
            self.assertEqual(os.sched_getaffinity(0), placement.cpus)
            self.assertEqual(len(placement.cpus), 1)
            self.assertEqual(_placement._Kernel().policy(), preferred(placement))
        self.assert_unbound()

    def test_near_restores_after_an_exception(self):
        with self.assertRaises(ValueError):
            with numaio.near(self.device):
                raise ValueError("x")
        self.assert_unbound()

    def test_near_nests(self):
        with numaio.near(self.device) as outer:
            with numaio.near(outer):
                pass
            self.assertEqual(_placement._Kernel().policy(), preferred(outer))
        self.assert_unbound()

    def test_threads_inherit_the_binding_and_others_keep_theirs(self):
        seen = {}
        other = threading.Event()

        def wait():
            other.wait()
            seen["before"] = os.sched_getaffinity(0)

        before = threading.Thread(target=wait)
        before.start()
        with numaio.near(self.device, tasks=1, cores=1) as placement:
            inside = threading.Thread(target=lambda: seen.update(inside=policy_of_worker(0)))
            inside.start()
            inside.join()
            other.set()
            before.join()
        self.assertEqual(seen["inside"], (placement.cpus, preferred(placement)))
        self.assertEqual(seen["before"], self.cpus)

    def test_a_refused_policy_leaves_the_cpus_as_they_were(self):
        placement = numaio.place(self.device)
        placement.tasks[0].memory.nodes = numaio.IdSet([1000])
        with self.assertRaises(numaio.NumaioError) as caught:
            numaio.bind(placement)
        self.assertIn("cannot set the memory policy to preferred node 1000", str(caught.exception))
        self.assert_unbound()

    def test_workers_of_a_pool_are_bound(self):
        init = numaio.worker_init(self.device)
        for method in ["fork", "spawn"]:
            with multiprocessing.get_context(method).Pool(1, initializer=init) as pool:
                found = pool.map(policy_of_worker, [0])
            self.assertEqual(found, [(init.placement.cpus, preferred(init.placement))])
        with concurrent.futures.ProcessPoolExecutor(1, initializer=init) as executor:
            self.assertEqual(list(executor.map(policy_of_worker, [0])), found)
        self.assert_unbound()

    def test_numbered_workers_get_their_task(self):
        tasks = min(2, len(self.cpus))
        init = pickle.loads(pickle.dumps(numaio.worker_init(self.device, tasks=tasks)))
        for worker in range(4):
            found = in_child(init, worker)
            self.assertEqual(found, init.placement.tasks[worker % tasks].cpus)


def in_child(init, worker):
    """Calls the function in a process as a DataLoader does, and returns the CPUs of the process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)

    def run():
        init(worker)
        sender.send(os.sched_getaffinity(0))

    process = context.Process(target=run)
    process.start()
    process.join()
    return receiver.recv()
