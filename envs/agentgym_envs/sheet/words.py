"""The words of tables: names of sheets and columns, and what their cells hold; each split has its own."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from agentgym_py.env.wording import sample_names
from agentgym_py.rng import Rng


class Pool(NamedTuple):
    """A split's names for one kind of column: headers, and values of its cells."""

    headers: tuple[str, ...]
    values: tuple[str, ...]


class Words(NamedTuple):
    """A split's words."""

    sheets: tuple[str, ...]
    keys: tuple[Pool, ...]
    """Columns in which every row has another name."""
    groups: tuple[Pool, ...]
    """Columns in which rows share a few values."""
    counts: tuple[str, ...]
    """Headers of columns of whole numbers."""
    rates: tuple[str, ...]
    """Headers of columns by which counts are multiplied: prices, wages."""
    results: tuple[str, ...]
    """Headers of columns to be filled."""
    flags: tuple[tuple[str, str], ...]
    """A word for rows that fit, and one for the others."""


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


_GOODS = (
    "kettle, lamp, pillow, mirror, bottle, anvil, apron, armchair, axe, bag, ball, basket, bed, bell, belt, bench, "
    "blanket, blender, boat, bookcase, boot, bowl, box, broom, brush, bucket, cabinet, camera, candle, cap, carpet, "
    "cart, chain, chest, chisel, clock, coat, comb, compass, crate, cup, curtain, cushion, desk, dish, door, drill, "
    "drum, easel, fan, flask, flute, fork, frame, fridge, funnel, glass, globe, glove, grill, hammer, hammock, hanger, "
    "harp, hat, heater, hook, hose, jacket, jar, jug, kite, knife, ladder, lantern, lens, lock, mat, mixer, mop, mug, "
    "nail, napkin, needle, net, oven, paddle, pan, pen, pencil, piano, plate, plough, pot, pump, rake, razor, ring, "
    "rope, ruler, sack, saddle, saw, scarf, screw, shelf, shirt, shovel, sieve, skirt, soap, sock, sofa, spade, "
    "sponge, spoon, stapler, stool, stove, suit, table, tap, tent, tie, tile, torch, towel, toy, tray, trolley, "
    "vase, violin, wagon, watch, whistle, wire, wrench"
)
_PEOPLE = (
    "Ada, Agnes, Aldo, Alice, Amir, Anton, Arno, Asta, Barbara, Basil, Beate, Bela, Bodo, Boris, Britta, Carl, Carol, "
    "Celia, Cem, Clara, Conrad, Dagmar, David, Della, Denis, Diana, Doris, Edgar, Edith, Egon, Elena, Elias, Emil, "
    "Erika, Esther, Eva, Fatima, Felix, Fiona, Floyd, Frank, Frida, Georg, Gerda, Gideon, Gina, Greta, Gustav, "
    "Hanna, Harald, Hassan, Helga, Henry, Hugo, Ida, Igor, Ilse, Ingrid, Irma, Isaac, Ivan, Jakob, Jana, Jonas, Josef, "
    "Judith, Julia, Karim, Karl, Kasimir, Kira, Klara, Konrad, Lars, Laura, Leo, Lidia, Linus, Lotte, Lukas, "
    "Lydia, Magda, "
    "Marek, Maria, Martha, Max, Mila, Mona, Moritz, Nadia, Nils, Nora, Odin, Olga, Omar, Oskar, Otto, Paul, Paula, "
    "Pia, Rafael, Ralf, Rita, Robert, Rosa, Ruth, Samir, Sara, Sofia, Sven, Tamara, Theo, Tilda, Tobias, Udo, Uma, "
    "Vera, Viktor, Walter, Wanda, Willi, Xenia, Yara, Yusuf, Zoe"
)
_PLACES = (
    "Aachen, Athens, Bari, Bath, Bergen, Berlin, Bern, Bilbao, Bonn, Boston, Bremen, Brest, Bristol, Cairo, Calais, "
    "Cardiff, Cork, Dallas, Delft, Denver, Dover, Dublin, Essen, Exeter, Galway, Geneva, Genoa, Ghent, Graz, Hague, "
    "Hamburg, Helsinki, Izmir, Jena, Kiel, Krakow, Leeds, Leiden, Lille, Lima, Lisbon, Lyon, Madrid, Mainz, Malaga, "
    "Metz, Milan, Munich, Nantes, Naples, Nice, Odense, Oxford, Padua, Paris, Perth, Porto, Prague, Quito, Riga, Rome, "
    "Rouen, Seville, Siena, Sofia, Split, Tallinn, Trier, Tunis, Turin, Ulm, Utrecht, Verona, Vienna, Warsaw, York, "
    "Zurich"
)
_PLANTS = (
    "acacia, alder, almond, aloe, apple, ash, aspen, aster, bamboo, barley, basil, bean, beech, birch, cactus, carrot, "
    "cedar, cherry, chive, clover, cotton, daisy, elder, elm, fennel, fern, fig, flax, garlic, ginger, hazel, heather, "
    "holly, iris, ivy, jasmine, larch, laurel, lemon, lentil, lilac, lily, linden, lotus, maize, maple, mint, moss, "
    "myrtle, nettle, oak, oats, olive, onion, orange, orchid, palm, parsley, pea, peach, pear, pepper, pine, plum, "
    "poppy, potato, radish, rice, rose, rye, sage, spruce, tansy, thyme, tulip, violet, walnut, wheat, willow, yew"
)

