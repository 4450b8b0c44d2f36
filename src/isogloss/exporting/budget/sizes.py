"""How large the folder of a form will be, before it is made.

The bytes of a graph grow by the same number with each layer and with each row of the token table, so small graphs tell those
of any:

    g(layers, rows) = g(1, r) + (layers − 1) · [g(2, r) − g(1, r)] + (rows − r) · [g(1, r′) − g(1, r)] / (r′ − r)

in each precision. g(1, r) is measured once more where other modules follow the pooling: after layers were cut, or embeddings.
The tokenizer is written and measured. What is left are numbers in names ("layer.10" is longer than "layer.9") and, in int8, the
few channels that are kept in single precision, which only the calibration finds: about one percent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from isogloss.config.exporting import Precision
from isogloss.exporting.budget.forms import Form, Forms
from isogloss.exporting.budget.retraining import AFTER_POOLING
from isogloss.exporting.budget.shipping import GRAPH, folder_bytes, graphs, ship, temporary_model
from isogloss.models.bridge import Bridge
from isogloss.models.shrinking.layer_dropping import drop_layers
from isogloss.models.shrinking.shorter_embeddings import cut_embeddings
from isogloss.models.static import StaticStudent
from isogloss.models.student import Student
from isogloss.models.vocabulary.resize import set_token_table

SMALL, LARGER = 1024, 2048  # rows of the small tables
TOKENIZER = "tokenizer.json"
Bytes = dict[Precision, int]


@dataclass(frozen=True, slots=True)
class Kind:
    """Bytes of one kind of modules after the pooling: of graphs with one layer and a small table, and of the files beside."""

    graphs: Bytes
    beside: int


class Sizes:
    """Predicts the bytes of the folder of every form in every precision."""

    def __init__(
        self, forms: Forms, precisions: Sequence[Precision], card: Callable[[Form, Precision], str], work: Path
    ) -> None:
        self.forms, self.precisions, self.card, self.work = forms, tuple(precisions), card, work
        self._kinds: dict[tuple[bool, int], Kind] = {}
        self._tokenizers: dict[int, int] = {}
        rows = len(forms.source.student.table)
        self._rows, self._more_rows = min(SMALL, rows // 2), min(LARGER, rows)

    def __call__(self, form: Form, precision: Precision) -> int:
        """The bytes of a folder: its graph, its tokenizer and its other files."""
        kind, (layer, row) = self._kind(form), self._growth[precision]
        graph = kind.graphs[precision] + max(form.layers - 1, 0) * layer + (form.rows - self._rows) * row
        return round(graph) + kind.beside + self._tokenizer(form)

    @cached_property
    def _growth(self) -> dict[Precision, tuple[int, float]]:
        """What one more layer and one more row add."""
        first = self._kind_of(False, self.forms.source.student.dimension).graphs
        deeper = self._bytes(self._small(2, self._rows)) if self.forms.all_layers > 1 else first
        longer = self._bytes(self._small(1, self._more_rows))
        rows = self._more_rows - self._rows
        return {name: (deeper[name] - first[name], (longer[name] - first[name]) / rows) for name in self.precisions}

    def _kind(self, form: Form) -> Kind:
        return self._kind_of(form.layers != self.forms.all_layers, form.dimension)

    def _kind_of(self, cut: bool, dimension: int) -> Kind:
        """The modules after the pooling are new where layers were cut, and others where embeddings were."""
        if (cut, dimension) not in self._kinds:
            student = self._small(1, self._rows)
            if cut:
                _like_trained(student)
            cut_embeddings(student, dimension)
            found, beside = dict[Precision, int](), 0
            for precision, proto in graphs(student, self.precisions, self.work):
                found[precision] = proto.ByteSize()
                if not beside:
                    with temporary_model(self.work) as folder:
                        ship(student, proto, folder, self.card(self.forms.all()[0], precision))
                        beside = folder_bytes(folder) - sum((folder / name).stat().st_size for name in (TOKENIZER, GRAPH))
            self._kinds[cut, dimension] = Kind(found, beside)
        return self._kinds[cut, dimension]

    def _bytes(self, student: Student) -> Bytes:
        return {name: proto.ByteSize() for name, proto in graphs(student, self.precisions, self.work)}

    def _small(self, layers: int, rows: int) -> Student:
        """A copy of the model with few layers and the first rows of its table."""
        student = self.forms.source.student.copy()
        table = student.table.detach()[:rows].clone()
        if isinstance(student, StaticStudent):
            student.set_table(table)
        elif self.forms.all_layers:
            padding = student.tokenizer.pad_token_id
            set_token_table(student.body, table, padding if padding is not None and padding < rows else None)
            drop_layers(student.body, layers)
        return student

    def _tokenizer(self, form: Form) -> int:
        """The bytes of the tokenizer with the vocabulary of a form."""
        if form.rows not in self._tokenizers:
            tokenizer = self.forms.tokenizer(form.trim)
            with temporary_model(self.work) as folder:
                tokenizer.save_pretrained(folder)
                self._tokenizers[form.rows] = (folder / TOKENIZER).stat().st_size
        return self._tokenizers[form.rows]


def _like_trained(student: Student) -> None:
    """Replace what follows the pooling as it is for a model that lost layers."""
    height, ends = student.dimension, type(student.model[-1]).__name__ == "Normalize"
    del student.model[AFTER_POOLING]
    zeros = np.zeros((height, student.dimension), dtype=np.float32)
    student.add_bridge(Bridge(zeros, zeros[:, 0], 0.0, {}), normalize=ends)
