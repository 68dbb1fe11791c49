"""A telephone company: lines, plans, bills, and phones that only their owner can touch."""

from __future__ import annotations

from dataclasses import replace
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
from agentgym_envs.service.domain import SIZES, Domain, Drafter, Fact, Wish, make_wish, or_first
from agentgym_envs.service.policy import COMMON, Rule
from agentgym_envs.service.tool import Tool, Verdict, text, verdict, whole
from agentgym_py.env.tools import RefusedError

STEPS = {
    "check_phone": "",
    "restart_phone": "",
    "airplane_off": "airplane mode is on",
    "data_on": "mobile data is off",
    "seat_sim": "the SIM card is loose",
    "network_auto": "the network mode is manual",
    "vpn_off": "a VPN is on",
    "saver_off": "the data saver is on",
}
"""What the customer can do on their phone, and what it repairs."""
SYMPTOMS = {
    "there is no service": ("lines", "status", "suspended"),
    "the data is used up": ("lines", "data", 0),
    "roaming is off": ("lines", "roaming", "off"),
}
"""What else can be wrong with a phone, and what of its line causes it."""

# ---- lookups --------------------------------------------------------------------------------------------------------


def find_by_pin(desk: Desk, name: str, pin: str) -> str:
    """Find a customer by name and PIN."""
    return find_customer(desk, "name and PIN", name=name, pin=pin)


def find_by_number(desk: Desk, number: str, pin: str) -> str:
    """Find a customer by their customer number and PIN."""
    return find_customer(desk, "number and PIN", number=number, pin=pin)


def get_customer(desk: Desk, customer: str) -> str:
    """Show a customer and the ids of their lines."""
    return show_customer(desk, customer, "lines")


def get_line(desk: Desk, line: str) -> str:
    """Show a line and the ids of its bills."""
    bills = tuple(rid for rid, row in desk.rows("bills") if row["line"] == line)
    return format_row(line, desk.get("lines", line), bills=bills)


def get_bill(desk: Desk, bill: str) -> str:
    """Show a bill."""
    return format_row(bill, desk.get("bills", bill))


def list_plans(desk: Desk) -> str:
    """Show all plans."""
    return "\n".join(format_row(rid, row) for rid, row in desk.rows("plans"))


# ---- changes --------------------------------------------------------------------------------------------------------


def change_plan(desk: Desk, line: str, plan: str) -> str:
    """Set the plan of a line."""
    desk.get("plans", plan)
    return f"{line} {desk.put('lines', line, plan=plan)}"


def suspend_line(desk: Desk, line: str) -> str:
    """Suspend a line."""
    if desk.get("lines", line)["status"] == "suspended":
        raise RefusedError(f"{line} is suspended already.")
    return f"{line} {desk.put('lines', line, status='suspended')}"


def resume_line(desk: Desk, line: str) -> str:
    """Activate a suspended line."""
    if desk.get("lines", line)["status"] == "active":
        raise RefusedError(f"{line} is active already.")
    return f"{line} {desk.put('lines', line, status='active')}"


def add_data(desk: Desk, line: str, gb: int) -> str:
    """Add data to a line."""
    return f"{line} {desk.put('lines', line, data=desk.get('lines', line)['data'] + gb)}"


def set_roaming(desk: Desk, line: str, roaming: str) -> str:
    """Switch roaming on or off."""
    return f"{line} {desk.put('lines', line, roaming=roaming)}"


def credit_bill(desk: Desk, bill: str, amount: int) -> str:
    """Credit an amount to a bill."""
    return f"{bill} {desk.put('bills', bill, credit=amount)}"


def send_sim(desk: Desk, line: str, address: str) -> str:
    """Send a new SIM card for a line."""
    if desk.get("lines", line)["new_sim"]:
        raise RefusedError(f"A SIM card for {line} is on its way already.")
    return f"{line} {desk.put('lines', line, new_sim=address)}"


# ---- the policy -----------------------------------------------------------------------------------------------------


def _unpaid(desk: Desk, line: str) -> tuple[str, ...]:
    return tuple(rid for rid, row in desk.rows("bills") if row["line"] == line and not row["paid"])


