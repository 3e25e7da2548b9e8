# SPDX-License-Identifier: MIT
"""Compares the promises that writers got with the messages at the service and in the mount."""

import collections
import hashlib
import json
import os
import re

RECEIPT = ".receipt.json"
FOLDERS = ("outbox", "sent", "failed", "drafts", "attachments")
# How long after a close() the daemon may be killed before it gets RELEASE.
RELEASE_S = 3


class Message:
    """A message that a writer has begun."""

    def __init__(self, identity):
        self.id = identity
        self.events = {}
        self.begun = None
        self.ended = None

    def note(self, entry):
        self.events[entry["event"]] = entry
        if entry["event"] == "begun":
            self.begun = entry
        elif entry["event"] in ("accepted", "refused", "died"):
            self.ended = entry

    @property
    def is_accepted(self):
        """Whether a system call promised that the message is sent, or its draft is gone."""
        is_renamed = self.begun["way"] in ("by_rename", "by_mv")
        is_gone = "refused" in self.events and self.events["refused"]["error"] == "the source is gone"
        return "accepted" in self.events or (is_renamed and is_gone)

    @property
    def is_cancelled(self):
        return "removed" in self.events or "taken back" in self.events

    @property
    def may_be_cancelled(self):
        """Whether the daemon was killed while the message was taken back, so that the result is unknown."""
        asked = self.events.get("not taken back")
        return asked is not None and asked["errno"] in ("ENOTCONN", "ECONNABORTED")

    @property
    def is_renamed(self):
        return self.begun["way"] in ("by_rename", "by_mv", "by_dot_name")


def read_journals(folders):
    messages = {}
    for folder in folders:
        with open(os.path.join(folder, "journal"), encoding="utf-8") as journal:
            for line in journal:
                entry = json.loads(line)
                messages.setdefault(entry["id"], Message(entry["id"])).note(entry)
    return {identity: message for identity, message in messages.items() if message.begun}


def read_mount(path):
    """Returns {folder: {name: receipt or None}}."""
    shown = {}
    for folder in FOLDERS:
        names = os.listdir(os.path.join(path, folder))
        shown[folder] = {}
        for name in names:
            if name.endswith(RECEIPT):
                continue
            receipt = None
            if name + RECEIPT in names:
                with open(os.path.join(path, folder, name + RECEIPT), encoding="utf-8") as file:
                    receipt = json.load(file)
            shown[folder][name] = receipt
    return shown


def is_whole(message, body, attached):
    """Returns whether body and attachment match their checksums."""
    text, found, rest = body.replace("\r\n", "\n").rpartition("checksum: ")
    if not found or rest.strip() != message.begun["checksum"]:
        return False
    if hashlib.sha256(text.encode()).hexdigest() != message.begun["checksum"]:
        return False
    wanted = [message.events["attachment"]["checksum"]] if message.begun["attachment"] else []
    return [digest(content) for content in attached] == wanted


def digest(content):
    return content if isinstance(content, str) else hashlib.sha256(content).hexdigest()


