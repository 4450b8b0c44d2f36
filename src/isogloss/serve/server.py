"""Start the service: listen, load the models, answer, and stop in order.

The address is taken first, so that a port in use is reported before a model is loaded. While models load, /healthz answers and
everything else is 503. SIGTERM, SIGHUP and Ctrl-C stop the service: what was accepted is answered, for `drain_seconds` at most.
"""

import contextlib
import logging
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from isogloss.config.serving import ServeSettings
from isogloss.errors import IsoglossError, optional_package
from isogloss.progress import OnProgress, silent
from isogloss.serve.keys import VARIABLE, ApiKeys, read_keys
from isogloss.shown import printable

if TYPE_CHECKING:
    from isogloss.serve.engine import Facts
    from isogloss.serve.service import Service

logger = logging.getLogger(__name__)

BACKLOG = 1024
ANYWHERE = ("0.0.0.0", "::")
SECOND = 10  # ticks of uvicorn's main loop
MISSING = "isogloss serve needs {}, which is not installed here"


@dataclass(frozen=True)
class Started:
    """A service that is ready: where it listens, what it serves, and what was chosen for a reason that is worth saying."""

    address: str
    models: tuple["Facts", ...]
    notes: tuple[str, ...] = ()


def serve(
    models: Sequence[str],
    names: Sequence[str] = (),
    settings: ServeSettings | None = None,
    on_start: Callable[[Started], None] = lambda _started: None,
    on_progress: OnProgress = silent,
) -> None:
    """Serve `models` over HTTP until a signal comes. `on_start` is called when they are ready, from another thread.

    `names` are what clients call the first models; the others are called like their run, folder or hub name.
    """
    settings = settings or ServeSettings()
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        optional_package(package, IsoglossError(MISSING.format(package), hint="pip install 'isogloss[serve]'"))
    from isogloss.serve.opening import names_of, refuse_missing_model

    names = names_of(models, names)
    for model in models:
        refuse_missing_model(model)
    keys = read_keys(settings.api_keys)
    _warn_of_open_door(settings, keys)
    with _listening(settings) as listener:
        server, service = make_server(settings, keys)
        failures: list[BaseException] = []

        def load() -> None:
            try:
                started = open_models(service, models, names, settings, on_progress)
            except BaseException as error:  # noqa: BLE001 - raised below, in the thread that serves
                failures.append(error)
                server.should_exit = True
            else:
                on_start(Started(_address(listener), *started))

        threading.Thread(target=load, name="isogloss-loading", daemon=True).start()
        server.run(sockets=[listener])
    if failures:
        raise failures[0]


def open_models(
    service: "Service", models: Sequence[str], names: Sequence[str], settings: ServeSettings, on_progress: OnProgress = silent
) -> tuple[tuple["Facts", ...], tuple[str, ...]]:
    """Load the models into the service and make it ready; their facts, and what is worth saying."""
    from isogloss.serve.engine import Served
    from isogloss.serve.opening import open_engine

    opened = [open_engine(model, name, settings, on_progress) for model, name in zip(models, names, strict=True)]
    service.open([Served.warmed(one.engine, settings.batch_tokens) for one in opened])
    return tuple(one.engine.facts for one in opened), tuple(one.note for one in opened if one.note)


def make_server(settings: ServeSettings, keys: ApiKeys | None = None) -> tuple[Any, "Service"]:
    """A uvicorn server that can be run, and its service, in which no model is open yet."""
    import uvicorn

    from isogloss.serve.app import create_app
    from isogloss.serve.connections import KEEP_ALIVE_SECONDS, Connection
    from isogloss.serve.service import Service

    service = Service(settings)

    class Server(uvicorn.Server):
        """uvicorn's server, which leaves signals to us and ends connections that bring nothing."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Stop in order at a signal, and do not raise it again afterwards: that is what was asked for."""
            with _signals(self.handle_exit):
                yield

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Called at a signal: accept nothing more. The second Ctrl-C ends the process without waiting."""
            service.stop()
            super().handle_exit(sig, frame)

        async def on_tick(self, counter: int) -> bool:
            """Called ten times a second."""
            if counter % SECOND == 0:
                for connection in list(self.server_state.connections):
                    if isinstance(connection, Connection):
                        connection.end_if_idle_for(KEEP_ALIVE_SECONDS + settings.body_seconds)
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Called when the main loop has ended."""
            service.stop()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        create_app(service, keys),
        http=type("Timed", (Connection,), {"send_seconds": settings.send_seconds}),
        ws="none",
        log_config=None,
        log_level=logging.CRITICAL if not logger.isEnabledFor(logging.DEBUG) else logging.DEBUG,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
    )
    return Server(config), service


@contextlib.contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handler` for the signals that end a process; those that are ignored (nohup) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {one: signal.getsignal(one) for one in numbers if signal.getsignal(one) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def _listening(settings: ServeSettings) -> Iterator[socket.socket]:
    """A socket that is bound to the address."""
    where = f"{settings.host} port {settings.port}"
    try:
        family, kind, protocol, _name, place = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise IsoglossError(f"{printable(where)}: no such address ({error})", hint="use --host 127.0.0.1 or 0.0.0.0") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
        except OSError as error:
            hint = "stop the other program, or choose another --port (0: a free one)"
            raise IsoglossError(f"{where}: cannot listen there ({error.strerror})", hint=hint) from error
        listener.set_inheritable(True)
        yield listener


def _address(listener: socket.socket) -> str:
    """The URL of the service, which is also that of its page."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}/"


def _warn_of_open_door(settings: ServeSettings, keys: ApiKeys) -> None:
    if settings.host in ANYWHERE and not keys:
        message = "anyone who can reach this machine can use the service; set API keys: --api-keys FILE, or $%s"
        logger.warning(message, VARIABLE)
