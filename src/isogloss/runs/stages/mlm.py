"""Masked language modeling over plain text: masked tokens are predicted from the others."""

from isogloss.config import Stage
from isogloss.models.token_store import TextTokenizer
from isogloss.runs.stages.session import StageSession
from isogloss.storage import content_hash
from isogloss.training.tasks.mlm import MaskedHead, MaskedTask
from isogloss.training.tasks.protocol import Task


def train(stage: Stage, session: StageSession, number: int) -> None:
    """Train on the text of the stage's files, and on the pairs if the stage says so."""
    student, seed = session.student, session.recipe.seed
    lines = session.data.content[stage.name] if stage.task == "mlm" else []
    assert isinstance(lines, list)
    head = MaskedHead(student.body, seed)
    tasks: list[Task] = []
    key = content_hash(*lines)
    if lines:
        tokenizer = TextTokenizer(student.tokenizer, int(student.model.max_seq_length))  # without the student's prompt
        tasks.append(MaskedTask(student, tokenizer.store(lines), head, seed=seed))
    if stage.task == "tlm" or getattr(stage, "pairs", False):
        pairs, _ = session.dev_split(stage)
        tasks.append(MaskedTask(student, session.pair_data().tokens, head, pairs, seed))
        key = content_hash(key, session.pair_data().key)
    session.train_tasks(stage, tasks, None, session.key(key))
