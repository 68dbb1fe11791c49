"""The words of training boards: hundreds of names, two of five made up."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentgym_py.env.wording import expand, made_up_name
from agentgym_py.rng import Rng

MADE_UP = 0.4
"""Share of made-up names, so that names must be read."""
_COMMENTS = 600
"""The comments from which boards draw."""

WORDS: Mapping[str, str] = {
    "person": (
        "Ana, Bruno, Carla, David, Elena, Farid, Greta, Hugo, Ines, Jonas, Katya, Liam, Adele, Ahmed, Alice, Amir, "
        "Andrew, Anita, Anton, Beatrice, Ben, Boris, Brenda, Carlos, Cecilia, Chen, Clara, Colin, Daisy, Dana, "
        "Diego, Dora, Edith, Edwin, Emil, Emma, Erik, Esther, Eva, Felix, Fiona, Frank, George, Gina, Gustav, Hanna, "
        "Harold, Heidi, Henry, Ida, Igor, Imran, Irene, Isaac, Ivan, Jack, Jana, Jasmin, Joan, Joseph, Julia, Kai, "
        "Karim, Karl, Kira, Lars, Laura, Lena, Leon, Lina, Louis, Lucy, Magnus, Maria, Mark, Martha, Max, Maya, "
        "Mehmet, Milan, Monica, Nadia, Nathan, Nina, Noah, Nora, Omar, Oscar, Otto, Paula, Peter, Petra, Philip, "
        "Priya, Rachel, Ralph, Ravi, Rita, Robert, Ruth, Sally, Samir, Sara, Selma, Sofia, Stefan, Susan, Tariq, "
        "Theo, Tina, Tom, Uma, Ursula, Victor, Wanda, Wendy, William, the plumber, the dentist, the landlord, the "
        "bank, Mrs Baker, Mr Stone, Mrs Adler, Mr Young, Doctor Grant, Doctor Lowe, Aunt Jane, Uncle Joe, Grandma, "
        "Grandpa, the neighbours, Abby, Abdul, Adam, Agnes, Aisha, Alan, Albert, Alex, Alfred, Alma, Amanda, Amy, "
        "Angela, Anna, Anthony, Arthur, Astrid, Barbara, Barry, Bella, Bernard, Beth, Bill, Bjorn, Bob, Bridget, "
        "Caleb, Camilla, Carmen, Caroline, Cassie, Cathy, Charles, Charlotte, Chloe, Chris, Connor, Cora, Craig, "
        "Cynthia, Dale, Daniel, Darren, Deborah, Dennis, Denise, Derek, Diana, Dmitri, Dominic, Donna, Doris, Doug, "
        "Duncan, Eddie, Eileen, Eleanor, Eliza, Ellie, Elsa, Emily, Enzo, Eric, Ethan, Eugene, Evelyn, Faye, Fatima, "
        "Florence, Frances, Fred, Gareth, Gary, Gavin, Gemma, Georgia, Gerald, Gloria, Gordon, Graham, Hamid, "
        "Hannah, Harriet, Harry, Hassan, Hazel, Helen, Hilda, Howard, Ian, Imogen, Isabel, Jacob, Jake, James, "
        "Janet, Jason, Jean, Jenny, Jeremy, Jerry, Jim, Joanna, Joe, Johan, Josie, Joy, Judith, Justin, Karen, Kate, "
        "Keith, Kelly, Kenji, Kevin, Kim, Kirsten, Kofi, Lee, Leila, Leo, Liz, Lola, Lorenzo, Lorna, Luke, Lydia, "
        "Mabel, Marco, Margaret, Marie, Marion, Martin, Matthew, Megan, Melanie, Mia, Michael, Miguel, Miriam, "
        "Molly, Nancy, Natalie, Neil, Nell, Nick, Nigel, Norman, Oliver, Olive, Owen, Pablo, Pamela, Patrick, "
        "Pauline, Pedro, Penny, Phoebe, Polly, Quentin, Rajesh, Rebecca, Reg, Richard, Roger, Ronald, Rosie, Roy, "
        "Rupert, Russell, Ryan, Sabrina, Sam, Sandra, Sarah, Scott, Sean, Sergio, Shirley, Silvia, Sonia, Stanley, "
        "Stella, Steve, Stuart, Sven, Tamara, Tara, Ted, Teresa, Tim, Toby, Tony, Tracy, Trevor, Viktor, Vincent, "
        "Viola, Walter, Warren, Xavier, Yara, the accountant, the baker, the barber, the boss, the builder, the "
        "butcher, the caretaker, the chef, the cleaner, the coach, the doctor, the driver, the editor, the "
        "electrician, the gardener, the insurance company, the intern, the lawyer, the librarian, the locksmith, the "
        "mayor, the mechanic, the notary, the nurse, the optician, the painter, the pharmacist, the photographer, "
        "the postman, the principal, the roofer, the supplier, the tailor, the teacher, the tenant, the town hall, "
        "the treasurer, the trainer, the tutor, the vet, the waiter, Mrs Brown, Mr Clark, Ms Evans, Mr Fisher, Mrs "
        "Green, Mr Hall, Ms Hill, Mr King, Mrs Moore, Mr Parker, Mrs Price, Mr Reed, Ms Shaw, Mr Ward, Mrs Wood, "
        "Doctor Patel, Doctor Novak, Professor Lane, Professor Marsh, Captain Ross, Aunt Mary, Aunt Ellen, Uncle "
        "Pete, Uncle Bert, Mum, Dad, my sister, my brother, my cousin, my son, my daughter, my niece, my nephew, my "
        "wife, my husband, the twins, the children, the guests, the landlady, the new colleague, the choirmaster, "
        "the babysitter"
    ),
    "topic": (
        "budget, yearly report, contract, new website, survey, price list, training day, audit, product launch, "
        "travel policy, sales plan, newsletter, tax form, work plan, lease, merger, rota, logo, brochure, catalogue, "
        "tender, forecast, data model, user guide, road map, server move, backup plan, bug list, test plan, release "
        "notes, workshop, interview, job offer, handover, warranty, complaint, refund, delivery note, order form, "
        "minutes, agenda, strategy, pilot project, case study, grant proposal, patent search, fire drill, house "
        "rules, key list, visitor badge, parking plan, coffee machine, phone contract, licence, strike, summer "
        "schedule, bonus scheme, expense claim, quarterly figures, office party, account statement, advert, annual "
        "accounts, apology, application, appraisal, article, assembly plan, balance sheet, bank transfer, bid, bill "
        "of sale, blog post, booking form, brief, business card, business plan, calendar, campaign, cash book, "
        "certificate, checklist, claim, code review, commission, company car, contact list, copyright notice, cost "
        "estimate, credit note, curriculum, customer list, cover letter, dashboard, deadline, debt, deed, demo, "
        "deposit, design draft, diagram, diploma, discount, dismissal, donation, draft, duty roster, election, email "
        "list, employment contract, energy bill, error message, essay, evaluation, exam paper, experiment, export "
        "licence, fact sheet, feedback form, final invoice, flyer, framework, funding plan, glossary, guest list, "
        "guidelines, hiring plan, holiday request, home page, income statement, index, inheritance, inspection, "
        "insurance policy, internship, inventory, invitation, itinerary, keynote, label design, law suit, layout, "
        "leaflet, letter of thanks, loan, mailing, manual, manuscript, map, market analysis, master plan, memo, menu "
        "card, merchandise, migration, mission statement, mortgage, network plan, notice, online shop, opening "
        "hours, organisation chart, outline, overtime, packaging, password policy, payroll, pension plan, "
        "performance review, permit, petition, phone list, photo shoot, poll, portfolio, poster, price increase, "
        "privacy policy, production plan, project plan, proof sheets, proposal, prototype, purchase order, "
        "questionnaire, quote, quiz, ranking, reading list, receipt, recipe, reference letter, registration, "
        "remarks, rental agreement, reminder letter, resignation, roadshow, roof plan, safety rules, salary, sales "
        "figures, sample, scholarship, script, seating plan, security check, seminar, settlement, shift plan, "
        "shipping list, sketch, slides, software update, speech, spreadsheet, staff meeting, storyboard, style "
        "guide, subscription, summary, supply chain, syllabus, table of contents, tax return, team budget, template, "
        "term paper, thesis, time sheet, timetable, trailer, translation, trial period, trip report, union vote, "
        "vacancy, video call, virus scan, voucher, wage slip, waiting list, web shop, will, work permit, wish list, "
        "worksheet, yearbook"
    ),
    "thing": (
        "door handle, bathroom tap, fence, bookshelf, oven, bicycle, window frame, lamp, washing machine, stairs, "
        "garage door, carpet, boiler, bench, blinds, bucket, bunk bed, cabinet, camera, ceiling, chimney, clock, "
        "cooker, cupboard, dishwasher, drain, drawer, dryer, fan, fireplace, floor, fridge, gutter, hammock, hinge, "
        "hose, iron, kettle, ladder, lawn mower, lock, mattress, microwave, parquet, patio, pipe, plug, printer, "
        "pump, radiator, radio, railing, roof, rug, satellite dish, scooter, shed, shower, shutter, sink, skylight, "
        "smoke alarm, speaker, stove, switch, table, television, tent, thermostat, tiles, toilet, toolbox, trailer, "
        "typewriter, umbrella, vacuum cleaner, wall, water tank, wheelbarrow, worktop, air conditioner, alarm clock, "
        "amplifier, anchor, apron, armchair, attic window, awning, axe, backpack, balcony door, ball, banister, "
        "barrel, basin, basket, bath mat, bathtub, battery, bed, bedside table, bell, belt, bicycle pump, bird bath, "
        "birdhouse, blanket, blender, board game, boat, boots, bottle rack, bowl, box, bread maker, brick wall, "
        "cable, cage, candlestick, canoe, car, caravan, cat flap, chair, chandelier, chest of drawers, chessboard, "
        "clothes line, coat, coat rack, coffee table, compass, compost bin, computer, cot, couch, crate, cradle, "
        "cupboard door, curtains, cushion, deck chair, desk, desk lamp, dining table, display, doghouse, doll's "
        "house, doormat, doorstep, drain pipe, dress, drill, drone, drum, dustbin, easel, electric kettle, engine, "
        "extension lead, filing cabinet, filter, fire extinguisher, fish tank, flagpole, flashlight, flowerpot, "
        "folding chair, food mixer, footstool, fuse box, garden chair, garden hose, garden path, garden wall, gas "
        "bottle, glasses, globe, greenhouse, grill, guitar, hair dryer, hallway, hammer, handbag, handbrake, hat "
        "stand, headlight, headphones, hedge trimmer, helmet, high chair, hob, hot tub, ice machine, ironing board, "
        "jacket, jigsaw, juicer, kayak, keyboard, kitchen scales, knife block, lamp shade, lantern, laptop, laundry "
        "basket, letterbox, light bulb, light switch, loudspeaker, magnifier, mailbox, mandolin, microphone, mixer, "
        "mobile phone, modem, monitor, motorbike, mouse trap, mower, notebook, oil lamp, oil tank, organ, outboard "
        "motor, outdoor light, padlock, paint brush, parasol, parcel shelf, pavement, pedal, pendulum clock, phone, "
        "picture frame, pillow, plant pot, playpen, plunger, pond, pool, porch, pram, pressure cooker, projector, "
        "puncture, puzzle, rake, razor, record player, remote control, rice cooker, rocking chair, roller blind, "
        "rope, router, rowing boat, rucksack, saddle, safe, sandpit, sauna, saw, scale, scanner, screen, "
        "screwdriver, seesaw, sewing machine, sheets, shelf, shoe rack, shoes, shovel, shower curtain, sideboard, "
        "skateboard, skis, sledge, sleeping bag, slide, soldering iron, spade, spare key, spare wheel, step ladder, "
        "stereo, stool, suitcase, sundial, surfboard, swing, table leg, tablecloth, tap, tape recorder, telescope, "
        "tennis racket, towel rail, toy train, tractor, trampoline, tripod, trumpet, tumble dryer, tyre, vase, "
        "violin, waffle iron, wash basin, watch, watering can, water butt, water filter, weather vane, whiteboard, "
        "windscreen, wine rack, wood stove, workbench, wrench"
    ),
    "food": (
        "apples, rice, coffee, olive oil, bread flour, cheese, tomatoes, honey, onions, tea, apricots, bacon, "
        "bananas, basil paste, beans, beer, biscuits, blueberries, bread, broccoli, cabbage, carrots, celery, "
        "cherries, chicken, chocolate, cider, cinnamon, coconut milk, corn, cream, cucumbers, dates, eggs, figs, "
        "fish, garlic, ginger, grapes, ham, ice cream, juice, kale, ketchup, lamb, limes, mango, maple syrup, melon, "
        "milk, mustard, noodles, nuts, oats, olives, paprika, peaches, peanuts, pears, pineapple, pizza, plums, "
        "popcorn, potatoes, prawns, raisins, salad, salmon, sausages, soup, soy sauce, sugar, sultanas, toast, tofu, "
        "trout, tuna, turkey, vanilla, water, wine, yeast, anchovies, artichokes, asparagus, aubergines, avocados, "
        "baking powder, balsamic vinegar, beef, bell peppers, black pepper, blackberries, brown sugar, brussels "
        "sprouts, buns, buttermilk, cake, camomile tea, capers, cashews, cauliflower, cereal, chickpeas, chilli "
        "powder, chips, chutney, clams, cloves, cocoa, cod, cottage cheese, couscous, crab, crackers, cranberries, "
        "crisps, croissants, curry powder, custard, doughnuts, duck, dumplings, elderflower syrup, energy bars, "
        "fennel, feta, flour, fruit, goat cheese, goulash, granola, grapefruit, gravy, green beans, green tea, "
        "haddock, hazelnuts, herbs, herring, horseradish, hummus, iced tea, icing sugar, jelly, kidney beans, kiwis, "
        "lasagne, lemonade, liquorice, lobster, macaroni, mackerel, marmalade, marzipan, mashed potatoes, "
        "mayonnaise, meatballs, mince, mineral water, mint sauce, mozzarella, muesli, muffins, mussels, nutmeg, oat "
        "milk, octopus, omelette, orange juice, oysters, pancakes, parmesan, pastries, peanut butter, pesto, "
        "pickles, pie, pistachios, polenta, porridge, pork, pretzels, pumpkin, quail eggs, quiche, ravioli, red "
        "cabbage, rolls, rusks, rye bread, saffron, salami, sardines, sauerkraut, scones, sea salt, semolina, sesame "
        "seeds, shortbread, shrimps, sour cream, soya milk, spaghetti, sprouts, squash, steak, stew, stock cubes, "
        "sunflower oil, sweet potatoes, sweets, swordfish, tabasco, tarts, tinned fruit, tomato paste, tortillas, "
        "truffles, turnips, vegetable stock, venison, waffles, watermelon, whipped cream, white wine, wholemeal "
        "bread, wraps, yams"
    ),
    "plant": (
        "roses, carrots, lavender, beans, tulips, basil, strawberries, apple tree, fern, mint, anemones, asters, "
        "azalea, beech hedge, begonias, blackcurrants, box hedge, broccoli, cactus, camellia, chives, clematis, "
        "clover, coriander, cosmos, cucumbers, currants, dill, fennel, fig tree, foxgloves, fuchsia, garlic, "
        "geraniums, gooseberries, grapevine, heather, hollyhocks, honeysuckle, hops, hydrangea, irises, jasmine, "
        "kale, larkspur, lilac, lilies, lupins, magnolia, marigolds, melons, nasturtiums, olive tree, onions, "
        "orchid, oregano, pansies, parsley, peach tree, peppers, petunias, plum tree, poppies, potatoes, primroses, "
        "raspberries, rhubarb, rosemary, snowdrops, sunflowers, sweetcorn, tarragon, tomatoes, violets, willow, "
        "wisteria, yew hedge, acacia, acorns, agave, alder, aloe, alpine flowers, amaryllis, apricot tree, "
        "artichokes, ash tree, asparagus bed, aubergines, autumn crocus, barley, bay tree, bellflowers, bergamot, "
        "birch, bird cherry, blueberries, bonsai, borage, brussels sprouts, buddleia, bulbs, buttercups, cabbages, "
        "calendula, candytuft, carnations, catmint, cedar, celery, chard, chestnut tree, chicory, Christmas rose, "
        "chrysanthemums, columbines, comfrey, cornflowers, cowslips, crab apple, cress, cyclamen, cypress, daisies, "
        "dandelions, daphne, day lilies, delphiniums, edelweiss, elder, elm, evening primrose, ferns, flax, "
        "forget-me-nots, forsythia, freesias, gentians, gladioli, goldenrod, gourds, grape hyacinths, grasses, "
        "hawthorn, hazel, hedge, hellebores, hemp, hibiscus, holly, hostas, houseplants, hyacinths, iceland poppies, "
        "juniper, kohlrabi, laburnum, lady's mantle, larch, laurel, leeks, lemon tree, lime tree, linden, "
        "loganberries, lotus, lovage, maize, mangold, maple, marjoram, medlar, mimosa, mistletoe, moss, mulberry "
        "tree, myrtle, narcissus, nettles, oak, oats, oleander, orange tree, osier, oxeye daisies, palm, parsnips, "
        "passion flower, periwinkle, phlox, pine, plane tree, pomegranate, poplar, potted palm, primulas, privet, "
        "quince, ragwort, rhododendron, rock plants, rowan, rubber plant, rue, runner beans, rye, saffron, salvia, "
        "savory, saxifrage, sea holly, seedlings, shallots, shrubs, sloe, snapdragons, sorrel, soya, spider plant, "
        "spinach, spruce, squash, succulents, sugar beet, swede, sycamore, tamarisk, thistles, thuja, tobacco "
        "plants, turnips, valerian, verbena, veronica, vetch, viburnum, vine, virginia creeper, walnut tree, "
        "wallflowers, water lilies, waxflower, weigela, wheat, wild garlic, winter jasmine, witch hazel, woodruff, "
        "yarrow, yucca, zinnias"
    ),
    "city": (
        "Lisbon, Vienna, Oslo, Prague, Seville, Dublin, Kyoto, Tallinn, Marseille, Porto, Aachen, Aberdeen, Accra, "
        "Adelaide, Algiers, Amman, Ankara, Antwerp, Athens, Austin, Baku, Bamako, Barcelona, Basel, Beirut, Belfast, "
        "Belgrade, Berlin, Bern, Bilbao, Bogota, Bologna, Bordeaux, Boston, Bremen, Bristol, Brno, Brussels, "
        "Budapest, Cadiz, Cairo, Calgary, Cardiff, Chennai, Chicago, Cologne, Copenhagen, Cordoba, Dakar, Delhi, "
        "Denver, Dresden, Durban, Edinburgh, Florence, Geneva, Genoa, Glasgow, Granada, Graz, Hamburg, Hanoi, "
        "Havana, Helsinki, Istanbul, Jakarta, Kiel, Krakow, Lagos, Leeds, Lille, Lima, Linz, Ljubljana, London, "
        "Lyon, Madrid, Malmo, Manila, Melbourne, Milan, Montreal, Munich, Nairobi, Nice, Odense, Ottawa, Paris, "
        "Perth, Pisa, Quito, Rabat, Rome, Rotterdam, Salzburg, Santiago, Seoul, Siena, Sofia, Stockholm, Sydney, "
        "Tbilisi, Tokyo, Toronto, Trieste, Tunis, Turin, Utrecht, Valencia, Venice, Verona, Warsaw, Wroclaw, York, "
        "Zurich, Abuja, Addis Ababa, Agadir, Aleppo, Alicante, Amsterdam, Anchorage, Arezzo, Arles, Asuncion, "
        "Atlanta, Auckland, Augsburg, Avignon, Baghdad, Baltimore, Bangalore, Bangkok, Bari, Bath, Birmingham, Bonn, "
        "Brasilia, Bratislava, Brest, Bucharest, Buenos Aires, Bursa, Canberra, Cannes, Cape Town, Caracas, "
        "Casablanca, Catania, Chester, Christchurch, Coimbra, Constance, Cusco, Dallas, Damascus, Darwin, Delft, "
        "Detroit, Dhaka, Dijon, Doha, Dortmund, Dubai, Dubrovnik, Dundee, Eindhoven, Erfurt, Essen, Exeter, Faro, "
        "Ferrara, Frankfurt, Freiburg, Gdansk, Gothenburg, Grenoble, Groningen, Guadalajara, Haifa, Halifax, "
        "Hanover, Heidelberg, Hiroshima, Hobart, Houston, Innsbruck, Inverness, Izmir, Jaipur, Jena, Kampala, "
        "Karachi, Kassel, Katowice, Kiruna, Kobe, Konstanz, La Paz, Lausanne, Leicester, Leiden, Leipzig, Leuven, "
        "Limerick, Liverpool, Lodz, Lubeck, Lucerne, Lugano, Lusaka, Luxembourg, Maastricht, Malaga, Manchester, "
        "Mannheim, Maribor, Memphis, Metz, Miami, Minsk, Modena, Mombasa, Monaco, Montpellier, Mumbai, Nagoya, "
        "Nancy, Newcastle, Norwich, Nottingham, Nuremberg, Ostend, Oxford, Padua, Palma, Parma, Perugia, "
        "Philadelphia, Phoenix, Plovdiv, Plymouth, Poznan, Pula, Ravenna, Recife, Regensburg, Reims, Reykjavik, "
        "Rhodes, Rijeka, Rostock, Rouen, Salamanca, Sapporo, Sarajevo, Seattle, Shanghai, Sheffield, Singapore, "
        "Skopje, Southampton, Stavanger, Strasbourg, Stuttgart, Swansea, Syracuse, Szeged, Tampere, Tangier, "
        "Thessaloniki, Tirana, Toledo, Toulon, Tripoli, Trondheim, Ulm, Uppsala, Vancouver, Varna, Vigo, Warwick, "
        "Weimar, Wellington, Worcester, Yerevan, Zaragoza"
    ),
    "subject": (
        "algebra, Roman history, genetics, French verbs, statistics, optics, poetry, logic, geology, anatomy, "
        "archaeology, architecture, astronomy, biology, business law, chemistry, climate, coding, criminal law, "
        "dance, databases, design, economics, electronics, epidemiology, film history, finance, fluid dynamics, "
        "geography, geometry, German nouns, graph theory, Greek letters, harmony, hygiene, Italian verbs, Japanese "
        "signs, knitting, linguistics, literature, magnetism, marketing, medicine, metaphysics, meteorology, music "
        "theory, networks, neurology, nutrition, oceanography, painting, phonetics, physics, politics, psychology, "
        "robotics, Russian grammar, sculpture, set theory, sociology, theology, trigonometry, typography, zoology, "
        "accounting, acting, African art, agriculture, ancient Egypt, animal behaviour, anthropology, Arabic "
        "letters, art history, Asian history, Baroque music, basket weaving, bird songs, book keeping, bridge "
        "building, butterflies, calligraphy, cartography, cell biology, ceramics, chess openings, Chinese signs, "
        "choir conducting, civil law, colour theory, combinatorics, company law, computer graphics, contract law, "
        "cooking, counterpoint, cryptography, customs law, dinosaurs, drawing, Dutch grammar, electricity, "
        "embroidery, English spelling, entomology, ergonomics, evolution, family law, fashion, first aid, fractions, "
        "gardening, glaciers, grammar, haiku, handwriting, heraldry, history of science, immunology, inheritance, "
        "integrals, Irish folklore, irregular verbs, jazz, journalism, Latin verbs, law of the sea, leadership, "
        "lenses, machine learning, marine life, maths, matrices, medieval history, minerals, modern art, modern "
        "dance, molecules, mosaics, mountain rescue, mushrooms, mythology, navigation, neural networks, novels, "
        "number theory, operating systems, opera, organic chemistry, ornithology, patent law, pedagogy, percussion, "
        "Persian poetry, pharmacy, philosophy, photography, plant diseases, plasma physics, plumbing, Polish verbs, "
        "politeness, pottery, prime numbers, programming, pronunciation, psychiatry, public speaking, punctuation, "
        "quantum theory, relativity, religion, rivers of Asia, rocks, rock climbing, sea routes, sewing, shorthand, "
        "singing, software testing, solar energy, Spanish verbs, speech therapy, star signs, statics, surgery, "
        "Swedish grammar, tax law, team work, tectonics, textiles, the Aztecs, the brain, the cold war, the human "
        "heart, the Middle Ages, the moon, the Renaissance, the Vikings, the weather, thermodynamics, toxicology, "
        "traffic rules, urban planning, vectors, vocabulary, volcanoes, water colours, wave theory, weaving, wine "
        "making, woodwork, world trade, yoga, zen"
    ),
    "event": (
        "summer party, chess evening, book fair, quiz night, general meeting, film night, bazaar, open day, "
        "anniversary, art show, award evening, barbecue, bingo night, board meeting, bowling night, brunch, cake "
        "sale, carnival, cheese tasting, circus, clothes swap, cooking class, costume party, cycle tour, dance "
        "class, debate, dinner, dress rehearsal, exhibition, farewell party, fireworks, first aid course, fish "
        "market, football match, garden tour, hike, jumble sale, karaoke night, lantern walk, market day, match, "
        "museum visit, opera evening, parade, picnic, plant sale, play, poetry reading, puppet show, raffle, "
        "regatta, relay race, sailing trip, science day, ski trip, sports day, street party, swimming gala, tea "
        "party, theatre trip, treasure hunt, tournament, village fete, wedding, wine evening, workshop, yoga "
        "morning, acrobatics show, advent market, air show, alumni dinner, antiques fair, baby shower, ballet, "
        "balloon ride, band practice, baptism, barn dance, beach day, beer festival, bicycle race, bird walk, "
        "birthday party, blood donation, boat trip, bonfire, book club, boxing match, breakfast club, bridge "
        "evening, business lunch, camp, card evening, ceremony, chess tournament, Christmas party, city tour, class "
        "reunion, climbing course, coffee morning, comedy night, comic fair, company outing, computer course, "
        "congress, craft fair, cricket match, cruise, dance evening, day trip, derby, dog show, drama class, drinks "
        "evening, Easter egg hunt, engagement party, excursion, fair, fancy dress ball, fashion show, festival, "
        "field day, fishing trip, flower show, folk evening, food festival, fun run, funeral, games evening, garden "
        "party, gig, golf day, graduation, guided tour, gymnastics class, handball match, harvest festival, health "
        "day, hen party, hockey match, horse race, house warming, ice skating, improvised theatre, jam session, job "
        "fair, judo class, jubilee, kite festival, language course, laser show, light show, magic show, marathon, "
        "masked ball, May fair, mayor's reception, meditation evening, model train show, moonlight walk, music "
        "festival, musical, nature walk, New Year's party, night hike, office lunch, opening night, open mic night, "
        "orchestra rehearsal, outing, pantomime, parents' evening, party, pet show, photo exhibition, piano recital, "
        "pottery class, premiere, presentation, prize giving, protest march, pub quiz, quilt show, reading, "
        "reception, retirement party, reunion, rock concert, rowing race, rugby match, safari, salsa evening, school "
        "play, screening, seminar, show, silent auction, singing class, sit-in, skating party, slide show, song "
        "contest, spelling bee, stag night, steam fair, story evening, swap meet, symphony concert, talent show, "
        "talk, tango evening, tasting, tennis match, toddler group, town meeting, training camp, tree planting, "
        "trivia night, vigil, vintage fair, vote, walking tour, water polo match, winter market, world cup evening, "
        "writing class, zoo visit, zumba class"
    ),
    "project": (
        "Work, Home, Shopping, Garden, Travel, Studies, Club, Family, Boat trip, New flat, Choir, Podcast, Car sale, "
        "Tax return, Accounts, Attic, Baby, Balcony, Band, Bathroom, Birthday, Blog, Book, Campaign, Camping, Car, "
        "Charity, Christmas, Church, Cinema, Clinic, Conference, Cottage, Course, Customers, Degree, Dog, Election, "
        "Exhibition, Farm, Festival, Fitness, Flat, Football, Forum, Gallery, Games, Health, Holiday, House, "
        "Invoices, Journal, Kitchen, Lab, Language, Library, Magazine, Market, Moving, Museum, Music, Neighbours, "
        "Novel, Nursery, Office, Orchestra, Parents, Party, Personal, Pets, Photos, Private, Recipes, Repairs, "
        "Research, Restaurant, Sailing, School, Shop, Side job, Spring fair, Sports, Stage, Team, Tennis, Theatre, "
        "Thesis, Tools, Training, Vegetables, Video, Volunteers, Website, Wedding, Winter, Workshop, Youth group, "
        "Animals, Art, Astronomy, Athletics, Audit, Bakery, Bees, Bicycle, Boat, Books, Brewery, Budget, Building, "
        "Business, Cabin, Cafe, Calendar, Career, Cats, Cellar, Chess, Children, City tour, Classroom, Cleaning, "
        "Clients, Clothes, Coaching, Coffee bar, Collection, Committee, Community, Contracts, Cooking, Crafts, Crew, "
        "Cycling, Dance, Data, Debts, Decoration, Design, Diary, Diet, Documents, Driving, Editing, Education, "
        "Energy, Engine, Errands, Events, Expenses, Fashion, Film, Finance, Fishing, Flowers, Food bank, Forest, "
        "Friends, Fund, Furniture, Garage, Gifts, Golf, Grandparents, Guests, Hiking, Hobby, Horses, Hospital, "
        "Hostel, Hotel, Household, Immigration, Insurance, Interior, Internship, Inventory, Island, Jazz, Job hunt, "
        "Jobs, Karate, Kids, Knitting, Landscape, Law, Learning, Legal, Letters, Loft, Marketing, Medicine, "
        "Meetings, Members, Model railway, Money, Mortgage, Mountain, Nature, Network, Newsletter, Nutrition, Old "
        "house, Online shop, Opera, Orchard, Outings, Paddling, Painting, Paperwork, Park, Patients, Payroll, "
        "Pension, Plants, Play, Pond, Pottery, Practice, Press, Printing, Products, Publicity, Puppets, Quality, "
        "Quiz, Radio, Railway, Reading, Records, Relatives, Renovation, Rent, Reports, River, Robot, Rowing, "
        "Running, Safety, Sales, Science, Security, Seminar, Server, Sewing, Shed, Ship, Singing, Ski club, Social, "
        "Software, Staff, Startup, Stories, Street, Students, Studio, Summer camp, Sunday, Supplies, Surgery, "
        "Swimming, Teaching, Technology, Terrace, Tickets, Tourism, Toys, Tractor, Traffic, Training camp, "
        "Translation, Trees, Trips, Truck, University, Van, Village, Vineyard, Visitors, Volleyball, Warehouse, "
        "Water, Weather, Welfare, Wellness, Woodwork, Writing, Yacht, Yard, Yoga, Zoo"
    ),
    "section": (
        "Planning, Reports, Meetings, Hiring, Repairs, Cleaning, Kitchen, Groceries, Gifts, Hardware, Beds, Lawn, "
        "Greenhouse, Bookings, Packing, Papers, Reading, Exercises, Exams, Events, Members, Money, School, "
        "Birthdays, Weekend, Later, Ideas, This month, Waiting list, First steps, Contacts, Admin, After lunch, "
        "Archive box, Autumn, Basement, Calls, Checks, Clothes, Daily, Delivery, Design, Done soon, Errands, "
        "Evenings, Feedback, Finance, First floor, Forms, Friday, Furniture, Goals, Half done, Help wanted, Indoors, "
        "Inventory, Legal, Letters, Long term, Maintenance, Materials, Maybe, Monday, Mornings, New, Next week, "
        "Notes, Old, On hold, Outdoors, Parts, Payments, People, Photos, Press, Priority, Questions, Quick wins, "
        "Research, Review, Rooms, Rush, Saturday, Short term, Spring, Storage, Summer, Supplies, Talks, Team, "
        "Testing, Texts, This week, Today, Tools, Transport, Trips, Urgent, Visits, Winter, Accounts, Activities, "
        "Agenda, Alone, Anytime, Appointments, Archive, Assigned, Attic, Balcony, Bathroom, Bedroom, Before noon, "
        "Bills, Board, Books, Budget, Bugs, Buildings, Car, Cellar, Children, City, Colours, Computers, Contracts, "
        "Copies, Corridor, Courses, Crafts, Customers, Data, Deadlines, Debts, December, Decorations, Delegated, "
        "Documents, Doing, Doors, Drinks, Early, Editing, Electricity, Emails, Engine, Equipment, Everyday, "
        "Exhibits, Extras, Family, Favours, Fees, Files, Films, Final, Fixes, Flowers, Food, Foundations, Friends, "
        "Front, Fruit, Fun, Funding, Garage, Garden, Graphics, Ground floor, Guests, Hall, Hard, Health, Heating, "
        "Helpers, Herbs, High season, Holidays, Homework, Hotels, Household, Hygiene, Imports, In progress, "
        "Insurance, Internet, Interviews, Invitations, Invoices, Items, January, Journeys, Judges, July, June, "
        "Labels, Laundry, Law, Layout, Leads, Lectures, Lessons, Library, Light work, Links, Lists, Loans, "
        "Logistics, Lunch, Machines, Mail, Main, March, Marketing, Meals, Media, Medicine, Messages, Midweek, "
        "Milestones, Music, Names, Nearby, Night, November, Numbers, October, Offers, Office, Offline, Old stock, "
        "Online, Opening, Orders, Others, Packaging, Paint, Paperwork, Partners, Party, Pending, Phone, Pictures, "
        "Plants, Playground, Plumbing, Posters, Practice, Preparation, Presents, Prices, Printing, Problems, "
        "Products, Programme, Proposals, Prototype, Public, Purchases, Quality, Queue, Quick, Ready, Recipes, "
        "Records, Registration, Rehearsals, Releases, Reminders, Rent, Requests, Research trips, Reserve, Returns, "
        "Risks, Roof, Routes, Routine, Rules, Safety, Sales, Samples, Schedule, Scripts, Second floor, Security, "
        "Seeds, Selling, September, Shelves, Shipping, Signs, Soil, Songs, Sources, Special, Speeches, Sponsors, "
        "Sport, Staff, Stage, Stairs, Start, Stock, Studies, Sunday, Surveys, Tables, Targets, Taxes, Technical, "
        "Theory, Thursday, Tickets, Tidying, Topics, Toys, Training, Transfers, Trees, Tuesday, Unsorted, Upstairs, "
        "Vegetables, Videos, Volunteers, Walls, Washing, Water, Website, Wednesday, Welcome, Windows, Wishes, Wood, "
        "Work in hand, Workers, Writing, Yard"
    ),
    "label": (
        "phone, urgent, waiting, errand, email, quick, money, online, abroad, alone, archive, bike, bills, bus, "
        "busy, cheap, chore, city, cold, cooking, daily, deep, delegate, dirty, dull, early, energy, expensive, "
        "family, fast, favour, focus, free, friends, fun, garage, goal, green, guest, habit, hard, health, heavy, "
        "help, hobby, holiday, home, idea, indoors, internet, joint, kids, late, laptop, later, legal, library, "
        "light, list, loud, low, lunch, maybe, meeting, mobile, morning, new, night, noisy, noon, office, old, open, "
        "order, outdoors, paper, partner, pending, personal, pickup, private, project, queue, quiet, rainy, read, "
        "red, research, review, risky, routine, sale, school, secret, seldom, shared, shop, slow, small, social, "
        "soon, spring, study, summer, team, test, ticket, today, tools, travel, trivial, video, visit, walk, "
        "weekend, weekly, winter, work, write, action, active, admin, afternoon, airport, annual, april, art, asap, "
        "attic, august, autumn, baby, background, balcony, basement, beach, big, birthday, black, blue, board, boat, "
        "book, boring, boss, brief, broken, brown, budget, build, calm, camping, car, cash, casual, cellar, charity, "
        "chat, check, church, clean, client, club, coach, code, colleague, complex, contact, cook, copy, court, "
        "craft, credit, crisis, critical, cycle, dad, dangerous, dark, dance, date, day off, debt, deadline, "
        "december, decide, diary, difficult, discuss, doctor, document, draft, dream, drive, dry, eat, edit, "
        "emergency, empty, english, event, exam, exercise, export, external, fair, famous, farm, fees, february, "
        "film, final, finance, fire, first, fix, flat, floor, follow up, food, foreign, form, fragile, french, "
        "friday, fresh, fruit, full, game, garden, gift, gold, good, grandma, group, half, happy, headache, heating, "
        "hidden, high, hire, hospital, hot, hotel, house, huge, hurry, ill, inside, insurance, interesting, "
        "internal, invoice, iron, january, job, joke, july, june, junior, key, kitchen, language, last, laundry, "
        "law, leaf, learn, lesson, loan, local, long, lost, love, lucky, mail, main, manager, march, market, "
        "medical, medium, mess, middle, minor, mistake, monday, month, mum, music, must, narrow, nature, near, "
        "neighbour, nice, normal, notes, november, nurse, october, official, optional, orange, pack, paint, parents, "
        "park, party, patience, pay, people, permit, pet, photo, pink, plan, plane, plant, play, poem, police, pool, "
        "practice, present, press, print, problem, public, purple, question, rare, ready, receipt, recipe, regular, "
        "relax, rent, repair, reply, report, rest, return, ride, road, rule, run, sad, safe, sail, sales, saturday, "
        "save, science, scan, season, senior, serious, service, sew, share, sick, silver, simple, single, sister, "
        "skill, sleep, smart, snow, soft, solo, song, sort, speech, sport, spouse, staff, stage, station, step, "
        "store, street, strong, student, sun, sunday, supper, swim, talk, tax, teach, tennis, text, theory, thick, "
        "thin, think, thursday, tidy, tiny, tired, together, top, tough, toys, train, tree, trip, tuesday, ugly, "
        "upstairs, useful, vacation, vague, van, voice, volunteer, warm, wash, water, weather, wednesday, week, wet, "
        "white, wide, wife, wild, window, wine, wood, world, worry, yard, yearly, yellow, yoga, young, zero"
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
    "[not before|only after|best before] [eight|nine|ten|two|three|four|five] o'clock",
    "[about|at most|no more than|nearly] {number} euros[ in cash| altogether|]",
    "[room|page|box|shelf|order|flat|invoice] {number}[, second floor| on the left|, at the back|]",
    "[needs|takes] [an hour|two hours|half a day|a whole day|{number} minutes]",
    "[use|borrow|bring|look for] the {thing}[ if possible| of {person}|]",
    "[see|check|read|compare] [page|chapter|item|line] {number}",
    "[colour|size|shape] [as before|does not matter|see photo|like the old one]",
    "[the form|the map|the list|the bill|the letter] is [in the drawer|on the desk|with {person}|in the car|missing]",
    "[too expensive|too late|too big|not sure yet|almost finished|half done|paid already|waiting for {person}]",
    "[{person}|the shop|my boss|the office] [said yes|said no|wants to decide|has to agree|promised help|is "
    "against it|found a mistake|lost the papers|called twice|will call back|owes us {number} euros]",
    "[do this|start|finish|pay|leave|arrive] [early|before lunch|after work|in the morning|on Sunday|in spring|"
    "when it rains|after the holidays|in small steps|together with {person}]",
    "[do not forget|remember|take|pack|buy|order] [the keys|gloves|a pen|warm clothes|the passport|stamps|a bag|"
    "batteries|the tickets|some glue|sandwiches|the password|the charger]",
    "[the number is|the code is|the old price was|the limit is|the size is] {number}[ or so| as far as I know|]",
    "it weighs [about |nearly |]{number} kilos",
    "[open|closed] [all day|in August|at weekends|on holidays]",
    "[very|quite|not so|rather|extremely] [important|boring|easy|hard|heavy|expensive|dirty|loud|risky|far away|"
    "simple|old|slow]",
    "[looks|seems|sounds] [fine|broken|cheap|better|worse|empty|strange|familiar|promising|dull|too small] "
    "[today|to me|to {person}|so far|at first sight]",
    "[talk to|check with|pick up|send a copy to|apologize to|invite|do not tell|hide it from|sit next to] {person}",
    "[turn left|park|wait|ring|knock|stop] at [the church|the bridge|number {number}|the red door|the back "
    "entrance|the second light|the fountain]",
    "[second|third|last|next|first] [try|attempt|reminder|meeting|draft|version|chance|visit] [on Friday|failed|"
    "went well|is better|with {person}]",
    "[why did {person} stop|where does it leak|how can we save money|how do we get there|when was it moved|where "
    "is the {thing} kept]",
    "[there are|we have|I counted|we need] {number} [of them|left|pieces|copies|in the cellar|in stock|chairs]",
    "[maybe|perhaps|better|please] [ask again|wait a week|use the lift|take the stairs|try another shop|read it "
    "twice|hire somebody|keep it simple|leave it to {person}]",
)
"""Grammars of comments."""
PATTERNS = (
    "Pay bill {number}",
    "Check invoice {number}",
    "[Return|Post|Unpack|Weigh|Track|Collect] parcel {number}",
    "[File|Print|Sign|Fill in|Hand in] form {number}",
    "[Look for|Open|Label|Store|Seal] box {number}",
    "[Answer|Copy|Scan|Shred|Frame] letter {number}",
    "[Renew|Buy|Exchange] ticket {number}",
    "[Meet|Wait for|Interview|Visit|Examine] {person} in room {number}",
    "Read pages 1 to {number}",
    "[Collect|Borrow|Claim|Expect|Demand] {number} euros from {person}",
    "[Transfer|Lend|Pay back|Pay|Promise] {number} euros to {person}",
    "[Reserve|Air|Heat|Tidy|Paint|Inspect|Lock] room {number}",
    "[Take|Catch] bus {number} to {city}",
    "[Sell|Insure|Measure|Photograph|Polish|Dust|Unpack|Assemble|Dismantle|Test|Rent out|Hide|Lock away|Wrap|Weigh|"
    "Label|Try out] the {thing}",
    "[Adjust|Oil|Mend|Restore|Varnish|Sand down|Wipe|Rinse|Scrub|Vacuum|Unblock|Tighten|Loosen|Straighten|Replace|"
    "Exchange|Return|Lift|Cover|Fetch|Store] the {thing}",
    "[Get a quote for|Find a buyer for|Compare prices of|Look up the manual of|Order spare parts for|Put a price "
    "on|Find a place for|Choose a colour for|Make a drawing of|Read reviews of] the {thing}",
    "[Lend {person} the {thing}|Borrow the {thing} of {person}|Show {person} the {thing}|Give the {thing} to "
    "{person}|Ask {person} about the {thing}|Fetch the {thing} from {person}|Hire {person} for the {thing}]",
    "[Carry|Take|Move|Bring|Drag] the {thing} to the [cellar|attic|garage|tip|balcony|dump|repair shop|charity "
    "shop|hall]",
    "[Explain the {thing} to {person}|Thank {person} for the {thing}|Argue with {person} about the {thing}|Share "
    "the {thing} with {person}]",
    "[Drive|Accompany|Send|Invite|Follow] {person} to {city}",
    "[Send a parcel|Send a postcard|Ship the samples|Find the fastest way|Book a coach|Fly|Walk|Take the night "
    "train|Move|Cycle|Take the ferry] to {city}",
    "[Meet|Phone|Visit|Surprise|Look up|Pick up|Have lunch with|Film] {person} in {city}",
    "[Find a map of|Read a novel about|Look up the weather in|Find a guide for|Rent a room in|Find a flat in|Look "
    "for work in|Photograph the bridges of|Try the cakes of|Visit a museum in|Learn the history of|Change trains "
    "in|Change money in|Paint the harbour of|Draw the skyline of] {city}",
    "[Learn|Read|Write|Think|Ask|Talk|Make notes|Hold a talk|Find a podcast|Watch a film|Borrow a book|Prepare a "
    "lesson] about {subject}",
    "[Teach {person} {subject}|Discuss {subject} with {person}|Study {subject} with {person}|Test {person} on "
    "{subject}|Explain {subject} to {person}]",
    "[Take an exam in|Take a course in|Make flash cards for|Buy a textbook on|Watch lectures on|Sum up the chapter "
    "on|Find a tutor for|Pass the test in|Repeat the basics of|Solve exercises in|Write an essay on] {subject}",
    "[Taste|Freeze|Thaw|Fry|Boil|Bake|Roast|Grill|Season|Chop|Peel|Slice|Mash|Stir|Weigh|Pickle|Serve|Try|Pack|"
    "Store|Sell|Throw out the old|Count|Reheat|Mix] the {food}",
    "[Share|Prepare|Make|Try] the {food} with {person}",
    "[Bring {person} some {food}|Order {food} for {person}|Hide the {food} from {person}|Ask {person} for the "
    "recipe with {food}|Save some {food} for {person}]",
    "[Get|Order|Fetch|Find|Stock up on|Look for cheap|Bring home|Pick up|Choose] {food} [at the market|at the "
    "corner shop|for the weekend|for breakfast|for the party|in town|for the picnic]",
    "[Make a soup with|Find a recipe for|Check the price of|Look up the calories of|Learn to cook|Cook something "
    "with|Compare brands of|Write down the recipe for] {food}",
    "[Draw|Pick|Weed around|Mulch|Cover|Repot|Dig up|Thin out|Stake|Feed|Tie up|Trim|Photograph|Transplant|Spray|"
    "Protect|Measure|Fence in|Move|Count|Dry|Shade|Graft|Admire] the {plant}",
    "[Give some of|Promise cuttings of|Show|Sell|Describe] the {plant} to {person}",
    "[Order seeds of|Read about|Find a spot for|Buy a pot for|Collect seeds of|Buy fertilizer for|Look for pests "
    "on|Check the soil of|Take cuttings of] the {plant}",
    "[Get tickets for|Cancel|Plan|Organize|Attend|Prepare|Film|Skip|Postpone|Review|Sponsor|Open|Announce|Host|"
    "Advertise|Enjoy|Look forward to|Dress up for|Set a date for|Hire a band for|Print flyers for|Bake a cake for|"
    "Find a venue for|Decorate the hall for|Clean up after|Write a speech for|Rehearse for|Sign up for|Raise money "
    "for|Borrow chairs for] the {event}",
    "[Tell|Warn|Inform|Question|Ask] {person} about the {event}",
    "[Invite|Bring|Drive|Accompany] {person} to the {event}",
    "[Write a report on|Take photos at|Count the guests of|Lay the tables for|Order drinks for|Send invitations to|"
    "Choose the music for|Reserve seats for] the {event}",
    "[Discuss|Negotiate|Review|Share|Revise|Go over|Settle] the {topic} with {person}",
    "[Translate|Print|Sign|Proofread|Shorten|Rewrite|Correct|Publish|Archive|Copy|Scan|Complete|Prepare|Outline|"
    "Submit|Approve|Reject|Evaluate|Compare|Rework|Improve|Upload|Back up|Read|Think about|Simplify|Illustrate|"
    "Summarize|Plan|Start|Present|Cancel|Rethink|Finance|Register|Estimate|Research|Verify] the {topic}",
    "[Forward|Present|Explain|Hand|Show|Email|Post|Promise|Read out|Assign|Suggest] the {topic} to {person}",
    "[Get feedback on|Collect ideas for|Find mistakes in|Make a copy of|Set a deadline for|Look for gaps in|Gather "
    "data for|Add pictures to|Make slides on|Reply to questions on|Find sponsors for|Ask for help with] the {topic}",
    "[Ask|Remind|Call|Thank|Email|Consult|Congratulate|Persuade] {person} about the {topic}",
    "[Phone|Call|Ring|Text|Email|Write to|Visit|Thank|Remind|Congratulate|Forgive|Meet|Answer|Apologize to|Have "
    "coffee with|Play cards with|Go swimming with|Go for a walk with|Babysit for|Cook for|Sing for|Pray for|Vote "
    "for|Dance with] {person}",
    "[Buy|Choose|Find|Order|Get] [a present|a birthday card|flowers|a book|a scarf|earrings|a bottle of wine|"
    "chocolates|a puzzle|slippers|a toy] for {person}",
    "[Take {person} to the airport|Take {person} to the station|Pick up {person} from school|Help {person} move "
    "house|Feed the cat of {person}|Water the flowers of {person}|Walk the dog of {person}|Return the umbrella of "
    "{person}|Give {person} a lift|Lend {person} a hand|Teach {person} to swim]",
    "[Make an appointment with|Settle the bill of|Reply to the letter of|Find the address of|Look up the number of|"
    "Draw a portrait of|Pay back|Wait for news from|Get the keys from|Have dinner with|Talk things over with] "
    "{person}",
    "[Renew the passport|Cut the grass|Wash the car|Empty the dishwasher|Change the sheets|Sort the mail|Clean the "
    "windows|Iron the shirts|Shovel snow|Sweep the yard|Bottle the juice|Defrost the freezer|Fill up the tank|"
    "Check the tyres|Mop the hall|Take out the rubbish|Feed the fish|Groom the horse|Bath the dog|Tune the piano|"
    "Sharpen the knives|Sew on buttons|Knit a scarf|Chop wood|Light the stove|Book a haircut|Donate blood|Stretch "
    "for ten minutes|Meditate|Go jogging] [with {person}|like {person} does|in {city}|for {person}|before the "
    "{event}]",
)
"""Grammars of titles' patterns that only training boards have, beside those of the themes."""
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
