# SPDX-License-Identifier: MIT
"""The mail services of the torture campaign, and the mount, which it kills."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
DOMAIN = "inbox.localhost"
SENDER = "alice@" + DOMAIN
START_S = 30
END_S = 15


class Defect(Exception):
    """The program broke a promise. The campaign ends."""


def wait_until(seconds, holds, what):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Defect("not within %d s: %s" % (seconds, what))
        time.sleep(0.005)


def programs():
    build = os.environ.get("BUILD", os.path.join(REPOSITORY, "build"))
    return os.path.join(build, "inboxfs"), os.path.join(build, "inboxd")


def processes_of(folder):
    """Returns the ids of the processes that were started for this campaign."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as command:
                if name.isdigit() and int(name) != os.getpid() and folder.encode() in command.read():
                    found.append(int(name))
        except OSError:
            pass
    return found


# ---------------------------------------------------------------- services


class Service:
    """A service over TCP, in a process of its own."""

    key = "test-key"
    is_trusted = False
    options = []

    def __init__(self, folder):
        self.folder = folder
        self.key_file = os.path.join(folder, "key")
        self.log = open(os.path.join(folder, "service.log"), "ab")
        self.process = None
        self.url = None

    def write_key(self):
        fd = os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, self.key.encode() + b"\n")
        os.close(fd)

    @property
    def source(self):
        return self.url

    def signal(self, number):
        if self.process is not None:
            self.process.send_signal(number)

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def ask(self, path, body=None, method=None):
        """Returns the bytes of the answer."""
        request = urllib.request.Request(self.url + path, data=body, method=method)
        request.add_header("Authorization", "Bearer " + self.key)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def ask_json(self, path, value=None):
        return json.loads(self.ask(path, None if value is None else json.dumps(value).encode()))

    def create_inbox(self, address):
        self.ask_json("/api/v1/inbox/upsert", {"id": None, "name": address.split("@")[0], "email_address": address})


class Inboxd(Service):
    """inboxd, which honours idempotency keys."""

    name = "inboxd"
    is_trusted = True
    options = ["--trust-idempotency"]

    def start(self):
        data = os.path.join(self.folder, "service")
        said = os.path.join(self.folder, "service.out")
        with open(said, "wb") as out:
            self.process = subprocess.Popen(
                [programs()[1], "--data=" + data, "--listen=127.0.0.1:0", "--domain=" + DOMAIN],
                stdout=out, stderr=self.log)
        wait_until(20, lambda: b"listening on" in open(said, "rb").read(), "inboxd listens")
        self.url = re.search(r"listening on (\S+)", open(said, encoding="utf-8").read()).group(1)
        self.key = open(os.path.join(data, "api-key"), encoding="ascii").read().strip()
        self.write_key()

    def received(self):
        """Returns all mail of the sender: [(address of the inbox, subject, body, [content of an attachment])]"""
        mails = []
        for inbox in self.ask_json("/api/v1/inbox"):
            query = urllib.parse.urlencode({"inbox_ids": inbox["id"], "limit": 10000000, "valid_only": "false"})
            for record in self.ask_json("/api/v1/email?" + query):
                if record["from_address"]["address"] != SENDER:
                    continue
                path = "/api/v1/email/" + urllib.parse.quote(record["id"])
                content = self.ask_json(path)
                attached = [self.ask("%s/attachment/%s" % (path, urllib.parse.quote(part["id"])))
                            for part in content["attachments"]]
                mails.append((inbox["email_address"], content["subject"], content["plain_text"] or "", attached))
        return mails


class Local(Inboxd):
    """The service inside inboxfs, which dies with it. At the end inboxd reads the same data."""

    name = "local"
    options = []

    @property
    def source(self):
        return "local:" + os.path.join(self.folder, "service")

    def start(self):
        self.write_key()

    def create_inbox(self, address):
        """Does nothing: the mount makes the inbox."""

    def received(self):
        super().start()
        try:
            return super().received()
        finally:
            self.stop()


class Scripted(Service):
    """A service with the Core endpoints only, without idempotency keys. It identifies attachments by checksums."""

    name = "no keys"

    def start(self):
        port_file = os.path.join(self.folder, "port")
        server = os.path.join(REPOSITORY, "tests", "mount", "scripted_server.py")
        self.process = subprocess.Popen([sys.executable, server, "--port-file", port_file], stderr=self.log)
        wait_until(20, lambda: os.path.exists(port_file), "the scripted server listens")
        self.url = "http://127.0.0.1:" + open(port_file, encoding="ascii").read().strip()
        self.write_key()
        self.ask("/_control", b'{"delay_ms": 15}')

    def received(self):
        pool = {upload["id"]: upload["sha256"] for upload in self.ask_json("/_uploads")}
        mails = []
        for entry in self.ask_json("/_sent"):
            request = entry["request"]
            attached = [pool.get(identity, "not in the pool") for identity in request.get("attachment_ids", [])]
            for recipient in request["to_addresses"] + request.get("cc_addresses", []):
                mails.append((recipient["address"], request["subject"], request["plain_text"], attached))
        return mails


# ---------------------------------------------------------------- the mount


class Mount:
    """inboxfs in the foreground, started again and again on one state."""

    def __init__(self, folder, service):
        self.path = os.path.join(folder, "mail")
        self.state = os.path.join(folder, "state")
        self.log_path = os.path.join(folder, "inboxfs.log")
        self.service = service
        self.process = None
        os.mkdir(self.path)

    def answers(self):
        try:
            os.stat(os.path.join(self.path, "status.json"))
            return True
        except OSError:
            return False

    def has_died(self):
        return self.process is not None and self.process.poll() is not None

    def begin(self):
        command = [programs()[0], "-f", "--state-dir=" + self.state, "--poll-interval=0"] + self.service.options
        if self.service.source.startswith("http"):
            command.append("--api-key-file=" + self.service.key_file)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command + [self.service.source, self.path], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)

    def start(self):
        self.begin()
        wait_until(START_S, lambda: self.has_died() or self.answers(), "the mount answers")
        if self.has_died():
            raise Defect("inboxfs ended at its start with %d" % self.process.returncode)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def wait_for_end(self, how):
        """Waits for a normal end."""
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Defect("%s did not end inboxfs within %d s" % (how, END_S)) from None
        self.process = None
        if status != 0:
            raise Defect("%s ended inboxfs with %d" % (how, status))

    def terminate(self):
        self.process.terminate()
        self.wait_for_end("SIGTERM")

    def unmount(self, *options):
        """Returns False if files are open."""
        if subprocess.run(["fusermount3", "-u", *options, self.path], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            return False
        self.wait_for_end("unmounting")
        return True

    def give_up(self):
        """Ends all processes and mounts, also after an error."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        while os.path.ismount(self.path) or not self.is_plain():
            subprocess.run(["umount", "-l", self.path], check=False)

    def is_plain(self):
        try:
            os.stat(self.path)
            return True
        except OSError:
            return False

    def said(self, pattern):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return [line.rstrip() for line in log if re.search(pattern, line)]
