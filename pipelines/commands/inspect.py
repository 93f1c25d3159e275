"""``colocast inspect``: read a model's structure from its PyTorch code."""

import json
from pathlib import Path

import click


@click.command()
@click.argument("factory", metavar="MODULE:FACTORY")
@click.option(
    "--inputs", help="Function of a batch size; default: example_inputs, if there is one."
)
@click.option("--batch-size", type=int, help="Default: the default of the inputs' argument.")
@click.option(
    "--optimizer",
    help="Class of torch.optim, or a function of the parameters; default: example_optimizer.",
)
@click.option("--precision", help="Of activations, such as amp; default: that of the weights.")
@click.option("--family", help="Default: the model's class in small letters.")
@click.option("--gpus", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "yaml"]),
    default="json",
    show_default=True,
)
@click.option("--details", is_flag=True, help="Add every table, and sizes in MiB.")
def command(  # noqa: PLR0913 - one argument an option
    *,
    factory: str,
    inputs: str | None,
    batch_size: int | None,
    optimizer: str | None,
    precision: str | None,
    family: str | None,
    gpus: int,
    form: str,
    details: bool,
) -> None:
    """Print what the model that FACTORY of MODULE builds is made of; nothing is allocated.

    The answer is what `colocast submit --structure` and the service take. PyTorch has to be
    installed: pip install 'colocast[torch]'. The code runs in this process, on the meta device.
    """
    import yaml

    from pipelines.inspecting.inspection import (
        Ask,
        details_document,
        inspected,
        structure_document,
    )

    found = inspected(
        Ask(factory, Path.cwd(), inputs, batch_size, optimizer, family, precision, gpus)
    )
    document = details_document(found) if details else structure_document(found.structure)
    if form == "yaml":
        click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
    else:
        click.echo(json.dumps(document))
