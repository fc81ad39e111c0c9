"""What differs between the processors that the lab emulates: QEMU's machine, the guest's kernel and busybox."""

import ctypes
import glob
import lzma
import os
import re
import shutil
import subprocess

LAB = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(LAB)
BUILD = os.path.join(LAB, "build")
# Disables features that only cost boot time in an emulator.
KERNEL_LINE = ("quiet panic=-1 mitigations=off nokaslr nowatchdog audit=0 lsm= init_on_alloc=0 random.trust_cpu=on "
               "cryptomgr.notests rcupdate.rcu_expedited=1")
# The last-level cache of aarch64 in its device tree, with an arbitrary unused handle.
CACHE, CACHE_HANDLE = "/cpus/l2-cache", "4096"


# Exit status at a failure.
LAB_FAILED = 125


class Failure(Exception):
    """An error of the lab, not of the guest's command."""


def path_of(program):
    """Returns the path of a program, or None; a user's PATH may lack the folders of those for root."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def find_tool(name, package):
    path = shutil.which(name)
    if not path:
        raise Failure(f"{name} is missing: apt-get install {package}")
    return path


def call(*args, **kw):
    result = subprocess.run(args, capture_output=True, text=True, **kw)
    if result.returncode:
        raise Failure(f"{' '.join(args)}:\n{result.stdout}{result.stderr}".rstrip())
    return result.stdout


def read_file(path):
    with open(path, "rb") as f:
        return f.read()


def shape(m):
    """Returns the numbers of packages, and of dies in each."""
    with_cpus = [n for n in m["nodes"] if n["cpus"]]
    return (1 + max(n["package"] for n in with_cpus),
            1 + max(n["die"] for n in with_cpus))


def cpu_count(m):
    return sum(len(n["cpus"]) for n in m["nodes"])


class X86:
    """QEMU's q35 with ACPI. A host bridge for each node places devices."""

    name = "x86_64"
    debian = "amd64"
    qemu, package = "qemu-system-x86_64", "qemu-system-x86"
    compiler, compiler_package = "gcc", "gcc libc6-dev"
    tools = [(qemu, package)]
    kernel = os.path.join(BUILD, "kernel")
    image = os.path.join(kernel, "vmlinux")
    init = os.path.join(BUILD, "init")

    def apt(self, _):
        """Returns options of apt-get that select packages of this processor."""
        return []

    def busybox(self):
        return find_tool("busybox", "busybox-static")

    def packages(self):
        """Returns the guest's packages beside the kernel."""
        return []

    def finish_kernel(self, folder):
        """Unpacks the kernel on the host, which halves the guest's boot time."""
        data = read_file(glob.glob(os.path.join(folder, "boot", "vmlinuz-*"))[0])
        setup = (data[0x1f1] or 4) * 512 + 512
        start = setup + int.from_bytes(data[0x248:0x24c], "little")
        size = int.from_bytes(data[0x24c:0x250], "little")
        try:
            data = lzma.LZMADecompressor().decompress(data[start:start + size])
        except lzma.LZMAError:
            pass  # another compression, which the guest unpacks
        with open(os.path.join(folder, "vmlinux"), "wb") as f:
            f.write(data)

    def machine(self, m, plugin):
        """Returns QEMU's options for the board, the CPUs and the kernel."""
        packages, dies = shape(m)
        cpus = cpu_count(m)
        khz = ctypes.CDLL(plugin, mode=os.RTLD_LAZY).numabw_tsc_khz()
        return ["-machine", "q35",
                # Without L3 the L2 cache of 512 KiB is the last level.  The vendor
                # is Intel, because TCG does not report dies as AMD CPUs do.
                "-cpu", "EPYC,vendor=GenuineIntel,l3-cache=off,"
                        "model-id=numaio lab emulated CPU",
                "-smp", f"{cpus},sockets={packages},dies={dies},"
                        f"cores={cpus // (packages * dies)},threads=1",
                "-smbios", "type=1,manufacturer=numaio lab,"
                           f"product=emulated {m['name']}",
                # The guest's TSC is the host's, so the guest must not calibrate it.
                "-append", f"console=ttyS0 {KERNEL_LINE} tsc=reliable tsc_early_khz={khz} lpj={4 * khz} "
                           "no_timer_check 8250.nr_uarts=1 i8042.nokbd i8042.noaux"]

    def memory_map(self, m):
        """Returns where q35 maps the memory of the nodes: in order from 0, with a hole below 4 GiB for devices
        (hw/i386/pc_q35.c)."""
        parts, at = [], 0
        memory = sum(n["memory_mib"] for n in m["nodes"]) << 20
        hole = 2 << 30 if memory >= 0xb0000000 else 0xb0000000
        for n in m["nodes"]:
            left = n["memory_mib"] << 20
            while left:
                size = min(left, hole - at) if at < hole else left
                parts.append({"start": at, "size": size, "node": n["id"]})
                at, left = at + size, left - size
                if at == hole:
                    at = 4 << 30
        return parts

    def bridges(self, m):
        """Returns options that create host bridges, and the name of each node's bridge."""
        nodes = sorted({d["node"] for d in m["devices"]})
        options = []
        for node in nodes:
            options += ["-device", f"pxb-pcie,id=bridge{node},bus=pcie.0,bus_nr={32 + 16 * node},numa_node={node}"]
        return options, {node: f"bridge{node}" for node in nodes}

    def describe(self, _command, _m, _tmp):
        """Returns further options, for what QEMU cannot state."""
        return []


