import pytest

from data.errors import SettingError, UnauthorizedError
from serving.web.tokens import Tokens, tokens_from_file

TOKEN = "a" * 32


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who\n{TOKEN}\n{'b' * 32} predict\n\n")
    return path


def test_without_a_file_no_token_is_wanted():
    tokens_from_file(None).check(None, "admin")


def test_token_without_scopes_grants_all(token_file):
    for scope in ("predict", "report", "admin"):
        tokens_from_file(token_file).check(b"Bearer " + TOKEN.encode(), scope)


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Bearer", b"Bearer x", b"Basic " + TOKEN.encode(), TOKEN.encode(), b"Bearer \xff"],
)
def test_other_headers_are_refused(token_file, header):
    with pytest.raises(UnauthorizedError, match="wanted a bearer token"):
        tokens_from_file(token_file).check(header, "predict")


def test_scope_that_is_not_granted_is_refused(token_file):
    tokens = tokens_from_file(token_file)
    tokens.check(b"bearer " + b"b" * 32, "predict")
    with pytest.raises(UnauthorizedError, match="'report'"):
        tokens.check(b"Bearer " + b"b" * 32, "report")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "found no token"), ("short", "line 1"), (f"{TOKEN}\n{TOKEN} root", "line 2")],
)
def test_file_at_fault_is_refused_without_showing_a_token(tmp_path, text, message):
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(SettingError, match=message) as caught:
        tokens_from_file(path)
    assert TOKEN not in str(caught.value)


def test_absent_file_is_refused(tmp_path):
    with pytest.raises(SettingError, match="No such file"):
        tokens_from_file(tmp_path / "absent")


def test_no_token_is_kept_in_clear(token_file):
    assert TOKEN not in repr(tokens_from_file(token_file))
    assert Tokens().scopes == {}
