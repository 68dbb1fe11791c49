"""Files: atomic writes, limits on what is read, folders that nothing leads out of, and locks."""

from agentgym_py.files.folders import DEEPEST, inside, missing_file_hint, require_inside, require_ordinary, walk
from agentgym_py.files.json_folder import LOCK, PROVENANCE, JsonFolder, claimed, new_folder
from agentgym_py.files.reading import MOST_BYTES, clear_read_errors, load_json, numbered_lines, read_bytes, read_text
from agentgym_py.files.values import (
    MOST_VALUES,
    RENAMED,
    canonical_json,
    json_safe,
    parse_json,
    parse_yaml,
    with_current_names,
)
from agentgym_py.files.writing import (
    add_filename,
    append_line,
    append_or_undo,
    clear_write_errors,
    remove,
    remove_partial_files,
    replacing,
    require_replaceable,
    sync_to_disk,
    write_atomic,
)

__all__ = [
    "DEEPEST",
    "LOCK",
    "MOST_BYTES",
    "MOST_VALUES",
    "PROVENANCE",
    "RENAMED",
    "JsonFolder",
    "add_filename",
    "append_line",
    "append_or_undo",
    "canonical_json",
    "claimed",
    "clear_read_errors",
    "clear_write_errors",
    "inside",
    "json_safe",
    "load_json",
    "missing_file_hint",
    "new_folder",
    "numbered_lines",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_text",
    "remove",
    "remove_partial_files",
    "replacing",
    "require_inside",
    "require_ordinary",
    "require_replaceable",
    "sync_to_disk",
    "walk",
    "with_current_names",
    "write_atomic",
]
