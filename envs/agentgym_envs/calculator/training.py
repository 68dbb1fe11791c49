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
    "Thomas Tilda Tom Ulla Ursula Valentin Viktor Wanda Werner Wilma Yara"
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
    "tables shelves magnets lenses chips discs cartridges pumps valves filters"
)
FOODS = (
    "flour rice sugar cocoa butter oatmeal pasta quinoa bulgur yeast starch sesame linseed muesli cheese yoghurt "
    "cream margarine lard jam marmalade syrup treacle ginger cinnamon paprika pepper curry mustard vinegar ketchup "
    "tofu beef pork chicken turkey ham bacon tuna salmon shrimp spinach kale lettuce celery broccoli cabbage pumpkin "
    "squash garlic leek fennel parsley basil rhubarb coconut chocolate nougat marzipan fudge caramel tapioca spelt "
    "buckwheat rye popcorn coffee tea"
)

_THEN = "[Then |Later |Next |Afterwards |The next day |A little later |Soon |On Monday |In the evening |]"
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
    ),
    "stock boxes": (
        "{name} [fills|packs] {a} [boxes|baskets|tins|drawers] with {b} {goods} [each|in each].",
        "{name} has {a} [bags|trays|bowls|cases][, and|, with] {b} {goods} in each.",
        "[There are|We see] {a} [piles|bundles|heaps|stacks] of {b} {goods} [each |]in the [shop|room|shed] of {name}.",
        "In each of {a} [chests|buckets|baskets] {name} [keeps|puts|stores] {b} {goods}.",
        "{name} [counts|looks at] {a} [rows|groups|sets], each [of|with] {b} {goods}.",
        "{name} has {goods} in {a} [boxes|tubs|tins]: {b} in [each|every] one.",
    ),
    "stock more": (
        f"{_THEN}{{name}} [buys|gets|finds|receives|collects|is given|makes|wins] {{a}} more {{goods}}.",
        "[Then|Later|Next|Afterwards|Soon] {a} more {goods} [arrive|come in|are found|are bought|are made].",
        "{name}'s [sister|uncle|neighbour|teacher] [brings|gives|sends] {a} more {goods}.",
        "The [stock|number of {goods}] [grows|rises|goes up] by {a}[ {goods}|] more.",
        "{name} adds {a} [more |new |]{goods}[ to them| to the rest|].",
    ),
    "stock packs": (
        "[Then|Later|Next|Soon] {a} [packs|packets|parcels|boxes] [of|with] {b} {goods} each [arrive|come in|are "
        "bought].",
        f"{_THEN}{{name}} [buys|orders|gets|finds] {{a}} [packs|boxes|bags|tins] [with|of] {{b}} {{goods}} in each.",
        "{name} [adds|is given|unpacks] {a} [bundles|bags|trays], each [of|with] {b} {goods}.",
        "{a} [friends|neighbours|helpers|visitors] [bring|give|send] {name} {b} {goods} each.",
        "On each of {a} [days|evenings|mornings] {name} [makes|buys|finds|gets] {b} more {goods}.",
    ),
    "stock give": (
        f"{_THEN}{{name}} [gives away|loses|sells|uses up|throws out|hands out|lends out] {{a}} of the {{goods}}.",
        "{a} of the {goods} [are lost|are sold|are stolen|go missing|fall into the river|are used up|are given away].",
        "[Then|Later|Soon|Afterwards] {a} {goods} are [taken away|lost|sold|used|given away].",
        "{name}'s [brother|aunt|neighbour|friend] [takes|gets|borrows|is given] {a} of the {goods}.",
        "{name} has to do without {a} of the {goods}[ from then on|, which are gone|].",
        "The number of {goods} [falls|drops|goes down] by {a}.",
    ),
    "stock percent": (
        "[Then|Later|Soon|By noon] {p}[ percent|%| per cent] of the {goods} are [sold|used|lost|taken|eaten by mice].",
        f"{_THEN}{{name}} [sells|loses|gives away|uses|hands out] {{p}}[ percent|%| per cent] of the {{goods}}.",
        "{p}[ percent|%] of the {goods} [go missing|are stolen|are found to be useless|get wet and are thrown away].",
        "The number of {goods} [falls|drops|shrinks|goes down] by {p}[ percent|%| per cent].",
        "{name} parts with {p}[ percent|%] of the {goods}[| and keeps the rest].",
    ),
    "stock one in": (
        "One in every {k} of the {goods} is [bad|broken|spoilt|faulty|damaged] and is [thrown out|thrown "
        "away|removed].",
        "Of every {k} {goods}, one is [broken and thrown away|lost|stolen|given away|sold].",
        "[Then|Later|Soon] 1/{k} of the {goods} is [lost|sold|given away|used up].",
        f"{_THEN}{{name}} [gives away|sells|loses|throws out] 1/{{k}} of the {{goods}}.",
        "[Then|Later|Soon] 1 in {k} of the {goods} [is sold|is lost|goes to a friend|goes missing].",
        "{name} [sells|hands out|takes out] one of every {k} {goods}.",
    ),
    "stock times": (
        "[A month|A week|Some time|A season] later {name} has {k} times as many {goods}.",
        "[Then|Soon|In a good year] the number of {goods} [is multiplied by|grows by a factor of] {k}.",
        "{name} [works hard|has good luck|saves well] and [then has|comes to have] {k} times as many {goods}.",
        "[Then|Soon|Later] {k} times as many {goods} are [there|in stock|on hand].",
        "{k} times as many {goods} are [wanted|needed], and {name} [gets|makes|orders] all that are missing.",
    ),
    "stock count": (
        "How many {goods} [does {name} have|are there|remain|are left|are in stock] [now|then|after that]?",
        "[What|How large] is the number of {goods} [now|then|after all this]?",
        "[Find|Say|Work out|Tell me] how many {goods} [there are|{name} has] [now|in the end|after this].",
        "[Now|In the end|Finally], how many {goods} [are there|does {name} have|are left]?",
        "Count the {goods} [that are there now|that {name} has now|of {name} now].",
    ),
    "stock share": (
        "The {goods} are [shared|divided|split] equally among {k} [children|friends|people|teams]. How many {goods} "
        "does each [one |]get?",
        "{k} [children|friends|neighbours|cousins] share the {goods} equally. How many {goods} [does each get|are "
        "there for each]?",
        "{name} puts the same number of {goods} into each of {k} [boxes|bags|baskets]. How many {goods} are in "
        "[one|each]?",
        "How many {goods} does each of {k} [friends|classes|children] get if all get the same number?",
        "All the {goods} go to {k} [schools|families|shops], the same number to each. How many [{goods} |]is that for "
        "one?",
    ),
    "stock price": (
        "All the {goods} are sold for {p} euros each. How many euros [does {name} get|is that|come in]?",
        "{name} sells [them all|all the {goods}] at {p} euros [a piece|each|per piece]. How many euros [is that|come "
        "in]?",
        "The price of one is {p} euros. How many euros [do all the {goods} cost|are all the {goods} worth]?",
        "[Each|Every one|One] costs {p} euros. [What|How much] do all the {goods} cost[ together|], in euros?",
        "How many euros [are the {goods} worth|do the {goods} cost] if [each|one] is worth {p} euros?",
        "A buyer takes all the {goods} and pays {p} euros for each. How much [money |]is that in euros?",
    ),
    "stock weight": (
        "The weight of [one|each] is {g} [grams|g]. How many kilograms [is that for all|do all the {goods} weigh]?",
        "[Each|One|Every one] weighs {g} grams. How many kilograms do [the {goods}|all {goods}] weigh together?",
        "How many kilograms do the {goods} weigh if [one|each] weighs {g} [grams|g]?",
        "{g} grams is the weight of [one|each]. [Give|Find|Work out] the weight of all the {goods} in kilograms.",
        "[Each|One] weighs {g} [grams|g]. How heavy are the {goods} together, in kilograms?",
        "All the {goods} go into one sack, and each weighs {g} grams. How many kilograms does the sack hold?",
    ),
    "stock time": (
        "It takes {m} minutes to [wrap|clean|check|paint|pack] one. How many hours does it take to do all the {goods}?",
        "{name} [needs|takes|works] {m} minutes for [each|one]. How many hours is that for all the {goods}?",
        "How many hours do the {goods} take if [one|each] takes {m} minutes?",
        "[Cleaning|Checking|Wrapping|Repairing] one [lasts|is done in] {m} minutes. How many hours [do all the "
        "{goods} take|go by until all the {goods} are done]?",
        "A machine works on each for {m} minutes, one after the other. After how many hours are all the {goods} done?",
    ),
    # money
    "money has": (
        "{name} [has|has saved|keeps|inherits|has put away] {a} euros[ in a box| in the bank|].",
        "[There are|There lie] {a} euros in the [purse|account|drawer|wallet] of {name}.",
        "The [account|purse|savings book] of {name} [shows|holds] {a} euros.",
        "{name} [begins|sets out|goes to town] with {a} euros.",
        "{a} euros [belong to|are in the pocket of|are saved by] {name}.",
    ),
    "money wage": (
        "At {p} euros [an|per] hour {name} works {a} hours [a|each] day, on {b} days.",
        "{name} works {a} hours a day on {b} days and [is paid|earns|gets] {p} euros [an|per] hour.",
        "{name} earns {p} euros [an|per] hour and works {a} hours [a|each] day for {b} days.",
        "[A job|Work] pays {p} euros [an|per] hour. {name} does it {a} hours a day, on {b} days.",
        "On each of {b} days {name} [works|helps|serves|drives a taxi] for {a} hours at {p} euros an hour.",
        "{b} times {name} [works|paints|gardens] for {a} hours, and gets {p} euros for every hour.",
    ),
    "money earn": (
        f"{_THEN}{{name}} [earns|gets|finds|wins|receives|is paid|is given] {{p}} euros more.",
        "[Then|Later|Soon|Next] {name} [is given|is lent|inherits|is paid] {p} euros.",
        "{name}'s [uncle|mother|boss|friend] [gives|pays|sends] {name} {p} euros.",
        "{p} euros [are added|come from a sale|arrive by post|are paid back to {name}].",
        "{name} sells an old [bicycle|book|chair|radio] for {p} euros.",
    ),
    "money weeks": (
        "For {a} [weeks|months] {name} [saves|gets|earns] {p} euros [each time|every time].",
        "In each of the next {a} weeks {name} [gets|earns|saves|receives] {p} euros more.",
        "[Each|Every] week for {a} weeks {name} [adds|saves|earns|gets] {p} euros.",
        "{name} then [saves|earns|adds] {p} euros a week, for {a} weeks.",
        "{a} times {name} [is paid|gets|earns|puts in] {p} euros.",
        "There come {a} [payments|gifts|deposits] of {p} euros each.",
    ),
    "money spend": (
        "{name} [spends|pays] {p} euros [on|for] [shoes|a ticket|a meal|a jacket|books|a present].",
        f"{_THEN}{{name}} [pays|spends|loses|gives away] {{p}} euros[ of it|].",
        "A [coat|chair|bill|trip|meal|phone] costs {name} {p} euros.",
        "[Then|Later|Soon] {p} euros [are lost|are spent|are stolen|go to a shop].",
        "{name} [buys|orders|pays for] [a bag|a cake|a game|a lamp|flowers], and that takes {p} euros.",
    ),
    "money buy": (
        "{name} buys {a} [books|shirts|cups|plants|tickets] for {p} euros each.",
        f"{_THEN}{{name}} pays for {{a}} [meals|books|rides|stamps] at {{p}} euros each.",
        "{a} [chairs|bowls|toys|pens] at {p} euros each are bought [by {name}|from the money].",
        "{name} [gives|pays|hands] {p} euros to each of {a} [friends|helpers|children].",
        "For each of {a} [visits|lessons|days] {name} pays {p} euros.",
    ),
    "money tax": (
        "Of the money, {t}[ percent|%| per cent] [goes away as tax|is lost|is taken as a fee|is paid as tax].",
        "{name} [gives|pays|donates] {t}[ percent|%] of the money to [charity|a friend|the state|a school].",
        "[Then|Later|Soon] {t}[ percent|%| per cent] of the money [is spent|is gone|goes to a bank|is lost].",
        "The money [falls|drops|shrinks|is cut] by {t}[ percent|%| per cent].",
        "[A tax|A fee|A debt] takes {t}[ percent|%] of the money.",
    ),
    "money interest": (
        "The bank [adds|pays|gives] {t}[ percent|%| per cent] interest [to|on] the money.",
        "The money [grows|rises|goes up] by {t}[ percent|%| per cent].",
        "[Then|Later|A year later|After a year] the bank adds {t}[ percent|%] to the money.",
        "With interest of {t}[ percent|%| per cent], the money grows.",
        "{name} [invests|lends] all the money and gets it back with {t}[ percent|%] more.",
    ),
    "money left": (
        "How many euros [does {name} have|are there|are left|remain|has {name}] [now|then|in the end]?",
        "How much money [does {name} have|is there|is left] [now|then|at last], in euros?",
        "[Find|Say|Work out|Tell me] how many euros [there are|{name} has|are left] [now|after this].",
        "[Now|In the end|Finally], how many euros [does {name} have|are left|remain]?",
    ),
    "money share": (
        "{k} [heirs of an uncle|students|neighbours] [split|divide] the money equally. How many euros does each get?",
        "The money is [shared|divided|split] equally among {k} people. How many euros does each [one |]get?",
        "{k} [friends|children|sisters|workers] share the money equally. How many euros [does each get|are there for "
        "each]?",
        "{name} gives the money to {k} [people|schools|families], the same to each. How many euros does [one|each] "
        "get?",
        "How many euros does each of {k} [people|brothers|clubs] get if all get the same?",
    ),
    "money cents": (
        "[Find|Work out] how many cents [that is|there are].",
        "How many cents [is that|is this|does that make|are there [now|then]]?",
        "[Give|Say|Write|Tell me] the [sum|amount|money] in cents.",
        "How much money is [that|there now] in cents?",
        "Changed into cents, how [many|much] is it?",
    ),
    # ways
    "trip far": (
        "{name} [rides|drives|travels|cycles|sails|goes] {a} [kilometres|km].",
        "[First|On the first day|In the morning] {name} [drives|rides|goes|cycles] {a} [kilometres|km].",
        "{name} makes a [journey|trip|tour|ride] of {a} [kilometres|km].",
        "A [tram|boat|coach|lorry] [takes|carries] {name} {a} [kilometres|km].",
        "{name} [is driven|is flown|is taken] {a} [kilometres|km] by a friend.",
    ),
    "trip hours": (
        "{name} [drives|rides|travels|goes] for {h} hours at {v} [kilometres an hour|km an hour|kilometres per "
        "hour|km/h].",
        "For {h} hours {name} [drives|rides|goes|sails] at {v} [kilometres an hour|km/h|kilometres per hour].",
        "{name} makes {v} [kilometres|km] an hour and [drives|rides|keeps going] for {h} hours.",
        "[A boat|A coach|A lorry] with {name} on it goes {v} kilometres in an hour, and it goes for {h} hours.",
        "[First|In the morning] {name} [drives|rides|goes] at {v} [kilometres per hour|km/h] for {h} hours.",
    ),
    "trip leg": (
        "[Then|Next|Later|Afterwards] {name} [drives|rides|goes] for {m} minutes at {v} [kilometres an hour|km/h].",
        "{name} [goes on|continues|drives on] at {v} [kilometres an hour|kilometres per hour|km/h] for {m} minutes.",
        "For {m} minutes more {name} [drives|rides|travels] at {v} [kilometres an hour|km/h].",
        "{m} more minutes are [driven|ridden|done] at {v} [kilometres per hour|km/h].",
    ),
    "trip more": (
        "After a [rest|break|meal|nap] {name} goes on for {a} [kilometres|km].",
        "[Then|Next|Later|Afterwards] {name} [rides|drives|goes|cycles] {a} [kilometres|km] more.",
        "{name} [adds|goes on for|does] {a} more [kilometres|km].",
        "{a} more [kilometres|km] are [driven|ridden|done] by {name}.",
    ),
    "trip walk": (
        "[Then|Next|Later|Afterwards] {name} [walks|runs|strolls|hikes] {w} [metres|m].",
        "{name} [walks|runs] {w} [metres|m] [more|farther].",
        "{name} gets out and walks {w} [metres|m].",
        "{w} [metres|m] are walked by {name} [then|as well|next].",
    ),
    "trip back": (
        "{name} [returns|comes back|travels home] [by|along] the [same|whole] way.",
        "[Then|Later|Next|In the end|At night] {name} [rides|cycles|sails|goes] the whole way back.",
        "{name} goes the whole way back again.",
        "[Then|Later|In the evening|Next] {name} [goes|drives|travels] all the way back.",
        "{name} [turns round and|does not stay and] goes back the whole way.",
        "[Then|Later|The next day] {name} does the whole way a second time.",
        "The whole way is then gone again[, back to the start| in the other direction|].",
    ),
    "trip days": (
        "[This|The same] is [done|travelled|driven] {k} times [by {name}|in all].",
        "In {k} [weeks|months] {name} [does|goes] all this [once in each|once each time].",
        "{name} does all of this on {k} days.",
        "{name} does all [this|that] {k} times.",
        "On {k} days {name} goes all this way.",
        "All of this is [repeated|done] so that {name} has done it {k} times.",
        "{name} [goes|travels] the whole of this {k} times.",
    ),
    "trip length": (
        "How many kilometres [is that|are that|is it] [in all|altogether|in total]?",
        "How [far|long] is the whole way, in kilometres?",
        "[Find|Say|Work out|Tell me] how many kilometres [that makes|{name} goes] [in all|in total].",
        "In total, how many kilometres does {name} [go|travel|make]?",
    ),
    "trip fuel": (
        "With {l} litres [for|on] 100 kilometres, how many litres [does the whole way take|are burnt on the whole "
        "way]?",
        "A car [needs|uses|burns] {l} litres of fuel for 100 kilometres. How many litres [is that|are needed] for the "
        "whole way?",
        "How many litres of fuel does the whole way take if 100 kilometres take {l} litres?",
        "A lorry [needs|burns|uses] {l} litres [per|on] 100 kilometres. How many litres [does it burn|does it need] "
        "on the whole way?",
        "For 100 kilometres {l} litres of fuel are [needed|burnt|used]. How many litres is that in all?",
    ),
    "trip cost": (
        "A [bus|van|lorry] [needs|takes] {l} litres for 100 kilometres, and each litre costs {p} euros. How many "
        "euros [is that|does the fuel cost] for the whole way?",
        "At {p} euros [a|per] litre and {l} litres [per|for] 100 kilometres, how many euros does the whole way cost?",
        "A car [needs|uses|burns] {l} litres for 100 kilometres at {p} euros a litre. How many euros is that [in "
        "all|for the whole way]?",
        "For 100 kilometres {l} litres are [needed|burnt], and a litre costs {p} euros. How many euros does the whole "
        "way cost?",
        "A litre of fuel costs {p} euros, and 100 kilometres take {l} litres. How many euros [is that|does {name} "
        "pay] [in all|for the whole way]?",
        "How many euros does the whole way cost if 100 kilometres take {l} litres and one litre costs {p} euros?",
    ),
    "trip time": (
        "How many hours does the [same|whole] way take at {v} [kilometres an hour|kilometres per hour|km/h]?",
        "A [train|lorry|rider|ship] goes the same way at {v} [kilometres an hour|km/h]. How many hours [is that|does "
        "it take]?",
        "At {v} [kilometres an hour|km/h], how many hours are needed for the whole way?",
        "How long does the whole way take at {v} kilometres per hour, in hours?",
    ),
    # areas
    "area wall": (
        "{name} [paints|covers|papers|cleans] a wall [of|that is] {a} by {b} metres.",
        "{name} [digs|sows|mows|fences] a [bed|lawn|plot] [of|that is] {a} by {b} metres.",
        "A [wall|carpet|yard|roof] of {name} is {a} metres long and {b} metres [wide|broad].",
        "{name} has a [field|terrace|hall|garden] of {a} metres by {b} metres.",
        "The [room|court|lawn|sail] that {name} [works on|looks after] is {a} by {b} metres.",
    ),
    "area floor": (
        "{name} [tiles|sweeps|paints|covers] a floor that is {a} metres long and {c} centimetres wide.",
        "{name} has a [strip|path|corridor|cloth] {a} metres long and {c} [centimetres|cm] wide.",
        "A [path|shelf|carpet|hall] of {name} is {c} centimetres wide and {a} metres long.",
        "{name} [cleans|lays|oils] a floor of {a} metres by {c} [centimetres|cm].",
        "The [corridor|bridge|path] that {name} [works on|looks after] has a length of {a} metres and a width of {c} "
        "centimetres.",
    ),
    "area without": (
        "{name} [spares|skips|omits] a [corner|strip|square|panel] of {d} by {e} metres.",
        "A part of {d} by {e} metres is [left out|left as it is|not done|taken away].",
        "[But a|A] [corner|window|door|hole] of {d} by {e} metres [is left out|is not counted|has to be taken off].",
        "{name} [leaves out|does not do|cuts out|takes away] a [piece|part] of {d} by {e} metres.",
        "A [hole|pond|pillar|rug], {d} metres long and {e} metres wide, is [left out|not counted].",
    ),
    "area and": (
        "Another part of {d} by {e} metres [comes to it|is added|is done too].",
        "{name} [adds|does|has to do] [another|one more] [part|piece|corner] of {d} by {e} metres[ as well|].",
        "[Also|In addition,] a [strip|patch|step] of {d} by {e} metres is [added|done|counted].",
        "A second [piece|part|bit], {d} metres long and {e} metres wide, is added.",
    ),
    "area rooms": (
        "[The house|The school|The building] has {k} such [rooms|areas].",
        "{name} [looks after|works on] {k} such [rooms|places|areas].",
        "There are {k} such [rooms|places|areas|pieces].",
        "{name} does this in {k} [rooms|houses|places].",
        "All this is there {k} times.",
        "[Altogether|In all] there are {k} of the same kind.",
        "{k} [rooms|places] of just this size are to be done.",
    ),
    "area waste": (
        "To be safe {name} [reckons with|adds|takes|plans] {t}[ percent|%| per cent] more.",
        "[Then|Also|In addition,] {t}[ percent|%| per cent] [is added|are added|comes on top][ for mistakes|].",
        "{name} [makes|wants] it {t}[ percent|%] larger.",
        "The area [grows|goes up|rises] by {t}[ percent|%| per cent].",
    ),
    "area size": (
        "How many square metres [is that|are that|does that make|is it][ in all| altogether|]?",
        "How [large|big] is [it|the whole area|all that], in square metres?",
        "[Find|Say|Work out|Tell me] how many square metres that is[ in all|].",
        "[Give|Find|Work out] the [whole |]area in square metres.",
    ),
    "area price": (
        "At {p} euros [a|per] square metre, how many euros [is that|does all of it cost|does {name} pay]?",
        "The price [of one|per|of a] square metre is {p} euros. How many euros is that [in all|altogether]?",
        "A square metre costs {p} euros. How many euros is that [in all|altogether|for the whole area]?",
        "[Each|Every|One] square metre costs {p} euros. [What|How much] does all of it cost, in euros?",
        "How many euros does the whole area cost if [one|a] square metre costs {p} euros?",
        "{name} pays {p} euros [per|for each] square metre. How many euros [is that|does {name} pay]?",
    ),
    "area paint": (
        "With one litre {name} [covers|paints] {k} square metres. How many litres are needed?",
        "A litre is enough for {k} square metres. How many litres are needed?",
        "One litre [of paint|of oil] [covers|is enough for|goes over] {k} square metres. How many litres [does {name} "
        "need|are used up|have to be bought]?",
        "How many litres are needed if [one|a] litre is enough for {k} square metres?",
        "{k} square metres take one litre. How many litres [does the whole area take|is that]?",
    ),
    # cooking
    "food has": (
        "{name} [has|takes|buys|weighs|keeps] {g} [grams|g] of {food}[ at home|].",
        "[There are|There lie] {g} grams of {food} in the [kitchen|bowl|cupboard|pot] of {name}.",
        "A [bag|tin|bowl|packet] of {name} [holds|has] {g} [grams|g] of {food}.",
        "{name} [puts|tips|shakes] {g} grams of {food} into a [bowl|pot|pan|mixer].",
    ),
    "food recipe": (
        "{k} people [need|eat|get] {g} [grams|g] of {food}; {name} [cooks|plans] a meal for {b} people.",
        "A [recipe|dish|meal|soup] for {k} people needs {g} [grams|g] of {food}, and {name} cooks for {b} people.",
        "{name} cooks for {b} people with a recipe that [needs|asks for] {g} grams of {food} for {k} people.",
        "For {k} people one takes {g} grams of {food}; {name} [cooks|bakes] for {b} people.",
        "{g} grams of {food} [are enough|serve|do] for {k} people. {name} cooks [the right amount |]for {b} people.",
    ),
    "food more": (
        f"{_THEN}{{name}} [adds|buys|gets|puts in] {{s}} [kilograms|kg] of {{food}}.",
        "{s} [kilograms|kg] of {food} are [added|bought|put in] by {name}.",
        "[Then|Later|Next] {s} more [kilograms|kg] of {food} [arrive|are added|come in].",
        "{name}'s [sister|guest|mother|cook] [brings|adds|gives] {s} kilograms of {food}.",
    ),
    "food spoons": (
        "[Then|Next|Later|Afterwards] {name} adds {a} spoons of {food}, {b} grams each.",
        "{name} [adds|puts in|takes] {a} [spoons|scoops|handfuls|pinches] of {food} with {b} grams each.",
        "{a} [spoons|scoops|portions] of {b} grams of {food} each are added[ by {name}|].",
        "{a} times {name} [adds|puts in] {b} grams of {food}.",
    ),
    "food less": (
        "{name} [spills|loses|eats|burns|drops|sells] {w} grams of the {food}.",
        "[Then|Later|Next] {w} grams of the {food} are [spilt|eaten|lost|burnt|taken away].",
        "[A child|A guest|A dog|A friend] [eats|takes|spills] {w} [grams|g] of the {food}.",
        "{w} grams of the {food} [fall on the floor|go into a soup|are spoilt and thrown away].",
    ),
    "food percent": (
        "Of the {food}, {t}[ percent|%| per cent] is [eaten|used|spoilt|sold|lost].",
        "[Then|Later|Soon] {t}[ percent|%] of the {food} is [eaten|lost|burnt|used up].",
        "{name} [eats|uses|sells|loses] {t}[ percent|%| per cent] of the {food}.",
        "The [amount|weight] of {food} [falls|drops|goes down] by {t}[ percent|%| per cent].",
    ),
    "food times": (
        "{name} makes {k} times as much.",
        "[Then|Soon|In the end] {name} [takes|needs|uses|buys] {k} times as much {food}.",
        "{name} [multiplies|increases] the amount of {food} by a factor of {k}.",
        "{k} times as much {food} is [needed|wanted|taken] [for a party|for guests|after all].",
    ),
    "food grams": (
        "How many grams of {food} [is that|is it|are there|does {name} have][ now| then|]?",
        "How much {food} is [that|there now|it], in grams?",
        "[Find|Say|Work out|Tell me] how many grams of {food} [that is|there are][ now|].",
        "[Give|Find|Work out] the amount of {food} in grams.",
    ),
    "food kilograms": (
        "How many kilograms of {food} [is that|is it|are there|does {name} have][ now| then|]?",
        "How much {food} is [that|there now|it], in kilograms?",
        "[Find|Say|Work out|Tell me] how many kilograms of {food} [that is|there are][ now|].",
        "[Give|Find|Work out] the amount of {food} in kilograms.",
    ),
    "food bowls": (
        "{name} [divides|splits|shares] the {food} equally among {k} [plates|dogs|cooks|pots]. How many grams are for "
        "each?",
        "The {food} is [shared|divided|split] equally among {k} [bowls|pots|guests|bags]. How many grams are [in|for] "
        "each?",
        "{name} puts the same amount of {food} into {k} [bowls|tins|cups|moulds]. How many grams are in [each|one]?",
        "How many grams of {food} does each of {k} [guests|children|bowls|pies] get if all get the same?",
        "{k} [guests|cooks|families] share the {food} equally. How many grams does [each|one] get?",
    ),
    "food cost": (
        "At {p} euros [a|per] kilogram, how many euros [is that|does the {food} cost]?",
        "The price [of a|of one|per] kilogram of {food} is {p} euros. How many euros is that [in all|altogether]?",
        "A kilogram of {food} costs {p} euros. How many euros is that [in all|altogether|for all of it]?",
        "[One|Each|Every] kilogram of {food} costs {p} euros. [What|How much] does all of it cost, in euros?",
        "How many euros does the {food} cost if [one|a] kilogram costs {p} euros?",
        "{name} [pays|gets] {p} euros [per|for each] kilogram of {food}. How many euros is that?",
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
)
"""Irrelevant sentences; each problem has different ones."""

TOLERANCE_NOTE = (
    "[An error|A difference|A deviation] of [up to|at most|no more than] 0.01 [is allowed|is fine|does not matter|is "
    "accepted]."
)