def judge_plan(desk: Desk, line: str, plan: str) -> Verdict:
    """Allow another plan if all bills are paid, a cheaper one only after the minimum term."""
    row, unpaid = desk.get("lines", line), _unpaid(desk, line)
    old, new = desk.get("plans", row["plan"])["price"], desk.get("plans", plan)["price"]
    days, limit = days_between(row["since"], desk.today), desk.numbers["term"]
    term = f"{old} to {new} is cheaper, {days} days, term {limit}" if new < old else f"{old} to {new} is not cheaper"
    return verdict(
        (bool(unpaid), "plan_bills", f"{unpaid[0]} is not paid" if unpaid else "bills paid"),
        (new < old and days < limit, "plan_term", term),
    )


def judge_suspend(desk: Desk, line: str) -> Verdict:
    """Allow to suspend a private line."""
    kind = desk.get("customers", desk.get("lines", line)["customer"])["kind"]
    return verdict((kind != "private", "suspend_private", f"the customer is {kind}"))


def judge_resume(desk: Desk, line: str) -> Verdict:
    """Allow to resume a line whose bills are paid."""
    unpaid = _unpaid(desk, line)
    return verdict((bool(unpaid), "resume_bills", f"{unpaid[0]} is not paid" if unpaid else "bills paid"))


def _active(desk: Desk, line: str, code: str) -> tuple[bool, str, str]:
    status = desk.get("lines", line)["status"]
    return status != "active", code, f"{line} is {status}"


def judge_data(desk: Desk, line: str, gb: int) -> Verdict:
    """Allow data up to the limit on an active line."""
    limit = desk.numbers["gb"]
    return verdict(_active(desk, line, "data_active"), (gb > limit, "data_limit", f"{gb} GB, limit {limit}"))


def judge_roaming(desk: Desk, line: str, roaming: str) -> Verdict:
    """Allow roaming on lines that are old enough."""
    days, limit = days_between(desk.get("lines", line)["since"], desk.today), desk.numbers["roaming_days"]
    fact = f"{days} days since the start, limit {limit}" if roaming == "on" else "off is always possible"
    return verdict((roaming == "on" and days < limit, "roaming_days", fact))


def judge_credit(desk: Desk, bill: str, amount: int) -> Verdict:
    """Allow one credit for a bill that is not paid, up to the limit."""
    row, limit = desk.get("bills", bill), desk.numbers["credit"]
    return verdict(
        (row["paid"], "credit_unpaid", f"{bill} is {'paid' if row['paid'] else 'not paid'}"),
        (bool(row["credit"]), "credit_once", f"credit {row['credit']}"),
        (amount > limit, "credit_limit", f"{amount}, limit {limit}"),
    )


def judge_sim(desk: Desk, line: str, address: str) -> Verdict:
    """Allow a new SIM card for an active line."""
    return verdict(_active(desk, line, "sim_active"))


RULES = (
    *COMMON,
    Rule("plan_bills", "A line with an unpaid bill keeps its plan."),
    Rule("plan_term", "A cheaper plan is possible only {term} days after the line's start."),
    Rule("suspend_private", "Only lines of private customers can be suspended."),
    Rule("resume_bills", "A line is resumed only when all its bills are paid."),
    Rule("data_active", "Only an active line can get data."),
    Rule("data_limit", "At most {gb} GB are added at once."),
    Rule("roaming_days", "Roaming is switched on only {roaming_days} days after the line's start."),
    Rule("credit_unpaid", "A paid bill gets no credit."),
    Rule("credit_once", "A bill gets one credit."),
    Rule("credit_limit", "A credit is at most {credit}."),
    Rule("sim_active", "Only an active line can get a SIM card."),
)

