"""Options of commands that take a number within a range."""

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def number_option(
    name: str, default: float, text: str, *, least: float = 0, most: float | None = None
) -> Callable[[Command], Command]:
    """Return a decorator that adds an option whose help shows its default and its range.

    Parameters
    ----------
    name : str
        As it is typed.
    default : int or float
        An option with a whole number takes whole numbers only.
    text : str
        Of the help.
    least, most : float
        Both may be given.
    """
    is_whole = isinstance(default, int)
    kind: Callable[..., click.ParamType] = click.IntRange if is_whole else click.FloatRange
    return click.option(name, type=kind(least, most), default=default, show_default=True, help=text)
