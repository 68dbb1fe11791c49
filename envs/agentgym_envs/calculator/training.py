"""The words of training problems: each wording is a grammar, and all of its expansions have the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

NAMES = (
    "Ana Bruno Carla David Elena Farid Greta Hugo Ines Jonas Katya Liam Abel Ada Adele Agnes Aisha Alan Alba Alma "
    "Amir Andre Anja Anton Arthur Astrid Axel Bella Ben Bianca Bill Boris Carl Carmen Cecilia Chloe Clara Conrad "
    "Dalia Dana Daniel Dario Dina Dora Edith Edgar Ella Emil Emma Enzo Erik Esther Eva Fabian Fay Felix Fiona Flora "
    "Frank Freya Gina Gloria Gustav Hamid Hannah Harold Helen Henry Hilda Igor Ilse Ingrid Iris Ivan Jack Jana Jasmin "
    "Jean Joel Judith Julia Kai Karin Karl Kate Kim Klara Klaus Kurt Lars Laura Lea Leo Lena Lidia Linda Louis Lucas "
    "Lucy Magda Malik Marco Maria Martin Matti Maya Mehmet Mona Nadia Nasir Nina Noah Nora Omar Oscar Otto Paul Paula "
    "Petra Philip Pia Rahel Ralf Rana Raul Rita Robert Robin Ruth Samir Sara Selma Sofia Stefan Sven Tanja Tara Theo "
    "Thomas Tilda Tom Ulla Ursula Valentin Viktor Wanda Werner Wilma Yara Aaron Abigail Adam Adrian Agatha Albert "
    "Alfred Alice Alicia Alina Alison Amanda Amelia Amina Amy Andrea Andrew Angela Anita Anna Annika Antonia Antonio "
    "Ariel Armin Arnold Arno Aurora Barbara Barry Beatrice Benedict Bernard Bertha Beth Betty Bjorn Blanche Bob "
    "Brenda Brian Bridget Bruce Camilla Candice Carol Caroline Caspar Catherine Cedric Celia Charles Charlotte Chris "
    "Christina Cindy Claire Claude Claudia Colin Connie Cora Cornelia Craig Curtis Cynthia Daisy Daphne Darius Dean "
    "Deborah Denise Dennis Derek Diana Diego Dirk Dominic Donald Donna Dorothy Douglas Duncan Eddie Edmund Edward "
    "Edwin Eileen Elaine Eleanor Eli Elias Elisa Elliot Elsa Elvira Emanuel Emily Eric Erica Ernest Estelle Eugene "
    "Evan Evelyn Fatima Ferdinand Fernando Filip Finn Florence Francis Franz Fred Frida Gabriel Gavin Gemma Geoffrey "
    "George Georgia Gerald Gilbert Giles Giovanna Glen Gordon Grace Graham Grant Gregory Gwen Harriet Harry Harvey "
    "Heather Hector Heidi Helga Herbert Herman Hester Hillary Holly Horace Howard Hubert Ian Ibrahim Ida Imogen Ingo "
    "Irene Irma Isaac Isabel Ismail Jacob Jade James Jan Jane Janet Jason Javier Jeremy Jerome Jessica Jill Jim Joan "
    "Jodie Johan Johanna John Jordan Jorge Josef Joseph Josephine Joshua Joy Joyce Juan Judy Julian June Justin Kamal "
    "Karen Kasper Keith Kenneth Kevin Khalid Kira Kirsten Knut Lambert Lance Larry Leila Leonard Leonie Leopold "
    "Leslie Lester Levi Lewis Lily Lisa Lloyd Lola Lorenzo Lorna Lothar Lotte Louise Luca Luis Luisa Luther Lydia "
    "Mabel Madeleine Magnus Manfred Manuel Marcel Marcus Margaret Marge Marianne Marina Marion Marius Mark Marlene "
    "Martha Mary Mathilda Matthew Maud Maurice Max Megan Melanie Melissa Mia Michael Miguel Mike Mildred Miles Mina "
    "Miranda Miriam Mitch Mohamed Molly Monica Morris Muriel Myra Myrtle Nancy Naomi Natalie Nathan Neil Nellie "
    "Nelson Nicholas Nicole Niels Nigel Noel Norbert Norman Odette Olaf Olive Oliver Olivia Ophelia Oswald Owen Pablo "
    "Pamela Pascal Patricia Patrick Pauline Pearl Pedro Penelope Percy Perry Peter Phoebe Phyllis Pierre Piet Polly "
    "Priscilla Quentin Rachel Ralph Ramon Randolph Raymond Rebecca Regina Reinhard Renata Rex Richard Roberta "
    "Roderick Roger Roland Rolf Roman Ronald Rosalind Rose Rowena Roy Rudolf Rufus Rupert Russell Ryan Sabine Sally "
    "Salma Samuel Sandra Saskia Scott Sean Sebastian Serena Sergio Sheila Shirley Sidney Sigrid Silas Simone Solomon "
    "Sonia Sophie Stanley Stella Stephen Steven Stuart Susan Susanne Sybil Sylvia Tamara Ted Terence Teresa Thelma "
    "Theodora Theresa Tim Timothy Tina Tobias Todd Tony Trevor Trudy Tyler Valerie Vanessa Verena Vernon Veronica "
    "Victoria Vincent Viola Violet Virginia Vivian Walter Warren Wayne Wendy Wilfred William Winifred Wolfgang Xavier "
    "Yasmin Yvonne Zack Zelda Zora"
)
GOODS = (
    "apples pencils candles buttons marbles tiles rolls stamps bolts tulips bananas pears plums cherries melons "
    "mangos peaches figs olives carrots onions potatoes tomatoes turnips beans cabbages eggs loaves cookies cupcakes "
    "waffles bagels tarts biscuits sweets toffees cakes sandwiches books notebooks magazines maps letters envelopes "
    "cards posters pictures photos frames pens brushes erasers rulers folders stickers labels ribbons needles pins "
    "threads patches scarves hats caps gloves socks shirts coats belts shoes boots sandals slippers towels blankets "
    "pillows cushions carpets curtains cups mugs plates glasses jugs spoons forks knives pots pans kettles lamps "
    "bulbs lanterns torches batteries cables plugs switches nails nuts washers hooks springs wheels tyres pipes "
    "bricks planks ropes chains keys locks bells coins medals tokens tickets flags kites balls dolls puzzles dice "
    "toys drums flutes whistles roses daisies lilies seeds plants cacti ferns saplings pebbles feathers corks bottles "
    "brooms combs mirrors soaps sponges clocks watches rings bracelets brooches vases statues chairs stools benches "
    "tables shelves magnets lenses chips discs cartridges pumps valves filters abacuses acorns albums almanacs "
    "anchors antennas apricots aprons armchairs arrows ashtrays atlases avocados axes bags balloons bandages banners "
    "barrels baskets batons beakers beds beetroots bibs bikes bins binders blackberries blazers blouses blueberries "
    "boards boats bolsters bonnets bookmarks bouquets bowls boxes branches brochures bridles brownies buckets buckles "
    "buns cabinets calculators calendars cameras candlesticks canoes canvases caravans cardigans cartons cartoons "
    "carvings cases caskets catalogues cauliflowers certificates chalks charts chestnuts chisels chocolates cigars "
    "circles clarinets clips cloaks clogs coasters coconuts coils collars comics compasses computers cones contracts "
    "cookers coolers corkscrews costumes cots couches courgettes cradles crates crowns croissants crutches crystals "
    "cubes cucumbers cutlets cymbals daffodils dates decks desks diaries dictionaries dishes documents doorbells "
    "doormats doughnuts drawers drawings dresses drills duvets earrings easels eggcups emblems engines essays fans "
    "fiddles files fireworks fishhooks flasks flippers footballs fossils freezers fridges fritters funnels garlands "
    "gates gems gherkins gifts globes goblets gourds grapefruits grapes guitars hairpins hammers hammocks handbags "
    "handkerchiefs handles harmonicas harps hatchets helmets hoes hoops hoses icicles insoles invitations jackets "
    "jars jerseys jewels journals jumpers kayaks kerchiefs keyboards kits knobs laces lampshades laptops lassos "
    "leaflets leaves lids lighters logs lollipops looms mallets mandolins manuals marigolds masks mats mattresses "
    "medallions microscopes mittens mobiles modems mops mosaics motors mousetraps mouthpieces mushrooms napkins "
    "necklaces neckties nets newspapers nightgowns notes nuggets nutcrackers oars oboes omelettes orchids organs "
    "ornaments paddles padlocks paintings pamphlets pancakes panels parachutes parasols parcels passports pastries "
    "patterns pegs pendants pennants peppers phones pianos pies pillboxes pineapples pistons pitchers pizzas "
    "placemats plasters pods poems polishers pomegranates poppies pouches presents printers prizes projectors prunes "
    "pulleys pullovers puppets purses quills quilts rackets radios radishes raincoats rakes raspberries rattles "
    "razors receipts recorders records reels reports rivets robes robots rods rosettes rowboats rubies rucksacks rugs "
    "saddles sacks safes samples satchels saucers sausages saxophones schedules scooters scrapers screens "
    "screwdrivers scrolls seashells seats sensors serviettes shades shavers shawls sheets shields shovels shrubs "
    "sieves signs sketches skewers skirts skis sledges sleeves slides snowballs snowdrops sofas spades spanners "
    "speakers spears spheres spikes spindles splints spools spotlights sprouts squares staplers staples stars "
    "stencils stethoscopes sticks stockings stones stoppers stoves straps strawberries straws strings suitcases "
    "sundials sunflowers surfboards sweaters swords tags tambourines tapes tassels teabags teapots telephones "
    "telescopes tents thermometers thimbles ties tiaras tins tinsels toasters toolboxes toothbrushes tops tracks "
    "tractors trays tricycles trinkets trombones trophies trowels trumpets trunks tubes tunics turbines twigs "
    "typewriters ukuleles umbrellas uniforms urns vans veils vests vials violins violets visors wafers wagons "
    "waistcoats wallets walnuts wands wardrobes wedges weights whisks wicks wigs windmills windows wires workbooks "
    "wreaths wrenches yoyos zips zithers"
)
FOODS = (
    "flour rice sugar cocoa butter oatmeal pasta quinoa bulgur yeast starch sesame linseed muesli cheese yoghurt "
    "cream margarine lard jam marmalade syrup treacle ginger cinnamon paprika pepper curry mustard vinegar ketchup "
    "tofu beef pork chicken turkey ham bacon tuna salmon shrimp spinach kale lettuce celery broccoli cabbage pumpkin "
    "squash garlic leek fennel parsley basil rhubarb coconut chocolate nougat marzipan fudge caramel tapioca spelt "
    "buckwheat rye popcorn coffee tea aspic batter beetroot bran brie brine buttermilk camembert cardamom caviar "
    "cheddar chilli chutney cider cod crab custard dough dill duck eel feta frosting gelatine ghee goose gouda "
    "granola gravy haddock halibut halloumi herring horseradish hummus icing juice lamb lavender lemonade liquorice "
    "lobster macaroni mackerel maize malt mayonnaise meat milk mince mint molasses mozzarella mutton nutmeg oil okra "
    "oregano parmesan pastry perch pesto pheasant plaice porridge prosciutto pudding puree quark rabbit radicchio "
    "ricotta risotto rocket rosemary saffron sage salad salami salsa sauce sauerkraut sausage seafood sherbet "
    "shortbread soda sourdough spaghetti squid stew stuffing sushi sweetcorn tahini tarragon thyme toffee trout "
    "turmeric turnip vanilla veal vermicelli wasabi watercress wheat whey yam zucchini asparagus cauliflower chicory "
    "cress endive seaweed marrow mascarpone meringue paneer peppermint praline sorbet sorghum suet tallow teff tempeh "
    "venison"
)

_COMMA = "[,|]"
_THEN = (
    "[|[Then|Later|Next|Afterwards|The next day|A little later|Soon|On Monday|In the evening|Meanwhile|On Friday"
    "|At noon|After lunch|In the afternoon|The following morning|A week later|Now|Before long|Shortly after]"
    f"{_COMMA} |[After that|And then|Some time later|At last|In the meantime|The day after|After a while|Eventually"
    "|As time goes by|That night|One morning|On Tuesday|In June|Not much later], ]"
)
_PERCENT = "[ percent|%| per cent]"
_ASK = (
    "[Find|Say|Work out|Tell me|Calculate|Compute|Determine|Find out|Figure out|Write down|Please say|Please work out"
    "|I want to know|I would like to know|We need to know|Let me know|{name} asks|{name} wants to know"
    "|A friend wonders|Somebody asks|The question is]"
)
_KM = "[kilometres|km]"
_SPEED = "[kilometres an hour|km an hour|kilometres per hour|km per hour|km/h]"
WORDINGS: Mapping[str, tuple[str, ...]] = {
    # things that are counted
    "stock has": (
        "{name} [has|keeps|holds|stores|looks after] {a} {goods}[ at home| in a shop| in a cupboard|].",
        "[There are|There lie|We find|You see] {a} {goods} [in the shop|in the attic|in the garage|on the desk] of "
        "{name}.",
        "{name} [begins|sets out|opens a shop] with {a} {goods}.",
        "[In all|Today|In the morning] {name} [has|holds] {a} {goods}.",
        "The [shop|shed|stock] of {name} [has|holds] {a} {goods}.",
        "{a} {goods} [belong to|are kept by|lie in the room of] {name}.",
        "{name} [possesses|has got|is in charge of|runs a stall with|has a supply of|has exactly] {a} {goods}[ in "
        "the cellar| in the barn| in a crate| at work|].",
        "[A grocer|A farmer|A collector|A teacher|A librarian|A carpenter|A clerk|An old lady|A pupil|A trader|A "
        "shopkeeper|A caretaker|A dealer|A student|A merchant] [called|named|by the name of] {name} [has|owns] {a} "
        "{goods}.",
        "{name} starts [the day|the week|the season|the month|out|off] with [a stock of |a supply of |a total of |"
        "exactly |]{a} {goods}.",
        "[At first|To begin with|At the beginning|Initially|At the start|At dawn|Originally|In the beginning|"
        f"Yesterday]{_COMMA} {{name}} [has|had] {{a}} {{goods}}.",
        f"[At first|To begin with|At the beginning|Initially|At the start|At opening time]{_COMMA} there are {{a}} "
        "{goods} [on the shelf|in the warehouse|in the barn|in the store|on the counter|in the crate|in the trunk|"
        "on the table].",
        "{name}'s [shop|collection|stall|stock|store|warehouse|cupboard|kiosk] [contains|counts|comprises|has|"
        "includes|boasts|offers] {a} {goods}.",
        "A [crate|trunk|sack|chest|barrel|suitcase|locker|cart] of {name}'s [holds|contains|is filled with] {a} "
        "{goods}.",
        "{name} [brings|carries|takes|drags] {a} {goods} to [the market|school|a fair|work|the club|a bazaar].",
        "{name} has [collected|gathered|made|picked up|bought|inherited|found|saved|been given|piled up|put "
        "together|assembled] {a} {goods}.",
        "[The inventory|A list|The ledger|A label|A sign|A diary] [says|shows|records|tells us|notes] that {name} "
        "[has|owns] {a} {goods}.",
        "{a} {goods} [stand|lie|wait|are stored|are piled up|are kept|are on display] in {name}'s [shop|garage|"
        "study|shed|pantry|office|bedroom].",
        "{name} is the [owner|proud owner|keeper|holder] of {a} {goods}.",
        "Number of {goods} [that {name} has|in {name}'s hands|in {name}'s care]: {a}.",
        "[Imagine|Suppose|Let us say|Say|Assume|Picture this:|We know] that {name} [has|owns] {a} {goods}.",
        "{name} [opens|unlocks|looks into] a [box|chest|drawer|cabinet|wardrobe|parcel] and [counts|finds|"
        "discovers|sees] {a} {goods} [inside|in it].",
        "{name}, who [runs a stall|likes to collect things|keeps a shop|works at a depot|tidies the house], has "
        "{a} {goods}.",
        "{name} [gets|receives|takes in|accepts|unloads] a [delivery|shipment|load|consignment] of {a} {goods}.",
        "[My|Our] [friend|neighbour|cousin|boss|teacher|colleague|classmate] {name} has {a} {goods}.",
        "[Stock|Supply|Store] of {name} [at the start|in the morning|to begin with]: {a} {goods}.",
        f"With {{a}} {{goods}}{_COMMA} {{name}} [opens the stall|begins|sets out|starts the day|goes to the fair].",
    ),
    "stock boxes": (
        "{name} [fills|packs] {a} [boxes|baskets|tins|drawers] with {b} {goods} [each|in each].",
        "{name} has {a} [bags|trays|bowls|cases][, and|, with] {b} {goods} in each.",
        "[There are|We see] {a} [piles|bundles|heaps|stacks] of {b} {goods} [each |]in the [shop|room|shed] of "
        "{name}.",
        "In each of {a} [chests|buckets|baskets] {name} [keeps|puts|stores] {b} {goods}.",
        "{name} [counts|looks at] {a} [rows|groups|sets], each [of|with] {b} {goods}.",
        "{name} has {goods} in {a} [boxes|tubs|tins]: {b} in [each|every] one.",
        "{name} has {a} [crates|cartons|sacks|jars|cases|hampers|barrels|packets|chests|trunks|bins], each "
        "[holding|containing|with|filled with] {b} {goods}.",
        "{name} [has|owns|stores] {a} [crates|cartons|sacks|jars|racks|baskets|parcels|trays] that [hold|contain] "
        "{b} {goods} [each|apiece].",
        "There are {a} [crates|cartons|jars|pouches|shelves|boxes] [at {name}'s|in {name}'s shop|in {name}'s "
        "cellar], [and each holds|each with|each of them with] {b} {goods}[ inside|].",
        "Each of {name}'s {a} [crates|cartons|cases|jars|drawers|containers|lockers] [holds|contains|has|is home "
        "to] {b} {goods}.",
        f"[Inside|In] [every one|each] of {{a}} [boxes|crates|cabinets|pots|tubs|suitcases]{_COMMA} there are "
        "{b} {goods}, [all of them {name}'s|which {name} owns|and all belong to {name}].",
        "{name} [arranges|lays out|sorts|sets up|lines up|stacks|puts up|spreads out] {goods} in {a} [rows|columns|"
        "piles|heaps|lines|groups|layers|circles] of {b}[ each|].",
        "{b} {goods} fit into one [box|crate|jar|tray|bag|tin|basket|carton], and {name} has filled {a} of them.",
        "[A|One|Each|Every] [crate|carton|jar|sack|tray|bag] holds {b} {goods}. {name} has {a} [of them|of these|"
        "full ones].",
        "{a} [boxes|cartons|packs|bundles|crates|bags], {b} {goods} in each: [that is what {name} has|that is "
        "{name}'s stock|with these {name} begins|this is {name}'s collection].",
        "{name} [buys|orders|unloads|carries in|is sent|receives|inherits|purchases] {a} [boxes|packs|crates|sets|"
        "bundles|packets|cartons|strings] of {b} {goods}[ each|].",
        "On [each|every one] of {a} [shelves|tables|racks|counters|trays] {name} [stores|displays|keeps|sets out|"
        "places] {b} {goods}.",
        "{name} [packs|puts|stuffs|lays|drops|places|sorts] {b} {goods} into each of {a} [boxes|sacks|crates|"
        "cartons|bags|jars|baskets].",
        "Each [box|crate|shelf|bag|basket|case] holds {b} {goods}; [there are {a} of them|{name} owns {a} of them|"
        "{name} has {a}].",
        "A [storeroom|cupboard|warehouse|shop window|cabinet] of {name}'s has {a} [rows|layers|shelves|stacks] "
        "with {b} {goods} [in each|each].",
        "{a} [workers|children|pupils|helpers] of {name}'s [bring|collect|make|gather] {b} {goods} each.",
        f"[At first|To begin with|At the start|Initially]{_COMMA} {{name}} has {{a}} [boxes|crates|packs|bags] of "
        "{b} {goods} each.",
        "{goods} come in [packs|boxes|sets|bundles|rolls] of {b}, and {name} [has|buys|gets|owns] {a} of these.",
        "[The shelf|The van|The cart|The cellar] of {name} [carries|holds|contains|is loaded with] {a} [boxes|"
        "crates|cartons|baskets], and [in each are|each has] {b} {goods}.",
        "{name} [fills|loads] {a} [buckets|jars|crates|barrows|bins], putting {b} {goods} into [each|every one].",
        "{a} times {b} {goods}: so many [has {name}|does {name} own|are in {name}'s shop].",
    ),
    "stock more": (
        f"{_THEN}{{name}} [buys|gets|finds|receives|collects|is given|makes|wins] {{a}} more {{goods}}.",
        "[Then|Later|Next|Afterwards|Soon] {a} more {goods} [arrive|come in|are found|are bought|are made].",
        "{name}'s [sister|uncle|neighbour|teacher] [brings|gives|sends] {a} more {goods}.",
        "The [stock|number of {goods}] [grows|rises|goes up] by {a}[ {goods}|] more.",
        "{name} adds {a} [more |new |]{goods}[ to them| to the rest|].",
        f"{_THEN}{{name}} [acquires|obtains|picks up|gathers|orders|purchases|produces|unpacks|brings in|comes "
        "across|digs out|inherits|borrows|imports|takes delivery of|is handed|is sent|gets hold of] [{a} more|"
        "another {a}|a further {a}|an additional {a}|{a} extra|{a} new|{a} additional] {goods}.",
        f"{_THEN}{{name}} [buys|gets|finds|receives|earns|collects|wins|makes] [another {{a}}|a further {{a}}|an "
        "additional {a}|{a} extra|{a} additional|{a} further] {goods}.",
        f"{_THEN}[a|one] [sister|brother|mother|father|aunt|uncle|cousin|grandmother|grandfather|neighbour|boss|"
        "classmate|colleague|customer|stranger] [gives|hands|sends|brings|lends|offers|passes|mails] {name} {a} "
        "[more|extra|further|additional] {goods}.",
        f"{_THEN}{{name}}'s [mother|father|grandmother|cousin|colleague|boss|daughter|son|partner|landlord] "
        "[brings|gives|donates|contributes|drops off|hands over|supplies|provides] [another {a}|{a} more|a further "
        "{a}|{a} extra] {goods}.",
        f"{_THEN}[a delivery|a shipment|a parcel|a lorry|a van|a cart|a load] with {{a}} [more|further|new|extra] "
        "{goods} [arrives|comes in|is unloaded|turns up].",
        f"Thanks to a [gift|lucky find|donation|delivery|present|special offer|good harvest]{_COMMA} [there are|"
        "{name} has] {a} {goods} more than before.",
        f"{_THEN}{{a}} [more |new |further |extra |]{{goods}} are [added|put|laid] to the [pile|rest|collection|"
        "stock|others].",
        f"{_THEN}the [stock|supply|collection|number of {{goods}}|total|store] [is increased|is enlarged|swells|"
        "grows|is topped up|expands|climbs|increases] by {a}.",
        f"{_THEN}{{a}} [additional|further|new|extra|more] {{goods}} [join the rest|turn up|are delivered|come "
        "along|are picked up|show up|are unpacked|are handed in|are purchased|are collected|are produced].",
        f"{_THEN}{{name}} has {{a}} {{goods}} more than before.",
        "{name} also [finds|discovers|spots|digs up|owns|gets|buys] {a} [more|extra|further] {goods} [in the "
        "cellar|on the way|behind the house|under the bed|at a sale].",
        f"{_THEN}another {{a}} {{goods}} [are found|arrive|are bought|are delivered|come in|are made|are brought].",
        f"As a [present|reward|prize|bonus|surprise|favour]{_COMMA} {{name}} [gets|is given|receives|is handed|is "
        "sent] {a} [more|additional|further|extra] {goods}.",
        f"{_THEN}{{name}} [visits|goes to|drives to|drops in at] [the market|a shop|a fair|the factory|a friend] "
        "and [comes back|returns|comes home] with {a} [more|further|extra] {goods}.",
        f"[By mistake|Luckily|Fortunately|To everyone's joy|Out of the blue]{_COMMA} {{a}} [more|extra|further] "
        "{goods} [are delivered|turn up|arrive].",
        f"{_THEN}{{name}} [enlarges|increases|extends|tops up|builds up] the [stock|collection|supply] by {{a}} "
        "{goods}.",
        "[It is not enough|That is too few|More are wanted], so {name} [buys|gets|orders|makes|fetches] {a} more[ "
        "{goods}|].",
        "[There come|To these come|Add to these] {a} [more |further |]{goods}[ from a friend| from the cellar| "
        "from abroad|].",
    ),
    "stock packs": (
        "[Then|Later|Next|Soon] {a} [packs|packets|parcels|boxes] [of|with] {b} {goods} each [arrive|come in|are "
        "bought].",
        f"{_THEN}{{name}} [buys|orders|gets|finds] {{a}} [packs|boxes|bags|tins] [with|of] {{b}} {{goods}} in each.",
        "{name} [adds|is given|unpacks] {a} [bundles|bags|trays], each [of|with] {b} {goods}.",
        "{a} [friends|neighbours|helpers|visitors] [bring|give|send] {name} {b} {goods} each.",
        "On each of {a} [days|evenings|mornings] {name} [makes|buys|finds|gets] {b} more {goods}.",
        f"{_THEN}{{name}} [buys|orders|gets|receives|picks up|brings home|purchases|unloads|acquires|wins|is sent] "
        "{a} [more |new |further |extra |][crates|cartons|sacks|boxes|bundles|packets|cases|baskets|jars|sets] [of|"
        "with] {b} {goods} [each|apiece].",
        f"{_THEN}{{a}} [friends|neighbours|children|aunts|visitors|colleagues|customers|pupils|members|guests|"
        "cousins] each [bring|give|send|hand|offer|lend] {name} {b} [more |extra |further |]{goods}.",
        f"For {{a}} [days|weeks|mornings|nights|months] [in a row|running|on end]{_COMMA} {{name}} [adds|buys|"
        "makes|collects|gets|finds] {b} more {goods} each time.",
        "Every day for {a} days {name} [makes|adds|buys|finds|gathers|collects] {b} [more|extra|further] {goods}.",
        f"Every week for {{a}} weeks{_COMMA} {{b}} [more|new|further|extra] {{goods}} [arrive|come in|are "
        "delivered|are added|are bought].",
        f"{_THEN}a [lorry|van|cart|truck|courier|postman|boat] [brings|delivers|drops off|unloads] {{a}} [boxes|"
        "crates|parcels|sacks|cartons|barrels], each [holding|containing|with|filled with] {b} {goods}.",
        f"{_THEN}{{a}} more [crates|boxes|cartons|bags|packs|trays|cases] [arrive|are delivered|are brought in|are "
        "bought|come in], with {b} {goods} [in each|each|apiece].",
        f"{_THEN}{{name}} [opens|unpacks|unwraps|empties] {{a}} [boxes|parcels|packs|crates|bags] of {{b}} "
        "{goods} each and adds them[ all|] to the rest.",
        "[Each|Every one] of {a} [friends|helpers|workers|children|suppliers|members|machines] [contributes|chips "
        "in with|adds|hands in|brings|supplies|makes] {b} [more|further|extra] {goods}.",
        f"{_THEN}{{name}} {{a}} times [fetches|adds|buys|brings|gets|makes|collects] {{b}} [more|extra|further|"
        "new] {goods}.",
        "{b} {goods} are in each of {a} [parcels|packets|crates|boxes] that [arrive|are delivered|come in] [then|"
        "next|later|soon].",
        "Added to [this|these|the rest] are {a} [boxes|bags|cartons|packs|crates] of {b} {goods} each.",
        "In {a} [trips|rounds|shifts|visits|goes] {name} [carries in|fetches|brings|makes|collects] {b} [more|"
        "further|extra] {goods} each time.",
        "{name}'s [stock|supply|collection] [grows|increases|rises|is enlarged] by {a} [boxes|packs|crates|bags] "
        "[of|with] {b} {goods} each.",
        "There come {a} [more |further |][boxes|packs|sacks|loads|deliveries] of {b} {goods} each.",
        "{a} [suppliers|farmers|shops|workshops|factories] [deliver|send|supply|ship] {b} [more |further |extra |"
        "]{goods} each.",
        "A [pack|box|bag|crate|carton|tray] holds {b} {goods}, and {name} [buys|gets|adds|orders|receives] {a} of "
        "these[ as well| too|].",
        f"With {{a}} [more|new|further|extra] [packs|boxes|bags|bundles] of {{b}}{_COMMA} {{name}} [adds to|tops "
        "up|enlarges|increases] the {goods}.",
    ),
    "stock give": (
        f"{_THEN}{{name}} [gives away|loses|sells|uses up|throws out|hands out|lends out] {{a}} of the {{goods}}.",
        "{a} of the {goods} [are lost|are sold|are stolen|go missing|fall into the river|are used up|are given "
        "away].",
        "[Then|Later|Soon|Afterwards] {a} {goods} are [taken away|lost|sold|used|given away].",
        "{name}'s [brother|aunt|neighbour|friend] [takes|gets|borrows|is given] {a} of the {goods}.",
        "{name} has to do without {a} of the {goods}[ from then on|, which are gone|].",
        "The number of {goods} [falls|drops|goes down] by {a}.",
        f"{_THEN}{{name}} [donates|misplaces|breaks|discards|parts with|gets rid of|returns|ships off|trades away|"
        "lets go of|sacrifices|removes|delivers|throws away|passes on|leaves behind] {a} [of the|of these|of "
        "those] {goods}.",
        f"{_THEN}{{name}} [gives|sells|hands|lends|sends|mails|passes|donates|delivers] {{a}} [of the |]{{goods}} "
        "to [a friend|the neighbours|a customer|a charity|a museum|a school|a cousin|the poor|a colleague|a "
        "stranger].",
        f"{_THEN}{{a}} [of the {{goods}}|of them|{{goods}}] [break|vanish|disappear|get lost|are missing|are "
        "ruined|are destroyed|are sent back|are returned|get damaged|are taken by thieves|burn|are carried off|"
        "have to go|drop into the mud and are lost].",
        f"{_THEN}[a thief|a fox|a customer|a visitor|a burglar|a collector|a stranger|a child] [steals|takes away|"
        "carries off|runs off with|makes off with|walks away with|gets|leaves with] {a} of the {goods}.",
        f"After a [fire|storm|flood|theft|sale|burglary|party|mishap]{_COMMA} {{a}} [of the |]{{goods}} are [gone|"
        "missing|lost|no longer there].",
        f"{_THEN}there are {{a}} {{goods}} fewer[ than before|].",
        f"{_THEN}the [stock|supply|collection|number of {{goods}}|total|store] [shrinks|falls|drops|is reduced|"
        "decreases|declines|sinks|dwindles|goes down] by {a}.",
        "{a} of the {goods} have to be [thrown away|written off|returned|destroyed|sold|handed back|given up|"
        "removed].",
        f"[Unfortunately|Sadly|By accident|Unluckily|Alas|As it happens]{_COMMA} {{name}} [loses|breaks|drops and "
        "loses|ruins|mislays|damages and throws out] {a} [of the |]{goods}.",
        f"{_THEN}{{name}} [subtracts|takes away|takes out|withdraws|deducts|pulls out] {{a}} {{goods}}[ from the "
        "pile| from the stock| from the rest|].",
        "{name} keeps all but {a} of the {goods}.",
        "{name} [needs|uses|consumes|wears out|requires] {a} [of the |]{goods} for [a project|a party|a repair|"
        "school|an exhibition|the garden], and they are gone[ for good|].",
        f"{_THEN}{{name}} [sends back|brings back|returns] {{a}} [of the |]{{goods}} to the [shop|maker|factory|"
        "owner].",
        "A [sale|storm|fire|mistake|bet|leak] costs {name} {a} of the {goods}.",
        "{name} owes a [friend|neighbour|cousin|colleague] {a} {goods} and [gives them back|returns them|hands "
        "them over].",
        "{name} [makes a present of|gives as a gift|gives as presents] {a} [of the |]{goods}.",
        f"{_THEN}{{name}} [has|is left with] {{a}} {{goods}} fewer than before.",
        "[Take away|Subtract|Deduct] {a} {goods} that [are lost|are sold|break|go to a friend|are used up].",
        "{a} [of the |]{goods} are [sold|handed out|given|sent|donated|lent|passed on] to [a neighbour|customers|a "
        "school|friends|guests|a cousin].",
    ),
    "stock percent": (
        f"[Then|Later|Soon|By noon] {{p}}{_PERCENT} of the {{goods}} are [sold|used|lost|taken|eaten by mice].",
        f"{_THEN}{{name}} [sells|loses|gives away|uses|hands out] {{p}}{_PERCENT} of the {{goods}}.",
        "{p}[ percent|%] of the {goods} [go missing|are stolen|are found to be useless|get wet and are thrown "
        "away].",
        f"The number of {{goods}} [falls|drops|shrinks|goes down] by {{p}}{_PERCENT}.",
        "{name} parts with {p}[ percent|%] of the {goods}[| and keeps the rest].",
        f"{_THEN}{{p}}{_PERCENT} of the {{goods}} [break|vanish|disappear|get lost|are missing|are ruined|are "
        "destroyed|are sent back|are given away|are thrown away|are handed out|are stolen|are donated|are shipped "
        "off|are removed|are used up].",
        f"{_THEN}{{name}} [donates|discards|parts with|gets rid of|throws out|uses up|sends off|breaks|returns|"
        f"lets go of|removes|trades away|hands over] {{p}}{_PERCENT} of [the|all the|these] {{goods}}.",
        f"{_THEN}{{name}} [gives|sells|hands|sends|donates|delivers|ships] {{p}}{_PERCENT} of the {{goods}} to [a "
        "friend|the neighbours|a charity|a museum|a customer|a school|a dealer].",
        f"Of [the|all the|these] {{goods}}{_COMMA} {{p}}{_PERCENT} [are sold|are lost|break|are given away|are "
        "stolen|are damaged and thrown out|go to a friend|are returned|disappear].",
        f"A [share|part|portion|fraction] of {{p}}{_PERCENT} of the {{goods}} is [sold|lost|given away|stolen|"
        "donated|used up|thrown out|returned].",
        f"{_THEN}the [stock|supply|number of {{goods}}|collection|store|total] [is reduced|is cut|decreases|"
        f"shrinks|dwindles|declines|falls|is lowered|sinks] by {{p}}{_PERCENT}.",
        f"After a [fire|storm|flood|theft|sale|break-in|party|mishap]{_COMMA} {{p}}{_PERCENT} of the {{goods}} are "
        "[gone|missing|lost|no longer there].",
        f"{_THEN}[a thief|a fox|a customer|a burglar|a dealer|a collector|a buyer] [steals|takes away|carries off|"
        f"makes off with|walks away with|leaves with] {{p}}{_PERCENT} of the {{goods}}.",
        f"There is a [loss|drop|decrease|decline|reduction|fall] of {{p}}{_PERCENT} in the [number of {{goods}}|"
        "stock of {goods}|stock].",
        "{p} out of every 100 {goods} [are sold|are lost|break|are given away|are faulty and removed|go missing|"
        "are returned].",
        f"[Unfortunately|Sadly|By accident|As it happens|In a sale]{_COMMA} {{name}} [loses|parts with|has to give "
        f"up|has to throw out] {{p}}{_PERCENT} of the {{goods}}.",
        f"[Exactly|A full|No less than|As many as] {{p}}{_PERCENT} of the {{goods}} [are sold|are lost|are given "
        "away|are stolen|are used|disappear].",
        f"{_THEN}{{name}} [takes away|takes out|subtracts|deducts|withdraws] {{p}}{_PERCENT} of the {{goods}}.",
        f"{{p}}{_PERCENT} of the {{goods}} have to be [thrown away|written off|returned|destroyed|sold|handed back|"
        "given up].",
        "[Customers|Friends|Visitors|Neighbours|Guests|Thieves] [take|get|carry off|leave with|walk off with] "
        f"{{p}}{_PERCENT} of the {{goods}}.",
        f"{{name}} [finds|notices|learns|sees] that {{p}}{_PERCENT} of the {{goods}} are [broken|spoilt|useless|"
        "damaged|faulty], and [throws them out|gets rid of them|removes them].",
        f"{{name}} [cuts|reduces|lowers|trims] the [stock|number of {{goods}}|collection] by {{p}}{_PERCENT}.",
        f"A [fire|storm|flood|sale|theft|leak] costs {{name}} {{p}}{_PERCENT} of the {{goods}}.",
        f"{_THEN}there are {{p}}{_PERCENT} fewer {{goods}}[ than before|].",
    ),
    "stock one in": (
        "One in every {k} of the {goods} is [bad|broken|spoilt|faulty|damaged] and is [thrown out|thrown away|"
        "removed].",
        "Of every {k} {goods}, one is [broken and thrown away|lost|stolen|given away|sold].",
        "[Then|Later|Soon] 1/{k} of the {goods} is [lost|sold|given away|used up].",
        f"{_THEN}{{name}} [gives away|sells|loses|throws out] 1/{{k}} of the {{goods}}.",
        "[Then|Later|Soon] 1 in {k} of the {goods} [is sold|is lost|goes to a friend|goes missing].",
        "{name} [sells|hands out|takes out] one of every {k} {goods}.",
        "One out of [every|each] {k} {goods} [is sold|is lost|breaks|is given away|is stolen|disappears|is faulty "
        "and thrown out|has to go|is returned|is used up].",
        "[For|Out of] every {k} {goods}, {name} [sells|loses|gives away|breaks|donates|throws out|uses up|hands "
        "out|returns] one.",
        "The {goods} are [divided|split|sorted|put] into {k} equal [parts|heaps|shares|piles|lots], and one of "
        "[them|these] is [sold|given away|lost|thrown out|stolen|donated|taken away].",
        f"{_THEN}{{name}} makes {{k}} equal [heaps|piles|lots|groups|stacks] of the {{goods}} and [sells|gives "
        "away|loses|donates|hands over|throws out] one of them.",
        f"{_THEN}1/{{k}} of [the|all the|these] {{goods}} [break|vanish|are stolen|are sold|are given away|"
        "disappear|are lost|are damaged and thrown out|are used up|are returned].",
        f"{_THEN}[a thief|a customer|a fox|a visitor|a burglar|a dealer] [takes away|steals|carries off|makes off "
        "with|leaves with] [1/{k}|1 in {k}|one in {k}] of the {goods}.",
        "A [fraction|share|part|portion] of 1/{k} of the {goods} is [sold|lost|given away|stolen|used up|thrown "
        "away|donated].",
        f"{_THEN}{{name}} [parts with|donates|discards|gets rid of|uses up|breaks|returns|hands over|sends off|"
        "removes] [1/{k}|one in every {k}|one out of {k}] of the {goods}.",
        f"{_THEN}{{name}} [gives|sells|sends|hands|donates] 1/{{k}} of the {{goods}} to [a friend|a neighbour|a "
        "school|a museum|a charity|a customer].",
        f"{_THEN}the [stock|number of {{goods}}|supply|collection] [is reduced|shrinks|falls|drops|decreases|"
        "declines] by 1/{k}[ of its size| of what it was|].",
        f"After a [fire|storm|flood|theft|sale|mishap]{_COMMA} 1/{{k}} of the {{goods}} [is gone|is missing|is "
        "lost].",
        f"[Unfortunately|Sadly|By accident|As it turns out]{_COMMA} one in {{k}} of the {{goods}} [is broken and "
        "has to go|gets lost|is useless and is thrown out|is damaged and removed|goes missing].",
        "One in {k} {goods} [goes|is sent|is given|is sold] to [a friend|a neighbour|a school|a customer|charity].",
        "Out of [each|every] {k} {goods}, 1 is [sold|lost|stolen|given away|thrown away|broken and removed|"
        "donated].",
        "Of the {goods}, one in [every |]{k} [is sold|is lost|breaks|is given away|is stolen|disappears|is taken "
        "away].",
        "{name} [takes|picks|removes|pulls] one out of every {k} {goods} and [sells it|gives it away|throws it out|"
        "sends it back].",
        "[A customer|A neighbour|A friend|A museum|The school] [gets|receives|is given] 1/{k} of [the|all the] "
        "{goods}.",
        "{name} [subtracts|takes away|deducts] 1/{k} of the {goods}.",
    ),
    "stock times": (
        "[A month|A week|Some time|A season] later {name} has {k} times as many {goods}.",
        "[Then|Soon|In a good year] the number of {goods} [is multiplied by|grows by a factor of] {k}.",
        "{name} [works hard|has good luck|saves well] and [then has|comes to have] {k} times as many {goods}.",
        "[Then|Soon|Later] {k} times as many {goods} are [there|in stock|on hand].",
        "{k} times as many {goods} are [wanted|needed], and {name} [gets|makes|orders] all that are missing.",
        f"By [spring|the autumn|the end of the year|next summer|Christmas]{_COMMA} {{name}} [owns|has|keeps|"
        "counts] {k} times as many {goods}.",
        f"{_THEN}the [number of {{goods}}|stock of {{goods}}|stock|supply|collection] [grows|increases|goes up|"
        "swells|rises] {k}-fold.",
        f"{_THEN}the [number of {{goods}}|stock|supply|collection] [increases|rises|swells|expands|goes up|is "
        "enlarged] by a factor of {k}.",
        f"{_THEN}the [number of {{goods}}|stock|supply|collection] [becomes|gets|grows to be|is] {{k}} times as "
        "[large|great|big][ as before| as it was|].",
        "{name} [trades|swaps|exchanges] each of the {goods} for {k} [new|smaller|other] {goods}.",
        f"For each of the {{goods}}{_COMMA} {{name}} [gets|receives|is given|takes] {{k}} [new|smaller|other] ones "
        "in [exchange|return|its place].",
        "[A machine|A lucky year|A magic spell|Hard work|Good luck|A big order] multiplies the number of {goods} "
        "by {k}.",
        "{name} multiplies the [number of {goods}|stock|supply] by {k}.",
        "In the end {name} [has|owns|holds] {k} times the [number|amount] of {goods}[ that there was before| from "
        "before|].",
        "[Some weeks|Some days|A few months|Half a year] later there are {k} times as many {goods}[ as before|].",
        "The stock of {goods} [reaches|rises to|grows to|climbs to|swells to] {k} times its size.",
        "[Things go well|Business is good|Luck helps|It is a good season], and {name} [soon has|ends up with|now "
        "has|comes to own] {k} times as many {goods}.",
        "Each of the {goods} is [replaced by|swapped for|exchanged for|turned into] {k} [new|smaller|other] ones.",
        f"Where there was one of the {{goods}}{_COMMA} there are now {{k}}.",
        "The number of {goods} is then {k} times what it was[ before|].",
        "The [stock|supply|collection] is [brought|built up|raised|increased] to {k} times its [old|former|first|"
        "earlier] size.",
    ),
    "stock count": (
        "How many {goods} [does {name} have|are there|remain|are left|are in stock] [now|then|after that]?",
        "[What|How large] is the number of {goods} [now|then|after all this]?",
        "[Find|Say|Work out|Tell me] how many {goods} [there are|{name} has] [now|in the end|after this].",
        "[Now|In the end|Finally], how many {goods} [are there|does {name} have|are left]?",
        "Count the {goods} [that are there now|that {name} has now|of {name} now].",
        "How many {goods} [does {name} have|does {name} own|are there|remain|are left|are in stock|are in the shop|"
        "does {name} keep] [altogether|in total|in all|in the end|at the end|by the end|when all is done|at this "
        "point|after everything]?",
        "What is the [final|new|total|resulting|current|present] [number|count] of {goods}?",
        "[Calculate|Determine|Compute|Find out|Give|State|Write down|Report|Name|Work out|Please find] the [final |"
        "new |total |current |]number of {goods}[ that {name} has| now| in the end|].",
        f"{_ASK} how many {{goods}} [there are|{{name}} has|are left|remain|{{name}} owns|are in stock] [now|in "
        "the end|at last|after all this|altogether|at the end of the day].",
        "[Can|Could] you [tell me|work out|say|calculate] how many {goods} [there are|{name} has|remain|are left] "
        "[now|in the end|after this]?",
        "With how many {goods} does {name} [end up|finish|go home|close the day|end]?",
        "How many {goods} does that [make|leave|leave {name} with]?",
        "How [large|big] is [the|{name}'s] [stock|supply|collection] of {goods} [now|in the end|at the end|after "
        "that]?",
        "The [number of {goods}|final number of {goods}|stock of {goods}] [in the end|at the end|now] is [wanted|"
        "asked for|to be found].",
        "To how many {goods} does this [come|add up|amount]?",
        "How many {goods} [can|could] {name} [count|show you|sell] [now|in the end]?",
        "[After all that|At the end of the day|When everything is over|All in all|By then|At this moment], how "
        "many {goods} [are there|does {name} have|are left|remain|does {name} own]?",
        "How many {goods} [is {name} left with|has {name} got|are now in {name}'s hands|are at {name}'s now]?",
        "What is left of the {goods} [now|in the end|at last]: how many[ are there|]?",
        "If {name} counts the {goods} now, [what is the result|how many are there|what number comes out]?",
        "Count up: how many {goods} [has {name}|are there] [now|in the end]?",
        "{name} [wants to know|asks|wonders|would like to know] how many {goods} [there are|are left] [now|in the "
        "end|altogether]. [What is the answer|What do you say|Can you tell]?",
        "[The boss|A visitor|A child|Mother|The teacher|A customer] [wants to know|asks|wonders] how many {goods} "
        "there are [now|in the end|altogether]. [What is the answer|What is the number|Can you tell]?",
    ),
    "stock share": (
        "The {goods} are [shared|divided|split] equally among {k} [children|friends|people|teams]. How many "
        "{goods} does each [one |]get?",
        "{k} [children|friends|neighbours|cousins] share the {goods} equally. How many {goods} [does each get|are "
        "there for each]?",
        "{name} puts the same number of {goods} into each of {k} [boxes|bags|baskets]. How many {goods} are in "
        "[one|each]?",
        "How many {goods} does each of {k} [friends|classes|children] get if all get the same number?",
        "All the {goods} go to {k} [schools|families|shops], the same number to each. How many [{goods} |]is that "
        "for one?",
        "The {goods} are [distributed|dealt out|parcelled out|handed out|shared out|spread] [equally|evenly|"
        "fairly] [among|to] {k} [pupils|players|guests|workers|families|villages|clubs|shops|classes|members|"
        "neighbours]. How many {goods} does [each|each one|one of them] [get|receive|end up with|take home|obtain]?",
        "If {k} [children|friends|sisters|players|pupils|classes|farmers|teams|guests] [share|divide|split] the "
        "{goods} [equally|evenly|fairly|in equal parts], how many [{goods} |]does [each|each one|one] [get|receive|"
        "take|end up with]?",
        "[Divided|Split|Shared out|Distributed] [equally|evenly|fairly] among {k} [people|schools|brothers|"
        "neighbours|winners|workers|shops], how many {goods} [does each get|are there for each|is that for each]?",
        "{name} [deals out|hands out|gives|distributes] [all the|the] {goods} to {k} [players|children|customers|"
        "neighbours|students|colleagues], and all [get|receive] the same number. How many {goods} does each [get|"
        "receive]?",
        "{name} makes {k} equal [piles|heaps|bundles|groups|rows|lots|packs] of the {goods}. How many {goods} are "
        "in [each|one|one of them|every one]?",
        "How many {goods} [go|are] in each of {k} [boxes|bags|crates|jars|baskets|cartons|sacks|tins] if [all hold "
        "the same number|they are filled equally|each gets the same number]?",
        f"{_ASK} how many {{goods}} each of {{k}} [children|friends|teams|guests|families|workers|shops] gets if "
        "they share [them |]equally.",
        "{k} [children|friends|guests|neighbours|families|players] are to [get|receive|have] equal shares of the "
        "{goods}. How many {goods} is [one|each] share?",
        "{name} [wants|plans|decides] to [pack|put|sort|place|arrange] the {goods} [equally|evenly] into {k} "
        "[boxes|crates|bags|rows|trays|drawers]. How many {goods} [go into|are in|belong in] each?",
        "What is [each one's|one person's|everyone's] share in {goods} if {k} [people|friends|children|colleagues] "
        "[share|split|divide] them [equally|evenly|fairly]?",
        "For {k} [friends|children|pupils|people|classes] there is to be the same number of {goods} each. [How "
        "many is that|How many are there for each|What does each get]?",
        "The {goods} are [spread|laid out|set out|arranged|sorted|stored] evenly on {k} [shelves|tables|trays|"
        "plates|racks]. How many {goods} are on [each|one|every one]?",
        "{name} [divides|shares|splits] the {goods} [fairly|evenly|equally|in equal parts] [among|between] {k} "
        "[friends|cousins|grandchildren|nephews|helpers|shops|classes]. How many {goods} does [each|each of them|"
        "one] [get|receive|take home]?",
        "Each of {k} [people|children|clubs|schools|customers|tables] gets the same number of {goods}[, and none "
        "are left over|]. How many[ {goods}|] does [each|one] get?",
        "[Find|Calculate|Work out|Determine|Compute] the share of each if the {goods} are [divided|split|shared] "
        "equally among {k} [people|friends|teams|children].",
        "A [lorry|van|courier|clerk|machine] [takes|brings|delivers|sends] the same number of the {goods} to each "
        "of {k} [shops|schools|houses|towns]. How many {goods} [does each get|arrive at each|is that for each]?",
        "How many {goods} [would|does|will] each of {k} [children|people|winners|heirs|partners] [get|receive] if "
        "the {goods} are shared [out |]equally?",
    ),
    "stock price": (
        "All the {goods} are sold for {p} euros each. How many euros [does {name} get|is that|come in]?",
        "{name} sells [them all|all the {goods}] at {p} euros [a piece|each|per piece]. How many euros [is that|"
        "come in]?",
        "The price of one is {p} euros. How many euros [do all the {goods} cost|are all the {goods} worth]?",
        "[Each|Every one|One] costs {p} euros. [What|How much] do all the {goods} cost[ together|], in euros?",
        "How many euros [are the {goods} worth|do the {goods} cost] if [each|one] is worth {p} euros?",
        "A buyer takes all the {goods} and pays {p} euros for each. How much [money |]is that in euros?",
        "{name} [sells|parts with|hands over] [all the|the] {goods} for {p} euros [each|apiece|a piece]. How many "
        "euros does {name} [earn|get|take in|make|receive|collect][ from the sale| in all| altogether|]?",
        "[One|Each one|Every one|Each] is [sold|bought|traded|paid for] at {p} euros. How many euros [is that|is "
        "that in all|does that make|come in|change hands]?",
        "The [value|price|cost] of [each|one|every one] of the {goods} is {p} euros. [What|How much] are they [all "
        "|]worth[ together| in total|], in euros?",
        "If [each|one|every one] of the {goods} [costs|sells for|is worth|brings in|fetches] {p} euros, [how many "
        "euros|how much money in euros] is that [in all|altogether|in total]?",
        "At {p} euros [each|apiece|a piece|per piece], how many euros [do|would] [all the|the] {goods} [cost|bring "
        "in|come to|fetch]?",
        "A [shop|customer|dealer|museum|collector|neighbour] [buys|takes|purchases|orders] all [of them|the "
        "{goods}] at {p} euros [each|apiece|a piece]. How many euros [does that cost|is the bill|is paid|must be "
        "paid|does {name} get]?",
        "[Calculate|Find|Work out|Determine|Compute|Give] the [total |whole |]price [of|for] all the {goods} in "
        "euros if [each|one] costs {p} euros.",
        f"{_ASK} how many euros all the {{goods}} [cost|are worth|come to] at {{p}} euros [each|apiece|a piece].",
        "The {goods} [go|are sold|are auctioned off|change hands] for {p} euros [each|apiece|a piece]. What is the "
        "[total|income|sum|revenue|profit], in euros?",
        "{name} [takes|asks|charges|wants|demands] {p} euros for each of the {goods} and sells them all. How many "
        "euros [does {name} earn|does {name} take in|is that|are in the till]?",
        "For [each|every one] of the {goods} [one pays|a customer pays|you pay|the owner pays|people pay] {p} "
        "euros. [What is|How much is] the [total|bill|sum] for all [of them|the {goods}], in euros?",
        "[A buyer|Somebody|A friend|A merchant] [offers|pays|gives] {name} {p} euros for each of the {goods} and "
        "[gets|takes] them all. How many euros does {name} [get|receive|earn]?",
        "[What|How much] does {name} [earn|get|receive|make] in euros when all the {goods} are sold at {p} euros "
        "[each|apiece|a piece]?",
        "How many euros [would|does] it take to [buy|pay for] all the {goods} if one [costs|is] {p} euros?",
        "The [price tag|label|catalogue|seller|list] says {p} euros [each|apiece|a piece]. How many euros [are all "
        "the {goods} worth|do all the {goods} cost|is that for all of them]?",
        "Each of the {goods} [earns|brings|makes] {name} {p} euros. How many euros is that [in all|altogether|in "
        "total]?",
    ),
    "stock weight": (
        "The weight of [one|each] is {g} [grams|g]. How many kilograms [is that for all|do all the {goods} weigh]?",
        "[Each|One|Every one] weighs {g} grams. How many kilograms do [the {goods}|all {goods}] weigh together?",
        "How many kilograms do the {goods} weigh if [one|each] weighs {g} [grams|g]?",
        "{g} grams is the weight of [one|each]. [Give|Find|Work out] the weight of all the {goods} in kilograms.",
        "[Each|One] weighs {g} [grams|g]. How heavy are the {goods} together, in kilograms?",
        "All the {goods} go into one sack, and each weighs {g} grams. How many kilograms does the sack hold?",
        "[Each|One|Every one] of the {goods} [weighs|has a weight of|has a mass of|brings to the scales] {g} "
        "[grams|g]. How many kilograms [is that|do they weigh|is the load|is the total weight|are they] "
        "[altogether|in all|in total]?",
        "How heavy is the [whole load|whole lot|total load], in kilograms, if each of the {goods} weighs {g} "
        "[grams|g]?",
        "If [one|each|every one] of the {goods} weighs {g} [grams|g], [how many kilograms do all of them weigh|"
        "what do they all weigh in kilograms|what is the total weight in kilograms]?",
        "[Calculate|Find|Work out|Determine|Compute] the [total |whole |]weight [of|for] all the {goods} in "
        "[kilograms|kg] if [each|one] weighs {g} [grams|g].",
        f"{_ASK} how many [kilograms|kg] all the {{goods}} weigh [together|in all|altogether] at {{g}} [grams|g] "
        "[each|apiece].",
        "At {g} [grams|g] [each|apiece|a piece], how many kilograms [do the {goods} weigh|is that|are all the "
        "{goods}|does {name} have to carry]?",
        "{name} [puts|loads|lifts|packs] all the {goods} [on the scales|onto a cart|into a bag|into a van]; [each|"
        "one] weighs {g} [grams|g]. How many kilograms [is that|do they weigh|does {name} load]?",
        "The {goods} are [sent by post|loaded onto a lorry|carried home|put on a balance], and [each|every one] "
        "weighs {g} [grams|g]. [What|How much] do they weigh together, in kilograms?",
        "A [label|list|catalogue|sign] says that [each|one] weighs {g} [grams|g]. How many kilograms [are all the "
        "{goods}|do all the {goods} weigh]?",
        "All the {goods} weigh {g} [grams|g] each. [What is the total weight|How heavy are they all|What do they "
        "weigh together], in kilograms?",
        "[What|How much], in kilograms, do all the {goods} weigh if [one|each] [is|weighs] {g} [grams|g]?",
        "[One|A single one] of the {goods} [weighs|is] {g} [grams|g]. How many kilograms [is that for the whole "
        "lot|do all of them weigh|must {name} carry to take them all]?",
        "A [lorry|cart|porter|boat|donkey] carries all the {goods}, {g} [grams|g] each. How many kilograms is "
        "[that|the load]?",
        "The [mass|weight] of [one|each|every one] of the {goods} is {g} [grams|g]. How many kilograms [is the "
        "whole load|do they weigh together|is that in all]?",
    ),
    "stock time": (
        "It takes {m} minutes to [wrap|clean|check|paint|pack] one. How many hours does it take to do all the "
        "{goods}?",
        "{name} [needs|takes|works] {m} minutes for [each|one]. How many hours is that for all the {goods}?",
        "How many hours do the {goods} take if [one|each] takes {m} minutes?",
        "[Cleaning|Checking|Wrapping|Repairing] one [lasts|is done in] {m} minutes. How many hours [do all the "
        "{goods} take|go by until all the {goods} are done]?",
        "A machine works on each for {m} minutes, one after the other. After how many hours are all the {goods} "
        "done?",
        "[Washing|Polishing|Packing|Sorting|Testing|Inspecting|Labelling|Painting|Making|Counting] one [takes|"
        "requires|needs] {m} minutes. How many hours [does it take to do|are needed for|does {name} need for] all "
        "the {goods}?",
        "{name} [spends|needs|takes] {m} minutes on each of the {goods}. How many hours [is that|does the work "
        "take|does {name} work|is that in all|are needed]?",
        "{name} [cleans|washes|polishes|repairs|wraps|checks|paints|examines|labels|mends|tests] all the {goods}, "
        "and [each|one] takes {m} minutes. How many hours [is that|does that take|go by]?",
        "If [each|one|every one] of the {goods} [takes|needs|requires] {m} minutes, how many hours [do they all "
        "take|is that in all|does the work last|are needed]?",
        "At {m} minutes [each|apiece|per piece], how many hours do [all the|the] {goods} take?",
        "[Calculate|Find|Work out|Determine|Compute|Give] the time in hours [for|that is needed for] all the "
        "{goods} if [each|one] takes {m} minutes.",
        f"{_ASK} how many hours all the {{goods}} take if [each|one] takes {{m}} minutes.",
        "A [worker|robot|helper|tailor|machine|clerk|craftsman] needs {m} minutes to [check|clean|finish|pack|make|"
        "paint|repair] one. How many hours [does it take|are needed|go by] for all the {goods}?",
        "To [check|clean|wrap|paint|polish|repair|test] one takes {m} minutes. How long do all the {goods} take, "
        "in hours?",
        "One after the other, each of the {goods} is [washed|painted|checked|weighed|mended|wrapped] for {m} "
        "minutes. How many hours [is that|does it all take|does the work last]?",
        "The work on [each|one|every one] of the {goods} [lasts|takes|goes on for] {m} minutes. How many hours [is "
        "that for all|does the whole work take|does {name} work in all]?",
        "{m} minutes are [needed|required|spent|set aside] for each of the {goods}. How many hours [is that|is "
        "that altogether|are needed in total]?",
        "After how many hours is {name} [done|finished|ready] with all the {goods} if [each|one] takes {m} minutes?",
        "How many hours must {name} [work|plan|reckon with|set aside] for all the {goods} if [each|one|every one] "
        "[takes|needs] {m} minutes?",
    ),
    # money
    "money has": (
        "{name} [has|has saved|keeps|inherits|has put away] {a} euros[ in a box| in the bank|].",
        "[There are|There lie] {a} euros in the [purse|account|drawer|wallet] of {name}.",
        "The [account|purse|savings book] of {name} [shows|holds] {a} euros.",
        "{name} [begins|sets out|goes to town] with {a} euros.",
        "{a} euros [belong to|are in the pocket of|are saved by] {name}.",
        "{name} [possesses|has got|has earned|has scraped together|has won|has put by|carries] {a} euros[ in cash| "
        "in notes| in a piggy bank| in a savings account|].",
        "{name} [inherits|is left|receives|is lent|has inherited] {a} euros from [an uncle|a grandmother|an aunt|a "
        "rich cousin].",
        "{name} [wins|is paid out|finds|receives|raises] {a} euros.",
        "[At first|To begin with|At the beginning|Initially|At the start|On the first of the month|On "
        f"payday]{_COMMA} {{name}} has {{a}} euros.",
        "{name} starts [the day|the week|the month|the year|out] with [a sum of |savings of |a budget of |exactly |"
        "]{a} euros.",
        "{name}'s [account|wallet|purse|piggy bank|cash box|till|savings|budget] [holds|contains|amounts to|comes "
        "to|shows] {a} euros.",
        "[A student|A baker|A clerk|A pensioner|A nurse|A plumber|A driver|A gardener|A dentist|A shop owner|A "
        "young man] [called|named|by the name of] {name} has {a} euros.",
        "The [balance|credit|sum] [on|in] {name}'s [account|card|savings book] is {a} euros.",
        "{a} euros [lie|are kept|wait|are hidden] in {name}'s [drawer|safe|purse|desk|wallet|piggy bank].",
        "[Suppose|Imagine|Say|Assume|Let us say|We know] that {name} has {a} euros.",
        "{name} [opens|looks into] the [purse|wallet|safe|cash box] and [finds|counts|sees] {a} euros.",
        "{name} [withdraws|takes|draws|fetches] {a} euros from the [bank|cash machine|safe|account].",
        "[My|Our] [friend|neighbour|cousin|colleague|brother-in-law] {name} has {a} euros.",
        "{name} [goes shopping|goes out|leaves home|goes on holiday|comes to the fair] with {a} euros[ in hand| in "
        "the pocket|].",
        "{name}, who [works in an office|likes to save|keeps a shop|runs a farm|lives alone], has {a} euros.",
        "[There is|There was] a [sum|budget|fund|nest egg] of {a} euros [for {name}|in {name}'s name|at {name}'s "
        "disposal].",
        "[Savings|Money|Cash|Budget|Capital] of {name}[ at the start| to begin with|]: {a} euros.",
        "A [bank statement|letter|note|screen|receipt] [says|shows|tells us] that {name} has {a} euros.",
        f"For a [birthday|wedding|jubilee]{_COMMA} {{name}} is given {{a}} euros.",
        f"With {{a}} euros [in the purse|in the bank|of savings]{_COMMA} {{name}} [begins|sets out|starts a "
        "business|goes to market].",
    ),
    "money wage": (
        "At {p} euros [an|per] hour {name} works {a} hours [a|each] day, on {b} days.",
        "{name} works {a} hours a day on {b} days and [is paid|earns|gets] {p} euros [an|per] hour.",
        "{name} earns {p} euros [an|per] hour and works {a} hours [a|each] day for {b} days.",
        "[A job|Work] pays {p} euros [an|per] hour. {name} does it {a} hours a day, on {b} days.",
        "On each of {b} days {name} [works|helps|serves|drives a taxi] for {a} hours at {p} euros an hour.",
        "{b} times {name} [works|paints|gardens] for {a} hours, and gets {p} euros for every hour.",
        "{name} [works|serves|cleans|cooks|teaches|drives|types|paints] [for |]{a} hours [a|each|every|per] day on "
        "{b} days and [is paid|earns|gets|receives|makes|is given] {p} euros [an|per|for each|for every] hour.",
        "{name}'s [wage|pay|rate|hourly wage] is {p} euros [an|per] hour. {name} works {a} hours a day [on|for] "
        "{b} days.",
        f"At [a wage|a rate|an hourly pay] of {{p}} euros [an|per] hour{_COMMA} {{name}} works {{a}} hours [a|"
        "each] day for {b} days.",
        "For {b} days {name} [works|helps out|stands behind the counter|digs|babysits|delivers parcels] {a} hours "
        "a day, [earning|and earns|at|for] {p} euros an hour.",
        "A [shift|working day] of {name} lasts {a} hours, and every hour brings {p} euros. {name} works {b} [such "
        "shifts|such days|times].",
        "{name} [has|takes|finds|gets] a job that pays {p} euros [an|per] hour, and works {a} hours a day for {b} "
        "days.",
        "Every hour {name} [earns|gets|makes|receives] {p} euros. {name} works {b} days, {a} hours [a|each] day.",
        "{name} does {b} shifts of {a} hours each at {p} euros [an|per] hour.",
        "{name} is [hired|employed|engaged|taken on] for {b} days of {a} hours at {p} euros [an|per] hour.",
        "The [boss|employer|shop|factory|hotel|farmer|company] pays {name} {p} euros [an|per] hour for {b} days of "
        "{a} hours[ each|].",
        "{p} euros [an|per] hour is [what {name} earns|the pay of {name}|{name}'s wage], and {name} works {a} "
        "hours on each of {b} days.",
        "{b} [days|evenings|mornings|Saturdays] of {a} hours each: that is how long {name} works, for {p} euros an "
        "hour.",
        "{name} [gives|teaches|holds] {a} [one-hour lessons|lessons of an hour] a day on {b} days, for {p} euros "
        "[each|a lesson|per lesson].",
        "{name} [mows lawns|waits at table|works as a guide|minds children|drives a lorry|stacks shelves|picks "
        "fruit] for {a} hours [a|each] day on {b} days, and [is paid|earns|gets] {p} euros an hour.",
        "{name} [lets|hires out|rents out] a boat for {p} euros an hour. On each of {b} days it is out for {a} "
        "hours.",
        "{name} [sings|acts|plays the piano|paints|guards a gate|keeps the till|washes dishes|repairs bikes] for "
        "{p} euros [an|per] hour, {a} hours a day, on {b} days.",
        "A [carpenter|nurse|waiter|tutor|cleaner|mechanic|gardener|guide] [called|named] {name} [earns|gets|"
        "charges|takes] {p} euros [an|per] hour and works {a} hours a day on {b} days.",
    ),
    "money earn": (
        f"{_THEN}{{name}} [earns|gets|finds|wins|receives|is paid|is given] {{p}} euros more.",
        "[Then|Later|Soon|Next] {name} [is given|is lent|inherits|is paid] {p} euros.",
        "{name}'s [uncle|mother|boss|friend] [gives|pays|sends] {name} {p} euros.",
        "{p} euros [are added|come from a sale|arrive by post|are paid back to {name}].",
        "{name} sells an old [bicycle|book|chair|radio] for {p} euros.",
        f"{_THEN}{{name}} [gains|makes|collects|pockets|picks up|cashes in|is handed|is sent|wins|inherits|takes "
        "in] [another {p} euros|{p} euros more|a further {p} euros|an additional {p} euros].",
        f"{_THEN}{{name}} [gets|finds|receives|earns|is given] [another {{p}} euros|a further {{p}} euros|an extra "
        "{p} euros|an additional {p} euros|a bonus of {p} euros|a sum of {p} euros].",
        f"{_THEN}[a|one] [friend|sister|brother|aunt|grandfather|grandmother|neighbour|boss|customer|cousin|"
        "colleague|stranger] [gives|hands|sends|pays|lends|slips] {name} {p} euros.",
        f"{_THEN}{{name}}'s [father|grandmother|aunt|employer|brother|partner|godmother] [gives|pays|sends|hands|"
        "lends|transfers] {name} [another |]{p} euros.",
        "{name} sells a [used bike|camera|sofa|guitar|painting|table|tent|ring|carpet|watch] [and gets|for|and is "
        "paid] {p} euros.",
        f"{_THEN}{{name}} [is paid|is given back|gets back|is refunded] {{p}} euros [for a returned jacket|that a "
        "friend owed|by the tax office|by a shop|by an old friend].",
        f"{_THEN}{{p}} euros [come in|are deposited|are paid in|are transferred to {{name}}|are credited|are won "
        "in a lottery|turn up in a coat|are earned].",
        f"{_THEN}the [savings|money|amount|balance|sum|fund|credit] [grows|rises|goes up|increases|is increased|"
        "climbs] by {p} euros.",
        f"{_THEN}{{name}} [wins|gets|is awarded] a prize of {{p}} euros.",
        f"As a [present|reward|bonus|prize|tip|refund|thank-you]{_COMMA} {{name}} [gets|receives|is given] {{p}} "
        "euros.",
        f"{_THEN}{{name}} [deposits|pays in|adds] another {{p}} euros.",
        "For [a day's work|babysitting|washing cars|an old radio|a painting|walking a dog|mowing a lawn|a good "
        f"report]{_COMMA} {{name}} [gets|earns|is paid|receives] {{p}} euros.",
        "A [sale|lucky ticket|small job|bet|parcel of old books|flea market] brings [in |{name} ]{p} euros.",
        f"[Luckily|Fortunately|By chance]{_COMMA} {{name}} [finds|wins|is given] {{p}} euros.",
        f"{_THEN}{{name}} has {{p}} euros more[ than before|].",
        "[There come|To this come|Add] {p} euros [from a friend|from a sale|in tips|of pay|as a gift].",
        "{name} [returns|takes back] a [jacket|lamp|radio|dress] and [gets|is given|receives] {p} euros [back|for "
        "it].",
        "[A letter|An envelope|A card] from an [aunt|uncle|old friend] [holds|contains|brings {name}] {p} euros.",
        "{name} is [promised and given|paid|owed and paid back] {p} euros.",
    ),
    "money weeks": (
        "For {a} [weeks|months] {name} [saves|gets|earns] {p} euros [each time|every time].",
        "In each of the next {a} weeks {name} [gets|earns|saves|receives] {p} euros more.",
        "[Each|Every] week for {a} weeks {name} [adds|saves|earns|gets] {p} euros.",
        "{name} then [saves|earns|adds] {p} euros a week, for {a} weeks.",
        "{a} times {name} [is paid|gets|earns|puts in] {p} euros.",
        "There come {a} [payments|gifts|deposits] of {p} euros each.",
        f"For {{a}} [days|weeks|months] [running|in a row|on end]{_COMMA} {{name}} [saves|earns|gets|puts aside|"
        "puts away|receives|makes|collects|is paid] {p} euros [each time|every time|a time].",
        f"[Each|Every] week for {{a}} weeks{_COMMA} {{name}} [puts aside|puts away|deposits|sets aside|receives|"
        "pays in|is given|makes|pockets] {p} euros[ more|].",
        f"Every month for {{a}} months{_COMMA} {{name}} [saves|earns|gets|receives|puts by|deposits|is sent] {{p}} "
        "euros[ more|].",
        f"Every day for {{a}} days{_COMMA} {{name}} [saves|earns|gets|receives|makes|is given|takes in] {{p}} "
        "euros[ more|].",
        f"In each of [the next |the following |]{{a}} months{_COMMA} {{name}} [saves|receives|earns|puts aside|"
        "puts by] {p} euros[ more|].",
        "{name} [gets|earns|saves|receives] {p} euros a [week for {a} weeks|month for {a} months|day for {a} days].",
        "{a} [friends|aunts|neighbours|uncles|customers|colleagues|guests|relatives|sponsors] each [give|pay|send|"
        "hand] {name} {p} euros.",
        "{a} [customers|clients|pupils|tenants|members] pay {name} {p} euros [each|apiece].",
        f"{_THEN}{{name}} sells {{a}} [old books|pictures|baskets|cakes|chairs|toys|vases|scarves|records] [for|"
        "at] {p} euros [each|apiece|a piece].",
        "Each of {a} [friends|relatives|customers|pupils|neighbours|jobs|sales] brings {name} {p} euros.",
        f"{_THEN}{{name}} gives {{a}} lessons and [gets|earns|is paid] {{p}} euros for each.",
        "{name}'s [mother|grandfather|aunt|boss] [gives|pays|sends] {name} {p} euros a [week, for {a} weeks|month, "
        "for {a} months].",
        "[An allowance|Pocket money|A pension|A grant] of {p} euros a week is paid[ to {name}|] for {a} weeks.",
        "There are {a} [more |further |][payments|gifts|deposits|instalments|wages|tips|prizes|bonuses] of {p} "
        "euros each for {name}.",
        "{a} times[ in a row|] {name} [earns|wins|receives|collects|deposits|is given|saves|makes] [another |]{p} "
        "euros.",
        "{name} [does|finishes|takes on] {a} [small |odd |][jobs|tasks|errands|repairs] [at|for] {p} euros [each|"
        "apiece].",
        "The money grows by {p} euros a [week for {a} weeks|month for {a} months|day for {a} days].",
        "{name} [washes|repairs|polishes|paints] {a} [cars|bikes|boats|carts] and gets {p} euros for each.",
    ),
    "money spend": (
        "{name} [spends|pays] {p} euros [on|for] [shoes|a ticket|a meal|a jacket|books|a present].",
        f"{_THEN}{{name}} [pays|spends|loses|gives away] {{p}} euros[ of it|].",
        "A [coat|chair|bill|trip|meal|phone] costs {name} {p} euros.",
        "[Then|Later|Soon] {p} euros [are lost|are spent|are stolen|go to a shop].",
        "{name} [buys|orders|pays for] [a bag|a cake|a game|a lamp|flowers], and that takes {p} euros.",
        f"{_THEN}{{name}} [spends|pays out|hands over|lays out|parts with|uses|gives up|invests|forks out] {{p}} "
        "euros [on|for] [clothes|food|a haircut|a concert|petrol|a new lamp|groceries|a taxi|a train ride|medicine|"
        "a repair|a toy|dinner|a hotel|a football|the rent].",
        f"{_THEN}{{name}} [buys|purchases|orders|pays for|treats the family to|chooses|gets] a [hat|jacket|book|"
        "meal|ticket|radio|carpet|bicycle|guitar|watch|backpack|kettle|pizza|bouquet|magazine|table|tool] for {p} "
        "euros.",
        "A [hat|jacket|book|dinner|ticket|repair|haircut|suitcase|fine|hotel room|dentist|vet] costs {name} {p} "
        "euros.",
        f"{_THEN}{{name}} [loses|gives away|donates|lends out|drops|wastes|mislays|gambles away|is robbed of|"
        "repays|pays back] {p} euros.",
        f"{_THEN}{{name}} [gives|lends|sends|pays|hands|transfers] {{p}} euros to [a friend|a sister|a charity|a "
        "neighbour|a cousin|the landlord|the school|a plumber|the poor].",
        f"{_THEN}{{name}} [gives|lends|pays|sends|hands] [a|one] [friend|sister|brother|neighbour|cousin|beggar|"
        "plumber|colleague] {p} euros.",
        f"{_THEN}[a thief|a pickpocket|a friend|a brother|the landlord|the bank|a shop|the state] [takes|gets|"
        "keeps|receives|demands and gets] {p} euros [of it|of the money|from {name}].",
        f"{_THEN}the [savings|money|amount|balance|sum|fund|credit] [falls|drops|shrinks|goes down|decreases|is "
        "reduced|sinks] by {p} euros.",
        "{p} euros are [spent on|paid for|used for|needed for|laid out on] [a ticket|food|a present|a jacket|"
        "repairs|the phone bill|a visit to the zoo|shoes].",
        "A [bill|fine|fee|debt|rent|present|repair|ticket] of {p} euros [is paid|has to be paid|falls due|comes in "
        "and is paid|is settled].",
        f"[Unfortunately|Sadly|By accident|Unluckily|Alas]{_COMMA} {{name}} [loses|has to pay|drops|wastes|must "
        "hand over] {p} euros.",
        "{name} [settles|pays] a [bill|debt|fine|fee] of {p} euros.",
        f"For [a trip|a coat|a game|a cake|new glasses|a dress|a bus ride|the cinema|a new tyre]{_COMMA} {{name}} "
        "[pays|spends|hands over|needs|lays out] {p} euros.",
        f"{_THEN}{{p}} euros [are gone|vanish|disappear|are withdrawn|are taken out|are missing|are deducted|are "
        "given away|are handed over].",
        f"{_THEN}{{name}} has {{p}} euros less[ than before|].",
        "The price of [a jacket|a ticket|a meal|a lamp|a game|a room] is {p} euros, and {name} [pays it|buys it|"
        "takes it].",
        "{name} [likes|sees|wants|chooses] a [book|lamp|shirt|bag|chair|vase] that costs {p} euros and [buys it|"
        "pays for it|takes it home].",
        "{name} [withdraws|takes out|takes away|subtracts] {p} euros[ of the money|] [and spends them|to buy a "
        "gift|for the shopping].",
        "{name} [treats|invites] a friend to [dinner|lunch|a film|a show], [which|and that] costs {p} euros.",
    ),
    "money buy": (
        "{name} buys {a} [books|shirts|cups|plants|tickets] for {p} euros each.",
        f"{_THEN}{{name}} pays for {{a}} [meals|books|rides|stamps] at {{p}} euros each.",
        "{a} [chairs|bowls|toys|pens] at {p} euros each are bought [by {name}|from the money].",
        "{name} [gives|pays|hands] {p} euros to each of {a} [friends|helpers|children].",
        "For each of {a} [visits|lessons|days] {name} pays {p} euros.",
        f"{_THEN}{{name}} [purchases|orders|gets|pays for|picks|takes|chooses] {{a}} [books|shirts|cups|plants|"
        "tickets|meals|hats|bottles|magazines|toys|chairs|records|towels|lamps|roses|notebooks] [for|at] {p} euros "
        "[each|apiece|a piece].",
        f"{_THEN}{{name}} buys {{a}} [hats|bottles|magazines|pizzas|chairs|records|towels|lamps|roses|notebooks|"
        "games|scarves|cakes|tools|pens|plates] [for|at|that cost|costing] {p} euros [each|apiece].",
        "{a} [tickets|books|meals|presents|lamps|shirts|boxes|bags|roses] cost {name} {p} euros [each|apiece].",
        f"{_THEN}{{name}} [gives|pays|hands|sends|lends|donates] {{p}} euros to each of {{a}} [cousins|neighbours|"
        "nephews|workers|musicians|charities|pupils|waiters|brothers].",
        f"{_THEN}{{name}} [gives|pays|hands|sends|lends] {{a}} [cousins|neighbours|nephews|workers|children|"
        "friends|helpers] {p} euros each.",
        f"For {{a}} [days|weeks|months|evenings] [in a row|running]{_COMMA} {{name}} [spends|pays|uses|needs|loses|"
        "lays out] {p} euros [each time|every time|a time].",
        f"Every [week for {{a}} weeks|day for {{a}} days|month for {{a}} months]{_COMMA} {{name}} [spends|pays|"
        "uses|needs|gives away] {p} euros.",
        "Each of {a} [books|tickets|lessons|meals|visits|rides|repairs|nights] costs {name} {p} euros.",
        "A [book|ticket|lesson|meal|ride|plate|shirt|plant] costs {p} euros, and {name} [buys|pays for|orders|"
        "takes|gets] {a} of them.",
        f"{_THEN}{{name}} [treats|invites] {{a}} [friends|colleagues|guests|cousins] to [lunch|a film|a drink|an "
        "ice cream|a concert], which costs {p} euros each.",
        "{a} times[ in a row|] {name} [pays|spends|loses|gives away|hands over] {p} euros.",
        "{name} [takes|goes on|pays for] {a} [rides|tours] at {p} euros each.",
        "There are {a} [bills|fines|payments|fees|debts|instalments] of {p} euros each [to pay|that {name} pays|"
        "for {name} to settle].",
        "{name} stays {a} nights at a [hotel|hostel|campsite|guest house] [for|at] {p} euros [a|per] night.",
        f"From the money{_COMMA} {{a}} [books|balls|tables|tools|plates|bags|prizes|tickets] at {{p}} euros [each|"
        "apiece] are [bought|paid for|ordered].",
        "At {p} euros [each|apiece|a piece], {name} [buys|orders|takes|gets|purchases] {a} [books|balls|tools|"
        "plates|bags|tickets|vases|stools|cakes].",
        "A [friend|thief|shop|landlord|sister] [takes|gets|receives|is given] {p} euros of the money {a} times.",
        f"{_THEN}{{name}} spends {{p}} euros on each of {{a}} [gifts|guests|children|lessons|meals|plants|visits|"
        "books].",
        "{name} buys [presents|something] for {a} [friends|people|cousins|children] and spends {p} euros on each.",
    ),
    "money tax": (
        f"Of the money, {{t}}{_PERCENT} [goes away as tax|is lost|is taken as a fee|is paid as tax].",
        "{name} [gives|pays|donates] {t}[ percent|%] of the money to [charity|a friend|the state|a school].",
        f"[Then|Later|Soon] {{t}}{_PERCENT} of the money [is spent|is gone|goes to a bank|is lost].",
        f"The money [falls|drops|shrinks|is cut] by {{t}}{_PERCENT}.",
        "[A tax|A fee|A debt] takes {t}[ percent|%] of the money.",
        f"{_THEN}{{t}}{_PERCENT} of the money [is spent|is lost|is given away|is stolen|is paid in tax|goes to "
        "charity|goes on rent|is used up|is gone|is handed over|is wasted|goes to the state].",
        f"{_THEN}{{name}} [spends|loses|gives away|uses up|hands over|pays out|lends out|wastes|donates] "
        f"{{t}}{_PERCENT} of the [money|savings|sum|amount].",
        f"{_THEN}{{name}} [gives|pays|sends|donates|hands|lends] {{t}}{_PERCENT} of the money to [a brother|the "
        "tax office|a charity|a club|the landlord|an orphanage|the church|a hospital].",
        f"{_THEN}the [money|amount|sum|savings fund|balance] [decreases|shrinks|is reduced|is cut|falls|drops|"
        f"declines|is lowered|sinks|dwindles] by {{t}}{_PERCENT}.",
        f"{_THEN}the [state|tax office|bank|government|landlord|agent|lawyer|city] [takes|keeps|deducts|demands "
        f"and gets|withholds|charges|collects] {{t}}{_PERCENT} of the money.",
        f"A [share|part|portion] of {{t}}{_PERCENT} [of the money |]is [given away|paid as tax|spent|lost|donated|"
        "deducted|withheld].",
        f"[A fee|A tax|A commission|A charge|A duty|A fine] of {{t}}{_PERCENT} is [deducted|taken off|paid|charged|"
        "withheld|due and is paid].",
        f"Of the [money|sum|whole amount], {{t}}{_PERCENT} [goes to|is given to|is paid to] [charity|a friend|the "
        "state|the bank|a school|a lawyer].",
        f"The money suffers a [loss|drop|cut|decrease] of {{t}}{_PERCENT}.",
        f"[Unfortunately|Sadly|As the law demands|As it happens]{_COMMA} {{name}} [loses|has to pay out|has to "
        f"give up|must part with] {{t}}{_PERCENT} of the money.",
        f"{_THEN}{{name}} has to pay {{t}}{_PERCENT} [tax|duty] on the money.",
        f"{{name}} [pays|owes and pays] {{t}}{_PERCENT} tax[ on all the money| on it|].",
        f"{_THEN}{{name}} has {{t}}{_PERCENT} less money[ than before|].",
        f"A [thief|swindler|bad deal|crisis|lost bet] costs {{name}} {{t}}{_PERCENT} of the money.",
        f"[A brother|A friend|A sister|The family|A partner] [gets|receives|is given|takes] {{t}}{_PERCENT} of the "
        "money.",
        f"{{name}} [cuts|reduces] the [savings|fund|amount] by {{t}}{_PERCENT}.",
        f"{{name}} [subtracts|takes off|deducts|takes away] {{t}}{_PERCENT}.",
        f"{{t}}{_PERCENT} [has to be paid|has to be handed over|must be paid|is withheld|is deducted] as [tax|a "
        "fee|a commission|a fine].",
    ),
    "money interest": (
        f"The bank [adds|pays|gives] {{t}}{_PERCENT} interest [to|on] the money.",
        f"The money [grows|rises|goes up] by {{t}}{_PERCENT}.",
        "[Then|Later|A year later|After a year] the bank adds {t}[ percent|%] to the money.",
        f"With interest of {{t}}{_PERCENT}, the money grows.",
        "{name} [invests|lends] all the money and gets it back with {t}[ percent|%] more.",
        f"{_THEN}the [bank|savings bank|credit union] [pays|adds|gives|credits|grants] {{t}}{_PERCENT} interest on "
        "the [money|sum|savings|amount|deposit].",
        f"{_THEN}the [money|amount|sum|balance|capital|deposit] [increases|grows|rises|swells|climbs|goes up|is "
        f"raised|is increased] by {{t}}{_PERCENT}.",
        f"{_THEN}{{name}} [earns|gets|receives|is paid|gains|collects] {{t}}{_PERCENT} interest[ on the money| on "
        "all of it|].",
        f"{{name}} invests [all the money|the money] and [makes|earns] a [profit|gain] of {{t}}{_PERCENT}.",
        "{name} puts all the money into [shares|gold|a fund|land], and its value [rises|grows|goes up|climbs|"
        f"increases] by {{t}}{_PERCENT}.",
        f"Interest of {{t}}{_PERCENT} is [added|paid|credited|earned|due to {{name}}].",
        f"After [some time|a year|twelve months], interest of {{t}}{_PERCENT} is [added|paid|credited].",
        f"{_THEN}{{name}} has {{t}}{_PERCENT} more money[ than before|].",
        f"{_THEN}the money [earns|gains|bears|yields|brings|brings in] {{t}}{_PERCENT}[ interest| in interest|].",
        f"A [bonus|premium|gain|profit|return|supplement] of {{t}}{_PERCENT} is added to the [money|sum|savings|"
        "amount].",
        f"[The employer|The boss|A rich uncle|The state|A sponsor|Grandmother] [adds|gives|pays] {{t}}{_PERCENT} "
        "on top of the money.",
        f"{{name}} [increases|raises] the [savings|fund|amount|sum] by {{t}}{_PERCENT}.",
        f"At an interest rate of {{t}}{_PERCENT}[ a year|], the money [lies|stays|is left] in the bank for a year.",
        f"The money [lies|stays|is left|rests] in the bank for a year at {{t}}{_PERCENT}[ interest|].",
        f"{_THEN}{{t}}{_PERCENT} [interest is|in interest is] [added|credited|paid] to the [money|account|savings|"
        "balance].",
        "The [value|worth] of the [money|savings|investment|shares] [grows|rises|goes up|increases] by "
        f"{{t}}{_PERCENT}.",
        f"[A friend|A company|A farmer|The baker] borrows all the money and pays it back with {{t}}{_PERCENT} "
        "[interest|more|on top].",
        f"[At the end of the year|In January|When the year is over|On the last day of the year]{_COMMA} the [bank|"
        f"fund|credit union] [pays|adds|gives] {{t}}{_PERCENT} interest[ on the money| on the savings|].",
    ),
    "money left": (
        "How many euros [does {name} have|are there|are left|remain|has {name}] [now|then|in the end]?",
        "How much money [does {name} have|is there|is left] [now|then|at last], in euros?",
        "[Find|Say|Work out|Tell me] how many euros [there are|{name} has|are left] [now|after this].",
        "[Now|In the end|Finally], how many euros [does {name} have|are left|remain]?",
        "How many euros [does {name} own|has {name} got|does {name} keep|are left over|are in the purse|are in the "
        "account|does {name} have|are there] [altogether|in total|in the end|at the end|by the end|when all is "
        "done|after everything|at this point]?",
        "What is the [final|new|total|remaining|resulting|current] [amount|sum|balance], in euros?",
        "[Calculate|Determine|Compute|Find out|Give|State|Write down|Report|Name|Work out] the [final |new |"
        "current |remaining |][amount|balance|sum] of money in euros.",
        f"{_ASK} how many euros [there are|{{name}} has|are left|remain|{{name}} owns] [now|in the end|at last|"
        "after all this|altogether|at the end of the day].",
        f"{_ASK} how much money {{name}} has [now|in the end|at last|after all this|left], in euros.",
        "[Can|Could] you [tell me|work out|say|calculate] how many euros {name} has [now|in the end|after this|"
        "left]?",
        "With how many euros does {name} [end up|finish|go home|close the day]?",
        "How many euros does that [make|leave|leave {name} with]?",
        "How rich is {name} [now|in the end|at the end|then], in euros?",
        "[What|How much] is [left|there] [now|in the end|at the end|for {name}|of the money|in the account|in the "
        "wallet], in euros?",
        "How much [can|could] {name} [spend|pay out|count|save] [now|in the end], in euros?",
        "[After all that|At the end of the day|When everything is over|All in all|By then|At this moment], how "
        "many euros [are there|does {name} have|are left|remain|does {name} own]?",
        "How many euros [is {name} left with|are in {name}'s hands now|are on {name}'s account now]?",
        "If {name} counts the money now, [how many euros are there|how many euros is it]?",
        "To how many euros does [this|all that|the money] [come|add up|amount]?",
        "[The balance|The sum|The money that is left|The amount that {name} has], in euros, is [wanted|asked for|"
        "to be found].",
        "How much does {name} have [altogether|in total|in the end|now], in euros?",
        "{name} [wants to know|asks|wonders|would like to know] how many euros [there are|are left] [now|in the "
        "end|altogether]. [What is the answer|What do you say|Can you tell]?",
        "[The boss|A friend|The bank|Mother|A brother|The tax office] [wants to know|asks|wonders] how many euros "
        "{name} has [now|in the end|altogether]. [What is the answer|What is the sum|Can you tell]?",
    ),
    "money share": (
        "{k} [heirs of an uncle|students|neighbours] [split|divide] the money equally. How many euros does each "
        "get?",
        "The money is [shared|divided|split] equally among {k} people. How many euros does each [one |]get?",
        "{k} [friends|children|sisters|workers] share the money equally. How many euros [does each get|are there "
        "for each]?",
        "{name} gives the money to {k} [people|schools|families], the same to each. How many euros does [one|each] "
        "get?",
        "How many euros does each of {k} [people|brothers|clubs] get if all get the same?",
        "{k} [people|children|friends|sisters|partners|cousins|heirs|winners|workers|players] [share|split|divide] "
        "the money [equally|evenly|fairly|in equal parts]. How many euros does [each|each one|one] [get|receive|"
        "take|end up with|go home with]?",
        "If {k} [people|children|friends|sisters|partners|heirs|winners|grandchildren] [share|split|divide] the "
        "money [equally|evenly|fairly], how many euros does [each|each one|one] [get|receive|end up with]?",
        "The money is [distributed|handed out|paid out|dealt out|parcelled out|given out] [equally|evenly|in equal "
        "parts] to {k} [workers|helpers|children|families|clubs|winners|members]. How many euros [does each get|is "
        "that for each|does one receive]?",
        "[Divided|Split|Shared out|Distributed] [equally|evenly|fairly] among {k} [people|brothers|workers|heirs|"
        "winners|members], how many euros [does each get|are there for each|is that for each]?",
        "How many euros [would|does|will] each of {k} [people|children|partners|winners|friends|sons] [get|"
        "receive] if the money is [shared|divided|split] equally?",
        "What is each one's share in euros if {k} [people|friends|children|colleagues|partners] [share|split|"
        "divide] the money [equally|evenly|fairly]?",
        f"{_ASK} how many euros each of {{k}} [children|friends|workers|heirs|people|winners] gets if they share "
        "the money equally.",
        "[Find|Calculate|Work out|Determine|Compute] the share of each in euros if the money is [divided|split|"
        "shared] equally among {k} [people|friends|partners|children].",
        "{name} [leaves|wills|pays|hands|sends|donates] the money to {k} [nephews|children|charities|museums|"
        "schools|friends], the same [amount|sum] to each. How many euros does [one|each] [get|receive]?",
        "{name} [puts|lays] the money into {k} [envelopes|boxes|accounts|purses], the same [amount|sum] in each. "
        "How many euros are in [each|one|one of them]?",
        "{k} [people|friends|colleagues|workers|heirs] are to [get|receive|have] equal shares of the money. How "
        "many euros is [one|each] share?",
        "Each of {k} [people|clubs|schools|workers|winners] gets the same [amount|sum|share] of the money. How "
        "many euros does [one|each] [get|receive]?",
        "The money has to last for {k} [days|weeks|months], with the same amount for each. How many euros [is that|"
        "are there] [a time|for each|for one]?",
        "{name} spends all the money in {k} [days|weeks|months], the same amount [each time|in each]. How many "
        "euros is that [for one|each time]?",
        "The money is [enough|just enough] for {k} equal [payments|prizes|gifts|rents|wages]. How many euros is "
        "[one|each] of them?",
        "{name} makes {k} equal [parts|shares|portions|piles] of the money. How many euros are in [each|one|one of "
        "them]?",
    ),
    "money cents": (
        "[Find|Work out] how many cents [that is|there are].",
        "How many cents [is that|is this|does that make|are there [now|then]]?",
        "[Give|Say|Write|Tell me] the [sum|amount|money] in cents.",
        "How much money is [that|there now] in cents?",
        "Changed into cents, how [many|much] is it?",
        "[Find|Work out|Calculate|Compute|Determine|Write down|Tell me|Please say] how many cents [that makes|"
        "{name} has[ now|]|there are[ now| in the end|]|this is].",
        "How many cents [does {name} have|are there|are left|has {name} got|does that come to|does {name} own|"
        "remain] [now|in the end|altogether|in total|at the end|then]?",
        "[Convert|Change|Turn] the [money|sum|amount|euros] into cents[, please|]: how many are there?",
        "[Calculate|Compute|Determine|State|Report|Work out] the [sum|amount|money|balance|total] in cents.",
        "[Expressed|Counted|Written|Measured|Paid out] in cents, how much is [it|that|the money|left|there now]?",
        "What is [the amount|the sum|the balance|the total|{name}'s money|that] [now |]in cents?",
        "If it were [all in cents|paid in cents|changed into cents], how many [cents |]would that be?",
        "How much [does {name} have|is left|is there] [now|in the end], in cents?",
        f"{_ASK} how many cents [there are|that is|{{name}} has|are left] [now|in the end|altogether].",
        "{name} [changes|turns|exchanges] [it all|all the money|the money] into [cents|one-cent coins]. How many "
        "[cents |coins |][are there|is that|does {name} get]?",
        "To how many cents does [this|that|the money] [come|add up|amount]?",
        "Each euro is a hundred cents. How many cents [are there now|does {name} have|is the money worth]?",
        "[In cents|As cents], [what is|how much is] [the money|the amount|the balance] [now|in the end]?",
    ),
    # ways
    "trip far": (
        "{name} [rides|drives|travels|cycles|sails|goes] {a} [kilometres|km].",
        "[First|On the first day|In the morning] {name} [drives|rides|goes|cycles] {a} [kilometres|km].",
        "{name} makes a [journey|trip|tour|ride] of {a} [kilometres|km].",
        "A [tram|boat|coach|lorry] [takes|carries] {name} {a} [kilometres|km].",
        "{name} [is driven|is flown|is taken] {a} [kilometres|km] by a friend.",
        f"{{name}} [walks|hikes|rows|flies|runs|jogs|rolls|pedals|skates|covers|travels] {{a}} {_KM}[ along a "
        "river| through the hills| on a country road| to a lake|].",
        f"{{name}} [rides|cycles|drives|sails|flies|travels] {{a}} {_KM} to [a market|an aunt|the seaside|a "
        "village|work|a castle|a friend|the next town].",
        f"[At first|To begin with|In the beginning|Before breakfast|At dawn|On Sunday|On the first leg]{_COMMA} "
        f"{{name}} [covers|drives|rides|travels|cycles|walks|flies|goes] {{a}} {_KM}.",
        f"{{name}} [starts|begins|sets out] with [a stretch|a leg|a ride|a drive|a stage] of {{a}} {_KM}.",
        "A [taxi|plane|ferry|bus|van|ship|motorbike|cab|truck|sledge] [takes|carries|brings|drives] {name} {a} "
        f"{_KM}.",
        "{name} [takes|catches|boards|gets on] a [bus|tram|ferry|coach|taxi] and [rides|travels|goes] {a} "
        f"{_KM}.",
        "A [tourist|courier|salesman|postman|student|pilot|rider|cyclist|sailor|driver] [called|named] {name} "
        f"[goes|travels|covers] {{a}} {_KM}.",
        "The way from [home|the hotel|the station|the harbour] to [the office|a lake|the market|the castle] is {a} "
        f"{_KM}[ long|], and {{name}} [goes|travels|takes|covers] it.",
        f"It is {{a}} {_KM} [to the office|to the sea|to the stadium|to the next town|to an aunt's house], and "
        "{name} [goes there|drives there|makes the trip|travels there].",
        f"{{a}} {_KM} are [driven|covered|travelled|sailed|ridden|cycled|flown] by {{name}}.",
        "{name}'s [journey|trip|tour|ride|voyage|drive|flight|excursion] [is|measures|covers|begins with|starts "
        f"with] {{a}} {_KM}.",
        "{name} [delivers a parcel|visits a friend|moves house|goes to school|goes camping|runs an errand] and "
        f"[drives|travels|goes|rides] {{a}} {_KM}.",
        f"[My|Our] [friend|neighbour|cousin|colleague] {{name}} [drives|cycles|travels|rides] {{a}} {_KM}.",
        "The [odometer|milometer|map|route planner|guide] [shows|says|records] that {name} has [gone|travelled|"
        f"driven|covered] {{a}} {_KM}.",
        "{name} [leaves|sets off|starts|heads] for [the coast|the mountains|the city|the border] and [covers|"
        f"drives|goes|travels] {{a}} {_KM}.",
        f"[First stage|First leg|First part of the trip]: {{name}} [drives|goes|rides|travels] {{a}} {_KM}.",
        f"{{name}} [pulls a cart|rides a horse|drives a lorry|paddles a canoe|steers a boat] for {{a}} {_KM}.",
        f"{{name}} [commutes|gets driven|is taken] {{a}} {_KM}.",
    ),
    "trip hours": (
        "{name} [drives|rides|travels|goes] for {h} hours at {v} [kilometres an hour|km an hour|kilometres per "
        "hour|km/h].",
        "For {h} hours {name} [drives|rides|goes|sails] at {v} [kilometres an hour|km/h|kilometres per hour].",
        "{name} makes {v} [kilometres|km] an hour and [drives|rides|keeps going] for {h} hours.",
        "[A boat|A coach|A lorry] with {name} on it goes {v} kilometres in an hour, and it goes for {h} hours.",
        "[First|In the morning] {name} [drives|rides|goes] at {v} [kilometres per hour|km/h] for {h} hours.",
        "{name} [walks|cycles|drives|flies|sails|rides|travels|races|cruises] for {h} hours at [a speed of |an "
        f"average speed of |a steady |]{{v}} {_SPEED}.",
        f"At [a speed of |an average of |a steady |]{{v}} {_SPEED}{_COMMA} {{name}} [drives|rides|travels|cruises|"
        "goes|flies] for {h} hours.",
        f"For {{h}} hours{_COMMA} {{name}} [travels|keeps going|cruises|flies|is on the road|is on the way|rolls "
        f"along] at {{v}} {_SPEED}.",
        "{name} [needs|takes] {h} hours for [a way|a stretch|a journey|a trip], [going at|driving at|at] {v} "
        f"{_SPEED}.",
        "A [bus|ship|taxi|ferry|van|plane|tram|motorboat] [takes|carries|brings] {name} along for {h} hours at {v} "
        f"{_SPEED}.",
        f"{{name}} [travels|rides|drives|goes] at a speed of {{v}} {_SPEED}. [This lasts|The ride lasts|The trip "
        "takes|{name} keeps it up for] {h} hours.",
        f"In [one|an|each|every] hour {{name}} [covers|travels|drives|makes|goes] {{v}} {_KM}, and the [trip|ride|"
        "journey|drive|voyage] [lasts|takes] {h} hours.",
        f"[Every|Each] hour {{name}} [covers|travels|does|makes] {{v}} {_KM}. The [trip|ride|journey] [lasts|"
        "takes] {h} hours.",
        "A [cyclist|lorry driver|pilot|captain|courier|tourist] [called|named] {name} [goes|travels|moves] at {v} "
        f"{_SPEED} for {{h}} hours.",
        f"[At first|To begin with|On Sunday|At dawn|On the first day]{_COMMA} {{name}} [drives|rides|goes|travels] "
        f"for {{h}} hours at {{v}} {_SPEED}.",
        f"The [speed|average speed] of {{name}} is {{v}} {_SPEED}, and the [trip|ride|journey|drive] [lasts|takes] "
        "{h} hours.",
        f"{{h}} hours are spent by {{name}} [on the road|driving|in a bus|on a boat|in a car] at {{v}} {_SPEED}.",
        f"A [car|boat|bus|coach] that {{name}} [drives|sits in|steers] goes at {{v}} {_SPEED} for {{h}} hours.",
        "{name} is [on the road|on the way|travelling|under way|at the wheel|on board] for {h} hours at {v} "
        f"{_SPEED}.",
        f"[Time|Driving time] of {{name}}: {{h}} hours; speed: {{v}} {_SPEED}.",
        f"{{name}} [sets out|starts|sets off|leaves home] and [drives|goes|rides|travels] at {{v}} {_SPEED} for "
        "{h} hours.",
        "{name} [delivers parcels|visits an aunt|goes on holiday|goes to the seaside|takes the children to school|"
        f"brings fruit to town] and [drives|travels|is on the road] for {{h}} hours at {{v}} {_SPEED}.",
        "{name} [takes|catches|boards] a [train|bus|ferry|tram|coach|plane] [going|that goes|which goes] {v} "
        f"{_SPEED}, and [sits|stays|is] in it for {{h}} hours.",
        f"With [the wind behind|a full tank|a friend|a heavy load|music on the radio]{_COMMA} {{name}} [drives|"
        f"rides|travels|sails] for {{h}} hours at {{v}} {_SPEED}.",
        "The [trip|journey|flight|tour|ride|voyage] of {name} [takes|lasts] {h} hours at [a speed of |an average "
        f"speed of |]{{v}} {_SPEED}.",
    ),
    "trip leg": (
        "[Then|Next|Later|Afterwards] {name} [drives|rides|goes] for {m} minutes at {v} [kilometres an hour|km/h].",
        "{name} [goes on|continues|drives on] at {v} [kilometres an hour|kilometres per hour|km/h] for {m} minutes.",
        "For {m} minutes more {name} [drives|rides|travels] at {v} [kilometres an hour|km/h].",
        "{m} more minutes are [driven|ridden|done] at {v} [kilometres per hour|km/h].",
        f"{_THEN}{{name}} [travels|drives|keeps going|cruises|rides|sails|cycles|flies|goes on|continues] for "
        f"[another |]{{m}} [minutes|min] at {{v}} {_SPEED}.",
        f"{_THEN}{{name}} [drives|goes|rides|travels] at {{v}} {_SPEED} for {{m}} more minutes.",
        f"After a [rest|break|meal|nap|short stop|picnic|chat]{_COMMA} {{name}} [goes on|continues|drives on|"
        f"travels on|rides on] for {{m}} minutes at {{v}} {_SPEED}.",
        f"{_THEN}[a bus|a tram|a ferry|a taxi|a boat|a coach|a friend's car] [takes|carries|brings] {{name}} on "
        f"for {{m}} minutes at {{v}} {_SPEED}.",
        f"For [another|the next|a further] {{m}} minutes{_COMMA} {{name}} [drives|rides|travels|goes|cycles|speeds "
        f"along] at {{v}} {_SPEED}.",
        f"At {{v}} {_SPEED}{_COMMA} {{name}} [goes on|continues|drives on|keeps going|travels on] for {{m}} "
        "minutes[ more|].",
        "{name} [speeds up|slows down|changes speed] and [drives|goes|rides] [on |]for {m} minutes at {v} "
        f"{_SPEED}.",
        f"{_THEN}there [comes|follows] a [stretch|leg|stage|part] of {{m}} minutes at {{v}} {_SPEED}.",
        f"The next [leg|stretch|stage|part] [takes|lasts] {{m}} minutes at {{v}} {_SPEED}.",
        f"{_THEN}{{name}} changes [to a bus|to a tram|to a bike|cars|roads] and [travels|goes|rides] for {{m}} "
        f"minutes at {{v}} {_SPEED}.",
        f"{{name}} [adds|does] [another|a leg of|a ride of|a stretch of] {{m}} minutes at {{v}} {_SPEED}.",
        f"The [road|ride|drive|way] [goes on|continues] for {{m}} minutes at {{v}} {_SPEED}.",
        f"On [the motorway|a country road|the river|a track|the ring road]{_COMMA} {{name}} [goes|travels|drives|"
        f"moves] at {{v}} {_SPEED} for {{m}} minutes.",
        f"{{name}}'s speed is then {{v}} {_SPEED} for {{m}} minutes[ more|].",
        f"[A further|Another] {{m}} minutes at {{v}} {_SPEED} [follow|come next|are added].",
        f"{_THEN}{{name}} [rents|borrows|takes|hires] a [bike|scooter|boat|car] and [goes|rides|travels] {{m}} "
        f"minutes at {{v}} {_SPEED}.",
    ),
    "trip more": (
        "After a [rest|break|meal|nap] {name} goes on for {a} [kilometres|km].",
        "[Then|Next|Later|Afterwards] {name} [rides|drives|goes|cycles] {a} [kilometres|km] more.",
        "{name} [adds|goes on for|does] {a} more [kilometres|km].",
        "{a} more [kilometres|km] are [driven|ridden|done] by {name}.",
        f"{_THEN}{{name}} [travels|cycles|drives|rides|walks|covers|sails|hikes|flies|rows|rolls] [another {{a}}|a "
        f"further {{a}}|{{a}} more|an additional {{a}}] {_KM}.",
        f"{_THEN}{{name}} [goes on|continues|drives on|travels on|rides on|keeps going|carries on] for [another |a "
        f"further |]{{a}} {_KM}.",
        f"After a [picnic|short stop|chat|coffee|swim|night in a hotel|puncture]{_COMMA} {{name}} [goes on|"
        f"continues|drives on|travels on|rides on] for {{a}} {_KM}.",
        f"{_THEN}[a bus|a tram|a ferry|a taxi|a boat|a coach|a friend] [takes|carries|brings] {{name}} [another "
        f"{{a}}|a further {{a}}|{{a}} more] {_KM}.",
        f"{_THEN}the [road|way|trip|journey|ride|tour|route] [goes on|continues] for [another |a further |]{{a}} "
        f"{_KM}.",
        f"{_THEN}{{name}} [makes|takes|has to make] a [detour|side trip|diversion] of {{a}} {_KM}.",
        f"{_THEN}[another {{a}}|a further {{a}}|{{a}} additional|{{a}} more] {_KM} are [added|covered|travelled|"
        "sailed|flown|walked|put behind {name}].",
        f"The next [leg|stretch|stage|part] is {{a}} {_KM}[ long|].",
        f"{_THEN}{{name}} [visits a friend|goes to a shop|drives to a lake|goes to the harbour|goes to a museum], "
        f"which is {{a}} {_KM} [farther|further on|further].",
        f"[There follow|There come|To this come] {{a}} [more |further |]{_KM}.",
        "{name} [gets lost|misses the exit|takes a wrong turn|follows a sign] and [drives|goes|travels] {a} "
        f"{_KM} more.",
        f"It is [another|a further] {{a}} {_KM} to [the hotel|the next stop|an inn|the camp], and {{name}} goes "
        "there.",
        "The [way|trip|tour|journey|distance] [grows|increases|becomes longer|is extended|gets longer] by {a} "
        f"{_KM}.",
        f"{{name}} [lengthens|extends|prolongs] the [trip|tour|ride|way|journey] by {{a}} {_KM}.",
        f"With a [stop at a shop|visit to an aunt|detour|look at a castle]{_COMMA} the way gets {{a}} {_KM} longer.",
        f"{{name}} changes to a [bus|bike|boat|tram] and [travels|rides|covers|goes] {{a}} {_KM} more.",
    ),
    "trip walk": (
        "[Then|Next|Later|Afterwards] {name} [walks|runs|strolls|hikes] {w} [metres|m].",
        "{name} [walks|runs] {w} [metres|m] [more|farther].",
        "{name} gets out and walks {w} [metres|m].",
        "{w} [metres|m] are walked by {name} [then|as well|next].",
        f"{_THEN}{{name}} [goes on foot|marches|wanders|jogs|climbs|swims|crawls|rows|wades|trots|hurries|paces] "
        "[for |]{w} [metres|m].",
        f"{_THEN}{{name}} [walks|runs|strolls|goes|hikes|jogs] [another|a further] {{w}} [metres|m].",
        "The last {w} [metres|m] {name} [walks|runs|goes on foot|jogs].",
        f"From [the station|the car park|the bus stop|the harbour|there|the gate]{_COMMA} {{name}} [walks|runs|"
        "strolls|goes|hikes] {w} [metres|m].",
        "{name} [parks|stops|gets off|leaves the car|locks the bike] and [walks|runs|strolls|goes on foot|pushes a "
        "cart] [for |]{w} [metres|m].",
        f"{_THEN}{{name}} has to [walk|run|go|push the bike|carry a bag|climb] [another |]{{w}} [metres|m].",
        "It is {w} [metres|m] [on foot |]to [the door|a shop|the beach|the hut|the gate], and {name} [walks|goes|"
        "strolls] there.",
        f"{_THEN}{{w}} [metres|m] are [covered|done|gone] on foot[ by {{name}}|].",
        "{name} takes a [walk|stroll|run|swim|path] of {w} [metres|m].",
        f"{_THEN}there [comes|follows] a [walk|stroll|path|footpath|climb] of {{w}} [metres|m].",
        "A [footpath|bridge|lane|tunnel|trail] of {w} [metres|m] [comes next|follows|has to be crossed|is part of "
        "the way].",
        "{name} [crosses|walks over|walks along|goes down] a [bridge|square|footpath|beach|street] that is {w} "
        "[metres|m] long.",
        "{name} [adds|does] {w} [metres|m] on foot.",
        f"With a dog{_COMMA} {{name}} [walks|goes|runs] {{w}} [metres|m] [more|further].",
    ),
    "trip back": (
        "{name} [returns|comes back|travels home] [by|along] the [same|whole] way.",
        "[Then|Later|Next|In the end|At night] {name} [rides|cycles|sails|goes] the whole way back.",
        "{name} goes the whole way back again.",
        "[Then|Later|In the evening|Next] {name} [goes|drives|travels] all the way back.",
        "{name} [turns round and|does not stay and] goes back the whole way.",
        "[Then|Later|The next day] {name} does the whole way a second time.",
        "The whole way is then gone again[, back to the start| in the other direction|].",
        "{name} [comes home|returns home|heads home|heads back|drives home|rides home|goes home|turns back|travels "
        "back] [the|by the|along the] same way.",
        f"{_THEN}{{name}} [drives|walks|cycles|travels|sails|rides|goes|heads|hurries] back by the [same|very "
        "same] [way|route|road|path].",
        "{name} [retraces|reverses|repeats in reverse] the [whole|entire] [way|route|journey|trip].",
        f"{_THEN}{{name}} [makes|takes|does] the [return trip|return journey|way back|journey back|trip home], "
        "[which is as long|just as long|of the same length][ again|].",
        f"{_THEN}{{name}} [returns|goes back|travels back|drives back] to the [start|starting point|place where it "
        "began] [by|along|on] the same [way|road|route].",
        "It is a [round trip|return trip]: {name} [goes|comes|travels] back the same way.",
        "{name} [goes|travels|drives] there and back, so the way counts [twice|double].",
        "The way [back|home] is [just as long|exactly as long|as long as the way there|of the same length].",
        "The [return|return trip|journey home|way home|trip back] is [just as long|exactly as long|the same again].",
        f"{_THEN}{{name}} [forgets something|has enough|is tired|misses home|turns round] and [goes|travels|drives|"
        "heads] [all the way back|the whole way back|back by the same way].",
        f"{_THEN}{{name}} [takes|uses|follows|goes] the [same|entire|whole] [road|way|route] [back|home|back home].",
        "The [whole|entire] [way|route|trip] is [covered|travelled|done|made] again in the other direction.",
        "{name} has to [return|come back|go back|get home] [by|along|on] the same [way|road|route].",
        "[This doubles the way|The way doubles|The distance doubles|That makes it twice as long], [for|since|"
        "because|as] {name} also [comes|goes|travels] back[ the same way|].",
        f"{_THEN}{{name}} [does|covers|goes|travels] the same [distance|way|route] back.",
        f"[At the end of the day|In the end|When all is done|After the visit]{_COMMA} {{name}} [goes|travels|"
        "drives|walks] home by the same way.",
    ),
    "trip days": (
        "[This|The same] is [done|travelled|driven] {k} times [by {name}|in all].",
        "In {k} [weeks|months] {name} [does|goes] all this [once in each|once each time].",
        "{name} does all of this on {k} days.",
        "{name} does all [this|that] {k} times.",
        "On {k} days {name} goes all this way.",
        "All of this is [repeated|done] so that {name} has done it {k} times.",
        "{name} [goes|travels] the whole of this {k} times.",
        "{name} [does|makes|covers|travels] [the whole way|all of this|the entire trip|the same way] on [each of |"
        "]{k} [days|mornings|Sundays|evenings].",
        "On [each|every one] of {k} [days|mornings|Mondays|weekends], {name} [does|makes|covers|travels] [the "
        "whole way|all of this|all this|the entire trip].",
        f"[Altogether|In all|In total]{_COMMA} {{name}} [makes|does|takes] this [trip|journey|tour|ride] {{k}} "
        "times.",
        "The [whole |entire |same |][trip|journey|tour|ride|way] is [made|done|gone|covered|travelled] {k} times[ "
        "in all| altogether|].",
        "{name} [commutes|travels|drives|goes] like this on {k} days.",
        "This [trip|journey|tour|route|round] is on {name}'s plan {k} times.",
        "{name} has to [do|make|cover|travel] [all this|the whole way|the same way|this trip] {k} times[ in all|].",
        "{k} times [in all |in total |]{name} [makes|does|travels|covers|goes] [all this|the whole way|the same "
        "way|this trip].",
        f"For {{k}} days[ in a row| running|]{_COMMA} {{name}} [does|makes|covers|travels] [this|all this|the "
        "whole way|the same trip] [every day|each day|once a day].",
        f"In [one week|a month|one summer|a year]{_COMMA} {{name}} [makes|does|goes on] this [trip|tour|journey|"
        "ride] {k} times.",
        "{k} such [trips|journeys|tours|rides] are [made|done|planned] [by {name}|in all|altogether].",
        "{name} [makes|does|plans|goes on] {k} such [trips|journeys|tours|rides] [in all|altogether|in total].",
        "All this happens {k} times[ in all| in total|].",
        "There are {k} such [trips|journeys|tours|days] [for {name}|in all|altogether].",
        "{name} is a [postman|courier|teacher|nurse|pupil|milkman|driver|clerk] and [does|makes|covers] [this|the "
        "whole way|all this] on {k} days.",
        "[It is the same|The same happens|The same trip is made] on {k} [days|mornings|evenings|weekends] [in all|"
        "altogether].",
        "The [bus|driver|pilot|postman|courier] [does|makes|covers|repeats] the whole way [until it is done|so "
        "that it is done] {k} times[ in all| in total|].",
        "[Count|Take|Reckon] the whole way {k} times, [because|as|since] {name} [makes|does|covers] it [so many "
        "times|that many times].",
        "[The school|Work|The job|A course|The club] [makes|has] {name} [do|make|travel|cover] all this {k} times[ "
        "in all| in total|].",
    ),
    "trip length": (
        "How many kilometres [is that|are that|is it] [in all|altogether|in total]?",
        "How [far|long] is the whole way, in kilometres?",
        "[Find|Say|Work out|Tell me] how many kilometres [that makes|{name} goes] [in all|in total].",
        "In total, how many kilometres does {name} [go|travel|make]?",
        f"How many {_KM} does {{name}} [cover|travel|go|make|drive|do|put behind|have to go] [in all|altogether|in "
        "total|in the end|all in all]?",
        f"[What|How long] is the [total|whole|entire] [way|route|trip|journey] in {_KM}?",
        "What is the [total|whole|entire|overall] [distance|length of the trip|length of the way|length of the "
        f"journey], in {_KM}?",
        "How far [does {name} go|does {name} travel|has {name} come|has {name} gone|is it] [in all|altogether|in "
        f"total], in {_KM}?",
        "[Calculate|Determine|Compute|Find out|Give|State|Write down|Report|Work out|Add up] the [total |whole |"
        f"][distance|way|length of the way|length of the trip] in {_KM}.",
        f"{_ASK} how many {_KM} [that makes|{{name}} covers|{{name}} travels|it is|the whole way has|the trip has] "
        "[in all|altogether|in total].",
        f"{_ASK} how far {{name}} [goes|travels|gets] [in all|altogether|in total], in {_KM}.",
        f"[Can|Could] you [tell me|work out|say|calculate] how many {_KM} [it is|that is|{{name}} goes|{{name}} "
        "covers] [in all|altogether|in total]?",
        f"How long is the [trip|journey|tour|route|ride|way] [in all|altogether|in total], in {_KM}?",
        f"To how many {_KM} does [this|the trip|the way|the journey] [come|add up|amount]?",
        f"How many {_KM} are [covered|travelled|done|gone] [in all|altogether|in total|by {{name}}]?",
        f"[After all that|At the end|All in all], how many {_KM} has {{name}} [covered|travelled|gone|made]?",
        f"The [total distance|whole way|length of the trip] in {_KM} is [wanted|asked for|to be found].",
        f"How many {_KM} long is the [whole |entire |][trip|journey|tour|route|way]?",
        f"How many {_KM} [does|will|would] the [odometer|milometer|counter|pedometer] show for [the whole way|all "
        "of this|the whole trip]?",
        "{name} [wants to know|asks|wonders|would like to know] how [long|far] [it is|the way is|the trip is] [in "
        f"all|altogether|in total], in {_KM}. [What is the answer|What do you say|Can you tell]?",
        f"Add [it all|everything|all the parts] up: how many {_KM} [is it|is that|are there]?",
    ),
    "trip fuel": (
        "With {l} litres [for|on] 100 kilometres, how many litres [does the whole way take|are burnt on the whole "
        "way]?",
        "A car [needs|uses|burns] {l} litres of fuel for 100 kilometres. How many litres [is that|are needed] for "
        "the whole way?",
        "How many litres of fuel does the whole way take if 100 kilometres take {l} litres?",
        "A lorry [needs|burns|uses] {l} litres [per|on] 100 kilometres. How many litres [does it burn|does it "
        "need] on the whole way?",
        "For 100 kilometres {l} litres of fuel are [needed|burnt|used]. How many litres is that in all?",
        "A [van|bus|truck|motorbike|taxi|boat|tractor|minibus] [needs|uses|burns|consumes|takes|swallows] {l} "
        f"litres [per|for|on|every] 100 {_KM}. How many litres [does it need|does it use|does it burn|is that|are "
        "used up] [for the whole way|on the whole way|for the whole trip|in all]?",
        f"The [consumption|fuel consumption|use of fuel] is {{l}} litres [per|for|on] 100 {_KM}. How many litres "
        "[is that|are burnt|are needed|go up in smoke|does the trip take|are used] [in all|for the whole way|on "
        "the whole trip]?",
        "If [a car|a van|a bus|the engine|the boat] [uses|burns|needs|consumes|takes] {l} litres [per|for|on] 100 "
        f"{_KM}, how many litres [does the whole way take|are needed in all|does the whole trip need|is that in "
        "all]?",
        f"At {{l}} litres [per|for] 100 {_KM}, how many litres [does the whole way take|are needed in all|does the "
        "whole trip need|are used up|must be in the tank]?",
        f"{_ASK} how many litres [the whole way takes|the whole trip takes|are needed in all] if 100 {_KM} take "
        "{l} litres.",
        "[Calculate|Find|Work out|Determine|Compute|Give] the [fuel|petrol|diesel] in litres for the whole [way|"
        f"trip] if {{l}} litres are [needed|used|burnt] [per|for] 100 {_KM}.",
        f"Every 100 {_KM} [take|cost|use up|burn] {{l}} litres of [fuel|petrol|diesel]. How many litres [is that|"
        "are needed] [for the whole way|in all|altogether]?",
        f"[The car|The van|The motor|The lorry] [runs|drives|goes] 100 {_KM} [on|with] {{l}} litres. How many "
        "litres [does it take|does it need|are needed] for the whole [way|trip|journey]?",
        f"{{l}} litres are enough for 100 {_KM}. How many litres [does the whole way take|are needed for the whole "
        "trip]?",
        f"{{name}} [fills up|buys fuel|goes by car|takes the van], and 100 {_KM} [take|need|use] {{l}} litres. How "
        "many litres [does the whole way take|are needed in all|does {name} use]?",
        "How many litres does {name} [buy|need|use|burn] for the whole way if the car [uses|needs|burns] {l} "
        f"litres [per|for|on] 100 {_KM}?",
    ),
    "trip cost": (
        "A [bus|van|lorry] [needs|takes] {l} litres for 100 kilometres, and each litre costs {p} euros. How many "
        "euros [is that|does the fuel cost] for the whole way?",
        "At {p} euros [a|per] litre and {l} litres [per|for] 100 kilometres, how many euros does the whole way "
        "cost?",
        "A car [needs|uses|burns] {l} litres for 100 kilometres at {p} euros a litre. How many euros is that [in "
        "all|for the whole way]?",
        "For 100 kilometres {l} litres are [needed|burnt], and a litre costs {p} euros. How many euros does the "
        "whole way cost?",
        "A litre of fuel costs {p} euros, and 100 kilometres take {l} litres. How many euros [is that|does {name} "
        "pay] [in all|for the whole way]?",
        "How many euros does the whole way cost if 100 kilometres take {l} litres and one litre costs {p} euros?",
        "[The car|The van|A truck|A motorbike|The bus|A taxi] [uses|burns|needs|consumes|takes] {l} litres [per|"
        f"for|on] 100 {_KM}, and [one litre|a litre|each litre|every litre] costs {{p}} euros. How many euros "
        "[does the whole way cost|is the fuel|does the fuel cost|does {name} pay for fuel|does the whole trip "
        "cost]?",
        "[Fuel|Petrol|Diesel] costs {p} euros [a|per] litre, and {l} litres are [needed|burnt|used] for 100 "
        f"{_KM}. How many euros [does the whole way cost|does {{name}} pay|is that in all|does the whole trip "
        "cost]?",
        f"With {{l}} litres [per|for|on] 100 {_KM} and a [fuel price|petrol price|price] of {{p}} euros [a|per] "
        "litre, how many euros does the whole [way|trip|journey] cost?",
        f"The consumption is {{l}} litres [per|for|on] 100 {_KM}, the price {{p}} euros [a|per] litre. [What|How "
        "much] does the whole [way|trip|journey] cost, in euros?",
        f"{_ASK} how many euros the fuel for the whole way costs if 100 {_KM} take {{l}} litres and a litre costs "
        "{p} euros.",
        "[Calculate|Find|Work out|Determine|Compute|Give] the cost of the whole [way|trip] in euros if {l} litres "
        f"are needed [per|for] 100 {_KM} and a litre costs {{p}} euros.",
        "{name} pays {p} euros [a|per|for a|for each] litre [of fuel |of petrol |]and [needs|uses|burns] {l} "
        f"litres [per|for|on] 100 {_KM}. How many euros does the whole [way|trip|journey] cost?",
        f"Every 100 {_KM} {{l}} litres are [used|burnt|needed], at {{p}} euros [a|per] litre. How many euros [is "
        "that|does {name} pay|must {name} pay] for the whole way?",
        f"{{l}} litres are [used|burnt|needed] on 100 {_KM}, and a litre [is|costs] {{p}} euros. How [much|"
        "expensive] is the whole way, in euros?",
        "What is the [price|cost] of the fuel for the whole way in euros, at {p} euros [a|per] litre and {l} "
        f"litres [per|for|on] 100 {_KM}?",
        "How many euros must {name} [pay|spend|set aside|put down] for the whole way if the car [uses|needs|burns] "
        f"{{l}} litres [per|for|on] 100 {_KM} and a litre costs {{p}} euros?",
        f"At the [petrol station|pump|filling station] a litre costs {{p}} euros, and 100 {_KM} take {{l}} litres. "
        "[What|How much] does {name} pay for the whole way, in euros?",
    ),
    "trip time": (
        "How many hours does the [same|whole] way take at {v} [kilometres an hour|kilometres per hour|km/h]?",
        "A [train|lorry|rider|ship] goes the same way at {v} [kilometres an hour|km/h]. How many hours [is that|"
        "does it take]?",
        "At {v} [kilometres an hour|km/h], how many hours are needed for the whole way?",
        "How long does the whole way take at {v} kilometres per hour, in hours?",
        "[A bus|A cyclist|A plane|A boat|A truck|A car|A runner|A horse|A tractor|A courier] [covers|goes|travels|"
        f"makes|does] the same way at {{v}} {_SPEED}. How many hours [is that|does it take|does that take|are "
        "needed|go by]?",
        f"[With|At] a speed of {{v}} {_SPEED}, how many hours does the whole [way|trip|journey|distance] [take|"
        "last|need]?",
        f"If {{name}} [goes|travels|drives|rides] the same way at {{v}} {_SPEED}, how many hours [is that|does it "
        "take|does that take|does {name} need]?",
        "How many hours would [it|the whole way|the same trip|the whole trip] take at [a speed of |]{v} "
        f"{_SPEED}?",
        f"The [whole|same|entire] [way|distance|trip] is [done|covered|travelled|driven] at {{v}} {_SPEED}. How "
        "many hours [is that|does it take|does that take]?",
        "[Calculate|Find|Work out|Determine|Compute|Give] the time in hours for the whole [way|trip|distance] at "
        f"{{v}} {_SPEED}.",
        f"{_ASK} how many hours the whole [way|trip|distance] takes at {{v}} {_SPEED}.",
        f"How long would a [bus|car|cyclist|coach|boat] need for the whole way at {{v}} {_SPEED}, in hours?",
        "After how many hours is [a bus|a car|somebody|a rider] [at the end of the whole way|done with the whole "
        f"way], going at {{v}} {_SPEED}?",
        f"{{name}}'s [friend|sister|brother|boss] [travels|drives|goes|rides] the same way at {{v}} {_SPEED}. How "
        "many hours [is that|does it take|does that take]?",
        f"At {{v}} {_SPEED}, [what time in hours|how much time in hours] does the whole [way|trip|distance] take?",
        "How many hours is [a bus|a car|a lorry|a rider|somebody] [on the way|on the road|travelling] that [goes|"
        f"does|covers] the whole way at {{v}} {_SPEED}?",
        f"Somebody else [goes|does|covers|drives|travels] the whole way at {{v}} {_SPEED}. [How many hours does it "
        "take|In how many hours|How many hours is that]?",
        f"How much time in hours [goes by|passes|is needed] [on|for] the whole way at {{v}} {_SPEED}?",
        "A [train|truck|skier|motorbike|jogger|sledge|camel|donkey cart] [needs|takes] how many hours for the "
        f"whole way at {{v}} {_SPEED}?",
        f"[Suppose|Say|Imagine] somebody [goes|drives|travels|covers] the whole way at {{v}} {_SPEED}: how many "
        "hours [does it take|is that|are needed]?",
    ),
    # areas
    "area wall": (
        "{name} [paints|covers|papers|cleans] a wall [of|that is] {a} by {b} metres.",
        "{name} [digs|sows|mows|fences] a [bed|lawn|plot] [of|that is] {a} by {b} metres.",
        "A [wall|carpet|yard|roof] of {name} is {a} metres long and {b} metres [wide|broad].",
        "{name} has a [field|terrace|hall|garden] of {a} metres by {b} metres.",
        "The [room|court|lawn|sail] that {name} [works on|looks after] is {a} by {b} metres.",
        "{name} [tiles|plasters|washes|decorates|whitewashes|insulates|wallpapers|lines|builds|measures] a [wall|"
        "ceiling|front] [of|that is|measuring] {a} by {b} metres.",
        "{name} [plants|weeds|waters|rakes|seeds|ploughs|turfs|paves|clears|measures] a [garden|field|bed|lawn|"
        "yard|meadow|plot] [of|that is|measuring] {a} by {b} metres.",
        "{name} [buys|rents|owns|sells|inherits|looks after] a [plot|field|garden|car park|meadow|vineyard] of {a} "
        "by {b} metres.",
        "A [garden|stage|patio|ceiling|playground|pitch|tent|platform|pool|banner|deck|tarpaulin] [belonging to|"
        "owned by|of] {name} [is|measures] {a} by {b} metres.",
        "{name}'s [garden|lawn|patio|yard|room|living room|stage|workshop|hall|pool|shed|barn] [is|measures] {a} "
        "metres by {b} metres.",
        "{name}'s [garden|lawn|patio|yard|room|ceiling|workshop|hall|barn|meadow] is {a} metres long and {b} "
        "metres [wide|broad].",
        "{name}'s [garden|patio|yard|room|kitchen|workshop|hall] has a length of {a} metres and a width of {b} "
        "metres.",
        "The length of {name}'s [lawn|room|yard|terrace|plot|garden] is {a} metres, and the width is {b} metres.",
        "With a width of {b} metres and a length of {a} metres, {name}'s [lawn|room|yard|terrace|hall] [is to be "
        "covered|is to be painted|has to be cleaned|lies before us].",
        "A [painter|gardener|builder|tiler|farmer|caretaker|roofer|cleaner] [called|named] {name} works on a [wall|"
        "floor|surface|piece] of {a} by {b} metres.",
        "{name} [lays a carpet|puts down tiles|rolls out turf|spreads gravel|lays boards] in a [room|hall|yard|"
        "court|corner] of {a} by {b} metres.",
        f"[First|At first|To begin with|On Monday]{_COMMA} {{name}} [paints|covers|cleans|mows|measures|tiles] [an "
        "area|a surface|a piece|a part] of {a} by {b} metres.",
        "There is a [room|lawn|wall|terrace|yard|hall|ceiling] of {a} by {b} metres [for {name} to do|that {name} "
        "has to do|at {name}'s].",
        "{name} [draws|marks out|plans|fences in] a [rectangle|court|garden|field] of {a} by {b} metres.",
        "{a} metres long and {b} metres [wide|broad] is the [lawn|yard|room|floor|sail|wall] [of {name}|that "
        "{name} works on|that {name} looks after].",
        "{name} [needs|orders|sews|cuts] a [cloth|sheet|carpet|net|cover|tarpaulin] of {a} by {b} metres.",
        f"On a plan{_COMMA} {{name}}'s [room|garden|hall|terrace] is {{a}} by {{b}} metres.",
    ),
    "area floor": (
        "{name} [tiles|sweeps|paints|covers] a floor that is {a} metres long and {c} centimetres wide.",
        "{name} has a [strip|path|corridor|cloth] {a} metres long and {c} [centimetres|cm] wide.",
        "A [path|shelf|carpet|hall] of {name} is {c} centimetres wide and {a} metres long.",
        "{name} [cleans|lays|oils] a floor of {a} metres by {c} [centimetres|cm].",
        "The [corridor|bridge|path] that {name} [works on|looks after] has a length of {a} metres and a width of "
        "{c} centimetres.",
        "{name} [polishes|washes|mops|scrubs|waxes|sands|varnishes|renovates|oils|carpets] a floor that is {a} "
        "metres long and {c} [centimetres|cm] wide.",
        "{name} [paves|sweeps|clears|builds|digs|plants|measures|grits] a [path|strip|bed|track|lane|pavement] {a} "
        "metres long and {c} [centimetres|cm] wide.",
        "A [strip|lane|counter|ribbon|banner|plank|ramp|hallway|balcony|bed|hedge|rug] of {name}'s is {a} metres "
        "long and {c} [centimetres|cm] wide.",
        "{name}'s [corridor|hallway|balcony|bridge|path|aisle|cellar] has a length of {a} metres and a width of "
        "{c} [centimetres|cm].",
        "{name}'s [corridor|hallway|balcony|path|aisle|passage] is {c} [centimetres|cm] [wide|broad] and {a} "
        "metres long.",
        "With a length of {a} metres and a width of {c} [centimetres|cm], {name}'s [hallway|path|balcony|strip|"
        "floor] [is to be done|is to be tiled|has to be cleaned|lies before us].",
        "The width of {name}'s [hallway|path|balcony|strip|floor|bed] is {c} [centimetres|cm], and the length is "
        "{a} metres.",
        "{c} [centimetres|cm] wide and {a} metres long is the [path|corridor|strip|floor|cloth] [of {name}|that "
        "{name} works on|that {name} looks after].",
        "A [tiler|gardener|builder|cleaner|caretaker|painter] [called|named] {name} works on a [path|floor|"
        "corridor|strip] of {a} metres by {c} [centimetres|cm].",
        "{name} [needs|orders|sews|cuts|unrolls] a [cloth|carpet|rug|runner|ribbon|banner] of {a} metres by {c} "
        "[centimetres|cm].",
        f"[First|At first|To begin with]{_COMMA} {{name}} [paints|covers|cleans|tiles|lays] a [floor|path|strip|"
        "corridor] of {a} metres by {c} [centimetres|cm].",
        "{name} [rolls out|lays|spreads] a [carpet|runner|mat] that is {a} metres long and {c} [centimetres|cm] "
        "wide.",
        "There is a [floor|path|strip|hallway] of {a} metres by {c} [centimetres|cm] [for {name} to do|that {name} "
        "has to do|at {name}'s].",
    ),
    "area without": (
        "{name} [spares|skips|omits] a [corner|strip|square|panel] of {d} by {e} metres.",
        "A part of {d} by {e} metres is [left out|left as it is|not done|taken away].",
        "[But a|A] [corner|window|door|hole] of {d} by {e} metres [is left out|is not counted|has to be taken off].",
        "{name} [leaves out|does not do|cuts out|takes away] a [piece|part] of {d} by {e} metres.",
        "A [hole|pond|pillar|rug], {d} metres long and {e} metres wide, is [left out|not counted].",
        "A [window|door|cupboard|pillar|flower bed|pond|fireplace|tree|carpet|bath|stage|stove] [of|measuring|that "
        "takes] {d} by {e} metres [is left out|is not counted|has to be taken off|is spared|is skipped|stays as it "
        "is].",
        "{name} [leaves out|leaves free|excludes|subtracts|takes off|does not count|avoids|works around] a [window|"
        "door|cupboard|patch|bed|strip|corner|square] of {d} by {e} metres.",
        "[A part|A piece|A section|An area|A rectangle|A spot|A patch] of {d} by {e} metres [does not count|is "
        "excluded|is cut out|is left free|is not needed|is not part of it|is subtracted|stays bare|falls away].",
        "From this, {name} [takes off|takes away|subtracts|deducts|cuts off] a [piece|part|corner|strip|rectangle] "
        "of {d} by {e} metres.",
        "{name} does not [do|cover|touch|count|paint|need] a [piece|part|corner|strip|spot] of {d} by {e} metres.",
        "[Except for|Apart from|Without] a [corner|strip|window|door|pond|square] of {d} by {e} metres, [all of it|"
        "everything|all] [counts|is done|is to be done|is covered].",
        "[Nothing is done on|Nothing is laid on|Not counted is|Left out is|Left free is] a [corner|strip|patch|"
        "square|piece] of {d} by {e} metres.",
        "The area [shrinks|gets smaller|is reduced|becomes smaller] by a [piece|corner|strip|part|window] of {d} "
        "by {e} metres.",
        "In [it|the middle|one corner] there is a [pond|pillar|hole|door|hatch|well|tree] of {d} by {e} metres, "
        "which [is left out|is not counted|is spared|does not count].",
        "{name} [gives away|sells|loses|gives up] a [piece|part|corner|strip] of {d} by {e} metres.",
        "A [wardrobe|bench|machine|shelf|piano] stands on {d} by {e} metres, and [there nothing is done|this part "
        "is left out|that piece is not counted].",
        "One has to [subtract|take off|deduct|leave out] a [piece|part|door|window|corner] of {d} by {e} metres.",
    ),
    "area and": (
        "Another part of {d} by {e} metres [comes to it|is added|is done too].",
        "{name} [adds|does|has to do] [another|one more] [part|piece|corner] of {d} by {e} metres[ as well|].",
        "[Also|In addition,] a [strip|patch|step] of {d} by {e} metres is [added|done|counted].",
        "A second [piece|part|bit], {d} metres long and {e} metres wide, is added.",
        "[Another|One more|A further|An extra|A second] [wall|corner|strip|square|bit|section|area|bed|niche|patch|"
        "room|piece] of {d} by {e} metres [is added|comes to it|is done too|has to be done as well|is included|"
        "comes on top|follows].",
        "{name} [paints|covers|cleans|does|takes on|includes|buys|plans|measures] [another|one more|a further|an "
        "extra] [piece|part|bit|section|corner|strip|patch] of {d} by {e} metres.",
        "[Also|In addition,|Besides,|As well,|On top of that,] {name} [does|adds|covers|works on|includes|takes "
        "on] a [piece|part|niche|corner|strip|patch] of {d} by {e} metres.",
        "[Also|In addition,|Besides,|Furthermore,|On top of that,] there is a [piece|part|niche|corner|strip|porch|"
        "bay|hall|step] of {d} by {e} metres[ to be done|].",
        "A [niche|porch|corridor|hall|balcony|bay|closet|side wall] of {d} by {e} metres is [added|included|"
        "counted too|done as well|to be done too].",
        f"To this{_COMMA} {{name}} adds [a piece|a part|a strip|a square|an area] of {{d}} by {{e}} metres.",
        "The area [grows|gets larger|is increased|becomes larger|is extended] by a [piece|part|strip|niche|corner] "
        "of {d} by {e} metres.",
        "{name} [extends|enlarges|widens|increases] it by a [piece|part|strip|square|corner] of {d} by {e} metres.",
        "There is [another|one more|an additional|also a] [piece|part|strip|corner|spot] of {d} by {e} metres[ to "
        "do| to cover|].",
        f"Together with it{_COMMA} a [piece|part|strip|corner|patch] of {{d}} by {{e}} metres is [done|covered|"
        "counted].",
        "Next to it [is|lies|comes] [another|a second|one more] [piece|part|strip|bed|area] of {d} by {e} metres "
        "that [counts too|is also done|is done as well].",
        "[Do not forget|Count in|Include] [another|one more] [piece|part|corner|strip] of {d} by {e} metres.",
    ),
    "area rooms": (
        "[The house|The school|The building] has {k} such [rooms|areas].",
        "{name} [looks after|works on] {k} such [rooms|places|areas].",
        "There are {k} such [rooms|places|areas|pieces].",
        "{name} does this in {k} [rooms|houses|places].",
        "All this is there {k} times.",
        "[Altogether|In all] there are {k} of the same kind.",
        "{k} [rooms|places] of just this size are to be done.",
        "{name} [has|owns|does|cleans|has to do|manages|takes care of|measures] {k} such [rooms|areas|places|"
        "pieces|surfaces].",
        "[The hotel|The hospital|The office|The castle|The factory|The street|The town|The park] has {k} such "
        "[rooms|areas|places|pieces].",
        f"[Altogether|In all|In total|All in all]{_COMMA} there are {{k}} such [rooms|areas|places|pieces|"
        "surfaces].",
        f"[Altogether|In all|In total|All in all]{_COMMA} {{name}} [does|works on|has|looks after] {{k}} of these.",
        "{k} such [rooms|areas|places|pieces] [exist|are there|have to be done|are needed|are planned|are waiting].",
        "{name} does [all this|the same|all of this|exactly this] {k} times[ over| in all|].",
        "All of this is [done|needed|wanted|to be counted] {k} times.",
        "There are {k} [identical|equal] [rooms|areas|pieces|surfaces] of this [size|kind|sort] [altogether|in "
        "all].",
        "The same [size|area|surface] is [needed|there|found|wanted|done] {k} times[ in all| altogether|].",
        "The [area|whole area] has to be multiplied by {k}.",
        "{name} has {k} [rooms|halls|houses|flats|places] [of|with] exactly this area[ in all| altogether|].",
        "{k} [houses|flats|schools|halls|families|floors] have one such [area|room|place] each[, and all are to be "
        "done|].",
        "This is [one|just one] of {k} [equal|identical|such] [rooms|areas|places|pieces], and all of them [count|"
        "are to be done|are {name}'s job|have to be done].",
        "It is the same in {k} [rooms|houses|places|halls|flats], and all of them [count|are done].",
        "[The client|The owner|The boss|The plan|The landlord] [wants|orders|asks for|needs|demands] {k} such "
        "[rooms|areas|pieces|places].",
        f"[Upstairs and downstairs|In the building|On this street|Here|In the whole block]{_COMMA} there are {{k}} "
        "such [rooms|areas|places].",
        "{name} [repeats|does] [this|the work|the job] until {k} such [rooms|areas|places|pieces] are done.",
        "[Neighbours want the same|It is a big order|The house is large|A school orders it]: {k} such [rooms|areas|"
        "pieces|places][ in all| altogether|].",
        "[Count|Take|Reckon] [this|the area|all this] {k} times[ in all|].",
    ),
    "area waste": (
        f"To be safe {{name}} [reckons with|adds|takes|plans] {{t}}{_PERCENT} more.",
        f"[Then|Also|In addition,] {{t}}{_PERCENT} [is added|are added|comes on top][ for mistakes|].",
        "{name} [makes|wants] it {t}[ percent|%] larger.",
        f"The area [grows|goes up|rises] by {{t}}{_PERCENT}.",
        f"{{name}} [orders|buys|needs|calculates with|allows for|reserves|asks for] {{t}}{_PERCENT} more[ than "
        "that| to be safe| for waste|].",
        f"For [waste|cuts|breakage|mistakes|offcuts|safety|spares]{_COMMA} {{name}} [adds|reckons with|takes|"
        f"orders|allows|plans] {{t}}{_PERCENT} more.",
        f"{_THEN}[an extra|an additional|a reserve of|a surplus of] {{t}}{_PERCENT} is [added|included|planned|"
        "needed][ for waste| for safety| for mistakes|].",
        f"A [reserve|margin|surplus|supplement] of {{t}}{_PERCENT} is [added|included|planned|needed|put on top].",
        "The [area|size|whole] [increases|is increased|is enlarged|grows|becomes larger|is raised|gets larger|"
        f"swells] by {{t}}{_PERCENT}.",
        f"{{name}} [enlarges|increases|extends|raises] the [area|whole|size] by {{t}}{_PERCENT}.",
        f"{{t}}{_PERCENT} [is|has to be] [added|put on top|allowed|included] for [waste|offcuts|mistakes|breakage].",
        f"[One|You|{{name}}] must [add|allow|plan|include] {{t}}{_PERCENT} for [waste|offcuts|mistakes|breakage].",
        f"Because of [waste|offcuts|mistakes|breakage]{_COMMA} it [has to be|is made|becomes|should be] "
        f"{{t}}{_PERCENT} [more|larger].",
        f"It [turns out|proves|is found] to be {{t}}{_PERCENT} larger[ than thought|].",
        f"The area is then [made|planned|reckoned] {{t}}{_PERCENT} larger.",
        f"With {{t}}{_PERCENT} [on top|more|extra][ for waste|], {{name}} is on the safe side.",
        "[The seller|The shop|The boss|A friend|An expert|The handbook|The plan] [says|advises|tells {name}|"
        f"recommends] to [add|take|plan] {{t}}{_PERCENT} more, [and {{name}} does so|which is done|and so it is "
        "done].",
        "[Some of it will break|Some will be cut off|Some gets lost|Edges are cut off], so {name} [adds|takes|"
        f"orders|plans] {{t}}{_PERCENT} more.",
        f"{_THEN}the [owner|boss|family|customer] wants it {{t}}{_PERCENT} larger[, and so it is|, and gets it|].",
        f"{{t}}{_PERCENT} more [is wanted|is needed|are wanted|is ordered][ than that| to be safe| for waste|].",
    ),
    "area size": (
        "How many square metres [is that|are that|does that make|is it][ in all| altogether|]?",
        "How [large|big] is [it|the whole area|all that], in square metres?",
        "[Find|Say|Work out|Tell me] how many square metres that is[ in all|].",
        "[Give|Find|Work out] the [whole |]area in square metres.",
        "How many square metres does {name} [have|work on|do|cover|need|reckon with|have to do] [in all|altogether|"
        "in total|in the end|now]?",
        "What is the [total |whole |final |entire |resulting |overall ]area in square metres?",
        "[Calculate|Determine|Compute|Find out|State|Write down|Report|Name|Work out] the [total |whole |final |"
        "entire |]area in square metres.",
        f"{_ASK} how many square metres [that makes|it is|there are|{{name}} has|are to be done|are needed] [in "
        "all|altogether|in total].",
        f"{_ASK} how [large|big] the [whole |total |]area is, in square metres.",
        "[Can|Could] you [tell me|work out|say|calculate] how many square metres [it is|that is|there are] [in all|"
        "altogether|in total]?",
        "How many square metres are [there|needed|to be done|covered|left to do|wanted] [in all|altogether|in "
        "total]?",
        "How [large|big|great] is the [area|surface|total|whole] [in all|altogether|in total|in the end|now], in "
        "square metres?",
        "To how many square metres does [this|it|the area] [come|add up|amount]?",
        "The [total area|whole area|area|size] in square metres is [wanted|asked for|to be found].",
        "[After all that|At the end|All in all], how many square metres [is it|are there|is that]?",
        "[What|How much] is [it|that] [in all|altogether|in total], in square metres?",
        "What size is the [whole |total |]area, in square metres?",
        "How much area is [that|it|there] [in all|altogether], in square metres?",
        "{name} [wants to know|asks|wonders|would like to know] how [large|big] it is [in all|altogether|in "
        "total], in square metres. [What is the answer|What do you say|Can you tell]?",
        "How many square metres [does|will|would] the [bill|plan|map|contract|report] show [in all|altogether|in "
        "total]?",
    ),
    "area price": (
        "At {p} euros [a|per] square metre, how many euros [is that|does all of it cost|does {name} pay]?",
        "The price [of one|per|of a] square metre is {p} euros. How many euros is that [in all|altogether]?",
        "A square metre costs {p} euros. How many euros is that [in all|altogether|for the whole area]?",
        "[Each|Every|One] square metre costs {p} euros. [What|How much] does all of it cost, in euros?",
        "How many euros does the whole area cost if [one|a] square metre costs {p} euros?",
        "{name} pays {p} euros [per|for each] square metre. How many euros [is that|does {name} pay]?",
        "[Carpet|Turf|The work|The material|Parquet|Land|Cleaning|Cloth|Paving|Painting] costs {p} euros [a|per|"
        "for each|for every] square metre. How many euros [is that|does {name} pay|is the bill|does all of it cost|"
        "are due]?",
        "A [craftsman|company|gardener|shop|painter|tiler|cleaner|builder] [takes|asks|charges|wants|demands] {p} "
        "euros [a|per|for each|for every] square metre. How many euros [is that|does {name} pay|is the bill|does "
        "all of it cost|is that in all]?",
        "For [each|every|one|a] square metre {name} [pays|spends|gets|receives|is paid|earns|charges] {p} euros. "
        "How many euros is that [in all|altogether|in total]?",
        "If [a|one|each|every] square metre [costs|is sold for|comes to] {p} euros, how many euros does [all of it|"
        "the whole area|the whole thing|everything] cost?",
        "With [a price|costs] of {p} euros [a|per] square metre, how many euros [is that|does all of it cost|does "
        "{name} pay|must {name} pay]?",
        "[Calculate|Find|Work out|Determine|Compute|Give] the [price|cost] of the whole area in euros at {p} euros "
        "[a|per] square metre.",
        f"{_ASK} how many euros all of it costs at {{p}} euros [a|per] square metre.",
        "At {p} euros [a|per|for each] square metre, [what|how much] does [all of it|the whole area|the job|"
        "everything] cost, in euros?",
        "[What|How much] does {name} [pay|spend|owe] in euros if [a|one|each] square metre costs {p} euros?",
        "[The cost|The price|The fee|The rent|The wage] is {p} euros [a|per|for each] square metre. How many euros "
        "is that [in all|altogether|in total]?",
        "{name} [sells|lets|rents out|does] it all for {p} euros [a|per] square metre. How many euros [is that|"
        "does {name} get|come in]?",
        "How [expensive|much] is [all of it|the whole area], in euros, at {p} euros [a|per] square metre?",
        "[What|How much] must be paid in euros for the whole area if [one|a] square metre is {p} euros?",
        "A [bill|offer|catalogue|sign] says {p} euros [a|per] square metre. How many euros is that [in all|"
        "altogether|for the whole area]?",
    ),
    "area paint": (
        "With one litre {name} [covers|paints] {k} square metres. How many litres are needed?",
        "A litre is enough for {k} square metres. How many litres are needed?",
        "One litre [of paint|of oil] [covers|is enough for|goes over] {k} square metres. How many litres [does "
        "{name} need|are used up|have to be bought]?",
        "How many litres are needed if [one|a] litre is enough for {k} square metres?",
        "{k} square metres take one litre. How many litres [does the whole area take|is that]?",
        "[A|One] litre [of paint |of varnish |of oil |of glue |of stain |]is [enough|sufficient|needed|used up] "
        "for {k} square metres. How many litres [does {name} need|does {name} use|are needed|must {name} buy|is "
        "that]?",
        "[A|One|Each|Every] litre [of paint |of varnish |of glue |of cleaner |][covers|paints|lasts for|reaches "
        "for|does] {k} square metres. How many litres [does {name} need|does {name} use|are needed|must {name} buy|"
        "are used up]?",
        "If [a|one|each] litre [covers|paints|lasts for|does] {k} square metres, how many litres [does {name} need|"
        "are needed|must be bought|are used up|does the whole area take]?",
        "{name} [uses|needs|takes|spreads] one litre [of paint |of varnish |of seal |of oil |]for {k} square "
        "metres. How many litres [is that|does {name} need|are needed] [in all|altogether|for the whole area]?",
        "The label says: one litre for {k} square metres. How many litres [does {name} need|are needed|must {name} "
        "buy]?",
        "[Calculate|Find|Work out|Determine|Compute|Give] the number of litres that [the whole area takes|are "
        "needed|{name} needs] if one litre [covers|is enough for] {k} square metres.",
        f"{_ASK} how many litres are needed if one litre [covers|is enough for|does] {{k}} square metres.",
        "For {k} square metres one litre [is needed|is used|is enough|has to be bought]. How many litres [is that|"
        "are needed|does {name} need] [in all|altogether|for the whole area]?",
        "{k} square metres [need|use up|require] [one|a] litre. How many litres [does the whole area need|are "
        "needed in all|does {name} use]?",
        "With [one|a] litre [one|you|a painter|a roller] can [paint|cover|do|treat] {k} square metres. How many "
        "litres [does {name} need|are needed|are used up]?",
        "How many litres [must|should] {name} [buy|order|get|mix|fetch] if a litre [covers|is enough for|lasts for|"
        "does] {k} square metres?",
        "A [tin|bucket|can|pot] of one litre [covers|is enough for|lasts for|does] {k} square metres. How many "
        "litres [does {name} need|are needed|must {name} buy]?",
    ),
    # cooking
    "food has": (
        "{name} [has|takes|buys|weighs|keeps] {g} [grams|g] of {food}[ at home|].",
        "[There are|There lie] {g} grams of {food} in the [kitchen|bowl|cupboard|pot] of {name}.",
        "A [bag|tin|bowl|packet] of {name} [holds|has] {g} [grams|g] of {food}.",
        "{name} [puts|tips|shakes] {g} grams of {food} into a [bowl|pot|pan|mixer].",
        "{name} [owns|has got|finds|gets|receives|opens|measures out|starts with|is given|prepares|grinds|chops] "
        "{g} [grams|g] of {food}[ for dinner| for a cake| at work| in the pantry|].",
        "[A cook|A baker|A chef|A student|A waiter|A mother|A butcher|A grandfather|A shopkeeper|A pupil] [called|"
        "named] {name} [has|uses|takes|buys|weighs out] {g} [grams|g] of {food}.",
        "[There are|There were] {g} [grams|g] of {food} [in {name}'s kitchen|in {name}'s pantry|in {name}'s fridge|"
        "on {name}'s table|on {name}'s scales].",
        "{name}'s [kitchen|fridge|pantry|shelf|jar|bowl|sack|larder|lunch box|tin] [holds|contains|has] {g} [grams|"
        "g] of {food}.",
        f"[At first|To begin with|At the beginning|Initially|In the morning]{_COMMA} {{name}} has {{g}} [grams|g] "
        "of {food}.",
        f"[At first|To begin with|At the beginning|Initially]{_COMMA} there are {{g}} [grams|g] of {{food}} in the "
        "[bowl|pot|jar|pan|sack].",
        "{name} goes to the [shop|market|mill|baker] and [buys|gets|fetches|comes back with] {g} [grams|g] of "
        "{food}.",
        "{g} [grams|g] of {food} [lie|are|wait|stand] [on the scales|in the bowl|in the pot|on the table] in "
        "{name}'s kitchen.",
        "{g} [grams|g] of {food} [belong to|are bought by|are weighed by] {name}.",
        "[Suppose|Imagine|Say|Assume|Let us say] that {name} has {g} [grams|g] of {food}.",
        "The [label|list|recipe book|balance] [shows|says|tells us] that {name} has {g} [grams|g] of {food}.",
        "[My|Our] [friend|neighbour|cousin|colleague] {name} [has|buys|keeps] {g} [grams|g] of {food}.",
        "{name} [pours|drops|empties|weighs|sifts] {g} [grams|g] of {food} into a [dish|jar|kettle|tray|jug].",
        "Amount of {food} [that {name} has|in {name}'s kitchen|at the start]: {g} [grams|g].",
        "{name} [makes|cooks|bakes] [a dish|a cake|lunch|dinner|a pie] and [takes|uses|needs] {g} [grams|g] of "
        "{food}.",
        "{name}, who [likes to cook|runs a bakery|plans a party|works in a canteen], has {g} [grams|g] of {food}.",
        f"With {{g}} [grams|g] of {{food}}{_COMMA} {{name}} [starts to cook|begins|starts a meal|starts baking].",
    ),
    "food recipe": (
        "{k} people [need|eat|get] {g} [grams|g] of {food}; {name} [cooks|plans] a meal for {b} people.",
        "A [recipe|dish|meal|soup] for {k} people needs {g} [grams|g] of {food}, and {name} cooks for {b} people.",
        "{name} cooks for {b} people with a recipe that [needs|asks for] {g} grams of {food} for {k} people.",
        "For {k} people one takes {g} grams of {food}; {name} [cooks|bakes] for {b} people.",
        "{g} grams of {food} [are enough|serve|do] for {k} people. {name} cooks [the right amount |]for {b} people.",
        "A [recipe|cake|stew|pie|salad|pudding|breakfast|sauce|menu] for {k} [people|guests|persons|children|"
        "eaters] [takes|requires|calls for|asks for|uses] {g} [grams|g] of {food}. {name} [cooks|makes it|prepares "
        "it] for {b} [people|guests|persons|children].",
        "{name} [makes|prepares|bakes|cooks|serves] a [dish|meal|lunch|dinner|supper|dessert] for {b} [people|"
        "guests|friends|persons], and the recipe [takes|needs|says|gives] {g} [grams|g] of {food} for {k} [people|"
        "persons].",
        "For {k} [persons|people|servings|portions|plates] [you need|the cook needs|the book says|it takes|the "
        "recipe says] {g} [grams|g] of {food}. {name} [wants|makes|needs|plans] enough for {b}.",
        "{g} [grams|g] of {food} [feed|satisfy|are served to|make a meal for] {k} [people|guests|children]. {name} "
        "[invites|expects|has to feed|cooks for] {b} [people|guests|friends] and takes the right amount.",
        "If {k} [people|guests|pupils|children] [eat|need|use up] {g} [grams|g] of {food}, then {name} takes what "
        "{b} [of them |]need.",
        "For {b} [people|guests|friends|visitors] {name} [cooks|bakes|plans a meal|lays the table], and {k} "
        "[people|persons] [need|eat|get] {g} [grams|g] of {food}.",
        "The [recipe|cookbook|list] [gives|states|names|says] {g} [grams|g] of {food} for {k} [people|portions|"
        "servings|persons]; {name} [makes|needs|wants|cooks|prepares] {b} [portions|servings].",
        "{k} [portions|servings|plates|bowls|helpings] [need|take|contain|hold|use up] {g} [grams|g] of {food}. "
        "{name} [makes|prepares|cooks|serves|fills] {b}.",
        "{k} [cakes|pies|loaves|pancakes|pizzas|buns] [need|take|contain|use up] {g} [grams|g] of {food}. {name} "
        "[makes|bakes|prepares] {b}.",
        "From {g} [grams|g] of {food} one [makes|bakes|gets] {k} [cakes|pies|buns|pancakes|rolls]. {name} [makes|"
        "bakes|needs|wants] {b}.",
        "To [bake|make] {k} [cakes|pies|buns|pancakes|rolls], {name} [needs|takes|uses] {g} [grams|g] of {food}, "
        "but {name} [makes|bakes|wants] {b}.",
        "A recipe with {g} [grams|g] of {food} [serves|is for|feeds|is enough for] {k} [people|persons|guests]. "
        "{name} [changes|adapts|scales] it [to|for] {b} [people|persons|guests].",
        "With {g} [grams|g] of {food} for {k} [people|persons|guests], {name} [cooks|bakes|makes a meal] for {b}.",
    ),
    "food more": (
        f"{_THEN}{{name}} [adds|buys|gets|puts in] {{s}} [kilograms|kg] of {{food}}.",
        "{s} [kilograms|kg] of {food} are [added|bought|put in] by {name}.",
        "[Then|Later|Next] {s} more [kilograms|kg] of {food} [arrive|are added|come in].",
        "{name}'s [sister|guest|mother|cook] [brings|adds|gives] {s} kilograms of {food}.",
        f"{_THEN}{{name}} [purchases|fetches|obtains|receives|is given|stirs in|pours in|mixes in|finds|borrows|"
        "orders|throws in|brings] [another|a further|an additional] {s} [kilograms|kg] of {food}.",
        f"{_THEN}{{name}} [adds|buys|gets|puts in|tips in|takes] [another|a further|an extra] {{s}} [kilograms|kg] "
        "of {food}.",
        f"{_THEN}[a|one] [friend|neighbour|cousin|sister|brother|guest|cook|baker|farmer|waiter|grocer] [brings|"
        "gives|sends|lends|hands|sells] {name} {s} [kilograms|kg] of {food}.",
        f"{_THEN}{{name}}'s [brother|neighbour|aunt|uncle|father|friend|partner|grandmother] [brings|adds|gives|"
        "contributes|puts in|sends|buys] [another |a further |]{s} [kilograms|kg] of {food}.",
        f"{_THEN}the [amount|stock|supply|quantity|weight] of {{food}} [grows|rises|goes up|increases|is increased|"
        "is raised] by {s} [kilograms|kg].",
        f"{_THEN}[a delivery|a parcel|a sack|a bag|a shipment|a box] [of|with] {{s}} [kilograms|kg] of {{food}} "
        "[arrives|comes in|is delivered|is brought|is added|is opened].",
        f"{_THEN}{{s}} [more |]kilograms of {{food}} are [delivered|brought|purchased|poured in|tipped in|mixed in|"
        "stirred in|given to {name}].",
        "{name} [goes to|visits|drives to|runs to] the [shop|market|mill|baker|supermarket] and [comes back with|"
        "returns with|buys|gets] [another|a further] {s} [kilograms|kg] of {food}.",
        "It is [not enough|too little], so {name} [buys|gets|adds|fetches|borrows] [another |]{s} [kilograms|kg] "
        "of {food}.",
        "There [comes a bag|comes a sack|comes a parcel|follows a bag] of {s} [kilograms|kg] of {food}[ on top|].",
        f"As a [present|gift|prize]{_COMMA} {{name}} [gets|is given|receives] {{s}} [kilograms|kg] of {{food}}.",
        "{name} has {s} [kilograms|kg] of {food} more than before.",
        "In the [cellar|cupboard|pantry|fridge|freezer] {name} [finds|discovers|has] [another|a further] {s} "
        "[kilograms|kg] of {food}.",
    ),
    "food spoons": (
        "[Then|Next|Later|Afterwards] {name} adds {a} spoons of {food}, {b} grams each.",
        "{name} [adds|puts in|takes] {a} [spoons|scoops|handfuls|pinches] of {food} with {b} grams each.",
        "{a} [spoons|scoops|portions] of {b} grams of {food} each are added[ by {name}|].",
        "{a} times {name} [adds|puts in] {b} grams of {food}.",
        f"{_THEN}{{name}} [stirs in|mixes in|throws in|tips in|pours in|drops in|sprinkles in|adds|puts in] {{a}} "
        "[spoons|spoonfuls|scoops|cups|ladles|handfuls|portions|measures|packets] of {food}, [each of|each with|"
        "each weighing|each holding] {b} [grams|g].",
        f"{_THEN}{{name}} [stirs in|mixes in|throws in|tips in|adds|puts in|buys] {{a}} [bags|cups|packets|cubes|"
        "slices|pieces|tins|cans|sachets] of {food} [of|with|at] {b} [grams|g] each.",
        f"{_THEN}{{a}} [spoonfuls|scoops|cups|handfuls|packets|bags|pieces|ladles] of {{food}} [are added|are "
        "stirred in|are put in|go in|follow|are mixed in|are thrown in], [each of|each with|each weighing] {b} "
        "[grams|g].",
        "A [spoon|spoonful|scoop|cup|handful|packet] [holds|has|weighs] {b} [grams|g], and {name} [adds|puts in|"
        "stirs in|throws in] {a} of {food}.",
        "{a} [friends|guests|cooks|neighbours|children|aunts] [bring|add|give|contribute] {b} [grams|g] of {food} "
        "each.",
        "{a} times [in a row |]{name} [stirs in|throws in|pours in|tips in|sprinkles in|adds] {b} [grams|g] [more |"
        "]of {food}.",
        "Each of {a} [spoons|cups|scoops|packets|handfuls|ladles] that {name} adds [holds|has|weighs|contains] {b} "
        "[grams|g] of {food}.",
        "For each of {a} [guests|plates|portions|people|friends|pies] {name} [adds|puts in|stirs in] {b} [grams|g] "
        "[more |]of {food}.",
        f"On each of {{a}} days{_COMMA} {{name}} [buys|adds|gets|saves] [another |]{{b}} [grams|g] of {{food}}.",
        f"With {{a}} [spoons|cups|scoops|handfuls|packets] of {{b}} [grams|g] each{_COMMA} {{name}} [adds to|"
        "increases|tops up|enriches] the {food}.",
        "The [recipe|cook|chef|book] [asks for|wants|calls for|demands] {a} more [spoons|cups|scoops|handfuls] of "
        "{food} of {b} [grams|g] each, and they are added.",
    ),
    "food less": (
        "{name} [spills|loses|eats|burns|drops|sells] {w} grams of the {food}.",
        "[Then|Later|Next] {w} grams of the {food} are [spilt|eaten|lost|burnt|taken away].",
        "[A child|A guest|A dog|A friend] [eats|takes|spills] {w} [grams|g] of the {food}.",
        "{w} grams of the {food} [fall on the floor|go into a soup|are spoilt and thrown away].",
        f"{_THEN}{{name}} [uses up|throws away|gives away|wastes|takes out|removes|tips out|pours away|scoops out|"
        "discards|consumes|ruins|swallows|uses] {w} [grams|g] of the {food}.",
        f"{_THEN}{{name}} [gives|hands|sends|feeds] {{w}} [grams|g] of the {{food}} to [a neighbour|a friend|the "
        "birds|a cousin|the dog|a customer|a guest|a sister].",
        f"{_THEN}{{w}} [grams|g] of the {{food}} are [gone|used up|thrown away|given away|wasted|stolen|missing|"
        "sold|removed|taken out|poured away|swallowed].",
        f"{_THEN}[a mouse|a cat|a neighbour|a cook|a thief|a hungry boy|a visitor|a bird|a brother] [eats|takes|"
        "steals|carries off|gets|ruins] {w} [grams|g] of the {food}.",
        "{w} [grams|g] of the {food} [go bad|burn|get lost|stick to the bowl|end up in the bin|are eaten by mice|"
        "get wet and are thrown out|go to a neighbour].",
        f"{_THEN}the [amount|stock|supply|quantity|weight] of {{food}} [falls|drops|shrinks|goes down|decreases|is "
        "reduced|sinks] by {w} [grams|g].",
        f"[Unfortunately|Sadly|By accident|Unluckily|Alas]{_COMMA} {{name}} [spills|drops|burns|loses|ruins|"
        "wastes] {w} [grams|g] of the {food}.",
        "{name} [bakes a cake|makes a soup|makes a snack|cooks lunch|feeds the hens] and [uses|needs|takes] {w} "
        "[grams|g] of the {food} [for it|for that].",
        f"For [a cake|breakfast|a sauce|lunch|a pie|the pets]{_COMMA} {{name}} [uses|takes|needs] {{w}} [grams|g] "
        "of the {food}.",
        "[Take away|Subtract|Deduct] {w} [grams|g] of {food} that [are spilt|are eaten|burn|go bad|stick to the "
        "pan].",
        f"{_THEN}{{name}} has {{w}} [grams|g] of {{food}} less[ than before|].",
        f"{_THEN}there are {{w}} [grams|g] less of the {{food}}.",
        "{w} [grams|g] of the {food} have to be [thrown away|given back|returned|discarded|removed].",
    ),
    "food percent": (
        f"Of the {{food}}, {{t}}{_PERCENT} is [eaten|used|spoilt|sold|lost].",
        "[Then|Later|Soon] {t}[ percent|%] of the {food} is [eaten|lost|burnt|used up].",
        f"{{name}} [eats|uses|sells|loses] {{t}}{_PERCENT} of the {{food}}.",
        f"The [amount|weight] of {{food}} [falls|drops|goes down] by {{t}}{_PERCENT}.",
        f"{_THEN}{{t}}{_PERCENT} of the {{food}} [goes bad|burns|is spilt|is gone|is wasted|is given away|is "
        "thrown away|is stolen|dries up|is sold|is lost|gets lost|is missing|is eaten|ends up in the bin].",
        f"{_THEN}{{name}} [spills|burns|wastes|gives away|throws away|uses up|removes|takes out|pours away|"
        f"discards|consumes|drops] {{t}}{_PERCENT} of [the|all the] {{food}}.",
        f"{_THEN}{{name}} [gives|sends|hands|feeds] {{t}}{_PERCENT} of the {{food}} to [a neighbour|a friend|the "
        "birds|a cousin|guests|a customer|the dog].",
        f"Of [the|all the] {{food}}{_COMMA} {{t}}{_PERCENT} [goes bad|burns|is spilt|is wasted|is thrown away|is "
        "given away|is left behind|is taken].",
        f"{_THEN}the [amount|weight|stock|supply|quantity] of {{food}} [falls|drops|shrinks|goes down|decreases|is "
        f"reduced|sinks|is cut] by {{t}}{_PERCENT}.",
        f"{_THEN}[a mouse|a cat|a neighbour|a cook|a thief|a visitor|a brother|a friend] [eats|takes|steals|gets|"
        f"carries off] {{t}}{_PERCENT} of the {{food}}.",
        f"[Customers|The children|Guests|Mice|Visitors|The pupils] [eat|get|take|finish off] {{t}}{_PERCENT} of "
        "the {food}.",
        f"A [share|part|portion] of {{t}}{_PERCENT} of the {{food}} is [eaten|lost|given away|thrown out|used|"
        "burnt|sold].",
        f"[Unfortunately|Sadly|By accident|As it happens]{_COMMA} {{name}} [spills|drops|burns|loses|ruins] "
        f"{{t}}{_PERCENT} of the {{food}}.",
        f"In the [oven|pot|heat|sun|cooking], {{t}}{_PERCENT} of the {{food}} [burns|is lost|dries up|boils away].",
        f"The {{food}} loses {{t}}{_PERCENT} of its weight[ in the oven| in the sun| in cooking|].",
        f"{{name}} [cuts|reduces|lowers] the amount of {{food}} by {{t}}{_PERCENT}.",
        f"{{t}}{_PERCENT} of the {{food}} has to be [thrown away|returned|discarded|removed|given back].",
        f"{_THEN}there is {{t}}{_PERCENT} less {{food}}[ than before|].",
        f"For [a cake|breakfast|a soup|lunch|a pie]{_COMMA} {{name}} [uses|takes|needs] {{t}}{_PERCENT} of the "
        "{food}.",
    ),
    "food times": (
        "{name} makes {k} times as much.",
        "[Then|Soon|In the end] {name} [takes|needs|uses|buys] {k} times as much {food}.",
        "{name} [multiplies|increases] the amount of {food} by a factor of {k}.",
        "{k} times as much {food} is [needed|wanted|taken] [for a party|for guests|after all].",
        f"{_THEN}{{name}} [prepares|needs|uses|mixes|has|takes] {{k}} times as much {{food}}[ as before|].",
        f"{_THEN}{{name}} [takes|prepares|makes|needs|uses] {{k}} times [the amount|this amount|that amount|the "
        "quantity] of {food}.",
        f"{_THEN}the [amount|quantity|weight|stock|supply] of {{food}} [grows|increases|rises|goes up] {{k}}-fold.",
        f"{_THEN}the [amount|quantity|weight|stock|supply] of {{food}} is [multiplied by|made larger by a factor "
        "of|raised by a factor of] {k}.",
        f"{_THEN}there is {{k}} times as much {{food}}[ as before| in the bowl| in the pot|].",
        "{name} [makes|cooks|bakes|prepares|does] all this {k} times[ over|].",
        "For {name}'s [party|guests|family|class|wedding], {k} times as much {food} is [needed|taken|used|bought|"
        "prepared].",
        "[A party|A wedding|A big family|A hungry crowd|A feast] [needs|calls for|takes] {k} times as much {food}, "
        "and {name} [takes|provides|gets] it.",
        "{name} has to [make|prepare|take|buy] {k} times as much {food}.",
        "The [recipe|dish|meal|amount] is [made|prepared|taken|cooked] {k} times[ over|].",
        "{name} multiplies [everything|the {food}|the whole amount|all of it] by {k}.",
        "[More guests come|Everybody is hungry|The table is long], so {name} takes {k} times as much {food}.",
        "[The boss|A guest|The cook|Grandmother|The recipe] [wants|needs|asks for|orders|demands] {k} times as "
        "much {food}, and {name} [takes|provides|prepares] it.",
        "{name} [cooks|bakes|works] for a [hotel|canteen|school|wedding|hospital] and so takes {k} times as much "
        "{food}.",
        "The [amount|quantity|weight] of {food} is [brought|raised|increased] to {k} times [its size|what it was].",
    ),
    "food grams": (
        "How many grams of {food} [is that|is it|are there|does {name} have][ now| then|]?",
        "How much {food} is [that|there now|it], in grams?",
        "[Find|Say|Work out|Tell me] how many grams of {food} [that is|there are][ now|].",
        "[Give|Find|Work out] the amount of {food} in grams.",
        "How many grams of {food} [does {name} have|does {name} own|are there|are left|does {name} use|remain|is "
        "that] [altogether|in total|in all|in the end|at the end|at this point]?",
        "What is the [final |new |total |resulting |whole |][amount|weight|mass|quantity] of {food} in grams?",
        "[Calculate|Determine|Compute|Find out|State|Write down|Report|Name|Work out] the [final |new |total |"
        "whole |][amount|weight|mass|quantity] of {food} in grams.",
        f"{_ASK} how many grams of {{food}} [there are|{{name}} has|are left|remain|that is|{{name}} uses] [now|in "
        "the end|in all|altogether|at the end].",
        "[Can|Could] you [tell me|work out|say|calculate] how many grams of {food} [there are|{name} has|that is|"
        "remain] [now|in the end|in all]?",
        "How heavy is the {food} [now|in the end|altogether|at the end], in grams?",
        "[What|How much] does the {food} weigh [now|in the end|altogether|at the end], in grams?",
        "To how many grams of {food} does [this|that|it all] [come|add up|amount]?",
        "The [amount|weight|quantity] of {food} in grams is [wanted|asked for|to be found].",
        "[After all that|At the end|All in all|By then], how many grams of {food} [are there|does {name} have|is "
        "that|are left]?",
        "How much {food} [does {name} have|is left|is in the bowl|is there] [now|in the end|then|altogether], in "
        "grams?",
        "If {name} weighs the {food} now, how many grams [is it|do the scales show|are there]?",
        "How many grams of {food} [lie on the scales|are in the pot|are in the bowl|are in the kitchen] now?",
    ),
    "food kilograms": (
        "How many kilograms of {food} [is that|is it|are there|does {name} have][ now| then|]?",
        "How much {food} is [that|there now|it], in kilograms?",
        "[Find|Say|Work out|Tell me] how many kilograms of {food} [that is|there are][ now|].",
        "[Give|Find|Work out] the amount of {food} in kilograms.",
        "How many kilograms of {food} [does {name} have|does {name} own|are there|are left|does {name} use|remain|"
        "is that] [altogether|in total|in all|in the end|at the end|at this point]?",
        "What is the [final |new |total |resulting |whole |][amount|weight|mass|quantity] of {food} in [kilograms|"
        "kg]?",
        "[Calculate|Determine|Compute|Find out|State|Write down|Report|Name|Work out] the [final |new |total |"
        "whole |][amount|weight|mass|quantity] of {food} in [kilograms|kg].",
        f"{_ASK} how many kilograms of {{food}} [there are|{{name}} has|are left|remain|that is|{{name}} uses] "
        "[now|in the end|in all|altogether|at the end].",
        "[Can|Could] you [tell me|work out|say|calculate] how many kilograms of {food} [there are|{name} has|that "
        "is|remain] [now|in the end|in all]?",
        "How heavy is the {food} [now|in the end|altogether|at the end], in kilograms?",
        "[What|How much] does the {food} weigh [now|in the end|altogether|at the end], in kilograms?",
        "To how many kilograms of {food} does [this|that|it all] [come|add up|amount]?",
        "The [amount|weight|quantity] of {food} in kilograms is [wanted|asked for|to be found].",
        "[After all that|At the end|All in all|By then], how many kilograms of {food} [are there|does {name} have|"
        "is that|are left]?",
        "How much {food} [does {name} have|is left|is in the bowl|is there] [now|in the end|then|altogether], in "
        "kilograms?",
        "If {name} weighs the {food} now, how many kilograms [is it|do the scales show|are there]?",
        "[Convert|Change|Turn] the weight of the {food} into kilograms: how many [are there|is that]?",
        "[Expressed|Written|Measured] in kilograms, how much {food} [is it|is that|is there|is left]?",
    ),
    "food bowls": (
        "{name} [divides|splits|shares] the {food} equally among {k} [plates|dogs|cooks|pots]. How many grams are "
        "for each?",
        "The {food} is [shared|divided|split] equally among {k} [bowls|pots|guests|bags]. How many grams are [in|"
        "for] each?",
        "{name} puts the same amount of {food} into {k} [bowls|tins|cups|moulds]. How many grams are in [each|one]?",
        "How many grams of {food} does each of {k} [guests|children|bowls|pies] get if all get the same?",
        "{k} [guests|cooks|families] share the {food} equally. How many grams does [each|one] get?",
        "{name} [distributes|spreads|spoons|measures|pours|shares out] the {food} [equally|evenly] into {k} [bowls|"
        "pots|jars|tins|dishes|glasses|cups|trays]. How many grams are in [each|one|every one]?",
        "The {food} is [distributed|portioned out|shared out|handed out|dealt out|served] [equally|evenly|in equal "
        "parts] to {k} [guests|children|people|pupils|friends|families|customers]. How many grams does [each|one] "
        "[get|receive|eat]?",
        "{name} [makes|forms|weighs out|prepares|cuts] {k} equal [portions|parts|heaps|servings|shares|loaves|"
        "balls] of the {food}. How many grams [are in each|is each|are in one|does each weigh|does one weigh]?",
        "If {k} [guests|children|people|friends|cooks|dogs|bakers] [share|split|divide] the {food} [equally|evenly|"
        "fairly], how many grams does [each|each one|one] [get|receive|take]?",
        "[Divided|Split|Shared out] [equally|evenly] among {k} [guests|bowls|pots|plates|friends|pies|families], "
        "how many grams of {food} [are there for each|is that for each|does each get]?",
        "How many grams of {food} are in each of {k} [jars|bags|cakes|pies|bowls|tins|boxes] if all [get|hold] the "
        "same amount?",
        f"{_ASK} how many grams of {{food}} each of {{k}} [guests|bowls|children|cakes|friends] gets if all get "
        "the same.",
        "[Calculate|Find|Work out|Determine|Compute] in grams the share of each if {k} [people|guests|friends|"
        "cooks] [share|divide|split] the {food} equally.",
        "Each of {k} [guests|children|bowls|families|cakes|pots] gets the same amount of the {food}. How many "
        "grams [is that|is that for one|does each get]?",
        "{k} [guests|pupils|people|friends|neighbours] are to [get|receive|have] equal shares of the {food}. How "
        "many grams is [one|each] share?",
        "The {food} [lasts|is enough|must do] for {k} [days|meals|weeks], with the same amount for each. How many "
        "grams is that for one?",
        "{name} [eats|uses|cooks|needs] all the {food} in {k} [days|meals|weeks], the same amount [each time|in "
        "each]. How many grams [is that each time|is that for one]?",
        "What is each one's share in grams if {k} [people|guests|friends|sisters] [share|split] the {food} "
        "[equally|evenly|fairly]?",
    ),
    "food cost": (
        "At {p} euros [a|per] kilogram, how many euros [is that|does the {food} cost]?",
        "The price [of a|of one|per] kilogram of {food} is {p} euros. How many euros is that [in all|altogether]?",
        "A kilogram of {food} costs {p} euros. How many euros is that [in all|altogether|for all of it]?",
        "[One|Each|Every] kilogram of {food} costs {p} euros. [What|How much] does all of it cost, in euros?",
        "How many euros does the {food} cost if [one|a] kilogram costs {p} euros?",
        "{name} [pays|gets] {p} euros [per|for each] kilogram of {food}. How many euros is that?",
        "[Each|One|Every|A] kilogram of {food} [is sold for|is worth|comes to|is] {p} euros. How many euros [is "
        "that|does all of it cost|is all of it worth|is the {food} worth|does {name} pay]?",
        "At {p} euros [a|per|for each|for a] kilogram, [how many euros|how much in euros] does [all of it|all the "
        "{food}|the whole lot|the {food}] cost?",
        "If [a|one|each] kilogram of {food} [costs|sells for|is worth|comes to] {p} euros, how many euros [is that|"
        "does all of it cost|is all of it worth|is that in all]?",
        "A [shop|baker|grocer|farmer|supermarket|market stall] [sells|buys|offers] {food} at {p} euros [a|per] "
        "kilogram. How many euros [is that|does all of it cost|is all of it worth|is the whole lot]?",
        "{name} [sells|buys] all the {food} at {p} euros [a|per] kilogram. How many euros [is that|is that in all|"
        "change hands|are paid]?",
        "[Calculate|Find|Work out|Determine|Compute|Give] the [price|cost|value] of [all the|the] {food} in euros "
        "at {p} euros [a|per] kilogram.",
        f"{_ASK} how many euros [all the|the] {{food}} costs at {{p}} euros [a|per] kilogram.",
        "[What|How much] [does the {food} cost|is the {food} worth|does all the {food} cost] in euros if a "
        "kilogram [costs|is|comes to] {p} euros?",
        "The [kilogram price|cost per kilogram|value of a kilogram|price tag for a kilogram] is {p} euros. How "
        "many euros [is that|does all of it cost|is that in all|is all the {food} worth]?",
        "For [each|every|a|one] kilogram {name} [pays|spends|gets|receives|charges] {p} euros. How many euros is "
        "that [in all|altogether|in total]?",
        "The [market|shop|baker|grocer] [takes|asks|charges|wants] {p} euros [a|per|for each] kilogram of {food}. "
        "How many euros [is that|does {name} pay|is the bill|must be paid]?",
        "With a price of {p} euros [a|per] kilogram, how many euros [is that|does all of it cost|does the {food} "
        "cost|are due]?",
        "How expensive is all the {food} at {p} euros [a|per] kilogram, in euros?",
    ),
}  # fmt: skip

IRRELEVANT: tuple[str, ...] = (
    "{name} is {n} years old.",
    "[The house|The school|The office|The flat] of {name} has {n} [windows|doors|chimneys|steps].",
    "{name} has {n} [cousins|nephews|aunts|classmates|colleagues].",
    "It is {n} days until [the holidays|the weekend after next|the new year|a birthday|the fair].",
    "[The radio|The oven|The heating|A fan] has been on for {n} minutes.",
    "{name} [got up|came home|arrived|went to bed] {n} minutes [late|early].",
    "[The nearest town|The sea|The next lake|The school] is {n} kilometres away.",
    "A [clock|picture|mirror|map] on the wall cost {n} euros.",
    "[A dog|A horse|A parrot|An uncle] of {name} is {n} years old.",
    "[A bus|A ferry|A tram] [leaves|comes|stops here] every {n} minutes.",
    "{name} [went to school|lived abroad|played the flute|was a baker] for {n} years.",
    "[The street|The village|The hall|The club] has {n} [houses|gates|trees|corners].",
    "[A song|A film|A show|The rain] [lasts|lasted|went on for] {n} minutes.",
    "{name} knows {n} [songs|jokes|words of Greek|card tricks].",
    "[The wall|The tower|A tree|The mast] [near by|outside|over there] is {n} metres high.",
    "[Last year|Last week|In May] {name} [read|borrowed|lent out] {n} novels.",
    "Page {n} of the [paper|calendar|diary] is [torn|missing|empty].",
    "There are {n} [birds|sheep|clouds|people] [to be seen|outside|in the distance].",
    "[On the door|On the roof|On the bus|On a shirt] there is the number {n}.",
    "[A friend|A cousin|The neighbour] of {name} has {n} [hens|ducks|grandchildren|teeth].",
    "[The sister|The brother|The uncle|The aunt|The mother|The boss|The teacher] of {name} is {n} years old.",
    "{name} [turned|became] {n} [last month|in spring|yesterday|last week|in May].",
    "{name}'s [cat|dog|canary|tortoise|horse|bicycle|car|watch|house|piano] is {n} years old.",
    "[Yesterday|Today|Last night|In winter|At noon] [the thermometer showed|it was|we had] {n} degrees[ outside| "
    "in the shade|].",
    "[The wind blows|A wind blew|The storm blows] at {n} knots.",
    "It [rained|snowed|was foggy|was sunny|was windy] for {n} [days|hours] [last month|last week|in May|in winter].",
    "{name} lives [in house number] {n}.",
    "{name} lives [on|in] a street with {n} [houses|lamps|gardens|shops].",
    "{name}'s [flat|office|classroom|hotel room|seat] has the number {n}.",
    "{name} has [been married|known a friend|worked in an office|played the piano|lived in this town|learnt "
    "Spanish] for {n} years.",
    "{name}'s [friend|neighbour|teacher|uncle|dentist] [lives|works|was born] {n} kilometres [away|from here|from "
    "the sea].",
    "[The moon|The star|The lighthouse|The church] can be seen for {n} [minutes|nights|days].",
    "The [bridge|church tower|lighthouse|statue|chimney|cliff|hill|crane] [near by|in the town|in the park|behind "
    "the house] is {n} metres [high|tall].",
    "The [river|lake|canal|sea] [near by|behind the town] is {n} metres [deep|wide].",
    "The [next|nearest] [town|village|airport|castle|hospital|station] is {n} kilometres [away|from here].",
    "[A train|A plane|A coach|The metro|A boat] [leaves|goes|departs|comes] every {n} minutes.",
    "[The concert|The lesson|The match|The meeting|The play|The speech|The exam] [begins|starts|ends] in {n} minutes.",
    "[A concert|A lesson|The match|The meeting|The play|The speech|A dream] [took|lasted|went on for] {n} minutes.",
    "{name} [slept|waited|read|sang|danced|sat in the sun|listened to the radio|talked on the phone|watched "
    "television] for {n} minutes [yesterday|this morning|last night].",
    "{name} [can do|did] {n} [push-ups|knee bends|somersaults] [without a break|in a row|yesterday].",
    "{name} [reads|has read|is at|stops at] page {n} of a [novel|newspaper|thriller|comic].",
    "The [book|novel|magazine|catalogue] that {name} is reading has {n} [chapters|pictures|pages].",
    "There are {n} [children|pupils|members|singers|players] in {name}'s [class|club|choir|orchestra|team].",
    "{name}'s [class|village|school|family|team] has {n} [members|people|teachers|dogs].",
    "{name} [met|invited|wrote to|phoned|visited] {n} [friends|relatives|schoolmates|old friends] [last year|last "
    "week|in July].",
    "[The post office|The shop|The library|The museum|The café] [closes|opens] in {n} minutes.",
    "[The post office|The library|The museum|The town hall] has {n} [rooms|employees|windows|stairs|visitors today].",
    "[A radio|A coat|A hotel room|A ticket to the opera|A pair of skis|A parrot] [in the shop window|in the "
    "catalogue|across the street] costs {n} euros.",
    "[A stranger|A tourist|The mayor|A visitor|A policeman] [once paid|paid|spent] {n} euros [for a hat|for a room|"
    "for a taxi|on a ticket] [last year|last week|long ago].",
    "[The neighbour's dog|A turkey|A goose|A big stone|The baker's cat|A statue] weighs {n} kilograms.",
    "[A parcel|A suitcase|A stone|A sack] [on the pavement|in the corner|next door] weighs {n} kilograms.",
    "[A bird|A cat|A butterfly|A bee] [passes by|flies past|sits on the roof|was seen] {n} times.",
    "[The bell|The telephone|The alarm|The doorbell] [rings|rang] {n} times.",
    "{name} [sneezed|laughed|yawned|blinked|nodded] {n} times[ this morning| today| yesterday|].",
    "[The house|The lift|The tower|The hotel next door] has {n} [floors|storeys|balconies|rooms].",
    "[The house|The church|The castle|The bridge] was built {n} years ago.",
    "[In|Within] {n} [days|weeks] [the holidays begin|spring begins|school starts|there is a feast|the circus comes].",
    "{name}'s birthday is in {n} days.",
    "{name} was born {n} years ago[ in a village| by the sea| in June|].",
    "[The television|A lamp|A fountain|The dishwasher|An engine|A radio] [has run|ran|was on] for {n} minutes.",
    "{name}'s [train|bus|plane|flight] [was|is] {n} minutes late.",
    "On the [square|meadow|road|playground|farm] [one can see|there were|you can see] {n} [pigeons|cows|bicycles|"
    "cars|geese|strangers].",
    "[The weather report|The newspaper|The radio] [mentions|speaks of|reports] {n} [storms|accidents|new schools|"
    "lost dogs].",
    "A [password|phone number|code] ends in the number {n}.",
    "[Far away|Across the road|In the next town|Abroad], {n} people [wait|sing|work|live] in a [hall|factory|hotel|"
    "school].",
    "{name}'s shoes are size {n}.",
    "{name}'s favourite number is {n}.",
    "[A grandmother|A cousin|An old friend] of {name} [has|once had] {n} [cats|sheep|goats|hives|rose bushes|clocks].",
    "The [strike|festival|fair|heat wave|regatta] [lasts|lasted] {n} days.",
    "A [whale|shark|snake|ship|bus] in a [film|book|museum] is {n} metres long.",
    "{name} once [won|ran|swam|lost] a race against {n} [others|friends|people].",
)
"""Irrelevant sentences; each problem has different ones."""

TOLERANCE_NOTE = (
    "[[An error|A difference|A deviation|An inaccuracy|A mistake|A rounding error] of [up to|at most|no more than|not "
    "more than] 0.01 [is allowed|is fine|does not matter|is accepted|is permitted|will do no harm|is all right]"
    "|[The answer|Your answer|The result] may [differ|be off|be wrong|deviate] by [up to|at most|no more than] 0.01"
    "|[Rounding|An answer rounded|A result rounded] to two [decimals|decimal places|places] is [fine|allowed|enough]]."
)
