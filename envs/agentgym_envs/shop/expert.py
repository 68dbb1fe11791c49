"""The expert: shortest plans to a purchase with full reward, and a teacher's thoughts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from agentgym_envs.shop.catalogue import PAGE_SIZE, Catalogue, Product
from agentgym_envs.shop.goals import option_words
from agentgym_envs.shop.reward import Goal, exact_match, reward_parts
from agentgym_envs.shop.session import BACK, BUY, NEXT, PREV, SUB_PAGES, Moves, Session, as_query
from agentgym_envs.shop.tasks import ShopTask


class Expert:
    """Plans for one task.

    A plan is shortest among plans that know every product but use three kinds of queries: the request's own words
    (attributes and kind of thing), these and the option values, or the title of a suitable product. From the search
    page a plan of 3 + (number of options) actions is shortest outright, because each of these clicks is needed. Among
    equally short plans the one that searches for the request's own words is taken, because an agent can learn it. Any
    product that satisfies the request counts.
    """

    def __init__(self, moves: Moves, shop_task: ShopTask) -> None:
        self.moves = moves
        self.shop_task = shop_task

    @cached_property
    def suitable(self) -> Mapping[Product, Mapping[str, str]]:
        """Map the products that satisfy the request to the options to choose."""
        goal = self.shop_task.goal
        suitable: dict[Product, Mapping[str, str]] = {}
        for product in candidates(self.moves.catalogue, goal):
            options = matching_options(product, goal)
            if self._can_choose(product, options) and exact_match(product, goal, product.price, options):
                suitable[product] = options
        return suitable or self._fully_rewarded()

    def _fully_rewarded(self) -> Mapping[Product, Mapping[str, str]]:
        """Map the products of the kind with full reward, else the goal's own, to the options to choose."""
        goal, rewarded = self.shop_task.goal, {}
        for product in self.moves.catalogue.products:
            if product.query == goal.query:
                options = self._rewarded_options(product)
                if options is not None and reward_parts(product, goal, product.price, options).reward == 1.0:
                    rewarded[product] = options
        target = self.moves.catalogue.by_asin[goal.asin]
        return rewarded or {target: self._choosable(target, matching_options(target, goal))}

    def _rewarded_options(self, product: Product) -> dict[str, str] | None:
        """Return a choice that WebShop counts for every option of the goal, or None."""
        candidates_by_option: list[list[tuple[str, str]]] = []
        offered = [(name, value) for name, values in product.options.items() for value in values]
        for option in self.shop_task.goal.options:
            alone = replace(self.shop_task.goal, options=(option,))
            clickable = (pair for pair in offered if self.moves.option_click(product, *pair) is not None)
            matches = [pair for pair in clickable if reward_parts(product, alone, 0, dict([pair])).num_option_matches]
            candidates_by_option.append(matches)
        return next(_consistent_choices(candidates_by_option, {}), None)

    def _can_choose(self, product: Product, options: Mapping[str, str]) -> bool:
        return len(self.shop_task.goal.options) == len(options) == len(self._choosable(product, options))

    def _choosable(self, product: Product, options: Mapping[str, str]) -> Mapping[str, str]:
        return {k: v for k, v in options.items() if self.moves.option_click(product, k, v) is not None}

    @cached_property
    def from_search(self) -> list[str]:
        """Return a shortest plan from the search page."""
        plans = (self._plan_for_query(query) for query in self._queries())
        best: list[str] = []
        shortest = 3 + min(len(options) for options in self.suitable.values())
        for plan in plans:
            if plan and (not best or len(plan) < len(best)):
                best = plan
            if len(best) == shortest:
                break
        return best

    def _queries(self) -> Sequence[str]:
        words = self.shop_task.words
        texts = (words, f"{words} {' '.join(self._values)}", *(product.title for product in self.suitable))
        return [as_query(text) for text in texts]

    @property
    def _values(self) -> list[str]:
        """List the option values of the goal."""
        return [option if isinstance(option, str) else option[1] for option in self.shop_task.goal.options]

    @property
    def _request(self) -> str:
        """Return the request without its price, as a query; the index holds the options too."""
        options = self.shop_task.goal.options
        named = option_words(dict(option for option in options if not isinstance(option, str)))
        unnamed = (option for option in options if isinstance(option, str))
        return as_query(" ".join([self.shop_task.words + named, *unnamed]))

    def _plan_for_query(self, query: str) -> list[str]:
        session = Session()
        if not query or self.moves.search(session, query):
            return []
        rest = self._in_results(session)
        return [f"search[{query}]", *rest] if rest else []

    def plan(self, session: Session) -> list[str]:
        """Return a shortest plan from the open page; empty after the purchase."""
        if session.place == "done":
            return []
        if session.place == "search":
            return list(self.from_search)
        restart = self.from_search if self.moves.strict else [f"click[{BACK}]", *self.from_search]
        if session.place == "results":
            return _shorter(self._in_results(session), restart)
        product = self.moves.product(session)
        if not self.moves.can_go_back(session) and (session.place != "item" or product not in self.suitable):
            return restart
        back = [] if session.place == "item" else [f"click[{PREV}]"]
        if product in self.suitable:
            return [*back, *self._options_and_buy(product, session.chosen)]
        rest = self._in_results(session)
        return _shorter([*back, f"click[{PREV}]", *rest] if rest else [], restart)

    def _in_results(self, session: Session) -> list[str]:
        """Return the shortest plan within the current results; empty if none of them is suitable."""
        if session.query.startswith("<r>") and self.moves.strict:
            return []  # every click would draw other results
        best: list[str] = []
        for rank, product in enumerate(self.moves.hits(session)):
            if product in self.suitable:
                ahead = rank // PAGE_SIZE + 1 - session.number
                turns = [f"click[{NEXT if ahead > 0 else PREV}]"] * abs(ahead)
                best = _shorter(best, [*turns, f"click[{product.asin}]", *self._options_and_buy(product, {})])
        return best

    def _options_and_buy(self, product: Product, chosen: Mapping[str, str]) -> list[str]:
        return self._choose(product, self.suitable[product], chosen)

    def _choose(self, product: Product, options: Mapping[str, str], chosen: Mapping[str, str]) -> list[str]:
        missing = [(name, value) for name, value in options.items() if chosen.get(name) != value]
        return [*(f"click[{self.moves.option_click(product, *pair)}]" for pair in missing), f"click[{BUY}]"]

    def fair_action(self, session: Session) -> str:
        """Return the next action of a customer who knows only what the pages show and tries the results in order.

        They open a result whose price fits and leave it if its page lacks a requested option. After the last result
        the exact expert's plan continues.
        """
        goal = self.shop_task.goal
        if session.place == "search" and self._request:
            return f"search[{self._request}]"
        if session.place == "results":
            for product in self.moves.page_products(session):
                if product.asin not in session.seen and max(product.prices) <= goal.price_upper:
                    return f"click[{product.asin}]"
            if session.number < self.moves.page_count(session):
                return f"click[{NEXT}]"
        if session.place in SUB_PAGES and self.moves.can_go_back(session):
            return f"click[{PREV}]"
        if session.place == "item":
            product = self.moves.product(session)
            options = self._choosable(product, matching_options(product, goal))
            if len(options) == len(goal.options):
                return self._choose(product, options, session.chosen)[0]
            return f"click[{PREV}]"
        return self.plan(session)[0]

    def thought(self, session: Session, action: str) -> str:
        """Return a teacher's thought on a product's page: which requested options are present, and the next click."""
        if session.place != "item":
            return ""
        options = session.chosen or matching_options(self.moves.product(session), self.shop_task.goal)
        present = [(value, value in options.values()) for value in self._values]
        return checklist(present, action.partition("[")[2][:-1], choosing=bool(session.chosen))