class Verdict:
    """The counts, and a line for each violation."""

    def __init__(self, service, recipients, messages, shown, kills):
        self.is_trusted = service.is_trusted
        self.recipients = recipients
        self.messages = messages
        self.shown = shown
        self.kills = kills  # times of the kills
        self.wrongs = collections.defaultdict(list)
        self.failed = collections.Counter()
        self.delivered = 0
        self.received = collections.defaultdict(list)

    def wrong(self, kind, identity, words):
        self.wrongs[kind].append("%s: %s" % (identity, words))

    def count(self):
        return {kind: len(lines) for kind, lines in self.wrongs.items()}

    def accepted(self):
        return sum(message.is_accepted for message in self.messages.values())

    def was_killed_between(self, start, end):
        return any(start <= time <= end for time in self.kills)

    def run(self, received):
        for address, subject, body, attached in received:
            message = self.messages.get(subject)
            if message is None:
                self.wrong("unexplained", subject, "at the service, but never handed in")
            elif not is_whole(message, body, attached):
                self.wrong("half", subject, "%d bytes of body and %d attachments" % (len(body), len(attached)))
            self.received[subject].append(address)
        for message in self.messages.values():
            self.check_service(message)
            self.check_place(message)
        self.check_strangers()

    # ------------------------------------------------------------ at the service

    def check_service(self, message):
        addresses = sorted(self.received[message.id])
        if not addresses:
            return
        self.delivered += 1
        if addresses != sorted(set(addresses)):
            self.wrong("double", message.id, "%d times at the service" % (len(addresses) // len(self.recipients)))
        elif addresses != sorted(self.recipients):
            self.wrong("half", message.id, "only at %s" % ", ".join(addresses))
        if message.is_cancelled:
            self.wrong("unexplained", message.id, "sent although it was taken back")
        if message.begun["way"] == "dies":
            self.wrong("half", message.id, "sent although its writer was killed")

    # ------------------------------------------------------------ in the mount

    def places(self, identity):
        names = (identity, "." + identity)
        return [(folder, name) for folder in FOLDERS[:4] for name in names if name in self.shown[folder]]

    def check_place(self, message):
        places = self.places(message.id)
        folders = [folder for folder, _ in places]
        is_sent = bool(self.received[message.id])
        if "cleared" in message.events:
            folders.append("sent")
        if len(set(folders) - {"drafts"}) > 1:
            self.wrong("unexplained", message.id, "in %s at once" % " and ".join(folders))
        if "sent" in folders and not is_sent:
            self.wrong("lost", message.id, "in sent/, but not at the service")
        if is_sent and not {"sent", "failed"} & set(folders):
            self.wrong("unexplained", message.id, "sent, but in %s" % (" and ".join(folders) or "no folder"))
        is_cancelled = message.is_cancelled or message.may_be_cancelled
        if message.is_accepted and not is_cancelled and not set(folders) - {"drafts"}:
            self.wrong("lost", message.id, "accepted, but in %s" % (" and ".join(folders) or "no folder"))
        if "taken back" in message.events and "drafts" not in folders:
            self.wrong("lost", message.id, "taken back, but not in drafts/")
        if "outbox" in folders and not any(name.startswith(".") for _, name in places):
            self.wrong("unexplained", message.id, "still in outbox/")
        for folder, name in places:
            if folder == "failed":
                self.check_failed(message, self.shown["failed"][name], is_sent)

    def check_failed(self, message, receipt, is_sent):
        if not receipt or not receipt.get("error") or not receipt.get("state"):
            self.wrong("unexplained", message.id, "in failed/ without a receipt that says why")
            return
        state, words = receipt["state"], receipt["error"]
        self.failed[state] += 1
        if is_sent and state != "unknown outcome":
            self.wrong("unexplained", message.id, "sent, but in failed/ as: " + words)
        if state == "interrupted":
            self.check_interrupted(message, words)
        elif state == "unknown outcome":
            if self.is_trusted:
                self.wrong("unexplained", message.id, "unknown outcome at a service that is trusted")
        elif message.begun["way"] == "by_two_opens" and not message.is_accepted:
            pass  # its second part was never written
        elif not (message.begun["attachment"] and re.search("attachment", words)):
            self.wrong("unexplained", message.id, "in failed/ as %s: %s" % (state, words))

    def check_interrupted(self, message, words):
        """The writer was killed, or the daemon between the first write and the last RELEASE."""
        if message.begun["way"] == "dies":
            return
        end = message.ended["time"] if message.ended else message.begun["time"]
        if not self.was_killed_between(message.begun["time"], end + RELEASE_S):
            self.wrong("unexplained", message.id, "interrupted without a reason: " + words)
        if message.is_accepted and message.is_renamed:
            self.wrong("unexplained", message.id, "interrupted although its rename returned 0")

    def check_strangers(self):
        for folder in FOLDERS[:4]:
            for name in self.shown[folder]:
                identity = re.sub(r"\.txt$", "", name.lstrip("."))
                # The service sent it, but inboxfs reports an unknown outcome.
                if folder == "sent" and re.match(r"\d{8}T\d{6}Z_.*\.json$", name):
                    continue
                if identity not in self.messages and not name.endswith(".txt"):
                    self.wrong("unexplained", name, "in %s/, but never begun" % folder)
        for name, receipt in self.shown["failed"].items():
            if name.endswith(".txt") and not (receipt and receipt.get("error")):
                self.wrong("unexplained", name, "an attachment in failed/ without a receipt that says why")
