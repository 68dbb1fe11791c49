"""An airline: bookings, flights, bags and vouchers."""

from __future__ import annotations

from typing import Any

from agentgym_envs.service.desk import (
    Call,
    Desk,
    Row,
    Tables,
    days_between,
    find_customer,
    format_row,
    shift,
    show_customer,
)
from agentgym_envs.service.domain import (
    SIZES,
    Domain,
    Drafter,
    Fact,
    NoFitError,
    Wish,
    called,
    make_wish,
    or_first,
)
from agentgym_envs.service.policy import COMMON, Rule
from agentgym_envs.service.tool import Tool, Verdict, text, verdict, whole
from agentgym_py.env.tools import RefusedError

CABINS = ("basic", "economy", "business")

# ---- lookups --------------------------------------------------------------------------------------------------------


def find_by_phone(desk: Desk, phone: str) -> str:
    """Find a customer by phone number."""
    return find_customer(desk, "phone number", phone=phone)


def find_by_birthday(desk: Desk, name: str, birthday: str) -> str:
    """Find a customer by name and birthday."""
    return find_customer(desk, "name and birthday", name=name, birthday=birthday)


def get_customer(desk: Desk, customer: str) -> str:
    """Show a customer and the ids of their bookings."""
    return show_customer(desk, customer, "bookings")


def get_booking(desk: Desk, booking: str) -> str:
    """Show a booking with its route and day."""
    row = desk.get("bookings", booking)
    flight = desk.get("flights", row["flight"])
    return format_row(booking, row, route=f"{flight['origin']} to {flight['destination']}", day=flight["day"])


def get_flight(desk: Desk, flight: str) -> str:
    """Show a flight."""
    return format_row(flight, desk.get("flights", flight))


def search_flights(desk: Desk, origin: str, destination: str) -> str:
    """Show the flights from a city to another one."""
    route = (origin.casefold(), destination.casefold())
    rows = [
        format_row(rid, row)
        for rid, row in desk.rows("flights")
        if (row["origin"].casefold(), row["destination"].casefold()) == route
    ]
    if not rows:
        raise RefusedError("No flights on this route.")
    return "\n".join(rows)


# ---- changes --------------------------------------------------------------------------------------------------------


def _require_active(desk: Desk, booking: str) -> Row:
    row = desk.get("bookings", booking)
    if row["status"] == "cancelled":
        raise RefusedError(f"{booking} is cancelled.")
    return row


def cancel_booking(desk: Desk, booking: str, refund: int) -> str:
    """Cancel a booking and refund an amount."""
    _require_active(desk, booking)
    return f"{booking} {desk.put('bookings', booking, status='cancelled', refund=refund)}"


def change_flight(desk: Desk, booking: str, flight: str) -> str:
    """Move a booking to another flight."""
    _require_active(desk, booking)
    desk.get("flights", flight)
    return f"{booking} {desk.put('bookings', booking, flight=flight)}"


def change_cabin(desk: Desk, booking: str, cabin: str) -> str:
    """Set the cabin of a booking."""
    _require_active(desk, booking)
    return f"{booking} {desk.put('bookings', booking, cabin=cabin)}"


def set_bags(desk: Desk, booking: str, bags: int) -> str:
    """Set the number of bags of a booking."""
    _require_active(desk, booking)
    return f"{booking} {desk.put('bookings', booking, bags=bags)}"


def rename_passenger(desk: Desk, booking: str, passenger: str, name: str) -> str:
    """Correct the name of a passenger."""
    passengers = _require_active(desk, booking)["passengers"]
    if passenger not in passengers:
        raise RefusedError(f"The passengers are: {', '.join(passengers)}.")
    changed = tuple(name if each == passenger else each for each in passengers)
    return f"{booking} {desk.put('bookings', booking, passengers=changed)}"


def add_insurance(desk: Desk, booking: str) -> str:
    """Insure a booking."""
    if _require_active(desk, booking)["insured"]:
        raise RefusedError(f"{booking} is insured already.")
    return f"{booking} {desk.put('bookings', booking, insured=True)}"


def give_voucher(desk: Desk, booking: str, amount: int) -> str:
    """Give a voucher for a booking."""
    if desk.get("bookings", booking)["voucher"]:
        raise RefusedError(f"{booking} has a voucher already.")
    return f"{booking} {desk.put('bookings', booking, voucher=amount)}"


# ---- the policy -----------------------------------------------------------------------------------------------------


def _flight(desk: Desk, booking: str) -> Row:
    return desk.get("flights", desk.get("bookings", booking)["flight"])


