"""Names of substances, animals, plants and unknown objects; each split has its own.

They mean nothing, so that an agent finds out what a thing is like and does not guess it.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_py.env.wording import sample_names
from agentgym_py.rng import Rng

WORDS: Mapping[str, tuple[str, ...]] = {
    split: tuple(names.split())
    for split, names in {
        "train": "acorel adder agaric alder almond amaranth anise anthem apricot arbour argyle armada arnica ascot "
        "aster atlas auburn autumn azalea badger balsam banner barley basil bayou beacon bellow bergamot birch biscuit "
        "bittern blossom bobolink bracken bramble breeze brindle bristle brook buckle bunting burdock cabbage cadence "
        "camphor canary candour caper caramel caraway cardinal carob cascade cashew catkin cavern cedarn celery chard "
        "charm cherub chestnut chicory chime cinder citron clover cobble cockle comfrey compass condor copper coral "
        "cornet cosmos cotton cowslip cranberry cricket crimson crocus crystal currant curlew cypress dahlia damson "
        "dapple dawn delta denim dogwood dolphin dragon drizzle druid dune dusk eagle ebony echo elder elmwood ember "
        "emerald endive falcon fathom feather fennel fern ferret fiddle finch flannel flax flicker flint florin flute "
        "forest foxglove frost fuchsia gable galley gannet garnish gecko gentian ginger glimmer goblin gorse gosling "
        "granary grotto grouse gull hamlet harbour harvest hazel heather heron hickory hollow honey hornbeam hyssop "
        "ibis indigo ivory jackdaw jasmine jester jetty jigsaw juniper kestrel kettle kipper lagoon lantern lapwing "
        "larch lattice laurel lavender lichen lilac linden linnet lobelia locust lotus lupin magnet magpie mallow "
        "mantle marble marigold marten meadow medlar melody merlin midge mistral mitten moorhen morel mosaic muffin "
        "mulberry mustard myrtle nectar nettle newt nimbus nougat nutmeg oasis oleander opal orchard osprey otter "
        "oyster paddle pansy paprika parsley partridge pebble pelican pepper petal pewter pigeon pillow pipit plover "
        "plume pollard poppy prairie primrose puffin pumpkin quarry quartz quill quince rafter raven reed ripple robin "
        "rosemary rowan russet saffron sage sandal sapling satchel savory sedge sequin shadow sherbet shingle sienna "
        "silver skylark sleet snipe sorrel sparrow spindle spruce starling stipple sumac sundew swallow sycamore "
        "tamarind tangle tansy tassel teasel tempest thicket thimble thistle thrush timber toffee topaz treacle "
        "trellis trout tulip tundra turnip twilight umber valley vanilla velvet verbena vesper violet walnut warbler "
        "weasel whisker willow winter wombat woodruff wren yarrow yonder zephyr zinnia",
        "valid": "abrand astule bodrin calvex cimber cresk dalto dorvane eltar fendle fusk galimon gorvin hestel ilbra "
        "jorrel kandis keffle lanvor lusk mavron mirtle nadrel nostin orbek pelvar pindro quassel ravik relden sabrot "
        "selvin skarn solbra tarvel tefrin tobrak ulmen vandrel vostic wembra wilgar xandel yestrin zolven zubrik",
        "test": "ambrose arkel bascule belvon brask cardole clivet corvan dastel drumble elvask ferrol fintar gamsel "
        "glaive grelk harvex hinsel istrel jendra jusk kelbor krannel lembic lorvin mandrel mosken nelvar norbit "
        "ostrev palvin prask quendle rasper rovick salvor sembrel stolk tandor trevisk umbrel vascor velkin wandor "
        "wostel yarvik yondel zandor zemble",
    }.items()
}
_LISTED = frozenset(word for names in WORDS.values() for word in names)
_MADE_UP = 0.4
"""Share of made-up names in training tasks."""


def with_article(name: str) -> str:
    """Return a name after `a` or `an`."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def draw_words(rng: Rng, split: str, count: int) -> list[str]:
    """Draw different names of a split."""
    if split != "train":
        return rng.sample(WORDS[split], count)
    return sample_names(rng, WORDS[split], count, _MADE_UP, avoid=_LISTED)
