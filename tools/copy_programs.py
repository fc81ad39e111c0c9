"""Programs that tools/bench-copy compares, with their commands for both ends."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Callable

NO_SHELL = ["-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
# Accepts a connection and passes the socket to tar.
RECEIVE_TAR = """import os, socket, sys
server = socket.create_server(("", 9000))
while True:
    peer, _ = server.accept()
    if os.fork() == 0:
        os.dup2(peer.fileno(), 0)
        os.execvp("tar", ["tar", "-x", "-p", "-C", sys.argv[1], "-f", "-"])
    peer.close()
    os.wait()
"""
# Sends the output of tar over a connection.
SEND_TAR = """import os, socket, subprocess, sys
peer = socket.create_connection((sys.argv[1], 9000))
subprocess.run(["tar", "-c", "-C", sys.argv[2], "-f", "-", "."], stdout=peer, check=True)
peer.shutdown(socket.SHUT_WR)
peer.recv(1)  # The other end closes after it has written everything.
"""


# The bare program that gives files their names and times as numaio does.
FLOOR = "floor, safe"
# Options of each row of the ablation table, beside the defaults (Li's dissertation, Stony Brook 2015, section 6.3.2).
ABLATION = [["--block", "64K"], ["--block", "256K"], ["--block", "4M"], ["--direct", "on"], ["--direct", "off"],
            ["--order", "physical"], ["--order", "none"], ["--mode", "stripe"], ["--mode", "pipeline"],
            ["--placement", "none"], ["--io", "threads"], ["--threads", "1"], ["--hash", "none"]]


@dataclass
class Run:
    """Source and destination of a copy.

    `address` is that of the far side, None for a local copy. `scratch` is a directory for keys and settings.
    `cold`: the source is not in the page cache. `fresh`: the destination is a new file system.
    `unchanged`: the destination has the files already.
    `contents` is the number of files and bytes of the source.
    """

    source: str
    to: str
    scratch: str
    address: str | None
    cold: bool
    fresh: bool
    contents: tuple
    unchanged: bool = False

    def write(self, name, text):
        path = f"{self.scratch}/{name}"
        with open(path, "w") as file:
            file.write(text)
        return path


@dataclass(eq=False)
class Program:
    """A program under test. `server` returns the command for the far side and its port."""

    name: str
    security: str
    executables: list
    client: Callable
    server: Callable | None = None
    environment: Callable = field(default=lambda run: {})
    # Options that its binary must support.
    options: list = field(default_factory=list)
    # Whether it needs a large file that is not in the page cache.
    cold: bool = False

    def missing(self):
        """Returns why the program cannot run on this machine, or None."""
        path = os.environ.get("PATH", "") + ":/usr/sbin"
        missing = [name for name in self.executables if not shutil.which(name, path=path)]
        if missing:
            return f"not installed: {', '.join(missing)}"
        for option in self.options:
            help_text = subprocess.run([self.executables[0], "copy", "--help"], capture_output=True, text=True).stdout
            if option not in help_text:
                return f"option {option} is not supported"
        return None


def numaio(binary):
    """Parses [NAME=]PATH; returns the name for tables and the path."""
    name, _, path = binary.rpartition("=")
    return (f"numaio {name}".strip(), os.path.abspath(path))


def local(binaries):
    """Returns the programs for copies on one machine."""
    programs = []
    for binary in binaries:
        name, path = numaio(binary)
        copy = [path, "copy", "-a", "--quiet"]
        programs.append(Program(name, "hashed", [path], lambda run, copy=copy: [*copy, f"{run.source}/", f"{run.to}/"]))
        programs.append(Program(f"{name} --hash none", "-", [path],
                        lambda run, copy=copy: [*copy, "--hash", "none", f"{run.source}/", f"{run.to}/"]))
    programs.append(Program("cp -a", "-", ["cp"], lambda run: ["cp", "-a", f"{run.source}/.", run.to]))
    programs.append(Program("rsync -a", "-", ["rsync"], lambda run: ["rsync", "-a", f"{run.source}/", f"{run.to}/"]))
    # With extended attributes and ACLs, as numaio -a.
    programs.append(Program("rsync -aAX", "-", ["rsync"], lambda run: ["rsync", "-aAX", f"{run.source}/", f"{run.to}/"]))
    return [*programs, FIO]


def fio(run):
    """Reads the source and writes as many bytes in parallel: the bandwidth of the disks without a protocol."""
    job = ["--ioengine=io_uring", "--direct=1", "--iodepth=16", "--bs=1M", f"--size={run.contents[1]}", "--output=/dev/null"]
    return ["fio", *job, "--name=read", f"--filename={run.source}/bulk", "--rw=read", "--name=write",
            f"--filename={run.to}/bulk", "--rw=write"]


FIO = Program("fio, O_DIRECT", "-", ["fio"], fio, cold=True)


def sshd(run):
    """Returns the command of an sshd with keys and settings in the scratch directory."""
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
    """Writes a script for programs that accept the name of an ssh, but not its options."""
    script = run.write("ssh", f"#!/bin/sh\nexec ssh {' '.join(ssh(run))} \"$@\"\n")
    os.chmod(script, 0o755)
    return script


def numaio_ssh(run):
    return {"NUMAIO_SSH": ssh_script(run)}


def numaio_keys(run, path):
    """Creates the keys of a daemon and its user on the first call; returns the public keys."""
    public = []
    for name in ("daemon-key", "user-key"):
        key = f"{run.scratch}/{name}"
        exists = os.path.exists(key)
        command = [path, "keygen", *(["--public"] if exists else []), key]
        public.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
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


def floor(run, *arguments):
    """Returns a command of floor, and builds it on the first call."""
    program = f"{run.scratch}/floor"
    if not os.path.exists(program):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floor.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return [program, *arguments]


def ablation(binary, is_remote):
    """Returns numaio with its defaults, and with one option changed each time: locally, or to a daemon without TLS."""
    name, path = numaio(binary)
    programs = []
    for options in [[], *ABLATION]:
        copy = [path, "copy", "-a", "--quiet", "--no-job", *options]
        title = " ".join(options) or f"{name}, defaults"
        if not is_remote:
            programs.append(Program(title, "-", [path], lambda run, copy=copy: [*copy, f"{run.source}/", f"{run.to}/"],
                            options=options[:1]))
            continue

        def client(run, copy=copy):
            daemon, _ = numaio_keys(run, path)
            return [*copy, "--key", f"{run.scratch}/user-key", "--trust", daemon, "--data-security", "none",
                    f"{run.source}/", f"numaio://{run.address}/to/"]
        programs.append(Program(title, "plain", [path], client, numaio_daemon(path),
                        lambda run: {"XDG_CONFIG_HOME": run.scratch}, options=options[:1]))
    return programs


def network(binaries):
    """Returns the programs for copies between hosts.

    They push from near to far, except rclone, whose HTTP server is read-only.
    """
    programs = []
    for binary in binaries:
        name, path = numaio(binary)
        for option, security in ((["--data-security", "none"], "plain"), (["--data-security", "tls"], "TLS"),
                                 (["--tunnel"], "ssh"), ([], "default"), (["--compress", "zstd"], "default"),
                                 (["--compress", "auto"], "default")):
            def client(run, path=path, option=option):
                return [path, "copy", "-a", "--quiet", "--remote-numaio", path, *option,
                        f"{run.source}/", f"{run.address}:{run.to}/"]
            programs.append(Program(" ".join([name, *option]), security, [path, "ssh", "sshd"], client, sshd, numaio_ssh,
                            options=option[:1]))
        for option, security in ((["--data-security", "none"], "plain"), ([], "TLS")):
            def client(run, path=path, option=option):
                daemon, _ = numaio_keys(run, path)
                return [path, "copy", "-a", "--quiet", "--no-job", "--key", f"{run.scratch}/user-key", "--trust", daemon, *option,
                        f"{run.source}/", f"numaio://{run.address}/to/"]
            programs.append(Program(" ".join([name, "to a daemon", *option]), security, [path], client, numaio_daemon(path),
                            lambda run: {"XDG_CONFIG_HOME": run.scratch}, options=["--trust"]))
    rsync_ssh = lambda run: ["rsync", "-a", "-e", f"ssh {' '.join(ssh(run))}", f"{run.source}/", f"{run.address}:{run.to}/"]
    for name, options in (("floor", []), (FLOOR, ["safe"])):
        programs.append(Program(name, "plain", ["cc"],
                        lambda run, options=options: floor(run, "send", run.address, "9001", "4", run.source, *options),
                        lambda run, options=options: (floor(run, "receive", "9001", "4", run.to, *options), 9001)))
    return programs + [
        Program("rsyncd", "plain", ["rsync"],
            lambda run: ["rsync", "-a", f"{run.source}/", f"rsync://{run.address}:8730/to/"], rsyncd),
        Program("tar over a socket", "plain", ["tar"], lambda run: [sys.executable, "-c", SEND_TAR, run.address, run.source],
            lambda run: ([sys.executable, "-c", RECEIVE_TAR, run.to], 9000)),
        Program("globus-url-copy, 4 at a time", "plain", ["globus-url-copy", "globus-gridftp-server"], gridftp("-cc", "4", "-p", "1"),
            gridftp_server),
        Program("globus-url-copy, 16 streams", "plain", ["globus-url-copy", "globus-gridftp-server"], gridftp("-p", "16"),
            gridftp_server),
        Program("rclone, http", "plain", ["rclone"],
            lambda run: ["rclone", "copy", "--config", "/dev/null", "--transfers", "8", "--http-url",
                         f"http://{run.address}:8080", ":http:", run.to],
            lambda run: (["rclone", "serve", "http", "--config", "/dev/null", "--addr", ":8080", run.source], 8080)),
        Program("xrdcp", "plain", ["xrdcp", "xrootd"],
            lambda run: ["xrdcp", "-r", "-f", "-s", "--parallel", "4", f"{run.source}/", f"root://{run.address}/{run.to}/"],
            xrootd),
        Program("rsync over ssh", "ssh", ["rsync", "ssh", "sshd"], rsync_ssh, sshd),
        Program("scp", "ssh", ["scp", "sshd"],
            lambda run: ["scp", "-q", "-r", "-p", *ssh(run), run.source, f"{run.address}:{run.to}/"], sshd),
        Program("escp", "AES-GCM", ["escp", "ssh", "sshd"], escp, sshd),
        FIO,
    ]


def escp(run):
    """Returns the command of escp, which starts its peer through ssh and sends data to ports 1232 to 1242.

    Version 0.9.0 does not verify hashes by default.
    """
    return ["escp", "-q", "-r", "-p", "-S", ssh_script(run), "-D", shutil.which("escp"), run.source, f"{run.address}:{run.to}/"]


def gridftp(*options):
    return lambda run: ["globus-url-copy", "-cd", "-r", "-fast", "-pp", *options, f"file://{run.source}/",
                        f"ftp://{run.address}:2811{run.to}/"]


def gridftp_server(run):
    return ["globus-gridftp-server", "-p", "2811", "-aa", "-anonymous-user", "root", "-allow-root",
            "-data-interface", run.address], 2811