def checklist(options: Sequence[tuple[str, bool]], button: str, *, choosing: bool) -> str:
    """Write for each requested value whether it is present, up to the first that is not, and the next click.

    Present means offered by the page or, with `choosing`, chosen.
    """
    yes, no = ("Chosen", "Not yet") if choosing else ("Yes", "No")
    sentences = []
    for value, present in options:
        sentences.append(f"{value}? {yes if present else no}.")
        if not present:
            break
    return " ".join([*sentences, f"Now {button}."])


def _consistent_choices(
    options: Sequence[Sequence[tuple[str, str]]], chosen: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Yield choices of one (name, value) from each list in which no name has two values."""
    if not options:
        yield chosen
        return
    for name, value in options[0]:
        if chosen.get(name, value) == value:
            yield from _consistent_choices(options[1:], {**chosen, name: value})


def _shorter(first: list[str], second: list[str]) -> list[str]:
    """Return the shorter of two plans, the first of equals; an empty plan counts as none."""
    return second if not first or (second and len(second) < len(first)) else first


@lru_cache(maxsize=8)
def _texts(catalogue: Catalogue) -> list[tuple[Product, str]]:
    texts = ((p, (*p.attributes, p.title, " ".join(p.bullets), p.description)) for p in catalogue.products)
    return [(product, "\0".join(text).lower()) for product, text in texts]


@lru_cache(maxsize=10_000)
def _having(catalogue: Catalogue, attribute: str) -> frozenset[Product]:
    """Return the products whose attributes or texts contain an attribute literally."""
    folded = attribute.lower()
    return frozenset(product for product, text in _texts(catalogue) if folded in text)


def candidates(catalogue: Catalogue, goal: Goal) -> list[Product]:
    """List the products that match a goal's attributes and price, by id."""
    having = [_having(catalogue, attribute) for attribute in goal.attributes]
    matches = frozenset.intersection(*having) if having else frozenset(catalogue.products)
    return sorted((p for p in matches if p.price <= goal.price_upper), key=lambda product: product.asin)


def matching_options(product: Product, goal: Goal) -> dict[str, str]:
    """Return the goal's options that a product offers, as name to value."""
    has = product.options
    chosen: dict[str, str] = {}
    for option in goal.options:
        if isinstance(option, tuple):
            name, value = option
            match: str | None = name if value in has.get(name, ()) else None
        else:
            value = option
            match = next((name for name in has if name not in chosen and value in has[name]), None)
        if match is not None:
            chosen[match] = value
    return chosen
