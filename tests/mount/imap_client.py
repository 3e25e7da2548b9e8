#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A client of an IMAP server that is a program of ours, on a pipe to it.

    imap_client.py SERVER COMMAND...

SERVER is a shell command. A COMMAND is what imaplib calls it, its arguments behind it, separated by "|". Prints for
each the command, what the server said of it (OK, NO), and its answers. "save|UID|FILE" puts the whole message into a
file. "wait|WORD" is IDLE until an answer contains WORD; it prints "waiting" when the server has begun to listen.
"""

import imaplib
import sys


def text(answer):
    parts = answer if isinstance(answer, tuple) else (answer,)
    return "".join(part.decode(errors="replace") for part in parts if part is not None)


def save(client, uid, path):
    status, answers = client.uid("fetch", uid, "(BODY.PEEK[])")
    with open(path, "wb") as file:
        file.write(answers[0][1])
    return status, [answers[0][0]]


def wait(client, word):
    client.send(b"IDLE1 IDLE\r\n")
    answer = client.readline()
    while answer and word.encode() not in answer:
        print("waiting" if answer.startswith(b"+") else answer.decode().rstrip(), flush=True)
        answer = client.readline()
    client.send(b"DONE\r\n")
    last = answer
    while last and not last.startswith(b"IDLE1"):
        last = client.readline()
    return ("OK" if last.startswith(b"IDLE1 OK") else "NO"), [answer.rstrip()]


def append(client, mailbox, message):
    return client.append(mailbox, None, None, message.encode())


def main():
    own = {"append": append, "save": save, "wait": wait}
    client = imaplib.IMAP4_stream(sys.argv[1])
    for command in sys.argv[2:]:
        name, *arguments = command.split("|")
        status, answers = own[name](client, *arguments) if name in own else getattr(client, name)(*arguments)
        print(name, status, *map(text, answers), flush=True)
    client.logout()


if __name__ == "__main__":
    main()
