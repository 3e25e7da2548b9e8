# SPDX-License-Identifier: MIT
"""Rows of the table, and how times are taken.

Machines are noisy and do other things as well: the two sides of a row take turns, and the best run of each counts.
"""
import dataclasses
import subprocess
import time


@dataclasses.dataclass
class Row:
    section: str
    work: str
    emails: int
    ours: float            # in `unit`
    unit: str              # s, ms, MB, requests
    against: str = ""      # what it is compared with
    theirs: float | None = None
    goal: float | None = None  # at most: of the ratio where there is a comparison, else of `ours`

    is_given_up: bool = False  # `theirs` is the least that it can be

    @property
    def ratio(self):
        return None if self.theirs is None else self.ours / self.theirs

    @property
    def is_met(self):
        if self.goal is None:
            return None
        return (self.ours if self.ratio is None else self.ratio) <= self.goal


def seconds(command, timeout=None):
    """How long a shell command takes. None: longer than the time-out, or it failed."""
    start = time.monotonic()
    process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
        process.wait()
        return None
    return time.monotonic() - start if status == 0 else None


def must(value, what):
    if value is None:
        raise SystemExit(f"bench: failed: {what}")
    return value


def take_turns(ours, theirs, runs):
    """The best of each, of commands that take turns."""
    pairs = [(must(seconds(ours), ours), must(seconds(theirs), theirs)) for _ in range(runs)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)
