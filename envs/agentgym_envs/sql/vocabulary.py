"""Words of training databases: chains of tables, and columns that fit their rows. None belongs to a held-out split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["person", "place", "thing", "event"]


@dataclass(frozen=True, slots=True)
class Noun:
    """What a table may hold."""

    singular: str
    plural: str
    synonyms: tuple[str, ...]
    """Further names of the table."""
    kind: Kind
    of: str
    """The preposition before a phrase about the previous table."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of integers; its phrases are grammars."""

    noun: str
    synonyms: tuple[str, ...]
    low: int
    high: int
    over: str = ""
    """Empty if the noun is counted: `with more than {} medals`."""
    under: str = ""
    most: str = ""


@dataclass(frozen=True, slots=True)
class Feature:
    """A column with one of a few values."""

    noun: str
    synonyms: tuple[str, ...]
    phrase: str
    """A grammar that need not name the column; empty for phrases that name it."""
    values: tuple[str, ...]


def _noun(text: str, kind: Kind, of: str = "") -> Noun:
    """Parse `company/companies firms enterprises`; the plural may be left out if it ends in s."""
    first, *synonyms = text.split()
    singular, _, plural = first.partition("/")
    return Noun(singular, plural or f"{singular}s", tuple(synonyms), kind, of)


def _chain(first: str, second: str, third: str) -> tuple[Noun, Noun, Noun]:
    """Parse three nouns; the kind of the first two stands before a colon, a preposition after the second's."""
    kinds: Mapping[str, Kind] = {"p": "person", "o": "place", "t": "thing"}
    (kind, text), (word, other) = first.split(": "), second.split(": ")
    letter, of = word.split()
    last, event = third.split(": ")
    return _noun(text, kinds[kind]), _noun(other, kinds[letter], of), _noun(event, "event", last)


def _features(lines: str) -> tuple[Feature, ...]:
    """Parse lines of `noun synonyms | phrase | values`."""
    features = []
    for line in lines.strip().splitlines():
        names, phrase, values = (part.strip() for part in line.split("||"))
        noun, *synonyms = names.split()
        features.append(Feature(noun, tuple(synonyms), phrase, tuple(values.split())))
    return tuple(features)


def _measures(lines: str) -> tuple[Measure, ...]:
    """Parse lines of `noun low high synonyms`, or those and `|| over || under || most`."""
    measures = []
    for line in lines.strip().splitlines():
        names, *phrases = (part.strip() for part in line.split("||"))
        noun, low, high, *synonyms = names.split()
        measures.append(Measure(noun, tuple(synonyms), int(low), int(high), *phrases))
    return tuple(measures)