_LINE, _CUSTOMER = text("A line's id, such as l412."), text("A customer's id, such as c207.")
_BILL, _OF_LINE = text("A bill's id, such as i318."), ("line", "lines")
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("find_by_pin", "Find a customer.", {"name": text("First and last name."), "pin": text("Their PIN.")},
             find_by_pin),
        Tool("find_by_number", "Find a customer.",
             {"number": text("Their customer number."), "pin": text("Their PIN.")}, find_by_number),
        Tool("get_customer", "Show a customer and their lines.", {"customer": _CUSTOMER}, get_customer,
             about=("customer", "customers")),
        Tool("get_line", "Show a line.", {"line": _LINE}, get_line, about=_OF_LINE),
        Tool("get_bill", "Show a bill.", {"bill": _BILL}, get_bill, about=("bill", "bills")),
        Tool("list_plans", "Show all plans.", {}, list_plans),
        Tool("change_plan", "Set a line's plan.", {"line": _LINE, "plan": text("A plan's name.")}, change_plan,
             judge_plan, _OF_LINE),
        Tool("suspend_line", "Suspend a line.", {"line": _LINE}, suspend_line, judge_suspend, _OF_LINE),
        Tool("resume_line", "Activate a suspended line.", {"line": _LINE}, resume_line, judge_resume, _OF_LINE),
        Tool("add_data", "Add data to a line.", {"line": _LINE, "gb": whole("Gigabytes.")}, add_data, judge_data,
             _OF_LINE),
        Tool("set_roaming", "Switch roaming.", {"line": _LINE, "roaming": text("The new state.", "on", "off")},
             set_roaming, judge_roaming, _OF_LINE),
        Tool("credit_bill", "Credit an amount to a bill.", {"bill": _BILL, "amount": whole("The amount.")},
             credit_bill, judge_credit, ("bill", "bills")),
        Tool("send_sim", "Send a SIM card.", {"line": _LINE, "address": text("Number and street.")}, send_sim,
             judge_sim, _OF_LINE),
    )
}  # fmt: skip

# ---- the database ---------------------------------------------------------------------------------------------------


def seed(drafter: Drafter) -> Tables:
    """Draw plans, customers, two lines of each and two bills of each line."""
    rng = drafter.rng
    plans = {
        name: {"price": 8 + 6 * number + rng.below(5), "data": 2 << number}
        for number, name in enumerate(rng.sample(drafter.words["plan"], 4))
    }
    customers: dict[str, dict[str, Any]] = {}
    lines: dict[str, dict[str, Any]] = {}
    bills: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(drafter.name() for _ in range(SIZES[drafter.difficulty])):
        rid, bits = drafter.new_id("c"), rng.bits()
        customers[rid] = {
            "name": name, "number": drafter.new_number(100_000, 900_000), "pin": str(3000 + (bits >> 24) % 7000),
            "kind": "business" if not bits >> 48 & 3 else "private",
        }  # fmt: skip
        for _ in range(2):
            line, bits = drafter.new_id("l"), rng.bits()
            lines[line] = {
                "customer": rid, "phone": drafter.new_number(1000, 9000, "07"), "plan": tuple(plans)[bits >> 16 & 3],
                "status": "active" if bits >> 18 & 3 else "suspended",
                "since": shift(drafter.today, -10 - (bits >> 20) % 600),
                "data": (bits >> 32) % 9, "roaming": "on" if not bits >> 40 & 3 else "off", "new_sim": "",
            }  # fmt: skip
            for _ in range(2):
                bits = rng.bits()
                bills[drafter.new_id("i")] = {
                    "customer": rid, "line": line, "amount": 9 + bits % 60, "paid": bool(bits >> 16 & 3),
                    "credit": 5 if not bits >> 18 & 3 else 0,
                }  # fmt: skip
    drafter.caller = rng.choice(tuple(customers))
    ways = (("find_by_pin", ("name", "pin")), ("find_by_number", ("number", "pin")))
    drafter.identify_by(rng.choice(ways), customers[drafter.caller])
    return {"customers": customers, "lines": lines, "bills": bills, "plans": plans}


# ---- wishes ---------------------------------------------------------------------------------------------------------


def _pick(drafter: Drafter, status: str = "", *, foreign: bool = True) -> tuple[str, Fact, list[Call]]:
    """Draw a line of the caller, or another customer's; return what they say of it and the lookups."""
    lines, own = drafter.tables["lines"], drafter.own("lines")
    show_customer: Call = ("get_customer", {"customer": drafter.caller})
    if foreign and drafter.foreign:
        other = drafter.one_of([rid for rid, row in lines.items() if rid not in own and row["status"] != status])
        return other, ("line", other), [show_customer]
    line = drafter.one_of([rid for rid in own if lines[rid]["status"] != status])
    return line, *_name(drafter, line)


