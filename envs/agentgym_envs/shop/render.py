"""Pages in WebShop's modes: `text`, `text_rich`, `url` and `html`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from agentgym_envs.shop.pages import Page, Part


def text(page: Page) -> str:
    """Join the strings of the page by ` [SEP] `."""
    return " [SEP] ".join([part.text.strip() for part in page.parts])


def text_rich(page: Page) -> str:
    """Write one string per line; mark buttons, options and products, and announce chosen options first."""
    chosen = [f"You have clicked {part.text}.\n" for part in page.parts if part.kind == "option" and part.selected]
    return "".join([*reversed(chosen), *(_rich(part) for part in page.parts if part.kind != "mark")])


def _rich(part: Part) -> str:
    if part.kind in ("text", "name"):
        return f"{part.text}\n"
    button = "clicked button" if part.selected else "button"
    before = {"option": "  ", "product": "\n"}.get(part.kind, "")
    return f"{before}[{button}] {part.text} [{button}_]\n"


def url(page: Page) -> str:
    """Return the address of the page."""
    return page.url


def html(page: Page) -> str:
    """Write the page as html that WebShop's parser reads as `text`."""
    return f"""<!DOCTYPE html>
<html>
  <head>
    <title>AgentShop</title>
  </head>
  <body>
{"".join(_tag(part, number, page) for number, part in enumerate(page.parts))}  </body>
</html>
"""


def _tag(part: Part, number: int, page: Page) -> str:
    words = escape(part.text)
    if part.kind == "button":
        box = '<input id="search_input" name="search_query" type="text">' if page.search_bar else ""
        return f'    <form method="post">{box}<button class="btn" type="submit">{words}</button></form>\n'
    if part.kind == "product":
        return f'    <h4><a class="product-link" href="#{words}">{words}</a></h4>\n'
    if part.kind == "option":
        checked = " checked" if part.selected else ""
        name, mark = escape(part.group), f"option_{number}"
        radio = f'<input type="radio" id="{mark}" name="{name}" value="{escape(part.click)}"{checked}>'
        return f'    {radio}<label for="{mark}">{words}</label>\n'
    if part.kind == "mark":
        return f"    <em>{words}</em>\n"
    return f"    <h4>{words}</h4>\n" if part.kind == "name" else f"    <p>{words}</p>\n"


RENDERERS: Mapping[str, Callable[[Page], str]] = {"text": text, "text_rich": text_rich, "url": url, "html": html}
"""Observation mode to its renderer."""