CHAINS: tuple[tuple[Noun, Noun, Noun], ...] = tuple(
    _chain(*line.split(" > "))
    for line in """
o: school academies colleges > p at: teacher tutors instructors > by: lesson classes sessions
o: airline carriers flight_companies > p of: pilot captains aviators > by: flight departures air_journeys
o: bakery/bakeries bakehouses bread_shops > t from: cake pastries tarts > for: request demands inquiries
o: hotel inns lodges > t in: room chambers bedrooms > of: booking reservations stays
t: ship vessels boats > p on: sailor seamen crew > of: leave holidays absence_list
o: zoo animal_parks menageries > t in: animal beasts creatures > of: feeding meals rations
o: gym fitness_clubs sports_halls > p at: trainer coaches drillmasters > with: workout exercises drills
o: court tribunals benches > p at: judge magistrates justices > before: hearing trials proceedings
o: bank lenders savings_houses > t at: account deposits balances > from: payment transfers remittances
o: garage repair_shops workshops > p at: mechanic repairers fitters > by: repair fixes overhauls
o: publisher printing_houses presses > t from: journal magazines periodicals > of: edition printings versions
o: orchestra ensembles symphonies > p in: musician instrumentalists fiddlers > with: rehearsal practices run_throughs
o: island isles atolls > o on: village hamlets settlements > in: festival fairs feasts
o: company/companies firms enterprises > p at: worker employees_list hands_hired > of: course seminars trainings
o: theatre playhouses stages > p at: actor performers players_on_stage > of: audition tryouts castings
o: laboratory/laboratories labs test_sites > p in: researcher scientists investigators > by: experiment trials tests
o: supermarket groceries food_halls > t in: product goods wares > of: delivery/deliveries shipments consignments
o: factory/factories plants mills > t in: machine devices engines > of: breakdown failures outages
o: forest woods woodlands > t in: tree trunks timber > of: survey soundings checks
o: university/universities faculties higher_schools > p at: scholar learners undergraduates > by: exam quizzes papers
o: newspaper gazettes dailies > p of: reporter journalists correspondents > by: article stories columns_written
o: restaurant diners bistros > t at: dish/dishes courses plates > of: review ratings critiques
o: mine pits collieries > p in: miner diggers pitmen > by: shift_report duty_logs reports
o: garden grounds allotments > t in: flower blossoms blooms > of: watering soakings sprinklings
o: port docks havens > t in: crane hoists lifts > by: lifting hauls load_log
o: agency/agencies bureaus travel_desks > p of: guide escorts leaders > with: tour excursions outings
o: league championships cups > p in: referee umpires arbiters > under: contest bouts fixtures
o: planetarium sky_domes star_houses > t in: telescope scopes lenses > with: observation sightings readings
o: archive repositories record_offices > t in: document files papers > of: scan captures imprints
o: brewery/breweries brewhouses ale_makers > t from: beer ales brews > of: tasting samplings sips
o: ranch/ranches stables barns > t from: horse mounts steeds > with: race runs derbies
o: parliament assemblies chambers_of_state > p in: delegate deputies senators > by: speech/speeches addresses talks
o: choir chorales choruses > p in: singer vocalists voices > with: concert recitals gigs
o: camp campsites bivouacs > t in: tent shelters yurts > of: inspection checkups controls
o: website portals webpages > p of: user surfers profiles > by: login sign_ins accesses
o: depot yards sheds > t from: bus/buses coaches vehicles > with: ride drives runs_made
o: vineyard wineries wine_estates > t from: wine vintages bottles > of: auction biddings lots
o: expedition ventures treks > p on: climber mountaineers alpinists > by: ascent climbs summits
o: planet globes spheres > t of: moon satellites companions > on: landing touchdowns arrivals
o: kingdom realms crowns > p of: knight warriors riders > with: duel fights combats
t: podcast broadcasts feeds > t of: episode instalments parts > of: download fetches retrievals
o: prison jails gaols > p in: guard warders keepers_of_keys > by: patrol rounds watches
o: temple shrines sanctuaries > p at: priest clerics monks > by: sermon homilies preachings
o: nursery/nurseries kindergartens day_homes > p in: nurse carers nannies > by: outing walks airings
o: tribe clans peoples > p of: hunter trackers trappers > by: catch/catches kills bags
t: game pastimes titles_played > t of: level stages_of_play floors > of: attempt tries goes
o: fair bazaars trade_halls > p on: trader merchants dealers > by: bargain deals trades
o: cable_car ropeways funiculars > t of: cabin gondolas cars > of: trip transits crossings
o: council boards committees > p in: councillor aldermen board_members > by: vote ballots polls
o: pharmacy/pharmacies chemists drugstores > t in: medicine remedies drugs > for: prescription scripts medical_notes
o: fire_station firehouses fire_posts > p at: firefighter firemen rescuers > by: mission callouts operations
o: post_office mail_offices post_branches > p at: postman/postmen letter_carriers > by: parcel_round postal_rounds
o: embassy/embassies legations consulates > p at: diplomat envoys attaches > by: reception galas banquets
o: monastery/monasteries abbeys priories > p in: novice friars brothers > by: prayer devotions vigils
o: circus/circuses big_tops travelling_shows > p with: clown jesters fools > in: act numbers sketches
o: dairy/dairies creameries milk_works > t from: cheese curds rinds > for: test_bite cheese_tests degustations
o: sawmill timber_mills lumber_works > t at: saw cutters blades > of: sharpening grindings honings
o: boatyard shipyards slipways > t in: yacht sailboats sloops > of: launch/launches first_sailings christenings
o: airport airfields aerodromes > t at: jet aeroplanes aircraft > of: refuelling fillings tankings
o: subway metros undergrounds > t on: carriage coaches_on_rails wagons > of: cleaning washes scrubbings
o: kitchen cookhouses galleys > p in: cook chefs kitchen_hands > by: meal dinners suppers
o: tailoring_shop dressmakers sewing_rooms > p at: tailor seamsters needleworkers > by: fitting measurings alterations
o: quarry/quarries stone_pits diggings > t in: excavator power_shovels backhoes > with: dig excavations scoops
o: power_station energy_plants generating_sites > t at: turbine rotors generators > of: shutdown stoppages halts
o: weather_station meteo_posts forecast_sites > t at: sensor probes detectors > with: measurement readouts gaugings
o: call_centre phone_hubs hotlines > p at: agent operators phone_clerks > by: call_record talks_logged phone_calls
o: law_firm law_offices chambers_of_law > p at: lawyer attorneys barristers > by: lawsuit legal_cases suits
o: consultancy/consultancies advisories consulting_firms > p at: adviser consultants > with: briefing debriefs
o: riding_school equestrian_centres manege_list > t at: pony/ponies foals colts > with: riding_hour lessons_ridden
o: dance_school ballet_schools dance_halls > p at: dancer ballerinas hoofers > with: ballet dance_pieces
o: ski_resort winter_resorts snow_parks > p at: skier snowboarders ski_runners > with: downhill descents slides
o: apartment_block housing_blocks tower_blocks > p in: tenant lodgers renters > of: moving_day move_ins relocations
o: observatory/observatories star_towers stargazing_sites > p at: astronomer stargazers > by: night_log watch_nights
o: jazz_club music_bars night_clubs > p at: drummer percussionists beat_makers > in: jam jam_sessions improvisations
o: toy_shop toy_stores playthings > t in: doll puppets figurines > of: wrapping gift_wraps packings
o: ferry_line shipping_lines boat_services > t of: ferry/ferries ferryboats car_ferries > with: crossing passages
o: museum_shop souvenir_shops gift_stalls > t in: postcard view_cards picture_cards > of: mailing posts_sent sendings
o: recycling_yard scrap_yards waste_sites > t at: container skips dumpsters > of: emptying clearances unloadings
o: chess_club chess_circles chess_societies > p in: grandmaster chess_masters > with: match/matches chess_games
o: police_station precincts constabularies > p at: constable policemen inspectors > with: arrest captures detentions
o: wind_park wind_farms turbine_fields > t in: windmill wind_wheels air_turbines > of: upgrade improvements refits
o: barracks/barracks garrisons bases > p in: soldier troopers privates > of: march/marches parades drills_done
""".strip().splitlines()
)

