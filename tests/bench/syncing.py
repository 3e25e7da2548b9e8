# SPDX-License-Identifier: MIT
"""From the service to the mount: the first sync, polls without news, new mail, and mounting what is known."""
import pathlib
import resource
import shutil
import subprocess
import threading
import time

from programs import Mount, Way, running
from rows import Row, must, seconds

SYNC_GOAL_S = {100000: 1.5}
CPU_GOAL = 1
POLL_GOAL_MS = 5
NEWS_GOAL_MS = 10
MANY = 1000
MANY_GOAL_S = 0.5
FIRST_LS_GOAL_S = {1000000: 4.5}
MEMORY_GOAL_MB = {100000: 60, 1000000: 250}


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_first_sync(rows, emails, service, place, runs):
    """With an empty state; its CPU against jq, which reads the same list. The state stays, for mounts that follow."""
    answer = place / "answer"
    curl = f"curl -sS -o {answer} -H 'Authorization: Bearer {service.key}' '{service.list_url(4 * emails)}'"
    must(seconds(curl), curl)
    times, cpu, jq_cpu = [], [], []
    for run in range(runs):
        shutil.rmtree(place / "state", ignore_errors=True)
        mount = Mount(service, place, f"sync-{emails}-{run}")
        before = mount.cpu_s()
        ours = must(seconds(f"echo sync > {mount.path}/ctl"), "sync")
        cpu.append(mount.cpu_s() - before)
        peak_kb, own_kb, synced = mount.memory_kb("VmHWM"), mount.memory_kb("RssAnon"), mount.cpu_s()
        if run == runs - 1:
            mount.wait_until_idle()
        index_cpu_s = mount.cpu_s() - synced
        mount.stop()
        times.append(ours)
        before = children_cpu_s()
        must(seconds(f"jq length {answer}"), "jq")
        jq_cpu.append(children_cpu_s() - before)
    rows += [Row("sync", "first sync", emails, min(times), "s", goal=SYNC_GOAL_S.get(emails)),
             Row("sync", "first sync, CPU", emails, min(cpu), "s", "jq length", min(jq_cpu), CPU_GOAL),
             Row("sync", "first sync, memory at most", emails, peak_kb / 1024, "MB"),
             Row("sync", "first sync, own memory after it", emails, own_kb / 1024, "MB"),
             Row("sync", "index for search afterwards, CPU", emails, index_cpu_s, "s")]
    answer.unlink()


def measure_mounting(rows, emails, service, place, runs):
    """From the start of the program to the end of the first complete ls."""
    times = []
    for run in range(runs):
        start = time.monotonic()
        mount = Mount(service, place, f"warm-{emails}-{run}")
        names = subprocess.run(["ls", "-f", mount.box], stdout=subprocess.PIPE, check=True).stdout
        times.append(time.monotonic() - start)
        memory_kb, own_kb = mount.memory_kb(), mount.memory_kb("RssAnon")
        mount.stop()
        if names.count(b"\n") < emails:
            raise SystemExit("bench: the first ls was not complete")
    rows += [Row("sync", "warm cache: mount and first ls", emails, min(times), "s",
                 goal=FIRST_LS_GOAL_S.get(emails)),
             Row("sync", "memory after that", emails, memory_kb / 1024, "MB", goal=MEMORY_GOAL_MB.get(emails)),
             Row("sync", "own memory after that", emails, own_kb / 1024, "MB")]


