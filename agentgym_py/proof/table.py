"""A policy that is a table: its logits after a prefix of tokens are a row of weights of their own.

    logits(prefix) = structure(prefix) + noise(prefix) + scale * table[row of the prefix]

A causal language model like any other to a trainer, but the gradient of a row is the gradient of the loss by the logits
of one prediction. So one can read off a trainer's gradient which predictions it trained, which tokens it made likelier,
and by how much. `structure` makes replies well-formed, `noise` makes probabilities uneven; both are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from agentgym_py.engine.base import Generation
from agentgym_py.engine.decoding import draw
from agentgym_py.engine.sampling import SamplingParams, seeds_for
from agentgym_py.errors import ConfigError
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import ASSISTANT, CHAT_TEMPLATE, END, PAD, SPECIAL_TOKENS
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.proof.world import ACTIONS, FILLERS, WORDS

_UNKNOWN = "<unk>"
VOCABULARY = [*SPECIAL_TOKENS, _UNKNOWN, *WORDS]
_ID = {word: number for number, word in enumerate(VOCABULARY)}
ASSISTANT_ID, END_ID, _PAD_ID = _ID[ASSISTANT], _ID[END], _ID[PAD]
ACTION_IDS, FILLER_IDS = [_ID[word] for word in ACTIONS], [_ID[word] for word in FILLERS]
MAX_FILLERS = 1
"""Fillers of a reply; behind them it ends."""
MAX_REPLY = 2 + MAX_FILLERS
_ROWS = 1 << 13
SCALE = 400.0
"""With it the learning rates of small models move logits by some hundredths per step."""
_PADDED = 1
"""Row of every prefix that ends with padding; tokens behind it have rows of their own, as behind a wrong prefix."""
_NEVER = -30.0
_NOISE = 0.5
_P_END, _P_FILLER = 0.4, 0.3
_MASK = (1 << 64) - 1


class PrefixTree:
    """The rows of all prefixes that were read, in the order of their first reading."""

    def __init__(self) -> None:
        size = len(VOCABULARY)
        self._children = dict[tuple[int, int], int]()
        self._keys = [1, 2]  # the empty prefix, and all that end with padding
        self._fillers = [-1, -1]
        """Number of fillers that a reply ends with; -1 outside replies."""
        self.structure = np.zeros((_ROWS, size), dtype=np.float32)
        self.noise = np.zeros((_ROWS, size), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._keys)

    def child(self, row: int, token: int) -> int:
        """Return the row of a prefix with one more token."""
        if token == _PAD_ID:
            return _PADDED
        found = self._children.get((row, token))
        return self._add(row, token) if found is None else found

    def rows(self, ids: Sequence[int]) -> list[int]:
        """Return the row after each of the tokens."""
        row, rows = 0, []
        for token in ids:
            row = self.child(row, token)
            rows.append(row)
        return rows

    def is_reply(self, row: int) -> bool:
        """Whether the prefix ends within a reply, so that the agent chooses the next token."""
        return self._fillers[row] >= 0

    def _add(self, row: int, token: int) -> int:
        new = len(self._keys)
        if new == _ROWS:
            raise ConfigError(f"the training read more than {_ROWS} prefixes: the table of the proof is full")
        self._children[row, token] = new
        key = (self._keys[row] * 6364136223846793005 + token * 1442695040888963407 + 0x9E3779B97F4A7C15) & _MASK
        self._keys.append(key ^ key >> 29)
        self._fillers.append(self._count(row, token))
        self.structure[new] = self._structure(new, token)
        self.noise[new] = np.random.default_rng(self._keys[new]).standard_normal(len(VOCABULARY)) * _NOISE
        return new

    def _count(self, row: int, token: int) -> int:
        if token == ASSISTANT_ID:
            return 0
        before = self._fillers[row]
        return -1 if before < 0 or token == END_ID else before + (token in FILLER_IDS)

    def _structure(self, row: int, token: int) -> Any:
        if not self.is_reply(row):
            return np.zeros(len(VOCABULARY))
        logits = np.full(len(VOCABULARY), _NEVER)
        if token == ASSISTANT_ID:
            logits[ACTION_IDS] = 0.0
        elif self._fillers[row] >= MAX_FILLERS:
            logits[END_ID] = 0.0
        else:
            logits[END_ID] = np.log(_P_END)
            logits[FILLER_IDS] = np.log(_P_FILLER)
        return logits


_TREES: dict[str, PrefixTree] = {}
"""Shared by all copies of a model in this process, also by one that is loaded from a folder."""


class TableConfig(PretrainedConfig):  # type: ignore[misc]  # transformers is untyped
    """Configuration of a table."""

    model_type = "agentgym_table"

    def __init__(self, tree: str = "proof", dropout: float = 0.0, **kwargs: Any) -> None:
        self.tree, self.dropout = tree, dropout
        self.hidden_size = len(VOCABULARY)
        self.max_position_embeddings = 256
        self.num_hidden_layers = self.num_attention_heads = 1
        self.vocab_size = len(VOCABULARY)
        super().__init__(**{"pad_token_id": 0, "eos_token_id": END_ID, "tie_word_embeddings": False} | kwargs)


class TableLayers(nn.Module):
    """The table, as the layers of a causal model; its hidden states are the logits."""

    def __init__(self, config: TableConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(len(VOCABULARY), len(VOCABULARY))
        self.table = nn.Parameter(torch.zeros(_ROWS, len(VOCABULARY)))
        self.dropout = nn.Dropout(config.dropout)
        self._tree_name = config.tree

    @property
    def tree(self) -> PrefixTree:
        """The rows of prefixes."""
        return _TREES.setdefault(self._tree_name, PrefixTree())

    def logits_of(self, rows: Tensor, *, dropout: bool = False, table: Tensor | None = None) -> Tensor:
        """Return the logits of some rows, (…, V), by this or another table."""
        structure, noise = (torch.from_numpy(x)[rows].to(self.table) for x in (self.tree.structure, self.tree.noise))
        uneven = noise + SCALE * nn.functional.embedding(rows, self.table if table is None else table)
        return structure + (self.dropout(uneven) if dropout else uneven)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None,
        **unused: Any,
    ) -> BaseModelOutputWithPast:  # fmt: skip
        """Read tokens, (B, S), as a causal model: masked tokens are skipped, a position of 0 starts a sequence."""
        masks = [None] * len(input_ids) if attention_mask is None else attention_mask.tolist()
        places = [None] * len(input_ids) if position_ids is None else position_ids.expand_as(input_ids).tolist()
        rows = [self._row(*row) for row in zip(input_ids.tolist(), masks, places, strict=True)]
        return BaseModelOutputWithPast(last_hidden_state=self.logits_of(torch.tensor(rows), dropout=True))

    def _row(self, ids: list[int], mask: list[int] | None, places: list[int] | None) -> list[int]:
        row, rows, tree = 0, [], self.tree
        for at, token in enumerate(ids):
            if mask is None or mask[at]:
                row = tree.child(0 if places is not None and places[at] == 0 else row, token)
            rows.append(row)
        return rows


class IdentityHead(nn.Module):
    """A head that changes nothing and is not trained."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.eye(len(VOCABULARY)))
        self.bias = None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the hidden states, which are logits."""
        return nn.functional.linear(hidden, self.weight.to(hidden.dtype))


class TableModel(PreTrainedModel, GenerationMixin):  # type: ignore[misc]  # transformers is untyped
    """The table as a causal language model."""

    config_class = TableConfig
    base_model_prefix = "model"
    _no_split_modules: ClassVar = ["TableLayers"]

    def __init__(self, config: TableConfig) -> None:
        super().__init__(config)
        self.model, self.lm_head = TableLayers(config), IdentityHead()
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, TableLayers):
            nn.init.zeros_(module.table)
        elif isinstance(module, nn.Embedding):
            nn.init.zeros_(module.weight)

    def get_input_embeddings(self) -> nn.Module:
        """Return an embedding that nothing reads; it says how many tokens there are."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """Return the head."""
        return self.lm_head

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None,
        labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None, **more: Any,
    ) -> CausalLMOutputWithPast:  # fmt: skip
        """Return the logits, (B, S, V), and with `labels` the mean cross-entropy of the next tokens.

        As in models of transformers, the mean is over `num_items_in_batch` tokens if a trainer gives their number.
        """
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)
        logits, loss = self.lm_head(hidden.last_hidden_state), None
        if labels is not None:
            predicted, targets = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
            number = (targets != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
            loss = nn.functional.cross_entropy(predicted, targets, ignore_index=IGNORED, reduction="sum") / number
        return CausalLMOutputWithPast(loss=loss, logits=logits)


def table_policy(tree: str = "proof", dropout: float = 0.0) -> Policy:
    """Make a policy that is a table, untrained; with `dropout` its training mode is noisy.

    Policies of one `tree` give a prefix the same row.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    AutoConfig.register(TableConfig.model_type, TableConfig, exist_ok=True)
    AutoModelForCausalLM.register(TableConfig, TableModel, exist_ok=True)
    words = Tokenizer(models.WordLevel(_ID, unk_token=_UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token=PAD, eos_token=END, unk_token=_UNKNOWN,
        additional_special_tokens=list(SPECIAL_TOKENS[1:3]), chat_template=CHAT_TEMPLATE,
    )  # fmt: skip
    return Policy(TableModel(TableConfig(tree, dropout)).eval(), tokenizer, "table")


class TableEngine:
    """Samples replies by whole forward passes of the policy's model, in the mode that a trainer left it in."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.version = policy, 0

    @property
    def digest(self) -> str:
        """SHA-256 of the weights."""
        return self.policy.digest()

    def sync(self, policy: Policy, version: int) -> None:
        """Use these weights."""
        self.policy, self.version = policy, version

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Return one reply per prompt; every reply counts as complete."""
        generators = [np.random.default_rng(s) for s in seeds_for(prompts, seeds, np.random.default_rng(0))]
        rows = [list(prompt) for prompt in prompts]
        ids, logps = [list[int]() for _ in prompts], [list[float]() for _ in prompts]
        live = list(range(len(prompts)))
        for _ in range(min(params.max_new_tokens, MAX_REPLY)):
            if not live:
                break
            uniforms = torch.tensor([generators[i].random() for i in live])
            drawn = draw(self._next_logits([rows[i] for i in live]), uniforms, params)
            for i, token, logp in zip(live, drawn.tokens.tolist(), drawn.logprobs.tolist(), strict=True):
                rows[i].append(token)
                ids[i].append(token)
                logps[i].append(logp)
            live = [i for i in live if ids[i][-1] != END_ID]
        return [Generation(tuple(i), tuple(p), "stop") for i, p in zip(ids, logps, strict=True)]

    @torch.no_grad()
    def _next_logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[_PAD_ID] * (longest - len(row))] for row in rows])
        logits = self.policy.model(input_ids=ids).logits
        ends: Tensor = logits[torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])]
        return ends
