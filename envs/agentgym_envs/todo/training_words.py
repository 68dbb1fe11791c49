"""The words of training boards: hundreds of names, two of five made up."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentgym_py.env.wording import expand, made_up_name
from agentgym_py.rng import Rng

MADE_UP = 0.4
"""Share of made-up names, so that names must be read."""
_COMMENTS = 300
"""The comments from which boards draw."""

WORDS: Mapping[str, str] = {
    "person": (
        "Ana, Bruno, Carla, David, Elena, Farid, Greta, Hugo, Ines, Jonas, Katya, Liam, Adele, Ahmed, Alice, Amir, "
        "Andrew, Anita, Anton, Beatrice, Ben, Boris, Brenda, Carlos, Cecilia, Chen, Clara, Colin, Daisy, Dana, Diego, "
        "Dora, Edith, Edwin, Emil, Emma, Erik, Esther, Eva, Felix, Fiona, Frank, George, Gina, Gustav, Hanna, Harold, "
        "Heidi, Henry, Ida, Igor, Imran, Irene, Isaac, Ivan, Jack, Jana, Jasmin, Joan, Joseph, Julia, Kai, Karim, "
        "Karl, Kira, Lars, Laura, Lena, Leon, Lina, Louis, Lucy, Magnus, Maria, Mark, Martha, Max, Maya, Mehmet, "
        "Milan, Monica, Nadia, Nathan, Nina, Noah, Nora, Omar, Oscar, Otto, Paula, Peter, Petra, Philip, Priya, "
        "Rachel, Ralph, Ravi, Rita, Robert, Ruth, Sally, Samir, Sara, Selma, Sofia, Stefan, Susan, Tariq, Theo, Tina, "
        "Tom, Uma, Ursula, Victor, Wanda, Wendy, William, the plumber, the dentist, the landlord, the bank, Mrs "
        "Baker, Mr Stone, Mrs Adler, Mr Young, Doctor Grant, Doctor Lowe, Aunt Jane, Uncle Joe, Grandma, Grandpa, the "
        "neighbours"
    ),
    "topic": (
        "budget, yearly report, contract, new website, survey, price list, training day, audit, product launch, "
        "travel policy, sales plan, newsletter, tax form, work plan, lease, merger, rota, logo, brochure, catalogue, "
        "tender, forecast, data model, user guide, road map, server move, backup plan, bug list, test plan, release "
        "notes, workshop, interview, job offer, handover, warranty, complaint, refund, delivery note, order form, "
        "minutes, agenda, strategy, pilot project, case study, grant proposal, patent search, fire drill, house "
        "rules, key list, visitor badge, parking plan, coffee machine, phone contract, licence, strike, summer "
        "schedule, bonus scheme, expense claim, quarterly figures, office party"
    ),
    "thing": (
        "door handle, bathroom tap, fence, bookshelf, oven, bicycle, window frame, lamp, washing machine, stairs, "
        "garage door, carpet, boiler, bench, blinds, bucket, bunk bed, cabinet, camera, ceiling, chimney, clock, "
        "cooker, cupboard, dishwasher, drain, drawer, dryer, fan, fireplace, floor, fridge, gutter, hammock, hinge, "
        "hose, iron, kettle, ladder, lawn mower, lock, mattress, microwave, parquet, patio, pipe, plug, printer, "
        "pump, radiator, radio, railing, roof, rug, satellite dish, scooter, shed, shower, shutter, sink, skylight, "
        "smoke alarm, speaker, stove, switch, table, television, tent, thermostat, tiles, toilet, toolbox, trailer, "
        "typewriter, umbrella, vacuum cleaner, wall, water tank, wheelbarrow, worktop"
    ),
    "food": (
        "apples, rice, coffee, olive oil, bread flour, cheese, tomatoes, honey, onions, tea, apricots, bacon, "
        "bananas, basil paste, beans, beer, biscuits, blueberries, bread, broccoli, cabbage, carrots, celery, "
        "cherries, chicken, chocolate, cider, cinnamon, coconut milk, corn, cream, cucumbers, dates, eggs, figs, "
        "fish, garlic, ginger, grapes, ham, ice cream, juice, kale, ketchup, lamb, limes, mango, maple syrup, melon, "
        "milk, mustard, noodles, nuts, oats, olives, paprika, peaches, peanuts, pears, pineapple, pizza, plums, "
        "popcorn, potatoes, prawns, raisins, salad, salmon, sausages, soup, soy sauce, sugar, sultanas, toast, tofu, "
        "trout, tuna, turkey, vanilla, water, wine, yeast"
    ),
    "plant": (
        "roses, carrots, lavender, beans, tulips, basil, strawberries, apple tree, fern, mint, anemones, asters, "
        "azalea, beech hedge, begonias, blackcurrants, box hedge, broccoli, cactus, camellia, chives, clematis, "
        "clover, coriander, cosmos, cucumbers, currants, dill, fennel, fig tree, foxgloves, fuchsia, garlic, "
        "geraniums, gooseberries, grapevine, heather, hollyhocks, honeysuckle, hops, hydrangea, irises, jasmine, "
        "kale, larkspur, lilac, lilies, lupins, magnolia, marigolds, melons, nasturtiums, olive tree, onions, orchid, "
        "oregano, pansies, parsley, peach tree, peppers, petunias, plum tree, poppies, potatoes, primroses, "
        "raspberries, rhubarb, rosemary, snowdrops, sunflowers, sweetcorn, tarragon, tomatoes, violets, willow, "
        "wisteria, yew hedge"
    ),
    "city": (
        "Lisbon, Vienna, Oslo, Prague, Seville, Dublin, Kyoto, Tallinn, Marseille, Porto, Aachen, Aberdeen, Accra, "
        "Adelaide, Algiers, Amman, Ankara, Antwerp, Athens, Austin, Baku, Bamako, Barcelona, Basel, Beirut, Belfast, "
        "Belgrade, Berlin, Bern, Bilbao, Bogota, Bologna, Bordeaux, Boston, Bremen, Bristol, Brno, Brussels, "
        "Budapest, Cadiz, Cairo, Calgary, Cardiff, Chennai, Chicago, Cologne, Copenhagen, Cordoba, Dakar, Delhi, "
        "Denver, Dresden, Durban, Edinburgh, Florence, Geneva, Genoa, Glasgow, Granada, Graz, Hamburg, Hanoi, Havana, "
        "Helsinki, Istanbul, Jakarta, Kiel, Krakow, Lagos, Leeds, Lille, Lima, Linz, Ljubljana, London, Lyon, Madrid, "
        "Malmo, Manila, Melbourne, Milan, Montreal, Munich, Nairobi, Nice, Odense, Ottawa, Paris, Perth, Pisa, Quito, "
        "Rabat, Rome, Rotterdam, Salzburg, Santiago, Seoul, Siena, Sofia, Stockholm, Sydney, Tbilisi, Tokyo, Toronto, "
        "Trieste, Tunis, Turin, Utrecht, Valencia, Venice, Verona, Warsaw, Wroclaw, York, Zurich"
    ),
    "subject": (
        "algebra, Roman history, genetics, French verbs, statistics, optics, poetry, logic, geology, anatomy, "
        "archaeology, architecture, astronomy, biology, business law, chemistry, climate, coding, criminal law, "
        "dance, databases, design, economics, electronics, epidemiology, film history, finance, fluid dynamics, "
        "geography, geometry, German nouns, graph theory, Greek letters, harmony, hygiene, Italian verbs, Japanese "
        "signs, knitting, linguistics, literature, magnetism, marketing, medicine, metaphysics, meteorology, music "
        "theory, networks, neurology, nutrition, oceanography, painting, phonetics, physics, politics, psychology, "
        "robotics, Russian grammar, sculpture, set theory, sociology, theology, trigonometry, typography, zoology"
    ),
    "event": (
        "summer party, chess evening, book fair, quiz night, general meeting, film night, bazaar, open day, "
        "anniversary, art show, award evening, barbecue, bingo night, board meeting, bowling night, brunch, cake "
        "sale, carnival, cheese tasting, circus, clothes swap, cooking class, costume party, cycle tour, dance class, "
        "debate, dinner, dress rehearsal, exhibition, farewell party, fireworks, first aid course, fish market, "
        "football match, garden tour, hike, jumble sale, karaoke night, lantern walk, market day, match, museum "
        "visit, opera evening, parade, picnic, plant sale, play, poetry reading, puppet show, raffle, regatta, relay "
        "race, sailing trip, science day, ski trip, sports day, street party, swimming gala, tea party, theatre trip, "
        "treasure hunt, tournament, village fete, wedding, wine evening, workshop, yoga morning"
    ),
    "project": (
        "Work, Home, Shopping, Garden, Travel, Studies, Club, Family, Boat trip, New flat, Choir, Podcast, Car sale, "
        "Tax return, Accounts, Attic, Baby, Balcony, Band, Bathroom, Birthday, Blog, Book, Campaign, Camping, Car, "
        "Charity, Christmas, Church, Cinema, Clinic, Conference, Cottage, Course, Customers, Degree, Dog, Election, "
        "Exhibition, Farm, Festival, Fitness, Flat, Football, Forum, Gallery, Games, Health, Holiday, House, "
        "Invoices, Journal, Kitchen, Lab, Language, Library, Magazine, Market, Moving, Museum, Music, Neighbours, "
        "Novel, Nursery, Office, Orchestra, Parents, Party, Personal, Pets, Photos, Private, Recipes, Repairs, "
        "Research, Restaurant, Sailing, School, Shop, Side job, Spring fair, Sports, Stage, Team, Tennis, Theatre, "
        "Thesis, Tools, Training, Vegetables, Video, Volunteers, Website, Wedding, Winter, Workshop, Youth group"
    ),
    "section": (
        "Planning, Reports, Meetings, Hiring, Repairs, Cleaning, Kitchen, Groceries, Gifts, Hardware, Beds, Lawn, "
        "Greenhouse, Bookings, Packing, Papers, Reading, Exercises, Exams, Events, Members, Money, School, Birthdays, "
        "Weekend, Later, Ideas, This month, Waiting list, First steps, Contacts, Admin, After lunch, Archive box, "
        "Autumn, Basement, Calls, Checks, Clothes, Daily, Delivery, Design, Done soon, Errands, Evenings, Feedback, "
        "Finance, First floor, Forms, Friday, Furniture, Goals, Half done, Help wanted, Indoors, Inventory, Legal, "
        "Letters, Long term, Maintenance, Materials, Maybe, Monday, Mornings, New, Next week, Notes, Old, On hold, "
        "Outdoors, Parts, Payments, People, Photos, Press, Priority, Questions, Quick wins, Research, Review, Rooms, "
        "Rush, Saturday, Short term, Spring, Storage, Summer, Supplies, Talks, Team, Testing, Texts, This week, "
        "Today, Tools, Transport, Trips, Urgent, Visits, Winter"
    ),
    "label": (
        "phone, urgent, waiting, errand, email, quick, money, online, abroad, alone, archive, bike, bills, bus, busy, "
        "cheap, chore, city, cold, cooking, daily, deep, delegate, dirty, dull, early, energy, expensive, family, "
        "fast, favour, focus, free, friends, fun, garage, goal, green, guest, habit, hard, health, heavy, help, "
        "hobby, holiday, home, idea, indoors, internet, joint, kids, late, laptop, later, legal, library, light, "
        "list, loud, low, lunch, maybe, meeting, mobile, morning, new, night, noisy, noon, office, old, open, order, "
        "outdoors, paper, partner, pending, personal, pickup, private, project, queue, quiet, rainy, read, red, "
        "research, review, risky, routine, sale, school, secret, seldom, shared, shop, slow, small, social, soon, "
        "spring, study, summer, team, test, ticket, today, tools, travel, trivial, video, visit, walk, weekend, "
        "weekly, winter, work, write"
    ),
}
"""Slot to its listed words."""

COMMENTS = (
    "ask for a receipt",
    "wait for the reply",
    "costs about {number} euros",
    "the key is at the office",
    "take the blue folder",
    "only before noon",
    "see last year's notes",
    "bring two copies",
    "[ask|call|write to|remind|thank] {person}[ first| again| about the price| on Tuesday|]",
    "{person} [knows more|has the key|will help|wants a copy|pays half|has seen it|is away until Monday]",
    "[not before|only after|best before] {number} o'clock",
    "[about|at most|no more than|nearly] {number} euros[ in cash| altogether|]",
    "[room|page|box|shelf|order|flat|invoice] {number}[, second floor| on the left|, at the back|]",
    "[needs|takes] [an hour|two hours|half a day|a whole day|{number} minutes]",
    "[use|borrow|bring|look for] the {thing}[ if possible| of {person}|]",
    "[see|check|read|compare] [page|chapter|item|line] {number}",
    "[colour|size|shape] [as before|does not matter|see photo|like the old one]",
    "[the form|the map|the list|the bill|the letter] is [in the drawer|on the desk|with {person}|in the car|missing]",
    "[too expensive|too late|too big|not sure yet|almost finished|half done|paid already|waiting for {person}]",
)
"""Grammars of comments."""
PATTERNS = (
    "Pay bill {number}, Check invoice {number}, Return parcel {number}, File form {number}, Look for box "
    "{number}, Answer letter {number}, Renew ticket {number}, Meet {person} in room {number}, Read pages 1 to "
    "{number}, Collect {number} euros from {person}, Sell the {thing}, Insure the {thing}, Lend {person} the "
    "{thing}, Borrow the {thing} of {person}, Carry the {thing} to the cellar, Take photos of the {thing}, Find a "
    "buyer for the {thing}, Drive {person} to {city}, Send a parcel to {city}, Meet {person} in {city}, Learn "
    "about {subject}, Teach {person} {subject}, Watch a film about {subject}, Taste the {food}, Freeze the "
    "{food}, Share the {food} with {person}, Draw the {plant}, Weed around the {plant}, Pick the {plant}, Get "
    "tickets for the {event}, Tell {person} about the {event}, Cancel the {event}, Write a report on the {event}, "
    "Discuss the {topic} with {person}, Translate the {topic}, Print the {topic}, Sign the {topic}, Forward the "
    "{topic} to {person}"
)
"""Patterns of titles that only training boards have, beside those of the themes."""
_CAPITALS = ("person", "city", "project", "section")


def draw_words(avoid: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return slot to listed and made-up words, always the same; `avoid` has other splits' names in lower case."""
    rng = Rng("todo", "training words")
    listed = {slot: tuple(text.split(", ")) for slot, text in WORDS.items()}
    taken = {*avoid, *(word.casefold() for texts in listed.values() for word in texts)}
    for slot, texts in listed.items():
        names = [made_up_name(rng, taken) for _ in range(round(len(texts) * MADE_UP / (1 - MADE_UP)))]
        names = [name.capitalize() for name in names] if slot in _CAPITALS else names
        listed[slot] = tuple(rng.sample([*texts, *dict.fromkeys(names)], len(texts) + len(set(names))))
    comments = {_comment(rng, listed): None for _ in range(_COMMENTS)}
    return {**listed, "text": tuple(comments)}


def _comment(rng: Rng, listed: Mapping[str, tuple[str, ...]]) -> str:
    text = expand(rng, rng.choice(COMMENTS))
    number = str(2 + rng.below(98))
    return text.format(number=number, person=rng.choice(listed["person"]), thing=rng.choice(listed["thing"]))
