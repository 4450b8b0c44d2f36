"""The table of rules for choosing a checkpoint, from its result file."""

from typing import Any


def choice_table(choice: dict[str, Any]) -> str:
    """What each rule loses and how often it keeps an early checkpoint, course by course."""
    courses = choice["courses"]
    rules = list(next(iter(courses.values())))
    lines = [f"| kept | {' | '.join(courses)} |", "|---|" + "---|" * len(courses)]
    for rule in rules:
        cells = [f"{own[rule]['lost_points']:.2f} / {100 * own[rule]['early']:.0f} %" for own in courses.values()]
        name = f"**{rule}**" if "(ours)" in rule else rule
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"{choice['trainings']} simulated trainings each, measured {choice['measurements']} times with {choice['sources']}"
        f" source sentences in {choice['languages']} languages, while the distance to the teacher halves. In each cell:"
        " percentage points that the kept checkpoint really finds less than the best one, and how often one of the first four"
        " is kept. Where all checkpoints are equally good nothing can be lost, and an early one is only farther from the"
        " teacher; where the student gets worse, an early one is right. Two standard errors keep an early one less often,"
        " and lose more where the student gets worse. ([script](../benchmarks/checkpoint_choice.py),"
        " [result](../benchmarks/results/checkpoint_choice.json))",
    ]
    return "\n".join(lines)