def _flown(desk: Desk, booking: str) -> tuple[bool, str, str]:
    day = _flight(desk, booking)["day"]
    return day < desk.today, "flown", f"{booking} was on {day}" if day < desk.today else ""


def refund_of(desk: Desk, booking: str) -> int:
    """Return the right refund of a booking."""
    row = desk.get("bookings", booking)
    fee = 0 if row["insured"] else desk.numbers["fee"] * len(row["passengers"])
    return int(max(0, row["paid"] - fee))


def judge_cancel(desk: Desk, booking: str, refund: int) -> Verdict:
    """Allow to cancel insured and new bookings and those of the better cabins, less the fee."""
    row, limit = desk.get("bookings", booking), desk.numbers["cancel_days"]
    days, insured = days_between(row["booked"], desk.today), "insured" if row["insured"] else "not insured"
    too_late = row["cabin"] == "basic" and not row["insured"] and days > limit
    fact = f"{row['cabin']}, {insured}, booked {days} days ago" + f", limit {limit}" * too_late
    checks = [_flown(desk, booking), (too_late, "cancel_basic", fact)]
    if not any(forbids for forbids, _, _ in checks):
        right, count = refund_of(desk, booking), len(row["passengers"])
        fee = "no fee" if row["insured"] else f"minus {count} x {desk.numbers['fee']}"
        checks.append((refund != right, "cancel_fee", f"{row['paid']} {fee} is {right}"))
    return verdict(*checks)


def judge_flight(desk: Desk, booking: str, flight: str) -> Verdict:
    """Allow another flight on the same route with seats, except for basic bookings."""
    row, count = desk.get("bookings", booking), len(desk.get("bookings", booking)["passengers"])
    old, new = _flight(desk, booking), desk.get("flights", flight)
    other = (old["origin"], old["destination"]) != (new["origin"], new["destination"]) or new["day"] < desk.today
    return verdict(
        _flown(desk, booking),
        (row["cabin"] == "basic", "change_basic", f"{booking} is {row['cabin']}"),
        (other, "change_route", f"{new['origin']} to {new['destination']} on {new['day']}" if other else ""),
        (new["seats"] < count, "change_seats", f"{new['seats']} seats for {count}"),
    )


def judge_cabin(desk: Desk, booking: str, cabin: str) -> Verdict:
    """Allow a better cabin before the flight."""
    now = desk.get("bookings", booking)["cabin"]
    is_up = CABINS.index(cabin) > CABINS.index(now)
    return verdict(_flown(desk, booking), (not is_up, "cabin_up", f"{now} to {cabin} is {'up' if is_up else 'not up'}"))


def judge_bags(desk: Desk, booking: str, bags: int) -> Verdict:
    """Allow bags up to the limit of a passenger before the flight."""
    count, number = len(desk.get("bookings", booking)["passengers"]), desk.numbers["bags"]
    limit = number * count
    return verdict(
        _flown(desk, booking), (bags > limit, "bags_limit", f"{bags} bags, limit {number} x {count} is {limit}")
    )


def judge_rename(desk: Desk, booking: str, passenger: str, name: str) -> Verdict:
    """Allow a correction until some days before the flight."""
    days, limit = days_between(desk.today, _flight(desk, booking)["day"]), desk.numbers["rename_days"]
    return verdict(_flown(desk, booking), (days < limit, "rename_days", f"{days} days before, limit {limit}"))


def judge_insurance(desk: Desk, booking: str) -> Verdict:
    """Allow insurance until some days after the booking."""
    days = days_between(desk.get("bookings", booking)["booked"], desk.today)
    limit = desk.numbers["insure_days"]
    return verdict(_flown(desk, booking), (days > limit, "insure_days", f"booked {days} days ago, limit {limit}"))


def voucher_of(desk: Desk, booking: str) -> int:
    """Return the right amount of a voucher."""
    amount = desk.numbers["cancelled" if _flight(desk, booking)["status"] == "cancelled" else "delayed"]
    return amount * len(desk.get("bookings", booking)["passengers"])


def judge_voucher(desk: Desk, booking: str, amount: int) -> Verdict:
    """Allow a voucher for members and insured bookings whose flight was delayed or cancelled."""
    row, status = desk.get("bookings", booking), _flight(desk, booking)["status"]
    member = desk.get("customers", row["customer"])["member"]
    insured = "insured" if row["insured"] else "not insured"
    checks = [
        (status == "on time", "voucher_delay", f"{row['flight']} is {status}"),
        (member == "none" and not row["insured"], "voucher_member", f"member {member}, {insured}"),
    ]
    if not any(forbids for forbids, _, _ in checks):
        right, count = voucher_of(desk, booking), len(row["passengers"])
        checks.append((amount != right, "voucher_amount", f"{count} x {right // count} is {right}"))
    return verdict(*checks)


