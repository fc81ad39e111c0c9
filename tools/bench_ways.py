"""The programs that tools/bench-copy compares: how each is started at both ends."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Callable

NO_SHELL = ["-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
# Listens, or connects, and hands the socket to a program.
RECEIVE = """import os, socket, sys
server = socket.create_server(("", 9000))
while True:
    peer, _ = server.accept()
    if os.fork() == 0:
        os.dup2(peer.fileno(), 0)
        os.execvp("tar", ["tar", "-x", "-p", "-C", sys.argv[1], "-f", "-"])
    peer.close()
    os.wait()
"""
SEND = """import os, socket, subprocess, sys
peer = socket.create_connection((sys.argv[1], 9000))
subprocess.run(["tar", "-c", "-C", sys.argv[2], "-f", "-", "."], stdout=peer, check=True)
peer.shutdown(socket.SHUT_WR)
peer.recv(1)  # The other end closes when all is there.
"""


@dataclass
class Run:
    """What is copied where. `address` is the far side's, none on one machine; `scratch` for keys and settings; `cold` says
    that the source is out of the cache, `fresh` that the destination is a file system of its own."""

    source: str
    to: str
    scratch: str
    address: str | None
    cold: bool
    fresh: bool
    holds: tuple

    def write(self, name, text):
        path = f"{self.scratch}/{name}"
        with open(path, "w") as file:
            file.write(text)
        return path


@dataclass(eq=False)
class Way:
    """A program. `server` gives a command for the far side and the port on which it listens."""

    name: str
    security: str
    programs: list
    client: Callable
    server: Callable | None = None
    environment: Callable = field(default=lambda run: {})
    # Options that its binary must have.
    options: list = field(default_factory=list)
    # Whether it needs a large file that is out of the cache.
    cold: bool = False

    def missing(self):
        """Why it cannot run here; none if it can."""
        path = os.environ.get("PATH", "") + ":/usr/sbin"
        absent = [program for program in self.programs if not shutil.which(program, path=path)]
        if absent:
            return f"not installed: {', '.join(absent)}"
        for option in self.options:
            words = subprocess.run([self.programs[0], "copy", "--help"], capture_output=True, text=True).stdout
            if option not in words:
                return f"not built: {option}"
        return None


def numaio(binary):
    """The name of a binary in tables, and its path: [NAME=]PATH."""
    name, _, path = binary.rpartition("=")
    return (f"numaio {name}".strip(), os.path.abspath(path))


def local(binaries):
    ways = []
    for binary in binaries:
        name, path = numaio(binary)
        copy = [path, "copy", "-a", "--quiet"]
        ways.append(Way(name, "hashed", [path], lambda run, copy=copy: [*copy, f"{run.source}/", f"{run.to}/"]))
        ways.append(Way(f"{name} --hash none", "-", [path],
                        lambda run, copy=copy: [*copy, "--hash", "none", f"{run.source}/", f"{run.to}/"]))
    ways.append(Way("cp -a", "-", ["cp"], lambda run: ["cp", "-a", f"{run.source}/.", run.to]))
    ways.append(Way("rsync -a", "-", ["rsync"], lambda run: ["rsync", "-a", f"{run.source}/", f"{run.to}/"]))
    return [*ways, FIO]


def fio(run):
    """Reads what is copied, and writes as much, at once: what the disks give, without a word said to anybody."""
    job = ["--ioengine=io_uring", "--direct=1", "--iodepth=16", "--bs=1M", f"--size={run.holds[1]}", "--output=/dev/null"]
    return ["fio", *job, "--name=read", f"--filename={run.source}/bulk", "--rw=read", "--name=write",
            f"--filename={run.to}/bulk", "--rw=write"]


FIO = Way("fio, O_DIRECT", "-", ["fio"], fio, cold=True)


def sshd(run):
    """A server of our own: keys, settings and log in the scratch directory."""
    host, user = f"{run.scratch}/host", f"{run.scratch}/user"
    for key in (host, user):
        if not os.path.exists(key):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    os.makedirs("/run/sshd", exist_ok=True)
    settings = run.write("sshd_config", f"""Port 2222
HostKey {host}
AuthorizedKeysFile {user}.pub
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile none
Subsystem sftp internal-sftp
""")
    return ["/usr/sbin/sshd", "-D", "-e", "-f", settings], 2222


def ssh(run):
    return ["-i", f"{run.scratch}/user", "-oPort=2222", *NO_SHELL]


def ssh_script(run):
    """For programs that take the name of an ssh, but few of its options."""
    script = run.write("ssh", f"#!/bin/sh\nexec ssh {' '.join(ssh(run))} \"$@\"\n")
    os.chmod(script, 0o755)
    return script


def numaio_ssh(run):
    return {"NUMAIO_SSH": ssh_script(run)}


def numaio_keys(run, path):
    """Keys of a daemon and of its user, made once; the public ones."""
    public = []
    for name in ("daemon-key", "user-key"):
        key = f"{run.scratch}/{name}"
        made = os.path.exists(key)
        words = [path, "keygen", *(["--public"] if made else []), key]
        public.append(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())
    return public


def numaio_daemon(path):
    def server(run):
        _, user = numaio_keys(run, path)
        settings = run.write("serve.toml", f"""listen = ["[::]:6862"]