def _name(drafter: Drafter, line: str) -> tuple[Fact, list[Call]]:
    """Return what the caller says of their line, by its id or its number, and the lookups."""
    own, show_customer = drafter.own("lines"), ("get_customer", {"customer": drafter.caller})
    if drafter.difficulty == "easy" or drafter.rng.below(2):
        return ("line", line), [show_customer, ("get_line", {"line": line})]
    looks: list[Call] = [("get_line", {"line": rid}) for rid in own[: own.index(line) + 1]]
    return ("line_with", drafter.tables["lines"][line]["phone"]), [show_customer, *looks]


def _bills(drafter: Drafter, line: str) -> list[Call]:
    if line not in drafter.own("lines"):
        return []
    return [("get_bill", {"bill": rid}) for rid, row in drafter.tables["bills"].items() if row["line"] == line]


def plan(drafter: Drafter) -> Wish:
    """Change the plan."""
    line, fact, reads = _pick(drafter)
    now = drafter.tables["lines"][line]["plan"]
    name, other = drafter.two_of([name for name in drafter.tables["plans"] if name != now])
    call: Call = ("change_plan", {"line": line, "plan": name})
    reads = [*reads, *_bills(drafter, line), ("list_plans", {})]
    return or_first(make_wish("plan", [fact, ("plan", name)], reads, call), "plan", other, ("plan", other))


def suspend(drafter: Drafter) -> Wish:
    """Suspend a line."""
    line, fact, reads = _pick(drafter, "suspended")
    return make_wish("suspend", [fact], reads, ("suspend_line", {"line": line}))


def resume(drafter: Drafter) -> Wish:
    """Activate a line."""
    line, fact, reads = _pick(drafter, "active")
    return make_wish("resume", [fact], [*reads, *_bills(drafter, line)], ("resume_line", {"line": line}))


def data(drafter: Drafter) -> Wish:
    """Get more data."""
    line, fact, reads = _pick(drafter)
    amount, other = drafter.two_of(range(1, drafter.numbers["gb"] + 2))
    call: Call = ("add_data", {"line": line, "gb": amount})
    return or_first(make_wish("data", [fact, ("gb", str(amount))], reads, call), "gb", other, ("gb", str(other)))


def roaming(drafter: Drafter) -> Wish:
    """Switch roaming."""
    line, fact, reads = _pick(drafter)
    state = "off" if drafter.tables["lines"][line]["roaming"] == "on" else "on"
    call: Call = ("set_roaming", {"line": line, "roaming": state})
    return make_wish("roaming", [fact, ("roaming", state)], reads, call)


def credit(drafter: Drafter) -> Wish:
    """Get a credit for a bill."""
    bills = drafter.tables["bills"]
    own = drafter.own("bills")
    bill = drafter.one_of([rid for rid in own if not bills[rid]["paid"] or drafter.rng.below(6) == 0])
    amount, other = drafter.two_of([number for number in range(1, drafter.numbers["credit"] + 4) if number != 5])
    call: Call = ("credit_bill", {"bill": bill, "amount": amount})
    reads: list[Call] = [("get_bill", {"bill": bill})]
    wish = make_wish("credit", [("bill", bill), ("amount", str(amount))], reads, call)
    return or_first(wish, "amount", other, ("amount", str(other)))


def sim(drafter: Drafter) -> Wish:
    """Get a new SIM card."""
    line, fact, reads = _pick(drafter)
    there, other = (f"{1 + drafter.rng.below(98)} {drafter.rng.choice(drafter.words['street'])}" for _ in range(2))
    call: Call = ("send_sim", {"line": line, "address": there})
    return or_first(make_wish("sim", [fact, ("address", there)], reads, call), "address", other, ("address", other))


