"""All small changes of a Python source that a good test suite should notice: one `Mutant` for each.

Comparisons and boolean, arithmetic and bit operators are swapped for their neighbors, numbers get one more, branches are
swapped, augmented assignments become plain ones, and calls or assignments that are statements are left out. Not changed:
docstrings, annotations, decorators, messages (f-strings and what is raised), paths, and `strict=` of zip, which only asserts.
"""

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: where it starts, the code before and after it, and the whole source with it."""

    line: int
    before: str
    after: str
    source: str

    @property
    def change(self) -> str:
        """In a line."""
        return f"{self.before} → {self.after}"


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a source, in the order of the code."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found, data = [], source.encode()
    for node, new in _changes(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before, after = data[begin:end].decode(), _written(new)
        changed = (data[:begin] + after.encode() + data[end:]).decode()
        one = Mutant(node.lineno, " ".join(before.split()), " ".join(after.split()), changed)
        if ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)):
            found.append(one)
    return sorted(found, key=lambda one: one.line)


def _written(node: ast.expr | ast.stmt) -> str:
    code = ast.unparse(ast.fix_missing_locations(node))
    return f"({code})" if isinstance(node, ast.expr) and not isinstance(node, ast.Constant) else code


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Nodes and what stands in their place."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield from ((node, new) for new in _other_expressions(node))
        elif isinstance(node, ast.stmt):
            yield from ((node, new) for new in _other_statements(node))
        waiting += _looked_into(node)


def _looked_into(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that are changed in their turn."""
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return []
    if isinstance(node, ast.FunctionDef):
        defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        return [*defaults, *node.body]
    if isinstance(node, ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [node.value]
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return []
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return []
    if isinstance(node, ast.Expr | ast.UnaryOp) and isinstance(
        getattr(node, "value", getattr(node, "operand", None)), ast.Constant
    ):
        return []
    return list(ast.iter_child_nodes(node))


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                new = copy.deepcopy(node)
                new.ops[place] = COMPARED[type(operator)]()
                yield new
        case ast.BinOp() if type(node.op) in COMPUTED and not _is_text(node):
            yield ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            yield ast.Constant(1 - value)  # -1 is one number: as an axis, 1 may be the same
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant(value=bool() | int() | float() as value):
            yield ast.Constant(not value if isinstance(value, bool) else value + 1)


def _other_statements(node: ast.stmt) -> Iterator[ast.stmt | ast.expr]:
    match node:
        case ast.AugAssign():
            yield ast.Assign([node.target], node.value, lineno=node.lineno)
        case (
            ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break()
        ):
            yield ast.Pass()


def _is_text(node: ast.BinOp) -> bool:
    """Whether it joins strings, or the parts of a path: no arithmetic, and any change of it is an error at once."""
    sides = (node.left, node.right)
    if any(isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str)) for one in sides):
        return True
    return isinstance(node.op, ast.Div) and bool(re.search(r"folder|parent|path", ast.unparse(node.left)))
