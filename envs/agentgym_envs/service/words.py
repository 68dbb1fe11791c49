"""The names of people and things; each belongs to one split."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from agentgym_py.env.wording import made_up_name
from agentgym_py.rng import Rng

Words = Mapping[str, tuple[str, ...]]
"""Slot to its words."""
MADE_UP = 0.4
"""Share of made-up names in training, so that names must be read."""
_DRAWN = 12
"""Words of a slot in a training task, so that they must be read; a held-out task has all of its split."""

_HELD_OUT: Mapping[str, Mapping[str, str]] = {
    "valid": {
        "first": "Mira, Nils, Olga, Pavel, Rosa, Simon, Tessa, Umar",
        "last": "Abbott, Brandt, Castro, Dorsey, Ekholm, Fuchs, Gorman, Hansen",
        "kind": "kettle, backpack, blanket, umbrella, teapot, hammock, lantern, stool",
        "style": "amber, striped, foldable, heavy, navy, round",
        "street": "Mill Lane, Chapel Road, Harbour Street, Orchard Way, Station Road, Abbey Close",
        "city": "Ghent, Riga, Naples, Bergen, Zagreb, Toulouse, Osaka, Cork",
        "plan": "Breeze, Cedar, Delta, Ember, Fjord, Grove",
    },
    "test": {
        "first": "Vera, Wim, Xenia, Yusuf, Zoe, Aron, Britta, Cyril",
        "last": "Ingram, Jansen, Keller, Lindqvist, Moreau, Novak, Ortega, Petrov",
        "kind": "lamp, clock, mirror, pillow, toaster, bucket, vase, tripod",
        "style": "violet, plain, compact, light, ivory, square",
        "street": "Castle Street, Garden Walk, River Road, Linden Avenue, School Lane, Priory Court",
        "city": "Bruges, Vilnius, Palermo, Turku, Split, Nantes, Nara, Galway",
        "plan": "Harbor, Indigo, Jasper, Karst, Lumen, Mistral",
    },
}
_TRAINING: Mapping[str, str] = {
    "first": (
        "Ada, Adele, Ahmed, Alice, Amir, Andrew, Anita, Anton, Ben, Boris, Brenda, Carlos, Cecilia, Chen, Clara, "
        "Colin, Daisy, Dana, David, Diego, Dora, Edith, Elena, Emil, Emma, Erik, Eva, Farid, Felix, Fiona, Frank, "
        "George, Gina, Greta, Hanna, Harold, Heidi, Henry, Hugo, Ida, Igor, Ines, Ivan, Jack, Jana, Joan, Jonas, "
        "Julia, Karim, Karl, Katya, Kira, Lars, Laura, Lena, Leon, Liam, Lucy, Maria, Mark, Max, Maya, Mehmet, Nadia, "
        "Nina, Noah, Nora, Omar, Oscar, Otto, Paula, Peter, Priya, Rachel, Ravi, Rita, Robert, Ruth, Sally, Samir, "
        "Sara, Selma, Sofia, Stefan, Susan, Tariq, Theo, Tina, Tom, Uma, Ursula, Victor, Wanda, Wendy, William"
    ),
    "last": (
        "Adams, Adler, Baker, Barnes, Becker, Bell, Bianchi, Black, Brown, Carter, Chan, Clark, Cohen, Cole, Costa, "
        "Cruz, Davies, Diaz, Duval, Evans, Fischer, Fox, Garcia, Grant, Gray, Green, Hall, Harris, Hill, Hoffman, "
        "Hughes, Hunt, Ito, Jones, Kaya, Khan, Kim, King, Klein, Kowal, Lee, Lewis, Long, Lopez, Marsh, Martin, "
        "Mason, Meyer, Miller, Moore, Morris, Murphy, Nagy, Nelson, Nguyen, Olsen, Owen, Palmer, Park, Parker, Patel, "
        "Perez, Porter, Price, Quinn, Reed, Reyes, Rossi, Roy, Santos, Sato, Schmidt, Scott, Shaw, Silva, Singh, "
        "Smith, Stone, Sousa, Stein, Taylor, Thomas, Turner, Vogel, Wagner, Walker, Ward, Weber, White, Wood, Young"
    ),
    "kind": (
        "anvil, apron, armchair, axe, basket, bathtub, bell, belt, bench, blender, bookcase, bottle, bowl, bracelet, "
        "brush, cabinet, camera, cape, cart, chair, chest, chisel, coat, comb, compass, cooker, cradle, cushion, "
        "desk, doormat, dress, drill, drum, dryer, easel, fan, flask, flute, fork, frame, freezer, fridge, funnel, "
        "glove, grill, guitar, hairdryer, hat, heater, hook, hose, iron, jacket, jar, jersey, knife, ladder, loom, "
        "mat, mattress, mixer, mop, mug, needle, notebook, oven, paddle, pan, pen, piano, plate, pot, printer, pump, "
        "puzzle, radio, rake, razor, ring, rope, rug, saddle, sandal, saw, scarf, shelf, shirt, shoe, shovel, sieve, "
        "sledge, sofa, spade, speaker, spoon, stapler, stove, table, tent, towel, tray, trumpet, violin, watch, wok"
    ),
    "style": (
        "beige, big, black, blue, bright, broad, bronze, brown, carved, cheap, copper, cream, curved, dark, double, "
        "fine, flat, glossy, golden, green, grey, hollow, large, long, matt, mini, narrow, oak, olive, orange, pale, "
        "pine, pink, plastic, purple, red, rough, royal, rubber, short, silver, simple, single, slim, small, smooth, "
        "soft, steel, tall, thick, thin, tiny, turquoise, velvet, warm, white, wide, wooden, woollen, yellow"
    ),
    "street": (
        "Acorn Street, Alder Road, Ash Lane, Baker Street, Bank Road, Bay Street, Beech Avenue, Birch Road, Bridge "
        "Street, Broad Lane, Brook Road, Cedar Street, Cherry Lane, Church Road, Clay Street, Cliff Road, Cross "
        "Street, Dale Road, Dean Street, East Street, Elm Street, Field Lane, Ford Road, Forge Lane, Forest Road, "
        "Fox Lane, Glen Road, Green Street, Grove Lane, Hazel Road, High Street, Hill Road, Holly Lane, Kiln Lane, "
        "King Street, Lake Road, Long Lane, Maple Road, Market Street, Meadow Lane, Moor Road, Moss Lane, North "
        "Street, Oak Road, Park Lane, Pine Street, Pond Lane, Quarry Road, Queen Street, Rose Lane, Sand Road, South "
        "Street, Spring Lane, Stone Road, Sun Street, Temple Road, Tower Lane, Vine Street, West Road, Willow Lane"
    ),
    "city": (
        "Lisbon, Vienna, Oslo, Prague, Seville, Dublin, Kyoto, Tallinn, Porto, Aachen, Accra, Adelaide, Algiers, "
        "Amman, Ankara, Athens, Austin, Baku, Basel, Belfast, Berlin, Bern, Bilbao, Bogota, Boston, Bremen, Bristol, "
        "Brno, Cadiz, Cairo, Cardiff, Chennai, Chicago, Cologne, Dakar, Delhi, Denver, Dresden, Durban, Florence, "
        "Geneva, Genoa, Glasgow, Graz, Hamburg, Hanoi, Havana, Jakarta, Kiel, Krakow, Lagos, Leeds, Lille, Lima, "
        "Linz, London, Lyon, Madrid, Malmo, Manila, Milan, Munich, Nairobi, Nice, Odense, Ottawa, Paris, Perth, Pisa, "
        "Quito, Rabat, Rome, Santiago, Seoul, Sofia, Sydney, Tbilisi, Tokyo, Toronto, Tunis, Turin, Venice, Verona, "
        "Warsaw, York, Zurich"
    ),
    "plan": (
        "Acorn, Alpha, Apex, Atlas, Basic, Beam, Bold, Bright, Bronze, Bundle, Chat, Classic, Clear, Cloud, Comet, "
        "Core, Crystal, Daily, Easy, Echo, Extra, Fair, Family, Fast, Flash, Flex, Focus, Free, Fresh, Giant, Global, "
        "Gold, Happy, Home, Hub, Jump, Junior, Light, Link, Local, Long, Lucky, Magic, Max, Mega, Mini, Moon, Nova, "
        "Open, Orbit, Pearl, Plus, Pocket, Prime, Pulse, Quick, Rapid, River, Rocket, Senior, Signal, Silver, Smart, "
        "Solo, Spark, Star, Start, Storm, Sun, Super, Swift, Talk, Total, Turbo, Ultra, Urban, Vega, Wave, Zoom"
    ),
}
_LOWER = ("kind", "style")


@cache
def words(split: str) -> Words:
    """Return all words of a split; those of training are listed and made-up ones in a fixed order."""
    if split != "train":
        return {slot: tuple(text.split(", ")) for slot, text in _HELD_OUT[split].items()}
    rng = Rng("service", "training words")
    listed = {slot: text.split(", ") for slot, text in _TRAINING.items()}
    held_out = (text.split(", ") for slots in _HELD_OUT.values() for text in slots.values())
    taken = {word.casefold() for texts in (*listed.values(), *held_out) for word in texts}
    result: dict[str, tuple[str, ...]] = {}
    for slot, texts in listed.items():
        names = [made_up_name(rng, taken) for _ in range(round(len(texts) * MADE_UP / (1 - MADE_UP)))]
        if slot not in _LOWER:
            names = [name.capitalize() for name in names]
        if slot == "street":
            names = [f"{name} {rng.choice(('Street', 'Road', 'Lane'))}" for name in names]
        result[slot] = tuple(rng.sample([*texts, *dict.fromkeys(names)], len(texts) + len(set(names))))
    return result


def draw_words(rng: Rng, split: str) -> Words:
    """Draw the words of a task: few of many in training."""
    if split != "train":
        return words(split)
    drawn = {}
    for slot, texts in words(split).items():
        # at equal distances, because one slice is faster than many random numbers
        bits, start = divmod(rng.bits(), len(texts))
        step = 1 + bits % ((len(texts) - 1) // _DRAWN)
        drawn[slot] = (texts + texts)[start : start + _DRAWN * step : step]
    return drawn
