import pytest

from data.errors import SettingError, UnauthorizedError
from data.push_signature import (
    Delivery,
    checked_delivery,
    secrets_from_file,
    signed_headers,
)

SECRET, OTHER = "s" * 32, "o" * 32
BODY = b'{"name": "colocast-interference"}'
NOW = 1_795_000_000


def headers(**changes):
    return {**signed_headers(SECRET, Delivery("d-1", NOW), BODY), **changes}


def test_signed_push_is_proven():
    assert checked_delivery([SECRET], headers(), BODY, NOW + 5.0) == Delivery("d-1", NOW)


def test_secret_may_be_replaced_without_a_gap():
    assert checked_delivery([OTHER, SECRET], headers(), BODY, NOW)
    both = "v1,bm8= " + headers()["webhook-signature"]
    assert checked_delivery([SECRET], headers(**{"webhook-signature": both}), BODY, NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook-id": "d-2"},
        {"webhook-id": ""},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": signed_headers(OTHER, Delivery("d-1", NOW), BODY)},
    ],
)
def test_whatever_was_not_signed_is_refused(changes):
    given = headers(**{name: str(value) for name, value in changes.items()})
    with pytest.raises(UnauthorizedError, match="no signature by a known secret"):
        checked_delivery([SECRET], given, BODY, NOW)


def test_other_body_than_was_signed_is_refused():
    with pytest.raises(UnauthorizedError, match="no signature"):
        checked_delivery([SECRET], headers(), BODY + b" ", NOW)


@pytest.mark.parametrize("now", [NOW - 61.0, NOW + 61.0, NOW + 1e9, 0.0])
def test_push_of_another_time_is_refused(now):
    with pytest.raises(UnauthorizedError, match="a push of another time"):
        checked_delivery([SECRET], headers(), BODY, now)


@pytest.mark.parametrize("sent", ["", "soon", "-5", "9" * 5_000, "²"])
def test_signed_time_that_is_none_is_refused(sent):
    from data.push_signature import _signature

    signature = _signature(SECRET, "d-1", sent, BODY)
    given = headers(**{"webhook-timestamp": sent, "webhook-signature": signature})
    with pytest.raises(UnauthorizedError, match="a push of another time"):
        checked_delivery([SECRET], given, BODY, NOW)


def test_file_holds_a_secret_a_line(tmp_path):
    path = tmp_path / "secrets"
    path.write_text(f"{SECRET}\n\n{OTHER}\n")
    assert secrets_from_file(path) == (SECRET, OTHER)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"short-but-secret", b"\xff\xfe"])
def test_file_without_a_good_secret_is_refused_and_not_quoted(tmp_path, content):
    path = tmp_path / "secrets"
    path.write_bytes(content)
    with pytest.raises(SettingError, match="push secret file") as caught:
        secrets_from_file(path)
    assert "short-but" not in str(caught.value)
