"""The entry point: registers the verbs and shows errors.

Verbs import what they need when they are called, so `isogloss --help` loads nothing heavy.
"""

import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec

import typer

from isogloss.cli import (
    add,
    clean,
    doctor,
    embed,
    evaluate,
    export,
    forecast,
    init,
    launch,
    mine,
    prepare,
    run,
    score,
    serve,
    short_commands,
)
from isogloss.cli.corpora import group as corpora
from isogloss.cli.index import group as index
from isogloss.cli.plain_help import PlainCommand
from isogloss.cli.signals import Stopped, stoppable
from isogloss.errors import IsoglossError
from isogloss.shown import masked, printable
from isogloss.system_errors import explained

# The same command continues after an interruption, unless it is one of these.
STARTS_AGAIN = (
    "init",
    "evaluate",
    "doctor",
    "clean",
    "serve",
    "corpora list",
    "corpora show",
    "index search",
    "index check",
)

app = typer.Typer(
    name="isogloss",
    help="The sentence-embedding model you trust in one language, in every language you need.",
    epilog="Start with: isogloss quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    run.quickstart,
    run.run,
    init.init,
    prepare.prepare,
    embed.embed,
    short_commands.distill,
    add.add,
    short_commands.finetune,
    evaluate.evaluate,
    mine.mine,
    score.score,
    export.export,
    serve.serve,
    short_commands.train_dual,
    short_commands.train_laser,
    forecast.forecast,
    doctor.doctor,
    clean.clean,
):
    app.command(cls=PlainCommand)(stoppable(verb))
_OPTIONS_FOLLOW = {"allow_interspersed_args": False}  # those of the command that is launched
app.command(cls=PlainCommand, context_settings=_OPTIONS_FOLLOW)(stoppable(launch.launch))
for name, part in corpora.VERBS.items():
    corpora.app.command(name, cls=PlainCommand)(stoppable(part))
for name, part in index.VERBS.items():
    index.app.command(name, cls=PlainCommand)(stoppable(part))
for group in (corpora.app, index.app):
    app.add_typer(group)


def reproduce() -> None:
    """Say how to install the package that has this verb."""
    raise IsoglossError(
        "reproduce is in a package of its own, isogloss-papers, which is not installed",
        hint="pip install 'isogloss[papers]', or in a checkout: pip install -e ./reproduction",
    )


if find_spec("isogloss_papers"):
    app.command(cls=PlainCommand)(stoppable(import_module("isogloss_papers.cli").reproduce))
else:
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(hidden=True, add_help_option=False, context_settings=anything)(reproduce)


@app.callback(invoke_without_command=True)
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    show_version: bool = typer.Option(False, "--version", help="Show the version."),
) -> None:
    """Set what holds for every verb."""
    logging.basicConfig(level=logging.WARNING, handlers=[_warnings()])
    for noisy in ("sentence_transformers", "transformers", "huggingface_hub"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    if show_version:
        from isogloss import __version__

        sys.stdout.write(f"isogloss {__version__}\n")
        raise typer.Exit


def _warnings() -> logging.Handler:
    """Log lines on the screen, cleaned: they quote file names and addresses."""
    handler = logging.StreamHandler(sys.stderr)
    handler.format = lambda record: masked(printable(logging.Formatter().format(record), layout=True))  # type: ignore[method-assign]
    return handler


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: an error that a person can act on is one sentence, a hint and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show ✓ shows ? and goes on
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _silent_unless_main_process():
            app(args=_without_debug(given))
    except BrokenPipeError:  # the program that reads our output has ended
        sys.stderr.close()
        sys.exit(0)
    except Stopped as stop:
        sys.stderr.write("\nisogloss: stopped." + (" The same command continues from here.\n" if continues(given) else "\n"))
        sys.exit(stop.exit_code)
    except Exception as error:
        refusal = error if isinstance(error, IsoglossError) else explained(error)
        if refusal is None:
            raise
        if "--debug" in given:
            traceback.print_exc()
        hint = f"hint: {refusal.hint}\n" if refusal.hint else ""
        sys.stderr.write(f"isogloss: {refusal.message}\n{hint}")
        sys.exit(getattr(error, "exit_code", 2))


def continues(given: list[str]) -> bool:
    """Whether the same command continues where it was stopped."""
    words = [word for word in given if not word.startswith("-")]
    return bool(words) and not {words[0], " ".join(words[:2])} & {*STARTS_AGAIN}


def _without_debug(given: list[str]) -> list[str]:
    """The arguments for typer, without --debug, which may stand anywhere; `launch` passes it to its processes."""
    plain = [argument for argument in given if argument != "--debug"]
    return [*plain, "--debug"] if plain[:1] == ["launch"] and plain != given else plain


@contextmanager
def _silent_unless_main_process() -> Iterator[None]:
    """Of processes that train together only the first writes to the screen; errors, which are shown outside, are for all."""
    if os.environ.get("WORLD_SIZE", "1") in ("", "0", "1") or os.environ.get("RANK", "0") == "0":
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
