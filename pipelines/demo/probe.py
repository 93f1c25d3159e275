"""Ask the service for one prediction again and again, so that a swap under load is really seen."""

import json
import threading
from collections import Counter
from types import TracebackType
from typing import Self

import urllib3

from data.domain import Pair
from data.wire import to_json

PERIOD_S = 0.02
TIMEOUT_S = 5.0


class Probe:
    """A client in a thread that counts answers by model version, and failures.

    Parameters
    ----------
    url : str
        The service's address.
    pair : Pair
        What to ask ``/v1/slowdown``.

    Attributes
    ----------
    answered : Counter of str
        Answers by ``model_version``.
    failures : list of str
        What went wrong, one entry a request that was not answered with 200.
    """

    def __init__(self, url: str, pair: Pair) -> None:
        self.answered: Counter[str] = Counter()
        self.failures: list[str] = []
        self._url = f"{url}/v1/slowdown"
        self._body = json.dumps({"pairs": [to_json(pair)]}).encode()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(2 * TIMEOUT_S)

    def _run(self) -> None:
        pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT_S)
        while not self._stop.wait(PERIOD_S):
            self._ask(pool)

    def _ask(self, pool: urllib3.PoolManager) -> None:
        headers = {"Content-Type": "application/json"}
        try:
            answer = pool.request("POST", self._url, body=self._body, headers=headers)
            if answer.status != 200:
                self.failures.append(f"{answer.status}: {answer.data[:200]!r}")
                return
            self.answered[answer.json()["estimates"][0]["model_version"]] += 1
        except (urllib3.exceptions.HTTPError, ValueError, KeyError, IndexError) as error:
            self.failures.append(repr(error))
