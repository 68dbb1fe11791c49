"""A store: orders, products, returns and exchanges."""

from __future__ import annotations

from typing import Any

from agentgym_envs.service.desk import (
    Call,
    Desk,
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

REASONS = ("no longer needed", "ordered by mistake", "found it cheaper")
COUPONS = ("WELCOME", "SUMMER", "THANKS", "LUCKY")
GIFT_CARD = "gift card"

# ---- lookups --------------------------------------------------------------------------------------------------------


def find_by_email(desk: Desk, email: str) -> str:
    """Find a customer by e-mail."""
    return find_customer(desk, "e-mail", email=email)


def find_by_postcode(desk: Desk, name: str, postcode: str) -> str:
    """Find a customer by name and postcode."""
    return find_customer(desk, "name and postcode", name=name, postcode=postcode)


def get_customer(desk: Desk, customer: str) -> str:
    """Show a customer and the ids of their orders."""
    return show_customer(desk, customer, "orders")


def get_order(desk: Desk, order: str) -> str:
    """Show an order with the names of its products."""
    row = desk.get("orders", order)
    items = tuple(f"{rid} {desk.get('products', rid)['name']}" for rid in row["items"])
    return format_row(order, row, items=items)


def get_product(desk: Desk, product: str) -> str:
    """Show a product."""
    return format_row(product, desk.get("products", product))


def list_products(desk: Desk, kind: str) -> str:
    """Show the products of a kind."""
    rows = [format_row(rid, row) for rid, row in desk.rows("products") if row["kind"] == kind.casefold()]
    if not rows:
        kinds = dict.fromkeys(row["kind"] for _, row in desk.rows("products"))
        raise RefusedError(f"No products of this kind. There are: {', '.join(kinds)}.")
    return "\n".join(rows)


# ---- changes --------------------------------------------------------------------------------------------------------


def cancel_order(desk: Desk, order: str, reason: str) -> str:
    """Cancel an order, whatever its status."""
    if desk.get("orders", order)["status"] in ("cancelled", "returned"):
        raise RefusedError(f"{order} is {desk.get('orders', order)['status']} already.")
    return f"{order} {desk.put('orders', order, status='cancelled', note=reason)}"


def set_address(desk: Desk, order: str, address: str) -> str:
    """Set the address of an order."""
    return f"{order} {desk.put('orders', order, address=address)}"


def set_payment(desk: Desk, order: str, payment: str) -> str:
    """Set the payment of an order to a method of its customer."""
    methods = desk.get("customers", desk.get("orders", order)["customer"])["payments"]
    if payment not in methods:
        raise RefusedError(f"The customer's methods are: {', '.join(methods)}.")
    return f"{order} {desk.put('orders', order, payment=payment)}"


def return_order(desk: Desk, order: str, refund: int) -> str:
    """Take an order back and refund an amount."""
    if desk.get("orders", order)["status"] in ("cancelled", "returned"):
        raise RefusedError(f"{order} is {desk.get('orders', order)['status']} already.")
    return f"{order} {desk.put('orders', order, status='returned', note=f'refund {refund}')}"


def exchange_item(desk: Desk, order: str, product: str, new_product: str) -> str:
    """Replace a product of an order by another one."""
    items = desk.get("orders", order)["items"]
    if product not in items:
        raise RefusedError(f"{order} has no {product}; it has {', '.join(items)}.")
    desk.get("products", new_product)
    changed = tuple(new_product if item == product else item for item in items)
    return f"{order} {desk.put('orders', order, items=changed)}"


def apply_coupon(desk: Desk, order: str, coupon: str) -> str:
    """Set the coupon of an order."""
    return f"{order} {desk.put('orders', order, coupon=coupon)}"


def set_email(desk: Desk, customer: str, email: str) -> str:
    """Set the e-mail of a customer."""
    if any(row["email"].casefold() == email.casefold() for rid, row in desk.rows("customers") if rid != customer):
        raise RefusedError("Another customer has this e-mail.")
    return f"{customer} {desk.put('customers', customer, email=email)}"


# ---- the policy -----------------------------------------------------------------------------------------------------


def _pending(desk: Desk, order: str, code: str) -> tuple[bool, str, str]:
    status = desk.get("orders", order)["status"]
    return status != "pending", code, f"{order} is {status}"


def _delivered(desk: Desk, order: str, code: str) -> tuple[bool, str, str]:
    status = desk.get("orders", order)["status"]
    return status != "delivered", code, f"{order} is {status}"


def judge_cancel(desk: Desk, order: str, reason: str) -> Verdict:
    """Allow to cancel a pending order."""
    return verdict(_pending(desk, order, "cancel_pending"))


def judge_address(desk: Desk, order: str, address: str) -> Verdict:
    """Allow another address of a pending order."""
    return verdict(_pending(desk, order, "address_pending"))


def judge_payment(desk: Desk, order: str, payment: str) -> Verdict:
    """Allow another payment of a pending order; a gift card must cover it."""
    row = desk.get("orders", order)
    balance, by_card = desk.get("customers", row["customer"])["balance"], payment == GIFT_CARD
    fact = f"total {row['total']}, balance {balance}" if by_card else ""
    return verdict(_pending(desk, order, "payment_pending"), (by_card and balance < row["total"], "gift_balance", fact))


def judge_return(desk: Desk, order: str, refund: int) -> Verdict:
    """Allow to return a delivered order in time without final sales, for its total minus the fee."""
    row = desk.get("orders", order)
    checks = [_delivered(desk, order, "return_delivered")]
    final = [item for item in row["items"] if desk.get("products", item)["final_sale"]]
    checks.append((bool(final), "final_sale", f"{final[0]} is a final sale" if final else "no final sale"))
    gold = desk.get("customers", row["customer"])["tier"] == "gold"
    if row["delivered"]:
        days, limit = days_between(row["delivered"], desk.today), desk.numbers["gold_days" if gold else "days"]
        checks.append((days > limit, "return_window", f"delivered {days} days ago, limit {limit}"))
    if not any(forbids for forbids, _, _ in checks):
        right, fee = refund_of(desk, order), "no fee" if gold else f"minus {desk.numbers['fee']}"
        checks.append((refund != right, "return_fee", f"{row['total']} {fee} is {right}"))
    return verdict(*checks)


def refund_of(desk: Desk, order: str) -> int:
    """Return the right refund of an order."""
    row = desk.get("orders", order)
    gold = desk.get("customers", row["customer"])["tier"] == "gold"
    return int(row["total"] - (0 if gold else desk.numbers["fee"]))


def judge_exchange(desk: Desk, order: str, product: str, new_product: str) -> Verdict:
    """Allow to exchange a delivered product for one of its kind that is in stock."""
    old, new = desk.get("products", product), desk.get("products", new_product)
    return verdict(
        _delivered(desk, order, "exchange_delivered"),
        (old["kind"] != new["kind"], "exchange_kind", f"{old['kind']} for {new['kind']}"),
        (not new["stock"], "exchange_stock", f"stock {new['stock']}"),
    )


def judge_coupon(desk: Desk, order: str, coupon: str) -> Verdict:
    """Allow one coupon for each pending order that is large enough."""
    row, minimum = desk.get("orders", order), desk.numbers["minimum"]
    return verdict(
        _pending(desk, order, "coupon_pending"),
        (bool(row["coupon"]), "one_coupon", f"coupon {row['coupon'] or 'none'}"),
        (row["total"] < minimum, "coupon_minimum", f"total {row['total']}, minimum {minimum}"),
    )


def judge_email(desk: Desk, customer: str, email: str) -> Verdict:
    """Allow any e-mail."""
    return Verdict((), "Any e-mail is fine")


RULES = (
    *COMMON,
    Rule("cancel_pending", "Only a pending order can be cancelled."),
    Rule("address_pending", "Only a pending order can get another address."),
    Rule("payment_pending", "Only a pending order can get another payment."),
    Rule("gift_balance", "A gift card pays only what its balance covers."),
    Rule("return_delivered", "Only a delivered order can be returned."),
    Rule("final_sale", "An order with a final sale product cannot be returned."),
    Rule("return_window", "Returns end {days} days after delivery, for gold customers {gold_days}."),
    Rule("return_fee", "The refund is the total minus a fee of {fee}; gold customers pay no fee."),
    Rule("exchange_delivered", "Only a delivered order can be exchanged."),
    Rule("exchange_kind", "A product is exchanged only for one of the same kind."),
    Rule("exchange_stock", "A product out of stock cannot be had in exchange."),
    Rule("coupon_pending", "Only a pending order can get a coupon."),
    Rule("one_coupon", "An order takes one coupon."),
    Rule("coupon_minimum", "A coupon needs a total of at least {minimum}."),
)

_ORDER, _CUSTOMER = text("An order's id, such as o412."), text("A customer's id, such as c207.")
_PRODUCT = text("A product's id, such as p318.")
_OF_ORDER, _OF_CUSTOMER = ("order", "orders"), ("customer", "customers")
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("find_by_email", "Find a customer.", {"email": text("Their e-mail.")}, find_by_email),
        Tool("find_by_postcode", "Find a customer.",
             {"name": text("First and last name."), "postcode": text("Their postcode.")}, find_by_postcode),
        Tool("get_customer", "Show a customer and their orders.", {"customer": _CUSTOMER}, get_customer,
             about=_OF_CUSTOMER),
        Tool("get_order", "Show an order.", {"order": _ORDER}, get_order, about=_OF_ORDER),
        Tool("get_product", "Show a product.", {"product": _PRODUCT}, get_product),
        Tool("list_products", "Show the products of a kind.", {"kind": text("A kind, such as lamp.")}, list_products),
        Tool("cancel_order", "Cancel an order.", {"order": _ORDER, "reason": text("The reason.", *REASONS)},
             cancel_order, judge_cancel, _OF_ORDER),
        Tool("set_address", "Set where an order goes.", {"order": _ORDER, "address": text("Number and street.")},
             set_address, judge_address, _OF_ORDER),
        Tool("set_payment", "Set how an order is paid.", {"order": _ORDER, "payment": text("A method of theirs.")},
             set_payment, judge_payment, _OF_ORDER),
        Tool("return_order", "Take an order back.", {"order": _ORDER, "refund": whole("The amount paid back.")},
             return_order, judge_return, _OF_ORDER, ("refund",)),
        Tool("exchange_item", "Exchange a product of an order.",
             {"order": _ORDER, "product": _PRODUCT, "new_product": _PRODUCT}, exchange_item, judge_exchange, _OF_ORDER),
        Tool("apply_coupon", "Use a coupon for an order.", {"order": _ORDER, "coupon": text("A code.", *COUPONS)},
             apply_coupon, judge_coupon, _OF_ORDER),
        Tool("set_email", "Set a customer's e-mail.", {"customer": _CUSTOMER, "email": text("The new e-mail.")},
             set_email, judge_email, _OF_CUSTOMER),
    )
}  # fmt: skip

