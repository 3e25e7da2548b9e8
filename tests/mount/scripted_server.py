#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A mail service in memory for the mount tests: Core endpoints, content where a test gives it some, faults on demand.

usage: scripted_server.py --port-file FILE [--port N] [--log FILE] [--script FILE.json] [--certificate FILE.pem]

It listens on the port of 127.0.0.1 (by default a free one) and writes the port to FILE once it answers. `Authorization: Bearer test-key`
is wanted on every request under /api/v1. SIGTERM ends it. --script is a first POST /_control. --certificate (with its
key, in PEM) makes it speak TLS.

Control, without a key:
  POST /_control  JSON, any of:
    "key": TEXT                 the key that is accepted
    "list": "bare"|"wrapped"    how GET /email answers
    "inbox_list": STATUS        GET /inbox: 404 (default), any other status; 200: the list; "html", "object"
    "id_field": "id"|"attachment_id"|"bare"   where the id of an upload is
    "strict_keys": BOOL         unknown fields of a request are refused by a 422 that names them
    "object_from": BOOL         from_address must be an object, else a 422 names it
    "idempotency": BOOL         idempotency keys are known and honoured
    "delay_ms": N               before every answer under /api/v1
    "contents": {ID: RECORD}    what GET /email/ID answers (default: 404 for all)
    "raws": {ID: TEXT}          what GET /email/ID/raw answers, likewise
    "files": {"ID/AID": TEXT}   what GET /email/ID/attachment/AID answers, likewise
    "email", "send", "upload", "upsert", "inbox", "content", "raw", "attachment": [BEHAVIOUR, ...]
                                for the next requests to that endpoint, in order
  POST /_deliver  bytes that become one more record of GET /email, as they are (any JSON text, or none at all)
  POST /_deliver_lines   the same for each line
  POST /_clear    forgets records, sends, requests and behaviours; settings stay
  GET /_sent      the accepted sends: [{"id", "request"}]
  GET /_uploads   the accepted uploads: [{"id", "filename", "content_type", "size", "sha256"}]
  GET /_inboxes   the inboxes
  GET /_requests  [{"time", "method", "path", "query", "headers", "body"}], everything under /api/v1

BEHAVIOUR:
  "ok"            as usual
  "ok-empty"      done, an empty body        "ok-html"       done, an HTML page
  "ok-json"       done, {} without an id
  "500"           that status, not done      "503:7"         with Retry-After: 7
  "400:NAME"      the field is named in the error; "422:NAME" as FastAPI does it
  {"always": B}   B for this and all later requests
  {...}           not done, this very answer: "status" (200), "headers" {}, "delay_ms", and as the body "body" (any JSON),
                  "raw" (text), "raw_base64" (bytes), "spaces" (so many MB) or "endless" (true; "new": never
                  the same id twice); "type" (application/json)
  {"verbatim": TEXT, "stall": BOOL}   not done, TEXT instead of any HTTP of ours; then closed, or left open in silence
  "done-500"      done, but the status says otherwise (any status)
  "reset-before"  reset, the request is not read
  "reset-after"   done, then reset           "lost"          not done, then reset after it was read
  "stall"         done, no answer ever       "stall-before"  not done, no answer ever
  "half-body"     done, half an answer       "garbage"       done, an answer that is no HTTP