WORDS: Mapping[str, Words] = {
    "train": Words(
        sheets=_split(
            "Orders, Stock, Sales, Staff, Trips, Visits, Bills, Budget, Books, Build, Cash, Club, Costs, Course, Crew, "
            "Data, Demand, Depot, Diary, Entries, Events, Expenses, Farm, Fees, Fleet, Food, Garden, Goods, Guests, "
            "Harvest, Hours, House, Income, Index, Items, Jobs, Journal, Kitchen, Ledger, Library, List, Loads, Log, "
            "Main, March, Market, Members, Money, Month, Notes, Office, Page, Parts, Pay, Plan, Points, Prices, "
            "Projects, Purchases, Phase, Rates, Records, Rent, Report, Results, Routes, Scores, Season, Shifts, "
            "Shop, Sites, Spring, Stores, Summary, Supply, Survey, Tables, Tasks, Teams, Terms, Tests, Tours, Trade, "
            "Travel, Units, Use, Wages, Week, Weights, Work, Year"
        ),
        keys=(
            Pool(_split("item, product, article, thing, part, tool, piece, ware, gadget, device"), _split(_GOODS)),
            Pool(
                _split(
                    "name, person, employee, driver, guest, member, player, pupil, student, worker, nurse, client, "
                    "buyer, seller, tenant, visitor, tutor, runner"
                ),
                _split(_PEOPLE),
            ),
            Pool(
                _split("town, city, stop, place, branch, depot, port, station, site, market, airport"),
                _split(_PLACES),
            ),
            Pool(_split("plant, crop, seed, tree, flower, bed, harvest, species"), _split(_PLANTS)),
        ),
        groups=(
            Pool(
                _split("colour, paint, shade, tint"),
                _split("red, blue, green, white, black, grey, pink, brown, yellow, purple, golden, amber, cream, navy"),
            ),
            Pool(
                _split("day, weekday, date, delivery day"),
                _split("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
            ),
            Pool(
                _split("team, group, crew, squad, class, shift"),
                _split("Lions, Bears, Hawks, Wolves, Foxes, Sharks, Eagles, Tigers, Otters, Ravens, Bulls, Owls"),
            ),
            Pool(
                _split("region, zone, side, area, wing, coast"),
                _split("north, south, east, west, centre, coastline, hills, valley, island, border, lakes, plains"),
            ),
            Pool(
                _split("status, state, stage, progress"),
                _split("open, paid, sent, new, closed, waiting, ready, late, broken, checked, draft, lost, returned"),
            ),
            Pool(
                _split("department, section, office, unit, desk"),
                _split("sales, legal, design, repair, kitchen, research, security, export, finance, print, garden"),
            ),
            Pool(
                _split("type, kind, category, sort, line"),
                _split("wood, metal, paper, glass, stone, cloth, plastic, leather, clay, rubber, steel, wool, cork"),
            ),
            Pool(
                _split("month, season, term"),
                _split("January, February, March, April, May, June, July, August, September, October, November"),
            ),
        ),
        counts=_split(
            "qty, quantity, sold, stock, boxes, visits, days, hours, points, orders, amount sold, pieces ordered, "
            "bags, barrels, beds, calls, cases, copies, crates, cups, errors, flights, games, goals, guests, jars, "
            "journeys, kilos, lessons, letters, litres, loads, meals, metres, miles, minutes, nights, packs, pages, "
            "pairs, parcels, persons, plates, rooms, rows sown, sacks, seats, shares, sheets, shifts, shots, stops, "
            "tests, tickets, tonnes, trips, units, users, votes, weeks, windows"
        ),
        rates=_split(
            "price, cost, fee, rate, wage, weight, charge, fare, rent, toll, tax, price each, cost each, hourly pay, "
            "daily rate, unit price, value, tariff, pay, duty, list price, net price, cost per day, length, volume"
        ),
        results=_split(
            "total, sum, amount, result, due, balance, payment, revenue, turnover, income, spending, expense, outcome, "
            "product, bill, subtotal, overall, receipt, gain, earnings, figure, net, gross, difference, answer, "
            "yield, remainder, forecast, bonus, share, extra, budget"
        ),
        flags=tuple(
            (pair.split("/")[0], pair.split("/")[1])
            for pair in _split(
                "yes/no, high/low, big/small, ok/check, late/on time, good/poor, rich/lean, keep/drop, hot/cold, "
                "full/empty, pass/fail, large/little, urgent/normal, plus/minus, win/loss, strong/weak, "
                "fast/slow, dear/cheap, tick/cross, buy/wait, busy/quiet"
            )
        ),
    ),
    "valid": Words(
        sheets=_split("Deliveries, Payroll, Inventory, Bookings, Contracts, Workshop, Festival, Clinic"),
        keys=(
            Pool(
                _split("commodity, merchandise"),
                _split(
                    "abacus, bagpipe, cauldron, dinghy, fender, gong, hoe, icebox, jigsaw, kiosk, lute, mallet, "
                    "nozzle, ottoman, pulley, quilt, ratchet, sextant, tarp, unicycle, visor, winch, xylophone, yoke"
                ),
            ),
            Pool(
                _split("colleague, subscriber"),
                _split(
                    "Abel, Bianca, Casper, Delia, Enzo, Farah, Gloria, Hector, Imran, Jolanda, Knut, Leila, Mauro, "
                    "Nigel, Ottilie, Petra, Quentin, Ramona, Silvio, Thea, Ulrike, Vito, Wilma, Yannick"
                ),
            ),
        ),
        groups=(
            Pool(_split("fabric, finish"), _split("linen, velvet, denim, satin, canvas, tweed, felt, flannel")),
            Pool(_split("district, quarter"), _split("harbour, oldtown, riverside, hillside, parkside, docklands")),
            Pool(_split("grade, level"), _split("junior, senior, expert, trainee, master, novice")),
        ),
        counts=_split("bundles, sessions, boatloads, patients, rolls, installs, repairs, meetings, readings, pallets"),
        rates=_split("surcharge, premium, commission, unit cost, honorarium, postage"),
        results=_split("settlement, proceeds, liability, computed, outlay, aggregate, tally"),
        flags=(("above", "below"), ("select", "skip"), ("star", "none"), ("gold", "plain")),
    ),
    "test": Words(
        sheets=_split("Shipments, Accounts, Campaign, Warehouse, Roster, Museum, Bakery, Registry"),
        keys=(
            Pool(
                _split("merchant good, exhibit"),
                _split(
                    "accordion, barometer, chandelier, decanter, epaulette, fiddle, goblet, hourglass, inkwell, "
                    "jukebox, kayak, locket, monocle, nutcracker, oboe, parasol, quiver, rickshaw, samovar, tankard, "
                    "urn, valise, wheelbarrow, zither"
                ),
            ),
            Pool(
                _split("associate, participant"),
                _split(
                    "Ambrose, Belinda, Cornelia, Dimitri, Eudora, Fergus, Gwen, Horace, Imogen, Jasper, Keziah, "
                    "Lionel, Mabel, Norbert, Ophelia, Percy, Quinn, Rupert, Sabine, Tarquin, Ursula, Virgil, "
                    "Winifred, Zelda"
                ),
            ),
        ),
        groups=(
            Pool(_split("alloy, mineral"), _split("quartz, pewter, bronze, marble, nickel, slate, cobalt, zinc")),
            Pool(_split("county, borough"), _split("Kent, Devon, Norfolk, Essex, Surrey, Dorset")),
            Pool(_split("rank, tier"), _split("captain, sergeant, cadet, admiral, pilot, corporal")),
        ),
        counts=_split("consignments, batches, loaves, artefacts, rehearsals, inspections, reams, vials, kegs, voyages"),
        rates=_split("levy, royalty, freight rate, stipend, deposit, brokerage"),
        results=_split("grand figure, remittance, obligation, derived, sumtotal, reckoning, accrual"),
        flags=(("ample", "scant"), ("retain", "discard"), ("flagged", "clear"), ("prime", "common")),
    ),
}
_LISTED = frozenset(
    word
    for words in WORDS.values()
    for group in (
        words.sheets, words.counts, words.rates, words.results,
        *(part for pool in (*words.keys, *words.groups) for part in pool),
        *words.flags,
    )
    for word in group
)  # fmt: skip
MADE_UP = 0.4
"""Share of made-up names in training tasks."""


def draw(rng: Rng, split: str, names: tuple[str, ...], count: int, taken: Set[str] = frozenset()) -> list[str]:
    """Draw different names that are not taken; some of those of training tasks are made up."""
    free = [name for name in names if name not in taken]
    if split != "train":
        return rng.sample(free, count)
    while True:
        drawn = sample_names(rng, free, count, MADE_UP, avoid=_LISTED)
        if taken.isdisjoint(drawn):  # a made-up name may come twice
            return drawn