RULES = (
    *COMMON,
    Rule("flown", "After its flight a booking is neither cancelled, changed nor insured."),
    Rule("cancel_basic", "A basic booking is cancelled only if insured or booked at most {cancel_days} days ago."),
    Rule("cancel_fee", "The refund is what was paid minus {fee} for each passenger; insured bookings pay no fee."),
    Rule("change_basic", "A basic booking keeps its flight."),
    Rule("change_route", "A new flight has the same route and has not left."),
    Rule("change_seats", "A new flight needs seats for all passengers."),
    Rule("cabin_up", "A cabin changes only upwards: basic, economy, business."),
    Rule("bags_limit", "The bags of a booking are at most {bags} times its passengers."),
    Rule("rename_days", "Names are corrected until {rename_days} days before the flight."),
    Rule("insure_days", "Insurance is added until {insure_days} days after the booking."),
    Rule("voucher_delay", "Vouchers are only for flights that are delayed or cancelled."),
    Rule("voucher_member", "Vouchers are only for silver and gold members and insured bookings."),
    Rule("voucher_amount", "A voucher is {delayed} for each passenger, {cancelled} if the flight is cancelled."),
)

_BOOKING, _CUSTOMER = text("A booking's id, such as b412."), text("A customer's id, such as c207.")
_FLIGHT = text("A flight's id, such as f318.")
_OF_BOOKING, _OF_CUSTOMER = ("booking", "bookings"), ("customer", "customers")
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("find_by_phone", "Find a customer.", {"phone": text("Their phone number.")}, find_by_phone),
        Tool("find_by_birthday", "Find a customer.",
             {"name": text("First and last name."), "birthday": text("YYYY-MM-DD.")}, find_by_birthday),
        Tool("get_customer", "Show a customer and their bookings.", {"customer": _CUSTOMER}, get_customer,
             about=_OF_CUSTOMER),
        Tool("get_booking", "Show a booking.", {"booking": _BOOKING}, get_booking, about=_OF_BOOKING),
        Tool("get_flight", "Show a flight.", {"flight": _FLIGHT}, get_flight),
        Tool("search_flights", "Show the flights of a route.",
             {"origin": text("A city."), "destination": text("A city.")}, search_flights),
        Tool("cancel_booking", "Cancel a booking.",
             {"booking": _BOOKING, "refund": whole("The amount paid back.")}, cancel_booking, judge_cancel,
             _OF_BOOKING, ("refund",)),
        Tool("change_flight", "Move a booking to another flight.", {"booking": _BOOKING, "flight": _FLIGHT},
             change_flight, judge_flight, _OF_BOOKING),
        Tool("change_cabin", "Set a booking's cabin.", {"booking": _BOOKING, "cabin": text("A cabin.", *CABINS)},
             change_cabin, judge_cabin, _OF_BOOKING),
        Tool("set_bags", "Set a booking's number of bags.", {"booking": _BOOKING, "bags": whole("All its bags.")},
             set_bags, judge_bags, _OF_BOOKING),
        Tool("rename_passenger", "Correct a passenger's name.",
             {"booking": _BOOKING, "passenger": text("The name so far."), "name": text("The right name.")},
             rename_passenger, judge_rename, _OF_BOOKING),
        Tool("add_insurance", "Insure a booking.", {"booking": _BOOKING}, add_insurance, judge_insurance, _OF_BOOKING),
        Tool("give_voucher", "Give a voucher.", {"booking": _BOOKING, "amount": whole("Its amount.")}, give_voucher,
             judge_voucher, _OF_BOOKING, ("amount",)),
    )
}  # fmt: skip

# ---- the database ---------------------------------------------------------------------------------------------------