"""

# Tests start this program hundreds of times: http.server is not used, and what few tests need is imported there, because
# either takes as long as all else at a start.
import argparse
import json
import os
import re
import signal
import socket
import socketserver
import struct
import sys
import threading
import time
import urllib.parse

API = "/api/v1/"
BODY_MAX = 64 * 1024 * 1024
STALL_S = 600

SEND_FIELDS = {
    "from_address", "subject", "plain_text", "to_addresses", "attachment_ids", "cc_addresses", "bcc_addresses",
    "reply_to_addresses", "html", "alternative_content", "existing_email_id", "message_type",
}
SETTINGS = {
    "key": "test-key",
    "list": "bare",
    "inbox_list": 404,
    "id_field": "id",
    "strict_keys": False,
    "object_from": False,
    "idempotency": False,
    "delay_ms": 0,
    "contents": {},
    "raws": {},
    "files": {},
}
SCRIPTED = ("email", "send", "upload", "upsert", "inbox", "content", "raw", "attachment")


class State:
    """All that the service knows. Every field is protected by lock."""

    def __init__(self):
        self.lock = threading.RLock()
        self.settings = dict(SETTINGS)
        self.clear()

    def clear(self):
        with self.lock:
            self.records = []
            self.sent = []
            self.uploads = []
            self.inboxes = {}
            self.requests = []
            self.answers = {}  # of sends, by idempotency key
            self.behaviours = {name: [] for name in SCRIPTED}
            self.numbers = {}

    def control(self, wishes):
        """Applies a control request. The name of an unknown wish, or None."""
        with self.lock:
            for name, value in wishes.items():
                if name in SCRIPTED and isinstance(value, list):
                    self.behaviours[name] = list(value)
                elif name in SETTINGS:
                    self.settings[name] = value
                else:
                    return name
        return None

    def take_behaviour(self, endpoint):
        with self.lock:
            queue = self.behaviours[endpoint]
            if queue and isinstance(queue[0], dict) and "always" in queue[0]:
                return queue[0]["always"]
            return queue.pop(0) if queue else "ok"

    def new_id(self, kind):
        with self.lock:
            self.numbers[kind] = self.numbers.get(kind, 0) + 1
            return "%s-%04d-%s" % (kind, self.numbers[kind], os.urandom(4).hex())


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status, body):
        super().__init__(status)
        self.status = status
        self.body = body


def named(status, field):
    """A refusal that names a field: as FastAPI does it for 422, in words otherwise."""
    if status == 422:
        detail = [{"type": "value_error", "loc": ["body", field], "msg": "not acceptable"}]
    else:
        detail = "%s is not acceptable" % field
    return Refusal(status, {"detail": detail})


def as_json(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    # ------------------------------------------------------------ reading and answering

    def handle(self):
        self.close_connection = False
        while not self.close_connection and self.read_head():
            self.route()

    def read_head(self):
        """Reads a request up to its body. Whether there is one."""
        words = self.rfile.readline().decode("latin-1").split()
        if len(words) != 3:
            return False
        self.command, self.path, version = words
        lines = [line.decode("latin-1") for line in iter(lambda: self.rfile.readline().strip(), b"")]
        self.headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.close_connection = version == "HTTP/1.0" or self.headers.get("Connection") == "close"
        if "Expect" in self.headers:
            self.write_head(100, ())
        return True

    @property
    def state(self):
        return self.server.state

    def setting(self, name):
        with self.state.lock:
            return self.state.settings[name]

    def read_body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= BODY_MAX:
            raise Refusal(413, {"detail": "too long"})
        return self.rfile.read(length)

    def write_head(self, status, headers, body=b""):
        lines = ["HTTP/1.1 %d as scripted" % status, *("%s: %s" % header for header in headers), "", ""]
        self.wfile.write("\r\n".join(lines).encode("latin-1") + body)

    def answer(self, status, body=b"", content_type="application/json", headers=()):
        if status in (204, 304):
            self.write_head(status, headers)
        else:
            self.write_head(status, [*headers, ("Content-Type", content_type), ("Content-Length", len(body))], body)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.server.forget(self.connection)
        # The streams hold the descriptor open as long as they are.
        self.wfile.close()
        self.rfile.close()
        self.connection.close()

    def stall(self):
        self.close_connection = True
        self.server.stopping.wait(STALL_S)

    def half(self, body):
        self.write_head(200, [("Content-Type", "application/json"), ("Content-Length", len(body) + 10)],
                        body[: len(body) // 2])
        self.close_connection = True

    # ------------------------------------------------------------ the way of a request

    def route(self):
        path = urllib.parse.urlsplit(self.path).path
        try:
            if path.startswith("/_"):
                self.serve_control(path)
            elif path.startswith(API):
                self.serve_api(path[len(API):])
            else:
                self.read_body()
                self.answer(404, as_json({"detail": "Not Found"}))
        except Refusal as refusal:
            self.answer(refusal.status, as_json(refusal.body))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def serve_control(self, path):
        body = self.read_body()
        state = self.state
        with state.lock:
            views = {"/_sent": state.sent, "/_uploads": state.uploads, "/_requests": state.requests,
                     "/_inboxes": list(state.inboxes.values())}
            view = as_json(views[path]) if path in views else None
        if self.command == "GET" and view is not None:
            self.answer(200, view)
        elif self.command == "POST" and path in ("/_deliver", "/_deliver_lines"):
            with state.lock:
                state.records += [body] if path == "/_deliver" else body.splitlines()
            self.answer(204)
        elif self.command == "POST" and path == "/_clear":
            state.clear()
            self.answer(204)
        elif self.command == "POST" and path == "/_control":
            try:
                unknown = state.control(json.loads(body))
            except (ValueError, AttributeError):
                unknown = "not a JSON object"
            self.answer(400 if unknown else 204, as_json({"detail": unknown}))
        else:
            self.answer(404, as_json({"detail": "no such control"}))

    def serve_api(self, name):
        endpoints = {
            ("GET", "email"): ("email", self.list_emails),
            ("GET", "inbox"): ("inbox", self.list_inboxes),
            ("POST", "inbox/upsert"): ("upsert", self.upsert),
            ("POST", "email/add-attachment-to-pool"): ("upload", self.upload),
            ("POST", "email/send"): ("send", self.send),
        }
        endpoint, serve = endpoints.get((self.command, name)) or self.find_content(name)
        behaviour = self.state.take_behaviour(endpoint) if endpoint else "ok"
        if behaviour == "reset-before":
            self.note_request(b"")
            self.reset()
            return
        body = self.read_body()
        self.note_request(body)
        time.sleep(self.setting("delay_ms") / 1000)
        if self.headers.get("Authorization") != "Bearer %s" % self.setting("key"):
            raise Refusal(401, {"detail": "Invalid API key"})
        if serve is None:
            raise Refusal(404, {"detail": "Not Found"})
        self.play(behaviour, lambda: serve(body))

    def find_content(self, name):
        """The endpoints whose paths hold ids."""
        parts = [urllib.parse.unquote(part) for part in name.split("/")]
        if self.command != "GET" or parts[0] != "email":
            return None, None
        if len(parts) == 2:
            return "content", lambda _body: as_json(self.find("contents", parts[1]))
        if len(parts) == 3 and parts[2] == "raw":
            return "raw", lambda _body: self.find("raws", parts[1]).encode("utf-8", "surrogatepass")
        if len(parts) == 4 and parts[2] == "attachment":
            key = "%s/%s" % (parts[1], parts[3])
            return "attachment", lambda _body: self.find("files", key).encode("utf-8", "surrogatepass")
        return None, None

    def find(self, setting, key):
        found = self.setting(setting).get(key)
        if found is None:
            raise Refusal(404, {"detail": "Not Found"})
        return found

    def note_request(self, body):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        entry = {"time": time.time(), "method": self.command, "path": self.path, "query": query,
                 "headers": self.headers, "body": body.decode("utf-8", "replace")}
        with self.state.lock:
            self.state.requests.append(entry)
        self.server.write_log("%s %s %d bytes" % (self.command, self.path, len(body)))

    def play(self, behaviour, serve):
        """`serve` does what was asked and returns the body of the answer."""
        if isinstance(behaviour, dict):
            self.recite(behaviour)
            return
        first, _, more = behaviour.partition(":")
        if first == "ok":
            self.answer(200, serve())
        elif first == "ok-empty":
            serve()
            self.answer(200)
        elif first == "ok-json":
            serve()
            self.answer(200, b"{}")
        elif first == "ok-html":
            serve()
            self.answer(200, b"<html><body>Welcome</body></html>", "text/html")
        elif first == "half-body":
            self.half(serve())
        elif first == "garbage":
            serve()
            self.wfile.write(b"\x01\x02 no HTTP at all\r\n\r\n")
            self.close_connection = True
        elif first in ("reset-after", "stall"):
            serve()
            self.reset() if first == "reset-after" else self.stall()
        elif first == "lost":
            self.reset()
        elif first == "stall-before":
            self.stall()
        elif first.startswith("done-") and first[5:].isdigit():
            serve()
            self.answer(int(first[5:]), as_json({"detail": "as scripted"}))
        elif first.isdigit() and more and not more.isdigit():
            raise named(int(first), more)
        elif first.isdigit():
            headers = [("Retry-After", more)] if more else []
            self.answer(int(first), as_json({"detail": "as scripted"}), headers=headers)
        else:
            self.answer(500, as_json({"detail": "unknown behaviour: " + behaviour}))

    def recite(self, answer):
        """An answer that is written out."""
        self.server.stopping.wait(answer.get("delay_ms", 0) / 1000)
        headers = list(answer.get("headers", {}).items())
        content_type = answer.get("type", "application/json")
        if "verbatim" in answer:
            self.recite_verbatim(answer)
            return
        if "spaces" in answer:
            self.recite_spaces(answer["spaces"], content_type)
            return
        if answer.get("endless"):
            self.recite_without_end(content_type, headers, answer["endless"] == "new")
            return
        if "raw_base64" in answer:
            import base64
            body = base64.b64decode(answer["raw_base64"])
        elif "raw" in answer:
            body = answer["raw"].encode("utf-8", "surrogatepass")
        else:
            body = as_json(answer.get("body", {}))
        self.answer(answer.get("status", 200), body, content_type, headers)

    def recite_verbatim(self, answer):
        self.wfile.write(answer["verbatim"].encode("utf-8", "surrogatepass"))
        if answer.get("stall"):
            self.stall()
        self.close_connection = True

    def recite_spaces(self, megabytes, content_type):
        """A list that is whole and right, but for what stands before it."""
        self.write_head(200, [("Content-Type", content_type), ("Content-Length", megabytes * 1000000 + 2)])
        for _ in range(megabytes):
            self.wfile.write(b" " * 1000000)
        self.wfile.write(b"[]")

    def recite_without_end(self, content_type, headers, is_new):
        self.write_head(200, headers + [("Content-Type", content_type), ("Connection", "close")])
        self.close_connection = True
        self.wfile.write(b"[")
        piece = '{"id": "x%s", "subject": "without end"},' * 1000
        number = 0
        while not self.server.stopping.is_set():
            ids = range(number, number + 1000) if is_new else [""] * 1000
            self.wfile.write((piece % tuple(ids)).encode())
            number += 1000

    # ------------------------------------------------------------ endpoints

    def list_emails(self, _body):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        wanted = query.get("inbox_ids")
        limit = int(query.get("limit", ["100"])[0])
        with self.state.lock:
            records = list(self.state.records)
        chosen = [record for record in records if is_of_inbox(record, wanted)]
        array = b"[" + b",".join(reversed(chosen[-limit:])) + b"]"
        if self.setting("list") == "wrapped":
            return b'{"total": %d, "emails": %s}' % (len(chosen), array)
        return array

    def list_inboxes(self, _body):
        how = self.setting("inbox_list")
        if how == "html":
            return b"<html><body>an application</body></html>"
        if how == "object":
            return b'{"detail": "no list"}'
        if how != 200:
            raise Refusal(int(how), {"detail": "as scripted"})
        with self.state.lock:
            return as_json(list(self.state.inboxes.values()))

    def upsert(self, body):
        request = read_object(body)
        if not isinstance(request.get("email_address"), str):
            raise named(422, "email_address")
        state = self.state
        with state.lock:
            identity = request.get("id")
            if identity is not None and identity not in state.inboxes:
                raise Refusal(404, {"detail": "no such inbox"})
            addresses = {inbox["email_address"]: key for key, inbox in state.inboxes.items()}
            if addresses.get(request["email_address"], identity) != identity:
                raise Refusal(409, {"detail": "address taken"})
            if identity is None:
                identity = state.new_id("inbox")
            state.inboxes[identity] = dict(request, id=identity)
        return as_json({"id": identity})

    def upload(self, body):
        part = read_part(self.headers.get("Content-Type", ""), body)
        entry = dict(part, id=self.state.new_id("pool"))
        with self.state.lock:
            self.state.uploads.append(entry)
        field = self.setting("id_field")
        return as_json(entry["id"] if field == "bare" else {field: entry["id"]})

    def send(self, body):
        request = read_object(body)
        known = SEND_FIELDS | ({"idempotency_key"} if self.setting("idempotency") else set())
        unknown = sorted(set(request) - known)
        if self.setting("strict_keys") and unknown:
            raise named(422, unknown[0])
        if isinstance(request.get("from_address"), dict) != bool(self.setting("object_from")):
            raise named(422, "from_address")
        for field in ("to_addresses", "subject"):
            if field not in request:
                raise named(422, field)
        key = request.get("idempotency_key") if self.setting("idempotency") else None
        state = self.state
        with state.lock:
            if key is not None and key in state.answers:
                return state.answers[key]
            entry = {"id": state.new_id("sent"), "request": request}
            state.sent.append(entry)
            answer = as_json({"id": entry["id"]})
            if key is not None:
                state.answers[key] = answer
        return answer


def is_of_inbox(record, wanted):
    """A record that cannot be read, or names no inbox, is in every list."""
    if not wanted:
        return True
    try:
        inbox = json.loads(record).get("inbox_id")
    except (ValueError, AttributeError):
        return True
    return inbox is None or inbox in wanted


def read_object(body):
    try:
        value = json.loads(body)
    except ValueError:
        raise Refusal(400, {"detail": "the body is not JSON"}) from None
    if not isinstance(value, dict):
        raise Refusal(422, {"detail": "the body is no object"})
    return value


def read_part(content_type, body):
    """The file of a multipart body. Its name is taken from the raw header, as it came."""
    import hashlib
    boundary = re.fullmatch(r'multipart/form-data; boundary="?([^ ";]+)"?', content_type)
    if boundary is None:
        raise named(422, "file")
    pieces = body.split(b"--" + boundary[1].encode("latin-1"))
    if len(pieces) != 3 or not pieces[2].startswith(b"--"):
        raise named(422, "file")
    head, _, content = pieces[1].partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    disposition = fields.get("content-disposition", "")
    if 'name="file"' not in disposition or "filename*" in disposition:
        raise named(422, "file")
    content = content[:-2]
    return {"filename": disposition.partition('filename="')[2].partition('"')[0],
            "content_type": fields.get("content-type"), "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest()}


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port, log):
        super().__init__(("127.0.0.1", port), Handler)
        self.state = State()
        self.stopping = threading.Event()
        self.log = log
        self.reset_sockets = set()

    def forget(self, connection):
        """The connection is closed already, and must not be shut down in good order."""
        self.reset_sockets.add(connection)

    def shutdown_request(self, request):
        if request in self.reset_sockets:
            self.reset_sockets.discard(request)
            return
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        if not isinstance(error, (OSError, ValueError)):
            super().handle_error(request, client_address)

    def write_log(self, line):
        if self.log is not None:
            self.log.write(line + "\n")
            self.log.flush()


def main():
    parser = argparse.ArgumentParser(description="a scripted mail service for tests")
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    parser.add_argument("--script")
    parser.add_argument("--certificate")
    arguments = parser.parse_args()
    log = open(arguments.log, "a", encoding="utf-8") if arguments.log else None
    server = Server(arguments.port, log)
    if arguments.certificate:
        import ssl
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate)
        # The handshake is made by the thread that serves the connection, at its first read.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    if arguments.script:
        with open(arguments.script, encoding="utf-8") as script:
            unknown = server.state.control(json.load(script))
        if unknown:
            sys.exit("%s: unknown: %s" % (arguments.script, unknown))

    def stop(*_):
        server.stopping.set()
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    # Renamed into place, so that whoever waits for the file never reads half a number.
    with open(arguments.port_file + ".new", "w", encoding="ascii") as port_file:
        port_file.write("%d\n" % server.server_address[1])
    os.rename(arguments.port_file + ".new", arguments.port_file)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
