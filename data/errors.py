"""Every deliberate error, in one tree; each also derives from the builtin it refines."""

from collections.abc import Iterable

SHOWN = 5


def shown(values: Iterable[object]) -> str:
    """Return at most five of `values`, sorted as text, for a message.

    Examples
    --------
    >>> shown(["b", "a"])
    "'a', 'b'"
    >>> shown(range(7))
    '0, 1, 2, 3, 4 and 2 more'
    """
    texts = sorted(repr(value) for value in values)
    head = ", ".join(texts[:SHOWN])
    return head if len(texts) <= SHOWN else f"{head} and {len(texts) - SHOWN} more"


class ColocastError(Exception):
    """The base of every error that colocast raises on purpose."""

    exit_code = 2


class TableError(ColocastError, ValueError):
    """A table does not follow its schema; names the file, the row and what was wanted."""

    def __init__(self, source: str, found: str, wanted: str, row: object = None) -> None:
        self.source, self.found, self.wanted, self.row = source, found, wanted, row
        where = source if row is None else f"{source}, row {row}"
        super().__init__(f"{where}: found {found}, wanted {wanted}")


class WireError(ColocastError, ValueError):
    """A JSON document does not describe the domain value that was wanted; names the field."""

    def __init__(self, field: str, found: str, wanted: str) -> None:
        self.field, self.found, self.wanted = field, found, wanted
        super().__init__(
            f"{field}: found {found}, wanted {wanted}"
            if field
            else f"found {found}, wanted {wanted}"
        )


class SettingError(ColocastError, ValueError):
    """A setting or an argument is out of range."""


class UnknownProfileError(ColocastError, KeyError):
    """A job key was never profiled exclusively."""

    def __init__(self, job_keys: Iterable[object]) -> None:
        self.job_keys = tuple(job_keys)
        super().__init__(f"no exclusive profile of {shown(self.job_keys)}; wanted one run each")

    def __str__(self) -> str:
        return str(self.args[0])


class MissingBaselineError(ColocastError, ValueError):
    """A colocated run has no exclusive run of the same job key on the same GPU model."""

    def __init__(self, job_keys: Iterable[object]) -> None:
        self.job_keys = tuple(job_keys)
        super().__init__(f"no exclusive run of {shown(self.job_keys)}; wanted at least one each")


class RegistryError(ColocastError, RuntimeError):
    """The model registry is out of reach, or a version in it cannot be used."""


class NoChampionError(RegistryError):
    """No version carries the alias ``champion``, neither in the registry nor in the cache."""


class BadModelError(RegistryError):
    """A version failed its checks (signature, feature spec, stored examples, digest)."""


class JobLogError(ColocastError, RuntimeError):
    """The job log cannot be read or written now; nothing was lost or half-written."""


class JobConflictError(JobLogError, ValueError):
    """A finished job was reported before under the same key, with another content."""

    def __init__(self, keys: Iterable[tuple[str, int]]) -> None:
        self.keys = tuple(keys)
        super().__init__(
            f"already logged with another content: (job_id, attempt) {shown(self.keys)};"
            " wanted a new attempt number, or exactly what was logged; nothing was appended"
        )


class PredictionError(ColocastError, RuntimeError):
    """The prediction endpoint did not give a usable answer within the deadline."""


class RequestError(ColocastError, ValueError):
    """A request does not follow the service's wire format; names at most five fields."""

    def __init__(self, *faults: tuple[str, str, str]) -> None:
        self.faults = faults[:SHOWN]  # field, found, wanted
        texts = [
            f"{field or 'body'}: found {found}, wanted {want}" for field, found, want in faults
        ]
        super().__init__("; ".join(texts[:SHOWN]))


class RequestTooLargeError(RequestError):
    """A request body is larger than the service takes."""


class MediaTypeError(RequestError):
    """A request body is not in a format that its route takes."""


class UnauthorizedError(ColocastError, PermissionError):
    """A request carries no bearer token, or one that is not known here."""


class OverloadedError(ColocastError, RuntimeError):
    """The service has more requests in hand than it can answer in time."""


class SlowRequestError(ColocastError, TimeoutError):
    """A request did not arrive as a whole in the time that the service has for it."""


class PredictionTimeoutError(PredictionError, TimeoutError):
    """No complete answer had come when the deadline passed."""


class PredictionUnavailableError(PredictionError, ConnectionError):
    """The endpoint is unreachable, fails by itself (5xx), or is left alone after failures.

    `retry_after_s` is when it wants to be asked again (s from now), where it said so.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class PredictionRefusedError(PredictionError, ValueError):
    """The endpoint refused this request (4xx); asking again in the same way is no use."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class PredictionInvalidError(PredictionError, ValueError):
    """The endpoint answered, but not with what was asked for."""


class SpoolError(ColocastError, RuntimeError):
    """The spool of submitted jobs cannot be read or written now; nothing was half-written."""


class DeadlineError(ColocastError, TimeoutError):
    """The service did not answer within its own deadline."""


class ProfilerError(ColocastError, RuntimeError):
    """The profiler cannot measure as asked."""


class ClusterError(ColocastError, RuntimeError):
    """A cluster refused or failed an action."""


class TelemetryError(ColocastError, ConnectionError):
    """A Prometheus is out of reach, or does not answer as one."""


class ServiceStartError(ColocastError, RuntimeError):
    """A service did not start: port taken, disk full, database locked."""
