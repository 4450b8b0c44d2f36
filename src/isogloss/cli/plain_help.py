"""Help that shows arguments as every other program does: `isogloss mine [OPTIONS] SRC TGT`, without types and braces."""

from typing import Any

from typer.core import TyperArgument, TyperCommand


class PlainCommand(TyperCommand):
    """A command with arguments by their names: MODEL, FILE... (several), [FILE] (optional)."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of whichever click typer has
        """The words of the usage line after the command."""
        arguments = [one for one in self.params if isinstance(one, TyperArgument) and not one.hidden]
        return [self.options_metavar or "", *map(_in_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """The sections of arguments and options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                is_argument = isinstance(one, TyperArgument)
                name = _name(one) if is_argument else record[0]
                sections["Arguments" if is_argument else "Options"].append((name, record[1]))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _name(argument: Any) -> str:  # noqa: ANN401 - a parameter of whichever click typer has
    return str(argument.metavar or (argument.name or "").upper())


def _in_usage(argument: TyperArgument) -> str:
    name = _name(argument) if argument.required else f"[{_name(argument)}]"
    return f"{name}..." if argument.nargs != 1 else name
