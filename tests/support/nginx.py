"""The nginx of docs/production.md, in front of a daemon."""
from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from .daemon import ROOT
from .ports import free_port
from .wait import until


@contextmanager
def documented(daemon_port: int, folder: Path) -> Iterator[tuple[str, trustme.CA]]:
    """nginx with the server of docs/production.md: its URL, and the authority that signed its certificate. folder: for
    its files."""
    page = (ROOT / "docs/production.md").read_text()
    (server,) = re.findall(r"^```nginx\n(.*?)^```", page, re.M | re.S)
    authority = trustme.CA()
    certificate = authority.issue_cert("queue.example", "localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "pem")
    certificate.private_key_pem.write_to_path(folder / "key")
    port = free_port()
    for told, ours in (("listen 443", f"listen 127.0.0.1:{port}"),
                       ("/etc/ssl/queue.example.pem", str(folder / "pem")),
                       ("/etc/ssl/queue.example.key", str(folder / "key")),
                       ("127.0.0.1:6632", f"127.0.0.1:{daemon_port}")):
        assert told in server
        server = server.replace(told, ours)
    folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in (
        "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(f"pid {folder}/pid;\ndaemon off;\nerror_log stderr;\nevents {{}}\n"
                                       f"http {{\naccess_log off;\n{folders}{server}}}\n")
    with subprocess.Popen(["/usr/sbin/nginx", "-p", folder, "-c", folder / "nginx.conf"],
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: process.poll() is not None or socket.socket().connect_ex(("127.0.0.1", port)) == 0,
                  "nginx listens")
            assert process.poll() is None, process.stderr.read()
            yield f"https://localhost:{port}", authority
        finally:
            process.terminate()