def seed(drafter: Drafter) -> Tables:
    """Draw three flights of each of three routes, customers and two or three bookings of each."""
    rng, today = drafter.rng, drafter.today
    flights: dict[str, dict[str, Any]] = {}
    home, *others = rng.sample(drafter.words["city"], 4)
    for city in others:
        origin, destination = (home, city) if rng.below(2) else (city, home)
        start = rng.below(20) - 4
        for number in range(3):
            bits = rng.bits()
            flights[drafter.new_id("f")] = {
                "origin": origin, "destination": destination, "day": shift(today, start + 3 * number),
                "status": ("on time", "delayed", "cancelled")[max(0, (bits & 255) % 5 - 2)],
                "seats": (bits >> 8 & 255) % 7, "fare": 40 + (bits >> 16 & 255) % 120,
            }  # fmt: skip
    customers: dict[str, dict[str, Any]] = {}
    bookings: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(drafter.name() for _ in range(SIZES[drafter.difficulty])):
        rid, bits = drafter.new_id("c"), rng.bits()
        customers[rid] = {
            "name": name, "phone": drafter.new_number(1000, 9000, "555"),
            "birthday": f"{1950 + bits % 50}-{1 + (bits >> 8) % 12:02}-{1 + (bits >> 16) % 28:02}",
            "member": ("none", "none", "silver", "gold")[bits >> 32 & 3],
        }  # fmt: skip
        for flight in rng.sample(tuple(flights), 3):
            bookings[drafter.new_id("b")] = _booking(drafter, rid, name, flight, flights[flight])
    drafter.caller = rng.choice(tuple(customers))
    ways = (("find_by_phone", ("phone",)), ("find_by_birthday", ("name", "birthday")))
    drafter.identify_by(rng.choice(ways), customers[drafter.caller])
    return {"customers": customers, "bookings": bookings, "flights": flights}


def _booking(drafter: Drafter, customer: str, name: str, flight: str, row: dict[str, Any]) -> dict[str, Any]:
    bits = drafter.rng.bits()
    passengers = (name, *dict.fromkeys(drafter.name() for _ in range((bits & 255) % 3)))
    cabin = CABINS[(bits >> 8 & 255) % 3]
    before = max(0, -min(0, days_between(drafter.today, row["day"])))
    return {
        "customer": customer, "status": "booked", "flight": flight, "cabin": cabin, "passengers": passengers,
        "bags": (bits >> 16 & 255) % (len(passengers) + 1),
        "booked": shift(drafter.today, -before - 1 - (bits >> 24 & 255) % 8),
        "insured": not bits >> 32 & 3, "paid": row["fare"] * len(passengers) * (1 + (cabin == "business")),
        "refund": 0, "voucher": 0,
    }  # fmt: skip


# ---- wishes ---------------------------------------------------------------------------------------------------------


def _pick(drafter: Drafter, *, foreign: bool = True) -> tuple[str, Fact, list[Call]]:
    """Draw a booking of the caller, or another customer's; return what they say of it and the lookups."""
    bookings, rng = drafter.tables["bookings"], drafter.rng
    own = drafter.own("bookings")
    show_customer: Call = ("get_customer", {"customer": drafter.caller})
    if foreign and drafter.foreign:
        other = drafter.one_of([rid for rid in bookings if rid not in own])
        return other, ("booking", other), [show_customer]
    booking = rng.choice(own)
    if drafter.difficulty == "easy" or rng.below(2):
        return booking, ("booking", booking), [show_customer, ("get_booking", {"booking": booking})]
    days = described(drafter.desk, drafter.caller)
    (day,) = days[booking]
    if called(days, day) != [booking]:
        raise NoFitError
    looks: list[Call] = [("get_booking", {"booking": rid}) for rid in own[: own.index(booking) + 1]]
    return booking, ("booking_with", day), [show_customer, *looks]


def cancel(drafter: Drafter) -> Wish:
    """Cancel a booking for its refund."""
    booking, fact, reads = _pick(drafter)
    refund = refund_of(Desk(drafter.tables, drafter.today, drafter.numbers), booking)
    return make_wish("cancel", [fact], reads, ("cancel_booking", {"booking": booking, "refund": refund}))


def rebook(drafter: Drafter) -> Wish:
    """Fly on another day of the route."""
    booking, fact, reads = _pick(drafter, foreign=False)
    flights, now = drafter.tables["flights"], drafter.tables["bookings"][booking]["flight"]
    route = [flights[now][name] for name in ("origin", "destination")]
    same = [rid for rid, row in flights.items() if [row["origin"], row["destination"]] == route and rid != now]
    new, other = drafter.two_of(same)
    reads = [*reads, ("search_flights", {"origin": route[0], "destination": route[1]})]
    call: Call = ("change_flight", {"booking": booking, "flight": new})
    wish = make_wish("rebook", [fact, ("new_day", flights[new]["day"])], reads, call)
    return or_first(wish, "flight", other, ("new_day", flights[other]["day"]))


def upgrade(drafter: Drafter) -> Wish:
    """Change the cabin."""
    booking, fact, reads = _pick(drafter)
    now = drafter.tables["bookings"][booking]["cabin"]
    cabin, other = drafter.two_of([name for name in CABINS if name != now])
    call: Call = ("change_cabin", {"booking": booking, "cabin": cabin})
    return or_first(make_wish("cabin", [fact, ("cabin", cabin)], reads, call), "cabin", other, ("cabin", other))