FEATURES: Mapping[Kind, tuple[Feature, ...]] = {
    "person": _features("""
homeland birth_country fatherland native_land || [from|born in|native to] {} || Chile Ghana India France Spain \
Greece Turkey Mexico Brazil Poland Vietnam Sweden Austria Morocco Iceland Nepal
language tongue mother_tongue speech || [with {} as language|with {} as mother tongue|of {} language] || Dutch \
Arabic Hindi Latin Basque Welsh Korean Swahili Danish Tamil
rank grade standing seniority || [of the rank {}|of {} rank|with the rank {}] || junior deputy chief master trainee \
veteran warden
duty turn working_time service_hours || [on {} duty|with {} duty] || morning afternoon evening midnight weekend
department unit section division || [in the {} department|from the department {}] || trade finance legal design \
research security kitchen
hobby pastime leisure favourite_game || [with the hobby {}|with {} as hobby] || chess rowing fishing knitting \
cycling singing boxing
eye_colour eyes iris gaze || with {} eyes || brown blue green hazel violet amber
instrument plays music_tool played_item || [with {} as instrument|with the instrument {}] || flute cello drums harp \
trumpet violin organ
diet eating_habit nutrition food_plan || on a {} diet || vegan salty kosher protein liquid fruit
contract employment terms engagement || [with a {} contract|on a {} contract] || fixed yearly casual lifelong monthly
tier membership plan_type subscription || [of|in] the {} tier || basic gold silver premium family
transport commute way_to_work vehicle_used || [coming|arriving] by {} || bicycle tram car ferry scooter taxi
education degree schooling qualification || with a {} degree || nursing physics law history_of_art geology music
blood_group blood_type serum haematology || with {} blood || alpha beta gamma kappa sigma
uniform dress outfit clothing || in a {} uniform || khaki crimson navy white beige
handedness writing_hand dominant_hand hand_used || [with {} as dominant hand|writing with the {} hand] || left \
right either
pet pets_kept house_animal animal_kept || [keeping a {}|owning a {}|with a {} as pet] || cat dog parrot rabbit \
hamster tortoise
hair_colour hair hair_tone locks || with {} hair || blond ginger brunette silver dark
mentor teacher_name tutor_name coached_by || [trained|coached] by {} || Bergstrom Delgado Faulkner Goldberg Ivanov \
Jimenez
"""),
    "place": _features("""
location seat home_base headquarters || [in|based in|located in] {} || Vienna Prague Oslo Madrid Athens Warsaw \
Zurich Hamburg Bergen Seville Turin Krakow Lyon Ghent
district quarter borough neighbourhood || [in the district {}|in the {} district] || Oldtown Riverside Westend \
Hilltop Lakeside Dockland Mill_Lane
province canton prefecture land || [in the province {}|from the province {}] || Tyrol Bavaria Aragon Umbria Galicia \
Silesia Moravia Lorraine
sector industry trade business_line || in the {} sector || energy textile mining tourism software chemicals
owner proprietor held_by belongs_to || [owned|run] by {} || Hartmann Okafor Petrov Ishida Lindqvist Moreau Castillo \
Baker
ownership owner_type legal_form control || in {} ownership || public private joint foreign family
terrain landscape scenery surroundings || [with {} terrain|in {} terrain] || hilly marshy rocky wooded dusty
rating stars quality_grade score_class || with [a|the] {} rating || poor fair good decent superb
status state_now situation stage || with the status {} || open closed planned rebuilt vacant
heating heat_source warmth boiler || with {} heating || gas oil solar wood electric
roof roofing cover top_material || with a {} roof || thatch slate tiled copper grass
founder started_by creator initiator || [founded|started] by {} || Adler Brook Cohen Dubois Eriksen Fontana
climate weather_zone air zone || in a {} climate || dry humid polar mild tropical
audience target_group public clientele || for {} || adults children seniors families tourists
emblem crest badge heraldry || with the {} emblem || lion eagle rose anchor crown dragon
architect builder_name designed_by planner || [designed|planned] by {} || Bergstrom Delgado Faulkner Goldberg \
Ivanov Jimenez
security guarding protection safety_grade || with {} security || strict loose armed minimal
floor_cover flooring ground_cover floor_type || with a {} floor || parquet linoleum concrete bamboo marble
"""),
    "thing": _features("""
colour paint shade hue || [painted|coloured] {} || red green blue yellow white black orange purple silver
material substance made_of fabric || made of {} || oak steel glass cotton leather copper paper rubber marble
size format dimension measure || [of {} size|of the size {}] || small big tiny medium huge compact
brand maker make manufacturer || [of the brand {}|with the brand {}] || Zentra Mobilux Kaltor Orvia Pentax Rubrik \
Savona
flavour taste aroma savour || with [a|the] {} flavour || mint lemon vanilla cherry honey ginger
fuel power_source energy propellant || [running|working] on {} || diesel petrol hydrogen coal biogas kerosene
topic theme subject matter || about {} || cooking gardening war sailing finance astronomy
shape form_of outline silhouette || of {} shape || round square oval flat conical
condition preservation repair_state state_of_repair || in {} condition || new worn broken mint patched
storage kept_in place_kept depot_place || [kept|stored] in the {} || cellar attic hangar vault shed
origin_land source_land homeland provenance || [made in|imported from] {} || Chile Ghana India France Spain Greece \
Turkey Mexico Brazil
pattern print_type decoration design || with [a|the] {} pattern || striped dotted floral checked plain_weave
smell odour scent fragrance || with [a|the] {} smell || sweet musty smoky fresh sour
licence permit approval authorisation || with a {} licence || trade private retail school hunting
keeper_name guardian caretaker minder || [cared for by|looked after by] {} || Hartmann Okafor Petrov Ishida \
Lindqvist Moreau
finish surface coating outer_layer || with a {} finish || matt glossy polished raw lacquered
warranty guarantee cover_time assurance || with a {} warranty || yearly monthly lifelong limited
lock_type lock fastening closure || with a {} lock || digital magnetic padlock bolted
sound noise tone acoustics || [with a|making a] {} sound || loud quiet shrill hollow deep
"""),
    "event": _features("""
month calendar_month time_in_year period || in {} || January February March April May June July August October \
November
season time_of_year quarter_of_year part_of_year || in {} || spring summer autumn winter
weather sky conditions meteorology || in {} weather || sunny rainy windy cloudy stormy
payment paid_with settlement means_of_payment || paid [by|in] {} || cash card cheque voucher transfer
result outcome verdict ending || with the result {} || win draw loss void pending
priority urgency importance weight_class || of {} priority || low high normal urgent minor
channel medium_used means contact_way || arranged by {} || phone email letter fax courier
hour time_of_day daytime day_part || in the {} || morning afternoon evening night_time
trigger motive explanation grounds || [because of|due to] {} || rain illness traffic holiday accident repair
venue_room hall chamber_used location || in the {} hall || marble mirror garden ivory banner
organiser host arranged_by leader || [organised|led] by {} || Adler Brook Cohen Dubois Eriksen Fontana
sponsor backer donor funded_by || [sponsored|paid for] by {} || Zentra Mobilux Kaltor Orvia Rubrik Savona
difficulty hardness toughness demand_level || of {} difficulty || easy medium hard extreme
mood atmosphere spirit feeling || in a {} mood || merry tense solemn relaxed gloomy
approval consent permission clearance || with {} approval || total partial oral written late
tempo rhythm pace_type speed_class || at a {} pace || brisk steady relaxed furious
dress_code attire clothing_rule garb || with {} dress || formal casual festive sporty
supervisor overseer checked_by watched_by || [overseen|watched] by {} || Bergstrom Delgado Faulkner Goldberg Ivanov \
Jimenez
catering food_service refreshments snacks || with {} catering || free cold hot buffet
"""),
}  # fmt: skip
"""Features by kind of row. In values and nouns `_` stands for a blank."""

