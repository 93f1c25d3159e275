import random
import threading

from data.errors import RegistryError
from serving.repeater import Repeater


def test_action_is_repeated_until_stopped():
    seen, enough = [], threading.Event()

    def action():
        seen.append(1)
        if len(seen) == 3:
            enough.set()

    repeater = Repeater("test", action, 0.001, random.Random(0))
    repeater.start()
    assert enough.wait(10)
    repeater.stop()
    count = len(seen)
    assert count >= 3
    assert not repeater._thread.is_alive()


def test_stop_does_not_wait_for_the_interval():
    repeater = Repeater("test", lambda: None, 3600, random.Random(0))
    repeater.start()
    repeater.stop(timeout_s=10)
    assert not repeater._thread.is_alive()


def test_action_can_be_had_at_once():
    done = threading.Event()
    repeater = Repeater("test", done.set, 3600, random.Random(0))
    repeater.start()
    repeater.wake()
    assert done.wait(10)
    repeater.stop()


def test_deliberate_error_is_logged_once_and_so_is_its_end(caplog):
    errors = [RegistryError("down"), RegistryError("down"), None]

    def action():
        error = errors.pop(0)
        if error:
            raise error

    repeater = Repeater("registry", action, 1, random.Random(0))
    with caplog.at_level("INFO"):
        for _ in range(3):
            repeater.turn()
    assert [record.getMessage() for record in caplog.records] == [
        "registry: down",
        "registry: recovered",
    ]
