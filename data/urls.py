"""Addresses as they may be shown: in a log, in an error, on a status page."""

from urllib.parse import urlsplit, urlunsplit


def without_credentials(url: str) -> str:
    """Return `url` without user name, password, query and fragment: any of them may be a secret.

    Examples
    --------
    >>> without_credentials("https://ada:pa55@mlflow.example:5000/base?token=t#x")
    'https://mlflow.example:5000/base'
    >>> without_credentials("sqlite:////srv/mlflow.db")
    'sqlite:////srv/mlflow.db'
    >>> without_credentials("http://[::1")
    'an address that cannot be read'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    if not parts.netloc and not parts.query and not parts.fragment:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