MEASURES: Mapping[Kind, tuple[Measure, ...]] = {
    "person": _measures("""
languages_spoken 1 9 tongues_known languages_known
books_owned 0 900 library_size books_kept
scars 0 20 marks_of_injury old_wounds
medals 0 40 decorations honours
points 5 900 score credits
wins 0 90 victories successes
certificates 0 15 diplomas papers_held
followers 20 9000 fans supporters
patents 0 25 inventions rights_held
tattoos 0 20 skin_pictures body_art
siblings 0 12 brothers_and_sisters family_members
badges 0 60 insignia pins
keys 1 40 keyring_size door_openers
friends 0 300 contacts acquaintances
age 18 80 years_old years_lived || [older than|over the age of|above the age of] {} || [younger than|under the age \
of|below the age of] {} || the highest age
salary 900 9000 wage pay earnings || [earning|paid] [more than|over] {} || [earning|paid] [less than|under] {} || \
[the highest|the largest] salary
height 140 210 stature tallness || taller than {} || shorter than {} || the greatest height
debt 0 5000 liabilities owed || [owing|in debt by] more than {} || [owing|in debt by] less than {} || the largest debt
"""),
    "place": _measures("""
rooms_total 3 400 room_count_all chambers_total
plants 0 300 greenery potted_plants
cameras 0 90 security_eyes watch_cameras
bicycle_stands 0 120 bike_racks bike_places
floors 1 60 storeys levels_built
windows 4 900 panes openings
cupboards 5 800 racks boards_for_storage
chairs 10 900 seating places_to_sit
lamps 3 500 lights lighting
parking_spaces 5 700 car_places lots_for_cars
residents 20 9000 inhabitants dwellers
computers 2 400 terminals workstations
lifts 0 20 elevators hoists_in_use
doors 2 300 gates_and_doors entrances
partners 1 80 allies associates
budget 100 9900 funds spending || with a budget [above|over|of more than] {} || with a budget [below|under|of less \
than] {} || [the largest|the highest|the biggest] budget
rent 200 9000 lease monthly_charge || [rented for|let for] more than {} || [rented for|let for] less than {} || the \
highest rent
altitude 0 3000 elevation metres_up || [lying higher than|lying above] {} metres || [lying lower than|lying below] \
{} metres || the greatest altitude
founding_year 1700 2020 founded established || [founded|started] after {} || [founded|started] before {} || the \
latest founding year
"""),
    "thing": _measures("""
holes 0 40 openings_cut perforations
handles 0 12 grips handholds
layers 1 30 coats_of_paint strata
seals 0 25 stamps_set closures_sealed
parts 2 300 components pieces
wheels 2 30 rollers castors
buttons 0 60 push_knobs knobs
photos 0 200 pictures images
dents 0 70 marks bumps
owners 1 15 holders possessors
screws 4 400 bolts fasteners
stickers 0 50 labels_glued decals
colours 1 24 tints shades_used
spare_parts 0 90 replacements spares
faults 0 40 defects flaws
price 5 900 cost charge || [costing|priced at] more than {} || [costing|priced at] less than {} || [the highest|the \
largest] price
weight 1 900 mass heaviness || [weighing more than|heavier than] {} || [weighing less than|lighter than] {} || the \
[greatest|highest|largest] weight
long_side 10 900 extent full_length || longer than {} || shorter than {} || the greatest long side
speed 5 300 velocity pace || faster than {} || slower than {} || the [highest|greatest] speed
"""),
    "event": _measures("""
toasts 0 30 speeches_held cheers
volunteers_needed 0 60 helpers_wanted hands_needed
songs 0 40 tunes melodies
rounds 1 25 laps turns_taken
guests 2 400 attendees people_present
helpers 0 60 assistants volunteers
questions 1 90 queries things_asked
errors 0 50 mistakes slips
calls 1 120 rings phone_contacts
photographs 0 300 snapshots stills
parcels 1 150 crates packages
spectators 0 40 onlookers observers
breaks 0 12 pauses interruptions
pages_written 1 90 sheets paper_used
complaints 0 30 objections grievances
duration 1 48 time_taken hours_spent || lasting [longer than|more than] {} hours || lasting [less than|under] {} \
hours || the longest duration
expense 5 900 bill outlay || [costing|with costs of] more than {} || [costing|with costs of] less than {} || [the \
highest|the largest] expense
distance 1 800 way_covered stretch || [over a distance of more than|covering more than] {} kilometres || [over a \
distance of less than|covering less than] {} kilometres || the greatest distance
delay_time 1 240 wait lateness || [starting more than {} minutes late|delayed by more than {} minutes] || [starting \
less than {} minutes late|delayed by less than {} minutes] || the longest delay time
"""),
}  # fmt: skip
"""Measures by kind of row; a measure without phrases is counted."""

TERMS = (
    "special great notable mighty rare grand busy vivid solid sturdy bold fierce lavish vital proud radiant splendid "
    "exotic prime elite stellar brisk heroic lucky noble ample weighty intense demanding elaborate extreme superior "
    "stately towering striking eminent robust copious plentiful remarkable colossal gifted hardy plush vigorous "
    "opulent grandiose dazzling momentous"
)
"""Adjectives for rows with large values."""
