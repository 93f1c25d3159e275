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
    kind = click.IntRange if isinstance(default, int) else click.FloatRange
    span = kind(least, most)  # type: ignore[arg-type] # of whole numbers both are whole
    return click.option(name, type=span, default=default, show_default=True, help=text)
