"""Find tools by the meaning of a request: an index that a training makes, and word search beside it."""

from agentgym_py.retrieval.index import ToolIndex
from agentgym_py.retrieval.types import Searcher, ToolQuery, ToolSource

__all__ = ["Searcher", "ToolIndex", "ToolQuery", "ToolSource"]
