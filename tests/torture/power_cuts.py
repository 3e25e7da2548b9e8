#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Nothing lost, nothing sent twice, nothing sent half, wherever the power is cut.

usage: tests/torture/power_cuts.py [--sessions N] [--seed N] [--every N] [--keep]

In a session some users of a mount do ten to thirty things at random: they write, append, move in, take back, rename,
remove, attach and replace, while the service accepts, refuses, loses or delays requests, and inboxfs is killed now and then.
The changes of inboxfs on the disk are recorded (record_preload.c), and between them the promises to users and the messages
that the service accepted. Then power_cuts.c makes the states that the disk may be in after a cut at each step, recovers each,
and counts. Session n of a seed does the same things each time, but the timing of threads differs.

Exits with 1 if a message was lost, doubled, halved or is unexplained, and keeps the session then.
"""

import argparse
import collections
import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

sys.dont_write_bytecode = True  # no __pycache__ among the sources

from fixture import REPOSITORY, SENDER, START_S, Defect, wait_until  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(REPOSITORY, "tests", "mount"))

import scripted_server  # noqa: E402

BUILD = os.environ.get("BUILD", os.path.join(REPOSITORY, "build"))
SETTLE_S = 60
OLD_RATE = 0.15  # share of the sessions that begin with a spool of version 0.2
RECORDED = ":spool:drafts:"
FAULTS = ("503:1", "400:subject", "reset-after", "lost", "done-500", "reset-before")
UPLOAD_FAULTS = ("503:1", "reset-after", "lost", "reset-before")
WRONGS = ("lost", "double", "half", "unexplained")


class Log:
    """The records of the daemon, and our lines between them."""

    def __init__(self, path):
        self.path = path
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, line):
        os.write(self.fd, line.encode() + b"\n")

    def add_bytes(self, line, content):
        os.write(self.fd, line.encode() + b"\n" + content + b"\n")

    def mark(self, *words):
        self.add("mark " + " ".join(words))


# ---------------------------------------------------------------- texts


def text_of(token, size, chance):
    lines = ["begin " + token]
    length = 0
    while length < size:
        lines.append("%s has nothing to say, %d times" % (token, chance.randrange(1000000)))
        length += len(lines[-1]) + 1
    whole = "\n".join(lines) + "\n"
    return "%send %s %08x\n" % (whole, token, zlib.crc32(whole.encode()))


def pool_id(body):
    """Returns the id of an upload: pool-TOKEN-whole, or -half."""
    token = b"none"
    is_whole = False
    for begin in re.finditer(rb"^begin (\w+)$", body, re.M):
        token = begin.group(1)
        end = re.search(rb"^end %s ([0-9a-f]{8})" % token, body[begin.start():], re.M)
        is_whole = bool(end) and int(end.group(1), 16) == zlib.crc32(body[begin.start():begin.start() + end.start()])
    return "pool-%s-%s" % (token.decode(), "whole" if is_whole else "half")


# ---------------------------------------------------------------- the service


class State(scripted_server.State):
    def __init__(self, chance, fault_rate):
        super().__init__()
        self.chance = chance
        self.fault_rate = fault_rate
        self.is_away = False
        self.unsure = set()  # texts that once got no clear answer

    def take_behaviour(self, endpoint):
        with self.lock:
            if endpoint not in ("send", "upload"):
                return "ok"
            if self.is_away:
                return "503:1"
            if self.chance.random() >= self.fault_rate:
                return "ok"
            return self.chance.choice(FAULTS if endpoint == "send" else UPLOAD_FAULTS)


class Handler(scripted_server.Handler):
    def note_request(self, body):
        self.body = body

    def play(self, behaviour, serve):
        if b"plain_text" in self.body:
            tokens = re.findall(r"^end (\w+) ", json.loads(self.body)["plain_text"], re.M)
            if behaviour == "400:subject":
                self.server.session_log.mark("refused", tokens[-1])
            elif behaviour in ("reset-after", "done-500", "lost"):
                self.server.session_log.mark("unsure", tokens[-1])
                self.state.unsure.add(tokens[-1])
        super().play(behaviour, serve)

    def send(self, body):
        answer = super().send(body)
        request = json.loads(body)
        self.server.session_log.add("received %s %s" % (request.get("idempotency_key", "none"), json.dumps(request)))
        return answer

    def upload(self, body):
        return scripted_server.as_json({"id": pool_id(body)})


class Service:
    def __init__(self, log, chance, fault_rate, is_trusted):
        self.server = scripted_server.Server(0, None)
        self.server.RequestHandlerClass = Handler
        self.server.session_log = log
        self.server.state = self.state = State(chance, fault_rate)
        self.state.settings["idempotency"] = is_trusted
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def set_away(self, is_away):
        with self.state.lock:
            self.state.is_away = is_away

    def behave(self):
        with self.state.lock:
            self.state.is_away = False
            self.state.fault_rate = 0

    def stop(self):
        self.server.stopping.set()
        self.server.shutdown()
        self.server.server_close()


# ---------------------------------------------------------------- the mount


class Mount:
    def __init__(self, folder, log, url, options, pause_us):
        self.path = os.path.join(folder, "mail")
        self.state = os.path.join(folder, "state")
        self.said = os.path.join(folder, "inboxfs.log")
        key_file = os.path.join(folder, "key")
        with open(os.open(key_file, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as key:
            key.write("test-key\n")
        for path in (self.path, self.state):
            if not os.path.isdir(path):
                os.mkdir(path, 0o700)
        self.command = [os.path.join(BUILD, "inboxfs"), "-f", "--api-key-file=" + key_file, "--state-dir=" + self.state,
                        "--poll-interval=0", *options, url, self.path]
        self.environment = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "tests", "record_preload.so"),
                                RECORD_ROOT=os.path.realpath(self.state), RECORD_LOG=log.path, RECORD_ONLY=RECORDED,
                                RECORD_PAUSE=str(pause_us))
        options = self.environment.get("ASAN_OPTIONS", "")
        self.environment["ASAN_OPTIONS"] = options + ":verify_asan_link_order=0"
        self.process = None

    def answers(self):
        return os.path.exists(os.path.join(self.path, "status.json"))

    def start(self):
        with open(self.said, "ab") as said:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                            env=self.environment)
        wait_until(START_S, lambda: self.answers() or self.process.poll() is not None, "the mount answers")
        if self.process.poll() is not None:
            raise Defect("inboxfs ended with %d" % self.process.returncode)

    def end(self):
        wait_until(START_S, lambda: subprocess.run(["fusermount3", "-u", self.path], check=False,
                                                   capture_output=True).returncode == 0, "it can be unmounted")
        if self.process.wait(START_S) != 0:
            raise Defect("inboxfs ended with %d" % self.process.returncode)
        self.process = None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        subprocess.run(["fusermount3", "-uz", self.path], check=False, capture_output=True)


# ---------------------------------------------------------------- a spool of version 0.2


class OldSpool:
    """A spool of version 0.2, with the first user's items in each state."""

    DAY = 20783

    def __init__(self, session):
        self.session = session
        self.user = session.users[0]
        self.path = os.path.join(session.mount.state, "spool")
        self.count = 0

    def write_file(self, name, content):
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(content)
        inode = os.stat(path).st_ino
        self.session.log.add("create %d spool/%s" % (inode, name))
        self.session.log.add_bytes("write %d 0 %d" % (inode, len(content)), content)

    def put(self, kind, state, name, content, **members):
        """Returns the number of the item."""
        self.count += 1
        key = "00000000-0000-4000-8000-%012d" % self.count if kind == "message" else ""
        envelope = {"version": 1, "number": self.count, "order": self.count, "kind": kind, "state": state, "name": name,
                    "digest": hashlib.sha256(content).hexdigest(), "idempotency_key": key, "attempts": 0,
                    "accepted_ms": 1795732362397, "finished_ms": 0, "http_status": 0, "id": None, "error": None,
                    "answers": None, "from": SENDER, "replies_to": None, "lane": "%064x" % self.count, "attachments": [],
                    "part_ids": [], "supersedes": 0, "may_have_been_sent": False, "was_unknown": False,
                    "was_reuploaded": False, "quota_day": 0, "request": None, "content": self.count, "is_hidden": False}
        envelope.update(members)
        text = json.dumps(envelope, separators=(",", ":")).encode() + b"\n"
        self.write_file("%d.json" % self.count, text.ljust(-len(text) % 4096 + len(text)))
        self.write_file("%d.data" % self.count, content)
        return self.count

    def put_message(self, level, state, folder, dot="", attached=(), group=None, **members):
        """`attached` has (number, name, token) of each file."""
        token = self.user.new_token("T", group, 1)
        if attached:
            self.user.mark("attach", token, ",".join(file[2] for file in attached))
        message = Message(token, dot + token.lower())
        message.group = group or token
        message.recipients = 1
        message.folder = folder
        message.state = state
        text = text_of(token, 400, self.user.chance)
        head = "From: %s\nTo: %s@x.example\nSubject: %s\n" % (SENDER, token, token)
        head += "".join("Attach: %s\n" % file[1] for file in attached)
        members["attachments"] = [{"content": file[0], "name": file[1]} for file in attached]
        if members.get("attempts"):
            members["request"] = json.dumps({"from_address": SENDER, "subject": token, "plain_text": text,
                                             "to_addresses": [{"address": token + "@x.example", "name": None}],
                                             "attachment_ids": ["pool-%s-whole" % file[2] for file in attached]})
        number = self.put("message", state, message.name, (head + "\n" + text).encode(), **members)
        if state == "sent":
            self.session.log.add("received 00000000-0000-4000-8000-%012d %s" % (number, members["request"]))
        if state == "failed":
            self.user.mark("refused", token)
        self.user.messages.append(message)
        self.user.set_level(message, level)
        return message, number

    def put_attachment(self, state, **members):
        token = self.user.new_token("A")
        content = text_of(token, 3000, self.user.chance).encode()
        if state == "uploaded":
            members["id"] = "pool-%s-whole" % token
        number = self.put("attachment", state, token.lower(), content, size=len(content), **members)
        self.user.mark("must", token)
        self.user.attachments[token.lower()] = token
        return number, token.lower(), token

    def make(self):
        os.mkdir(self.path, 0o700)
        self.session.log.add("mkdir %d spool" % os.stat(self.path).st_ino)
        self.write_file("version", b"2\n")
        self.write_file("numbers", b"1025\n")
        self.write_file("sent-today", b"%-21d%-26d\n" % (self.DAY, 3))
        self.write_file("spare-1.new", b"{}\n")
        uploaded = self.put_attachment("uploaded")
        uploading = self.put_attachment("uploading")
        self.put_message("must", "queued", "outbox")
        self.put_message("must", "unknown outcome", "failed", attempts=1, error="perhaps", was_unknown=True)
        self.put_message("must", "failed", "failed", attempts=1, error="HTTP 400: no", http_status=400)
        self.put_message("sent", "sent", "sent", attempts=1, id="sent-1", http_status=200, quota_day=self.DAY)
        self.put_message("keep", "held", "held", ".")
        self.put_message("must", "sending", "outbox", attempts=1)
        self.put_message("must", "queued", "outbox", attached=[uploaded])
        self.put_message("must", "queued", "outbox", attached=[uploading, uploaded])
        message, _ = self.put_message("keep", "writing", "outbox")
        message.may_be_interrupted = True
        edited, number = self.put_message("must", "queued", "outbox")
        self.put_message("must", "queued", "outbox", group=edited.group, supersedes=number)
        self.user.set_level(edited, "off")
        edited.folder = "gone"
        self.session.log.add("begin 1 0")
        self.session.log.add("end 1")


