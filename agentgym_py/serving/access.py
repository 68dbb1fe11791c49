"""The token of a server, which its clients send with each request."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope


def has_token(scope: Scope, token: str) -> bool:
    """Return whether a request carries the token as Bearer; compared in a time that does not tell how much is right."""
    header = dict(scope.get("headers", ())).get(b"authorization", b"")
    return secrets.compare_digest(header, f"Bearer {token}".encode())
