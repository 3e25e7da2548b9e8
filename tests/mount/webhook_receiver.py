# SPDX-License-Identifier: MIT
"""
Receives inboxd's webhooks (tests/mount/webhooks_sent.bats).

The program listens on a free port of 127.0.0.1, which it writes to DIR/port, and appends each POST to DIR/posts as a line of
JSON: {path, headers (names in lower case), body}. It takes the next line of DIR/plan for each answer: a status and a text
("500 Not now"), a redirect ("302 URL"), or hang. Without a plan it answers with 200 and "thanks". It closes the connection
without an answer if the body contains the text in DIR/poison.
"""

import argparse
import http.server
import json
import os
import threading

LOCK = threading.Lock()


def next_action(folder):
    path = os.path.join(folder, "plan")
    if not os.path.exists(path):
        return "200 thanks"
    with open(path, encoding="utf-8") as file:
        plan = file.read().splitlines()
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in plan[1:]))
    os.replace(path + ".new", path)
    return plan[0] if plan else "200 thanks"


def poison(folder):
    path = os.path.join(folder, "poison")
    if not os.path.exists(path):
        return "\n"  # which no JSON contains
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        folder = self.server.folder
        with LOCK, open(os.path.join(folder, "posts"), "a", encoding="utf-8") as file:
            json.dump({"path": self.path, "headers": headers, "body": body}, file)
            file.write("\n")
        if poison(folder) in body:
            return
        with LOCK:
            status, _, text = next_action(folder).partition(" ")
        if status == "hang":
            self.rfile.read(1)
            return
        self.send_response(int(status))
        if status == "302":
            self.send_header("Location", text)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.folder = options.dir
    path = os.path.join(options.dir, "port")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    os.replace(path + ".new", path)
    server.serve_forever()


main()
