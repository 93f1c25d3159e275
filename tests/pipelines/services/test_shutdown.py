import os
import signal

import pytest

from pipelines.services.shutdown import Shutdown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_main_thread_at_once_with_success(number):
    with Shutdown().installed() as shutdown, pytest.raises(SystemExit) as ended:
        os.kill(os.getpid(), number)
    assert ended.value.code == 0
    assert shutdown.stop.is_set()


def test_a_shielded_block_is_completed_first():
    done = []

    def write(shutdown):
        with shutdown.shield():
            with shutdown.shield():
                os.kill(os.getpid(), signal.SIGTERM)
            done.append("written")
        done.append("never")

    with Shutdown().installed() as shutdown, pytest.raises(SystemExit):
        write(shutdown)
    assert done == ["written"]


def test_an_error_in_a_shielded_block_is_not_hidden():
    shutdown = Shutdown()

    def fail():
        with shutdown.shield():
            shutdown.stop.set()
            raise ZeroDivisionError("from inside")

    with pytest.raises(ZeroDivisionError, match="from inside"):
        fail()


def test_the_handlers_from_before_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with Shutdown().installed():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
