"""Bad input for exports, indexes and the service: one sentence, exit code 2, and every file as it was.

A case is a command; some make their input first. Each is one trial, whatever the seed.
"""

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fault_limits import complaint
from fault_world import Verb, World, run_to_end

from isogloss.storage import content_hash, file_hash
from tiny import save_tiny_model

SEARCH, BUILD, CHECK = "index search -m {at}/teacher", "index build -m {at}/teacher", "index check -s {at}/base"
HERE = " --to onnx --precisions fp32 --min-cosine 0 --max-loss 100 --max-queries 8"


@dataclass(frozen=True, slots=True)
class Case:
    """A command that cannot work, and what has to be there for it; `made` may leave something to be undone."""

    command: str
    made: Callable[[Path, Path, ExitStack], object] | None = None  # of a folder of its own, the world's, and what undoes it


def written(name: str, content: bytes) -> Callable[[Path, Path, ExitStack], object]:
    """A file with this content."""
    return lambda own, _at, _undo: (own / name).write_bytes(content)


def truncated(name: str, source: str, share: float) -> Callable[[Path, Path, ExitStack], object]:
    """The first part of a file of the world."""

    def make(own: Path, at: Path, _undo: ExitStack) -> None:
        data = (at / source).read_bytes()
        (own / name).write_bytes(data[: int(share * len(data))])

    return make


def other_dimension(own: Path, _at: Path, _undo: ExitStack) -> None:
    """An index of another model, and NaN in another one."""
    np.save(own / "docs.npy", np.ones((3, 7), dtype=np.float32))
    np.save(own / "nan.npy", np.full((3, 16), np.nan, dtype=np.float32))
    np.save(own / "whole.npy", np.ones((3, 16), dtype=np.int64))


def port_in_use(own: Path, _at: Path, undo: ExitStack) -> None:
    """Somebody listens on the port that the command names."""
    listener = undo.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PORT))
    listener.listen()


def links(own: Path, at: Path, _undo: ExitStack) -> None:
    """Links to nowhere and in a circle, and an output that is a link to an input."""
    (own / "nowhere").symlink_to(own / "none")
    (own / "circle").symlink_to(own / "circle")
    shutil.copy(at / "docs.txt", own / "docs.txt")
    (own / "docs.parquet").symlink_to(own / "docs.txt")


def kept_onnx(own: Path, at: Path, _undo: ExitStack) -> None:
    """An export whose graph is cut off, and one without its tokenizer."""
    shutil.copytree(at / "earlier-onnx", own / "cut")
    (own / "cut" / "SHA256SUMS").unlink()
    graph = own / "cut" / "onnx" / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:500])
    shutil.copytree(at / "earlier-onnx", own / "bare")
    (own / "bare" / "tokenizer.json").unlink()
    (own / "bare" / "SHA256SUMS").unlink()


def read_only(own: Path, _at: Path, undo: ExitStack) -> None:
    """A folder that nobody may write to; root may, so a file system that is read-only, or else a name under a file."""
    (own / "file").write_text("a file")
    (own / "closed").mkdir()
    (own / "closed").chmod(0o500)
    undo.callback((own / "closed").chmod, 0o700)


def static_model(own: Path, _at: Path, _undo: ExitStack) -> None:
    """A model whose weights are gone, and one whose settings are not JSON."""
    for name in ("weightless", "unreadable"):
        save_tiny_model(own / name, width=16, layers=1, seed=1, normalize=True)
    next((own / "weightless").rglob("model.safetensors")).unlink()
    (own / "unreadable" / "modules.json").write_text("[{")


