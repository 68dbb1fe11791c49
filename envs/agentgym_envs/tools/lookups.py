"""The read-only tools: weather, films, papers, calendar, orders. All values are bound parameters."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentgym_envs.tools.tool import Answer, Parameter, Tool, ToolError
from agentgym_envs.tools.words import GENRES, STATUSES

MAX_ROWS = 8
"""The maximum rows of an answer."""

PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter("city", "A city's name."),
        Parameter("country", "A country's name."),
        Parameter("day", "A day, such as 2031-05-14.", form="day"),
        Parameter("start", "A time, such as 09:30.", form="clock"),
        Parameter("minutes", "A length in minutes.", "integer", maximum=1440),
        Parameter("title", "A title, or words of it."),
        Parameter("name", "A name, or a part of it."),
        Parameter("customer", "A customer's name."),
        Parameter("genre", "A genre of films.", choices=GENRES),
        Parameter("status", "The state of an order.", choices=STATUSES),
        Parameter("quantity", "How many pieces.", "integer", maximum=1000),
        Parameter("film_id", "A film's number.", "integer"),
        Parameter("person_id", "The number of an actor or director.", "integer"),
        Parameter("paper_id", "A paper's number.", "integer"),
        Parameter("author_id", "An author's number.", "integer"),
        Parameter("event_id", "The number of an event in the calendar.", "integer"),
        Parameter("order_id", "An order's number.", "integer"),
        Parameter("product_id", "A product's number.", "integer"),
    )
}


def parameters_of(names: str) -> tuple[Parameter, ...]:
    """Return parameters by name."""
    return tuple(PARAMETERS[name] for name in names.split())


def query(connection: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run a statement; return its rows by column name."""
    cursor = connection.execute(sql, values)
    rows = cursor.fetchall()
    keys = [column[0] for column in cursor.description]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def query_row(connection: sqlite3.Connection, sql: str, values: Mapping[str, Any], missing: str) -> dict[str, Any]:
    """Run a statement; return its first row, or raise ToolError with the message `missing`, filled in."""
    rows = query(connection, sql, values)
    if not rows:
        raise ToolError(missing.format(**values))
    return rows[0]


