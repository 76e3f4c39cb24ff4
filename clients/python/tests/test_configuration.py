"""Where the server is, and how its refusals look."""

import importlib.metadata
import importlib.resources

import pytest

from doclock import (
    DoclockError,
    Forbidden,
    LockManager,
    LockTimeout,
    NotConfigured,
    ServerBackend,
    ServerUnreachable,
    Unauthorized,
    backends,
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("DOCLOCK_URL", raising=False)
    monkeypatch.delenv("DOCLOCK_TOKEN", raising=False)


def test_the_server_is_named_by_the_environment(server, name, monkeypatch):
    manager = LockManager(name)  # before the environment is set, as at import
    monkeypatch.setenv("DOCLOCK_URL", server.url + "/")
    monkeypatch.setenv("DOCLOCK_TOKEN", server.token + "\n")
    with manager.lock():
        room, document = name.split("/")
        assert server.get(f"/api/documents/{room}/{document}/lock")["lock"]["holder"]["owner_id"] == "tester"


def test_arguments_come_before_the_environment(server, name, monkeypatch):
    monkeypatch.setenv("DOCLOCK_URL", "http://nowhere.test")
    monkeypatch.setenv("DOCLOCK_TOKEN", "wrong")
    with LockManager(name, url=server.url, token=server.token).lock():
        pass


def test_a_token_may_be_a_function(server, name):
    asked = []
    with LockManager(name, url=server.url, token=lambda: asked.append(1) or server.token).lock():
        pass
    assert len(asked) >= 2, "it is asked for every request"


def test_many_tokens_do_not_pile_up(server, name):
    for number in range(80):
        with pytest.raises(Unauthorized):
            LockManager(name, url=server.url, token=f"token-{number}").await_lock(timeout=0)
    assert len(backends._servers) <= backends.MOST_SERVERS


def test_memory_needs_no_settings(name):
    with LockManager(name, backend="memory").lock():
        with pytest.raises(LockTimeout):
            LockManager(name, url="memory://").await_lock(timeout=0)


def test_an_address_of_memory_is_this_process(name, monkeypatch):
    monkeypatch.setenv("DOCLOCK_URL", "memory://")
    with LockManager(name).lock() as held:
        assert held.fencing_token == 1


def test_what_is_missing_is_said(monkeypatch):
    with pytest.raises(NotConfigured, match="DOCLOCK_URL"):
        LockManager("job").await_lock()
    monkeypatch.setenv("DOCLOCK_URL", "http://127.0.0.1:1")
    with pytest.raises(NotConfigured, match="DOCLOCK_TOKEN"):
        LockManager("job").await_lock()


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://", "not an address"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(NotConfigured, match="must be like"):
        LockManager("job", url=url, token="t").await_lock()


@pytest.mark.parametrize("token", ["wörter", "a\nb", " "])
def test_a_token_that_is_none_is_refused(server, token):
    with pytest.raises(NotConfigured, match="token"):
        LockManager("job", url=server.url, token=token).await_lock()


def test_an_unknown_backend_is_refused():
    with pytest.raises(NotConfigured, match="'redis'"):
        LockManager("job", backend="redis").await_lock()


def test_refusals_have_the_servers_codes(server, name):
    with pytest.raises(Unauthorized) as caught:
        LockManager(name, url=server.url, token="nonsense").await_lock()
    assert (caught.value.code, caught.value.status, caught.value.retryable) == ("TOKEN_INVALID", 401, False)
    with pytest.raises(Forbidden) as caught:
        LockManager(name, url=server.url, token=server.token_for("guest", "viewer")).await_lock()
    assert caught.value.code == "ROLE_FORBIDS"
    with pytest.raises(DoclockError) as caught:
        LockManager(name, url=server.url, token=server.token, ttl=301).await_lock()
    assert (caught.value.code, caught.value.problem["field"]) == ("INVALID_FIELD", "ttl_seconds")


def test_a_server_that_is_not_there_is_waited_for_and_named(name):
    manager = LockManager(name, url="http://127.0.0.1:1", token="t")
    with pytest.raises(LockTimeout, match="http://127.0.0.1:1 did not answer") as caught:
        manager.await_lock(timeout=0.3)
    assert isinstance(caught.value.__cause__, ServerUnreachable)
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_no_message_has_the_token_in_it(server, name, caplog):
    caplog.set_level("DEBUG")
    secret = server.token[:-3] + "bad"
    with pytest.raises(Unauthorized) as caught:
        LockManager(name, url=server.url, token=secret).await_lock()
    backend = ServerBackend(server.url, secret)
    assert secret not in str(caught.value) + repr(backend) + repr(LockManager(name, backend=backend)) + caplog.text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("refresh", "/api/documents/locks/refresh/lock"),
        ("minutes/intro", "/api/documents/minutes/intro/lock"),
        ("files/a/b", "/api/documents/files/a%2Fb/lock"),
        ("議事録/第1回 ?", "/api/documents/%E8%AD%B0%E4%BA%8B%E9%8C%B2/%E7%AC%AC1%E5%9B%9E%20%3F/lock"),
    ],
)
def test_a_name_is_a_document_of_the_room_locks_unless_it_names_one(name, path):
    assert LockManager(name)._wish.place.path == path


def test_any_name_reaches_the_server_as_it_is(server, name):
    strange = name.split("/")[0] + "/a/b %2F? 議事録"
    with LockManager(strange, backend=server.backend()).lock():
        items = server.get(f"/api/rooms/{name.split('/')[0]}/locks")["items"]
    assert [item["document"] for item in items] == ["a/b %2F? 議事録"]


def test_the_installed_package_tells_type_checkers_that_it_is_typed():
    assert importlib.resources.files("doclock").joinpath("py.typed").is_file()


def test_it_depends_on_httpx_alone():
    needed = importlib.metadata.requires("doclock")
    assert [requirement.split(">")[0].split("<")[0] for requirement in needed] == ["httpx"]