# ---- the database ---------------------------------------------------------------------------------------------------


def seed(drafter: Drafter) -> Tables:
    """Draw products, customers and three orders of each."""
    rng, words = drafter.rng, drafter.words
    products: dict[str, dict[str, Any]] = {}
    for kind in rng.sample(words["kind"], 2):
        for style in rng.sample(words["style"], 3):
            bits = rng.bits()
            products[drafter.new_id("p")] = {
                "name": f"{style} {kind}", "kind": kind, "price": 12 + bits % 88,
                "stock": (bits >> 16) % 3 * 2, "final_sale": not bits >> 32 & 7,
            }  # fmt: skip
    customers: dict[str, dict[str, Any]] = {}
    orders: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(drafter.name() for _ in range(SIZES[drafter.difficulty])):
        rid, bits = drafter.new_id("c"), rng.bits()
        payments = (f"visa {1000 + bits % 9000}", f"giro {1000 + (bits >> 16) % 9000}", GIFT_CARD)
        customers[rid] = {
            "name": name, "email": f"{name.lower().replace(' ', '.')}@mail.com",
            "postcode": str(10000 + rng.below(90000)), "tier": "gold" if not bits >> 32 & 3 else "standard",
            "payments": payments, "balance": 10 * (bits >> 40 & 15),
        }  # fmt: skip
        for _ in range(3):
            orders[drafter.new_id("o")] = _order(drafter, rid, payments, products)
    drafter.caller = rng.choice(tuple(customers))
    row = customers[drafter.caller]
    ways = (("find_by_email", ("email",)), ("find_by_postcode", ("name", "postcode")))
    drafter.identify_by(rng.choice(ways), row)
    return {"customers": customers, "orders": orders, "products": products}