def _one(name: str, purpose: str, parameters: str, sql: str, missing: str, twins: str = "") -> Tool:
    """Make a tool that answers with the one row of a statement."""

    def run(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
        return query_row(connection, sql, values, missing)

    return Tool(name, purpose, parameters_of(parameters), run, twins=tuple(twins.split()))


def _many(name: str, purpose: str, parameters: str, sql: str, twins: str = "") -> Tool:
    """Make a tool that answers with the first rows of a statement."""
    limited = f"{sql} LIMIT {MAX_ROWS}"

    def run(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
        return query(connection, limited, values)

    return Tool(name, purpose, parameters_of(parameters), run, twins=tuple(twins.split()))


def _search(name: str, purpose: str, parameter: str, sql: str, twins: str = "") -> Tool:
    """Make a tool that answers with the rows whose text contains the words, `:words` in `sql`."""

    def run(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
        escaped = values[parameter].replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return query(connection, limited, {"words": f"%{escaped}%"})

    limited = f"{sql} LIKE :words ESCAPE '\\' ORDER BY 1 LIMIT {MAX_ROWS}"
    return Tool(name, purpose, parameters_of(parameter), run, twins=tuple(twins.split()))


_WEATHER = (
    _one(
        "get_place", "Get a city's country, population, elevation and time zone", "city",
        "SELECT city, country, population, elevation_m, time_zone FROM places WHERE city = :city",
        "There is no city {city}.",
    ),
    _many(
        "list_places", "List the cities of a country", "country",
        "SELECT city, population FROM places WHERE country = :country ORDER BY city",
    ),
    _one(
        "get_forecast", "Get the weather forecast of a city for today or one of the next six days", "city day",
        "SELECT city, day, sky, high_c, low_c, rain_mm, wind_kmh FROM forecasts WHERE city = :city AND day = :day",
        "There is no forecast of {city} for {day}.", "get_past_weather",
    ),
    _one(
        "get_past_weather", "Get the weather that a city had on one of the last seven days", "city day",
        "SELECT city, day, sky, high_c, low_c, rain_mm, wind_kmh FROM history WHERE city = :city AND day = :day",
        "There is no record of {city} for {day}.", "get_forecast",
    ),
    _one(
        "get_warmest_day", "Get the warmest day that is forecast for a city", "city",
        "SELECT city, day, high_c FROM forecasts WHERE city = :city ORDER BY high_c DESC LIMIT 1",
        "There is no city {city}.", "get_wettest_day",
    ),
    _one(
        "get_wettest_day", "Get the day with most rain that is forecast for a city", "city",
        "SELECT city, day, rain_mm FROM forecasts WHERE city = :city ORDER BY rain_mm DESC LIMIT 1",
        "There is no city {city}.", "get_warmest_day",
    ),
    _one(
        "get_sun_times", "Get sunrise and sunset in a city on one of the next days", "city day",
        "SELECT city, day, sunrise, sunset FROM forecasts WHERE city = :city AND day = :day",
        "There are no sun times of {city} for {day}.",
    ),
    _one(
        "get_air_quality", "Get the air quality index of a city", "city",
        "SELECT city, air_index FROM places WHERE city = :city", "There is no city {city}.", "get_pollen_count",
    ),
    _one(
        "get_pollen_count", "Get the pollen count of a city", "city",
        "SELECT city, pollen FROM places WHERE city = :city", "There is no city {city}.", "get_air_quality",
    ),
)  # fmt: skip

_FILMS = (
    _search(
        "search_films", "Search for films by title", "title",
        "SELECT film_id, title FROM films WHERE title", "search_papers",
    ),
    _one(
        "get_film", "Get a film's title, year, genre, running time and director", "film_id",
        "SELECT film_id, title, year, genre, minutes, name AS director, director_id FROM films "
        "JOIN people ON person_id = director_id WHERE film_id = :film_id", "There is no film {film_id}.",
    ),
    _many(
        "get_cast", "List the actors of a film, the lead first", "film_id",
        "SELECT person_id, name, plays FROM roles JOIN people USING (person_id) WHERE film_id = :film_id "
        "ORDER BY billing",
    ),
    _one(
        "get_critics_score", "Get the score that critics gave a film", "film_id",
        "SELECT film_id, critics AS score FROM films WHERE film_id = :film_id", "There is no film {film_id}.",
        "get_audience_score",
    ),
    _one(
        "get_audience_score", "Get the score that the audience gave a film", "film_id",
        "SELECT film_id, audience AS score FROM films WHERE film_id = :film_id", "There is no film {film_id}.",
        "get_critics_score",
    ),
    _one(
        "get_box_office", "Get the millions that a film took at the box office", "film_id",
        "SELECT film_id, gross_millions FROM films WHERE film_id = :film_id", "There is no film {film_id}.",
    ),
    _many(
        "list_films_by_genre", "List the films of a genre, the newest first", "genre",
        "SELECT film_id, title, year FROM films WHERE genre = :genre ORDER BY year DESC, film_id",
    ),
    _search(
        "search_people", "Search for actors and directors by name", "name",
        "SELECT person_id, name FROM people WHERE name", "search_authors",
    ),
    _one(
        "get_person", "Get the birth year and birthplace of an actor or director", "person_id",
        "SELECT person_id, name, born, birthplace FROM people WHERE person_id = :person_id",
        "There is no person {person_id}.",
    ),
    _many(
        "list_films_directed", "List the films that a person directed, the newest first", "person_id",
        "SELECT film_id, title, year FROM films WHERE director_id = :person_id ORDER BY year DESC, film_id",
        "list_films_acted",
    ),
    _many(
        "list_films_acted", "List the films that a person acted in, the newest first", "person_id",
        "SELECT film_id, title, year FROM roles JOIN films USING (film_id) WHERE person_id = :person_id "
        "ORDER BY year DESC, film_id", "list_films_directed",
    ),
)  # fmt: skip

_PAPERS = (
    _search(
        "search_papers", "Search for papers by title", "title",
        "SELECT paper_id, title FROM papers WHERE title", "search_films",
    ),
    _one(
        "get_paper", "Get a paper's title, year, journal and field", "paper_id",
        "SELECT paper_id, title, year, venue AS journal, field FROM papers WHERE paper_id = :paper_id",
        "There is no paper {paper_id}.",
    ),
    _many(
        "get_paper_authors", "List the authors of a paper in order", "paper_id",
        "SELECT author_id, name FROM authorship JOIN authors USING (author_id) WHERE paper_id = :paper_id "
        "ORDER BY position",
    ),
    _many(
        "list_references", "List the papers that a paper cites, the newest first", "paper_id",
        "SELECT paper_id, title, year FROM citations JOIN papers ON paper_id = cited WHERE citing = :paper_id "
        "ORDER BY year DESC, paper_id", "list_citing_papers",
    ),
    _many(
        "list_citing_papers", "List the papers that cite a paper, the newest first", "paper_id",
        "SELECT paper_id, title, year FROM citations JOIN papers ON paper_id = citing WHERE cited = :paper_id "
        "ORDER BY year DESC, paper_id", "list_references",
    ),
    _search(
        "search_authors", "Search for authors of papers by name", "name",
        "SELECT author_id, name FROM authors WHERE name", "search_people",
    ),
    _one(
        "get_author", "Get the institution of an author and the city where it is", "author_id",
        "SELECT author_id, name, institution, works_in FROM authors WHERE author_id = :author_id",
        "There is no author {author_id}.", "get_author_metrics",
    ),
    _one(
        "get_author_metrics", "Get the h-index and number of citations of an author", "author_id",
        "SELECT author_id, h_index, citations FROM authors WHERE author_id = :author_id",
        "There is no author {author_id}.", "get_author",
    ),
    _many(
        "list_author_papers", "List the papers of an author, the newest first", "author_id",
        "SELECT paper_id, title, year FROM authorship JOIN papers USING (paper_id) WHERE author_id = :author_id "
        "ORDER BY year DESC, paper_id", "list_coauthors",
    ),
    _many(
        "list_coauthors", "List those who wrote papers with an author", "author_id",
        "SELECT DISTINCT author_id, name FROM authors JOIN authorship USING (author_id) WHERE author_id != :author_id "
        "AND paper_id IN (SELECT paper_id FROM authorship WHERE author_id = :author_id) ORDER BY author_id",
        "list_author_papers",
    ),
)  # fmt: skip

_CALENDAR = (
    _many(
        "list_events", "List the events of a day in the calendar, the earliest first", "day",
        "SELECT event_id, title, start FROM events WHERE day = :day ORDER BY start, event_id",
    ),
    _search(
        "search_events", "Search for events in the calendar by title", "title",
        "SELECT event_id, title FROM events WHERE title",
    ),
    _one(
        "get_event", "Get day, start, length, city and room of an event", "event_id",
        "SELECT event_id, title, day, start, minutes, city, room FROM events WHERE event_id = :event_id",
        "There is no event {event_id}.", "list_attendees",
    ),
    _many(
        "list_attendees", "List who attends an event", "event_id",
        "SELECT name FROM attendees WHERE event_id = :event_id ORDER BY name", "get_event",
    ),
)  # fmt: skip

_SHOP = (
    _one(
        "get_order", "Get customer, product, quantity, status and address of an order", "order_id",
        "SELECT order_id, customer, product_id, quantity, status, ships_to, placed FROM orders "
        "WHERE order_id = :order_id", "There is no order {order_id}.",
        "track_order",
    ),
    _one(
        "track_order", "Track the parcel of an order: its carrier, where it is and when it arrives", "order_id",
        "SELECT order_id, carrier, parcel_in, arrives FROM orders WHERE order_id = :order_id",
        "There is no order {order_id}.", "get_order",
    ),
    _many(
        "list_orders", "List the orders that are in a certain state", "status",
        "SELECT order_id, customer FROM orders WHERE status = :status ORDER BY order_id",
    ),
    _search(
        "find_orders", "Find orders by the customer's name", "customer",
        "SELECT order_id, customer, status FROM orders WHERE customer",
    ),
    _search(
        "search_products", "Search for products by name", "name",
        "SELECT product_id, name FROM products WHERE name",
    ),
    _one(
        "get_product", "Get a product's name, price, weight and maker", "product_id",
        "SELECT product_id, name, price, weight_g, maker FROM products WHERE product_id = :product_id",
        "There is no product {product_id}.", "get_stock",
    ),
    _one(
        "get_stock", "Get how many pieces of a product are in stock", "product_id",
        "SELECT product_id, stock FROM products WHERE product_id = :product_id",
        "There is no product {product_id}.", "get_product",
    ),
)  # fmt: skip

LOOKUPS = _WEATHER + _FILMS + _PAPERS + _CALENDAR + _SHOP
