#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The messages of tests/data/mime on their way through a mount.

usage: corpus.py drafts FROM TO FOLDER    writes each that can be sent as a draft, from and to these addresses
       corpus.py check INBOX COUNT        holds what an inbox's folders show against what is expected

A message is told by the address NAME@corpus.example, which its draft has among its recipients.
"""

import glob
import hashlib
import json
import os
import re
import sys

CORPUS = "tests/data/mime"
DOMAIN = "@corpus.example"


def read_expected(name):
    with open(f"{CORPUS}/{name}.expected", encoding="utf-8") as file:
        return json.load(file)


def names():
    for path in sorted(glob.glob(f"{CORPUS}/*.eml")):
        name = os.path.basename(path)[:-len(".eml")]
        if "error" not in read_expected(name):
            yield name


def make_draft(name, sender, recipient):
    """The message with another sender, and more recipients behind its first header."""
    with open(f"{CORPUS}/{name}.eml", "rb") as file:
        text = file.read()
    end = b"\r\n" if b"\r\n" in text.split(b"\n\n")[0] else b"\n"
    header = f"From: {sender}".encode() + end + f"Cc: {name}{DOMAIN}, {recipient}".encode()
    return re.sub(rb"(?m)^From: [^\r\n]*", header, text, count=1)


def write_drafts(sender, recipient, folder):
    for name in names():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(make_draft(name, sender, recipient))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def lines(path):
    """Text, whose last line may be ended or not; None: there is no such file."""
    return read(path).decode().rstrip("\n") if os.path.exists(path) else None


def digests(folder):
    paths = glob.glob(f"{glob.escape(folder)}/*") + glob.glob(f"{glob.escape(folder)}/.[!.]*")
    return sorted(hashlib.sha256(read(path)).hexdigest() for path in paths)


def check_folder(folder, expected):
    """What is wrong with it."""
    wrong = []
    readable = expected.get("readable_text", expected["plain_text"]).rstrip("\n")
    text = lines(f"{folder}/body.txt")
    if readable and text != readable:
        wrong.append(f"body.txt is {text!r}")
    if expected["html"] is not None and lines(f"{folder}/body.html") != expected["html"].rstrip("\n"):
        wrong.append("body.html differs")
    if "new_text" in expected and lines(f"{folder}/new.txt") != expected["new_text"].rstrip("\n"):
        wrong.append(f"new.txt is {lines(f'{folder}/new.txt')!r}")
    if digests(f"{folder}/attachments") != sorted(one["sha256"] for one in expected["attachments"]):
        wrong.append(f"the attachments are {os.listdir(f'{folder}/attachments')}")
    if not read(f"{folder}/message.eml").startswith(b"Date: "):
        wrong.append("message.eml is no message")
    return wrong


def name_of(record):
    for address in record["cc_addresses"]:
        if address["address"].endswith(DOMAIN):
            return address["address"][:-len(DOMAIN)]
    return None


def check(inbox, count):
    found = 0
    failed = False
    for path in glob.glob(f"{inbox}/*_*.json"):
        with open(path, encoding="utf-8") as file:
            name = name_of(json.load(file))
        if name is None:
            continue
        found += 1
        for words in check_folder(path[:-len(".json")], read_expected(name)):
            print(f"{name}: {words}")
            failed = True
    if found != count:
        print(f"{found} of {count} messages are there")
    sys.exit(failed or found != count)


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "drafts":
        write_drafts(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "check":
        check(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