def _order(
    drafter: Drafter, customer: str, payments: tuple[str, ...], products: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    rng = drafter.rng
    bits = rng.bits()
    items = tuple(rng.sample(tuple(products), 1 + (bits & 1)))
    status = ("pending", "pending", "shipped", "delivered", "delivered")[(bits >> 1 & 255) % 5]
    days = 1 + (bits >> 9 & 255) % 45
    return {
        "customer": customer, "status": status, "items": items,
        "total": sum(products[item]["price"] for item in items),
        "ordered": shift(drafter.today, -days - 4),
        "delivered": shift(drafter.today, -days) if status == "delivered" else "",
        "address": address(drafter), "payment": payments[(bits >> 17 & 255) % 3],
        "coupon": COUPONS[(bits >> 25 & 255) % 4] if not bits >> 33 & 3 else "", "note": "",
    }  # fmt: skip


def address(drafter: Drafter) -> str:
    """Draw a number and a street."""
    return f"{1 + drafter.rng.below(98)} {drafter.rng.choice(drafter.words['street'])}"


# ---- wishes ---------------------------------------------------------------------------------------------------------


def _pick(drafter: Drafter, *statuses: str, foreign: bool = True) -> tuple[str, Fact, list[Call]]:
    """Draw an order of the caller, or another customer's; return what they say of it and the lookups."""
    tables, rng = drafter.tables, drafter.rng
    own = drafter.own("orders")
    show_customer: Call = ("get_customer", {"customer": drafter.caller})
    if foreign and drafter.foreign:
        other = drafter.one_of([rid for rid in tables["orders"] if rid not in own])
        return other, ("order", other), [show_customer]
    order = drafter.one_of([rid for rid in own if not statuses or tables["orders"][rid]["status"] in statuses])
    names = described(drafter.desk, drafter.caller)
    single = [name for name in names[order] if called(names, name) == [order]]
    if drafter.difficulty == "easy" or not single or rng.below(2):
        return order, ("order", order), [show_customer, ("get_order", {"order": order})]
    looks: list[Call] = [("get_order", {"order": rid}) for rid in own[: own.index(order) + 1]]
    return order, ("order_with", rng.choice(single)), [show_customer, *looks]


def cancel(drafter: Drafter) -> Wish:
    """Cancel an order."""
    order, fact, reads = _pick(drafter)
    reason, other = drafter.two_of(REASONS)
    call: Call = ("cancel_order", {"order": order, "reason": reason})
    return or_first(make_wish("cancel", [fact, ("reason", reason)], reads, call), "reason", other, ("reason", other))


def move(drafter: Drafter) -> Wish:
    """Set another address."""
    order, fact, reads = _pick(drafter)
    there, other = address(drafter), address(drafter)
    call: Call = ("set_address", {"order": order, "address": there})
    return or_first(make_wish("address", [fact, ("address", there)], reads, call), "address", other, ("address", other))


def pay(drafter: Drafter) -> Wish:
    """Set another payment."""
    order, fact, reads = _pick(drafter, foreign=False)
    now = drafter.tables["orders"][order]["payment"]
    methods = [name for name in drafter.tables["customers"][drafter.caller]["payments"] if name != now]
    method, other = drafter.two_of(methods)
    call: Call = ("set_payment", {"order": order, "payment": method})
    return or_first(make_wish("payment", [fact, ("payment", method)], reads, call), "payment", other,
                    ("payment", other))  # fmt: skip


def give_back(drafter: Drafter) -> Wish:
    """Return an order for its refund."""
    order, fact, reads = _pick(drafter, "delivered", "delivered", "shipped")
    if order not in drafter.own("orders"):
        return make_wish("return", [fact], reads, ("return_order", {"order": order, "refund": 0}))
    if drafter.tables["orders"][order]["status"] == "delivered":
        reads += [("get_product", {"product": item}) for item in drafter.tables["orders"][order]["items"]]
    refund = refund_of(Desk(drafter.tables, drafter.today, drafter.numbers), order)
    if refund < 0:
        raise NoFitError
    return make_wish("return", [fact], reads, ("return_order", {"order": order, "refund": refund}))


def exchange(drafter: Drafter) -> Wish:
    """Exchange a product for one of another style, or sometimes of another kind."""
    order, fact, reads = _pick(drafter, "delivered", "shipped", foreign=False)
    products = drafter.tables["products"]
    old = drafter.one_of(drafter.tables["orders"][order]["items"])
    same = [
        rid for rid, row in products.items() if (row["kind"] == products[old]["kind"]) == bool(drafter.rng.below(6))
    ]
    new, other = drafter.two_of([rid for rid in same if rid not in drafter.tables["orders"][order]["items"]])
    kind = products[new]["kind"]
    call: Call = ("exchange_item", {"order": order, "product": old, "new_product": new})
    reads = [*reads, ("list_products", {"kind": kind})]
    facts = [fact, ("product", products[old]["name"]), ("new_product", products[new]["name"])]
    return or_first(make_wish("exchange", facts, reads, call), "new_product", other,
                    ("new_product", products[other]["name"]))  # fmt: skip


def coupon(drafter: Drafter) -> Wish:
    """Use a coupon."""
    order, fact, reads = _pick(drafter)
    code, other = drafter.two_of(COUPONS)
    call: Call = ("apply_coupon", {"order": order, "coupon": code})
    return or_first(make_wish("coupon", [fact, ("coupon", code)], reads, call), "coupon", other, ("coupon", other))


def email(drafter: Drafter) -> Wish:
    """Set another e-mail."""
    new, other = (f"{drafter.name().lower().replace(' ', '.')}@post.net" for _ in range(2))
    call: Call = ("set_email", {"customer": drafter.caller, "email": new})
    return or_first(make_wish("email", [("new_email", new)], [], call), "email", other, ("new_email", other))


def ask_total(drafter: Drafter) -> Wish:
    """Ask what an order costs."""
    order, fact, reads = _pick(drafter, foreign=False)
    return make_wish("ask_total", [fact], reads, answer=str(drafter.tables["orders"][order]["total"]))


def ask_address(drafter: Drafter) -> Wish:
    """Ask where an order goes."""
    order, fact, reads = _pick(drafter, foreign=False)
    return make_wish("ask_address", [fact], reads, answer=drafter.tables["orders"][order]["address"])


def described(desk: Desk, customer: str) -> dict[str, list[str]]:
    """Return a customer's orders with the names of their products."""
    names = {rid: row["name"] for rid, row in desk.rows("products")}
    orders = ((rid, row) for rid, row in desk.rows("orders") if row["customer"] == customer)
    return {rid: [names[item] for item in row["items"]] for rid, row in orders}


def options(desk: Desk, customer: str) -> tuple[list[Call], list[Call]]:
    """Return lookups and changes of a customer's orders."""
    lookups: list[Call] = [("get_customer", {"customer": customer})]
    changes: list[Call] = []
    for rid, row in desk.tables["orders"].items():
        if row["customer"] == customer:
            lookups.append(("get_order", {"order": rid}))
            changes += [("cancel_order", {"order": rid, "reason": reason}) for reason in REASONS]
            changes += [("apply_coupon", {"order": rid, "coupon": code}) for code in COUPONS]
            changes.append(("return_order", {"order": rid, "refund": row["total"]}))
            changes += [
                ("set_payment", {"order": rid, "payment": method})
                for method in desk.tables["customers"][customer]["payments"]
            ]
    lookups += [("get_product", {"product": rid}) for rid in desk.tables["products"]]
    return lookups, changes


STORE = Domain(
    "store", "a store", TOOLS, RULES,
    {"days": (14, 21, 30), "gold_days": (35, 40), "fee": (3, 4, 5, 6, 8), "minimum": (50, 60, 80, 100)},
    ("identity", "order", "reason", "address", "payment", "product", "new_product", "coupon",
     "new_email"),
    seed,
    {"cancel": cancel, "address": move, "payment": pay, "return": give_back, "exchange": exchange, "coupon": coupon,
     "email": email, "ask_total": ask_total, "ask_address": ask_address},
    described,
    options,
)  # fmt: skip
