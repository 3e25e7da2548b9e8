#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the same random system calls in two folders and tells where their results differ.

usage: compare_folders.py FOLDER OTHER SEED CALLS

Both must be empty. Exits with 1 when any call came back with another value, error or attribute in one than in the
other. Left out is what a FUSE filesystem cannot be asked (O_TMPFILE), what every filesystem answers in its own
way (the size and link count of a folder), and what inboxfs refuses: an O_PATH descriptor of a file that lost one of
several names may be ESTALE.
"""

import ctypes
import errno
import mmap
import os
import random
import stat
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = ["a", "b", "c", "d", "dir", "dir/x", "dir/y", "dir/sub", "dir/sub/z", "e" * 255, "e" * 256, "n\nl", "ü",
         "link", "dir/../a", "a/x", "missing/x", "", ".", "dir/", "a/"]
MODES = [0o644, 0o600, 0o755, 0o700, 0o4755, 0o1777, 0o2750]
FLAGS = [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL,
         os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_CREAT | os.O_APPEND,
         os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_RDONLY | os.O_NOFOLLOW, os.O_RDONLY | os.O_DIRECTORY, os.O_PATH]
OFFSETS = [0, 1, 10, 4095, 4096, 5000, 100000]
TIMES_NS = [0, 10**9, 1234567890123456789, 4102444800 * 10**9, -5 * 10**9]
NOREPLACE, EXCHANGE = 1, 2


def attributes(status):
    own = (status.st_nlink, status.st_size) if not stat.S_ISDIR(status.st_mode) else ()
    return (oct(status.st_mode), status.st_uid, status.st_gid) + own


def libc(name, *arguments):
    if getattr(LIBC, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


class Folder:
    """One of the two, with the files open in it: slot → descriptor."""

    def __init__(self, path):
        self.path = path
        self.open = {}

    def at(self, name):
        return os.path.join(self.path, name)


def open_file(folder, o):
    if o.slot in folder.open:
        os.close(folder.open.pop(o.slot))
    folder.open[o.slot] = os.open(folder.at(o.name), o.flags, o.mode & 0o777)


def rename_with_flags(folder, o):
    libc("renameat2", -100, os.fsencode(folder.at(o.name)), -100, os.fsencode(folder.at(o.other)), o.rename)


def set_times(folder, o):
    os.utime(folder.at(o.name), ns=(o.time, o.time + 1000), follow_symlinks=False)
    status = os.lstat(folder.at(o.name))
    return status.st_atime_ns, status.st_mtime_ns


def set_owner(folder, o):
    if os.geteuid() == 0:
        os.chown(folder.at(o.name), 1234, 4321, follow_symlinks=False)
    return attributes(os.lstat(folder.at(o.name)))


def read_file(folder, o):
    with open(folder.at(o.name), "rb") as file:
        return file.read()


def read_mapped(fd):
    size = os.fstat(fd).st_size
    if size == 0:
        return b""
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
        return bytes(view)


def seek_end(fd):
    return None if stat.S_ISDIR(os.fstat(fd).st_mode) else os.lseek(fd, 0, os.SEEK_END)


CALLS = [
    open_file, open_file, open_file, open_file, open_file,
    lambda f, o: os.mkdir(f.at(o.name), o.mode & 0o777),
    lambda f, o: os.rmdir(f.at(o.name)),
    lambda f, o: os.unlink(f.at(o.name)),
    lambda f, o: os.unlink(f.at(o.name)),
    lambda f, o: os.rename(f.at(o.name), f.at(o.other)),
    lambda f, o: os.rename(f.at(o.name), f.at(o.other)),
    rename_with_flags,
    lambda f, o: os.link(f.at(o.name), f.at(o.other), follow_symlinks=False),
    lambda f, o: os.symlink(o.name or "x", f.at(o.other)),
    lambda f, o: os.readlink(f.at(o.name)),
    lambda f, o: os.chmod(f.at(o.name), o.mode),
    set_times, set_owner,
    lambda f, o: attributes(os.lstat(f.at(o.name))),
    lambda f, o: attributes(os.stat(f.at(o.name))),
    lambda f, o: sorted(os.listdir(f.at(o.name))),
    lambda f, o: [os.access(f.at(o.name), way) for way in (os.F_OK, os.R_OK, os.W_OK, os.X_OK)],
    lambda f, o: os.truncate(f.at(o.name), o.offset),
    read_file,
]
CALLS_ON_OPEN = [
    lambda fd, o: os.write(fd, o.data),
    lambda fd, o: os.write(fd, o.data),
    lambda fd, o: os.pwrite(fd, o.data, o.offset),
    lambda fd, o: os.pread(fd, o.length, o.offset),
    lambda fd, o: os.read(fd, o.length),
    lambda fd, o: os.lseek(fd, o.offset, os.SEEK_SET),
    lambda fd, o: seek_end(fd),
    lambda fd, o: os.ftruncate(fd, o.offset),
    lambda fd, o: os.fchmod(fd, o.mode),
    lambda fd, o: os.fsync(fd),
    lambda fd, o: attributes(os.fstat(fd)),
    lambda fd, o: read_mapped(fd),
]


class Operands:
    def __init__(self, rng):
        self.name, self.other = rng.choice(NAMES), rng.choice(NAMES)
        self.slot = rng.randrange(4)
        self.flags, self.mode = rng.choice(FLAGS), rng.choice(MODES)
        self.offset, self.length = rng.choice(OFFSETS), rng.choice([0, 1, 5, 4096, 10000])
        self.data = bytes([rng.randrange(256)]) * self.length
        self.time = rng.choice(TIMES_NS)
        self.rename = rng.choice([0, NOREPLACE, EXCHANGE, NOREPLACE | EXCHANGE])

    def __str__(self):
        return " ".join(f"{name}={value!r}" for name, value in vars(self).items() if name != "data")


def result(folder, number, operands):
    """What the call gives back, or the name of its error."""
    try:
        if number < len(CALLS):
            return CALLS[number](folder, operands)
        if operands.slot not in folder.open:
            return None
        return CALLS_ON_OPEN[number - len(CALLS)](folder.open[operands.slot], operands)
    except OSError as error:
        return errno.errorcode.get(error.errno, error.errno)


def main():
    folders = Folder(sys.argv[1]), Folder(sys.argv[2])
    rng = random.Random(int(sys.argv[3]))
    differences = 0
    for step in range(int(sys.argv[4])):
        number, operands = rng.randrange(len(CALLS) + len(CALLS_ON_OPEN)), Operands(rng)
        one, other = (result(folder, number, operands) for folder in folders)
        if one != other:
            differences += 1
            print(f"{step}: call {number} {operands}: {str(one)[:200]} instead of {str(other)[:200]}")
    for folder in folders:
        for fd in folder.open.values():
            os.close(fd)
    sys.exit(differences != 0)


main()
