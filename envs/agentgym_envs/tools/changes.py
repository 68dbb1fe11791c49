"""The tools that change the calendar and the orders and answer with the effect."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from agentgym_envs.tools.database import clock
from agentgym_envs.tools.lookups import parameters_of, query, query_row
from agentgym_envs.tools.tool import Answer, Run, Tool, ToolError
from agentgym_envs.tools.words import CARRIERS, ROOMS

_EVENT = "SELECT event_id, title, day, start, minutes, city, room FROM events WHERE event_id = :event_id"
_ORDER = (
    "SELECT order_id, product_id, quantity, price, stock, status, ships_to, placed, quantity * price AS total "
    "FROM orders JOIN products USING (product_id) WHERE order_id = :order_id"
)


def _event(connection: sqlite3.Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    return query_row(connection, _EVENT, values, "There is no event {event_id}.")


def _order(connection: sqlite3.Connection, values: Mapping[str, Any], status: str, verb: str) -> dict[str, Any]:
    """Read the order to change; ToolError if its status forbids the change."""
    order = query_row(connection, _ORDER, values, "There is no order {order_id}.")
    if order["status"] != status:
        raise ToolError(f"Order {values['order_id']} is {order['status']}: only one that is {status} can be {verb}.")
    return order


def _city(connection: sqlite3.Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    sql = "SELECT city, country, elevation_m FROM places WHERE city = :city"
    return query_row(connection, sql, values, "There is no city {city}.")


def _ends(start: str, minutes: int) -> str:
    return clock(int(start[:2]) * 60 + int(start[3:]) + minutes)


def _pick(choices: tuple[str, ...], *parts: object) -> str:
    """Pick one of the choices as a function of the parts alone."""
    return choices[sum(ord(sign) * (i + 1) for i, sign in enumerate("".join(map(str, parts)))) % len(choices)]


def _add_event(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    room = _pick(ROOMS, values["title"].casefold(), values["day"], values["start"])
    inserted = connection.execute(
        "INSERT INTO events(title, day, start, minutes, city, room) "
        "VALUES (:title, :day, :start, :minutes, 'Home', :room)",
        {**values, "room": room},
    )
    return {"event_id": inserted.lastrowid, **values, "room": room}


def _move_event(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    event = _event(connection, values)
    connection.execute("UPDATE events SET day = :day, start = :start WHERE event_id = :event_id", values)
    return {**values, "ends": _ends(values["start"], event["minutes"]), "room": event["room"]}


def _delete_event(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    event = _event(connection, values)
    connection.execute("DELETE FROM attendees WHERE event_id = :event_id", values)
    connection.execute("DELETE FROM events WHERE event_id = :event_id", values)
    return {"deleted": event["title"], "day": event["day"], "freed_minutes": event["minutes"]}


def _set_event_city(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    event, place = _event(connection, values), _city(connection, values)
    if event["city"] == place["city"]:
        raise ToolError(f"Event {event['event_id']} is in {place['city']} already.")
    connection.execute("UPDATE events SET city = :city WHERE event_id = :event_id", {**values, "city": place["city"]})
    return {"event_id": event["event_id"], "city": place["city"], "start": event["start"], "room": event["room"]}


def _add_attendee(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    event = _event(connection, values)
    if query(connection, "SELECT 1 FROM attendees WHERE event_id = :event_id AND name = :name", values):
        raise ToolError(f"{values['name']} attends event {values['event_id']} already.")
    connection.execute("INSERT INTO attendees VALUES (:event_id, :name)", values)
    return {"event_id": event["event_id"], "added": values["name"], "start": event["start"], "room": event["room"]}


def _remove_attendee(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    event = _event(connection, values)
    gone = connection.execute("DELETE FROM attendees WHERE event_id = :event_id AND name = :name", values)
    if not gone.rowcount:
        raise ToolError(f"{values['name']} does not attend event {values['event_id']}.")
    remaining = query(connection, "SELECT count(*) AS n FROM attendees WHERE event_id = :event_id", values)[0]["n"]
    return {"event_id": event["event_id"], "removed": values["name"], "remaining": remaining, "room": event["room"]}


def _cancel_order(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    order = _order(connection, values, "processing", "cancelled")
    connection.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = :order_id", values)
    connection.execute(
        "UPDATE products SET stock = stock + :quantity WHERE product_id = :product_id",
        {"quantity": order["quantity"], "product_id": order["product_id"]},
    )
    return {"order_id": order["order_id"], "status": "cancelled", "refund": order["total"]}


def _return_order(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    order = _order(connection, values, "delivered", "returned")
    connection.execute("UPDATE orders SET status = 'returned' WHERE order_id = :order_id", values)
    label = f"R{order['order_id'] * 7919 % 90_000 + 10_000}"
    return {"order_id": order["order_id"], "status": "returned", "label": label}


def _change_address(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    order, place = _order(connection, values, "processing", "sent elsewhere"), _city(connection, values)
    if order["ships_to"] == place["city"]:
        raise ToolError(f"Order {order['order_id']} goes to {place['city']} already.")
    arrives = (date.fromisoformat(order["placed"]) + timedelta(days=21 + place["elevation_m"] % 7)).isoformat()
    connection.execute(
        "UPDATE orders SET ships_to = :city, arrives = :arrives WHERE order_id = :order_id",
        {"order_id": order["order_id"], "city": place["city"], "arrives": arrives},
    )
    return {"order_id": order["order_id"], "ships_to": place["city"], "arrives": arrives}


def _change_quantity(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    order = _order(connection, values, "processing", "changed")
    more = values["quantity"] - order["quantity"]
    if not more or more > order["stock"]:
        why = "has that quantity already" if not more else f"cannot have {more} more: {order['stock']} are in stock"
        raise ToolError(f"Order {order['order_id']} {why}.")
    connection.execute("UPDATE orders SET quantity = :quantity WHERE order_id = :order_id", values)
    connection.execute(
        "UPDATE products SET stock = stock - :more WHERE product_id = :product_id",
        {"more": more, "product_id": order["product_id"]},
    )
    return {**values, "total": values["quantity"] * order["price"]}


def _place_order(connection: sqlite3.Connection, values: Mapping[str, Any]) -> Answer:
    place = _city(connection, values)
    sql = "SELECT price, stock FROM products WHERE product_id = :product_id"
    product = query_row(connection, sql, values, "There is no product {product_id}.")
    if values["quantity"] > product["stock"]:
        raise ToolError(f"Only {product['stock']} pieces of product {values['product_id']} are in stock.")
    carrier = _pick(CARRIERS, values["product_id"], place["city"], values["quantity"])
    inserted = connection.execute(
        "INSERT INTO orders(customer, product_id, quantity, status, ships_to, placed, carrier, parcel_in, arrives) "
        "SELECT 'me', :product_id, :quantity, 'processing', :city, min(day), :carrier, :city, max(day) FROM forecasts",
        {**values, "city": place["city"], "carrier": carrier},
    )
    connection.execute("UPDATE products SET stock = stock - :quantity WHERE product_id = :product_id", values)
    return {"order_id": inserted.lastrowid, "total": values["quantity"] * product["price"], "carrier": carrier}


def _change(name: str, purpose: str, parameters: str, run: Run, twins: str = "") -> Tool:
    return Tool(name, purpose, parameters_of(parameters), run, changes=True, twins=tuple(twins.split()))


CHANGES = (
    _change("add_event", "Add an event to the calendar", "title day start minutes", _add_event),
    _change("move_event", "Move an event to another day or time", "event_id day start", _move_event, "set_event_city"),
    _change("delete_event", "Delete an event from the calendar", "event_id", _delete_event),
    _change("set_event_city", "Let an event be in another city", "event_id city", _set_event_city, "move_event"),
    _change("add_attendee", "Add someone to an event", "event_id name", _add_attendee, "remove_attendee"),
    _change("remove_attendee", "Take someone off an event", "event_id name", _remove_attendee, "add_attendee"),
    _change("cancel_order", "Cancel an order that is still processing", "order_id", _cancel_order, "return_order"),
    _change("return_order", "Return an order that was delivered", "order_id", _return_order, "cancel_order"),
    _change("change_address", "Send an order to another city", "order_id city", _change_address, "change_quantity"),
    _change("change_quantity", "Change the quantity of an order", "order_id quantity", _change_quantity,
            "change_address"),
    _change("place_order", "Order a product and send it to a city", "product_id quantity city", _place_order),
)  # fmt: skip
