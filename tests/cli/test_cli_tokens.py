"""queend token and trace."""
import re

from support.cli import Cli
from support.tokens import SECRET
from support.wait import until


def test_a_minted_token_is_taken_and_read(start_daemon, tmp_path):
    cli = Cli(start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET).url, tmp_path)
    text = cli.ok("token", "mint", "me", "--role", "read-write", "--for", "1h", JWT_SECRET=SECRET).out.strip()
    assert cli("push", "orders", "1", QUEEND_TOKEN=text).status == 0
    assert cli("queue", "delete", "orders", "--yes", QUEEND_TOKEN=text).status == 7
    claims = cli.ok("token", "inspect", QUEEND_TOKEN=text).json["claims"]
    assert (claims["sub"], claims["role"], claims["exp"] - claims["iat"]) == ("me", "read-write", 3600)
    assert cli.ok("token", "inspect", "-", input=text).json["claims"] == claims
    assert cli("token", "inspect", QUEEND_TOKEN="nothing").status == 2
    assert cli("token", "mint", "me", JWT_SECRET=None).status == 2


def test_a_minted_token_follows_the_names_of_roles(start_daemon, tmp_path):
    names = {"JWT_SECRET": SECRET, "JWT_ROLES_CLAIM": "rank", "JWT_ROLE_ADMIN": "boss", "JWT_ROLE_READ_ONLY": "guest",
             "JWT_ISSUER": "us", "JWT_AUDIENCE": "queend"}
    cli = Cli(start_daemon(JWT_ENABLED="true", **names).url, tmp_path)
    boss, guest, writer = (cli.ok("token", "mint", "me", "--role", role, **names).out.strip()
                           for role in ("admin", "read-only", "read-write"))
    assert cli("push", "orders", "1", QUEEND_TOKEN=writer).status == 0
    assert cli("queue", "list", QUEEND_TOKEN=guest).status == 0
    assert cli("push", "orders", "1", QUEEND_TOKEN=guest).status == 7
    assert cli("queue", "delete", "orders", "--yes", QUEEND_TOKEN=boss).status == 0


def test_a_token_that_the_daemon_would_refuse_is_not_minted(tmp_path):
    cli = Cli("http://127.0.0.1:1", tmp_path)
    for words in (("me", "--for", "0"), ("me", "--for", "-1d"), ("me", "--for", "999ms"), ("s" * 256,), ("é" * 128,)):
        done = cli("token", "mint", *words, JWT_SECRET=SECRET)
        assert (done.status, done.out) == (2, ""), words
    assert cli.ok("token", "mint", "s" * 255, "--for", "1s", JWT_SECRET=SECRET).err == ""
    short = cli.ok("token", "mint", "me", JWT_SECRET="short")
    assert short.err == "JWT_SECRET has fewer than 32 bytes: it can be guessed from a token\n"


def test_what_is_no_token_is_not_read_as_one(tmp_path):
    cli = Cli("http://127.0.0.1:1", tmp_path)
    text = cli.ok("token", "mint", "me", JWT_SECRET=SECRET).out.strip()
    head, claims, _ = text.split(".")
    for wrong in ("abc", "é.é.é", "a.b.c", f"Bearer {text}", "W10.W10.x", f"{head}.{claims}", f"{text}.x",
                  f"{head}.{claims[:8]}\n{claims[8:]}.x"):
        done = cli("token", "inspect", "-", input=wrong)
        assert (done.status, done.out) == (2, "") and "this is no JSON Web Token" in done.err, (wrong, done)
    assert cli("token", "inspect", "-", input=" \n").err == "queend: there is no token\n"


def test_a_minted_token_is_limited_to_queues(start_daemon, tmp_path):
    cli = Cli(start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="limits").url, tmp_path)

    def mint(*queues: str, claim: str | None = "limits"):
        words = [word for one in queues for word in ("--queues", one)]
        return cli("token", "mint", "me", "--role", "read-write", *words, JWT_SECRET=SECRET,
                   QUEEND_JWT_QUEUES_CLAIM=claim)

    text = mint("orders.*=push,pop", "audit=read", "a=b=push").out.strip()
    assert cli.ok("token", "inspect", QUEEND_TOKEN=text).json["claims"]["limits"] == {
        "orders.*": ["push", "pop"], "audit": ["read"], "a=b": ["push"]}
    assert cli("push", "orders.new", "1", QUEEND_TOKEN=text).status == 0
    assert cli("push", "audit", "1", QUEEND_TOKEN=text).status == 7
    for wrong in ("orders", "=push", "orders=", "orders=pull", "orders=push,"):
        assert mint(wrong).status == 2, wrong
    assert "supports the verbs" in mint("orders=pull").err
    assert mint("orders=push", claim=None).status == 2, "the daemon would not limit it"


def test_a_token_of_one_queue_is_enough_for_it(start_daemon, tmp_path):
    """Commands that name a queue ask for nothing of others."""
    cli = Cli(start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="limits").url, tmp_path)
    text = cli("token", "mint", "me", "--role", "admin", "--queues", "mine=push,pop,read,manage", JWT_SECRET=SECRET,
               QUEEND_JWT_QUEUES_CLAIM="limits").out.strip()
    for words, told in ((("push", "mine", "1", "2"), "2 stored"), (("pop", "mine", "-g", "g", "--ack"), ""),
                        (("group", "list", "--queue", "mine"), ""), (("group", "show", "g", "--queue", "mine"), ""),
                        (("group", "seek", "g", "mine", "--end", "--yes"), "moved 1 cursor"),
                        (("group", "delete", "g", "--queue", "mine", "--yes"), "deleted g: 1 partition"),
                        (("queue", "delete", "mine", "--yes"), "deleted mine")):
        done = cli(*words, QUEEND_TOKEN=text)
        assert done.status == 0 and told in done.out, (words, done)
    assert cli("group", "list", QUEEND_TOKEN=text).status == 7
    cli("push", "mine", input="1\n" * 600, QUEEND_TOKEN=text)      # ten a second in a whole minute
    # Figures of a page are at most twenty times as old as writing them took.
    until(lambda: float(re.search(r"^rates +([\d.]+)/s in", cli("queue", "show", "mine", QUEEND_TOKEN=text).out,
                                  re.M)[1]) > 0, "the rate is told")
    looks = cli("token", "mint", "me", "--role", "admin", "--queues", "*=read", JWT_SECRET=SECRET,
                QUEEND_JWT_QUEUES_CLAIM="limits").out.strip()
    assert cli("queue", "list", "-o", "json", QUEEND_TOKEN=looks).json[0]["inPerSecond"] > 0
    assert cli("top", "--once", "-o", "json", QUEEND_TOKEN=looks).json[0]["pushPerSecond"] > 0


def test_what_was_noted_is_shown(cli, client, queue):
    (pushed,) = client.push(queue, 1)
    answer = client.post("/api/v1/traces", {"transactionId": pushed["transaction_id"], "traceNames": [f"{queue} /x"],
                                            "partitionId": pushed["partition_id"], "data": {"text": "charged"}})
    assert answer.status == 201
    assert f"{queue} /x" in cli.ok("trace", "list", "-o", "names").out.splitlines()
    assert [row["data"] for row in cli.ok("trace", "named", f"{queue} /x", "-o", "json").json] == [{"text": "charged"}]
    shown = cli.ok("trace", "show", f"{pushed['partition_id']}/{pushed['transaction_id']}").out
    assert '{"text":"charged"}' in shown
