"""Archives with the same bytes for the same contents: tar, wheel, container image and sums."""

import base64
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import time
import zipfile


def mode_of(path):
    """Returns 0755 for a program and 0644 for any other file, whatever the umask was."""
    return 0o755 if os.stat(path).st_mode & stat.S_IXUSR else 0o644


def tar_bytes(files, epoch, folders=()):
    """Returns a tar archive of files, a map from names to paths or bytes. Folders are (name, mode) pairs."""
    entries = {parent: 0o755 for name in files for parent in parents(name)}
    entries.update(folders)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted([*entries, *files]):
            member = tarfile.TarInfo(name)
            member.mtime, member.uname, member.gname = epoch, "root", "root"
            if name in entries:
                member.type, member.mode = tarfile.DIRTYPE, entries[name]
                tar.addfile(member)
                continue
            content, member.mode = read(files[name])
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def parents(name):
    parts = name.split("/")[:-1]
    return ["/".join(parts[:i + 1]) for i in range(len(parts))]


def read(source):
    """Returns the bytes and the mode of a path or of bytes."""
    if isinstance(source, bytes):
        return source, 0o644
    with open(source, "rb") as file:
        return file.read(), mode_of(source)


def gzip_bytes(data):
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.write(data)
    return packed.getvalue()


def write(path, data):
    """Writes a file that appears only when it is complete."""
    with open(path + ".tmp", "wb") as file:
        file.write(data)
    os.rename(path + ".tmp", path)


def write_tar_gz(path, files, epoch):
    write(path, gzip_bytes(tar_bytes(files, epoch)))


def write_sums(folder):
    """Writes SHA256SUMS of all files in the folder, as sha256sum -c reads it."""
    lines = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name != "SHA256SUMS" and os.path.isfile(path):
            lines.append(f"{hashlib.sha256(read(path)[0]).hexdigest()}  {name}\n")
    write(os.path.join(folder, "SHA256SUMS"), "".join(lines).encode())


class Image:
    """An image of one layer in the layout of the OCI image specification 1.0, without a daemon."""

    def __init__(self, version, architecture, epoch):
        self.version, self.architecture, self.epoch = version, architecture, epoch
        self.created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
        self.blobs = {}

    def add(self, media_type, data):
        """Adds a blob and returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, media_type, value):
        return self.add(media_type, json.dumps(value, sort_keys=True, separators=(",", ":")).encode())

    def config(self, diff_id):
        labels = {"org.opencontainers.image.title": "numaio",
                  "org.opencontainers.image.version": self.version,
                  "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                  "org.opencontainers.image.source": "https://github.com/numaio/numaio"}
        return {"architecture": self.architecture, "os": "linux", "created": self.created,
                "config": {"Entrypoint": ["/usr/bin/numaio"], "Env": ["PATH=/usr/bin", "HOME=/root"],
                           "Labels": labels},
                "rootfs": {"type": "layers", "diff_ids": [diff_id]},
                "history": [{"created": self.created, "created_by": "tools/dist"}]}

    def write(self, path, files):
        layer = tar_bytes(files, self.epoch, [("root", 0o700), ("tmp", 0o1777)])
        diff_id = f"sha256:{hashlib.sha256(layer).hexdigest()}"
        oci = "application/vnd.oci.image."
        config = self.add_json(oci + "config.v1+json", self.config(diff_id))
        manifest = self.add_json(oci + "manifest.v1+json", {
            "schemaVersion": 2, "mediaType": oci + "manifest.v1+json", "config": config,
            "layers": [self.add(oci + "layer.v1.tar+gzip", gzip_bytes(layer))]})
        manifest["platform"] = {"architecture": self.architecture, "os": "linux"}
        # 'podman load' names the image by it.
        manifest["annotations"] = {"org.opencontainers.image.ref.name": f"numaio:{self.version}"}
        index = {"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": [manifest]}
        self.blobs["index.json"] = json.dumps(index, sort_keys=True).encode()
        self.blobs["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
        write(path, tar_bytes(self.blobs, self.epoch))


# The static binary needs neither glibc nor musl of the system.
WHEEL_TAG = "py3-none-manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"


def write_wheel(folder, version, arch, files, epoch):
    """Writes a wheel (PEP 427). Files below numaio-VERSION.data/scripts become programs on PATH."""
    tag = WHEEL_TAG.format(arch=arch)
    info = f"numaio-{version}.dist-info"
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    files = {**files, f"{info}/WHEEL": ("Wheel-Version: 1.0\nGenerator: numaio tools/dist\n"
                                        "Root-Is-Purelib: false\n" + tags).encode()}
    record = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(read(files[name])[0]).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(read(files[name])[0])}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = "".join(record).encode()
    path = os.path.join(folder, f"numaio-{version}-{tag}.whl")
    write(path, zip_bytes(files, epoch))


def zip_bytes(files, epoch):
    data = io.BytesIO()
    date = time.gmtime(max(epoch, 315532800))[:6]  # a zip archive has no earlier date
    with zipfile.ZipFile(data, "w") as archive:
        # RECORD is last, as PEP 427 recommends.
        for name in sorted(files, key=lambda name: (name.endswith("/RECORD"), name)):
            content, mode = read(files[name])
            member = zipfile.ZipInfo(name, date)
            member.create_system = 3  # Unix, for the mode
            member.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return data.getvalue()
