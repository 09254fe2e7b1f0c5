SERVICE = r"""
import hashlib
import http.server
import json
import os
import re
import sys
import threading
import urllib.parse

FOLDER = "data"
KEY = re.compile(r"[A-Za-z0-9._-]{1,64}")
NUMBER = re.compile(rb"-?[0-9]+")
LOCK = threading.Lock()


def place(key):
    # A name of its own for every key, "." and ".." among them.
    return os.path.join(FOLDER, "=" + key)


def read(key):
    try:
        with open(place(key), "rb") as source:
            return source.read()
    except FileNotFoundError:
        return None


def sync():
    folder = os.open(FOLDER, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write(key, value):
    scratch = os.path.join(FOLDER, "scratch")
    with open(scratch, "wb") as target:
        target.write(value)
        target.flush()
        os.fsync(target.fileno())
    os.replace(scratch, place(key))
    sync()


def etag(value):
    return '"%s"' % hashlib.sha256(value).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        parts = path.split("/")[1:]
        with LOCK:
            if parts == ["keys"]:
                return self.list(query)
            if parts[0] != "keys" or len(parts) > 3 or parts[2:] not in ([], ["add"]):
                return self.answer(404)
            if not KEY.fullmatch(parts[1]):
                return self.answer(400)
            if parts[2:]:
                return self.add(parts[1], body) if self.command == "POST" else self.answer(405)
            return self.one(parts[1], body)

    do_GET = do_PUT = do_DELETE = do_POST = handle_any

    def list(self, query):
        prefix = urllib.parse.parse_qs(query).get("prefix", [""])[0]
        keys = sorted(name[1:] for name in os.listdir(FOLDER) if name.startswith("=" + prefix))
        self.answer(200, json.dumps(keys).encode(), **{"Content-Type": "application/json"})

    def one(self, key, body):
        value = read(key)
        if self.command == "PUT":
            wanted = self.headers.get("If-Match")
            if wanted is not None and (value is None or wanted != etag(value)):
                return self.answer(412)
            write(key, body)
            return self.answer(201 if value is None else 204)
        if self.command == "POST":
            return self.answer(405)
        if value is None:
            return self.answer(404)
        if self.command == "DELETE":
            os.remove(place(key))
            sync()
            return self.answer(204)
        return self.answer(200, value, ETag=etag(value))

    def add(self, key, body):
        value = read(key)
        if not NUMBER.fullmatch(body):
            return self.answer(400)
        if value is not None and not NUMBER.fullmatch(value):
            return self.answer(409)
        total = b"%d" % (int(value or 0) + int(body))
        write(key, total)
        self.answer(200, total)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


os.makedirs(FOLDER, exist_ok=True)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

with open("service.py", "w") as target:
    target.write(SERVICE)