PORT = 48_913
NO_KEYS = b"# no key\n\n"
CASES: tuple[Case, ...] = (
    Case("export {at}/base --budget 1KB" + HERE.replace("--to onnx", "")),
    Case("export {at}/base --budget banana"),
    Case("export {at}/base --budget -5MB"),
    Case("export {at}/base --budget 60MB --to static"),
    Case("export {at}/base --budget 1MB --layers 9"),
    Case("export {at}/base --budget 1MB --dimensions 9999"),
    Case("export {at}/base --to banana"),
    Case("export {at}/base --to onnx --precisions int4 --out {own}/out"),
    Case("export {at}/base --to onnx --cpu z80 --out {own}/out"),
    Case("export {own}/none --to onnx"),
    Case("export {own}/docs.txt --to onnx", written("docs.txt", b"no model\n")),
    Case("export {own} --to onnx", written("config.json", b"{}")),
    Case("export {own}/weightless --out {own}/out" + HERE, static_model),
    Case("export {own}/unreadable --out {own}/out" + HERE, static_model),
    Case("export {at}/base --out {own}" + HERE, written("mine.txt", b"mine")),
    Case("export {at}/base --to folder --out {own}", written("mine.txt", b"mine")),
    Case("export {at}/base --to static --out {own}", written("mine.txt", b"mine")),
    Case("export {at}/base --to folder --out {own}/file", read_only),
    Case("export {at}/base --out {own}/file/out" + HERE, read_only),
    Case("export {at}/base --out {own}/nowhere/out" + HERE, links),
    Case("export {at}/base --out {own}/circle" + HERE, links),
    Case("export {at}/base --out {own}/out --pairs {own}/none.tsv" + HERE),
    Case("export {at}/base --out {own}/out --pairs {own}/pairs.tsv" + HERE, written("pairs.tsv", b"")),
    Case("export {at}/base --out {own}/out --pairs {own}/pairs.tsv" + HERE, written("pairs.tsv", b"\xff\xfe\x00one column\n")),
    Case("export {at}/base --out {own}/out --teacher {own}/none" + HERE),
    Case("export {at}/base --to folder --out {own}/out --scores {own}/scores.json", written("scores.json", b"[1, 2")),
    Case("export {at}/base --to folder --out {own}/out --push"),
    Case("export {at}/base --to folder --out {own}/out --push not/a/repository"),
    Case("export {at}/base --to folder --out {own}/out --private"),
    Case(BUILD + " {own}/none.txt -i {own}/docs.npy"),
    Case(BUILD + " {own}/docs.txt -i {own}/docs.npy", written("docs.txt", b"")),
    Case(BUILD + " {own}/docs.txt -i {own}/docs.npy", written("docs.txt", b"\n  \n\n")),
    Case(BUILD + " {own}/docs.txt -i {own}/docs.npy", written("docs.txt", "größer\n".encode("latin-1"))),
    Case(BUILD + " {own}/docs.jsonl -i {own}/docs.npy", written("docs.jsonl", b'{"id": 1, "text": "a"}\n{"id": 2')),
    Case(
        BUILD + " {own}/docs.jsonl -i {own}/docs.npy",
        written("docs.jsonl", b'{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n'),
    ),
    Case(BUILD + " {own}/docs.csv -i {own}/docs.npy", written("docs.csv", b"name,words\n1,a\n")),
    Case(BUILD + " {own}/docs.parquet -i {own}/docs.npy", written("docs.parquet", b"PAR1nothingPAR1")),
    Case(BUILD + " {own}/docs.pdf -i {own}/docs.npy", written("docs.pdf", b"%PDF")),
    Case(BUILD + " {own}/docs.txt -i {own}/docs.parquet --replace", links),
    Case(BUILD + " {own}/circle -i {own}/docs.npy", links),
    Case(BUILD + " {at}/docs.txt -i {own}/docs.nyp"),
    Case(BUILD + " {at}/docs.txt -i {own}/file/docs.npy", read_only),
    Case(BUILD + " {at}/docs.txt -i {own}/docs.npy --metric manhattan"),
    Case(BUILD + " {at}/docs.txt -i {own}/docs.npy --replace --append"),
    Case(BUILD + " {at}/docs.txt -i {own}/docs.npy?ids=x"),
    Case(BUILD + " {at}/docs.txt -i {own}/docs.npy --replace", written("docs.npy", b"mine")),
    Case(BUILD + " {at}/docs.txt -i {own}/docs.npy --append", written("docs.npy.json", b'{"isogloss": {}, "checksum": "0"}')),
    Case(BUILD + " {at}/docs.txt -i lancedb:{own}"),
    Case(BUILD + " {at}/docs.txt -i lancedb:{own}/file#docs", read_only),
    Case(BUILD + " {at}/docs.txt -i lancedb:{own}#../docs"),
    Case(BUILD + " {at}/docs.txt -i qdrant:{own}/file#docs", read_only),
    Case(BUILD + " {at}/docs.txt -i postgresql://127.0.0.1:1/none?table=docs"),
    Case(BUILD + " {at}/docs.txt -i postgresql://127.0.0.1:1/none"),
    Case(BUILD + " {at}/docs.txt -i opensearch:http://127.0.0.1:1#docs"),
    Case(SEARCH + " -i {at}/checked.npy"),
    Case(SEARCH + " -i {at}/checked.npy --queries {own}/none.txt"),
    Case(SEARCH + " -i {at}/checked.npy --queries {own}/q.txt", written("q.txt", b"")),
    Case(SEARCH + " -i {at}/checked.npy --queries {own}/q.txt", written("q.txt", "größer\n".encode("utf-16"))),
    Case(SEARCH + " -i {at}/checked.npy --queries {own}/q.txt", written("q.txt", "größer\n".encode("latin-1"))),
    Case(SEARCH + " -i {at}/checked.np cat"),
    Case(SEARCH + " -i {own}/none.npy cat"),
    Case(SEARCH + " -i {own}/docs.npy cat", other_dimension),
    Case(SEARCH + " -i {own}/nan.npy cat", other_dimension),
    Case(SEARCH + " -i {own}/whole.npy cat", other_dimension),
    Case(SEARCH + " -i {own}/docs.npy cat", truncated("docs.npy", "checked.npy", 0.5)),
    Case(SEARCH + " -i {own}/docs.npy cat", truncated("docs.npy", "checked.npy", 0.0)),
    Case(SEARCH + " -i {own}/docs.faiss cat", truncated("docs.faiss", "searched.faiss", 0.5)),
    Case(SEARCH + " -i {own}/docs.faiss cat", written("docs.faiss", b"IxFI" + bytes(range(200)))),
    Case(SEARCH + " -i {own}/docs.safetensors cat", written("docs.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{}")),
    Case(SEARCH + " -i {own}/docs.parquet cat", written("docs.parquet", b"PAR1" + b"\0" * 40 + b"PAR1")),
    Case(SEARCH + " -i {at}/checked.npy?metric=banana cat"),
    Case(SEARCH + " -i {at}/checked.npy?ids={at}/some.txt cat"),
    Case(SEARCH + " -i qdrant:{own}#docs cat", written("meta.json", b'{"collections": {')),
    Case(
        SEARCH + " -i qdrant:{own}#docs cat", written("meta.json", b'{"collections": {"docs": {"vectors": 1}}, "aliases": {}}')
    ),
    Case(SEARCH + " -i lancedb:{own}#docs cat", written("docs.lance", b"a file, no folder")),
    Case(SEARCH + " -i {at}/checked.npy cat -k 0"),
    Case("index search -m onnx:{own}/cut -i {at}/checked.npy cat", kept_onnx),
    Case("index search -m onnx:{own}/bare -i {at}/checked.npy cat", kept_onnx),
    Case(CHECK + " -i {at}/checked.npy --out {own}/out --queries {own}/q.tsv", written("q.tsv", b"")),
    Case(CHECK + " -i {at}/checked.npy --out {own}/out --queries {own}/q.tsv", written("q.tsv", b"a\tb\n1\t2\n")),
    Case(CHECK + " -i {at}/checked.npy --out {own}/out --queries {own}/q.tsv", written("q.tsv", b"en\tde\n\xe4\t\xf6\n")),
    Case(CHECK + " -i {at}/checked.npy --out {own}/out --queries {own}/q.jsonl", written("q.jsonl", b'{"id": "q1"}\n')),
    Case(
        CHECK + " -i {at}/checked.npy --out {own}/out --queries {own}/q.tsv",
        written("q.tsv", b"id\ten\tde\tgold\n1\ta\tb\tno\n"),
    ),
    Case(CHECK + " -i {at}/checked.npy --out {own}/out --languages xx"),
    Case(CHECK + " -i {at}/checked.npy --out {own}/out --languages fr --queries {at}/queries.tsv"),
    Case(CHECK + " -i {at}/checked.npy --out {own}/file --queries {at}/queries.tsv", read_only),
    Case(CHECK + " -i {own}/docs.npy --out {own}/out --queries {at}/queries.tsv", other_dimension),
    Case("index check -s {at}/student -i {at}/checked.npy --out {own}/out --queries {at}/queries.tsv"),
    Case("serve {own}/none --device cpu --port 0"),
    Case("serve {own} --device cpu --port 0", written("mine.txt", b"mine")),
    Case("serve {at}/served --device cpu --port 48913", port_in_use),
    Case("serve {at}/served --device cpu --port 0 --api-keys {own}/none.txt"),
    Case("serve {at}/served --device cpu --port 0 --api-keys {own}/keys.txt", written("keys.txt", b"")),
    Case("serve {at}/served --device cpu --port 0 --api-keys {own}/keys.txt", written("keys.txt", NO_KEYS)),
    Case("serve {at}/served --device cpu --port 0 --api-keys {own}/keys.txt", written("keys.txt", b"\xff\xfek\x00")),
    Case("serve {at}/served --device cpu --port 0 --host not.an.address.invalid"),
    Case("serve {at}/served --device cpu --port 99999"),
    Case("serve {at}/served {at}/served --device cpu --port 0"),
    Case("serve {at}/served --device cpu --port 0 --name a --name b"),
    Case("serve {at}/served --device banana --port 0"),
    Case("serve onnx:{own}/cut --device cpu --port 0", kept_onnx),
    Case("serve onnx:{own}/bare --device cpu --port 0", kept_onnx),
    Case("serve onnx:{at}/served --device cpu --port 0"),
    Case("serve onnx:{at}/earlier-onnx --precision int8 --device cpu --port 0"),
    Case("serve {own}/unreadable --device cpu --port 0", static_model),
    Case("serve {own}/weightless --device cpu --port 0", static_model),
)


