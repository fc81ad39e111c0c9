"""Two network namespaces for tools/bench-copy: joined by veth, and by a path that takes its time."""

import collections
import fcntl
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import time

NEAR, FAR = "numaio-near", "numaio-far"
# Addresses of the far side.
LAN, LONG = "10.87.0.1", "10.88.0.1"
# As between hosts that move data.
MTU = 9000
TUNSETIFF, IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x0001, 0x1000, 0x4000
# Packets are handed on before they are divided and have checksums, so that a process keeps up with two TCP ends on few
# cores (include/uapi/linux/if_tun.h, and struct virtio_net_hdr in front of each).
TUNSETOFFLOAD, TUN_F_CSUM, TUN_F_TSO4 = 0x400454D0, 0x01, 0x02
LARGEST = 10 + 65536
# Bytes under way in one direction at which packets are dropped, as a router does whose buffer is full.
MOST = 256 << 20


def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stdout.strip()}")


def tun(namespace, name, address):
    """A TUN device in a namespace, and its descriptor here (Documentation/networking/tuntap.rst)."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    call("ip", "link", "set", name, "netns", namespace)
    for words in (f"addr add {address}/24 dev {name}", f"link set {name} mtu {MTU} up"):
        call("ip", "-n", namespace, *words.split())
    call("ip", "-n", namespace, "link", "set", name, "txqueuelen", "10000")
    return device


def hand_on(ends, delay, loss):
    """Hands packets of two devices to each other, each after `delay` seconds, until it is killed. That share `loss` of them is lost."""
    queues = {a: (b, collections.deque()) for a, b in (ends, ends[::-1])}
    held = dict.fromkeys(ends, 0)
    for end in ends:
        os.set_blocking(end, False)
    while True:
        due = [queue[0][0] for _, queue in queues.values() if queue]
        wait = max(0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select(ends, [], [], wait)
        now = time.monotonic()
        for end in ready:
            for _ in range(64):
                try:
                    packet = os.read(end, LARGEST)
                except BlockingIOError:
                    break
                if held[end] < MOST and random.random() >= loss:
                    held[end] += len(packet)
                    queues[end][1].append((now + delay, packet))
        for end, (other, queue) in queues.items():
            while queue and queue[0][0] <= now:
                packet = queue.popleft()[1]
                held[end] -= len(packet)
                try:
                    os.write(other, packet)
                except OSError:
                    pass  # The device is down, or its queue is full: lost, as on any way.


class Path:
    """Namespaces while they are needed. `round_trip` in seconds; `loss` is the share of packets that get lost on the path that
    takes so long; `rate` is what veth carries each way, as tc(8) has it."""

    def __init__(self, round_trip=0, loss=0, rate=None):
        self.round_trip, self.loss, self.rate, self.process = round_trip, loss, rate, None

    def __enter__(self):
        self.__exit__()
        try:
            self.build()
        except OSError:
            self.__exit__()
            raise
        return self

    def build(self):
        for name in (NEAR, FAR):
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "-n", NEAR, "link", "add", "lan", "type", "veth", "peer", "name", "lan", "netns", FAR)
        for name, address in ((NEAR, "10.87.0.2"), (FAR, LAN)):
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "lan")
            call("ip", "-n", name, "link", "set", "lan", "up")
            if self.rate:
                call("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lan", "root", "tbf", "rate", self.rate,
                     "burst", "256k", "latency", "50ms")
            # As hosts on long paths are set up: windows for 95 ms.
            for way in ("tcp_rmem", "tcp_wmem"):
                call("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.{way}=4096 1048576 268435456")
        if self.round_trip:
            ends = [tun(NEAR, "long0", "10.88.0.2"), tun(FAR, "long1", LONG)]
            script = os.path.abspath(__file__)
            command = [sys.executable, script, *map(str, [*ends, self.round_trip / 2, self.loss])]
            self.process = subprocess.Popen(command, pass_fds=ends)
            for end in ends:
                os.close(end)

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
        for name in (NEAR, FAR):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def why_not():
    """Why there can be no namespaces here; none if there can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if not shutil.which("ip"):
        return "there is no ip (apt-get install iproute2)"
    return None


if __name__ == "__main__":
    hand_on([int(sys.argv[1]), int(sys.argv[2])], *map(float, sys.argv[3:]))
