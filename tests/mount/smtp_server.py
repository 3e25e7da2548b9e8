# SPDX-License-Identifier: MIT
"""
A mail server that fails where a test wants it to, for the relay of inboxd (tests/mount/relay.bats).

It listens on a free port of 127.0.0.1, written to DIR/port, and appends each message that it took as a line of JSON to
DIR/messages: {sender, recipients, text, greeting, login, tls, answered}. How it behaves is in the file DIR/plan, read
again at each step. A line is "STEP[=ADDRESS] COUNT ACTION": the next COUNT times that a client comes to this step
(with a recipient of this address), ACTION is done instead of what is usual; a COUNT of * never ends. Steps: connect,
ehlo, starttls, auth, mail, rcpt, data, dot, sent. Actions: an answer ("550 5.1.1 Nobody", with "|" between its lines),
drop (the connection ends), hang (nothing more is said) or wait (until there is a file DIR/go). `dot` comes before a message is taken, `sent` after it, in
the place of the last answer.

Each step is appended to DIR/steps before it is answered.
"""

import argparse
import base64
import json
import os
import re
import socket
import threading
import time

LOCK = threading.Lock()


class Dropped(Exception):
    pass


class Session:
    def __init__(self, connection, options):
        self.connection = connection
        self.options = options
        self.context = None
        if options.certificate:
            import ssl  # late, for it takes as long as a start without it
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(options.certificate)
        self.message = {"greeting": "", "login": None, "tls": False}

    def wrap(self):
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.message["tls"] = True
        self.lines = self.connection.makefile("rb")

    def planned(self, step, address):
        """The action for this step, which is used up."""
        path = os.path.join(self.options.dir, "plan")
        with LOCK:
            with open(os.path.join(self.options.dir, "steps"), "a", encoding="utf-8") as steps:
                steps.write(step + "\n")
            if not os.path.exists(path):
                return None
            with open(path, encoding="utf-8") as file:
                plan = file.read().splitlines()
            for i, line in enumerate(plan):
                where, count, action = line.split(" ", 2)
                if where not in (step, f"{step}={address}") or count == "0":
                    continue
                if count != "*":
                    plan[i] = f"{where} {int(count) - 1} {action}"
                with open(path + ".new", "w", encoding="utf-8") as file:
                    file.write("".join(line + "\n" for line in plan))
                os.replace(path + ".new", path)
                return action
        return None

    def say(self, *lines):
        for line in lines:
            self.connection.sendall(line.encode() + b"\r\n")

    def step(self, name, usual, address=None):
        """Whether the client may go on."""
        action = self.planned(name, address)
        if action == "drop":
            raise Dropped
        if action == "hang":
            while self.connection.recv(4096):
                pass
            raise Dropped
        if action == "wait":
            while not os.path.exists(os.path.join(self.options.dir, "go")):
                time.sleep(0.02)
            action = None
        if action:
            self.say(*action.split("|"))
            return action[0] in "23"
        if usual:
            self.say(*usual)
        return True

    def read_line(self):
        line = self.lines.readline()
        if not line.endswith(b"\r\n"):
            raise Dropped
        return line[:-2].decode("utf-8", "surrogateescape")

    def read_text(self):
        text = b""
        while True:
            line = self.lines.readline()
            if not line.endswith(b"\n"):
                raise Dropped
            if line == b".\r\n":
                return text.decode("utf-8", "surrogateescape")
            text += line[1:] if line.startswith(b".") else line

    def take(self, sender, recipients):
        text = self.read_text()
        if not self.step("dot", None):
            return
        with LOCK, open(os.path.join(self.options.dir, "messages"), "a", encoding="utf-8") as file:
            json.dump({**self.message, "sender": sender, "recipients": recipients, "text": text}, file)
            file.write("\n")
        self.step("sent", ["250 2.0.0 Ok"])

    def run(self):
        self.lines = self.connection.makefile("rb")
        if self.options.smtps:
            self.wrap()
        if not self.step("connect", ["220 mail.example ESMTP"]):
            return
        sender, recipients = None, []
        while True:
            line = self.read_line()
            word = line.upper()
            if word.startswith("EHLO "):
                self.message["greeting"] = line[5:]
                offers = ["mail.example", "AUTH PLAIN"]
                if self.context and not self.message["tls"]:
                    offers.append("STARTTLS")
                lines = ["250-" + offer for offer in offers[:-1]] + ["250 " + offers[-1]]
                self.step("ehlo", lines)
            elif word == "STARTTLS":
                if self.step("starttls", ["220 Go on"]):
                    self.wrap()
            elif word.startswith("AUTH PLAIN"):
                if line[10:].strip() == "":
                    self.say("334 ")
                    line = "AUTH PLAIN " + self.read_line()
                login = base64.b64decode(line[11:]).decode().split("\0")[1:]
                if self.step("auth", ["235 Welcome"]):
                    self.message["login"] = login
            elif word.startswith("MAIL FROM:"):
                if self.step("mail", ["250 Ok"]):
                    sender, recipients = re.search("<(.*)>", line)[1], []
            elif word.startswith("RCPT TO:"):
                address = re.search("<(.*)>", line)[1]
                if self.step("rcpt", ["250 Ok"], address):
                    recipients.append(address)
            elif word == "DATA":
                if self.step("data", ["354 Go on"]):
                    self.take(sender, recipients)
            elif word == "QUIT":
                self.say("221 Bye")
                return
            else:
                self.say("500 What?")


def serve(connection, options):
    with connection:
        try:
            Session(connection, options).run()
        except (Dropped, OSError):
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    parser.add_argument("--smtps", action="store_true")
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", options.port)) as server:
        path = os.path.join(options.dir, "port")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(str(server.getsockname()[1]))
        os.replace(path + ".new", path)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection, options), daemon=True).start()


main()
