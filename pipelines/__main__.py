"""``python -m pipelines`` is ``colocast``, for starting it with the very same interpreter."""

from pipelines.cli import main

main()
