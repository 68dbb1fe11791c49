"""AgentShop-v0: WebShop in one process, from recorded pages to an endless, seeded supply of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgym_envs.shop import pages, react
from agentgym_envs.shop.catalogue import Catalogue, load_catalogue
from agentgym_envs.shop.expert import Expert
from agentgym_envs.shop.original import StrictMoves, split_action
from agentgym_envs.shop.render import RENDERERS
from agentgym_envs.shop.reward import exact_match, reward_parts
from agentgym_envs.shop.session import Moves, Visit, plain
from agentgym_envs.shop.tasks import Difficulty, Errand, GeneratedTasks, Goals, ListedTasks
from agentgym_py.env import Outcome, Reply, StopReason, Task, TextEnv, function_tool, require_split, text_parameter
from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError

Mode = Literal["react", "text", "text_rich", "html", "url"]


class ShopEnv(TextEnv):
    """AgentShop-v0: find and buy what a request describes.

    A WebShop: search, read pages, choose the options.

    Task: a request such as "Find me machine wash, slim fit men's shirts with color: navy blue, and size: small, and
    price lower than 50.00 dollars". Several products may satisfy it. Generated tasks name 1 (easy), 2 (medium) or 3
    (hard) attributes of a product with 1, 1 to 2, or 2 to 3 groups of options.

    Actions: `search[words]` on the search page; `click[name]` for whatever the page shows: a button, a product's id,
    an option's value, or `click[option: value]` where two options share a value. As tools: `search(query)`,
    `click(target)`.

    Observation: the page, in one of the modes `react` (short, for language models), `text`, `text_rich`, `html`, `url`
    (WebShop's own). In every mode `info` holds `clickables` and `has_search_bar`. Prices look as WebShop writes them,
    as Python prints a float: what costs 100 dollars shows `$100.0`.

    Reward: WebShop's, at the purchase: type x (attributes + options + price that match) / (their number), from 0 to 1,
    with its parts in `info["reward_parts"]`. `info["success"]` is stricter: everything asked for, to the letter (see
    `reward.exact_match`).

    End: `click[buy now]` terminates; `max_steps` truncates.

    Args:
        catalogue: a folder of WebShop's files (`items_shuffle*.json`, `items_ins_v2*.json`, `items_human_ins*.json`,
            and `goals.json`, `prices.json`, `name_nouns.json` where they are; each may be gzipped); None is the
            embedded one.
        goals: `synthetic` requests; or `human` ones: in WebShop's files those that people wrote, in the embedded
            catalogue full sentences that templates filled in.
        observation_mode: see above.
        strict_compat: reproduce WebShop with all its slips, to the character.
        difficulty: of generated tasks; None is `medium` in the embedded catalogue, and in a folder WebShop's own list
            of goals: `task(i)` is then goal i of the whole list (of a split, where one is named).
        max_steps: when an episode is cut.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentShop-v0.
    """

    name: ClassVar[str] = "shop"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 0
    rules: ClassVar[Mapping[str, str]] = react.RULES
    id_arguments: ClassVar[tuple[str, ...]] = ("difficulty",)

    def __init__(
        self,
        *,
        catalogue: str | Path | None = None,
        goals: Goals = "synthetic",
        observation_mode: Mode = "react",
        strict_compat: bool = False,
        difficulty: Difficulty | None = None,
        max_steps: int = 15,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        if goals == "human" and difficulty is not None:
            raise ConfigError("difficulty is for generated tasks: leave it out with goals='human'")
        self.catalogue = load_catalogue(catalogue)
        self.observation_mode = observation_mode
        self.moves: Moves = (StrictMoves if strict_compat else Moves)(self.catalogue)
        self.stops_at_end = not strict_compat
        self.tasks = _tasks(self.catalogue, goals, difficulty, embedded=catalogue is None)
        self.visit = Visit()
        self._errand: Errand | None = None
        self._expert: Expert | None = None

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def task(self, name: str | int, split: str | None = None) -> Task:
        """The task of an id, or number `name` of a split; without a split, of a user's whole list of goals."""
        return self._find(name, split).task

    def sample_task(self, split: str) -> Task:
        """A random task of a split."""
        return self.tasks.draw(self.rng, split).task

    def _find(self, name: str | int, split: str | None = None) -> Errand:
        if isinstance(name, bool) or not isinstance(name, (str, Integral)):
            raise UnknownNameError(f"A task is named by its id or its number, not by {name!r}.")
        name = name if isinstance(name, str) else int(name)
        if split is not None:
            require_split(split)
        elif isinstance(self.tasks, ListedTasks) and not self.tasks.by_product:
            return self.tasks.get(name, None)
        return self.tasks.get(name, split or self.split)

    @property
    def errand(self) -> Errand:
        """The current task with its goal."""
        task = self._require_reset()
        if self._errand is None or self._errand.task is not task:
            self._errand, self._expert = self._find(task.id), None
        return self._errand

    # ---- the episode ------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """The search page."""
        self.visit = Visit(salt=self.rng.bits() & 0xFFFFFFFF if self.moves.strict else 0)
        return react.first_page(task.instruction) if self.observation_mode == "react" else self._page()

    def read(self, text: str) -> Reply:
        """A reply in any form; in strict mode the text itself, as WebShop takes it."""
        return Reply(text) if self.moves.strict else parse_reply(text)

    def act(self, reply: Reply) -> Outcome:
        """Search or click."""
        name, argument = split_action(reply.action) if self.moves.strict else _split(reply)
        if name not in ("search", "click") or not argument:
            return self.invalid("Not an action: write search[words] or click[button].")
        wrong = (self.moves.search if name == "search" else self.moves.click)(self.visit, argument)
        if wrong:
            return self.invalid(wrong)
        if self.visit.place == "done":
            return self._bought()
        return Outcome(self._after(name, argument), info=self.extra_info())

    def _after(self, name: str, argument: str) -> str:
        if self.observation_mode != "react":
            return self._page()
        if name == "click" and self.visit.place == "item" and self.visit.chosen:
            said = react.selected(self.visit, plain(argument))
            if said:
                return said
        return react.page(self.moves, self.visit)

    def invalid(self, why: str) -> Outcome:
        """The reason in mode `react`, in the others the same page again, as in WebShop."""
        return Outcome(why if self.observation_mode == "react" else self._page(), valid=False, info=self.extra_info())

    def _bought(self) -> Outcome:
        product, goal, chosen = self.moves.product(self.visit), self.errand.goal, self.visit.chosen
        paid = reward_parts(product, goal, product.price, chosen)
        exact = exact_match(product, goal, product.price, chosen)
        self.visit.reward = paid.reward
        parts = {"r_type": paid.r_type, "r_att": paid.r_att, "r_option": paid.r_option, "r_price": paid.r_price}
        given = {name: float(value) for name, value in parts.items() if value is not None}
        shown = react.page(self.moves, self.visit) if self.observation_mode == "react" else self._page()
        info = {**self.extra_info(), "exact": exact}
        return Outcome(shown, paid.reward, terminated=True, success=exact, parts=given, info=info)

    def _page(self) -> str:
        errand = self.errand
        page = pages.build(self.moves, self.visit, errand.session, errand.task.instruction)
        return RENDERERS[self.observation_mode](page)

    def extra_info(self) -> dict[str, Any]:
        """What can be clicked here, and whether there is a search box."""
        return {"clickables": self.moves.clickables(self.visit), "has_search_bar": self.visit.place == "search"}

    def actions(self) -> list[str]:
        """A click for everything that can be clicked; on the search page one search, for the request's own words."""
        if self.visit.place == "search":
            return [f"search[{self.errand.words}]"]
        names = self.moves.clickables(self.visit)
        if self.visit.place == "results":
            names = [name.upper() if name.upper() in self.catalogue.by_asin else name for name in names]
        return [f"click[{name}]" for name in names]

    def tools(self) -> list[dict[str, Any]]:
        """`search(query)` and `click(target)`."""
        return [
            function_tool(
                "search",
                "Search for products; works on the search page.",
                {"query": text_parameter("Words to look for.")},
            ),
            function_tool(
                "click",
                "Click a button, product or option.",
                {"target": text_parameter("Its name as the page shows it.")},
            ),
        ]

    # ---- forks and the expert ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The visit, and which catalogue it was in."""
        return {"catalogue": self.catalogue.version, **self.visit.to_json()}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Go on with a visit; SnapshotError if it was in another catalogue."""
        del task
        if state["catalogue"] != self.catalogue.version:
            raise SnapshotError(f"A snapshot of catalogue {state['catalogue']}, wanted {self.catalogue.version}")
        self.visit = self.moves.checked(state)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether something was bought."""
        return bool(state["place"] == "done")

    def expert(self) -> list[str]:
        """A shortest plan from here, see `Expert` for what that claims; empty after the end."""
        return [] if self.stop_reason is StopReason.TERMINATED else self._guide().plan(self.visit)

    def fair_expert(self) -> str | None:
        """What a customer does who goes through the results in order, see `Expert.fair`."""
        return None if self.stop_reason is StopReason.TERMINATED else self._guide().fair(self.visit)

    def expert_thought(self, action: str) -> str:
        """What a teacher would say before an action here, see `Expert.think`."""
        return self._guide().think(self.visit, action)

    def _guide(self) -> Expert:
        errand = self.errand
        if self._expert is None:
            self._expert = Expert(self.moves, errand)
        return self._expert


def _split(reply: Reply) -> tuple[str, str | None]:
    """Name and argument; words behind the last bracket do not count."""
    name, argument = reply.parts
    if argument is None and "]" in reply.action:
        return replace(reply, action=reply.action[: reply.action.rfind("]") + 1]).parts
    return name, argument


@lru_cache(maxsize=64)
def _tasks(
    catalogue: Catalogue, goals: Goals, difficulty: Difficulty | None, *, embedded: bool
) -> GeneratedTasks | ListedTasks:
    if goals == "human" or (difficulty is None and not embedded):
        return ListedTasks(catalogue, goals, by_product=embedded)
    return GeneratedTasks(catalogue, difficulty or "medium")
