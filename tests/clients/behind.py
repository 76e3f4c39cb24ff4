"""Runs a command with a proxy between it and the server: `behind.py nginx COMMAND…`, or haproxy.

The proxy is set up as docs/operations.md says, but for TLS. Of its two servers, the first is the one at SERVER_URL and the
second is away.
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "operations.md"
SECONDS = 20

NGINX = """
user root;
daemon off;
pid {folder}/nginx.pid;
# That one of the servers is away is no news.
error_log stderr crit;
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{documented}
}}
"""

# Its file around what is documented, what TLS needs there, the same without TLS, and how it is started.
PROXIES = {
    "nginx": (
        NGINX,
        [("listen 443 ssl;", "listen {address};"), (r"ssl_certificate\w* .*", "")],
        ["nginx", "-e", "stderr", "-c"],
    ),
    "haproxy": (
        "{documented}",
        [(r"bind :443 ssl crt \S+", "bind {address}")],
        ["haproxy", "-db", "-f"],
    ),
}


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


def documented(name):
    return re.search(rf"### In front: {name}\n```\w*\n(.*?)```", DOCS.read_text(), re.DOTALL)[1]


def settings(name, folder, address):
    around, without_tls, _ = PROXIES[name]
    changes = without_tls + [
        (r"10\.0\.0\.1:8080", os.environ["SERVER_URL"].removeprefix("http://")),
        (r"10\.0\.0\.2:8080", free_address()),
    ]
    text = documented(name)
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement.format(address=address), text)
        assert count, f"{pattern} is not in the documentation of {name}"
    return around.format(folder=folder, documented=text)


def wait_for(proxy, address):
    host, port = address.split(":")
    deadline = time.monotonic() + SECONDS
    while proxy.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port))).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{proxy.args[0]} does not listen")


def main():
    name, command = sys.argv[1], sys.argv[2:]
    address = free_address()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proxy.conf")
        file.write_text(settings(name, folder, address))
        proxy = subprocess.Popen([*PROXIES[name][2], str(file)])
        try:
            wait_for(proxy, address)
            status = subprocess.run(command, env={**os.environ, "SERVER_URL": f"http://{address}"}).returncode
        finally:
            proxy.terminate()
            proxy.wait()
    sys.exit(status)


main()
