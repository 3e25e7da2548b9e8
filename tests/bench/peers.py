# SPDX-License-Identifier: MIT
"""The same folder through other filesystems, each in the way that is quickest for it: rclone mount of the local folder,
with nothing between; sshfs over a pipe to an sftp-server, without encryption; httpdirfs over HTTP from a server of
rclone's, since it speaks nothing else. One that is not installed, or does not run, is passed over; a command that takes
longer than LIMIT_S is given up, and what it read is read once more, of FEW files alone.

Both sides take turns, who goes first changes, and the best run of each counts. A run is a mount of its own on either
side: cold, then warm."""
import os
import shutil
import socket
import subprocess
import time

from programs import Mount, running
from reading import WORKS
from rows import Row, must, seconds

# How many runs. httpdirfs asks for the size of each file by itself before it mounts.
PEERS = {"rclone": 3, "sshfs": 3, "httpdirfs": 2}
LIMIT_S = 10
START_S = 120
FEW = 50
# Instead of what was given up. {place}/few holds their names.
OF_FEW = {
    "cat of all": (f"cat of {FEW} of them", "cd {box} && xargs -0 cat <{place}/few"),
    "grep -r": (f"grep in {FEW} of them", "cd {box} && xargs -0 grep no-such-text <{place}/few || [ $? = 123 ]"),
}
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
    passed_over = []
    names = sorted(os.listdir(plain))[:: max(1, emails // FEW)][:FEW]
    (place / "few").write_text("".join(f"{name}\0" for name in names))
    for name, runs in PEERS.items():
        if not is_installed(name):
            passed_over.append(f"{name}: not installed")
            continue
        pair = Pair(name, (service, place, plain))
        try:
            rows += pair.mounting(emails, runs)
            for work, command, _, _ in WORKS:
                rows += pair.work(work, command, emails, runs)
        except OSError as error:
            passed_over.append(str(error))
    return passed_over


class Pair:
    """inboxfs and another, one work after the other."""

    def __init__(self, name, where):
        self.name = name
        self.where = where
        self.mounts = 0

    def mount_ours(self):
        service, place, _ = self.where
        self.mounts += 1
        return Mount(service, place, f"peer-{self.name}-{self.mounts}")

    def mount_theirs(self):
        _, place, plain = self.where
        return Peer(self.name, place, plain)

    def row(self, work, emails, times, is_given_up=False):
        ours, theirs = (min(side) for side in zip(*times))
        return Row("peers", work, emails, ours, "s", self.name, theirs, 1, is_given_up=is_given_up)

    def mounting(self, emails, runs):
        """From the start of the program to the end of the first ls; ours from its cache."""
        def seconds_of(mount, folder):
            start = time.monotonic()
            mounted = mount()
            must(seconds(f"ls -f {folder(mounted)}"), "ls")
            taken = time.monotonic() - start
            mounted.stop()
            return taken

        times = [(seconds_of(self.mount_ours, lambda ours: ours.box),
                  seconds_of(self.mount_theirs, lambda theirs: theirs.path)) for _ in range(runs)]
        return [self.row("mount, and first ls -f", emails, times)]

    def work(self, work, command, emails, runs):
        times = {"cold": [], "warm": []}
        for run in range(runs):
            ours, theirs = self.mount_ours(), self.mount_theirs()
            try:
                for state, taken in times.items():
                    taken.append(self.turn(command, ours.box, theirs.path, run % 2))
                    if taken[-1][1] is None:
                        break
            finally:
                ours.stop()
                theirs.stop()
            if taken[-1][1] is None:
                return self.given_up(work, state, emails, taken[-1][0], runs)
        return [self.row(f"{work}, {state}", emails, taken) for state, taken in times.items()]

    def turn(self, command, ours, theirs, is_theirs_first):
        """How long each took; None instead of theirs: too long."""
        place = self.where[1]
        ours, theirs = command.format(box=ours, place=place), command.format(box=theirs, place=place)
        first = seconds(theirs, LIMIT_S) if is_theirs_first else None
        own = must(seconds(ours), ours)
        return own, first if is_theirs_first else seconds(theirs, LIMIT_S)

    def given_up(self, work, state, emails, ours, runs):
        # What follows would be no better, and the time-out stands for what it takes at least.
        rows = [self.row(f"{work}, {state}", emails, [(ours, LIMIT_S)], is_given_up=True)]
        if work in OF_FEW:
            rows += self.work(*OF_FEW[work], emails, runs)
        return rows
