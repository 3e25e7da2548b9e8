# SPDX-License-Identifier: MIT
"""What emails hold: read for the first time against curl, again against tmpfs, searched, and as a Maildir."""
import json
import os
import shutil
import sqlite3
import subprocess

from programs import RECEIVER, SENDER, Mount
from rows import Row, must, seconds, take_turns

# script(1) gives it a terminal.
MUTT = ("TERM=xterm script -qefc \"mutt -n -F /dev/null -f {box} -e 'set folder=/' -e 'push x'\" "
        f"{os.devnull} <{os.devnull}")
SEARCH_EMAILS = 40000  # the listing that a search is compared with
LINE = "Line {} of a letter that says nothing in particular to anybody at all.\n"
BODY_BYTES = 2400
# Work, the goal (times tmpfs). {box}: the folder; {place}: where the reference file is.
MAILDIR_WORKS = (
    ("ls -l of a Maildir", "ls -l {box}/new", 1.5),
    ("find -newer in a Maildir", "find {box} -newer {place}/reference", 2),
    ("grep -r in a Maildir", "grep -r no-such-text {box} || [ $? = 1 ]", 6),
    ("mutt -f of a Maildir", MUTT, 1.5),
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


def curl_command(service, place, readers):
    """Fetches the content of each email over as many connections."""
    with sqlite3.connect(service.data / "inbox.sqlite3") as database:
        ids = [json.loads(record)["id"] for (record,) in database.execute(
            "SELECT record FROM emails WHERE inbox = (SELECT seq FROM inboxes WHERE address = ?)", (RECEIVER,))]
    requests = place / "requests"
    requests.write_text("".join(f'url = "{service.url}/api/v1/email/{id}"\noutput = "{os.devnull}"\n' for id in ids))
    return (f"curl -s --no-progress-meter --parallel --parallel-max {readers} "
            f"-H 'Authorization: Bearer {service.key}' -K {requests} 2>{os.devnull}")


def measure_warm(rows, emails, works, ours, plain, place):
    for work, command, goal in works:
        one, other = command.format(box=ours, place=place), command.format(box=plain, place=place)
        must(seconds(one), one)
        best, theirs = take_turns(one, other, RUNS)
        rows.append(Row("contents", f"{work}, warm", emails, best, "s", "tmpfs", theirs, goal=goal))


def open_mount(service, place, emails, run):
    """A mount whose state is empty, with the list of emails."""
    mount = Mount(service, place, f"contents-{emails}-{run}", state=f"contents-state-{run}", has_content=True)
    mount.control()
    return mount


def measure_first(rows, emails, service, place):
    """Each run with an empty cache. The cache of the last run stays, and its mount is returned."""
    pairs, curl = [], curl_command(service, place, 50)
    for run in range(RUNS):
        mount = open_mount(service, place, emails, run)
        read = f"cd {mount.box} && printf '%s/body.txt\\n' 2*Z_*[0-9a-f] | xargs cat"
        pairs.append((must(seconds(read), read), must(seconds(curl), curl)))
        if run < RUNS - 1:
            mount.stop()
    rows.append(Row("contents", "cat of each body.txt, first", emails, min(a for a, _ in pairs), "s", "curl",
                    min(b for _, b in pairs), goal=1.5))
    return mount


def measure_mutt_first(rows, emails, service, place, plain):
    mount = open_mount(service, place, emails, "mutt")
    ours, theirs = MUTT.format(box=mount.path / "maildir" / RECEIVER), MUTT.format(box=plain)
    rows.append(Row("contents", "mutt -f of a Maildir, first", emails, must(seconds(ours), ours), "s", "tmpfs",
                    must(seconds(theirs), theirs), goal=10))
    mount.stop()


def measure_search(rows, emails, mount):
    """For words that a few subjects have."""
    listing = f"ls -f {mount.box}"
    pairs = [(must(seconds(f"ls {mount.path}/search/{word}"), "search"), must(seconds(listing), listing))
             for word in range(4711, 4711 + RUNS)]
    rows.append(Row("contents", "ls search/WORD, against ls -f", emails, min(a for a, _ in pairs), "s",
                    "ls -f", min(b for _, b in pairs), goal=0.5 if emails >= SEARCH_EMAILS else None))


def measure_readers(rows, emails, service, place):
    """inboxd alone."""
    many, some = (curl_command(service, place, readers) for readers in (32, 8))
    best, theirs = take_turns(many, some, RUNS)
    rows.append(Row("contents", "inboxd: contents for 32 readers", emails, best, "s", "8 readers", theirs, 1 / 0.9))


def measure(rows, emails, service, place, memory):
    mount = measure_first(rows, emails, service, place)
    (place / "reference").touch()
    maildir = mount.path / "maildir" / RECEIVER
    must(seconds(f"cd {maildir}/new && printf '%s\\n' * | xargs cat"), "the Maildir cannot be read")
    plain = memory / "bodies"
    for folder in mount.box.glob("2*Z_*[0-9a-f]"):
        (plain / folder.name).mkdir(parents=True)
        shutil.copy(folder / "body.txt", plain / folder.name)
    mount.wait_until_idle()  # what was read is indexed in the background
    measure_warm(rows, emails, BODY_WORKS, mount.box, plain, place)
    plain = memory / "maildir"
    must(seconds(f"cp -a {maildir} {plain}"), "no copy on tmpfs")
    measure_warm(rows, emails, MAILDIR_WORKS, maildir, plain, place)
    measure_search(rows, emails, mount)
    mount.stop()
    cache = place / f"contents-state-{RUNS - 1}" / "cache"
    kept = subprocess.run(["du", "-sk", cache], capture_output=True, check=True, text=True)
    rows.append(Row("contents", "disk for an email, its body and raw form", emails,
                    int(kept.stdout.split()[0]) / emails, "kB", goal=4))
    measure_mutt_first(rows, emails, service, place, plain)
    measure_readers(rows, emails, service, place)