def bags(drafter: Drafter) -> Wish:
    """Have another number of bags."""
    booking, fact, reads = _pick(drafter)
    row = drafter.tables["bookings"][booking]
    most = drafter.numbers["bags"] * len(row["passengers"])
    counts = [count for count in range(1, most + 3) if count != row["bags"]]
    count, other = drafter.two_of(counts)
    call: Call = ("set_bags", {"booking": booking, "bags": count})
    return or_first(make_wish("bags", [fact, ("bags", str(count))], reads, call), "bags", other, ("bags", str(other)))


def rename(drafter: Drafter) -> Wish:
    """Correct the first name of a passenger."""
    booking, fact, reads = _pick(drafter)
    passenger = drafter.rng.choice(drafter.tables["bookings"][booking]["passengers"])
    first = [name for name in drafter.words["first"] if name != passenger.split()[0]]
    names = [f"{name} {passenger.split()[1]}" for name in drafter.two_of(first)]
    call: Call = ("rename_passenger", {"booking": booking, "passenger": passenger, "name": names[0]})
    facts = [fact, ("passenger", passenger), ("new_name", names[0])]
    return or_first(make_wish("rename", facts, reads, call), "name", names[1], ("new_name", names[1]))


def insure(drafter: Drafter) -> Wish:
    """Add insurance."""
    booking, fact, reads = _pick(drafter)
    if drafter.tables["bookings"][booking]["insured"]:
        raise NoFitError
    return make_wish("insure", [fact], reads, ("add_insurance", {"booking": booking}))


def voucher(drafter: Drafter) -> Wish:
    """Get a voucher for a delay."""
    booking, fact, reads = _pick(drafter, foreign=False)
    desk = Desk(drafter.tables, drafter.today, drafter.numbers)
    row = desk.get("bookings", booking)
    reads = [*reads, ("get_flight", {"flight": row["flight"]})]
    call: Call = ("give_voucher", {"booking": booking, "amount": voucher_of(desk, booking)})
    return make_wish("voucher", [fact], reads, call)


def ask_day(drafter: Drafter) -> Wish:
    """Ask when a flight leaves."""
    booking, fact, reads = _pick(drafter, foreign=False)
    if fact[0] != "booking":
        raise NoFitError
    day = drafter.tables["flights"][drafter.tables["bookings"][booking]["flight"]]["day"]
    return make_wish("ask_day", [fact], reads, answer=day)


def ask_paid(drafter: Drafter) -> Wish:
    """Ask what a booking costs."""
    booking, fact, reads = _pick(drafter, foreign=False)
    return make_wish("ask_paid", [fact], reads, answer=str(drafter.tables["bookings"][booking]["paid"]))


def described(desk: Desk, customer: str) -> dict[str, list[str]]:
    """Return a customer's bookings with their day."""
    return {rid: [_flight(desk, rid)["day"]] for rid, row in desk.rows("bookings") if row["customer"] == customer}


def options(desk: Desk, customer: str) -> tuple[list[Call], list[Call]]:
    """Return lookups and changes of a customer's bookings."""
    lookups: list[Call] = [("get_customer", {"customer": customer})]
    changes: list[Call] = []
    for rid, row in desk.tables["bookings"].items():
        if row["customer"] == customer:
            lookups.append(("get_booking", {"booking": rid}))
            changes += [("change_cabin", {"booking": rid, "cabin": cabin}) for cabin in CABINS]
            changes += [("set_bags", {"booking": rid, "bags": count}) for count in range(1, 5)]
            changes.append(("cancel_booking", {"booking": rid, "refund": row["paid"]}))
            if not row["insured"]:
                changes.append(("add_insurance", {"booking": rid}))
    lookups += [("get_flight", {"flight": rid}) for rid in desk.tables["flights"]]
    return lookups, changes


FLIGHTS = Domain(
    "flights", "an airline", TOOLS, RULES,
    {"cancel_days": (1, 2, 3, 4), "fee": (5, 10, 15, 20, 25), "bags": (1, 2, 3), "rename_days": (2, 3, 5),
     "insure_days": (2, 3, 4, 5), "delayed": (20, 30, 40), "cancelled": (50, 60, 80)},
    ("identity", "booking", "new_day", "cabin", "bags", "passenger", "new_name"),
    seed,
    {"cancel": cancel, "rebook": rebook, "cabin": upgrade, "bags": bags, "rename": rename, "insure": insure,
     "voucher": voucher, "ask_day": ask_day, "ask_paid": ask_paid},
    described,
    options,
)  # fmt: skip
