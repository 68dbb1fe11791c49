"""What customers say in training tasks, as grammars (see `agentgym_py.env.wording.expand`)."""

from __future__ import annotations

from collections.abc import Mapping

WORDINGS: Mapping[str, tuple[str, ...]] = {
    # ---- the conversation -------------------------------------------------------------------------------------------
    "hello": (
        "[hello|hi|hey|good morning|good day|good afternoon|dear team|hello there].",
        "[hello|hi|hey], [can you help me|could you help me|is anyone there|are you there]?",
        "[thanks for taking my call|thank you for your time|glad to reach you|finally someone answers].",
    ),
    "also": (
        "[also|and|besides|in addition|then also|furthermore]:",
        "and [another|a second|one other] [thing|matter]:",
        "[that is not all|there is more|I have two things]:",
    ),
    "more": (
        "[yes|yes please|oh yes|well, yes], [there is more|one more thing|something else|another thing]:",
        "[one|just one] [more|other] [thing|matter|question] [before I go|while you are there|]:",
        "[now|next|then] [the other thing|my other matter|the second thing]:",
    ),
    "instead": (
        "[then|in that case|so|well then] [do this|help me with this|at least this|something else]:",
        "[a pity|too bad|what a shame], [then something else|so another thing|so this]:",
        "[if that is impossible|if you cannot do that|without that], [I want this|do another thing|try this]:",
    ),
    "switch": (
        "[wait|hold on|stop|hmm|no, wait|one moment], I [have changed|changed|am changing] my mind.",
        "[actually|oh|sorry|hm], [not like that|I have thought again|I decided otherwise|let me correct that].",
        "[on second thought|thinking again|now that I think of it], [something different|not that|I want it changed].",
    ),
    "yes": (
        "[yes|yes please|yes, do that|yes, go ahead|exactly|right|correct|sure|of course|I agree|fine with me].",
        "[that is|that's] [right|what I want|fine|it|correct][, please do|, go ahead|].",
        "[please do|do it|go ahead|you may|I confirm].",
    ),
    "no": (
        "no, [that is not what I want|I did not ask for that|that is wrong|not that|leave that].",
        "[I do not want that|that is not it|you got that wrong|I never said that|wrong thing].",
        "[please do not|don't do that|certainly not|not at all].",
    ),
    "unknown": (
        "[I do not know|I have no idea|no idea|I cannot say|I could not tell you|that I do not know].",
        "[that does not matter|that has nothing to do with it|why do you ask|I have nothing to say on that].",
        "[sorry|hm|well], [I do not know that|I cannot help you there|I would not know].",
    ),
    "told": (
        "[thanks|thank you|okay|I see|good to know|understood|noted|very well|all right].",
        "[thanks for telling me|thank you for the answer|okay, thanks|I will note that|good, I wrote it down].",
    ),
    "refused": (
        "[I see|a pity|too bad|what a shame|okay|if that is the rule|so be it|well, rules are rules].",
        "[that is sad, but fine|I do not like it, but okay|I had feared that|then not].",
    ),
    "leave": (
        "[that is absurd|I do not accept that|this makes no sense|you are wrong]. [I will go elsewhere|goodbye|bye].",
        "[what a bad service|I will complain|that rule does not apply to me], [goodbye|I am leaving|that was it].",
    ),
    "impatient": (
        "[again nothing|that was useless|you are only trying things]. [I will go elsewhere|goodbye|bye].",
        "[I do not have all day|I am tired of this|this leads nowhere], [goodbye|I am leaving|that was it].",
    ),
    "again": (
        "[sorry|pardon|hm|what], [I do not understand|I did not get the answer|what is the answer|say it again].",
        "[and the answer|so what is it|what is it then]?",
        "[please tell me|I need] [the answer|just the answer|what I asked for].",
    ),
    "which": (
        "[which of these|which of them|which one|which] [is it|is right|do you mean|is the answer]?",
        "[sorry|hm|wait|now I am confused], [I need one answer|tell me one of them|only one of these, please].",
        "[that is more than one|these are several|those are too many], [which one is it|say one, please|just one].",
    ),
    "transferred": (
        "[okay, I will wait|thanks, I will hold|fine, put me through|good, I wait|all right, connect me].",
    ),
    "bye": (
        "[no|no, thanks|no, that is all|that is everything|nothing else], [goodbye|bye|have a nice "
        "day|thanks and bye].",
        "[that was all|I am done|nothing more]. [goodbye|bye|thank you|see you|take care].",
    ),
    "bye unsettled": (
        "[you have not helped me|that did not help me|I still have my problem], [goodbye|bye|I will try elsewhere].",
        "[but that is not done|nothing is solved|I am as far as before]. [goodbye|bye|I will call again|a pity].",
    ),
    "faults": (
        "[I see that|it says that|I can see that|it shows that|here] {value}.",
        "[let me look|I am looking|one moment]: {value}.",
    ),
    "no faults": (
        "[everything looks normal|I see nothing odd|all is as usual|nothing strange here|it all looks fine].",
    ),
    "in vain": (
        "[that changes nothing|nothing has changed|no difference|that was fine already|it was so already].",
        "[I did that|done], [but nothing changed|no change|it is as before].",
    ),
    "done": (
        "[done|I did it|okay, done|that is done], but [it still does not work|something else is wrong|no "
        "connection yet].",
    ),
    "works": (
        "[done|I did it|okay, done], [and it works|it works again|now it works|I am online again|all good now].",
    ),
    "fault airplane mode is on": ("[airplane mode|flight mode] is [on|active|switched on]", "it is in airplane mode"),
    "fault mobile data is off": ("[mobile data|data|the mobile data] is [off|switched off|not on]",),
    "fault the SIM card is loose": ("the [SIM card|SIM] is [loose|not in its place|badly seated|out of place]",),
    "fault the network mode is manual": (
        "the [network mode|network choice|choice of networks] is [manual|not automatic|set to manual]",
    ),
    "fault a VPN is on": ("[a|some|one] VPN is [on|active|running|connected]",),
    "fault the data saver is on": ("[the data saver|data saver|data saving|a data saver] is [on|active|switched on]",),
    "fault there is no service": ("there is no [service|signal|service at all]", "[no service|no signal] is shown"),
    "fault the data is used up": (
        "[my data is|the data is] [used up|all gone|at zero]",
        "[no data|no gigabyte] is left",
    ),
    "fault roaming is off": (
        "[I am abroad|I am in another country|I am travelling], and [roaming is off|roaming does not work|it does not "
        "roam]",
    ),
    # ---- facts ------------------------------------------------------------------------------------------------------
    "fact email": (
        "my [e-mail|mail address|e-mail address] is {value}.",
        "[you find me as|I am registered as|write me at] {value}.",
    ),
    "fact name": ("my name is {value}.", "[I am|this is|it is|here is] {value}.", "the name is {value}."),
    "fact postcode": (
        "[my|the] postcode is {value}.",
        "[I live in|my home is in|I am in] postcode {value}.",
        "postcode: {value}.",
    ),
    "fact phone": (
        "my [phone number|number|telephone number] is {value}.",
        "[you have me under|I call from|phone]: {value}.",
    ),
    "fact birthday": ("[I was born on|my birthday is|born on|my date of birth is] {value}.", "birthday: {value}."),
    "fact number": ("my customer number is {value}.", "[I am customer|I have number|customer number] {value}."),
    "fact pin": ("[my|the] PIN is {value}.", "PIN: {value}.", "and the [secret|secret number|code] is {value}."),
    "fact order": (
        "[it is|that is|I mean|it is about|this is about] order {value}.",
        "the [order|order number] is {value}.",
        "[order|number]: {value}.",
    ),
    "fact order_with": (
        "[it is|I mean|that is] the [one|order] with the {value}.",
        "the [one|order] [in which|where] I [bought|ordered|got] the {value}.",
    ),
    "fact reason": (
        "[my|the] reason: {value}.",
        "[why|the reason is|because]: {value}.",
        "[put down|write|note] {value} as the reason.",
    ),
    "fact address": (
        "the [address|new address|right address] is {value}.",
        "[to|it must go to|I want it at|send it to] {value}.",
    ),
    "fact payment": ("[I want to pay by|I pay with|use|take|charge] {value}.", "[payment|pay|by]: {value}."),
    "fact product": ("[it is|I mean|it is about] the {value}.", "the [thing|product|article] is the {value}."),
    "fact new_product": (
        "[I want|I would like|give me|I prefer|I need] the {value} [instead|in its place|for it].",
        "[better|rather|instead] the {value}.",
    ),
    "fact coupon": ("the [coupon|code|coupon code] is {value}.", "[use|take|I have|my code is] {value}."),
    "fact new_email": ("the new [one|e-mail|address] is {value}.", "[make it|change it to|use|write] {value}."),
    "fact booking": (
        "[it is|I mean|it is about|this is about] booking {value}.",
        "the [booking|booking number] is {value}.",
        "[booking|number]: {value}.",
    ),
    "fact booking_with": (
        "[it is|I mean|that is] the [one|booking|flight] on {value}.",
        "the [one|booking] for {value}.",
    ),
    "fact new_day": (
        "[I want to fly on|I would like|move me to|better on|make it] {value}.",
        "the new day is {value}.",
    ),
    "fact cabin": ("[I want|I would like|make it|put me in|I prefer] {value}.", "[cabin|class]: {value}."),
    "fact bags": (
        "[I want|I need|make it|I have|we have] {value} [in all|altogether|as the total].",
        "[bags|number of bags]: {value}.",
    ),
    "fact passenger": (
        "[it is about|it is|the passenger is|I mean] {value}.",
        "[wrong is|now it says|it says] {value}.",
    ),
    "fact new_name": (
        "[it must be|the right name is|make it|it should say|write] {value}.",
        "[right|correct]: {value}.",
    ),
    "fact line": (
        "[it is|I mean|it is about|this is about] line {value}.",
        "the line is {value}.",
        "[line|number]: {value}.",
    ),
    "fact line_with": (
        "[it is|I mean|that is] the [one|line] with the number {value}.",
        "the [one|line] on which I have {value}.",
    ),
    "fact plan": (
        "[I want|I would like|give me|make it|take] the plan {value}.",
        "[plan|the plan is|the new plan is]: {value}.",
    ),
    "fact gb": ("[I want|I need|give me|make it|add] {value} GB.", "[amount|data|how much]: {value} GB."),
    "fact roaming": ("[I want it|switch it|turn it|make it|it should be] {value}.", "[roaming|new state]: {value}."),
    "fact bill": (
        "[it is|I mean|it is about|this is about] bill {value}.",
        "the bill is {value}.",
        "[bill|number]: {value}.",
    ),
    "fact amount": ("[I want|I ask for|make it|I expect|give me] {value}.", "[amount|sum|the amount is]: {value}."),
    # ---- wishes of a store ------------------------------------------------------------------------------------------
    "store cancel": (
        "[please |][cancel|call off|stop] [an|my] order[ of mine|].",
        "[I want|I need|I would like] to cancel [an|my] order.",
        "an order of mine [must|should|has to] be cancelled.",
        "can you cancel [an|my] order[, please|]?",
    ),
    "store address": (
        "[please |][change|correct|replace] the address of an order.",
        "[I want|I need|I would like] an order to go [elsewhere|to another address|somewhere else].",
        "an order [has|got] the wrong address.",
        "can you send an order to another address?",
    ),
    "store payment": (
        "[please |]change [how I pay|the payment of] an order.",
        "[I want|I need|I would like] to pay an order [differently|in another way].",
        "an order must be paid [differently|in another way].",
        "can you change the payment of an order?",
    ),
    "store return": (
        "[please |]take back an order.",
        "[I want|I need|I would like] to [return|send back|give back] an order.",
        "an order should go back to you.",
        "can I [return|send back] an order[ for a refund|]?",
    ),
    "store exchange": (
        "[please |][exchange|swap] [something|a product] of an order.",
        "[I want|I need|I would like] to [exchange|swap] [something|a thing|a product] that I [bought|ordered].",
        "one thing in an order should be [exchanged|swapped].",
        "can I [exchange|swap] a product of an order?",
    ),
    "store coupon": (
        "[please |]use [a|my] coupon for an order.",
        "[I want|I need|I would like] to use [a|my] coupon[ for an order|].",
        "I have a coupon for an order.",
        "can you [apply|take] a coupon for an order?",
    ),
    "store email": (
        "[please |]change my e-mail.",
        "[I want|I need|I would like] another e-mail [on file|with you|in my account].",
        "my e-mail has changed.",
        "can you [change|update] my e-mail?",
    ),
    "store ask_total": (
        "what [did|does] an order cost [in all|altogether]?",
        "[tell me|I want to know|I need to know] the total of an order.",
        "how much is an order of mine [in all|altogether]?",
    ),
    "store ask_address": (
        "where [will|does] an order [of mine |]go?",
        "[tell me|I want to know|I need to know] the address of an order.",
        "to which address does an order go?",
    ),
    "store no tool": (
        "[your driver|your courier|the driver] [was rude|broke my door|drove over my lawn]: I want [an "
        "apology|damages|to complain].",
        "[I want|I would like] to [work for you|buy shares of your company|rent your shop|speak to the founder].",
        "a product has [hurt me|started a fire|ruined my floor], and I want [damages|compensation].",
    ),
    # ---- wishes of an airline ---------------------------------------------------------------------------------------
    "flights cancel": (
        "[please |][cancel|call off] [a|my] booking.",
        "[I want|I need|I would like] to cancel [a|my] [booking|trip].",
        "a booking of mine [must|should|has to] be cancelled.",
        "can you cancel [a|my] booking[, please|]?",
    ),
    "flights rebook": (
        "[please |]move [a|my] booking to another day.",
        "[I want|I need|I would like] to [fly|travel] on another day.",
        "a booking must be on another day.",
        "can you [rebook|move] my flight?",
    ),
    "flights cabin": (
        "[please |]change the cabin of a booking.",
        "[I want|I need|I would like] another [cabin|class].",
        "a booking is in the wrong cabin.",
        "can you change my [cabin|class]?",
    ),
    "flights bags": (
        "[please |]change the [bags|luggage] of a booking.",
        "[I want|I need|I would like] another number of bags.",
        "a booking has the wrong number of bags.",
        "can you change how many bags I have?",
    ),
    "flights rename": (
        "[please |]correct a name in a booking.",
        "[I want|I need|I would like] a passenger's name [corrected|changed].",
        "a name in a booking is [wrong|misspelt].",
        "can you correct a passenger's name?",
    ),
    "flights insure": (
        "[please |]insure a booking.",
        "[I want|I need|I would like] insurance for a booking.",
        "a booking should be insured.",
        "can you add insurance to a booking?",
    ),
    "flights voucher": (
        "[please |]give me a voucher for [a delay|my trouble].",
        "[I want|I need|I would like] a voucher[ for my flight|].",
        "my flight went wrong, and I want a voucher.",
        "can I have a voucher for a flight?",
    ),
    "flights ask_day": (
        "[when|on which day] does a flight of mine leave?",
        "[tell me|I want to know|I need to know] the day of a flight.",
        "which day is a booking for?",
    ),
    "flights ask_paid": (
        "what did I pay for a booking?",
        "[tell me|I want to know|I need to know] what a booking cost.",
        "how much [was|is] a booking of mine?",
    ),
    "flights no tool": (
        "[your crew|a steward|the pilot] [was rude|lost my dog|shouted at me]: I want [an "
        "apology|damages|to complain].",
        "[I want|I would like] to [work for you|charter a whole plane|film on board|speak to the founder].",
        "a trolley has [hurt me|broken my laptop|spoilt my coat], and I want [damages|compensation].",
    ),
    # ---- wishes of a telephone company ------------------------------------------------------------------------------
    "phone plan": (
        "[please |]change [a|my] plan.",
        "[I want|I need|I would like] another plan.",
        "a line should have another plan.",
        "can you change the plan of a line?",
    ),
    "phone suspend": (
        "[please |][suspend|pause|freeze] a line.",
        "[I want|I need|I would like] to [suspend|pause] a line.",
        "a line should be [suspended|paused].",
        "can you suspend a line?",
    ),
    "phone resume": (
        "[please |][resume|reactivate|unfreeze] a line.",
        "[I want|I need|I would like] a suspended line to [work|be active] again.",
        "a line should be active again.",
        "can you activate a line again?",
    ),
    "phone data": (
        "[please |]add data to a line.",
        "[I want|I need|I would like] more data.",
        "a line needs more data.",
        "can I have more data?",
    ),
    "phone roaming": (
        "[please |]change roaming for a line.",
        "[I want|I need|I would like] to switch roaming.",
        "roaming is set wrongly for a line.",
        "can you switch roaming for a line?",
    ),
    "phone credit": (
        "[please |]credit [something|an amount] to a bill.",
        "[I want|I need|I would like] a credit for a bill.",
        "a bill is too high, and I want a credit.",
        "can I have a credit for a bill?",
    ),
    "phone sim": (
        "[please |]send me a SIM card.",
        "[I want|I need|I would like] a new SIM card[ for a line|].",
        "my SIM card is [lost|broken|gone].",
        "can you send a SIM card?",
    ),
    "phone repair": (
        "[my phone has no connection|I am not online|my phone does not connect][, help me|, what now|].",
        "[no internet on my phone|there is no internet here|my data does not work][, please help|].",
        "[repair|fix] my connection, please.",
        "why is my phone offline?",
    ),
    "phone ask_data": (
        "how much data [do I have left|is left on a line]?",
        "[tell me|I want to know|I need to know] the data that a line has left.",
        "what data has a line left?",
    ),
    "phone ask_bill": (
        "how high is a bill?",
        "[tell me|I want to know|I need to know] the amount of a bill.",
        "what must I pay for a bill?",
    ),
    "phone no tool": (
        "[your mast|your van|your worker] [spoils my view|blocks my drive|broke my fence]: I want [an "
        "apology|damages|to complain].",
        "[I want|I would like] to [work for you|rent you my roof|buy shares of your company|speak to the founder].",
        "a phone of yours has [hurt me|started a fire|burnt my table], and I want [damages|compensation].",
    ),
}
