"""One thread at a time in the methods of an object."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


def alone(method: _Method) -> _Method:
    """Lets one thread at a time into the methods of an object that have this decorator. In a child
    of fork() another thread may have the lock for ever, so the process is checked first."""
    @functools.wraps(method)
    def call(self: Any, *positional: Any, **named: Any) -> Any:
        self.check_process()
        with self._lock:
            return method(self, *positional, **named)
    return cast(_Method, call)
