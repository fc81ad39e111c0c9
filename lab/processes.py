"""Starts processes that end with the lab."""

import ctypes
import signal
import subprocess


def start(args, tmp, out):
    """Starts a process that ends with this one. It runs in the folder of its
    sockets, because socket paths must be short."""
    return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out,
                            stderr=out, cwd=tmp, start_new_session=True,
                            preexec_fn=die_with_parent)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
