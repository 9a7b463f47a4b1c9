"""A web application below /: its files, its index for everything else, nothing beside its folder, nothing over the
API."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.client import Client
from support.daemon import Daemon


@pytest.fixture(scope="module")
def pages(start_daemon: Callable[..., Daemon], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("web")
    root = folder / "dist"
    (root / "assets").mkdir(parents=True)
    for name, text in (("index.html", "<html>index</html>"), ("assets/app.js", "app"), ("logo.svg", "<svg/>"),
                       ("main.0123abcd.css", "css"), ("data.bin", "x"), ("ü b.txt", "umlaut")):
        (root / name).write_text(text)
    (folder / "secret.txt").write_text("secret")
    (root / "way-out").symlink_to(folder / "secret.txt")
    with start_daemon(WEBAPP_ROOT=root).client() as client:
        yield client


@pytest.mark.parametrize("path, text, kind, keeping", [
    ("/", "<html>index</html>", "text/html; charset=utf-8", "no-cache, no-store, must-revalidate"),
    ("/index.html", "<html>index</html>", "text/html; charset=utf-8", "no-cache, no-store, must-revalidate"),
    ("/queues/some/where", "<html>index</html>", "text/html; charset=utf-8", "no-cache, no-store, must-revalidate"),
    ("/apiary", "<html>index</html>", "text/html; charset=utf-8", "no-cache, no-store, must-revalidate"),
    ("/assets/app.js", "app", "application/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
    ("/main.0123abcd.css", "css", "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
    ("/logo.svg", "<svg/>", "image/svg+xml", "public, max-age=3600"),
    ("/data.bin?v=1", "x", "application/octet-stream", "public, max-age=3600"),
    ("/%C3%BC%20b.txt", "umlaut", "application/octet-stream", "public, max-age=3600"),
])
def test_files(pages: Client, path: str, text: str, kind: str, keeping: str) -> None:
    answer = pages.get(path)
    assert (answer.status, answer.body.decode(), answer.headers["content-type"],
            answer.headers["cache-control"]) == (200, text, kind, keeping)
    head = pages.request("HEAD", path)
    assert head.status == 200 and head.headers["content-length"] == str(len(answer.body))


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt",
                                  "/..%5csecret.txt/../../secret.txt", "/way-out",
                                  "//etc/passwd", "/assets//../../secret.txt"])
def test_nothing_beside_the_folder(pages: Client, path: str) -> None:
    answer = pages.get(path)
    assert b"secret" not in answer.body and b"root:" not in answer.body
    assert answer.status in (403, 404) or answer.body == b"<html>index</html>"


@pytest.mark.parametrize("path", ["/api/me", "/api/v1/nope", "/api", "/internal/x", "/streams/v1/x", "/ws/",
                                  "/health/x", "/metrics/x", "/assets/none.js"])
def test_what_is_not_there(pages: Client, path: str) -> None:
    answer = pages.get(path)
    assert (answer.status, answer.json["error"]) == (404, "Not found")


def test_the_api_is_as_ever(pages: Client) -> None:
    assert pages.get("/health").json["status"] == "healthy"
    assert pages.get("/openapi.json").json["openapi"].startswith("3.1")
    assert pages.get("/api/v1/resources/queues").json == {"queues": []}
    assert pages.get("/%ff").status == 400 and pages.get("/a%00b").status == 400
    assert pages.request("POST", "/index.html").status == 404
    assert pages.request("OPTIONS", "/index.html").status == 204


def test_who_has_no_token_sees_files_and_no_data(start_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("index")
    with start_daemon(WEBAPP_ROOT=tmp_path, JWT_ENABLED="true", JWT_SECRET="s" * 32).client() as client:
        assert client.get("/").body == client.get("/queues/q").body == b"index"
        for path in ("/api/v1/resources/queues", "/api/v1/nope", "/internal/x", "/streams/v1/x"):
            assert client.get(path).status == 401
        assert client.request("POST", "/queues/q").status == 401


def test_without_a_folder_and_a_dashboard_there_is_nothing(start_daemon: Callable[..., Daemon]) -> None:
    with start_daemon(QUEEND_DASHBOARD="false").client() as client:
        assert client.get("/").status == 404 and client.get("/index.html").status == 404
