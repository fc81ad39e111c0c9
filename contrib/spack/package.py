# Copyright The numaio developers.
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack.package import *


class Numaio(CargoPackage):
    """I/O placement and file transfer on NUMA machines.

    numaio classifies NUMA nodes by the bandwidth between their memory and a device, places programs near devices, and
    copies files between hosts.
    """

    homepage = "https://github.com/numaio/numaio"
    git = "https://github.com/numaio/numaio.git"

    license("Apache-2.0 OR MIT", checked_by="numaio")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.89:", type="build")

    requires("platform=linux", msg="numaio reads /sys and /proc of Linux")

    @property
    def build_args(self):
        return ["--release", "--locked", "--package", "numaio-cli"]

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        install("target/release/numaio", prefix.bin)

    @run_after("install")
    def install_pages(self):
        numaio = Executable(self.prefix.bin.numaio)
        numaio("generate", "man", "--dir", self.prefix.share.man.man1)
        numaio("generate", "completions", "--dir", self.stage.path)
        completions = {
            "numaio.bash": self.prefix.share.join("bash-completion").completions.numaio,
            "_numaio": self.prefix.share.zsh.join("site-functions").join("_numaio"),
            "numaio.fish": self.prefix.share.fish.join("vendor_completions.d").join("numaio.fish"),
        }
        for name, target in completions.items():
            mkdirp(ancestor(target))
            install(join_path(self.stage.path, name), target)

    def test_model(self):
        """classify a recorded machine"""
        numaio = Executable(self.prefix.bin.numaio)
        out = numaio("model", "--machine", "amd-dl585-g7", output=str.split, error=str.split)
        assert "Device write" in out
