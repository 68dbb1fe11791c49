"""The engine on a Hugging Face model, which keeps the keys and values of every live episode from turn to turn.

`batch` decodes replies and fills the places of those that ended; `prefill` computes prompts from the longest prefix
that a slot holds; `places` moves episodes between slots within the memory of the cache. `runner` runs the model over
the slots, `forward` is its forward pass, `fused` a faster one of small models, `kvcache` holds keys and
values and attends over them, and `cache_slots` knows which slot holds which tokens.
"""

from agentgym_py.engine.hf.batch import HFBatch
from agentgym_py.engine.hf.engine import HFEngine

__all__ = ["HFBatch", "HFEngine"]
