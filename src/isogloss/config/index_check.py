"""The settings of `isogloss index check`: what is measured, and what the verdict asks for."""

from isogloss.config.settings import Settings, setting, share


class IndexCheckSettings(Settings):
    """How an index is searched, and when a student is good enough for it.

    With gold documents `min_kept_recall` decides, without them `min_first_found` and `min_overlap`. Each is compared with the
    lower end of a 95 % interval, so no language passes by luck. docs/verbs/index-check.md has the reasons for the defaults.
    """

    languages: tuple[str, ...] = setting((), "Languages to check; none: all that there are queries in.")
    k: int = setting(10, "Results per query to compare: as many as your application uses.", at_least=1, at_most=100)
    min_kept_recall: float = share(0.9, "With gold: minimum share of the teacher's recall@k.")
    min_first_found: float = share(0.9, "Minimum share of queries whose first teacher result is in the student's k.")
    min_overlap: float = share(0.5, "Minimum share of the teacher's k results in the student's k.")
    care: float = share(0.1, "Verdict “ship with care” down to this much below a minimum.")
    min_queries: int = setting(50, "With fewer queries, the verdict is “ship with care” at best.", at_least=2)
    max_queries: int = setting(500, "Maximum number of queries per language; the first ones are used.", at_least=2)
    resamples: int = setting(10_000, "Bootstrap resamples for the intervals.", at_least=100)
    verified: int = setting(64, "Stored texts to re-embed with the teacher as a check; 0: none.", at_least=0)
    examples: int = setting(3, "Worst queries per language to show on the page.", at_least=0)
