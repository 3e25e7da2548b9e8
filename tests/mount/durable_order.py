#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the order of a daemon's steps against what it promised: was it on the disk by then?

usage: durable_order.py LOG

LOG is what tests/torture/fault_preload.c writes down (STEP_LOG), with lines of the test between, one after each call that
returned to it:

  mark closed NAME        outbox/NAME or attachments/NAME was written in place and closed
  mark is STATE NAME      NAME was seen to be in that state (spaces as _), or in a later one: accepted, sent, uploaded, failed,
                          unknown_outcome
  mark draft NAME         NAME was moved out to drafts/
  mark gone NAME          NAME was removed

From the log follows at each line what a power cut would leave: of each file what was written before its last fsync began, of
each directory the names that it had before its last fsync began. Against that is checked:

- what takes a name in the spool, by rename or exchange, is on the disk;
- the content of an item goes before its envelope;
- a request with a key goes out when the disk knows that it is being sent, and the message;
- what a mark says is on the disk.

Prints what is wrong, a line each, then a line with counts of what was checked. Exits with 1 if something was wrong.
"""

import json
import os.path
import sys
from collections import Counter



class Disk:
    def __init__(self):
        self.names = {}  # path: inode, as the kernel has them
        self.durable_names = {}  # as the disk has them
        self.version = {}  # inode: writes so far
        self.durable_version = {}
        self.text = {}  # inode: envelope
        self.durable_text = {}
        self.begun = {}  # (thread, inode): what an fsync that ends later makes durable

    def write(self, inode, text=None):
        self.version[inode] = self.version.get(inode, 0) + 1
        if text is not None:
            self.text[inode] = text

    def create(self, inode, path):
        self.names[path] = inode
        self.version[inode] = 1
        self.durable_version[inode] = 0
        self.text.pop(inode, None)
        self.durable_text.pop(inode, None)

    def is_clean(self, inode):
        return self.durable_version.get(inode, 0) >= self.version.get(inode, 0)

    def begin_sync(self, thread, inode, path):
        inside = {name: at for name, at in self.names.items() if os.path.dirname(name) == path}
        self.begun[thread, inode] = (self.version.get(inode, 0), self.text.get(inode), inside)

    def end_sync(self, thread, inode, path):
        version, text, inside = self.begun.pop((thread, inode))
        if version >= self.durable_version.get(inode, 0):
            self.durable_version[inode] = version
            self.durable_text[inode] = text
        for name in [name for name in self.durable_names if os.path.dirname(name) == path]:
            del self.durable_names[name]
        self.durable_names.update(inside)

    def envelopes(self):
        """Of all items, as a power cut would leave them: (envelope, whether its content is whole)."""
        for path, inode in self.durable_names.items():
            text = self.durable_text.get(inode)
            if path.startswith("spool/") and path.endswith(".json") and text is not None:
                content = self.durable_names.get(path[: -len("json")] + "data")
                yield text, content is not None and self.is_clean(content)


def is_in_state(envelope, state):
    if state == "accepted":
        return envelope["state"] not in ("writing", "interrupted", "drafted")
    return envelope["state"] == state


class Checker:
    def __init__(self):
        self.disk = Disk()
        self.wrong = []
        self.counts = Counter()

    def expect(self, what, holds, words):
        self.counts[what] += 1
        if not holds:
            self.wrong.append(f"line {self.line}: {words}")

    def place(self, inode, path):
        """`path` is the file's now."""
        if path.startswith("spool/"):
            self.expect("renamed", self.disk.is_clean(inode), f"{path} took its name before it was synced")

    def rename(self, inode, source, target):
        disk = self.disk
        disk.names.pop(source, None)
        disk.names[target] = inode
        disk.version.setdefault(inode, 0)
        self.place(inode, target)

    def exchange(self, inode, source, target):
        self.disk.names[source] = self.disk.names.get(target)
        self.disk.names[target] = inode
        self.place(inode, target)

    def unlink(self, path):
        self.disk.names.pop(path, None)
        if path.startswith("spool/") and path.endswith(".json"):
            content = path[: -len("json")] + "data"
            self.expect("unlinked", content not in self.disk.names, f"{path} was removed before its content")

    def send(self, key):
        found = [whole for envelope, whole in self.disk.envelopes()
                 if envelope["idempotency_key"] == key and envelope["state"] == "sending"]
        self.expect("requested", found == [True], f"the request with key {key} went out, and the disk has of it: {found}")

    def mark(self, words):
        name = words[-1]
        found = [(envelope, whole) for envelope, whole in self.disk.envelopes() if envelope["name"] == name]
        states = [(envelope["state"], whole) for envelope, whole in found]
        if words[0] == "closed":
            holds = any(whole for _, whole in found)
        elif words[0] == "is":
            holds = any(whole and is_in_state(envelope, words[1].replace("_", " ")) for envelope, whole in found)
        elif words[0] == "draft":
            inode = self.disk.durable_names.get("drafts/" + name)
            holds = inode is not None and self.disk.is_clean(inode) and not any(whole for _, whole in found)
        else:
            holds = found == []
        self.expect("promised", holds, f"{' '.join(words)}, and the disk has of it: {states}")

    def read(self, line):
        disk = self.disk
        word, rest = line.split(" ", 1)
        if word == "text":
            inode, text = rest.split(" ", 1)
            disk.write(int(inode), json.loads(text))
            return
        words = rest.split()
        if word == "create":
            disk.create(int(words[0]), words[1].removeprefix("./"))
        elif word == "write":
            disk.write(int(words[0]))
        elif word == "begin":
            disk.begin_sync(words[0], int(words[1]), words[2])
        elif word == "end":
            disk.end_sync(words[0], int(words[1]), words[2])
        elif word == "rename":
            self.rename(int(words[0]), words[1], words[2])
        elif word == "exchange":
            self.exchange(int(words[0]), words[1], words[2])
        elif word == "link":
            disk.names[words[2]] = int(words[0])
        elif word == "unlink":
            self.unlink(words[0])
        elif word == "send":
            self.send(words[0])
        elif word == "mark":
            self.mark(words)
        else:
            raise ValueError(line)


def main():
    checker = Checker()
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        for checker.line, line in enumerate(log, 1):
            checker.read(line.rstrip("\n"))
    for wrong in checker.wrong:
        print(wrong)
    print(" ".join(f"{what}={count}" for what, count in sorted(checker.counts.items())))
    sys.exit(1 if checker.wrong else 0)


main()
