# SPDX-License-Identifier: MIT
"""What emails hold: read for the first time against curl, and again against tmpfs; and the same as a Maildir."""
import json
import os
import shutil
import sqlite3
import subprocess

from programs import RECEIVER, SENDER, Mount
from rows import Row, must, seconds, take_turns

LINE = "Line {} of a letter that says nothing in particular to anybody at all.\n"
BODY_BYTES = 2400
# Work, the goal (times tmpfs). {box}: the folder; {place}: where the reference file is.
MAILDIR_WORKS = (
    ("ls -l of a Maildir", "ls -l {box}/new", 1.5),
    ("find -newer in a Maildir", "find {box} -newer {place}/reference", 2),
    ("grep -r in a Maildir", "grep -r no-such-text {box} || [ $? = 1 ]", 6),
)
BODY_WORKS = (
    ("cat of each body.txt", "cd {box} && printf '%s/body.txt\\n' 2*Z_*[0-9a-f] | xargs cat", 4),
    ("grep -r in each body.txt", "cd {box} && grep -rh --include=body.txt no-such-text . || [ $? = 1 ]", 7),
)
RUNS = 3


def fill(service, emails):
    """Emails of which each has a body of its own length."""
    for address in (SENDER, RECEIVER):
        service.create_inbox(address)
    text = "".join(LINE.format(number) for number in range(100))[:BODY_BYTES]
    service.post("/api/v1/email/send", {"from_address": SENDER, "subject": "A letter", "plain_text": text,
                                        "to_addresses": [{"address": RECEIVER, "name": None}]})
    service.add(1, emails - 1)


def fetch_by_curl(service, place):
    """How long curl takes to fetch the content of each email."""
    with sqlite3.connect(service.data / "inbox.sqlite3") as database:
        ids = [json.loads(record)["id"] for (record,) in database.execute(
            "SELECT record FROM emails WHERE inbox = (SELECT seq FROM inboxes WHERE address = ?)", (RECEIVER,))]
    requests = place / "requests"
    requests.write_text("".join(f'url = "{service.url}/api/v1/email/{id}"\noutput = "{os.devnull}"\n' for id in ids))
    command = (f"curl -s --no-progress-meter --parallel --parallel-max 50 -H 'Authorization: Bearer {service.key}' "
               f"-K {requests} 2>{os.devnull}")
    return must(seconds(command), command)


def measure_warm(rows, emails, works, ours, plain, place):
    for work, command, goal in works:
        one, other = command.format(box=ours, place=place), command.format(box=plain, place=place)
        must(seconds(one), one)
        best, theirs = take_turns(one, other, RUNS)
        rows.append(Row("contents", f"{work}, warm", emails, best, "s", "tmpfs", theirs, goal=goal))


def measure(rows, emails, service, place, memory):
    mount = Mount(service, place, f"contents-{emails}", state="contents-state", has_content=True)
    mount.control()
    read = f"cd {mount.box} && printf '%s/body.txt\\n' 2*Z_*[0-9a-f] | xargs cat"
    first, by_curl = must(seconds(read), read), fetch_by_curl(service, place)
    rows.append(Row("contents", "cat of each body.txt, first", emails, first, "s", "curl", by_curl, goal=1.5))
    (place / "reference").touch()
    maildir = mount.path / "maildir" / RECEIVER
    must(seconds(f"cat {maildir}/new/* >{os.devnull}"), "the Maildir cannot be read")
    plain = memory / "bodies"
    for folder in mount.box.glob("2*Z_*[0-9a-f]"):
        (plain / folder.name).mkdir(parents=True)
        shutil.copy(folder / "body.txt", plain / folder.name)
    measure_warm(rows, emails, BODY_WORKS, mount.box, plain, place)
    plain = memory / "maildir"
    must(seconds(f"cp -a {maildir} {plain}"), "no copy on tmpfs")
    measure_warm(rows, emails, MAILDIR_WORKS, maildir, plain, place)
    mount.stop()
    kept = subprocess.run(["du", "-sk", place / "contents-state" / "cache"], capture_output=True, check=True, text=True)
    rows.append(Row("contents", "disk for an email, a body and its raw message", emails,
                    int(kept.stdout.split()[0]) / emails, "kB", goal=6))
