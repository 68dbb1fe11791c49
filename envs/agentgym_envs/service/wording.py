"""What customers say; each split has wordings of its own."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_envs.service import training_wording

_HELD_OUT: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # ---- the conversation -------------------------------------------------------------------------------------------
    "hello": (
        ("Greetings.", "A good evening to you."),
        ("Hello, is this the service desk?", "Hi, I was put through to you."),
    ),
    "also": (("As a second point:", "Moreover:"), ("On top of that:", "Next to that:")),
    "more": (
        ("Indeed, there is a further matter:", "As you ask, I have something left:"),
        ("Since you mention it, a different topic:", "Before we hang up, this too:"),
    ),
    "instead": (
        ("Perhaps you can do the following:", "As a second best:"),
        ("My plan B, then:", "Let us do the next best thing:"),
    ),
    "switch": (
        ("Let me revise that.", "I would now like it otherwise."),
        ("Forget what I said before.", "My plans are different now."),
    ),
    "yes": (("You have my approval.", "Agreed, proceed."), ("Sounds good, carry on.", "By all means.")),
    "no": (
        ("I object, this differs from my request.", "You misunderstood me."),
        ("Not so, my request was another one.", "Let that be."),
    ),
    "unknown": (
        ("I am unable to say.", "That is not known to me."),
        ("Beats me.", "There is nothing that I can add there."),
    ),
    "told": (("I have taken note.", "That is helpful."), ("Got it.", "Ah, so that is it.")),
    "refused": (
        ("I have to live with that.", "Disappointing, yet clear."),
        ("Not what I hoped for, but I accept.", "Fair enough."),
    ),
    "leave": (
        ("I cannot believe it, and end this call.", "Your refusal is unjust, farewell."),
        ("Then I am taking my business to others.", "Nonsense, I hang up."),
    ),
    "impatient": (
        ("All this pressing of buttons is in vain, I end this call.", "One try too many without a reason, farewell."),
        ("My thumbs hurt and nothing helps, I hang up.", "You are poking in the dark, I am taking my leave."),
    ),
    "again": (
        ("The answer escapes me, kindly state it.", "I did not grasp that: what is the answer?"),
        ("Come again? Just the answer, please.", "I can't make that out, how much or which?"),
    ),
    "which": (
        ("Several values, yet I need a single one.", "Please commit to one of them."),
        ("So which is it?", "You lost me there, which one counts?"),
    ),
    "transferred": (
        ("I shall stay on the line.", "Very good, somebody else then."),
        ("Sure, patch me through.", "Right, I hang on."),
    ),
    "bye": (
        ("Everything is settled, farewell.", "I have no further wishes, good night."),
        ("All sorted, cheers.", "We are through, so long."),
    ),
    "bye unsettled": (
        ("My request is still open, farewell.", "Then I remain without help, good night."),
        ("That leaves me where I was, so long.", "Not sorted at all, cheers anyway."),
    ),
    "faults": (
        ("According to the screen {value}.", "The phone reports: {value}."),
        ("Looks like {value}.", "What I notice: {value}."),
    ),
    "no faults": (
        ("The settings are in order.", "I find no irregularity."),
        ("Seems okay to me.", "Nothing stands out."),
    ),
    "in vain": (("Without effect.", "The situation is unchanged."), ("Tried it, same as ever.", "That did not help.")),
    "done": (
        ("Carried out, yet there is another problem.", "Completed, still offline."),
        ("I have, and still nothing.", "Okay, but no luck so far."),
    ),
    "works": (
        ("Carried out, the connection is back.", "Completed, and I am connected."),
        ("Hooray, that was it.", "Brilliant, it runs."),
    ),
    "fault airplane mode is on": (
        ("the little plane symbol is lit", "it is in the mode for flights"),
        ("it thinks that we are up in the air", "there is a tiny plane at the top"),
    ),
    "fault mobile data is off": (
        ("the switch for cellular data is grey", "cellular data has been disabled"),
        ("surfing over the network is turned off", "the two arrows for data are crossed out"),
    ),
    "fault the SIM card is loose": (
        ("the chip sits crooked in its tray", "the chip has slipped out of place"),
        ("the small card rattles in its slot", "the slot of the card is half open"),
    ),
    "fault the network mode is manual": (
        ("the operator is selected by hand", "it no longer selects the operator itself"),
        ("it wants me to pick a network myself", "picking a network is not left to the phone"),
    ),
    "fault a VPN is on": (
        ("all traffic runs through a tunnel", "a private tunnel is active"),
        ("there is a little key for some tunnel", "it pretends to surf from another country"),
    ),
    "fault the data saver is on": (
        ("it economises on background traffic", "the economy mode for traffic is active"),
        ("it is being stingy with background data", "apps are kept from surfing to save data"),
    ),
    "fault there is no service": (
        ("the operator does not admit this line", "no calls come through at all"),
        ("there is not a single bar, and calls are dead", "it says: line not in service"),
    ),
    "fault the data is used up": (
        ("the monthly volume is exhausted", "the meter of my volume stands at zero"),
        ("I have surfed away my whole allowance", "the allowance bar is empty"),
    ),
    "fault roaming is off": (
        ("I am in a foreign country, where the line is not let in", "foreign networks turn the line away"),
        ("I am on holiday, and networks here will not have me", "across the border it finds no partner"),
    ),
    # ---- facts ------------------------------------------------------------------------------------------------------
    "fact email": (
        ("Mail reaches me at {value}.", "The account belongs to {value}."),
        ("I signed up with {value}.", "You should have {value} on file."),
    ),
    "fact name": (
        ("I go by {value}.", "You are speaking with {value}."),
        ("People call me {value}.", "{value} speaking."),
    ),
    "fact postcode": (
        ("The area code of my home is {value}.", "My postal area is {value}."),
        ("I get my letters in {value}.", "Look for {value} as the postcode."),
    ),
    "fact phone": (
        ("I can be reached at {value}.", "The telephone on file is {value}."),
        ("Ring me on {value}.", "I am calling on {value}."),
    ),
    "fact birthday": (
        ("I came into the world on {value}.", "I celebrate since {value}."),
        ("My passport says {value} as day of birth.", "Year, month and day of my birth: {value}."),
    ),
    "fact number": (
        ("The contract names me as {value}.", "Under {value} you find my contract."),
        ("My letters from you say {value}.", "You gave me the number {value}."),
    ),
    "fact pin": (
        ("The four digits are {value}.", "As the secret I chose {value}."),
        ("And I type {value} as my PIN.", "The magic digits: {value}."),
    ),
    "fact order": (
        ("It concerns order {value}.", "The confirmation reads {value}."),
        ("My receipt says {value}.", "Look up {value}, please."),
    ),
    "fact order_with": (
        ("It concerns the order that has the {value}.", "That in which the {value} is."),
        ("You know, where the {value} is part of it.", "Mine with the {value} inside."),
    ),
    "fact reason": (
        ("As a ground I state: {value}.", "The cause is this: {value}."),
        ("Simply this: {value}.", "For the record: {value}."),
    ),
    "fact address": (
        ("The destination should be {value}.", "Deliver to {value}."),
        ("Ship to {value}.", "I can take it at {value}."),
    ),
    "fact payment": (
        ("The charge should go to {value}.", "I settle with {value}."),
        ("Put it on {value}.", "Debit {value}."),
    ),
    "fact product": (
        ("It concerns the {value}.", "The item is the {value}."),
        ("That would be the {value}.", "The {value} has to leave."),
    ),
    "fact new_product": (
        ("In return I choose the {value}.", "My choice is the {value}."),
        ("I fancy the {value}.", "Swap it for the {value}."),
    ),
    "fact coupon": (
        ("The voucher code reads {value}.", "On the coupon is {value}."),
        ("It says {value} on it.", "Enter {value}."),
    ),
    "fact new_email": (
        ("In future write to {value}.", "Replace it by {value}."),
        ("From today I use {value}.", "Note down {value}."),
    ),
    "fact booking": (
        ("It concerns booking {value}.", "The ticket bears {value}."),
        ("My ticket says {value}.", "Search for {value}."),
    ),
    "fact booking_with": (
        ("It concerns the trip of {value}.", "That which departs on {value}."),
        ("The plane I take on {value}.", "You know, the {value} trip."),
    ),
    "fact new_day": (
        ("Departure should be on {value}.", "I choose {value}."),
        ("I can only make it on {value}.", "{value} suits me."),
    ),
    "fact cabin": (
        ("The seat should be in {value}.", "My choice is {value}."),
        ("Let us sit in {value}.", "Book {value}."),
    ),
    "fact bags": (
        ("The count should be {value}.", "{value} is the number that I check in."),
        ("We carry {value} all told.", "Put {value} down."),
    ),
    "fact passenger": (
        ("The ticket is issued to {value}.", "It concerns {value}."),
        ("You have them as {value}.", "The ticket reads {value}."),
    ),
    "fact new_name": (
        ("Properly spelt: {value}.", "The passport reads {value}."),
        ("They are really called {value}.", "Print {value}."),
    ),
    "fact line": (
        ("It concerns line {value}.", "The contract lists it as {value}."),
        ("You call it {value}.", "Look up {value}, please."),
    ),
    "fact line_with": (
        ("It concerns the line of {value}.", "That which rings at {value}."),
        ("The one people reach on {value}.", "Mine with {value}."),
    ),
    "fact plan": (
        ("The tariff should be {value}.", "My choice is {value}."),
        ("Put me on {value}.", "{value} sounds good."),
    ),
    "fact gb": (
        ("The volume should be {value} GB.", "{value} GB would suffice."),
        ("Throw in {value} GB.", "I can use {value} GB."),
    ),
    "fact roaming": (
        ("The setting should be {value}.", "Let it be {value}."),
        ("Flip it {value}.", "Abroad I need it {value}."),
    ),
    "fact bill": (
        ("It concerns bill {value}.", "The letter bears {value}."),
        ("The paper says {value}.", "Look up {value}, please."),
    ),
    "fact amount": (
        ("The sum should be {value}.", "{value} would be just."),
        ("Knock off {value}.", "{value} off, please."),
    ),
    # ---- wishes of a store ------------------------------------------------------------------------------------------
    "store cancel": (
        ("I wish to withdraw from a purchase.", "Kindly annul one of my orders."),
        ("I do not want something any more that I ordered.", "Please drop an order of mine."),
    ),
    "store address": (
        ("A parcel should be delivered to a new destination.", "Kindly redirect one of my orders."),
        ("I have moved, so an order must be rerouted.", "My order is heading for the wrong door."),
    ),
    "store payment": (
        ("I wish to settle an order by other means.", "Kindly switch the charge of one of my orders."),
        ("An order should be charged to something else.", "I picked the wrong way to pay."),
    ),
    "store return": (
        ("I wish to hand a purchase back.", "Kindly accept one of my orders back."),
        (
            "Something I got from you did not work out, and I want my money back.",
            "I am not happy with an order, so back it goes.",
        ),
    ),
    "store exchange": (
        ("I wish to trade in one item.", "Kindly replace an article of a purchase."),
        ("Something I bought should be traded for something better.", "I picked the wrong model in an order."),
    ),
    "store coupon": (
        ("I wish to redeem a voucher code.", "Kindly reduce an order by my voucher code."),
        ("I forgot to enter a discount code.", "There is a discount that I want to use up."),
    ),
    "store email": (
        ("I wish to be written to at a new account.", "Kindly renew my electronic address."),
        ("My inbox is a new one.", "You keep writing to an inbox that I have left."),
    ),
    "store ask_total": (
        ("State the sum of one of my purchases.", "I wish to learn the price of a whole order."),
        ("What did you charge me for an order?", "I am doing my books and lack the price of an order."),
    ),
    "store ask_address": (
        ("State the destination of one of my parcels.", "I wish to learn where a parcel is headed."),
        ("I forgot where I had an order sent.", "Which door will an order come to?"),
    ),
    "store no tool": (
        ("I wish to hire your hall for a wedding.", "I demand that your advertising on my street is removed."),
        ("I am a reporter and want an interview.", "Sell me your shop, at once."),
    ),
    # ---- wishes of an airline ---------------------------------------------------------------------------------------
    "flights cancel": (
        ("I wish to withdraw from a journey.", "Kindly annul one of my tickets."),
        ("I can't travel after all.", "Please drop a trip of mine."),
    ),
    "flights rebook": (
        ("I wish to depart at a different date.", "Kindly shift one of my journeys."),
        ("The date of my trip no longer suits me.", "I need a different plane."),
    ),
    "flights cabin": (
        ("I wish to sit in a different section.", "Kindly alter the comfort of a journey."),
        ("I want to sit somewhere else on the plane.", "About the seats of a trip of ours."),
    ),
    "flights bags": (
        ("I wish to alter my suitcases.", "Kindly adjust the baggage of a journey."),
        ("I packed differently than planned.", "About the suitcases of a trip of ours."),
    ),
    "flights rename": (
        ("I wish to amend a ticket's spelling.", "Kindly amend how someone is called on a ticket."),
        ("Somebody's ticket has a typo.", "You got a name wrong on a trip."),
    ),
    "flights insure": (
        ("I wish to be covered against mishaps.", "Kindly protect one of my journeys."),
        ("I forgot to tick the box for cover.", "A trip should be covered if I fall ill."),
    ),
    "flights voucher": (
        ("I wish to be compensated by a credit note.", "Kindly make amends for a journey."),
        ("You owe me something for a trip.", "A trip did not go as planned, so what do I get?"),
    ),
    "flights ask_day": (
        ("State the date of one of my journeys.", "I wish to learn my date of departure."),
        ("I forgot when I fly.", "My diary lacks the date of a trip."),
    ),
    "flights ask_paid": (
        ("State the price of one of my journeys.", "I wish to learn the cost of a ticket."),
        ("What did you charge me for a trip?", "I am doing my books and lack the price of a trip."),
    ),
    "flights no tool": (
        ("I wish to hire your hangar for a wedding.", "I demand that your planes avoid my house."),
        ("I am a reporter and want an interview.", "Sell me an old plane, at once."),
    ),
    # ---- wishes of a telephone company ------------------------------------------------------------------------------
    "phone plan": (
        ("I wish to move to a different tariff.", "Kindly alter the tariff of one of my lines."),
        ("My tariff no longer suits me.", "I found a tariff that fits me better."),
    ),
    "phone suspend": (
        ("I wish to put a line to rest.", "Kindly block one of my lines for now."),
        ("I will not need a line for a while.", "Put one of my lines on ice."),
    ),
    "phone resume": (
        ("I wish to use a blocked line once more.", "Kindly unblock one of my lines."),
        ("Bring one of my lines back to life.", "A line of mine is on ice, and I need it."),
    ),
    "phone data": (
        ("I wish to increase my volume.", "Kindly top up one of my lines."),
        ("I have surfed too much and need a top-up.", "Top me up."),
    ),
    "phone roaming": (
        ("I wish to alter the use of a line abroad.", "Kindly adjust a line for my travels."),
        ("About using a line in other countries.", "My travel plans affect a line."),
    ),
    "phone credit": (
        ("I wish to have a statement reduced.", "Kindly grant a reduction on a statement."),
        ("You charged me too much, so give some back.", "Take something off what I owe."),
    ),
    "phone sim": (
        ("I wish to receive a fresh chip for my phone.", "Kindly mail me a replacement chip."),
        ("The little chip of my phone is worn out.", "The dog ate the chip of my phone."),
    ),
    "phone repair": (
        ("My handset cannot reach the network.", "Pages no longer load on my handset."),
        ("Nothing loads on my mobile.", "I am cut off from the web."),
    ),
    "phone ask_data": (
        ("State the remaining volume of one of my lines.", "I wish to learn my remaining volume."),
        ("Can I still surf, and how much?", "What is left to surf with?"),
    ),
    "phone ask_bill": (
        ("State the sum of one of my statements.", "I wish to learn the sum of a statement."),
        ("What do you charge me this time?", "I am doing my books and lack the sum of a letter."),
    ),
    "phone no tool": (
        ("I wish to hire your tower for a wedding.", "I demand that your cable leaves my garden."),
        ("I am a reporter and want an interview.", "Sell me your mast, at once."),
    ),
}

WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    key: {"train": training_wording.WORDINGS[key], "valid": valid, "test": test}
    for key, (valid, test) in _HELD_OUT.items()
}
"""Key to split to wordings; those of training are grammars. `{value}` is what a fact says."""
