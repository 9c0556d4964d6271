"""A store of objects on loopback, for tests: it speaks as much of S3 and HTTP as a reader needs, and
misbehaves as it is told.

It checks signatures, tokens and when keys end. Its misbehaviour has names: `slow_down` and `too_many`
(it throttles), `cut` (it closes midway), `wrong_length`, `wrong_range`, `other_mark`, `short`
(less than its head says, and then it closes), `longer`, `garbage`, `endless_head`, `drip` (a byte
at a time), `hang` (nothing comes), `error` (500), `no_range` (the whole object).
"""

import hashlib
import hmac
import json
import socket
import sys
import threading
import time
import urllib.parse
from collections import Counter
from datetime import datetime, timezone
from xml.sax.saxutils import escape

PAGE = 100  # keys that a list answers at once


class Keys:
    """Keys that the server believes until they end."""

    def __init__(self, name, secret, token="", lasts=3600.0):
        self.name, self.secret, self.token = name, secret, token
        self.end = time.time() + lasts

    def as_json(self):
        end = datetime.fromtimestamp(self.end, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return json.dumps({"AccessKeyId": self.name, "SecretAccessKey": self.secret,
                           "Token": self.token, "Expiration": end})


class Request:
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            self.headers[name.strip().lower()] = value.strip()
        path, _, self.query_text = self.target.partition("?")
        self.raw_path = path
        self.path = urllib.parse.unquote(path)
        self.query = dict(urllib.parse.parse_qsl(self.query_text, keep_blank_values=True))


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature(request, secret, scope, names):
    """What AWS Signature Version 4 of this request must be."""
    headers = "".join(f"{one}:{request.headers.get(one, '')}\n" for one in names.split(";"))
    query = "&".join(sorted(request.query_text.split("&"))) if request.query_text else ""
    canonical = "\n".join([request.method, request.raw_path, query, headers, names,
                           request.headers["x-amz-content-sha256"]])
    day, region, service, end = scope.split("/")
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = _hmac(("AWS4" + secret).encode(), day)
    for part in (region, service, end):
        key = _hmac(key, part)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class StoreServer:
    def __init__(self, objects=None, keys=None, bucket="bucket", tls=None):
        self.bucket = bucket
        self.tls = tls  # an ssl.SSLContext
        self.region = None  # where requests must be signed for, if not anywhere
        self.leads = {}  # paths that lead elsewhere, by URL
        self.objects = dict(objects or {})
        self.keys = keys or []  # none, and no tokens either: anybody may read
        self.tokens = []  # of Google, that are good
        self.lends = None  # a function that answers Keys, for /keys
        self.misbehaves = lambda request: None
        self.asked = Counter()  # by what was answered
        self.ranges = []  # (key, first, last) of good answers
        self.lock = threading.Lock()
        self.in_flight = self.most_in_flight = 0
        self.pause = 0.0  # before each answer
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listening.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self._open = set()
        self._marks = {}
        self._ended = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._ended = True
        self._listening.close()
        with self.lock:
            for one in list(self._open):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def every(self, number, names, count=None):
        """Misbehaves in every so-many-th request for an object, in turn."""
        state = {"asked": 0, "done": 0}

        def choose(request):
            if not self.key_of(request):
                return None
            with self.lock:
                state["asked"] += 1
                if state["asked"] % number or (count is not None and state["done"] >= count):
                    return None
                state["done"] += 1
                return names[(state["done"] - 1) % len(names)]
        self.misbehaves = choose

    def key_of(self, request):
        prefix = f"/{self.bucket}/"
        return request.path[len(prefix):] if request.path.startswith(prefix) else ""

    def mark(self, key):
        content = self.objects[key]
        known = self._marks.get(key)
        if known is None or known[0] is not content:
            known = self._marks[key] = content, f'"{hashlib.md5(content).hexdigest()}"'
        return known[1]

    def _accept(self):
        while not self._ended:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        held = b""
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            while True:
                while b"\r\n\r\n" not in held:
                    more = connection.recv(65536)
                    if not more:
                        return
                    held += more
                head, held = held.split(b"\r\n\r\n", 1)
                with self.lock:
                    self.in_flight += 1
                    self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    if self.pause:
                        time.sleep(self.pause)
                    goes_on = self._answer(connection, Request(head))
                finally:
                    with self.lock:
                        self.in_flight -= 1
                if not goes_on:
                    return
        except OSError:
            pass
        finally:
            with self.lock:
                self._open.discard(connection)
            connection.close()

    def _send(self, connection, status, headers, body=b"", request=None):
        lines = [f"HTTP/1.1 {status}"] + [f"{name}: {value}" for name, value in headers.items()]
        if "Content-Length" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        if request is not None and request.method == "HEAD":
            body = b""
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        return True

    def _refuse(self, connection, status, code, request=None):
        with self.lock:
            self.asked[code] += 1
        body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        return self._send(connection, status, {}, body, request)

    def _answer(self, connection, request):
        if request.path == "/keys":
            lent = self.lends() if self.lends else None
            with self.lock:
                self.asked["keys"] += 1
            if lent is None:
                return self._send(connection, "500 No", {})
            self.keys.append(lent)
            return self._send(connection, "200 OK", {}, lent.as_json().encode())
        if request.path.startswith("/computeMetadata/"):
            return self._lend_token(connection, request)
        if request.path in self.leads:
            return self._send(connection, "302 Found", {"Location": self.leads[request.path]})
        if request.query.get("Action") == "AssumeRoleWithWebIdentity":
            return self._lend_role(connection, request)
        refusal = self._signature_problem(request)
        if refusal == "region":
            return self._send(connection, "301 Moved", {"x-amz-bucket-region": self.region})
        if refusal:
            return self._refuse(connection, *refusal, request)
        what = self.misbehaves(request)
        if what:
            with self.lock:
                self.asked[what] += 1
        if request.path in (f"/{self.bucket}", f"/{self.bucket}/") and "list-type" in request.query:
            return self._list(connection, request)
        key = self.key_of(request)
        if key not in self.objects:
            return self._refuse(connection, "404 Not Found", "NoSuchKey", request)
        return self._object(connection, request, key, what)

    def _signature_problem(self, request):
        given = request.headers.get("authorization", "")
        if self.tokens and given.removeprefix("Bearer ") in self.tokens:
            return None
        if self.tokens and not self.keys:
            return "401 Unauthorized", "AuthenticationRequired"
        if not self.keys:
            return None
        parts = dict(part.strip().split("=", 1)
                     for part in given.replace("AWS4-HMAC-SHA256", "").split(",") if "=" in part)
        if "Credential" not in parts:
            return "403 Forbidden", "AccessDenied"
        name, scope = parts["Credential"].split("/", 1)
        if self.region and scope.split("/")[1] != self.region:
            return "region"
        known = [one for one in self.keys if one.name == name]
        if not known:
            return "403 Forbidden", "InvalidAccessKeyId"
        if request.headers.get("x-amz-security-token", "") != known[-1].token:
            return "400 Bad Request", "InvalidToken"
        if time.time() > known[-1].end:
            return "400 Bad Request", "ExpiredToken"
        if signature(request, known[-1].secret, scope, parts["SignedHeaders"]) != \
                parts["Signature"]:
            return "403 Forbidden", "SignatureDoesNotMatch"
        return None

    def _lend_role(self, connection, request):
        with self.lock:
            self.asked["role"] += 1
        if request.query.get("WebIdentityToken") != "of this pod":
            return self._refuse(connection, "400 Bad Request", "InvalidIdentityToken")
        self.keys.append(Keys("of role", "secret", "token & more"))
        body = ("<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>of role</AccessKeyId>"
                "<SecretAccessKey>secret</SecretAccessKey><SessionToken>token &amp; more"
                "</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
                "</AssumeRoleWithWebIdentityResponse>")
        return self._send(connection, "200 OK", {}, body.encode())

    def _lend_token(self, connection, request):
        """As a machine of Google's does, which asks for a header that no web page can send."""
        with self.lock:
            self.asked["token"] += 1
        if request.headers.get("metadata-flavor") != "Google" or \
                request.path != "/computeMetadata/v1/instance/service-accounts/default/token":
            return self._send(connection, "403 Forbidden", {})
        self.tokens.append("of machine")
        body = {"access_token": self.tokens[-1], "expires_in": 3600, "token_type": "Bearer"}
        return self._send(connection, "200 OK", {}, json.dumps(body).encode())

    def _list(self, connection, request):
        prefix, after = request.query.get("prefix", ""), request.query.get("continuation-token", "")
        names = sorted(key for key in self.objects
                       if key.startswith(prefix) and key.encode() > after.encode())
        page, more = names[:PAGE], len(names) > PAGE
        body = "<?xml version='1.0'?><ListBucketResult>"
        body += f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        if more:
            body += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        for key in page:
            body += (f"<Contents><Key>{urllib.parse.quote(key)}</Key>"
                     f"<ETag>{escape(self.mark(key), {chr(34): '&quot;'})}</ETag>"
                     f"<Size>{len(self.objects[key])}</Size></Contents>")
        with self.lock:
            self.asked["list"] += 1
        return self._send(connection, "200 OK", {"Content-Type": "application/xml"},
                          (body + "</ListBucketResult>").encode())

    def _object(self, connection, request, key, what):
        content = self.objects[key]
        headers = {"ETag": self.mark(key), "Accept-Ranges": "bytes"}
        first, last = 0, len(content) - 1
        status = "200 OK"
        asked = request.headers.get("range", "")
        if asked and what != "no_range":
            first, last = (int(part) for part in asked.removeprefix("bytes=").split("-"))
            if first >= len(content):
                return self._refuse(connection, "416 No", "InvalidRange", request)
            last = min(last, len(content) - 1)
            status = "206 Partial Content"
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        body = content[first:last + 1]
        headers["Content-Length"] = str(len(body))
        if request.method == "HEAD":
            what = None
        if what in ("slow_down", "too_many", "error"):
            return self._send(connection, {"slow_down": "503 Slow Down", "too_many": "429 Too Many",
                                           "error": "500 Error"}[what], {},
                              b"<Error><Code>SlowDown</Code></Error>")
        if what == "hang":
            while not self._ended:
                time.sleep(0.05)
            return False
        if what == "garbage":
            connection.sendall(b"\x00\xff not HTTP at all \r\n\r\n" * 20)
            return False
        if what == "endless_head":
            connection.sendall(b"HTTP/1.1 206 Partial Content\r\n")
            while not self._ended:
                connection.sendall(b"X-More: " + b"x" * 4000 + b"\r\n")
            return False
        if what == "drip":
            connection.sendall(b"HTTP/1.1 206 Partial Content\r\nX-Drip: ")
            while not self._ended:
                connection.sendall(b"x")
                time.sleep(0.05)
            return False
        if what == "wrong_range":
            headers["Content-Range"] = f"bytes {first + 1}-{last + 1}/{len(content)}"
        if what == "other_mark":
            headers["ETag"] = '"another"'
        if what == "wrong_length":
            body = body[:len(body) // 2]
            headers["Content-Length"] = str(len(body))
        if what == "longer":
            body += b"more"
            headers["Content-Length"] = str(len(body))
        if what in ("cut", "short"):
            body = body[:len(body) // 2]
        if not what and asked:
            with self.lock:
                self.ranges.append((key, first, last))
        self._send(connection, status, headers, body, request)
        return what not in ("cut", "short")


if __name__ == "__main__":
    # store_server.py OBJECTS BYTES: as many objects of so many bytes, until its input ends.
    count, size = int(sys.argv[1]), int(sys.argv[2])
    one = bytes(range(256)) * (size // 256 + 1)
    server = StoreServer({f"{i:06}.bin": one[:size] for i in range(count)})
    print(server.port, flush=True)
    sys.stdin.read()