def repair(drafter: Drafter) -> Wish:
    """Get a phone to work again: by up to three steps of the customer, or by a change of a line and up to one step."""
    rng, check = drafter.rng, ("instruct", {"step": "check_phone"})
    faults = [fault for fault in STEPS.values() if fault]
    if rng.below(2):
        return Wish("repair", {}, (check,), faults=tuple(rng.sample(faults, 1 + rng.below(3))))
    ill = {rid: _symptoms(drafter.tables["lines"][rid]) for rid in drafter.own("lines")}
    symptom = drafter.one_of([name for name in SYMPTOMS if any(name in names for names in ill.values())])
    line = drafter.one_of([rid for rid, names in ill.items() if symptom in names])
    fact, reads = _name(drafter, line)
    amount = 1 + rng.below(drafter.numbers["gb"])
    facts, calls = [fact], {
        "there is no service": ("resume_line", {"line": line}),
        "the data is used up": ("add_data", {"line": line, "gb": amount}),
        "roaming is off": ("set_roaming", {"line": line, "roaming": "on"}),
    }  # fmt: skip
    if "gb" in calls[symptom][1]:
        facts.append(("gb", str(amount)))
    if symptom == "there is no service":
        reads += _bills(drafter, line)
    wish = make_wish("repair", facts, [check, *reads], calls[symptom])
    return replace(wish, symptom=symptom, faults=tuple(rng.sample(faults, rng.below(2))))


def _symptoms(line: Row) -> list[str]:
    """Return what a line does to its phone: if it is suspended, nothing else shows."""
    if line["status"] == "suspended":
        return ["there is no service"]
    return [symptom for symptom, (_, field, value) in SYMPTOMS.items() if line[field] == value]


def ask_data(drafter: Drafter) -> Wish:
    """Ask how much data a line has."""
    line, fact, reads = _pick(drafter, foreign=False)
    return make_wish("ask_data", [fact], reads, answer=str(drafter.tables["lines"][line]["data"]))


def ask_bill(drafter: Drafter) -> Wish:
    """Ask for the amount of a bill."""
    bill = drafter.one_of(drafter.own("bills"))
    answer = str(drafter.tables["bills"][bill]["amount"])
    return make_wish("ask_bill", [("bill", bill)], [("get_bill", {"bill": bill})], answer=answer)


def described(desk: Desk, customer: str) -> dict[str, list[str]]:
    """Return a customer's lines with their number."""
    return {rid: [row["phone"]] for rid, row in desk.rows("lines") if row["customer"] == customer}


def options(desk: Desk, customer: str) -> tuple[list[Call], list[Call]]:
    """Return lookups and changes of a customer's lines and bills."""
    lookups: list[Call] = [("get_customer", {"customer": customer}), ("list_plans", {})]
    changes: list[Call] = []
    for rid, row in desk.tables["lines"].items():
        if row["customer"] == customer:
            lookups.append(("get_line", {"line": rid}))
            changes += [("change_plan", {"line": rid, "plan": name}) for name in desk.tables["plans"]]
            changes += [("add_data", {"line": rid, "gb": amount}) for amount in range(1, 5)]
            changes += [("set_roaming", {"line": rid, "roaming": state}) for state in ("on", "off")]
            changes.append(("suspend_line" if row["status"] == "active" else "resume_line", {"line": rid}))
    for rid, row in desk.tables["bills"].items():
        if row["customer"] == customer:
            lookups.append(("get_bill", {"bill": rid}))
            changes += [("credit_bill", {"bill": rid, "amount": amount}) for amount in (1, 2, 3, 4)]
    return lookups, changes


PHONE = Domain(
    "phone", "a telephone company", TOOLS, RULES,
    {"term": (90, 180, 365), "gb": (3, 5, 8), "roaming_days": (30, 60, 90), "credit": (8, 10, 15, 20)},
    ("identity", "line", "plan", "gb", "roaming", "bill", "amount", "address"),
    seed,
    {"plan": plan, "suspend": suspend, "resume": resume, "data": data, "roaming": roaming, "credit": credit,
     "sim": sim, "repair": repair, "ask_data": ask_data, "ask_bill": ask_bill},
    described,
    options,
    STEPS,
    SYMPTOMS,
)  # fmt: skip