# ---------------------------------------------------------------- users


class Message:
    """A file of one user in drafts/, outbox/, sent/ or failed/."""

    def __init__(self, token, name):
        self.token = token
        self.group = token
        self.name = name
        self.recipients = 0
        self.attached = {}  # name: token
        self.is_plain = False  # if true, text can be appended
        self.folder = "drafts"
        self.level = "free"  # the promise (power_cuts.c)
        self.state = None  # the state in its receipt in failed/
        self.may_be_interrupted = False  # the daemon was killed after the close, before it accepted the file


class User:
    def __init__(self, session, number, seed):
        self.session = session
        self.number = number
        self.chance = random.Random(seed)
        self.count = 0
        self.messages = []
        self.attachments = {}  # name: token
        self.failure = None

    # ------------------------------------------------------------ promises

    def path(self, folder, name):
        return os.path.join(self.session.mount.path, folder, name)

    def mark(self, *words):
        self.session.log.mark(*words)

    def set_level(self, message, level, *more):
        self.mark(level, message.token, *more)
        message.level = level

    def new_token(self, kind, group=None, recipients=0):
        self.count += 1
        token = "%s%dx%d" % (kind, self.number, self.count)
        self.mark("new", token, group or token, str(recipients))
        return token

    def call(self, expected, function, *arguments):
        """Returns 0, or the errno, which must be an expected one."""
        try:
            function(*arguments)
            return 0
        except OSError as error:
            if error.errno not in expected:
                raise Defect("%s%r: %s" % (function.__name__, arguments, os.strerror(error.errno))) from None
            return error.errno

    def look(self):
        """Finds the messages that inboxfs has moved out of outbox/."""
        for message in self.messages:
            if message.folder != "outbox":
                continue
            if os.path.lexists(self.path("sent", message.name)):
                message.folder = "sent"
                if message.level in ("keep", "must"):
                    self.set_level(message, "sent")
            elif os.path.lexists(self.path("failed", message.name + ".receipt.json")):
                with open(self.path("failed", message.name + ".receipt.json"), encoding="utf-8") as receipt:
                    message.state = json.load(receipt)["state"]
                message.folder = "failed"

    def choose(self, *folders, where=lambda message: True):
        self.look()
        found = [message for message in self.messages if message.folder in folders and where(message)]
        return self.chance.choice(found) if found else None

    # ------------------------------------------------------------ writing

    def mark_attached(self, message, token=None):
        if message.attached:
            self.mark("attach", token or message.token, ",".join(message.attached.values()))

    def compose(self, message, token=None):
        """Returns the bytes of a message."""
        token = token or message.token
        recipients, attached = message.recipients, message.attached
        size = self.chance.choice((50, 50, 50, 400, 400, 2500, 6000))
        text = text_of(token, size, self.chance)
        others = ["r%d@x.example" % number for number in range(2, recipients + 1)]
        first = "bob@x.example" if self.chance.random() < 0.5 else "%s@x.example" % token
        form = self.chance.random()
        message.is_plain = form >= 0.35 or (attached and form >= 0.2)
        if form < 0.2:
            request = {"from_address": SENDER, "subject": token, "plain_text": text, "to_addresses": [first],
                       "cc_addresses": others, "attachments": list(attached)}
            return json.dumps({name: value for name, value in request.items() if value}).encode()
        head = "From: %s\nTo: %s\nSubject: %s\n" % (SENDER, first, token)
        if others:
            head += "Cc: %s\n" % ", ".join(others)
        head += "".join("Attach: %s\n" % name for name in attached)
        if form < 0.35 and not attached:
            part = self.new_token("A")
            self.mark("attach", token, part)
            return ("%sMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=cut\n\n--cut\n\n%s\n"
                    "--cut\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=%s.bin\n\n"
                    "%s\n--cut--\n" % (head, text, part, text_of(part, 700, self.chance))).encode()
        return (head + "\n" + text).encode()

    def new_message(self, folder, dot=""):
        """Returns a message that is not written yet, and its bytes."""
        recipients = self.chance.choice((1, 1, 2, 3))
        token = self.new_token("T", None, recipients)
        message = Message(token, dot + token.lower())
        message.folder = folder
        message.recipients = recipients
        if self.attachments and self.chance.random() < 0.5:
            message.attached = dict(self.chance.sample(sorted(self.attachments.items()), 1))
            self.mark_attached(message)
        return message, self.compose(message)

    def write(self, path, content, is_synced, flags=os.O_CREAT | os.O_EXCL):
        fd = os.open(path, os.O_WRONLY | flags, 0o600)
        try:
            cuts = sorted(self.chance.sample(range(1, len(content)), min(self.chance.choice((0, 0, 1, 2)),
                                                                         len(content) - 1)))
            for begin, end in zip([0] + cuts, cuts + [len(content)]):
                os.write(fd, content[begin:end])
                if is_synced and self.chance.random() < 0.3:
                    os.fsync(fd)
            if is_synced:
                os.fsync(fd)
        finally:
            os.close(fd)

    def sync_folder(self, folder):
        fd = os.open(os.path.join(self.session.mount.path, folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def write_directly(self):
        message, content = self.new_message("outbox")
        self.write(self.path("outbox", message.name), content, self.chance.random() < 0.3)
        self.messages.append(message)
        self.set_level(message, "keep")

    def write_by_temporary_name(self):
        message, content = self.new_message("outbox", ".")
        self.write(self.path("outbox", message.name), content, self.chance.random() < 0.5)
        self.set_level(message, "keep")
        os.rename(self.path("outbox", message.name), self.path("outbox", message.name[1:]))
        message.name = message.name[1:]
        self.messages.append(message)

    def write_draft(self):
        message, content = self.new_message("drafts")
        is_synced = self.chance.random() < 0.6
        self.write(self.path("drafts", message.name), content, is_synced)
        self.messages.append(message)
        if is_synced:
            self.sync_folder("drafts")
            self.set_level(message, "draft", message.name)
        return message

    def hand_in(self, message=None):
        message = message or self.choose("drafts")
        if message is None:
            return
        self.bind_again(message)
        other = self.choose("outbox") if self.chance.random() < 0.2 else None
        self.replace(message, "keep" if message.level == "draft" else "free", other, "must")

    def write_and_hand_in(self):
        self.hand_in(self.write_draft())

    # ------------------------------------------------------------ changing

    def move(self, message, level, folder, target, expected):
        """Renames the message, with `level` meanwhile; restores the level on failure. Returns whether it was renamed."""
        before = message.level
        self.set_level(message, level)
        error = self.call(expected, os.rename, self.path(message.folder, message.name), self.path(folder, target))
        if error != 0:
            self.set_level(message, before, *([message.name] if before == "draft" else []))
            return False
        message.folder, message.name = folder, target
        return True

    def replace(self, message, meanwhile, other, afterwards):
        """Renames the message into outbox/, onto the other one if there is one."""
        before = other and other.level
        if other is not None:
            self.set_level(other, "free")
        # ENODATA: the message names an attachment that was removed.
        is_moved = self.move(message, meanwhile, "outbox", other.name if other else message.name,
                             (errno.ENODATA, errno.EBUSY, errno.ENOENT))
        if is_moved:
            self.set_level(message, afterwards)
        if other is not None and is_moved:
            self.set_level(other, "off")
            other.folder = "gone"
        elif other is not None:
            self.set_level(other, before)

    def rename_onto(self):
        message = self.choose("outbox")
        other = self.choose("outbox", where=lambda found: found is not message)
        # The second lookup may find the first message in sent/, and a rename from there would send it again.
        if message is not None and other is not None and message.folder == "outbox":
            self.replace(message, message.level, other, message.level)

    def edit(self, flags, write):
        """Writes to a waiting file, which makes it another text of the same message."""
        is_append = flags == os.O_APPEND
        message = self.choose("outbox", where=lambda found: found.is_plain or not is_append)
        if message is None:
            return
        before = message.level
        token = self.new_token("T", message.group, message.recipients)
        if not is_append:
            message.attached = {}
        self.bind_again(message, token)
        self.set_level(message, "free")
        # EACCES: the message was sent or refused after the kernel had looked up its name, and before open().
        if self.call((errno.EACCES, errno.EBUSY, errno.ENOENT, errno.ESTALE), write,
                     self.path("outbox", message.name), message, token) != 0:
            self.set_level(message, before)
            return
        self.set_level(message, "off")
        message.token = token
        message.may_be_interrupted = False
        self.set_level(message, "keep")

    def write_anew(self):
        def write(path, message, token):
            self.write(path, self.compose(message, token), self.chance.random() < 0.3, os.O_TRUNC)

        self.edit(os.O_TRUNC, write)

    def append(self):
        def write(path, _message, token):
            text = text_of(token, self.chance.choice((50, 3000)), self.chance).encode()
            self.write(path, text, self.chance.random() < 0.3, os.O_APPEND)

        self.edit(os.O_APPEND, write)

    def take_back(self):
        message = self.choose("outbox")
        if message is not None and self.move(message, "keep", "drafts", message.name, (errno.EBUSY, errno.ENOENT)):
            if message.token in self.session.service.state.unsure:
                self.mark("again", message.token)
            self.set_level(message, "draft", message.name)

    def remove(self):
        message = self.choose("outbox", "outbox", "failed", "sent")
        if message is None:
            return
        before = message.level
        self.set_level(message, "free")
        if self.call((errno.EBUSY, errno.ENOENT), os.unlink, self.path(message.folder, message.name)) == 0:
            message.folder = "gone"
            self.set_level(message, "off")
        else:
            self.set_level(message, before)

    def rename(self):
        message = self.choose("outbox")
        if message is not None:
            name = message.name + "r"
            if self.call((errno.ENOENT, errno.EBUSY), os.rename, self.path("outbox", message.name),
                         self.path("outbox", name)) == 0:
                message.name = name

    def may_go_out_again(self, message):
        if message.state == "unknown outcome":
            self.mark("again", message.token)

    def try_again(self):
        message = self.choose("failed")
        if message is None:
            return
        self.may_go_out_again(message)
        self.bind_again(message)
        if self.move(message, "keep", "outbox", message.name, (errno.ENODATA,)):
            message.may_be_interrupted = False
            self.set_level(message, "must")

    def mend(self):
        message = self.choose("failed")
        if message is None:
            return
        self.may_go_out_again(message)
        if self.move(message, "keep", "drafts", message.name, ()):
            self.set_level(message, "draft", message.name)

    # ------------------------------------------------------------ attachments

    def attach(self):
        token = self.new_token("A")
        name = token.lower()
        content = text_of(token, self.chance.choice((100, 100, 3000, 20000)), self.chance).encode()
        self.write(self.path("attachments", name), content, False)
        self.mark("keep", token)
        self.attachments[name] = token

    def attach_anew(self):
        if not self.attachments:
            self.attach()
            return
        name = self.chance.choice(sorted(self.attachments))
        token = self.new_token("A")
        content = text_of(token, self.chance.choice((100, 5000)), self.chance).encode()
        self.mark("free", self.attachments[name])
        self.change_attached(name, token)
        if self.chance.random() < 0.6:
            self.write(self.path("attachments", name), content, False, os.O_TRUNC)
        else:
            self.write(self.path("drafts", name), content, True)
            os.rename(self.path("drafts", name), self.path("attachments", name))
        self.mark("keep", token)
        self.attachments[name] = token

    def bind_again(self, message, token=None):
        """A message that is handed in once more gets its attachments as they are now."""
        for name, known in message.attached.items():
            now = self.attachments.get(name)
            if now is None:
                self.mark("refused", token or message.token)
            elif now not in known.split("|"):
                message.attached[name] = known + "|" + now
        self.mark_attached(message, token)

    def change_attached(self, name, token):
        """Messages bind attachments when they are handed in. `token` is None if there is none."""
        for message in self.messages:
            if name not in message.attached or message.level not in ("free", "keep", "draft"):
                continue
            if token is None:
                self.mark("refused", message.token)
            else:
                message.attached[name] += "|" + token
                self.mark_attached(message)

    def rename_attachment(self):
        if self.attachments:
            name = self.chance.choice(sorted(self.attachments))
            self.change_attached(name, None)
            os.rename(self.path("attachments", name), self.path("attachments", name + "r"))
            self.attachments[name + "r"] = self.attachments.pop(name)

    def remove_attachment(self):
        if self.attachments:
            name = self.chance.choice(sorted(self.attachments))
            self.change_attached(name, None)
            self.mark("free", self.attachments[name])
            os.unlink(self.path("attachments", name))
            del self.attachments[name]

    def forget_interrupted_attachments(self):
        self.attachments = {name: token for name, token in self.attachments.items()
                            if os.path.lexists(self.path("attachments", name))}

    # ------------------------------------------------------------ waiting

    def sync(self):
        """When this returns, all files that were closed before are handed in."""
        closed = [message for message in self.messages if message.folder == "outbox" and message.level == "keep"]
        self.call((errno.EIO, errno.EAGAIN), self.sync_folder, "outbox")
        for message in closed:
            if message.level == "keep" and not message.may_be_interrupted:
                self.set_level(message, "must")
        self.look()

    def sync_attachments(self):
        tokens = list(self.attachments.values())
        if self.call((errno.EIO, errno.EAGAIN), self.sync_folder, "attachments") == 0:
            for token in tokens:
                self.mark("must", token)

    # ------------------------------------------------------------ everything else

    def lose_service(self):
        self.session.service.set_away(True)

    def find_service(self):
        self.session.find_service()

    def restart(self):
        self.session.restart(self.chance.random() < 0.6)

    DEEDS = (
        (write_directly, 4), (write_by_temporary_name, 1), (write_draft, 1), (write_and_hand_in, 4), (hand_in, 1),
        (take_back, 2), (remove, 2), (rename, 1), (rename_onto, 1), (write_anew, 1.5), (append, 1.5), (try_again, 2), (mend, 1), (attach, 2), (attach_anew, 1),
        (rename_attachment, 0.5), (remove_attachment, 0.5), (sync, 1.5), (sync_attachments, 0.5),
        (lose_service, 1), (find_service, 1.5), (restart, 0.5),
    )

    def work(self, count):
        deeds, weights = zip(*self.DEEDS)
        try:
            for _ in range(count):
                deed = self.chance.choices(deeds, weights)[0]
                self.mark_deed(deed.__name__)
                with self.session.deed(is_alone=deed is User.restart):
                    deed(self)
                time.sleep(self.chance.choice((0, 0, 0.002, 0.02)))
        except (Defect, OSError) as failure:
            self.failure = failure

    def mark_deed(self, name):
        self.session.deeds.append("%d %s" % (self.number, name))


class Deed:
    """Several users act at the same time, except for some things that one user does alone."""

    def __init__(self, session, is_alone):
        self.session = session
        self.is_alone = is_alone

    def __enter__(self):
        session = self.session
        with session.turn:
            session.turn.wait_for(lambda: not session.is_alone)
            if self.is_alone:
                session.is_alone = True
                session.turn.wait_for(lambda: session.under_way == 0)
            session.under_way += 1

    def __exit__(self, *_):
        with self.session.turn:
            self.session.under_way -= 1
            self.session.is_alone = self.session.is_alone and not self.is_alone
            self.session.turn.notify_all()


class Session:
    def __init__(self, folder, seed):
        self.folder = folder
        chance = random.Random(seed)
        self.log = Log(os.path.join(folder, "log"))
        self.is_trusted = chance.random() < 0.4
        self.service = Service(self.log, random.Random(chance.random()), chance.choice((0, 0.1, 0.3)), self.is_trusted)
        options = ["--trust-idempotency"] if self.is_trusted else []
        self.mount = Mount(folder, self.log, self.service.url, options, chance.choice((0, 300, 1500)))
        self.turn = threading.Condition()
        self.under_way = 0
        self.is_alone = False
        self.deeds = []
        count = chance.choice((1, 1, 2, 3))
        self.deeds_each = max(4, chance.randrange(10, 22) // count)
        self.users = [User(self, number, chance.random()) for number in range(count)]
        self.is_old = chance.random() < OLD_RATE

    def deed(self, is_alone):
        return Deed(self, is_alone)

    def find_service(self):
        self.service.set_away(False)
        with open(os.path.join(self.mount.path, "ctl"), "w", encoding="ascii") as ctl:
            ctl.write("retry all\n")

    def restart(self, is_kill):
        if is_kill:
            self.mount.kill()
            for user in self.users:
                for message in user.messages:
                    message.may_be_interrupted = message.may_be_interrupted or message.level == "keep"
        else:
            self.mount.end()
        self.mount.start()
        for user in self.users:
            user.forget_interrupted_attachments()

    def settle(self):
        self.service.behave()

        def is_settled():
            self.find_service()
            error = self.users[0].call((errno.EIO, errno.EAGAIN), self.users[0].sync_folder, "outbox")
            return error != errno.EAGAIN

        wait_until(SETTLE_S, is_settled, "the queue is empty")
        for user in self.users:
            user.look()

    def check_recorder(self):
        """Checks that each file is in the records."""
        with open(self.log.path, "rb") as log:
            records = log.read()
        for top in ("spool", "drafts"):
            for folder, _, names in os.walk(os.path.join(self.mount.state, top)):
                for name in names:
                    path = os.path.relpath(os.path.join(folder, name), self.mount.state)
                    if path.encode() not in records:
                        raise Defect("%s is in no record" % path)

    def record(self):
        self.log.add("root %d ." % os.stat(self.mount.state).st_ino)
        if self.is_trusted:
            self.log.mark("trusted")
        if self.is_old:
            OldSpool(self).make()
        self.log.mark("ready")
        try:
            self.mount.start()
            threads = [threading.Thread(target=user.work, args=(self.deeds_each,)) for user in self.users]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for user in self.users:
                if user.failure is not None:
                    raise user.failure
            self.settle()
            self.mount.end()
            self.check_recorder()
        finally:
            self.mount.kill()
            self.service.stop()


# ---------------------------------------------------------------- figures


def check(folder, every):
    """Returns the exit status and the output of the checker."""
    command = [os.path.join(BUILD, "tests", "power_cuts"), "--work", os.path.join(folder, "work"), "--state",
               os.path.join(folder, "state"), "--every", str(every), os.path.join(folder, "log")]
    os.mkdir(os.path.join(folder, "work"))
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            check=False)
    return result.returncode, result.stdout.decode("utf-8", "replace")


def read_counts(said):
    last = said.rstrip("\n").rsplit("\n", 1)[-1]
    return collections.Counter({name: int(count) for name, count in re.findall(r"([a-z][a-z, ]*): (\d+)", last)})


def run_session(place, seed, every, sums):
    """Returns whether the session broke no promise."""
    folder = os.path.join(place, "session-%d" % seed)
    os.mkdir(folder)
    session = Session(folder, seed)
    begin = time.monotonic()
    try:
        session.record()
    except (Defect, OSError) as failure:
        print("session %d: %s\n  %s" % (seed, failure, "\n  ".join(session.deeds[-6:])), flush=True)
        return False
    recorded = time.monotonic()
    status, said = check(folder, every)
    sums.update(read_counts(said))
    sums["seconds"] += time.monotonic() - recorded
    is_well = status == 0
    if not is_well or sys.stderr.isatty():
        print("session %d: recorded %.1f s, checked %.1f s\n%s" % (seed, recorded - begin, time.monotonic() - recorded,
                                                                    said), end="", flush=True)
    if not is_well:
        print("  deeds: " + ", ".join(session.deeds), flush=True)
    return is_well


def main():
    parser = argparse.ArgumentParser(description="cut the power at each step of sessions, and count the mail")
    parser.add_argument("--sessions", type=int, default=int(os.environ.get("SESSIONS") or 200))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or random.randrange(1 << 20)))
    parser.add_argument("--every", type=int, default=1, help="cut at each Nth step only")
    parser.add_argument("--keep", action="store_true", help="keep all files in any case")
    arguments = parser.parse_args()
    place = tempfile.mkdtemp(prefix="inboxfs-cuts.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    sums = collections.Counter()
    are_well = True
    print("seed %d" % arguments.seed, flush=True)
    for number in range(arguments.sessions):
        is_well = run_session(place, arguments.seed + number, arguments.every, sums)
        are_well = are_well and is_well
        if is_well and not arguments.keep:
            shutil.rmtree(os.path.join(place, "session-%d" % (arguments.seed + number)))
    print("sessions: %d; %s" % (arguments.sessions, "; ".join("%s: %d" % figure for figure in sums.items())))
    if are_well and not arguments.keep:
        shutil.rmtree(place)
    else:
        print("everything is kept in %s" % place)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(0 if are_well else 1)


if __name__ == "__main__":
    main()
