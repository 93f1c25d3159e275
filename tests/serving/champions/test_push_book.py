import threading

import pytest

from data.errors import OverloadedError, RegistryError, UnauthorizedError
from data.push_signature import Delivery
from serving.champions import push_book
from serving.champions.push_book import PushBook

NOW = 1_795_000_000


@pytest.fixture
def book(tmp_path):
    return PushBook(tmp_path / "home" / "pushes.json")


def test_each_push_changes_the_mark(book):
    marks = [book.mark()]
    for number in range(3):
        book.add(Delivery(f"d-{number}", NOW))
        marks.append(book.mark())
    assert marks[0] is None
    assert len(set(marks)) == 4


def test_repeated_push_is_refused_also_by_another_worker(book):
    book.add(Delivery("d", NOW))
    with pytest.raises(UnauthorizedError, match="seen before"):
        PushBook(book.path).add(Delivery("d", NOW))


def test_pushes_that_nobody_could_repeat_are_forgotten(book):
    book.add(Delivery("old", NOW))
    book.add(Delivery("new", NOW + 1_000))
    assert "old" not in book.path.read_text()


def test_pushes_are_bounded(book, monkeypatch):
    monkeypatch.setattr(push_book, "MOST_KEPT", 2)
    book.add(Delivery("a", NOW))
    book.add(Delivery("b", NOW))
    with pytest.raises(OverloadedError, match="found 2 pushes lately"):
        book.add(Delivery("c", NOW))


def test_of_many_at_once_each_counts_once(book):
    taken = []

    def add(number):
        try:
            book.add(Delivery(f"d-{number % 4}", NOW))
            taken.append(number % 4)
        except UnauthorizedError:
            pass

    threads = [threading.Thread(target=add, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [0, 1, 2, 3]


@pytest.mark.parametrize("text", ["", "[]", '{"d": "x"}', "[" * 100_000, "null"])
def test_broken_book_is_begun_anew(book, text):
    book.path.parent.mkdir()
    book.path.write_text(text)
    book.add(Delivery("d", NOW))
    with pytest.raises(UnauthorizedError, match="seen before"):
        book.add(Delivery("d", NOW))


def test_push_that_cannot_be_written_down_is_not_taken(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryError, match="push not taken"):
        PushBook(tmp_path / "file" / "pushes.json").add(Delivery("d", NOW))
