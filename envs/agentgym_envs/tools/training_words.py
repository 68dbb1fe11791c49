"""The names of training databases, of which two of five are made up."""

from __future__ import annotations

MADE_UP = 0.4
"""Share of made-up names, so that names must be read."""

PLACES = (
    "Alder Birch Cedar Clay Dun Elm Falcon Glen Hazel Iron Juniper Kings Larch Maple North Oak Pine Quarry Raven "
    "Silver Thorn Upper Vale Willow Abbey Acorn Apple Ardent Aspen Badger Barley Barn Beech Berry Black Blue Bright "
    "Brook Brown Burn Castle Chalk Chapel Cherry Church Clear Cliff Cold Coal Cork Corn Cow Cross Crow Daisy Dark "
    "Deer Dry East Farm Field Finch Flax Fox Frost Gold Goose Grand Grass Green Grey Hard Hare Hart Haw Hay Hedge "
    "High Hill Hop Horn Horse King Lamb Land Lavender Lead Leaf Little Long Low Main Marsh Mill Mole Mount New Nut "
    "Old Orchard Otter Owl Park Peach Pear Plum Pond Poplar Prior Queen Rain Red Reed Rich Ridge River Rock Rose "
    "Rowan Rush Rye Sand Sea Shell Ship Short Snow South Spring Star Steep Stone Storm Summer Sun Swan Sweet Tall "
    "Thistle Tin Trout Under Violet Wall Warm Water West Wheat White Wild Wind Winter Wolf Wood Yarrow Yew Young"
)
FIRST_NAMES = (
    "Adam Agnes Albert Alma Amy Andrea Anna Anton Arthur Barbara Bella Benno Berta Bruno Carl Carmen Cecil Chloe "
    "Conrad Cora Daniel Daria Dennis Diana Dora Edgar Edith Edna Egon Ella Emil Emma Enid Eric Esther Eva Fabian "
    "Fanny Farid Fay Flora Franz Frida Gary Gerda Gina Gloria Gordon Hanna Harry Hedwig Helen Henry Hilda Holger Ian "
    "Ida Igor Ilse Iris Isabel Ivan Jack Jane Janet Jasper Joel Judith Julia Kai Karl Kate Kim Klara Kurt Lara Laura "
    "Lea Lena Lewis Lily Linda Lois Louis Lucas Lydia Magda Marco Maria Martin Maud Max Maya Moritz Nadia Nancy Nina "
    "Noel Nora Oscar Otto Paul Paula Peter Petra Philip Rachel Ralph Ramon Regina Rita Robert Roger Ruth Sally Samuel "
    "Sara Sofia Susan Tanja Theo Thomas Tim Tina Tony Ulla Ursula Vera Victor Violet Walter Wendy Willy"
)
SURNAMES = (
    "Abbott Barlow Castell Dahl Eriksen Farrow Galvez Holm Ishida Jansen Kovac Lindqvist Marlow Novak Okoye Petrov "
    "Quist Rinaldi Sato Tanaka Ulrich Varga Whitlock Yilmaz Zeller Bergmann Conti Duarte Eklund Fontaine Adams Adler "
    "Ahmed Akers Albu Allen Aoki Arnold Asher Baker Banerjee Barros Bauer Becker Bell Benson Berger Bishop Blake "
    "Bloom Bose Braun Brook Bruns Burke Byrne Cabral Campos Carter Casey Chan Chavez Chen Clarke Cohen Cole Cooper "
    "Costa Craig Cruz Curtis Danso Davies Deng Diaz Dixon Dobson Doyle Drake Duval Easton Ebert Ellis Emerson Evans "
    "Faber Faulkner Feld Fenton Ferrer Finch Fleming Flores Foley Forster Fox Franke Fraser Frost Fuchs Fuller Garcia "
    "Gibson Glover Gomez Graf Grant Greco Greene Gruber Gupta Haas Hahn Hall Hamid Hardy Hart Hassan Hayes Heller "
    "Hess Hirsch Hoffman Horvat Huang Hughes Hunt Ibanez Idris Iyer Jain Jones Joshi Juhasz Kaya Kelly Kemp Kim King "
    "Klein Knox Koch Kruger Kumar Lang Larsen Lee Lehmann Lewis Lima Lind Long Lowe Lutz Maier Marsh Martin Mason "
    "Mehta Mendes Miller Mills Mori Murphy Nagy Nash Neumann Nolan North Nunes Oberg Olsen Ono Owens Page Parker "
    "Patel Pereira Perry Pope Porter Price Prieto Quinn Raman Reed Reyes Rhodes Rivera Roth Rowe Ruiz Ryan Salas "
    "Santos Sauer Saxe Schulz Scott Shah Sharma Shaw Silva Simon Singh Smith Soto Stein Stone Suzuki Swift Szabo "
    "Taylor Thomas Tran Turner Unger Vance Vaughn Vega Vieira Wade Walker Wang Ward Watts Webb Wells West Wolf Wood "
    "Wright Wu Yang Young"
)
FILMS = (
    "Harbour Lantern Orchard Compass Winter Bridge Garden Letter Mirror River Crown Station Island Clock Forest "
    "Shadow Voyage Promise Tower Feather Journey Window Secret Morning Desert Melody Abbey Actor Aisle Album Alley "
    "Angel Apple Archer Arrow Attic Avenue Baker Banker Basket Bay Beach Beggar Bell Bicycle Bird Boat Book Bottle "
    "Boxer Bracelet Branch Bride Brother Cabin Cage Camera Canal Captain Card Carriage Cathedral Cave Cellar Chain "
    "Chair Chapel Chess Child Choir City Cliff Cloud Coast Coin Colony Cook Corner Cottage Count Courier Cousin "
    "Cradle Crow Dancer Daughter Dawn Debt Detective Doctor Dog Door Dragon Dream Driver Duel Dust Eagle Echo "
    "Elephant Emperor Error Exile Eye Factory Fair Farmer Father Fence Festival Fever Field Fire Fisherman Flag Flame "
    "Flight Flower Fog Fortune Fountain Friend Gamble Gate Ghost Giant Glacier Glass Glove Gondola Guard Guest Guitar "
    "Hand Heart Heir Hero Hill Horse Hotel Hour House Hunter Ice Inn Jewel Judge Juggler Jungle Key King Knight Lake "
    "Lamp Lane Lawyer Legend Library Light Lily Lion Lock Lodge Magician Map Marble Mask Master Mayor Maze Mine "
    "Miracle Monk Moon Moth Mountain Nephew Night Nurse Oath Oracle Orphan Outlaw Owl Palace Paper Parade Park Path "
    "Pearl Piano Pilot Pirate Planet Poet Pond Prince Prison Queen Quest Question Rain Raven Road Robe Rose Ruby Sand "
    "School Sea Season Servant Ship Silence Singer Sister Sky Snow Soldier Song Spring Spy Stage Star Statue Stone "
    "Street Student Sun Sword Tailor Tavern Teacher Theatre Thief Throne Tide Tiger Toy Treasure Tree Uncle Valet "
    "Veil Visitor Voice Volcano Waiter Wall Waltz Watch Wedding Well Wheel Widow Wind Wing Witch Witness Wolf Writer "
    "Year"
)
TOPICS = (
    "protein folding, soil erosion, speech recognition, graph colouring, coral reefs, battery ageing, word order, "
    "tidal energy, bird migration, sparse matrices, river deltas, vaccine trials, steel fatigue, early writing, deep "
    "parsing, plant roots, traffic flow, quantum noise, market crashes, sleep and memory, acid rain, air travel, "
    "ancient roads, ant colonies, arctic moss, asthma, bacterial growth, bank loans, bat hearing, bone density, brain "
    "waves, bus networks, cancer screening, cave art, cell walls, chess engines, city heat, cod stocks, colour "
    "vision, comet dust, concrete cracks, cotton prices, cyber fraud, data centres, desert sand, dialect maps, diet "
    "and age, drug doses, earth tides, election polls, elm disease, eye tracking, farm labour, fault lines, fish "
    "farms, flood walls, fog computing, food waste, frog calls, fuel cells, galaxy clusters, game playing, glass "
    "fibres, gold mining, grain storage, group theory, gut flora, hail storms, hand surgery, heat pumps, hiring "
    "tests, hospital beds, ice cores, income tax, insect wings, iron alloys, jet lag, joint pain, knot theory, land "
    "use, language change, laser welding, leaf shape, lens design, light sensors, lung scans, magnetic storms, memory "
    "chips, metal foams, mobile money, moon rocks, moss gardens, music therapy, nerve cells, new vowels, noise walls, "
    "number fields, oak forests, ocean plastics, oil spills, old bridges, online schools, ore grades, organ music, "
    "owl flight, parking fees, pea genetics, pension funds, pipe flow, plate motion, poetry metres, pollen records, "
    "pond life, power grids, price wars, printed maps, proof search, queue lengths, rail safety, rare verbs, red "
    "dwarfs, remote work, road salt, rock art, root crops, rust fungi, salt marshes, sand dunes, school lunches, seed "
    "banks, ship hulls, shock waves, silk roads, skin grafts, snow cover, solar cells, sound change, spider silk, "
    "star spots, stem cells, stone tools, strong magnets, sugar beets, swarm robots, tax law, tea trade, text search, "
    "thin films, time series, tooth decay, trade winds, tree rings, turbine blades, type systems, urban trees, vowel "
    "length, wage growth, water clocks, weak ties, weed control, whale songs, wheat yields, wind tunnels, wool "
    "markets, yeast cells, zinc ores"
)
GOODS = (
    "kettle lamp backpack blanket notebook umbrella teapot clock chair drill basket pillow mirror bottle anvil apron "
    "armchair axe bag ball bathtub bed bell belt bin binder blender boat bookcase boot bowl box bracelet brush bucket "
    "buggy cabinet camera cap cape cart case charger chest chisel coat colander comb compass cooker cot crate cup "
    "cushion desk dictionary dish doll door doormat dress drum dryer easel file flask flute fork frame freezer fridge "
    "funnel glass globe glove grill hairdryer hammock hanger harp hat heater hook hose iron jacket jar jersey kennel "
    "kite knife ladle lantern lawnmower lens lock loom mat mattress microscope mixer mop mug nail napkin necklace "
    "needle net opener paddle pan pen pencil piano plate plough pot pump puzzle radio rake razor ring robe rope "
    "rucksack rug ruler sack saddle sandal saw scale scissors screw shelf shirt shoe shovel sieve sink skirt sledge "
    "soap sock spade speaker sponge spoon stapler stool stove strap suit sweater switch table tap tape tie tile tin "
    "torch towel toy tray tripod trolley trumpet tube vacuum violin wagon watch whistle wok wrench"
)
MEETINGS = (
    "budget review, design sprint, team lunch, hiring panel, board meeting, product demo, choir practice, dentist "
    "visit, tax briefing, yoga class, road map talk, safety drill, book club, sales call, code clinic, art class, "
    "audit talk, band practice, bank visit, barbecue, birthday tea, blood test, bowling night, brainstorm, bridge "
    "club, business dinner, camera club, career talk, carol service, chess match, city tour, client visit, coffee "
    "break, committee, crisis call, dance class, data workshop, debrief, dog training, dress fitting, driving lesson, "
    "drum lesson, exam, family lunch, farewell drink, film shoot, first aid course, fitness test, football match, "
    "funding talk, garden club, goal setting, guest lecture, gym session, hair cut, handover, health check, house "
    "viewing, interview, job fair, judo class, kick off, lab meeting, language class, legal advice, library hour, "
    "market visit, maths lesson, memory walk, mentor talk, music class, neighbour meeting, night shift, open day, "
    "opera, painting course, parade, peer review, phone call, photo session, physics class, picnic, planning round, "
    "play reading, poetry slam, pottery class, price talk, project start, radio show, rehearsal, retrospective, "
    "riding lesson, school play, science fair, server update, ski course, staff meeting, strategy day, study group, "
    "supplier talk, tea ceremony, tennis match, theatre visit, town hall, trade fair, training day, travel planning, "
    "tree planting, user test, video call, visa interview, volunteer day, walking tour, web seminar, wedding, weekly "
    "report, workshop, writing course"
)
THINGS = (
    "Aurora Beacon Cobalt Dorado Ember Fjord Galleon Halcyon Indigo Jasper Kestrel Lumen Meridian Nimbus Abacus "
    "Acacia Agate Alto Amulet Anchor Antler Apex Arcade Argon Atoll Avalon Azure Badger Balsa Baron Basalt Bison "
    "Blaze Boreal Breeze Bronze Cactus Canopy Carbon Cascade Chime Cinder Cirrus Clover Cobra Condor Coral Cosmos "
    "Crest Crocus Cygnus Dahlia Dapple Delta Diadem Dingo Dolphin Domino Drift Dune Echo Elixir Elm Emblem Enigma "
    "Equinox Falcon Fable Fennel Finch Flare Flint Forge Fresco Garnet Gazelle Geyser Glade Glider Granite Gravity "
    "Grove Harbor Hazel Heron Hickory Horizon Hydra Ibis Impala Iris Ivory Jaguar Jetty Kayak Kelp Kiwi Lagoon "
    "Lantern Lark Legend Linden Lynx Magnet Mammoth Mango Maple Marble Marlin Mesa Mirage Monsoon Mosaic Nectar Neon "
    "Nova Oasis Ocelot Onyx Opal Orbit Orchid Origin Osprey Otter Panther Papaya Pebble Pegasus Phoenix Pine Pixel "
    "Plume Polaris Prairie Prism Pulsar Quartz Quasar Quill Radius Rapid Raven Reef Ridge Ripple Rocket Rover Saffron "
    "Sahara Sapphire Saturn Savanna Sierra Silver Skyline Solar Sonata Spark Sphinx Spruce Summit Talon Tango Tempo "
    "Tiger Topaz Torch Trident Tulip Tundra Umber Union Vector Velvet Vertex Vista Vulcan Walnut Willow Yonder Zenith "
    "Zephyr"
)
COUNTRIES = (
    "Avaria Belmark Corvia Dunland Estria Albena Ardovia Baltria Borland Brunia Caldria Carland Dalmark Drania "
    "Eastland Elvia Farland Fenmark Galdia Gorland Halvia Hestria Ilmark Istria Jorland Kaldia Kestland Lorvia Lumark "
    "Maldia Morland Nordia Nestria Olmark Orvia Pelland Perdia Quorland Raldia Rosmark Salvia Sorland Taldia Tormark "
    "Ulvia Vanland Verdia Westmark Wolvia Yorland Zaldia"
)
FILM_STARTS = (
    "The Last, The Silent, A Distant, The Golden, Beyond the, The Hidden, Return to the, Our, A Broken, A Foreign, A "
    "Perfect, A Strange, After the, Against the, Before the, Below the, Every, Farewell to the, Inside the, Letters "
    "from the, My Father's, Night of the, No, One More, Song of the, The Blue, The Borrowed, The Crooked, The Empty, "
    "The First, The Forgotten, The Frozen, The Great, The Little, The Long, The Lost, The Other, The Paper, The Red, "
    "The Second, The Sleeping, The Stolen, The Unknown, The White, Under the, Waiting for the, Without the, Your"
)
PAPER_STARTS = (
    "A Survey of, Towards, Notes on, Measuring, Modelling, The Limits of, New Data on, A History of, A Model of, A "
    "New View of, A Test of, Advances in, Against, An Atlas of, Causes of, Comparing, Counting, Errors in, "
    "Explaining, Fifty Years of, Four Ways to, Learning from, Lessons from, Mapping, Methods for, Open Questions in, "
    "Patterns of, Predicting, Rethinking, Simple Rules for, Simulating, Statistics of, Ten Facts about, The Cost of, "
    "The Future of, The Physics of, The Role of, The Theory of, Tools for, Trends in, Understanding, What Drives, Why "
    "Study"
)
COLOURS = (
    "red, blue, green, black, white, grey, oak, steel, amber, beige, big, brass, bronze, brown, cherry, copper, "
    "cream, dark blue, double, folding, gold, heavy, indigo, ivory, large, light, lilac, long, maple, mini, navy, "
    "olive, orange, pine, pink, plain, plastic, purple, round, royal, ruby, short, silver, small, soft, square, "
    "striped, tall, teak, turquoise, violet, walnut, wide, wooden, yellow"
)
MAKERS = (
    "Brightway, Cornerstone, Everwell, Foxhill, Handel & Co, Ostra, Pinnacle, Tamsin, Abel & Sons, Aldine, Arrowhead, "
    "Baxter Works, Bluestone, Calder, Cobb & Lane, Drummond, Eastgate, Ferro, Goodwin Brothers, Greenleaf, Hammond, "
    "Ironside, Juniper Goods, Kenning, Lakeside, Lowell, Merrow, Nordahl, Oakham, Penrose, Quality House, Redfern, "
    "Silverline, Stanmore, Tilney, Umbra, Vantage, Westbrook, Yardley, Zenner"
)
CARRIERS = (
    "RedPost, SwiftLine, ParcelBee, NordFreight, Hermione, Cargonaut, AirHop, BlueVan, BoxRunner, CityWheels, "
    "DoorDay, EasySend, FastFox, FlyPack, GoGoods, HomeShip, JetMail, KingPost, LandBridge, MailMule, NightVan, "
    "OnTime, PackHorse, QuickCart, RailPost, SeaLink, SkyBox, SunMail, TruckTeam, UrbanPost, VanGo, WingMail, ZipShip"
)
VENUES = (
    "Annals, Letters, Proceedings, Quarterly, Transactions, Reports, Acta, Advances, Archives, Bulletin, "
    "Communications, Contributions, Digest, Forum, Frontiers, Gazette, Memoirs, Notes, Notices, "
    "Perspectives, Records, Reviews, Sketches, Studies, Surveys, Topics, Trends, Year Book"
)
ROOMS = (
    "Basement, Library, Terrace, Room 12, Room 27, Hall, Studio, Kitchen, Attic, Lounge, Annex, Aula, Balcony, Bar, "
    "Cabin, Cafe, Canteen, Chapel, Cinema, Clubroom, Court, Den, Foyer, Gallery, Garage, Garden, Gym, Lab, Lobby, "
    "Loft, Office 3, Office 8, Parlour, Patio, Pavilion, Room 4, Room 9, Room 15, Room 31, Room 40, Salon, Suite 2, "
    "Suite 6, Tower, Veranda, Workshop"
)
