"""From a trained bundle and two profiles to the slowdown of a job beside a neighbour; pure."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.domain import Source
from data.errors import UnknownProfileError
from features.pairs import profile_positions
from serving.inference.bundle import Bundle, Calibration, interval_frame
from serving.inference.interference_rows import forest_question

PROFILES_TABLE = "profiles"
SEEN_TABLE = "seen"
SEEN_FAMILIES_TABLE = "seen_families"
MEASURED_TABLE = "measured"
COLD_START_TABLE = "cold_start"
NEW_PAIR, NEW_FAMILY_PAIR = "pair", "family_pair"
"""How new a pair of learnt job keys is: its families were learnt together; or only apart."""

MEASURED, FEW_MEASURED = "measured", "few_measured"
"""A new job that has run beside at least three others since; or beside one or two."""

NEW_CONFIGURATION, NEW_FAMILY = "configuration", "family"
"""A job that was neither learnt from nor measured; nor was any of its family."""

NEW_GPU_MODEL = "gpu_model"
"""Nothing was learnt on this GPU model, nor were both jobs measured there since."""

OF_FAMILY = " of "
"""Between a calibration group and the family of the slowed job, in a group of its own."""

WELL_MEASURED = 3  # neighbours

ESTIMATE_COLUMNS = ["value", "lower", "upper", "in_domain", "source"]
_SIDES = ["job_key", "neighbour_key"]


def slowdown_estimates(
    bundle: Bundle,
    pairs: pd.DataFrame,
    unknown: Literal["cold_start", "refuse"] = "cold_start",
) -> pd.DataFrame:
    """Predict how much each job would slow down beside its neighbour.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-interference``. Its table ``profiles`` may be replaced by one of other jobs,
        learnt from or not; ``seen`` and ``cold_start`` stay as training left them.
    pairs : DataFrame of shape (n, 3), any index
        ``job_key`` (the one slowed down), ``neighbour_key`` and ``gpu_model``.
    unknown : {"cold_start", "refuse"}
        What a job without a profile gets: the slowdowns that were measured of the other job, or
        of all jobs, beside anyone; or an error.

    Returns
    -------
    DataFrame of shape (n, 5), indexed as `pairs`
        ``value``, ``lower``, ``upper`` (dimensionless, 1 is none; floor <= lower <= value <=
        upper), ``in_domain`` (bool; never on a GPU model that is new) and ``source`` (``model``
        or ``cold_start``).

    Raises
    ------
    UnknownProfileError
        If a job has no profile on that GPU model and `unknown` is ``refuse``.
    """
    profiles = bundle.tables[PROFILES_TABLE]
    at = profile_positions(profiles, pairs)
    known = (at[:, 0] >= 0) & (at[:, 1] >= 0)
    if unknown == "refuse" and not known.all():
        keys = pairs[_SIDES].to_numpy(dtype=object)
        raise UnknownProfileError(sorted(set(keys[at < 0])))
    parts = []
    if known.any() or not len(pairs):
        parts.append(_by_model(bundle, pairs.loc[known], at[known]))
    if not known.all():
        parts.append(_cold_start(bundle, pairs.loc[~known], at[~known] >= 0))
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)]))
    return pd.concat(parts).iloc[order]


def novelty(bundle: Bundle, at: NDArray[np.intp]) -> NDArray[np.str_]:
    """Return how new each pair is to the bundle.

    Parameters
    ----------
    bundle : Bundle
        Without the table ``seen`` everything is new.
    at : array of shape (n, 2), intp
        Row numbers in the table ``profiles`` of the job and of the neighbour.

    Returns
    -------
    array of shape (n,), str
        The first that holds of ``pair``, ``family_pair``, ``measured``, ``few_measured``,
        ``gpu_model``, ``configuration`` and ``family``.
    """
    return Novelty.of(bundle).kinds(at)


@dataclass(frozen=True, slots=True)
class Novelty:
    """How new each of m profiled jobs is to a bundle.

    Attributes
    ----------
    is_new, is_old_family : bool array of shape (m,)
        Whether the key was not learnt from, or nothing on its GPU model; whether its family was.
    is_old_gpu : bool array of shape (m,)
        Whether anything was learnt on its GPU model; True where `seen` does not tell.
    neighbours : float64 array of shape (m,)
        Beside how many the job was measured since training.
    family : intp array of shape (m,)
        Position in `met`.
    met : bool array of shape (f, f)
        Which families were learnt together; of the last nothing is known.
    """

    is_new: NDArray[np.bool_]
    is_old_family: NDArray[np.bool_]
    is_old_gpu: NDArray[np.bool_]
    neighbours: NDArray[np.float64]
    family: NDArray[np.intp]
    met: NDArray[np.bool_]

    @classmethod
    def of(cls, bundle: Bundle) -> "Novelty":
        """Return how new the bundle's profiles are to it."""
        profiles = bundle.tables[PROFILES_TABLE]
        seen = bundle.tables.get(SEEN_TABLE, pd.DataFrame({"job_key": [], "family": []}))
        is_old_gpu = _on_old_gpus(seen, profiles)
        return cls(
            ~profiles["job_key"].isin(seen["job_key"]).to_numpy(np.bool_) | ~is_old_gpu,
            profiles["family"].isin(seen["family"]).to_numpy(np.bool_),
            is_old_gpu,
            _measured(bundle, profiles),
            *_families_met(bundle, profiles),
        )

    def kinds(self, at: NDArray[np.intp]) -> NDArray[np.str_]:
        """Return the kind of each pair; see `novelty`."""
        is_new = self.is_new[at]
        least = np.where(is_new, self.neighbours[at], np.inf).min(axis=1)
        old = ~is_new.any(axis=1)
        ladder = {
            NEW_PAIR: old & self.met[self.family[at[:, 0]], self.family[at[:, 1]]],
            NEW_FAMILY_PAIR: old,
            MEASURED: least >= WELL_MEASURED,
            FEW_MEASURED: least >= 1,
            NEW_GPU_MODEL: ~self.is_old_gpu[at[:, 0]],
            NEW_CONFIGURATION: self.is_old_family[at].all(axis=1),
        }
        return np.select(list(ladder.values()), list(ladder), NEW_FAMILY)


