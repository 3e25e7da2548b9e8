# SPDX-License-Identifier: MIT
"""Messages through outbox/, and files through attachments/, against curl."""
import json
import os
import shutil
import time

from programs import Mount, Way, message
from rows import Row, must, seconds, take_turns

MESSAGES = 1000
IN_TURN = 100
LATENCY_S = 0.02
FILES = 100


def prepare_messages(service, place):
    """The same messages as files to hand in and as requests for curl, each to a recipient of its own."""
    for folder in ("messages", "requests"):
        (place / folder).mkdir()
    for number in range(MESSAGES):
        receiver = f"r{number}@inbox.localhost"
        request = message("Bench", receiver)
        service.create_inbox(receiver)
        (place / "messages" / f"m{number}.eml").write_text(
            f"To: {receiver}\nFrom: {request['from_address']}\nSubject: Bench\n\n{request['plain_text']}")
        (place / "requests" / f"{number}").write_text(json.dumps(request))


def curl_command(service, url, place, parallel, count=MESSAGES):
    return (f"ls {place}/requests | head -n {count} | xargs -P {parallel} -I@ curl -sS -o {place}/answer-@ "
            f"-H 'Authorization: Bearer {service.key}' -H 'Content-Type: application/json' "
            f"--data @{place}/requests/@ {url}/api/v1/email/send")


def hand_in(mount, command, folder="outbox"):
    return f"{command} && until sync {mount.path}/{folder}; do :; done"


def copy_durably(source, place):
    """What making files durable one after the other takes by itself: curl, which we are compared with, makes nothing
    durable."""
    copies = place / "copies"
    copies.mkdir()
    folder = os.open(copies, os.O_RDONLY)
    start = time.monotonic()
    for file in source.iterdir():
        with open(copies / file.name, "xb") as copy:
            copy.write(file.read_bytes())
            os.fsync(copy.fileno())
        os.fsync(folder)
    time_s = time.monotonic() - start
    os.close(folder)
    shutil.rmtree(copies)
    return time_s


def measure_messages(rows, service, place):
    prepare_messages(service, place)
    way = Way(service.port, LATENCY_S)
    for name, url in (("", service.url), (", 20 ms away", way.url)):
        mount = Mount(service, place, f"sending{len(name)}", url=url, state=f"state-sending{len(name)}")
        mount.control()
        copies, drafts = f"cp {place}/messages/* {mount.path}/outbox/", f"mv {mount.path}/drafts/* {mount.path}/outbox/"
        ours = must(seconds(hand_in(mount, copies)), "cp")
        expect(mount, MESSAGES)
        curl = must(seconds(curl_command(service, url, place, 8)), "curl")
        rows.append(Row("sending", f"{MESSAGES} by cp{name}", MESSAGES, ours, "s", "xargs -P 8 curl", curl, 1))
        if not name:
            rows.append(Row("sending", f"{MESSAGES} by cp", MESSAGES, ours, "s", "fsync of copies",
                            copy_durably(place / "messages", place)))
        if name:
            in_turn = must(seconds(curl_command(service, url, place, 1, IN_TURN)), "curl") * MESSAGES / IN_TURN
            rows.append(Row("sending", f"{MESSAGES} by cp{name}", MESSAGES, ours, "s", "curl in turn", in_turn, 0.1))
        must(seconds(f"cp {place}/messages/* {mount.path}/drafts/"), "cp")
        ours = must(seconds(hand_in(mount, drafts)), "mv")
        expect(mount, 2 * MESSAGES)
        rows.append(Row("sending", f"{MESSAGES} by mv{name}", MESSAGES, ours, "s", "xargs -P 8 curl", curl))
        if not name:
            must(seconds(f"cp {place}/messages/* {mount.path}/drafts/"), "cp")
            several = f"ls {mount.path}/drafts | xargs -P 4 -n 25 mv -t {mount.path}/outbox/"
            ours = must(seconds(hand_in(mount, f"cd {mount.path}/drafts && {several}")), "mv")
            expect(mount, 3 * MESSAGES)
            rows.append(Row("sending", f"{MESSAGES} by 4 mv at once", MESSAGES, ours, "s", "xargs -P 8 curl", curl))
        mount.stop()
    way.stop()


def measure_mounting(rows, service, place, runs=5):
    """Until the mount answers: with what measure_messages() sent, and without any. Nobody is asked for mail before."""
    times = {}
    for run in range(runs):
        for state in ("state-sending0", "state-empty"):
            start = time.monotonic()
            mount = Mount(service, place, f"mounting-{state}-{run}", state=state)
            os.listdir(mount.path / "sent")
            times.setdefault(state, []).append(time.monotonic() - start)
            mount.control()
            mount.stop()
    ours, plain = (min(its[1:]) for its in times.values())
    rows.append(Row("sending", f"mount with {3 * MESSAGES} in sent/", 3 * MESSAGES, ours, "s", "none", plain, 1.5))


def measure_service(rows, service, place):
    """inboxd alone: clients that wait together share a commit. After measure_messages(), whose requests these are."""
    config = place / "sends"
    config.write_text("next\n".join(
        f'url = "{service.url}/api/v1/email/send"\nheader = "Authorization: Bearer {service.key}"\n'
        f'header = "Content-Type: application/json"\ndata = "@{request}"\noutput = "{place}/answer"\nsilent\n'
        for request in sorted((place / "requests").iterdir())))
    eight, one = take_turns(f"curl --parallel --parallel-max 8 -K {config} 2>{place}/progress", f"curl -K {config}", 3)
    rows.append(Row("sending", f"{MESSAGES} sends to inboxd, 8 clients", MESSAGES, eight, "s", "1 client", one,
                    1 / 2))


def expect(mount, count):
    sent = len([name for name in os.listdir(mount.path / "sent") if name.endswith(".eml")])
    if sent != count:
        raise SystemExit(f"bench: {sent} of {count} messages were sent")


def measure_files(rows, service, place, runs=3):
    files = place / "files"
    files.mkdir()
    for number in range(FILES):
        (files / f"file{number}.bin").write_bytes(os.urandom(1000000))
    pairs = []
    for run in range(runs):
        mount = Mount(service, place, f"uploading-{run}", state=f"state-uploading-{run}")
        ours = hand_in(mount, f"cp {files}/* {mount.path}/attachments/", "attachments")
        pairs.append((must(seconds(ours), ours), copy_durably(files, place)))
        mount.stop()
    rows.append(Row("sending", f"{FILES} uploads of 1 MB by cp", FILES, min(a for a, _ in pairs), "s",
                    "fsync of copies", min(b for _, b in pairs), 1.3))
