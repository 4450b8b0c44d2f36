"""Translation ranking: each translation is closer to its source than the others of the batch (mUSE, LaBSE).

With `rounds`, training starts again from the same weights, with hard negatives mined by the model of the round before.
Other tasks (NLI, answers) can be trained in turns with it, as in mUSE.
"""

from functools import partial

import numpy as np

from isogloss.config.stages import RankStage
from isogloss.corpora.reading.labelled import Labelled
from isogloss.corpora.reading.question_answers import Questions
from isogloss.runs.stages.answers import answers_task
from isogloss.runs.stages.nli import nli_task
from isogloss.runs.stages.session import StageSession
from isogloss.storage import canonical_json, content_hash
from isogloss.training.batches import PairRows
from isogloss.training.data.work_files import kept_array
from isogloss.training.dev_set import DevSet, MeasuredBy
from isogloss.training.hard_negatives import mine_negatives
from isogloss.training.tasks.protocol import Task
from isogloss.training.tasks.rank import translation_ranking
from isogloss.types import FloatArray, IntArray

MINING = "hard negatives"


def train(stage: RankStage, session: StageSession, number: int) -> None:
    """Train the rounds, each from the same weights."""
    student, data = session.student, session.pair_data()
    student.add_normalization()
    pairs, dev_pairs = session.dev_split(stage)
    dev = None
    if dev_pairs is not None:
        dev = MeasuredBy(DevSet(dev_pairs, None), lambda rows: student.vectors_of(data.tokens, rows))
    losses, training = session.recipe.losses_of(stage), session.recipe.training_of(stage)
    shares = [stage.share, *(beside.share for beside in stage.beside)] if stage.beside else []
    settings = canonical_json([losses.margin, losses.ranking_temperature, training.dev_pairs, training.dev_share])
    start = {name: value.detach().clone() for name, value in student.model.state_dict().items()} if stage.rounds > 1 else {}
    negatives: IntArray | None = None
    for turn in range(1, stage.rounds + 1):
        last = turn == stage.rounds
        name = stage.name if last else f"{stage.name} round {turn}"
        if turn > 1:
            negatives = _negatives(session, pairs, losses.hard_negatives)
            student.model.load_state_dict(start)
        mined = "" if negatives is None else content_hash(np.ascontiguousarray(negatives).tobytes())
        key = session.key(data.key, session.data.hash, mined, settings)
        session.train_tasks(stage, _tasks(stage, session, pairs, negatives), dev, key, name, shares)
        if not last:
            session.measure(name)


def _tasks(stage: RankStage, session: StageSession, pairs: PairRows, negatives: IntArray | None) -> list[Task]:
    """The ranking task, and the tasks beside it with new heads."""
    losses = session.recipe.losses_of(stage)
    tokens = session.pair_data().tokens
    ranking = translation_ranking(tokens, pairs, negatives, losses.margin, losses.ranking_temperature)
    tasks: list[Task] = [ranking]
    for beside in stage.beside:
        content = session.data.content[f"{stage.name}/{beside.task}"]
        if isinstance(content, Labelled):
            tasks.append(nli_task(content, session))
        else:
            assert isinstance(content, Questions)
            tasks.append(answers_task(content, session, losses.ranking_temperature))
    return tasks


def _negatives(session: StageSession, pairs: PairRows, count: int) -> IntArray:
    """For each pair, the numbers of other pairs whose translations the student puts near its source."""
    student, data, run, seed = session.student, session.pair_data(), session.run, session.recipe.seed

    def vectors(rows: IntArray) -> FloatArray:
        return student.vectors_of(data.tokens, rows, on_progress=run.on_progress, stage=MINING)

    columns = (np.asarray(part).tobytes() for part in (pairs.source, pairs.target, pairs.language))
    name = f"negatives-{content_hash(student.fingerprint, data.key, *columns, f'{count} {seed}')[:16]}"
    compute = partial(mine_negatives, pairs, vectors, count, seed)
    return kept_array(run.work, name, compute, run.distributed, run.on_progress, MINING)
