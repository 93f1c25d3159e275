"""Series of samples from a Prometheus, whole, however long: the one place that asks it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from data.errors import TelemetryError

Floats = NDArray[np.float64]
MOST_POINTS = 10_000
"""Of one series in one answer. Prometheus refuses a range query with over 11,000 steps."""
RAW_CHUNK_S = 3 * 3600.0
"""Raw samples are asked for in parts of this length: at one a second as many as MOST_POINTS."""
RETRIES = 2


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one series.

    Attributes
    ----------
    labels : mapping of str to str
        The name is among them, as ``__name__``, where there is one.
    times : array of shape (n,), float64
        Seconds since 1970, UTC; rising, each once.
    values : array of shape (n,), float64
        NaN where the value was none or no number.
    """

    labels: Mapping[str, str]
    times: Floats
    values: Floats


class SampleSource(Protocol):
    """Where series come from: a Prometheus, or the tests' memory."""

    def samples(self, selector: str, start_time: float, finish_time: float) -> Sequence[Series]:
        """Return all samples as they were scraped."""
        ...

    def steps(
        self, query: str, start_time: float, finish_time: float, step_s: float
    ) -> Sequence[Series]:
        """Return an expression's values at every step."""
        ...


class PrometheusSource:
    """A Prometheus, or what speaks its HTTP API.

    Parameters
    ----------
    url : str
        Such as ``http://prometheus:9090``.
    token : str, optional
        Bearer token.
    timeout_s : float
        For one query; a query that fails by the network is tried twice more.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 30.0) -> None:
        from prometheus_api_client import PrometheusConnect  # noqa: PLC0415 - it imports slowly
        from urllib3.util import Retry  # noqa: PLC0415

        self.url = url.rstrip("/")
        headers = None if token is None else {"Authorization": f"Bearer {token}"}
        self._client = PrometheusConnect(
            self.url,
            headers=headers,
            retry=Retry(RETRIES, backoff_factor=0.2, status_forcelist=(502, 503, 504)),
            timeout=timeout_s,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def samples(self, selector: str, start_time: float, finish_time: float) -> Sequence[Series]:
        """Return all samples of the series that `selector` names, as they were scraped.

        Raw samples and not steps: a step repeats the last sample for up to five minutes into a
        gap, and shows one that fell between two steps not at all.

        Parameters
        ----------
        selector : str
            PromQL, such as ``DCGM_FI_DEV_FB_USED{UUID="GPU-1"}``.
        start_time, finish_time : float
            Seconds since 1970, UTC; both ends are included.

        Raises
        ------
        TelemetryError
            It is out of reach, refuses the query or answers with something else.
        """
        parts: list[Any] = []
        for left, right in _chunks(start_time, finish_time, RAW_CHUNK_S):
            # From version 3 on a range excludes its left end: ask for a little more.
            window = f"{selector}[{max(1, round((right - left) * 1000) + 1)}ms]"
            with _faults(self.url):
                parts += self._client.custom_query(window, params={"time": f"{right:.3f}"})
        return _merged(parts, start_time, finish_time)

    def steps(
        self, query: str, start_time: float, finish_time: float, step_s: float
    ) -> Sequence[Series]:
        """Return an expression's values at every step, however many steps that are.

        Parameters
        ----------
        query : str
            PromQL.
        start_time, finish_time : float
            Seconds since 1970, UTC; both ends are included.
        step_s : float
            Seconds (> 0).

        Raises
        ------
        TelemetryError
            As `samples`.
        """
        parts: list[Any] = []
        for left, right in _chunks(start_time, finish_time, (MOST_POINTS - 1) * step_s, step_s):
            # The client rounds its moments to whole seconds, but not what it is given here.
            exact = {"start": f"{left:.3f}", "end": f"{right:.3f}"}
            ends = (datetime.fromtimestamp(moment, UTC) for moment in (left, right))
            with _faults(self.url):
                parts += self._client.custom_query_range(query, *ends, f"{step_s:g}", params=exact)
        return _merged(parts, start_time, finish_time)


def selector(names: Sequence[str], labels: Mapping[str, str | Sequence[str]]) -> str:
    r"""Return the PromQL selector of all these metrics whose labels have one of these values.

    Examples
    --------
    >>> selector(["up"], {"UUID": ["GPU-1", "GPU-2"], "GPU_I_ID": ""})
    '{__name__=~"up",UUID=~"GPU-1|GPU-2",GPU_I_ID=""}'
    >>> selector(["up"], {"job_id": 'a"b\\c'})
    '{__name__=~"up",job_id="a\\"b\\\\c"}'
    """
    matches = [f"__name__=~{_any_of(names)}"]
    for label, value in labels.items():
        one = f"={_quoted(value)}" if isinstance(value, str) else f"=~{_any_of(value)}"
        matches.append(f"{label}{one}")
    return "{" + ",".join(matches) + "}"


def _any_of(texts: Sequence[str]) -> str:
    # Only what means something to RE2: Python also escapes spaces and dashes.
    return _quoted("|".join(re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", text) for text in texts))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _chunks(
    start: float, finish: float, most_s: float, step_s: float = 0.0
) -> Iterator[tuple[float, float]]:
    """Yield parts of at most `most_s`; each begins `step_s` after the one before ended.

    Examples
    --------
    >>> list(_chunks(0, 10, 4, 2))
    [(0, 4), (6, 10)]
    >>> list(_chunks(0, 10, 6)), list(_chunks(3, 3, 6))
    ([(0, 6), (6.0, 10)], [(3, 3)])
    """
    left = start
    while True:
        right = min(left + most_s, finish)
        yield left, right
        left = right + step_s
        if left > finish or right == finish:
            return


def _merged(parts: Sequence[Any], start: float, finish: float) -> Sequence[Series]:
    """Return one series for each set of labels, from the parts of several answers."""
    points: defaultdict[tuple[tuple[str, str], ...], list[Any]] = defaultdict(list)
    for part in parts:
        points[tuple(sorted(part["metric"].items()))] += part["values"]
    return [_series(dict(labels), found, start, finish) for labels, found in points.items()]


def _series(labels: Mapping[str, str], points: list[Any], start: float, finish: float) -> Series:
    times = np.array([point[0] for point in points], dtype=np.float64)
    values = np.array([_number(point[1]) for point in points], dtype=np.float64)
    times, first = np.unique(times, return_index=True)
    # Prometheus keeps milliseconds, and our moments are finer.
    within = (times >= start - 0.001) & (times <= finish + 0.001)
    return Series(labels, times[within], values[first][within])


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return float("nan")


@contextmanager
def _faults(url: str) -> Iterator[None]:
    import requests  # noqa: PLC0415
    from prometheus_api_client import PrometheusApiClientException  # noqa: PLC0415

    try:
        yield
    except PrometheusApiClientException as error:
        found = " ".join(str(error).split())[:300]
        raise TelemetryError(f"{url} refused a query: {found}") from error
    except (KeyError, TypeError, requests.exceptions.JSONDecodeError) as error:
        raise TelemetryError(f"{url} answers, but not as a Prometheus does: {error!r}") from error
    except requests.RequestException as error:
        wanted = "start it, or correct the address; nothing was lost, ask again later"
        raise TelemetryError(f"{url} does not answer ({type(error).__name__}): {wanted}") from error