def _on_old_gpus(seen: pd.DataFrame, profiles: pd.DataFrame) -> NDArray[np.bool_]:
    if "gpu_model" not in seen:
        return np.ones(len(profiles), dtype=np.bool_)
    return profiles["gpu_model"].isin(seen["gpu_model"]).to_numpy(np.bool_)


def _measured(bundle: Bundle, profiles: pd.DataFrame) -> NDArray[np.float64]:
    """Return beside how many neighbours each profiled job was measured since training."""
    if MEASURED_TABLE not in bundle.tables:
        return np.zeros(len(profiles))
    counts = bundle.tables[MEASURED_TABLE].set_index(["job_key", "gpu_model"])["neighbours"]
    jobs = pd.MultiIndex.from_frame(profiles[["job_key", "gpu_model"]])
    return counts.reindex(jobs).fillna(0).to_numpy(np.float64)


def _families_met(
    bundle: Bundle, profiles: pd.DataFrame
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return each profile's family, and which were learnt together; without the table all."""
    if SEEN_FAMILIES_TABLE not in bundle.tables:
        return np.zeros(len(profiles), dtype=np.intp), np.ones((1, 1), dtype=np.bool_)
    met = bundle.tables[SEEN_FAMILIES_TABLE]
    names = pd.Index(met["family"].unique())
    together = np.zeros((len(names) + 1, len(names) + 1), dtype=np.bool_)
    sides = [names.get_indexer(met[side]) for side in ("family", "neighbour_family")]
    together[sides[0], sides[1]] = True
    return names.get_indexer(profiles["family"]), together


def calibration_groups(
    calibration: Calibration, kinds: NDArray[np.str_], gpu_models: pd.Series, families: pd.Series
) -> pd.Series:
    """Return the narrowest calibrated group of each pair: novelty, GPU model, the job's family.

    Parameters
    ----------
    calibration : Calibration
    kinds : array of shape (n,), str
        As `novelty` gives them.
    gpu_models, families : Series of str, length n, one index
        Of the slowed jobs.

    Examples
    --------
    >>> known = dict.fromkeys(["pair", "pair/v100", "pair of VGG"], (-1, 1))
    >>> models, families = pd.Series(["v100", "k80", "k80"]), pd.Series(["VGG", "VGG", "LSTM"])
    >>> kinds = np.array(["pair"] * 3)
    >>> calibration_groups(Calibration(0.9, (0, 0), known), kinds, models, families).tolist()
    ['pair/v100', 'pair of VGG', 'pair']
    """
    known = list(calibration.groups)
    general = pd.Series(kinds, index=gpu_models.index, dtype="str")
    narrow = general + "/" + gpu_models.astype("str")
    narrow = narrow.where(narrow.isin(known), general)
    own = narrow + OF_FAMILY + families.astype("str")
    return own.where(own.isin(known), narrow)


def _by_model(bundle: Bundle, pairs: pd.DataFrame, at: NDArray[np.intp]) -> pd.DataFrame:
    question = forest_question(bundle, pairs)
    kinds = novelty(bundle, at)
    families = bundle.tables[PROFILES_TABLE]["family"].iloc[at[:, 0]].set_axis(pairs.index)
    groups = calibration_groups(bundle.spec.calibration, kinds, pairs["gpu_model"], families)
    estimates = interval_frame(bundle.spec, question.answers(bundle), question.rows, groups)
    is_known = estimates["in_domain"] & (kinds != NEW_GPU_MODEL)
    return estimates.assign(in_domain=is_known, source=str(Source.MODEL))[ESTIMATE_COLUMNS]


def _cold_start(bundle: Bundle, pairs: pd.DataFrame, is_known: NDArray[np.bool_]) -> pd.DataFrame:
    """Answer from measured slowdowns beside the known neighbour, of the known job, or of all."""
    table = bundle.tables[COLD_START_TABLE].set_index(["side", "key", "gpu_model"])
    # Which key stands for a pair: at most one of its jobs is known here.
    side = np.select([is_known[:, 1], is_known[:, 0]], ["neighbour", "job"], "any")
    key = np.select(
        [is_known[:, 1], is_known[:, 0]], [pairs["neighbour_key"], pairs["job_key"]], ""
    )
    anyone = np.full(len(pairs), "any"), np.full(len(pairs), "")
    ladder = [
        (side, key, pairs["gpu_model"]),
        (*anyone, pairs["gpu_model"]),
        (*anyone, np.full(len(pairs), "")),
    ]
    found = pd.DataFrame(np.nan, index=pairs.index, columns=["value", "lower", "upper"])
    for step in ladder:
        rows = table.reindex(pd.MultiIndex.from_arrays([np.asarray(part) for part in step]))
        found = found.fillna(rows[["value", "lower", "upper"]].set_axis(pairs.index))
    return found.assign(in_domain=False, source=str(Source.COLD_START))[ESTIMATE_COLUMNS]
