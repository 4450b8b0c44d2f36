"""AdamW for a token table of which a batch reads few rows: a row is updated when it is next read.

AdamW changes every row at every step, also rows without a gradient: they decay, and their momentum moves them. For a table of
250,002 rows that is most of the time of a small batch. But nothing reads those rows meanwhile, and k steps without a gradient
have a closed form. With r = β₁/√β₂, t the last step that was computed and s > t the current one,

    p ← p · D_t  −  Σ_j w_j · m / (√v + ε̄)          w_j = η_j √(1 − β₂ʲ)/(1 − β₁ʲ) · r^(j−t) · D_j          j = t+1 … s
    m ← β₁ᵏ m          v ← β₂ᵏ v                                           D_j = Π (1 − η_i λ),  i = j+1 … s

which is dense AdamW with two approximations: the sum ends after `WINDOW` terms (r^128 is 2e-6), and ε, which at step j is
ε √(1 − β₂ʲ) β₂^(−(j−t)/2) in this scale, is replaced by its mean ε̄ over the skipped steps, weighted by w. Both sums are one
number per row. The test compares with torch's AdamW.
No shape in `current` and `write` depends on values, so they can be recorded as a CUDA graph.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

BETAS, EPS = (0.9, 0.999), 1e-8  # torch's defaults
WINDOW = 128
STEPS_AT_ONCE = 128  # distinct last steps; for each, `WINDOW` steps are summed
ROWS_AT_ONCE = 8192  # of the whole table in `catch_up`, which needs ten times their memory


class RowAdamW:
    """The moments of a table, and the last step of each row. `rates` are the learning rates of all steps."""

    def __init__(self, table: Tensor, rates: Sequence[float], weight_decay: float = 0.0) -> None:
        self.table, self.decays = table, weight_decay != 0
        self.first, self.second = torch.zeros_like(table), torch.zeros_like(table)
        self.at = torch.zeros(len(table), dtype=torch.int64, device=table.device)
        beta1, beta2 = BETAS
        step = torch.arange(len(rates) + 1, dtype=torch.float64)
        rate = torch.tensor([0.0, *rates], dtype=torch.float64)
        one, two = (1 - beta**step for beta in BETAS)
        pull = torch.where(step > 0, rate * two.sqrt() / one.clamp(min=1e-300), 0.0)
        kept = torch.cumsum(torch.log1p(-(rate * weight_decay).clamp(max=1 - 1e-6)), 0)
        self.rate, self.one, self.two = (value.float().to(table.device) for value in (rate, one, two))
        self.pull, self.kept = pull.float().to(table.device), kept.to(table.device)
        skipped = torch.arange(1, WINDOW + 1, dtype=torch.float64)
        self.fade = ((beta1 / math.sqrt(beta2)) ** skipped).float().to(table.device)
        self.rise = (beta2 ** (-skipped / 2)).float().to(table.device)

    def current(self, rows: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values and both moments of `rows` as they are after `step` steps (a 0-d tensor); nothing is written."""
        return self._moved_on(rows, *self._due(self.at[rows], step))

    def _read_now(self, rows: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same outside of CUDA graphs: the sums are computed once for all rows with the same last step."""
        left_at, which = torch.unique(self.at[rows], return_inverse=True)
        due = zip(*(self._due(some, step) for some in left_at.split(STEPS_AT_ONCE)), strict=True)
        return self._moved_on(rows, *(torch.cat(one)[which] for one in due))

    def _due(self, at: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The effect of the steps from `at` to `step` on a row without a gradient: drift, ε̄, decay factor, number of steps."""
        later = at[:, None] + torch.arange(1, WINDOW + 1, device=at.device)
        due = later <= step
        later = later.clamp(max=len(self.pull) - 1)
        kept_after = torch.exp(at_step(self.kept, step) - self.kept[later]).to(torch.float32)
        # Not a product with `due`: the factor of future steps can overflow.
        steps = torch.where(due, self.pull[later] * kept_after * self.fade, 0.0)
        drift = steps.sum(1)
        floor = EPS * (steps * self.two[later].sqrt() * self.rise).sum(1) / drift.clamp(min=1e-30)
        kept = torch.exp(at_step(self.kept, step) - self.kept[at]).to(torch.float32)
        return drift, floor, kept, (step - at).to(torch.float32)

    def _moved_on(
        self, rows: Tensor, drift: Tensor, floor: Tensor, kept: Tensor, behind: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        first, second = self.first[rows], self.second[rows]
        values = self.table[rows] * kept[:, None] - drift[:, None] * first / (second.sqrt() + floor[:, None]).clamp(min=1e-30)
        beta1, beta2 = BETAS
        fade1, fade2 = torch.pow(beta1, behind), torch.pow(beta2, behind)
        return values, first * fade1[:, None], second * fade2[:, None]

    def write(self, rows: Tensor, values: Tensor, moments: tuple[Tensor, Tensor], gradient: Tensor, step: Tensor) -> None:
        """One AdamW step, number `step + 1`, of `rows`, from what `current(rows, step)` gave.

        A row may occur twice if its gradient is the same each time.
        """
        beta1, beta2 = BETAS
        now = step + 1
        first = torch.lerp(gradient, moments[0], beta1)
        second = beta2 * moments[1] + (1 - beta2) * gradient.square()
        decay = torch.exp(at_step(self.kept, now) - at_step(self.kept, step)).to(torch.float32)
        denominator = (second / at_step(self.two, now)).sqrt() + EPS
        values = values * decay - at_step(self.rate, now) / at_step(self.one, now) * first / denominator
        self._store(rows, values, first, second, now)

    def refresh(self, rows: Tensor, step: Tensor) -> None:
        """Bring distinct `rows` to `step` in place, before they are read."""
        self._store(rows, *self._read_now(rows, step), step)

    def _store(self, rows: Tensor, values: Tensor, first: Tensor, second: Tensor, step: Tensor) -> None:
        for stored, new in (
            (self.table, values),
            (self.first, first),
            (self.second, second),
            (self.at, step.expand(len(rows))),
        ):
            stored.index_copy_(0, rows, new)

    def move(self, rows: Tensor, gradient: Tensor, step: Tensor) -> None:
        """One AdamW step, number `step + 1`, of distinct rows that are at `step`."""
        self.write(rows, self.table[rows], (self.first[rows], self.second[rows]), gradient, step)

    def catch_up(self, step: Tensor) -> None:
        """Bring the whole table to `step`, before anything else reads it.

        Rows that no batch has read yet, most of a large table, have no moments and only decay.
        """
        for start in range(0, len(self.table), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            due, moving = self.at[part] != step, self.first[part].any(1) | self.second[part].any(1)
            rows, still = (start + chosen.nonzero().squeeze(1) for chosen in (due & moving, due & ~moving))
            self.refresh(rows, step)
            if self.decays and len(still):
                kept = torch.exp(at_step(self.kept, step) - self.kept[self.at[still]]).to(torch.float32)
                self.table[still] *= kept[:, None]
        self.at.copy_(step.expand_as(self.at))

    def state_dict(self) -> dict[str, Tensor]:
        """The state besides the table itself."""
        return {"first": self.first, "second": self.second, "at": self.at}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a state."""
        for name, value in self.state_dict().items():
            value.copy_(state[name])


def at_step(values: Tensor, step: Tensor) -> Tensor:
    """One of `values`, chosen by a 0-d tensor without reading it on the host, as `values[step]` would."""
    return values.index_select(0, step.reshape(1)).squeeze(0)
