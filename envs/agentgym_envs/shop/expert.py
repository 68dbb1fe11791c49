"""The expert: shortest ways to a purchase that earns everything, and what a teacher would say on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from agentgym_envs.shop.catalogue import PAGE_SIZE, Catalogue, Product
from agentgym_envs.shop.goals import option_words
from agentgym_envs.shop.reward import Goal, exact_match, reward_parts
from agentgym_envs.shop.session import BACK, BUY, NEXT, PREV, SUB_PAGES, Moves, Visit, searchable
from agentgym_envs.shop.tasks import Errand


class Expert:
    """Plans for one errand.

    A plan from any state is a shortest one for somebody who knows every product and searches only for the request's
    own words (attributes and kind of thing), for these and the option values, or for the title of a product that
    satisfies. From the search page a plan of 3 + (number of options) actions is shortest outright: each of these
    clicks is needed. Of equally short plans the one that searches for the request's own words is taken, because an
    agent can learn it. Any product that satisfies the request counts.
    """

    def __init__(self, moves: Moves, errand: Errand) -> None:
        self.moves = moves
        self.errand = errand

    @cached_property
    def fits(self) -> Mapping[Product, Mapping[str, str]]:
        """The products that satisfy the request, with the options to choose."""
        goal = self.errand.goal
        right: dict[Product, Mapping[str, str]] = {}
        for product in candidates(self.moves.catalogue, goal):
            options = wanted_options(product, goal)
            if self._can_choose(product, options) and exact_match(product, goal, product.price, options):
                right[product] = options
        return right or self._paying()

    def _paying(self) -> Mapping[Product, Mapping[str, str]]:
        """Where nothing satisfies to the letter: what of the kind earns the full reward, else the goal's own."""
        goal, found = self.errand.goal, {}
        for product in self.moves.catalogue.products:
            if product.query == goal.query:
                options = self._paid_options(product)
                if options is not None and reward_parts(product, goal, product.price, options).reward == 1.0:
                    found[product] = options
        target = self.moves.catalogue.by_asin[goal.asin]
        return found or {target: self._choosable(target, wanted_options(target, goal))}

    def _paid_options(self, product: Product) -> dict[str, str] | None:
        """A choice that WebShop counts for every option of the goal, or None."""
        ways: list[list[tuple[str, str]]] = []
        offered = [(name, value) for name, values in product.options.items() for value in values]
        for option in self.errand.goal.options:
            alone = replace(self.errand.goal, options=(option,))
            pays = (each for each in offered if self.moves.option_click(product, *each) is not None)
            ways.append([each for each in pays if reward_parts(product, alone, 0, dict([each])).num_option_matches])
        return next(_agreeing(ways, {}), None)

    def _can_choose(self, product: Product, options: Mapping[str, str]) -> bool:
        enough = len(options) == len(self.errand.goal.options)
        return enough and len(self._choosable(product, options)) == len(options)

    def _choosable(self, product: Product, options: Mapping[str, str]) -> Mapping[str, str]:
        return {k: v for k, v in options.items() if self.moves.option_click(product, k, v) is not None}

    @cached_property
    def from_search(self) -> list[str]:
        """A shortest plan from the search page."""
        plans = (self._by_query(query) for query in self._queries())
        best: list[str] = []
        shortest = 3 + min(len(options) for options in self.fits.values())
        for plan in plans:
            if plan and (not best or len(plan) < len(best)):
                best = plan
            if len(best) == shortest:
                break
        return best

    def _queries(self) -> Sequence[str]:
        words = self.errand.words
        texts = (words, f"{words} {' '.join(self._values)}", *(product.title for product in self.fits))
        return [searchable(text) for text in texts]

    @property
    def _values(self) -> list[str]:
        """The option values that are asked for."""
        return [option if isinstance(option, str) else option[1] for option in self.errand.goal.options]

    @property
    def _request(self) -> str:
        """The request without its price, as a query; the index knows the options too."""
        options = self.errand.goal.options
        named = option_words(dict(option for option in options if not isinstance(option, str)))
        return searchable(" ".join([self.errand.words + named, *(each for each in options if isinstance(each, str))]))

    def _by_query(self, query: str) -> list[str]:
        visit = Visit()
        if not query or self.moves.search(visit, query):
            return []
        rest = self._in_results(visit)
        return [f"search[{query}]", *rest] if rest else []

    def plan(self, visit: Visit) -> list[str]:
        """A shortest plan from where a visit stands; empty after the purchase."""
        if visit.place == "done":
            return []
        if visit.place == "search":
            return list(self.from_search)
        restart = self.from_search if self.moves.strict else [f"click[{BACK}]", *self.from_search]
        if visit.place == "results":
            return _shorter(self._in_results(visit), restart)
        product = self.moves.product(visit)
        if not self.moves.can_go_back(visit) and (visit.place != "item" or product not in self.fits):
            return restart
        back = [] if visit.place == "item" else [f"click[{PREV}]"]
        if product in self.fits:
            return [*back, *self._at_product(product, visit.chosen)]
        found = self._in_results(visit)
        return _shorter([*back, f"click[{PREV}]", *found] if found else [], restart)

    def _in_results(self, visit: Visit) -> list[str]:
        """The shortest plan within the results of the visit's search; empty if nothing in them satisfies."""
        if visit.query.startswith("<r>") and self.moves.strict:
            return []  # every click would draw other results
        best: list[str] = []
        for rank, product in enumerate(self.moves.hits(visit)):
            if product in self.fits:
                ahead = rank // PAGE_SIZE + 1 - visit.number
                turns = [f"click[{NEXT if ahead > 0 else PREV}]"] * abs(ahead)
                best = _shorter(best, [*turns, f"click[{product.asin}]", *self._at_product(product, {})])
        return best

    def _at_product(self, product: Product, chosen: Mapping[str, str]) -> list[str]:
        return self._choose(product, self.fits[product], chosen)

    def _choose(self, product: Product, options: Mapping[str, str], chosen: Mapping[str, str]) -> list[str]:
        missing = [each for each in options.items() if chosen.get(each[0]) != each[1]]
        return [*(f"click[{self.moves.option_click(product, *each)}]" for each in missing), f"click[{BUY}]"]

    def fair(self, visit: Visit) -> str:
        """The next action of a customer who knows only what the pages show, and tries the results in their order.

        They open a result whose price fits and leave it when its page lacks an option that is asked for. Where nothing
        is left to try, the exact expert's plan continues.
        """
        goal = self.errand.goal
        if visit.place == "search" and self._request:
            return f"search[{self._request}]"
        if visit.place == "results":
            for product in self.moves.shown(visit):
                if product.asin not in visit.seen and max(product.prices) <= goal.price_upper:
                    return f"click[{product.asin}]"
            if visit.number < self.moves.pages(visit):
                return f"click[{NEXT}]"
        if visit.place in SUB_PAGES and self.moves.can_go_back(visit):
            return f"click[{PREV}]"
        if visit.place == "item":
            product = self.moves.product(visit)
            options = self._choosable(product, wanted_options(product, goal))
            if len(options) == len(goal.options):
                return self._choose(product, options, visit.chosen)[0]
            return f"click[{PREV}]"
        return self.plan(visit)[0]

    def think(self, visit: Visit, action: str) -> str:
        """What a teacher would say on a product's page: what of the request is there or chosen, and what to do."""
        if visit.place != "item":
            return ""
        there = (visit.chosen or wanted_options(self.moves.product(visit), self.errand.goal)).values()
        name = action.partition("[")[2][:-1]
        return judged([(value, value in there) for value in self._values], name, choosing=bool(visit.chosen))


