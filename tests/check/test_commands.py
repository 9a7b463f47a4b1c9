"""Commands and programs of the documents: a named test runs each block, or a reason says why no test does."""
from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.tree import ROOT, tracked

LANGUAGES = {"", "sh", "console", "python", "py", "sql", "json"}
OTHERS = {"go", "haproxy", "ini", "java", "js", "nginx", "text", "ts", "yaml"}      # no commands
PAGES = [page for page in tracked("*.md") if re.fullmatch(r"docs/[^/]+\.md|README\.md|SECURITY\.md|examples/README\.md",
                                                          page)]
TUTORIAL, GUIDES, EXAMPLES, OPERATORS = (
    f"e2e/test_{name}.py" for name in ("tutorial", "guides", "document_examples", "operator_pages"))
SPARK, JOBS, POSTGRES = "spark/test_docs.py", "spark/test_docs_jobs.py", "platform/test_own_postgres.py"
LAG = "spark/test_lag.py"
# Page → test that takes blocks from the page and runs them → how their language and first line begin. … stands for
# anything.
RUN: dict[str, dict[str, tuple[str, ...]]] = {
    "README.md": {"platform/test_serve.py": ("$ ",), TUTORIAL: ("python ",), OPERATORS: ("PG_HOST=",)},
    "docs/auth.md": {OPERATORS: ("JWT_ENABLED=", "json ")},
    "docs/browsers.md": {GUIDES: ("sh JWT_ENABLED=", "python # page_token.py", "$ ")},
    "docs/cli.md": {EXAMPLES: ("queend push orders",), "cli/test_cli_completion.py": ("eval ",)},
    "docs/client.md": {"client/test_client_document.py": ("python ", "sh queend worker shop:app"),
                       "client/test_client_wheel.py": ("sh pip install",)},
    "docs/conflation.md": {TUTORIAL: ("python ", "$ ")},
    "docs/delays.md": {TUTORIAL: ("python ", "$ ")},
    "docs/encryption.md": {EXAMPLES: ("QUEEND_ENCRYPTION_KEYS=",)},
    "docs/ephemeral.md": {TUTORIAL: ("$ ",)},
    "docs/erasing.md": {EXAMPLES: ("$ queend erase",)},
    "docs/failover.md": {"e2e/test_adopt.py": ("sh queend failover adopt",)},
    "docs/frameworks.md": {GUIDES: ("python ", "$ ")},
    "docs/high-availability.md": {EXAMPLES: ("sh HOST=", "python from queend.client import Client")},
    "docs/http.md": {EXAMPLES: ("$ …curl",)},
    "docs/headers.md": {TUTORIAL: ("$ ",)},
    "docs/kv.md": {TUTORIAL: ("$ ",)},
    "docs/locks.md": {TUTORIAL: ("$ ",)},
    "docs/timers.md": {TUTORIAL: ("$ ",)},
    "docs/languages.md": {TUTORIAL: ("$ ",), "generated/test_clients.py": ("sh openapi-generator-cli",)},
    "docs/live.md": {EXAMPLES: ("$ curl", "retry: 2000")},
    "docs/log-read.md": {EXAMPLES: ("json ",)},
    "docs/migration.md": {EXAMPLES: ("sh curl",), "platform/test_import_queen.py": ("sh queend import-queen",)},
    "docs/observe.md": {OPERATORS: ("$ queend message",)},
    "docs/partitions.md": {GUIDES: ("$ ",)},
    "docs/peers.md": {EXAMPLES: ("sh QUEEN_UDP_PEERS=", "sh QUEEN_PEERS=")},
    "docs/postgresql.md": {POSTGRES: ("sh PG_HOST=", "sh QUEEND_DSN=…passfile=", "sql CREATE ROLE queend",
                                      "sql GRANT CONNECT", "sql CREATE ROLE reader"),
                           "platform/test_tls.py": ("sh QUEEND_DSN=…sslmode=verify-full",),
                           "e2e/test_foreign_locks.py": ("sql GRANT pg_signal_backend",)},
    "docs/production.md": {EXAMPLES: ("$ ",), OPERATORS: ("QUEEND_TLS_CERT=",)},
    "docs/prometheus.md": {"platform/test_prometheus.py": ("sh JWT_SECRET=",)},
    "docs/push-formats.md": {EXAMPLES: ("curl ", "python batch = ")},
    "docs/recover.md": {OPERATORS: ("queend backup",)},
    "docs/retain.md": {OPERATORS: ("sql SELECT pid",)},
    "docs/run.md": {OPERATORS: ("install -m 644", "mkdir -p", "queend queue pause")},
    "docs/spark.md": {SPARK: ("python import queend.spark", "python def both", "python def changed", "sql "),
                      JOBS: ("sh queend spark",), LAG: ("json ", "sh queend spark lag"),
                      "spark/test_pysparks.py": ("python from queend.spark import batch_writer",)},
    "docs/spark-recipes.md": {"spark/test_recipes.py": ("python # windows.py", "python # changed.py",
                                                        "python # upsert.py")},
    "docs/sql.md": {"surface/test_document.py": ("sql ",)},
    "docs/streams.md": {TUTORIAL: ("python ", "$ ")},
    "docs/testing.md": {GUIDES: ("python ", "$ python -m pytest")},
    "docs/tls.md": {"e2e/test_tls_page.py": ("sh openssl", "sh QUEEND_TLS_CERT=", "$ ", "python # secure.py")},
    "docs/transactions.md": {TUTORIAL: ("python ", "$ ")},
    "docs/troubleshooting.md": {EXAMPLES: ("$ ",), TUTORIAL: ("python ", "queend worker billing:app")},
    "docs/tutorial.md": {TUTORIAL: ("python ", "$ "), SPARK: ("py ",)},
    "docs/web-app.md": {GUIDES: ("sh python web.py", "sql -- shop.sql", "python ", "$ "),
                        OPERATORS: ("sh export QUEEND_URL=", "sh PG_HOST=")},
}
NO_COMMAND = "no command"
# Page → how language and first line of a block begin → why no test runs it.
EXEMPT: dict[str, dict[str, str]] = {
    "README.md": {"make run": "compiles for minutes; platform/test_make.py runs its targets"},
    "docs/binary-formats.md": {'"Q': NO_COMMAND},
    "docs/cli.md": {"queend …[OPTIONS]": "usage, as `make documents` writes it; check/test_generated.py"},
    "docs/encryption.md": {'{"encrypted"': NO_COMMAND},
    "docs/install.md": {
        "python3 -m venv": "needs a wheel; packages/test_wheel.py",
        "pip install": "needs a wheel of the daemon; packages/test_wheel.py",
        "apt-get update": "needs a Debian with systemd; packages/test_deb.py",
        "export QUEEND_DATA_DIR=": "needs the account of the package; packages/test_deb.py",
        "make package": "needs containers; packages/test_image.py, packages/test_oci.py, platform/test_compose.py",
        "kubectl create": "needs Kubernetes; platform/test_chart_values.py reads its values",
        "helm install": "needs Kubernetes; platform/test_chart_values.py reads its values"},
    "docs/languages.md": {"sh curl -s localhost:6632/openapi.json": "needs Java, Go and their packages;"
                                                                    " generated/test_clients.py"},
    "docs/live.md": {'{"ack"': NO_COMMAND},
    "docs/observe.md": {'{"time"': NO_COMMAND},
    "docs/production.md": {"[Service]": NO_COMMAND},
    "docs/run.md": {"pop, fetching": NO_COMMAND, "[Service]": NO_COMMAND},
    "docs/spark-recipes.md": {
        "python # merge.py": "needs the jar of Delta or Iceberg; spark/test_recipes.py parses it",
        "python # delta.py": "needs the jar of Delta, which is not on PyPI",
        "python # iceberg.py": "needs the jar of Iceberg, which is not on PyPI",
        "sh spark-submit --master k8s": "needs Kubernetes"},
    "docs/sql-reference.md": {"": "signatures, as `make documents` writes them; check/test_generated.py"},
}


