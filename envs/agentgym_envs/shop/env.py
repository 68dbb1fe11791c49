"""AgentShop-v0: WebShop in one process, with an endless, seeded supply of tasks."""

from __future__ import annotations

from collections.abc import Mapping
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
from agentgym_envs.shop.session import Moves, Session, normalize
from agentgym_envs.shop.tasks import DIFFICULTIES, Difficulty, GeneratedTasks, Goals, ListedTasks, ShopTask
from agentgym_py.env import Outcome, Reply, StopReason, Task, TextEnv, function_tool, require_split, text_parameter
from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError

Mode = Literal["react", "text", "text_rich", "html", "url"]


class ShopEnv(TextEnv):
    """AgentShop-v0: find and buy what a request describes.

    A reimplementation of WebShop: search, read pages, choose options.

    Task: a request such as "Find me machine wash, slim fit men's shirts with color: navy blue, and size: small, and
    price lower than 50.00 dollars". Several products may satisfy it. Generated tasks name 1 (easy), 2 (medium) or 3
    (hard) attributes of a product with 1, 1 to 2, or 2 to 3 groups of options. A request is made from a target product.
    Splits have disjoint targets and requests, but a product that is a target in one split may satisfy a request of
    another.

    Actions: `search[words]` on the search page; `click[name]` for a button, a product's id or an option's value on
    the page. Write `click[option: value]` if two options share a value. As tools: `search(query)`, `click(target)`.

    Observation: the page, in the mode `react` (short, for language models) or in one of WebShop's own: `text`,
    `text_rich`, `html`, `url`. In every mode `info` holds `clickables` and `has_search_bar`. Prices are printed as
    Python floats, as in WebShop: 100 dollars shows as `$100.0`. A price range counts as a price drawn within it, which
    no page shows.

    Reward: WebShop's, at the purchase: type x (matching attributes + options + price) / (their number), from 0 to 1,
    with its parts in `info["reward_parts"]`. `info["success"]` is stricter: the kind of product and every requested
    item must match literally (see `reward.exact_match`).

    Costs: `wrong_purchase` is 1 at a purchase that is no success.

    End: `click[buy now]` terminates; `max_steps` truncates.

    Experts: the exact expert knows every product. The fair expert knows only what the pages show and tries the results
    in order; if none is left, it follows the exact expert's plan.

    Args:
        catalogue: a folder of WebShop's files (`items_shuffle*.json`, `items_ins_v2*.json`, `items_human_ins*.json`,
            optionally `goals.json`, `prices.json`, `name_nouns.json`; each may be gzipped). None is the embedded one.
        goals: `synthetic` requests or `human` ones. Human requests are written by people in WebShop's files and by
            templates of full sentences in the embedded catalogue.
        observation_mode: see above.
        strict_compat: reproduce WebShop character by character, with all its bugs.
        difficulty: difficulty of generated tasks. None is `medium` in the embedded catalogue and WebShop's own list
            of goals in a folder, where number i is goal i of the whole list unless a split is named.
        max_steps: the step at which an episode is truncated.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentShop-v0.
    """

    name: ClassVar[str] = "shop"
    reading_actions: ClassVar[tuple[str, ...]] = ("search",)
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 1
    rules: ClassVar[Mapping[str, str]] = react.RULES
    evolve_defaults: ClassVar[Mapping[str, Any]] = {
        "expert_tasks": 25, "expert_epochs": 8.0, "explore_tasks": 500, "merge": "all", "restart": "base",
    }  # fmt: skip  # every training begins with the base's skill of copying words, which long training wears off
    costs: ClassVar[Mapping[str, str]] = {"wrong_purchase": "a purchase of something else than the request names"}
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
            raise ConfigError("goals='human' has no difficulties: leave out difficulty")
        self.catalogue, self._is_embedded = load_catalogue(catalogue), catalogue is None
        self.observation_mode = observation_mode
        self.moves: Moves = (StrictMoves if strict_compat else Moves)(self.catalogue)
        self.stops_at_end = not strict_compat
        self.tasks = _tasks(self.catalogue, goals, difficulty, embedded=self._is_embedded)
        self.session = Session()
        self._shop_task: ShopTask | None = None
        self._expert: Expert | None = None

    @property
    def files_digest(self) -> str | None:
        """Return the version of a catalogue's folder."""
        return None if self._is_embedded else self.catalogue.version

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return the task of an id or number; without a split, numbers count through a user's whole list of goals."""
        return self._find(name, split).task

    @property
    def difficulties(self) -> tuple[str, ...]:
        """Those of generated tasks; lists of goals have none."""
        return tuple(DIFFICULTIES) if isinstance(self.tasks, GeneratedTasks) else ()

    def sample_task(self, split: str) -> Task:
        """Draw a random task of a split."""
        return self.tasks.draw(self.rng, split).task

    def _find(self, name: str | int, split: str | None = None) -> ShopTask:
        if isinstance(name, bool) or not isinstance(name, (str, Integral)):
            raise UnknownNameError(f"A task is named by its id or its number, not by {name!r}.")
        name = name if isinstance(name, str) else int(name)
        if split is not None:
            require_split(split)
        elif isinstance(self.tasks, ListedTasks) and not self.tasks.by_product:
            return self.tasks.get(name, None)
        return self.tasks.get(name, split or self.split)

    @property
    def shop_task(self) -> ShopTask:
        """Return the current task with its goal."""
        task = self._require_reset()
        if self._shop_task is None or self._shop_task.task is not task:
            self._shop_task, self._expert = self._find(task.id), None
        return self._shop_task

    # ---- the episode ------------------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Open the search page."""
        self.session = Session(salt=self.rng.bits() & 0xFFFFFFFF if self.moves.strict else 0)
        return react.first_page(task.instruction) if self.observation_mode == "react" else self._page()

    def read(self, text: str) -> Reply:
        """Parse a reply in any form; strict mode takes the text itself, as WebShop does."""
        return Reply(text) if self.moves.strict else parse_reply(text)

    def act(self, reply: Reply) -> Outcome:
        """Search or click."""
        name, argument = split_action(reply.action) if self.moves.strict else _split(reply)
        if name not in ("search", "click") or not argument:
            return self.invalid("Not an action: write search[words] or click[button].")
        error = (self.moves.search if name == "search" else self.moves.click)(self.session, argument)
        if error:
            return self.invalid(error)
        if self.session.place == "done":
            return self._purchase()
        return Outcome(self._page_after(name, argument), info=self.extra_info())

    def _page_after(self, name: str, argument: str) -> str:
        if self.observation_mode != "react":
            return self._page()
        if name == "click" and self.session.place == "item" and self.session.chosen:
            confirmation = react.selection(self.session, normalize(argument))
            if confirmation:
                return confirmation
        return react.page(self.moves, self.session)

    def invalid(self, why: str) -> Outcome:
        """Observe the reason in mode `react`; the other modes show the same page again, as in WebShop."""
        return Outcome(why if self.observation_mode == "react" else self._page(), valid=False, info=self.extra_info())

    def _purchase(self) -> Outcome:
        product, goal, chosen = self.moves.product(self.session), self.shop_task.goal, self.session.chosen
        score = reward_parts(product, goal, product.price, chosen)
        exact = exact_match(product, goal, product.price, chosen)
        self.session.reward = score.reward
        values = {"r_type": score.r_type, "r_att": score.r_att, "r_option": score.r_option, "r_price": score.r_price}
        parts = {name: float(value) for name, value in values.items() if value is not None}
        observation = react.page(self.moves, self.session) if self.observation_mode == "react" else self._page()
        info = {**self.extra_info(), "exact": exact}
        costs = {"wrong_purchase": float(not exact)}
        return Outcome(observation, score.reward, terminated=True, success=exact, parts=parts, costs=costs, info=info)

    def _page(self) -> str:
        shop_task = self.shop_task
        page = pages.build(self.moves, self.session, shop_task.session_id, shop_task.task.instruction)
        return RENDERERS[self.observation_mode](page)

    def extra_info(self) -> dict[str, Any]:
        """Return the clickable names and whether the page has a search box."""
        return {"clickables": self.moves.clickables(self.session), "has_search_bar": self.session.place == "search"}

    def actions(self) -> list[str]:
        """List a click for every clickable name; on the search page one search for the request's own words."""
        if self.session.place == "search":
            return [f"search[{self.shop_task.words}]"]
        names = self.moves.clickables(self.session)
        if self.session.place == "results":
            names = [name.upper() if name.upper() in self.catalogue.by_asin else name for name in names]
        return [f"click[{name}]" for name in names]

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools `search(query)` and `click(target)`."""
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

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"search": "search[{query}]", "click": "click[{target}]"}

    # ---- forks and the expert ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the session and the version of its catalogue."""
        return {"catalogue": self.catalogue.version, **self.session.to_json()}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore a session; SnapshotError if it belongs to another catalogue."""
        del task
        if state["catalogue"] != self.catalogue.version:
            raise SnapshotError(
                f"The snapshot is of catalogue {state['catalogue']}, this env has {self.catalogue.version}"
            )
        self.session = self.moves.load_session(state)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Tell whether a product was bought."""
        return bool(state["place"] == "done")

    def expert(self) -> list[str]:
        """Return a shortest plan from here (see `Expert` for the claim); empty after the end."""
        return [] if self.stop_reason is StopReason.TERMINATED else self._guide().plan(self.session)

    def fair_expert(self) -> str | None:
        """Return the action of a customer who tries the results in order, see `Expert.fair_action`."""
        return None if self.stop_reason is StopReason.TERMINATED else self._guide().fair_action(self.session)

    def expert_thought(self, action: str) -> str:
        """Return a teacher's thought before an action here, see `Expert.thought`."""
        return self._guide().thought(self.session, action)

    def _guide(self) -> Expert:
        shop_task = self.shop_task
        if self._expert is None:
            self._expert = Expert(self.moves, shop_task)
        return self._expert


def _split(reply: Reply) -> tuple[str, str | None]:
    """Split into name, in lower case, and argument, without quotes; words after the last bracket do not count."""
    name, argument = reply.bracket_parts
    if argument and len(argument) > 2 and argument[0] == argument[-1] and argument[0] in "\"'":
        argument = argument[1:-1]
    return name.strip().lower(), argument


@lru_cache(maxsize=64)
def _tasks(
    catalogue: Catalogue, goals: Goals, difficulty: Difficulty | None, *, embedded: bool
) -> GeneratedTasks | ListedTasks:
    if goals == "human" or (difficulty is None and not embedded):
        return ListedTasks(catalogue, goals, by_product=embedded)
    return GeneratedTasks(catalogue, difficulty or "medium")