def judged(wanted: Sequence[tuple[str, bool]], button: str, *, choosing: bool) -> str:
    """Of each wanted value whether it is there, up to the first that is not, and what is clicked then.

    There is what the page offers or, once one is `choosing`, what is chosen.
    """
    yes, no = ("Chosen", "Not yet") if choosing else ("Yes", "No")
    said = []
    for value, there in wanted:
        said.append(f"{value}? {yes if there else no}.")
        if not there:
            break
    return " ".join([*said, f"Now {button}."])


def _agreeing(ways: Sequence[Sequence[tuple[str, str]]], chosen: dict[str, str]) -> Iterator[dict[str, str]]:
    """Choices of one (name, value) from each list that give no name two values."""
    if not ways:
        yield chosen
        return
    for name, value in ways[0]:
        if chosen.get(name, value) == value:
            yield from _agreeing(ways[1:], {**chosen, name: value})


def _shorter(first: list[str], second: list[str]) -> list[str]:
    """The shorter of two plans, the first of equals; an empty plan is none."""
    return second if not first or (second and len(second) < len(first)) else first


@lru_cache(maxsize=8)
def _texts(catalogue: Catalogue) -> list[tuple[Product, str]]:
    texts = ((p, (*p.attributes, p.title, " ".join(p.bullets), p.description)) for p in catalogue.products)
    return [(product, "\0".join(text).lower()) for product, text in texts]


@lru_cache(maxsize=10_000)
def _having(catalogue: Catalogue, attribute: str) -> frozenset[Product]:
    """The products in whose attributes or texts an attribute stands to the letter."""
    folded = attribute.lower()
    return frozenset(product for product, text in _texts(catalogue) if folded in text)


def candidates(catalogue: Catalogue, goal: Goal) -> list[Product]:
    """The products that may satisfy a goal by attributes and price, by id."""
    having = [_having(catalogue, attribute) for attribute in goal.attributes]
    found = frozenset.intersection(*having) if having else frozenset(catalogue.products)
    return sorted((p for p in found if p.price <= goal.price_upper), key=lambda product: product.asin)


def wanted_options(product: Product, goal: Goal) -> dict[str, str]:
    """What to choose on a product's page for a goal: as much of it as the product offers."""
    has = product.options
    chosen: dict[str, str] = {}
    for option in goal.options:
        if isinstance(option, tuple):
            name, value = option
            found: str | None = name if value in has.get(name, ()) else None
        else:
            value = option
            found = next((name for name in has if name not in chosen and value in has[name]), None)
        if found is not None:
            chosen[found] = value
    return chosen
