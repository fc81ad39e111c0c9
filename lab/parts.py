"""Builds what the lab runs: QEMU's plugin, the guest's init and kernel, and the server of disks."""

import fcntl
import functools
import glob
import os
import re
import shutil

from architectures import ARCHITECTURES, BUILD, LAB, Failure, build_kernel, call, find_tool

# Programs of the lab itself run on this processor.
HOST = ARCHITECTURES["x86_64"]
DISK = os.path.join(BUILD, "disk", "release", "numaio-lab-disk")


def compile_c(arch, target, source, *flags):
    source = os.path.join(LAB, source)
    if newer(target, source):
        return
    part = f"{target}.{os.getpid()}.tmp"
    call(find_tool(arch.compiler, arch.compiler_package), "-O2", "-Wall", *flags,
         "-o", part, source)
    os.rename(part, target)


@functools.cache
def qemu_version(arch):
    """Returns the major version, or 0 if QEMU does not report one."""
    output = call(find_tool(arch.qemu, arch.package), "--version")
    version = re.search(r"version (\d+)", output)
    return int(version[1]) if version else 0


def plugin_api(arch):
    """Returns the plugin API version: 1 before QEMU 9, 2 from QEMU 9."""
    return 2 if qemu_version(arch) >= 9 else 1


def plugin(arch):
    return os.path.join(BUILD, f"libnumabw-{plugin_api(arch)}.so")


def newer(target, *sources):
    try:
        built = os.stat(target).st_mtime
        return all(os.stat(s).st_mtime <= built for s in sources)
    except FileNotFoundError:
        return False


def remove_old_logs(keep=50):
    logs = glob.glob(os.path.join(BUILD, "logs", "*.log"))
    for old in sorted(logs, key=os.path.getmtime)[:-keep]:
        os.unlink(old)


def remove_killed_runs():
    """Removes folders of killed runs, which contain images of disks."""
    for folder in glob.glob(os.path.join(BUILD, "tmp", "*-*")):
        if not os.path.exists("/proc/" + folder.rsplit("-", 1)[1]):
            shutil.rmtree(folder, ignore_errors=True)


def build_disk():
    """Builds the program that serves vhost-disks."""
    folder = os.path.join(LAB, "disk")
    if newer(DISK, *glob.glob(folder + "/Cargo.*"),
             *glob.glob(folder + "/src/**/*.rs", recursive=True)):
        return
    if not shutil.which("cargo"):
        raise Failure("cargo is missing: see https://rustup.rs")
    call("cargo", "build", "--release", "--quiet", "--locked",
         "--target-dir", os.path.join(BUILD, "disk"),
         "--manifest-path", os.path.join(folder, "Cargo.toml"))


def build_parts(arch, with_disk):
    os.makedirs(os.path.join(BUILD, "logs"), exist_ok=True)
    with open(os.path.join(BUILD, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several runs may start concurrently
        compile_c(HOST, plugin(arch), "plugin/numabw.c", "-shared", "-fPIC",
                  "-fvisibility=hidden", f"-DAPI_VERSION={plugin_api(arch)}")
        compile_c(arch, arch.init, "guest/init.c", "-static")
        if with_disk:
            build_disk()
        build_kernel(arch)
        remove_old_logs()
        remove_killed_runs()