class Aarch64:
    """QEMU's virt with a device tree, which has one host bridge.

    With ACPI it would have one for each node, but EDK II 2022.11 reports memory of no node then, and Linux ignores
    all nodes.
    """

    name = "aarch64"
    debian = "arm64"
    qemu, package = "qemu-system-aarch64", "qemu-system-arm"
    compiler, compiler_package = "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"
    tools = [(qemu, package), (compiler, compiler_package), ("fdtput", "device-tree-compiler")]
    kernel = os.path.join(BUILD, "kernel-aarch64")
    image = os.path.join(kernel, "vmlinuz")
    init = os.path.join(BUILD, "init-aarch64")

    def apt(self, folder):
        """Uses package lists of its own, so that the packages of this host do not change."""
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, "apt", name), exist_ok=True)
        apt = os.path.join(folder, "apt")
        open(os.path.join(apt, "status"), "w", encoding="utf-8").close()
        options = ["-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64",
                   "-o", f"Dir::State::Lists={apt}/lists", "-o", f"Dir::State::status={apt}/status",
                   "-o", f"Dir::Cache={apt}/cache", "-o", "APT::Sandbox::User=root"]
        call(find_tool("apt-get", "apt"), *options, "-qq", "update")
        return options

    def busybox(self):
        return os.path.join(self.kernel, "bin", "busybox")

    def packages(self):
        return ["busybox-static"]

    def finish_kernel(self, folder):
        os.rename(glob.glob(os.path.join(folder, "boot", "vmlinuz-*"))[0], os.path.join(folder, "vmlinuz"))
        shutil.rmtree(os.path.join(folder, "apt"))

    def machine(self, m, _plugin):
        packages, dies = shape(m)
        cpus = cpu_count(m)
        return ["-machine", "virt,gic-version=3", "-cpu", "neoverse-n1",
                "-smp", f"{cpus},sockets={packages},clusters={dies},cores={cpus // (packages * dies)},threads=1",
                "-append", f"console=ttyAMA0 {KERNEL_LINE} net.ifnames=0"]

    def memory_map(self, m):
        """Returns where virt maps the memory of the nodes: in order from 1 GiB (hw/arm/virt.c)."""
        parts, at = [], 1 << 30
        for n in m["nodes"]:
            parts.append({"start": at, "size": n["memory_mib"] << 20, "node": n["id"]})
            at += n["memory_mib"] << 20
        return parts

    def bridges(self, m):
        nodes = sorted({d["node"] for d in m["devices"]})
        if len(nodes) > 1:
            raise Failure(f"machine {m['name']}: aarch64 has one host bridge, and the devices are on {len(nodes)} nodes")
        return [], {node: "pcie.0" for node in nodes}

    def describe(self, command, m, tmp):
        """Writes QEMU's device tree with the name of the machine, the node of the host bridge, and caches."""
        tree = os.path.join(tmp, "tree.dtb")
        dump = list(command)
        dump[dump.index("-machine") + 1] += f",dumpdtb={tree}"
        call(*dump, cwd=tmp)
        put = [find_tool("fdtput", "device-tree-compiler")]
        call(*put, "-t", "s", tree, "/", "model", f"numaio lab emulated {m['name']}")
        for node in {d["node"] for d in m["devices"]}:
            call(*put, tree, "/pcie@10000000", "numa-node-id", str(node))
        call(*put, "-c", tree, CACHE)
        for name, value in (("cache-level", "2"), ("cache-size", str(512 << 10)), ("phandle", CACHE_HANDLE)):
            call(*put, tree, CACHE, name, value)
        call(*put, tree, CACHE, "cache-unified")
        for cpu in range(cpu_count(m)):
            call(*put, tree, f"/cpus/cpu@{cpu}", "next-level-cache", CACHE_HANDLE)
        return ["-dtb", tree]


ARCHITECTURES = {found.name: found for found in (X86(), Aarch64())}


def fetch_kernel(arch, into):
    """Downloads Debian's kernel and the guest's other packages, and unpacks (does not install) them."""
    given = os.environ.get("NUMAIO_LAB_KERNEL_DEB") if arch.name == "x86_64" else None
    if given and not os.path.exists(given):
        raise Failure(f"NUMAIO_LAB_KERNEL_DEB: file {given!r} does not exist")
    if given:
        shutil.copy(given, os.path.join(into, "kernel.deb"))
    else:
        options = arch.apt(into)
        depends = call(find_tool("apt-cache", "apt"), *options, "depends", f"linux-image-{arch.debian}")
        real = re.search(r"Depends: (linux-image-\S+)", depends)
        if not real:
            raise Failure(f"apt has no package linux-image-{arch.debian}: run apt-get update, or "
                          "set NUMAIO_LAB_KERNEL_DEB to a Debian kernel package")
        call("apt-get", *options, "download", real[1], *arch.packages(), cwd=into)
    for deb in glob.glob(os.path.join(into, "*.deb")):
        call(find_tool("dpkg", "dpkg"), "-x", deb, into)
        os.unlink(deb)
    if not glob.glob(os.path.join(into, "boot", "vmlinuz-*")):
        raise Failure(f"{given or 'Debian package'} contains no kernel image")
    arch.finish_kernel(into)


def build_kernel(arch):
    if os.path.exists(arch.kernel):
        return
    part = f"{arch.kernel}.{os.getpid()}.tmp"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    try:
        fetch_kernel(arch, part)
        os.rename(part, arch.kernel)
    finally:
        shutil.rmtree(part, ignore_errors=True)
