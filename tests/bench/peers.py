# SPDX-License-Identifier: MIT
"""The same folder through other filesystems, each in the way that is quickest for it: rclone mount of the local folder,
with nothing between; sshfs over a pipe to an sftp-server, without encryption; httpdirfs over HTTP from a server of
rclone's, since it speaks nothing else. One that is not installed, or does not run, is passed over; a command that takes
longer than LIMIT_S is given up."""
import os
import shutil
import socket
import subprocess
import time

from programs import Mount, running
from reading import WORKS
from rows import Row, must, seconds

LIMIT_S = 10
START_S = 30
SFTP_SERVER = "/usr/lib/openssh/sftp-server"


class Peer:
    """A mounted filesystem, and what serves it."""

    def __init__(self, name, place, plain):
        self.name = name
        self.path = place / name
        self.path.mkdir(exist_ok=True)
        self.processes = []
        running.append(self)
        self.environment = {**os.environ, "HOME": str(place), "XDG_CACHE_HOME": str(place / "cache"),
                            "RCLONE_CONFIG": str(place / "rclone.conf")}
        getattr(self, f"start_{name}")(place, plain)
        self.wait_for(lambda: os.path.ismount(self.path))

    def start(self, *command):
        self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def start_rclone(self, place, plain):
        (place / "rclone.conf").touch()
        self.start("rclone", "mount", "--read-only", "--attr-timeout=24h", "--dir-cache-time=24h",
                   "--vfs-cache-mode=full", str(plain), str(self.path))

    def start_sshfs(self, place, plain):
        script = place / "sftp"
        script.write_text(f"#!/bin/sh\nexec {SFTP_SERVER}\n")
        script.chmod(0o700)
        self.start("sshfs", "-f", "-o", f"ssh_command={script},ro,kernel_cache,cache=yes,dcache_timeout=86400,"
                   "entry_timeout=86400,attr_timeout=86400,max_conns=1", f"localhost:{plain}", str(self.path))

    def start_httpdirfs(self, place, plain):
        (place / "rclone.conf").touch()
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start("rclone", "serve", "http", "--read-only", f"--addr={address}", str(plain))
        self.wait_for(lambda: seconds(f"curl -sf http://{address}/") is not None)
        self.start("httpdirfs", "-f", f"http://{address}/", str(self.path))

    def wait_for(self, condition):
        until = time.monotonic() + START_S
        while not condition():
            if time.monotonic() > until or any(process.poll() is not None for process in self.processes):
                self.stop()
                raise OSError(f"{self.name} was not mounted within {START_S} s")
            time.sleep(0.01)

    def stop(self):
        running.remove(self)
        if os.path.ismount(self.path):
            subprocess.run(["fusermount3", "-u", "-z", self.path], check=False)
        for process in self.processes:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def is_installed(name):
    return shutil.which(name) is not None and (name != "sshfs" or os.path.exists(SFTP_SERVER))


def measure(rows, emails, service, place, plain):
    """Each work cold, by a mount of its own on either side, and once more warm."""
    passed_over = []
    for name in ("rclone", "sshfs", "httpdirfs"):
        if not is_installed(name):
            passed_over.append(f"{name}: not installed")
            continue
        try:
            for work, command, _, _ in WORKS:
                measure_work(rows, emails, (service, place, plain), name, (work, command))
        except OSError as error:
            passed_over.append(str(error))
    return passed_over


def measure_work(rows, emails, where, name, work_and_command):
    service, place, plain = where
    work, command = work_and_command
    peer = Peer(name, place, plain)
    mount = Mount(service, place, f"peer-{name}-{work.replace(' ', '-')}")
    try:
        for state in ("cold", "warm"):
            ours = must(seconds(command.format(box=mount.box, place=place)), command)
            theirs = seconds(command.format(box=peer.path, place=place), LIMIT_S)
            # Given up: what follows would be no better, and the time-out stands for what it takes at least.
            rows.append(Row("peers", f"{work}, {state}", emails, ours, "s", name,
                            LIMIT_S if theirs is None else theirs, 1, is_given_up=theirs is None))
            if theirs is None:
                return
    finally:
        mount.stop()
        peer.stop()
