"""One registered version, as a reader of the registry sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from mlflow.entities import Run
from mlflow.entities.model_registry import ModelVersion

from pipelines.registering.run_log import DIGEST_TAG


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """One version as the registry lists it.

    Attributes
    ----------
    created_time : float
        Seconds since 1970, UTC.
    digest : str or None
        As ``serving.champions.files.bundle_digest`` gives it; None on a version that is not ours.
    """

    name: str
    version: str
    created_time: float
    digest: str | None
    run_id: str | None
    aliases: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, version: ModelVersion, run: Run | None, aliases: Mapping[str, str]) -> Self:
        """Return what MLflow says of a version.

        Parameters
        ----------
        version : ModelVersion
        run : Run or None
            The run that made it, for its metrics.
        aliases : mapping of str to str
            The version that each alias of the model points at.
        """
        number = str(version.version)
        return cls(
            name=version.name,
            version=number,
            created_time=version.creation_timestamp / 1000,
            digest=version.tags.get(DIGEST_TAG),
            run_id=version.run_id,
            aliases=tuple(sorted(alias for alias, at in aliases.items() if at == number)),
            metrics=dict(run.data.metrics) if run else {},
            tags=dict(version.tags),
        )
