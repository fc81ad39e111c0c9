"""What is in the packages: the binary, pages that it generates, licenses, and the list of its libraries."""

import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import uuid

import dist_archives as archives
import python_types

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LICENSE_FILE = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.IGNORECASE)


class Failure(Exception):
    """A file or program that the packages need is missing."""


def read_text(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r'^version = "(.*)"', read_text("Cargo.toml"), re.MULTILINE)[1]


# --- the stage ---------------------------------------------------------------

def stage(folder, binary, arch, triple):
    """Copies the binary without symbols, and generates everything that depends on it."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    program = os.path.join(folder, "numaio")
    shutil.copyfile(binary, program)
    os.chmod(program, 0o755)
    subprocess.run([strip_tool(arch), "--strip-all", program], check=True)
    for kind in ("man", "completions"):
        subprocess.run([*runner(arch), program, "generate", kind, "--dir", os.path.join(folder, kind)],
                       check=True, stdout=subprocess.DEVNULL)
    for page in os.listdir(os.path.join(folder, "man")):
        compress(os.path.join(folder, "man", page))
    shutil.copyfile(os.path.join(ROOT, "CHANGELOG.md"), os.path.join(folder, "changelog"))
    compress(os.path.join(folder, "changelog"))
    libraries = Libraries(triple)
    write_text(os.path.join(folder, "numaio.cdx.json"), json.dumps(libraries.bill(program), indent=1) + "\n")
    write_text(os.path.join(folder, "THIRD-PARTY-LICENSES"), libraries.licenses())


def compress(path):
    """Replaces a file by path.gz."""
    with open(path, "rb") as file:
        archives.write(path + ".gz", archives.gzip_bytes(file.read()))
    os.unlink(path)


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def strip_tool(arch):
    return find_program("strip" if arch == platform.machine() else f"{arch}-linux-gnu-strip", "binutils")


def runner(arch):
    """Returns the command that runs programs of another processor."""
    return [] if arch == platform.machine() else [find_program(f"qemu-{arch}-static", "qemu-user-static")]


def find_program(name, package):
    path = shutil.which(name)
    if not path:
        raise Failure(f"'{name}' is missing (Debian's package {package})")
    return path


# --- libraries ---------------------------------------------------------------

class Libraries:
    """The crates that are linked into the binary, from Cargo.lock and `cargo metadata`."""

    def __init__(self, triple):
        metadata = cargo_metadata(triple)
        packages = {package["id"]: package for package in metadata["packages"]}
        linked = reachable(metadata["resolve"]["nodes"], packages, root_package(packages))
        self.packages = sorted((packages[name] for name in linked), key=lambda p: (p["name"], p["version"]))
        self.edges = {node["id"]: sorted(dep["pkg"] for dep in node["deps"] if dep["pkg"] in linked)
                      for node in metadata["resolve"]["nodes"] if node["id"] in linked}
        self.references = {package["id"]: reference(package) for package in self.packages}
        self.sums = checksums()

    def bill(self, program):
        """Returns the bill of materials in CycloneDX 1.5."""
        with open(program, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        component = {"type": "application", "bom-ref": "numaio", "name": "numaio", "version": version(),
                     "licenses": [{"expression": "Apache-2.0 OR MIT"}],
                     "hashes": [{"alg": "SHA-256", "content": digest}]}
        root = next(p["id"] for p in self.packages if p["name"] == "numaio-cli")
        dependencies = [{"ref": "numaio", "dependsOn": [self.references[root]]}]
        dependencies += [{"ref": self.references[name], "dependsOn": [self.references[d] for d in edges]}
                         for name, edges in sorted(self.edges.items())]
        return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
                "metadata": {"component": component},
                "components": [self.component(package) for package in self.packages],
                "dependencies": dependencies}

    def component(self, package):
        entry = {"type": "library", "bom-ref": self.references[package["id"]], "name": package["name"],
                 "version": package["version"]}
        if package["license"]:
            # An older syntax of crates, "MIT/Apache-2.0", is not a valid expression.
            entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        digest = self.sums.get((package["name"], package["version"]))
        if digest:
            entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
        if package["source"]:
            entry["purl"] = self.references[package["id"]]
        return entry

    def licenses(self):
        """Returns the license texts of the libraries; equal texts are printed once."""
        texts = {read_text("packaging/licenses", name).strip(): [name.removesuffix(".txt")]
                 for name in ("rust.txt", "musl.txt")}
        for package in self.packages:
            if not package["source"]:
                continue
            label = f"{package['name']} {package['version']} ({package['license']})"
            for text in license_texts(package):
                texts.setdefault(text, []).append(label)
        line = "-" * 78
        parts = [f"{line}\n{chr(10).join(labels)}\n{line}\n\n{text}\n" for text, labels in texts.items()]
        return "Libraries in the numaio binary, and their licenses.\n\n" + "\n".join(parts)


@functools.cache
def cargo_metadata(triple):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        raise Failure(f"cargo metadata failed: {result.stderr.strip()}")
    return json.loads(result.stdout)


def root_package(packages):
    return next(name for name, package in packages.items() if package["name"] == "numaio-cli")


def reachable(nodes, packages, root):
    """Returns packages that the root links, without those of builds, tests and macros."""
    nodes = {node["id"]: node for node in nodes}
    found, pending = {root}, [root]
    while pending:
        for dep in nodes[pending.pop()]["deps"]:
            linked = any(kind["kind"] is None for kind in dep["dep_kinds"])
            if linked and dep["pkg"] not in found and not is_macro(packages[dep["pkg"]]):
                found.add(dep["pkg"])
                pending.append(dep["pkg"])
    return found


def is_macro(package):
    """Returns whether a package is a procedural macro, which runs only in the compiler."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def checksums():
    """Returns the SHA-256 sums of registry packages by name and version."""
    entry = re.compile(r'\[\[package\]\]\nname = "(.*)"\nversion = "(.*)"\n(?:source = .*\n)?(?:checksum = "(.*)")?')
    return {(name, number): digest for name, number, digest in entry.findall(read_text("Cargo.lock")) if digest}