key = "{run.scratch}/daemon-key"
as_root = true
[root.to]
path = "{run.to}"
write = "bench"
[user.bench]
keys = "{user}"
""")
        return [path, "serve", "--config", settings], 6862
    return server


def rsyncd(run):
    settings = run.write("rsyncd.conf", f"use chroot = no\n[to]\npath = {run.to}\nread only = no\nuid = root\ngid = root\n")
    return ["rsync", "--daemon", "--no-detach", "--port", "8730", "--config", settings], 8730


def xrootd(run):
    settings = run.write("xrootd.cfg", f"xrd.port 1094\nall.export {run.to}\nall.adminpath {run.scratch}/xrd\n"
                                       f"all.pidpath {run.scratch}/xrd\n")
    os.makedirs(f"{run.scratch}/xrd", exist_ok=True)
    os.chmod(run.scratch, 0o777)
    os.chmod(f"{run.scratch}/xrd", 0o777)
    return ["xrootd", "-R", "nobody", "-c", settings], 1094


def floor(run, *words):
    """A command of the bare program, which is built where it is needed first."""
    program = f"{run.scratch}/floor"
    if not os.path.exists(program):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floor.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return [program, *words]


def network(binaries):
    """Programs that push from near to far; rclone fetches, as its plain server only gives."""
    ways = []
    for binary in binaries:
        name, path = numaio(binary)
        for option, security in ((["--data-security", "none"], "plain"), (["--data-security", "tls"], "TLS"),
                                 (["--tunnel"], "ssh"), ([], "default"), (["--compress", "zstd"], "default"),
                                 (["--compress", "auto"], "default")):
            def client(run, path=path, option=option):
                return [path, "copy", "-a", "--quiet", "--remote-numaio", path, *option,
                        f"{run.source}/", f"{run.address}:{run.to}/"]
            ways.append(Way(" ".join([name, *option]), security, [path, "ssh", "sshd"], client, sshd, numaio_ssh,
                            options=option[:1]))
        for option, security in ((["--data-security", "none"], "plain"), ([], "TLS")):
            def client(run, path=path, option=option):
                daemon, _ = numaio_keys(run, path)
                return [path, "copy", "-a", "--quiet", "--no-job", "--key", f"{run.scratch}/user-key", "--trust", daemon, *option,
                        f"{run.source}/", f"numaio://{run.address}/to/"]
            ways.append(Way(" ".join([name, "to a daemon", *option]), security, [path], client, numaio_daemon(path),
                            lambda run: {"XDG_CONFIG_HOME": run.scratch}, options=["--trust"]))
    rsync_ssh = lambda run: ["rsync", "-a", "-e", f"ssh {' '.join(ssh(run))}", f"{run.source}/", f"{run.address}:{run.to}/"]
    for name, options in (("bare", []), ("bare and safe", ["safe"])):
        ways.append(Way(name, "plain", ["cc"],
                        lambda run, options=options: floor(run, "send", run.address, "9001", "4", run.source, *options),
                        lambda run, options=options: (floor(run, "receive", "9001", "4", run.to, *options), 9001)))
    return ways + [
        Way("rsyncd", "plain", ["rsync"],
            lambda run: ["rsync", "-a", f"{run.source}/", f"rsync://{run.address}:8730/to/"], rsyncd),
        Way("tar over a socket", "plain", ["tar"], lambda run: [sys.executable, "-c", SEND, run.address, run.source],
            lambda run: ([sys.executable, "-c", RECEIVE, run.to], 9000)),
        Way("globus-url-copy, 4 at a time", "plain", ["globus-url-copy", "globus-gridftp-server"], gridftp("-cc", "4", "-p", "1"),
            gridftp_server),
        Way("globus-url-copy, 16 streams", "plain", ["globus-url-copy", "globus-gridftp-server"], gridftp("-p", "16"),
            gridftp_server),
        Way("rclone, http", "plain", ["rclone"],
            lambda run: ["rclone", "copy", "--config", "/dev/null", "--transfers", "8", "--http-url",
                         f"http://{run.address}:8080", ":http:", run.to],
            lambda run: (["rclone", "serve", "http", "--config", "/dev/null", "--addr", ":8080", run.source], 8080)),
        Way("xrdcp", "plain", ["xrdcp", "xrootd"],
            lambda run: ["xrdcp", "-r", "-f", "-s", "--parallel", "4", f"{run.source}/", f"root://{run.address}/{run.to}/"],
            xrootd),
        Way("rsync over ssh", "ssh", ["rsync", "ssh", "sshd"], rsync_ssh, sshd),
        Way("scp", "ssh", ["scp", "sshd"],
            lambda run: ["scp", "-q", "-r", "-p", *ssh(run), run.source, f"{run.address}:{run.to}/"], sshd),
        Way("escp", "AES-GCM", ["escp", "ssh", "sshd"], escp, sshd),
        FIO,
    ]


def escp(run):
    """ssh starts its other end and carries the key; data goes beside it, to port 1232 or one of the ten after it. 0.9.0 compares
    no hashes by default."""
    return ["escp", "-q", "-r", "-p", "-S", ssh_script(run), "-D", shutil.which("escp"), run.source, f"{run.address}:{run.to}/"]


def gridftp(*options):
    return lambda run: ["globus-url-copy", "-cd", "-r", "-fast", "-pp", *options, f"file://{run.source}/",
                        f"ftp://{run.address}:2811{run.to}/"]


def gridftp_server(run):
    return ["globus-gridftp-server", "-p", "2811", "-aa", "-anonymous-user", "root", "-allow-root",
            "-data-interface", run.address], 2811
