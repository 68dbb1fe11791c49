"""Random recipe trees, over words that each belong to one split."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentgym_envs.textcraft.recipes import Recipe
from agentgym_py.env.wording import sample_names
from agentgym_py.rng import Rng

RAW: Mapping[str, str] = {
    "train": "amber ash bark bone brass chalk clay coal copper cork cotton flax flint fur glass grain horn iron ivory "
    "leaf moss oil pitch quartz reed resin salt sand silk slate straw tin wax wool zinc acorn agate algae almond "
    "aluminium antler apple aspen barley bean beet berry bitumen blossom boulder brine bristle butter cactus carbon "
    "cashew chaff charcoal cherry clover cobalt cocoa cobweb copra cream crystal dew down driftwood dung dust ebony "
    "eggshell elm fat fern fibre fig fleece flour fungus garlic garnet ginger glue gneiss grass grease grit gum hazel "
    "hay heather hops humus husk indigo iodine ivy jute kelp latex lava lichen linseed loam logwood maize malt manure "
    "maple marl mica milk mint mud mulch mustard nettle nut oat ochre onyx opal ore osier paraffin peat pebble pepper "
    "petal pigment pitchblende plum pollen potash pulp raffia rice root rosin rubber rush rye saffron sap sawdust "
    "scrap seaweed seed shale shell sinew soapstone soda soot soy spice starch steel stem stone sugar sulphur tallow "
    "tannin tea thistle thorn tobacco turf turpentine twig umber vine walnut water weed wheat wicker wood yarn yeast "
    "alabaster bauxite bran camphor caramel chive clam clove coconut compost cornflower dandelion eelgrass "
    "elderberry feldspar fennel foam gelatin ginseng gorse grape guano hemlock henna honeycomb ice juniper kaolin "
    "lard larch laurel lavender lemon lignite lupin magnesium mango manganese marjoram mercury mistletoe musk "
    "myrrh nutmeg olive orchid oyster palm papyrus parsley peach plaster poppy quicklime radish rhubarb rosemary "
    "sage sandstone sapling schist sesame silt sponge spruce sunflower sycamore thyme titanium toadstool tulip "
    "tungsten turnip turquoise vanilla vinegar wheatgerm whey wormwood yam yew",
    "valid": "bamboo basalt cane coral feather gold granite hemp honey jade lime nickel pearl tar willow",
    "test": "alum beeswax birch bronze cedar gravel gypsum hide lead marble oak pine pumice ruby silver",
}
CRAFTED: Mapping[str, str] = {
    "train": "anvil axle basket beam bell belt blade board boiler bolt bottle bowl bracket brick bridle brush bucket "
    "buckle button cable candle cart chain chest chisel clamp cloth collar comb cord crate cup dial drum fan file "
    "flask frame funnel gate gear glove hammer handle harness hinge hook hoop jar kettle key ladder lamp lantern latch "
    "lens lever lid lock loom mallet abacus album altar amulet anklet apron arbor armband armrest arrow awl badge bag "
    "bandage banjo banner barge barrel baton bed bellows bench bib bin binder bit blanket blind block boat bobbin "
    "bonnet bookend boot bow brace bracelet brooch broom bugle bung cabinet cage cape cap cask casket caster chair "
    "chime chopper churn chute cistern clasp clip clock clog coat coffer compass cot couch cradle crank "
    "crib crossbow crown crutch cuff cupboard curtain cushion cutter dagger dart desk die doll dome door doorbell "
    "drain drawer dress drill dynamo easel engine fence fender fiddle filter fishhook flag flail float flute fork "
    "frock furnace garter gauge gong goblet grater gutter hairpin halter harp harrow hasp hat heater helmet "
    "hoe holder hose icebox inkwell jacket jack jewel jug keg kiln kite knob lace ladle lasso lathe lattice "
    "leash lectern locket lute magnet mantle mask mast mat medal mirror mitten monocle mop mould mug muzzle "
    "airship alarm ashtray awning axe backpack bagpipe ballista bathtub battery beacon beaker birdcage blowpipe "
    "boomerang bookcase bookmark breastplate bulb bumper buoy candlestick canister canoe canteen carpet cauldron "
    "cello chalice chariot chessboard clarinet cleaver coaster coin compress console corset coupling crowbar "
    "cutlass cymbal decanter dinghy dish doormat doorknob dumbbell dustpan earring eggcup faucet fireplace "
    "flipper flowerpot flywheel footstool fountain fuse gasket gavel girdle gondola gramophone grapnel grindstone "
    "guitar halberd hammock handbag handcart hatchet headband helm hourglass hydrant javelin jewelbox kayak "
    "kennel knapsack knocker lampshade lawnmower letterbox lifeboat lighthouse locomotive longbow loudspeaker "
    "lyre mailbox mandolin marionette matchbox microscope millstone moneybox mousetrap musket",
    "valid": "nail needle nozzle oar oven paddle pan pedal peg pipe piston plank plate plough pot pulley pump quiver "
    "rail rake ring rivet rod roller rope",
    "test": "rudder saddle sail saw scale screen screw shaft shelf shield shovel sieve sled spindle spool spring staff "
    "stool strap string tile tongs torch trough tube wheel",
}
_LISTED = frozenset(name for words in (RAW, CRAFTED) for names in words.values() for name in names.split())
_MADE_UP = 0.4
"""Share of made-up names in training recipes, so that names must be read."""
DEPTHS = {"easy": (1, 2), "medium": (3, 4), "hard": (5, 6)}
_DISTRACTORS = {"easy": 8, "medium": 6, "hard": 5}
_COUNTS = (1, 1, 1, 2, 2, 3, 4)


def draw_recipes(rng: Rng, split: str, difficulty: str) -> tuple[str, list[Recipe]]:
    """Draw a target, and its recipe tree among recipes that do not help."""
    low, high = DEPTHS[difficulty]
    crafted = _sample(rng, CRAFTED, split, 24)
    names, raw = iter(crafted), _sample(rng, RAW, split, 6, avoid=crafted)
    levels = [raw]
    recipes: list[Recipe] = []
    for _ in range(low + rng.below(high - low + 1) - 1):
        level = [_recipe(rng, next(names), levels) for _ in range(1 + (rng.below(3) == 0))]
        recipes += level
        levels.append([recipe.item for recipe in level])
    target = _recipe(rng, next(names), levels)
    items = [*raw, *(recipe.item for recipe in recipes)]
    distractors = [_recipe(rng, next(names), [items]) for _ in range(_DISTRACTORS[difficulty])]
    recipes += [target, *distractors]
    return target.item, rng.sample(recipes, len(recipes))


def _sample(rng: Rng, words: Mapping[str, str], split: str, count: int, avoid: Collection[str] = ()) -> list[str]:
    """Draw different words of a split; in training recipes some are made up, and none of these is in `avoid`."""
    names = words[split].split()
    if split != "train":
        return rng.sample(names, count)
    return sample_names(rng, names, count, _MADE_UP, avoid=_LISTED.union(avoid))


def _recipe(rng: Rng, item: str, levels: list[list[str]]) -> Recipe:
    """A recipe of one thing of the top level, and one or two of any level."""
    below = [thing for level in levels for thing in level]
    needs = {rng.choice(levels[-1]): 1 + rng.below(3)}
    for _ in range(1 + rng.below(2)):
        needs.setdefault(rng.choice(below), 1 + rng.below(3))
    return Recipe(item, rng.choice(_COUNTS), tuple(rng.sample(list(needs.items()), len(needs))))
