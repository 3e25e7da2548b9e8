# SPDX-License-Identifier: MIT
"""Listing, reading and searching, against tmpfs; and how many requests of the kernel that takes."""
import collections
import re
import shutil

from programs import Mount
from rows import Row, must, seconds, take_turns

# Work, the goal warm and cold (times tmpfs). {box}: the folder; {place}: where the reference file is.
WORKS = (
    ("ls -f", "ls -f {box}", 1.2, None),
    ("find", "find {box}", 1.2, None),
    ("ls -l", "ls -l {box}", 1.2, 1.5),
    ("find -newer", "find {box} -newer {place}/reference", 1.2, 3),
    ("lstat each", "find {box} -name '2*.json' -print0 | xargs -0 stat -c %s", 1.2, None),
    ("cat of all", "find {box} -name '2*.json' -print0 | xargs -0 cat", 2.7, 3.5),
    ("grep -r", "grep -r no-such-text {box} || [ $? = 1 ]", 7, 8.5),
)
INDEX_GOAL = 0.4
MANY = 100000  # times are long enough to be taken less often


def prepare(mount, place, copy):
    """A copy of the folder on tmpfs, without the files that are no emails."""
    plain = copy / "box"
    plain.mkdir()
    for file in mount.box.glob("2*.json"):
        shutil.copy2(file, plain / file.name)
    (place / "reference").touch()
    return plain


def measure_warm(rows, emails, mount, place, plain):
    runs = 5 if emails < MANY else 3
    for work, command, goal, _ in WORKS:
        ours, theirs = command.format(box=mount.box, place=place), command.format(box=plain, place=place)
        must(seconds(ours), ours)
        rows.append(Row("reading", f"{work}, warm", emails, *in_turns(ours, theirs, runs), goal=goal))
    index, theirs = f"grep no-such-text {mount.box}/index.jsonl || [ $? = 1 ]", WORKS[-1][1].format(box=plain)
    rows.append(Row("reading", "grep of index.jsonl, against grep -r", emails, *in_turns(index, theirs, runs),
                    goal=INDEX_GOAL))


def in_turns(ours, theirs, runs):
    best, plain = take_turns(ours, theirs, runs)
    return best, "s", "tmpfs", plain


def measure_cold(rows, emails, service, place, plain):
    """Each takes a mount of its own, of which the kernel knows nothing."""
    runs = 3 if emails < MANY else 2
    for number, (work, command, _, goal) in enumerate(WORKS):
        pairs = []
        for run in range(runs):
            mount = Mount(service, place, f"cold-{emails}-{number}-{run}")
            ours, theirs = command.format(box=mount.box, place=place), command.format(box=plain, place=place)
            pairs.append((must(seconds(ours), ours), must(seconds(theirs), theirs)))
            mount.stop()
        rows.append(Row("reading", f"{work}, cold", emails, min(a for a, _ in pairs), "s", "tmpfs",
                        min(b for _, b in pairs), goal))


def count_requests(emails, service, place):
    """What the kernel asked, by command and operation: cold, and warm after it."""
    log = place / "requests.log"
    counts = {}
    for number, (work, command, _, _) in enumerate(WORKS):
        mount = Mount(service, place, f"count-{emails}-{number}", debug_log=log)
        command = command.format(box=mount.box, place=place)
        for state in ("cold", "warm"):
            start = log.stat().st_size
            must(seconds(command), command)
            mount.box.joinpath("none").exists()  # answered in order, so that all before it is in the log
            with log.open("rb") as file:
                file.seek(start)
                operations = collections.Counter(re.findall(r"opcode: (\w+)", file.read().decode(errors="replace")))
            operations.subtract({"LOOKUP": 1})
            counts[f"{work}, {state}"] = {name: count for name, count in sorted(operations.items()) if count > 0}
        mount.stop()
        log.unlink()
    return counts
