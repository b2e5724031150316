"""Changes of a store: facts and attributes added and removed, predictions brought up to date, changes merged."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.config import PACKAGED
from tuplet.progress import Report, shown
from tuplet.truth.store_folder import PATIENCE, StoreFiles

if TYPE_CHECKING:
    from tuplet.truth.edit import EditReport
    from tuplet.truth.new_entities.predict import PredictionReport


class StoreEdits(ABC):
    """The part of a store that changes it."""

    @abstractmethod
    def _editable(self) -> Path:
        """Where it is; an error if it cannot be changed."""

    @abstractmethod
    def _held(self) -> StoreFiles | None:
        """The generation at hand."""

    @abstractmethod
    def _edited(self, files: StoreFiles) -> None:
        """Be the generation after an edit."""

    @abstractmethod
    def refresh(self) -> bool:
        """Take the newest generation."""

    def add(
        self,
        facts: Any = (),
        new_entities: bool = False,
        timeout: float = PATIENCE,
        seconds: float | None = None,
        progress: bool | Report = False,
        model: str | os.PathLike[str] = PACKAGED,
        attributes: Any = None,
        replace: bool = False,
        ray: str | None = None,
    ) -> EditReport:
        """Make facts observed at once, without retraining: tuples, a data frame or a file, as `tuplet.read` takes.

        With `new_entities` the facts may name entities that the store does not have. What can be predicted about these
        is computed then, for `seconds` at most (default 300), by the network that ships with the package or a `model`
        folder of kind any-graph, on the Ray cluster at `ray` if there is one; what is left waits for `update`. Writers
        take turns; who has waited `timeout` seconds in vain gets `StoreBusy`, and nothing has changed.

        `attributes` are values: (entity, attribute, value), a language tag behind a text if it has one; for the
        attribute of a fact (head, relation, tail) stands in place of the entity. Or a file of them, as `tuplet.read`
        takes for nodes. They are added to the values that are there; with `replace` they take their place.
        """
        from tuplet.truth.edit import with_facts
        from tuplet.truth.new_entities.predict import refuse_wrong, with_predictions

        refuse_wrong(seconds, model, new_entities, ray)
        given = (_facts(facts), new_entities, timeout, self._held(), _values(attributes), replace)
        report, files = with_facts(self._editable(), *given)
        self._edited(files)
        if new_entities:
            with shown(progress) as told:
                report, files = with_predictions(report, files, seconds, told, timeout, model, ray)
            self._edited(files)
        return report

    def remove(self, facts: Any = (), timeout: float = PATIENCE, attributes: Any = None) -> EditReport:
        """Stop observing facts: each shows its prediction again, if it has one. Waits its turn, as `add` does.

        `attributes` are values to be removed: (entity, attribute, value), or without a value all of the attribute. A
        removed fact loses its attributes.
        """
        from tuplet.truth.edit import without_facts

        given = (_facts(facts), timeout, self._held(), _values(attributes))
        report, files = without_facts(self._editable(), *given)
        self._edited(files)
        return report

    def update(
        self,
        seconds: float | None = None,
        timeout: float = PATIENCE,
        progress: bool | Report = False,
        model: str | os.PathLike[str] = PACKAGED,
        ray: str | None = None,
    ) -> PredictionReport:
        """Compute the predictions that new entities wait for, and bring the rows around these up to date.

        It takes `seconds` at most, if given; what is left then waits on. `model` and `ray` as in `add`.
        """
        from tuplet.truth.new_entities.update import update

        with shown(progress) as told:
            report, files = update(self._editable(), seconds, told, timeout, self._held(), model, ray)
        self._edited(files)
        return report

    def compact(self, timeout: float = PATIENCE) -> bool:
        """Merge all changes into the folders of the store; False if there are none. Others may read and edit it."""
        from tuplet.truth.compact import compact

        done = compact(self._editable(), timeout)
        self.refresh()
        return done


def _facts(facts: Any) -> Any:
    """Facts as the editor takes them."""
    if isinstance(facts, list | tuple | KnowledgeGraph):
        return facts
    from tuplet.read.read import read

    return read(facts)


def _values(attributes: Any) -> Any:
    """Attributes as the editor takes them; those of a file are read."""
    if not isinstance(attributes, str | os.PathLike):
        return attributes
    from tuplet.read.text import read_values

    return read_values(Path(attributes))
