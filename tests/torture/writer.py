#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One user of the mount in the torture campaign: hands in numbered messages until DIR/stop exists.

usage: writer.py NAME MOUNT DIR SEED FROM TO... (the folder DIR is this writer's own)

Each message has the checksum of its body, and of its attachment if it has one. DIR/journal has a line of JSON for each
message that was begun, each promise of a system call or program, and each error; it is synced before the next step.
Each message is begun once. Only a rename is repeated, if the daemon was killed before its result and the draft is still
there, as a person would do.
"""

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.ENOENT, errno.ENODEV)
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Failure(Exception):
    """An attempt failed. `errno` is None if a program reported the error only as text."""

    def __init__(self, words, number=None):
        super().__init__(words)
        self.errno = number


class Writer:
    def __init__(self, name, mount, folder, seed, sender, recipients):
        self.name = name
        self.mount = mount
        self.folder = folder
        self.random = random.Random(seed)
        self.sender = sender
        self.recipients = recipients
        self.journal_fd = os.open(os.path.join(folder, "journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.count = 0

    # ------------------------------------------------------------ the journal, and waiting

    def note(self, identity, event, **more):
        entry = dict(more, time=time.monotonic(), id=identity, event=event)
        os.write(self.journal_fd, json.dumps(entry).encode() + b"\n")
        os.fdatasync(self.journal_fd)

    def is_stopped(self):
        return os.path.exists(os.path.join(self.folder, "stop"))

    def is_mounted(self):
        try:
            os.stat(os.path.join(self.mount, "status.json"))
            return True
        except OSError:
            return False

    def wait_for_mount(self):
        """Waits for the mount. Returns False if DIR/stop exists before."""
        while not self.is_mounted():
            if self.is_stopped():
                return False
            time.sleep(0.02)
        return True

    def path(self, folder, name):
        return os.path.join(self.mount, folder, name)

    # ------------------------------------------------------------ texts

    def text(self, size):
        line = "%s says %d words of nothing. äöü\n"
        text = ""
        while len(text) < size:
            text += line % (self.name, self.random.randrange(1000000))
        return text

    def size(self):
        return self.random.choice((100, 1000, 1000, 5000, 20000, 200000))

    def compose(self, identity, attachment):
        """Returns the bytes of the message and the checksum of its body."""
        body = self.text(self.size())
        checksum = hashlib.sha256(body.encode()).hexdigest()
        body += "checksum: %s\n" % checksum
        if self.random.random() < 0.3:
            message = {"from_address": self.sender, "subject": identity, "plain_text": body,
                       "to_addresses": [{"address": self.recipients[0], "name": None}]}
            if len(self.recipients) > 1:
                message["cc_addresses"] = self.recipients[1:]
            if attachment:
                message["attachments"] = [attachment]
            return json.dumps(message, ensure_ascii=False).encode(), checksum
        head = "From: %s\nTo: %s\nSubject: %s\n" % (self.sender, self.recipients[0], identity)
        if len(self.recipients) > 1:
            head += "Cc: %s\n" % ", ".join(self.recipients[1:])
        if attachment:
            head += "Attach: %s\n" % attachment
        return (head + "\n" + body).encode(), checksum

    # ------------------------------------------------------------ ways of writing

    def write(self, path, content, is_synced, flags=CREATE):
        """Writes like a careful program, which checks every call."""
        try:
            fd = os.open(path, flags, 0o600)
            try:
                cut = self.random.randint(1, len(content))
                for part in (content[:cut], content[cut:]):
                    if os.write(fd, part) != len(part):
                        raise Failure("a short write")
                    if self.random.random() < 0.2:
                        time.sleep(self.random.random() * 0.05)
                if is_synced:
                    os.fsync(fd)
            except BaseException:
                try:
                    os.close(fd)
                except OSError:
                    pass
                raise
            os.close(fd)
        except OSError as error:
            raise Failure(os.strerror(error.errno), error.errno) from None

    def die_writing(self, path, content):
        """A child writes a part and is killed with the file open, which leaves half a message in outbox/."""
        cut = self.random.randrange(1, len(content))
        if not content[:cut].strip() or b"checksum: " in content[:cut]:
            cut = len(content) // 2
        pause = self.random.random() * 0.03
        child = os.fork()
        if child == 0:
            try:
                fd = os.open(path, CREATE, 0o600)
                os.write(fd, content[:cut])
                time.sleep(pause)
                if cut % 2 == 0:
                    os.fsync(fd)
            except OSError:
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)

    def run(self, *command, **options):
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, **options)
        if result.returncode != 0:
            raise Failure("exit %d: %s" % (result.returncode, result.stderr.decode(errors="replace").strip()))

    def keep(self, identity, content):
        """Writes a file outside the mount."""
        path = os.path.join(self.folder, identity)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def by_calls(self, identity, content):
        self.write(self.path("outbox", identity), content, self.random.random() < 0.5)

    def by_two_opens(self, identity, content):
        """`>` and `>>`. The first part alone is no message: headers without a blank line, or JSON without its end."""
        path = self.path("outbox", identity)
        cut = content.find(b"\n\n") + 1 or self.random.randrange(1, len(content))
        self.write(path, content[:cut], False)
        self.write(path, content[cut:], False, os.O_WRONLY | os.O_APPEND)

    def by_cp(self, identity, content):
        source = self.keep(identity, content)
        try:
            self.run("cp", source, self.path("outbox", identity))
        finally:
            os.unlink(source)

    def by_shell(self, identity, content):
        source = self.keep(identity, content)
        cut = self.random.randrange(1, len(content))
        script = '{ head -c "$3" "$1" && tail -c "+$(($3 + 1))" "$1"; } >"$2"'
        try:
            self.run("sh", "-c", script, "-", source, self.path("outbox", identity), str(cut))
        finally:
            os.unlink(source)

    def by_dot_name(self, identity, content):
        self.write(self.path("outbox", "." + identity), content, False)
        self.rename(self.path("outbox", "." + identity), self.path("outbox", identity))

    def by_rename(self, identity, content):
        self.write(self.path("drafts", identity), content, True)
        self.rename(self.path("drafts", identity), self.path("outbox", identity))

    def by_mv(self, identity, content):
        self.write(self.path("drafts", identity), content, True)
        try:
            self.run("mv", self.path("drafts", identity), self.path("outbox", identity))
        except Failure:
            # The draft shows whether the call took effect.
            self.rename(self.path("drafts", identity), self.path("outbox", identity))

    def rename(self, source, target):
        """Repeats the rename if its result was lost. If the source is gone then, it was accepted."""
        while True:
            try:
                os.rename(source, target)
                return
            except OSError as error:
                if error.errno not in GONE:
                    raise Failure(os.strerror(error.errno), error.errno) from None
                number = error.errno
            # Looks twice: without the mount, the empty folder below it looks like a missing draft.
            if number == errno.ENOENT and self.is_mounted() and not os.path.lexists(source) and self.is_mounted():
                raise Failure("the source is gone", number) from None
            if not self.wait_for_mount():
                raise Failure("the answer was lost", number) from None
            time.sleep(0.01)

    # ------------------------------------------------------------ a message

    def upload(self, identity):
        """Makes an attachment. Returns its name and checksum."""
        name = identity + ".txt"
        content = self.text(self.size()).encode()
        is_dying = self.random.random() < 0.15
        self.note(identity, "attachment", checksum=hashlib.sha256(content).hexdigest(), is_dying=is_dying)
        if is_dying:
            self.die_writing(self.path("attachments", name), content)
        else:
            self.write(self.path("attachments", name), content, False)
        return name

    def take_back(self, identity):
        """Takes the message back, if that is still possible."""
        try:
            if self.random.random() < 0.5:
                os.unlink(self.path("outbox", identity))
                self.note(identity, "removed")
            else:
                os.rename(self.path("outbox", identity), self.path("drafts", identity))
                self.note(identity, "taken back")
        except OSError as error:
            self.note(identity, "not taken back", errno=errno.errorcode[error.errno])

    def clear_sent(self):
        """Removes sent messages, as people do now and then. Each removed message must be at the service."""
        try:
            for name in os.listdir(os.path.join(self.mount, "sent")):
                if name.startswith(self.name + "-") and not name.endswith(".receipt.json"):
                    self.note(name, "cleared")
                    os.unlink(self.path("sent", name))
        except OSError:
            pass

    def hand_in(self):
        self.count += 1
        identity = "%s-%06d" % (self.name, self.count)
        attachment = None
        try:
            if self.random.random() < 0.15:
                attachment = self.upload(identity)
        except Failure as failure:
            self.note(identity, "no attachment", error=str(failure))
            return
        way = self.random.choice((self.by_rename, self.by_rename, self.by_mv, self.by_calls, self.by_calls,
                                  self.by_two_opens, self.by_cp, self.by_shell, self.by_dot_name))
        is_dying = self.random.random() < 0.08
        content, checksum = self.compose(identity, attachment)
        self.note(identity, "begun", way="dies" if is_dying else way.__name__, checksum=checksum,
                  attachment=attachment)
        if is_dying:
            self.die_writing(self.path("outbox", identity), content)
            self.note(identity, "died")
            return
        try:
            way(identity, content)
            self.note(identity, "accepted")
        except Failure as failure:
            self.note(identity, "refused", error=str(failure), errno=failure.errno)
            return
        if self.random.random() < 0.04:
            self.take_back(identity)

    def work(self):
        while not self.is_stopped():
            if self.wait_for_mount():
                self.hand_in()
                if self.count % 100 == 0:
                    self.clear_sent()
                time.sleep(self.random.random() * 0.12)


def main():
    name, mount, folder, seed, sender, *recipients = sys.argv[1:]
    Writer(name, mount, folder, seed, sender, recipients).work()


if __name__ == "__main__":
    main()
