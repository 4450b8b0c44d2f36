"""What opened indexes and their writers have in common: both are closed, or used in a with statement."""

from typing import Self


class Closing:
    """A context manager that closes itself."""

    def close(self) -> None:
        """Nothing is held open, unless a subclass says otherwise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
