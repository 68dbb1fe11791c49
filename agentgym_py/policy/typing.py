"""torch's types for annotations in modules that must not load torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any
"""`--help` reads trainers, and must not load torch for their annotations."""