def trial(world: World, number: int, folder: Path) -> dict[str, Any]:
    """Run a case, and say whether it was refused as it should be."""
    case, own = CASES[number], folder / "own"
    shutil.rmtree(folder, ignore_errors=True)
    own.mkdir(parents=True)
    with ExitStack() as undo:
        if case.made is not None:
            case.made(own, world.folder, undo)
        before = state(own)
        verb = Verb(lambda _out: case.command.format(at=world.folder, own=own), file_hash)
        done = run_to_end(verb, folder / "result", folder / "scratch")
        after = state(own)
    usage = done.code == 2 and "Error: " in done.errors and not done.traceback  # as typer says it
    wrong = "" if usage else complaint(done.code, done.errors)
    if not wrong and (lost := [name for name, content in before.items() if after.get(name) != content]):
        wrong = f"changed: {lost[:3]}"
    left = [name for name in after if ".partial-" in name]
    verb_name = " ".join(case.command.split()[: 2 if case.command.startswith("index") else 1])
    wrong = wrong or (f"left behind: {left[:3]}" if left else "")
    return {"kind": "input", "verb": verb_name, "seed": number, "command": case.command, "wrong": wrong}


def state(folder: Path) -> dict[str, str]:
    """What every file has in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = content_hash(path.read_bytes())
    return found