def measure_polls(rows, emails, service, place):
    """CPU time of a poll without news; and of the program while nothing happens at all."""
    mount = Mount(service, place, f"polls-{emails}", poll_s=1)
    mount.wait_for_quiet_poll()
    mount.wait_until_idle()
    before, counters, polls = mount.cpu_s(), mount.status()["counters"], 5
    time.sleep(polls)
    cpu_s, now = mount.cpu_s() - before, mount.status()["counters"]
    rows += [Row("sync", "a poll without news, CPU", emails, 1000 * cpu_s / polls, "ms", goal=POLL_GOAL_MS),
             Row("sync", "a poll without news, requests", emails, (now["requests"] - counters["requests"]) / polls, ""),
             Row("sync", "a poll without news, received", emails,
                 (now["received_bytes"] - counters["received_bytes"]) / polls / 1024, "kB", goal=8)]
    mount.stop()
    mount = Mount(service, place, f"idle-{emails}")
    mount.control()
    mount.wait_until_idle()
    before, count = mount.cpu_s(), 20
    for _ in range(count):
        mount.control()
    rows.append(Row("sync", "ctl sync without news, CPU", emails, 1000 * (mount.cpu_s() - before) / count, "ms",
                    goal=POLL_GOAL_MS))
    time.sleep(0.2)
    before, wakes = mount.cpu_s(), wake_ups(mount)
    time.sleep(3)
    rows += [Row("sync", "3 s without anything, CPU", emails, 1000 * (mount.cpu_s() - before), "ms"),
             Row("sync", "3 s without anything, wake-ups", emails, wake_ups(mount) - wakes, "")]
    mount.stop()


def wake_ups(mount):
    count = 0
    for status in pathlib.Path(f"/proc/{mount.process.pid}/task").glob("*/status"):
        count += sum(int(line.split()[1]) for line in status.read_text().splitlines() if "ctxt_switches" in line)
    return count


class Watcher:
    """inotifywait on the folder, and when it told of what."""

    def __init__(self, folder):
        self.folder = folder
        self.seen, self.read_at = [], []
        running.append(self)
        self.process = subprocess.Popen(["inotifywait", "-m", "-e", "create", "--format", "%f", folder],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "established" not in self.process.stderr.readline():
            pass
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for name in self.process.stdout:
            self.seen.append(time.monotonic())
            (self.folder / name.rstrip("\n")).read_bytes()
            self.read_at.append(time.monotonic())

    def wait_for(self, count, limit_s=30):
        until = time.monotonic() + limit_s
        while len(self.read_at) < count:
            if time.monotonic() > until:
                raise SystemExit(f"bench: watchers heard of {len(self.seen)} of {count} emails")
            time.sleep(0.001)

    def stop(self):
        running.remove(self)
        self.process.terminate()
        self.process.wait()
        self.thread.join()


def measure_news(rows, emails, service, place, runs=5):
    """From the beginning of the answer that brought it: until inotify tells, until it was read, and for many, until a
    listing shows them all."""
    way = Way(service.port)
    mount = Mount(service, place, f"news-{emails}", url=way.url, state="state-news", poll_s=1)
    mount.wait_for_quiet_poll()
    names = count_names(mount)
    watcher = Watcher(mount.box)
    read, told = [], []
    for run in range(runs):
        mount.wait_for_quiet_poll()
        way.first_long_answer = None
        service.send(f"News {run}")
        names += 1
        watcher.wait_for(run + 1)
        read.append(watcher.read_at[-1] - way.first_long_answer)
        told.append(watcher.seen[-1] - way.first_long_answer)
    rows += [Row("news", "new mail, until IN_CREATE", emails, 1000 * min(told), "ms", goal=NEWS_GOAL_MS),
             Row("news", "new mail, until it was read", emails, 1000 * min(read), "ms", goal=NEWS_GOAL_MS)]
    mount.wait_for_quiet_poll()
    way.first_long_answer = None
    service.add(emails, MANY)
    seen = wait_for_names(mount, names + MANY)
    watcher.wait_for(runs + MANY)
    rows += [Row("news", f"{MANY} at once, until ls shows them", emails, seen - way.first_long_answer, "s",
                 goal=MANY_GOAL_S),
             Row("news", f"{MANY} at once, until the last IN_CREATE", emails,
                 watcher.seen[-1] - way.first_long_answer, "s", goal=MANY_GOAL_S)]
    watcher.stop()
    mount.stop()
    way.stop()


def count_names(mount):
    return subprocess.run(["ls", "-f", mount.box], stdout=subprocess.PIPE, check=True).stdout.count(b"\n")


def wait_for_names(mount, count, limit_s=60):
    """When a listing held that many names."""
    until = time.monotonic() + limit_s
    while count_names(mount) < count:
        if time.monotonic() > until:
            raise SystemExit(f"bench: no more than {count_names(mount)} of {count} names appeared")
        time.sleep(0.001)
    return time.monotonic()
