"""Answer ranking: the answer of a question is closer to it than the others of the batch (mUSE)."""

from isogloss.config import Stage
from isogloss.corpora.reading.question_answers import Questions
from isogloss.runs.stages.session import StageSession
from isogloss.training.tasks.rank import AnswerRanking, answer_head
from isogloss.training.tasks.sentence_pairs import SentencePairs


def train(stage: Stage, session: StageSession, number: int) -> None:
    """Train on the questions of the stage's files."""
    questions = session.data.content[stage.name]
    assert isinstance(questions, Questions)
    temperature = session.recipe.losses_of(stage).ranking_temperature
    task = answers_task(questions, session, temperature)
    session.train_tasks(stage, [task], session.sts_dev(), session.key(questions.hash, str(temperature)))


def answers_task(questions: Questions, session: StageSession, temperature: float) -> AnswerRanking:
    """The task over these questions, with a new head for the answers."""
    pairs = SentencePairs.of(session.student, questions.questions, questions.answers)
    return AnswerRanking(session.student, pairs, answer_head(session.student.dimension, session.recipe.seed), temperature)
