"""Natural language inference: the relation of two sentences, from a classifier over their vectors (SBERT)."""

from isogloss.config import Stage
from isogloss.corpora.reading.labelled import Labelled
from isogloss.runs.stages.session import StageSession
from isogloss.training.tasks.sentence_pairs import NLITask, SentencePairs


def train(stage: Stage, session: StageSession, number: int) -> None:
    """Train on the labelled pairs of the stage's files."""
    nli = session.data.content[stage.name]
    assert isinstance(nli, Labelled)
    session.train_tasks(stage, [nli_task(nli, session)], session.sts_dev(), session.key(nli.hash))


def nli_task(nli: Labelled, session: StageSession) -> NLITask:
    """The task over these pairs, with a new classifier."""
    pairs = SentencePairs.of(session.student, nli.first, nli.second)
    return NLITask(session.student, pairs, nli.labels, session.recipe.seed)
