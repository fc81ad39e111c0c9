"""The guest's first file system: an archive, kernel modules in load order, and programs with their libraries."""

import glob
import lzma
import os
import re
import stat
import struct
import subprocess

from architectures import Failure, read_file


def module_order(arch, names):
    """Returns module files in load order, dependencies first."""
    files = {}
    for path in glob.glob(arch.kernel + "/**/modules/**/*.ko*", recursive=True):
        name = os.path.basename(path).split(".ko")[0].replace("-", "_")
        files[name] = path
    order = {}

    def add(name):
        if name in order:
            return
        if name not in files:
            return  # built into the kernel
        data = read_file(files[name])
        if files[name].endswith(".xz"):
            data = lzma.decompress(data)
        depends = re.search(rb"\0depends=([^\0]*)\0", data)
        for other in depends[1].decode().split(",") if depends else []:
            add(other.replace("-", "_"))
        order[name] = data

    for name in names:
        add(name)
    return order


def is_dynamic(data):
    """Returns whether the data is a dynamically linked 64-bit ELF program."""
    if data[:5] != b"\x7fELF\x02":
        return False
    start = int.from_bytes(data[32:40], "little")
    size, count = struct.unpack_from("<HH", data, 54)
    kinds = [struct.unpack_from("<I", data, start + i * size)[0]
             for i in range(count)]
    return 3 in kinds  # PT_INTERP


def read_program(path, hint):
    """Reads a static program for the guest, which has no shared libraries."""
    data = read_file(path)
    if is_dynamic(data):
        raise Failure(f"{path} is not statically linked: {hint}")
    return data


def with_libraries(path):
    """Returns an absolute path and, of a dynamic program or library, the paths of
    its libraries and its loader."""
    path = os.path.abspath(path)
    found = [path]
    if read_file(path)[:4] == b"\x7fELF":
        listed = subprocess.run(["ldd", path], capture_output=True, text=True)
        # ldd fails for a static program. The vDSO has no path.
        found += re.findall(r"(?:=> |^\s)(/\S+) \(0x", listed.stdout, re.MULTILINE)
        missing = re.findall(r"(\S+) => not found", listed.stdout)
        if missing:
            raise Failure(f"{path} needs missing libraries: {', '.join(missing)}")
    return found


class Initramfs:
    """A cpio archive in the 'newc' format."""

    def __init__(self):
        self.data = bytearray()
        self.inode = 0
        self.directories = set()
        self.host_files = set()

    def add(self, name, data=b"", mode=stat.S_IFREG | 0o755):
        self.inode += 1
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0,
                  len(name) + 1, 0]
        self.data += b"070701" + b"".join(b"%08X" % f for f in fields)
        self.data += name.encode() + b"\0"
        self.pad()
        self.data += data
        self.pad()

    def pad(self):
        self.data += bytes(-len(self.data) % 4)

    def directory(self, name):
        self.directories.add(name)
        self.add(name, mode=stat.S_IFDIR | 0o755)

    def host_file(self, path):
        """Adds a file of this host at its path."""
        if path in self.host_files:
            return
        self.host_files.add(path)
        parent = ""
        for part in path.split("/")[1:-1]:
            parent = os.path.join(parent, part)
            if parent not in self.directories:
                self.directory(parent)
        self.add(path[1:], read_file(path))

    def modules(self, arch, names, folder):
        """Adds kernel modules, and a file `order` with their paths in load order, one per line."""
        modules = module_order(arch, names)
        for name, data in modules.items():
            self.add(f"{folder}/{name}.ko", data)
        self.add(f"{folder}/order", "".join(f"/{folder}/{name}.ko\n" for name in modules).encode())

    def link(self, name, target):
        self.add(name, target.encode(), stat.S_IFLNK | 0o777)

    def finish(self):
        self.add("TRAILER!!!", mode=0)
        return bytes(self.data)
