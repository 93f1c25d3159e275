"""Writers that keep the JSON of estimates: a version gives the same ones over and over.

Of a placement's JSON nine parts in ten are estimates, and a thousand cards share a few hundred of
them. The result is what the plain writer gives, but for the spelling of some floats.
"""

from json.encoder import encode_basestring

from data.domain import Estimate, Placement
from serving.web.wire_models import EstimatesAnswer, PlacementsAnswer
from serving.web.wire_schema import Writer

MOST_KEPT = 20_000  # some 10 MB


class EstimateTexts:
    """The JSON of estimates by identity; each is held, so that no other can take its place."""

    def __init__(self) -> None:
        self._writer = Writer(Estimate)
        self._texts: dict[int, tuple[Estimate, str]] = {}

    def text(self, estimate: Estimate) -> str:
        """Return an estimate as JSON."""
        kept = self._texts.get(id(estimate))
        if kept is not None:
            return kept[1]
        if len(self._texts) >= MOST_KEPT:
            self._texts.clear()
        text = self._writer.write(estimate).decode()
        self._texts[id(estimate)] = estimate, text
        return text


class EstimatesWriter(Writer[EstimatesAnswer]):
    """Writes ``EstimatesAnswer`` from kept texts."""

    def __init__(self) -> None:
        super().__init__(EstimatesAnswer)
        self._texts = EstimateTexts()

    def write(self, value: EstimatesAnswer) -> bytes:
        """Return `value` as JSON."""
        text = self._texts.text
        rows = ",".join([text(estimate) for estimate in value.estimates])
        return f'{{"estimates":[{rows}]}}'.encode()


class PlacementsWriter(Writer[PlacementsAnswer]):
    """Writes ``PlacementsAnswer`` from kept texts."""

    def __init__(self) -> None:
        super().__init__(PlacementsAnswer)
        self._texts = EstimateTexts()

    def write(self, value: PlacementsAnswer) -> bytes:
        """Return `value` as JSON."""
        alike: dict[tuple[int, int, int], str] = {}  # by identity; `value` keeps them alive
        rows = []
        for placement in value.placements:
            key = (
                id(placement.job_slowdown),
                id(placement.neighbour_slowdowns),
                id(placement.memory),
            )
            middle = alike.get(key)
            if middle is None:
                alike[key] = middle = self._middle(placement)
            fits = "true" if placement.fits else "false"
            card = encode_basestring(placement.card_id)
            rows.append(f'{{"card_id":{card},{middle},"fits":{fits},"cost":{placement.cost!r}}}')
        return f'{{"placements":[{",".join(rows)}]}}'.encode()

    def _middle(self, placement: Placement) -> str:
        text = self._texts.text
        neighbours = ",".join([text(each) for each in placement.neighbour_slowdowns])
        return (
            f'"job_slowdown":{text(placement.job_slowdown)},"neighbour_slowdowns":[{neighbours}],'
            f'"memory":{text(placement.memory)}'
        )
