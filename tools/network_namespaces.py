"""Two network namespaces for tools/bench-copy, connected by veth and by a path with delay and loss."""

import collections
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

NEAR, FAR = "numaio-near", "numaio-far"
# Addresses of the far side on the two paths.
LAN, LONG = "10.87.0.1", "10.88.0.1"
# Jumbo frames, as between data transfer nodes.
MTU = 9000
TUNSETIFF, IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x0001, 0x1000, 0x4000
# Packets are forwarded before segmentation and checksums, so that one process keeps up with TCP on few cores
# (include/uapi/linux/if_tun.h; a struct virtio_net_hdr precedes each packet).
TUNSETOFFLOAD, TUN_F_CSUM, TUN_F_TSO4 = 0x400454D0, 0x01, 0x02
LARGEST_PACKET = 10 + 65536
# Bytes in flight in one direction above which packets are dropped, like a full router buffer.
MOST_IN_FLIGHT = 256 << 20


def call(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise OSError(f"{' '.join(command)}: {result.stdout.strip()}")


def tun(namespace, name, address):
    """Creates a TUN device in a namespace; returns its descriptor (Documentation/networking/tuntap.rst)."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    call("ip", "link", "set", name, "netns", namespace)
    for arguments in (f"addr add {address}/24 dev {name}", f"link set {name} mtu {MTU} up"):
        call("ip", "-n", namespace, *arguments.split())
    call("ip", "-n", namespace, "link", "set", name, "txqueuelen", "10000")
    return device


def forward(ends, delay, loss):
    """Forwards packets between two devices after `delay` seconds, and drops the share `loss`, until it is killed."""
    queues = {a: (b, collections.deque()) for a, b in (ends, ends[::-1])}
    in_flight = dict.fromkeys(ends, 0)
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
                    packet = os.read(end, LARGEST_PACKET)
                except BlockingIOError:
                    break
                if in_flight[end] < MOST_IN_FLIGHT and random.random() >= loss:
                    in_flight[end] += len(packet)
                    queues[end][1].append((now + delay, packet))
        for end, (other, queue) in queues.items():
            while queue and queue[0][0] <= now:
                packet = queue.popleft()[1]
                in_flight[end] -= len(packet)
                try:
                    os.write(other, packet)
                except OSError:
                    pass  # The device is down, or its queue is full: the packet is lost.


class Namespaces:
    """Creates the namespaces for the duration of a `with` block.

    `round_trip` (seconds) and `loss` (share of packets) apply to the long path, `rate` (as in tc(8)) to veth."""

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
            # TCP windows for 95 ms, as configured on hosts with long paths.
            for setting in ("tcp_rmem", "tcp_wmem"):
                call("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.{setting}=4096 1048576 268435456")
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


if __name__ == "__main__":
    forward([int(sys.argv[1]), int(sys.argv[2])], *map(float, sys.argv[3:]))