def blocks(text: str) -> Iterator[str]:
    """Yields the language and the first line of each block of code that may have commands."""
    for _, language, line in re.findall(r"^( *)```(\S*)[^\n]*\n([^\n]*)\n.*?^\1```", text, re.M | re.S):
        if language not in OTHERS:
            yield f"{language} {line}".strip()


def begins(block: str, beginning: str) -> bool:
    return bool(re.match(".*".join(map(re.escape, beginning.split("…"))), block))


def beginnings(page: str) -> list[str]:
    return [*EXEMPT.get(page, ()), *(one for each in RUN.get(page, {}).values() for one in each)]


def left(page: str, text: str) -> list[str]:
    """Returns the blocks with commands that the tables do not name."""
    return [block for block in blocks(text) if not any(begins(block, one) for one in beginnings(page))]


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_run_or_exempt(page: str) -> None:
    text = (ROOT / page).read_text()
    assert not left(page, text), "name the test that runs these blocks in RUN, or the reason in EXEMPT"
    unused = [one for one in beginnings(page) if not any(begins(block, one) for block in blocks(text))]
    assert not unused, "no block begins like this"
    languages = {language for _, language in re.findall(r"^( *)```(\w+)", text, re.M)}
    assert languages <= LANGUAGES | OTHERS, "add the language to OTHERS if it has no commands"


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_fences(page: str) -> None:
    outside = re.sub(r"^( *)```.*?^\1```", "", (ROOT / page).read_text(), flags=re.M | re.S)
    assert not re.findall(r"\n\n {4}(?:\$ .*|(?:queend|curl|psql|python) .*)", outside)


def test_tests_of_the_table_read_their_page() -> None:
    assert set(RUN) | set(EXEMPT) <= set(PAGES)
    for page, tests in RUN.items():
        for test in tests:
            text = (ROOT / "tests" / test).read_text()
            assert page.rpartition("/")[2] in text or '/ "docs").glob("*.md")' in text, (page, test)


def test_tests_that_a_reason_names_exist() -> None:
    named = {test for reasons in EXEMPT.values() for reason in reasons.values()
             for test in re.findall(r"\w+/test_\w+\.py", reason)}
    assert named and not [test for test in named if not (ROOT / "tests" / test).exists()]


@pytest.mark.parametrize(("block", "count"), [
    ("```\n$ queend queue list\n```\n", 0), ("```sh\nqueend queue list\n```\n", 1),
    ("```\nqueend queue list\n```\n", 1), ("  ```python\n  print(1)\n  ```\n", 1), ("```yaml\na: 1\n```\n", 0)])
def test_a_planted_block_is_seen(block: str, count: int) -> None:
    assert len(left("docs/partitions.md", f"text\n\n{block}")) == count