def license_texts(package):
    folder = os.path.dirname(package["manifest_path"])
    names = sorted(name for name in os.listdir(folder) if LICENSE_FILE.match(name))
    paths = [os.path.join(folder, name) for name in names]
    texts = []
    for path in filter(os.path.isfile, paths):
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append("\n".join(line.rstrip() for line in file.read().strip().splitlines()))
    return texts or [f"The package has no license file; its manifest states {package['license']}."]


# --- other contents ----------------------------------------------------------

# numaio resolves names of owners by these files.
PASSWD = b"root:x:0:0:root:/root:/usr/bin/numaio\n"
GROUP = b"root:x:0:\n"


def image_files(release):
    files = {"usr/bin/numaio": release.file("numaio"), "etc/passwd": PASSWD, "etc/group": GROUP}
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files["usr/share/doc/numaio/" + name] = os.path.join(ROOT, name)
    for name in ("THIRD-PARTY-LICENSES", "numaio.cdx.json"):
        files["usr/share/doc/numaio/" + name] = release.file(name)
    return files


def wheel_files(release):
    """Returns the files of the wheel: the program, its licenses, and the Python package."""
    info = f"numaio-{release.version}.dist-info"
    files = {f"numaio-{release.version}.data/scripts/numaio": release.file("numaio"),
             f"{info}/METADATA": wheel_metadata(release.version)}
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{name}"] = os.path.join(ROOT, name)
    files[f"{info}/licenses/THIRD-PARTY-LICENSES"] = release.file("THIRD-PARTY-LICENSES")
    files.update(python_package())
    return files


def python_package():
    """Returns the modules of the Python package by their names in the wheel."""
    python_types.generate()
    files = {}
    top = os.path.join(ROOT, "python/src/numaio")
    for folder, _, names in os.walk(top):
        for name in names:
            if name.endswith((".py", ".pyi", "py.typed")):
                path = os.path.join(folder, name)
                files[os.path.join("numaio", os.path.relpath(path, top))] = path
    return files


def wheel_metadata(number):
    fields = ["Metadata-Version: 2.1", "Name: numaio", f"Version: {number}",
              "Summary: I/O placement and file transfer on NUMA machines",
              "Home-page: https://github.com/numaio/numaio", "License: Apache-2.0 OR MIT",
              "Requires-Python: >=3.9", "Classifier: Operating System :: POSIX :: Linux",
              "Description-Content-Type: text/markdown"]
    return ("\n".join(fields) + "\n\n" + read_text("README.md")).encode()
