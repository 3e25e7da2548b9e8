#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that waits for new files by inotify, as service managers and libraries for watching do: it is woken by
epoll, reads events without waiting, and opens what it is told of at once.

    watcher.py FOLDER...

Prints "watching", then a line of JSON for each file that was closed after writing: its path, and its text.
"""

import ctypes
import json
import os
import select
import struct
import sys

IN_CREATE, IN_CLOSE_WRITE, IN_MOVED_TO, IN_MOVE_SELF, IN_DELETE_SELF = 0x100, 0x8, 0x80, 0x800, 0x400
EVENT = struct.Struct("iIII")


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    folders = {}
    for folder in sys.argv[1:]:
        mask = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF
        number = libc.inotify_add_watch(watch, os.fsencode(folder), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
        folders[number] = folder
    poll = select.epoll()
    poll.register(watch, select.EPOLLIN)
    print("watching", flush=True)
    while True:
        poll.poll()
        show(os.read(watch, 64 * 1024), folders)


def show(events, folders):
    at = 0
    while at < len(events):
        number, mask, _, length = EVENT.unpack_from(events, at)
        name = os.fsdecode(events[at + EVENT.size:at + EVENT.size + length].rstrip(b"\0"))
        at += EVENT.size + length
        if mask & IN_CLOSE_WRITE:
            path = os.path.join(folders[number], name)
            with open(path, encoding="utf-8") as file:
                print(json.dumps({"path": path, "text": file.read()}), flush=True)


if __name__ == "__main__":
    main()
