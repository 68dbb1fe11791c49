"""The rows of a model's head that are tokens: models have more rows than their tokenizer has tokens, as padding."""

from __future__ import annotations

from typing import Any

from agentgym_py.errors import PolicyError
from agentgym_py.policy.typing import Tensor

_ATTRIBUTE = "agentgym_vocab_size"
"""On the model, so that copies, adapters and wrappers of it keep the number."""


def limit_vocabulary(model: Any, tokenizer: Any, name: str) -> None:
    """Set the number of rows that a model's replies are sampled from, and trained against.

    Raises:
        PolicyError: the tokenizer has more tokens than the model has embeddings.
    """
    tokens, rows = count_ids(tokenizer), embedding_rows(model)
    if tokens > rows:
        raise PolicyError(
            f"the tokenizer of {name!r} has {tokens} tokens and the model {rows} embeddings: resize the embeddings "
            "(model.resize_token_embeddings) or use the model's own tokenizer"
        )
    base = model.get_base_model() if hasattr(model, "peft_config") else model  # adapters come and go
    setattr(base, _ATTRIBUTE, tokens)


def train_padding_row(model: Any) -> None:
    """Let the embedding of the padding token have a gradient, because it may be the token that ends a turn.

    Nothing here reads the padding: it stands behind the tokens of a row.
    """
    embeddings = model.get_input_embeddings()
    if getattr(embeddings, "padding_idx", None) is not None:
        embeddings.padding_idx = None


def count_ids(tokenizer: Any) -> int:
    """Return the number of ids up to the tokenizer's largest; `len` is smaller if the ids have gaps."""
    return max(map(int, tokenizer.get_vocab().values())) + 1


def embedding_rows(model: Any) -> int:
    """Return the number of ids that a model reads."""
    return int(model.get_input_embeddings().weight.shape[0])


def vocab_size_of(model: Any) -> int | None:
    """Return the number of rows that are tokens; None for a model that no policy has loaded."""
    size: int | None = getattr(model, _ATTRIBUTE, None)
    return size


def token_logits(model: Any, logits: Tensor) -> Tensor:
    """Return the logits (…, rows) of the rows that are tokens, (…, V)."""
    return logits[..., : vocab_size_of(model)]
