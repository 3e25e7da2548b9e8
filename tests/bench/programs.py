# SPDX-License-Identifier: MIT
"""What is measured: inboxd with an inbox of N emails, inboxfs mounted on it, and the way between the two."""
import asyncio
import http.client
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import threading
import time
import uuid

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
SENDER = "alice@inbox.localhost"
RECEIVER = "box@inbox.localhost"
FIRST_DATE = 1700000000

running = []  # what is to be stopped, whatever happens: has stop()


def stop_all():
    while running:
        running[-1].stop()


class Service:
    """inboxd on a loopback port."""

    def __init__(self, data):
        self.data = data
        self.start()
        self.key_file = data / "api-key"
        self.key = self.key_file.read_text().strip()

    def start(self):
        running.append(self)
        self.process = subprocess.Popen([BUILD / "inboxd", "--listen=127.0.0.1:0", f"--data={self.data}"],
                                        stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().rsplit(" ", 1)[1].strip().rstrip("/")
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        running.remove(self)
        self.process.terminate()
        self.process.wait()

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json",
                                                           "Authorization": f"Bearer {self.key}"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"bench: {path}: {answer.status} {text[:200]!r}")
        return json.loads(text)

    def create_inbox(self, address):
        return self.post("/api/v1/inbox/upsert", {"id": None, "name": address.split("@")[0], "email_address": address})

    def send(self, subject):
        self.post("/api/v1/email/send", message(subject, RECEIVER))

    def fill(self, count):
        """Makes an inbox of `count` emails."""
        for address in (SENDER, RECEIVER):
            self.create_inbox(address)
        self.send("Bench message")
        self.add(1, count - 1)

    def add(self, first, count):
        """Writes emails into the service's database, as copies of one that was delivered with an id, a date and a
        subject of their own: a million would take long otherwise."""
        with sqlite3.connect(self.data / "inbox.sqlite3", timeout=30) as database:
            inbox, number, record = database.execute(
                "SELECT inbox, message, record FROM emails WHERE inbox = (SELECT seq FROM inboxes WHERE address = ?) "
                "ORDER BY seq DESC LIMIT 1", (RECEIVER,)).fetchone()
            fields = json.loads(record)
            database.executemany(
                "INSERT INTO emails (id, inbox, message, is_valid, from_address, record) VALUES (?, ?, ?, 1, ?, ?)",
                ((fields["id"], inbox, number, SENDER, text) for text in records(fields, first, first + count)))

    def list_url(self, limit):
        return f"{self.url}/api/v1/email?limit={limit}"


def records(fields, first, end):
    """The texts of the records; `fields` holds what the one yielded last was made of."""
    for number in range(first, end):
        fields["id"] = str(uuid.uuid4())
        fields["date"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(FIRST_DATE + 60 * number))
        fields["subject"] = f"Bench message {number} about nothing in particular"
        yield json.dumps(fields, separators=(",", ":"))


def message(subject, receiver):
    return {"from_address": SENDER, "subject": subject, "plain_text": f"Body of {subject}.\n",
            "to_addresses": [{"address": receiver, "name": None}]}


class Way:
    """A TCP relay to the service, whose answers take `latency_s` longer. It notes when a long one began."""

    LONG_BYTES = 8192

    def __init__(self, port, latency_s=0.0):
        self.target = port
        self.latency_s = latency_s
        self.first_long_answer = None  # to be set to None before the next is looked for
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait()
        self.url = f"http://127.0.0.1:{self.port}"

    def run(self, ready):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        try:
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.copy(reader, their_writer, 0.0, False),
                             self.copy(their_reader, writer, self.latency_s, True))

    async def copy(self, reader, writer, delay_s, is_answer):
        """Each piece is held up by the same time, whatever follows it."""
        pieces = asyncio.Queue()

        async def send():
            while (piece := await pieces.get()) is not None:
                due, content = piece
                if due > self.loop.time():
                    await asyncio.sleep(due - self.loop.time())
                writer.write(content)
                if is_answer and len(content) > self.LONG_BYTES and self.first_long_answer is None:
                    self.first_long_answer = time.monotonic()
                await writer.drain()
            writer.close()

        sending = asyncio.ensure_future(send())
        try:
            while content := await reader.read(1 << 18):
                await pieces.put((self.loop.time() + delay_s, content))
        except OSError:
            pass
        await pieces.put(None)
        await asyncio.gather(sending, return_exceptions=True)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class Mount:
    """inboxfs in the foreground, so that its memory and its end can be seen."""

    def __init__(self, service, place, name, url=None, state="state", poll_s=0, debug_log=None, has_content=False):
        self.path = place / name
        self.path.mkdir()
        self.box = self.path / "inboxes" / RECEIVER
        self.debug_log = debug_log
        log = open(debug_log, "wb") if debug_log else None
        mode = ["-d"] if debug_log else ["-f"]
        self.process = subprocess.Popen(
            [BUILD / "inboxfs", *mode, *([] if has_content else metadata_only()), f"--api-key-file={service.key_file}",
             f"--state-dir={place / state}", f"--poll-interval={poll_s}", url or service.url, self.path], stderr=log)
        running.append(self)
        while not os.path.ismount(self.path):
            if self.process.poll() is not None:
                sys.exit("bench: the mount failed")
            time.sleep(0.001)

    def control(self, command="sync"):
        (self.path / "ctl").write_text(command + "\n")

    def status(self):
        return json.loads((self.path / "status.json").read_text())

    def wait_for_quiet_poll(self):
        """Until the inbox is whole, and a poll brought nothing."""
        last = self.status()
        while True:
            time.sleep(0.02)
            now = self.status()
            if not now["sync"]["complete"] or now["sync"]["next"] == last["sync"]["next"]:
                continue
            received = now["counters"]["received_bytes"] - last["counters"]["received_bytes"]
            if last["sync"]["complete"] and 0 < received < Way.LONG_BYTES:
                return
            last = now

    def memory_kb(self, name="VmRSS"):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(name + ":"):
                return int(line.split()[1])
        return 0

    def cpu_s(self):
        """Of all its threads, those that have ended too: clock_getcpuclockid(3)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def wait_until_idle(self, limit_s=60):
        """Until what is done in the background (the index for search) is done."""
        until, quiet, last = time.monotonic() + limit_s, 0, self.cpu_s()
        while quiet < 2 and time.monotonic() < until:
            time.sleep(1)
            now = self.cpu_s()
            quiet = quiet + 1 if now - last < 0.002 else 0
            last = now

    def stop(self):
        running.remove(self)
        until = time.monotonic() + 5
        # Something that was just ended may still have a file open.
        while subprocess.run(["fusermount3", "-u", self.path], stderr=subprocess.DEVNULL, check=False).returncode:
            if time.monotonic() > until or self.process.poll() is not None:
                subprocess.run(["fusermount3", "-u", "-z", self.path], check=False)
                break
            time.sleep(0.01)
        self.process.wait()


def metadata_only():
    """The work compared is that with one file per email."""
    usage = subprocess.run([BUILD / "inboxfs", "--help"], capture_output=True, text=True, check=True).stdout
    return ["--metadata-only"] if "--metadata-only" in usage else []
