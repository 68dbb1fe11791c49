"""Requests of training tasks, as grammars (see `agentgym_py.env.wording.expand`); `{an_s}` is `{s}` with an article."""

from __future__ import annotations

from collections.abc import Mapping

_PARTS: Mapping[str, str] = {
    "<box>": (
        "[If|When|In case] [it is|it lies|the number is|the result is] [above|over|higher than|more than] {n}[ "
        "degrees|], [focus on|set the focus on|answer by a focus on] the {a}[, else on|; otherwise on|, if not on] "
        "the {b}."
    ),
    "<yes>": (
        "[If it does|If so|If current flows|When it does], [focus on|set the focus on|answer by a focus on] the "
        "{a}[, else on|; otherwise on|, if not on] the {b}."
    ),
    "<dominant>": (
        "[If it is dominant|If dominant|When it is dominant], [focus on|set the focus on|answer by a focus on] the "
        "{a}[, else on|; otherwise on|, if not on] the {b}."
    ),
    "<mark>": "[First|Also|On the way|At some time] [focus on|set the focus on] [it|the {s}].",
}
"""Parts that several grammars share."""
_GRAMMARS: Mapping[str, tuple[str, ...]] = {
    "boil": (
        "[Boil|Bring to the boil|Turn to gas|Evaporate|Vaporise|Gasify|Boil off] the {s}. <mark>",
        "[Make|Let|Get|See to it that you make|Have] the {s} [boil|evaporate|become a gas|turn to steam|turn "
        "gaseous|boil away]. <mark>",
        "[I want|We want|We need|You should get|The task is to get|Bring me|Show me|Prepare] {s} [as a gas|in "
        "gaseous form|as vapour|as steam|as a cloud of gas]. <mark>",
        "[Heat|Warm|Cook|Fire] the {s} until it [boils away|is a gas|has become gas|has boiled|is all vapour]. <mark>",
        "[Your task|The job|Today's work|The experiment|The order|The aim]: {s} [as a gas|in gaseous form|as "
        "vapour|as steam|as a cloud of gas]. <mark>",
        "[There should be|There must be|In the end there is|At last there should be] {s} [as a gas|in gaseous "
        "form|as vapour|as steam|as a cloud of gas]. <mark>",
        "[Can you|Could you|Would you|Will you] [boil|evaporate|vaporise|turn to gas] the {s}[, please|]? <mark>",
        "[A teacher|My aunt|A student|The professor|A visitor|A child] wants to see {s} [as a gas|in gaseous form|as"
        " vapour|as steam|as a cloud of gas]. <mark>",
        "The {s} [has to|must|should|ought to] [boil|evaporate|become a gas|turn to steam|turn gaseous|boil away]. "
        "<mark>",
        "[Do not stop|Go on|Keep working|Work] until the {s} [boils away|is a gas|has become gas|has boiled|is all "
        "vapour]. <mark>",
    ),
    "melt": (
        "[Melt|Liquefy|Thaw|Fuse|Melt down|Bring to the melt] the {s}. <mark>",
        "[Make|Let|Get|See to it that you make|Have] the {s} [melt|become liquid|turn liquid|turn into a "
        "liquid|run]. <mark>",
        "[I want|We want|We need|You should get|The task is to get|Bring me|Show me|Prepare] {s} [as a liquid|in "
        "liquid form|molten|melted]. <mark>",
        "[Heat|Warm|Fire|Roast] the {s} until it [is molten|is liquid|has melted|flows|is all liquid]. <mark>",
        "[Your task|The job|Today's work|The experiment|The order|The aim]: {s} [as a liquid|in liquid "
        "form|molten|melted]. <mark>",
        "[There should be|There must be|In the end there is|At last there should be] {s} [as a liquid|in liquid "
        "form|molten|melted]. <mark>",
        "[Can you|Could you|Would you|Will you] [melt|liquefy|melt down|thaw] the {s}[, please|]? <mark>",
        "[A teacher|My aunt|A student|The professor|A visitor|A child] wants to see {s} [as a liquid|in liquid "
        "form|molten|melted]. <mark>",
        "The {s} [has to|must|should|ought to] [melt|become liquid|turn liquid|turn into a liquid|run]. <mark>",
        "[Do not stop|Go on|Keep working|Work] until the {s} [is molten|is liquid|has melted|flows|is all liquid]. "
        "<mark>",
    ),
    "freeze": (
        "[Freeze|Solidify|Turn to ice|Harden|Freeze up|Freeze solid] the {s}. <mark>",
        "[Make|Let|Get|See to it that you make|Have] the {s} [freeze|become solid|turn solid|go hard|turn to ice]. "
        "<mark>",
        "[I want|We want|We need|You should get|The task is to get|Bring me|Show me|Prepare] {s} [as a solid|in "
        "solid form|frozen|as ice|frozen hard]. <mark>",
        "[Cool|Chill|Refrigerate|Cool down] the {s} until it [is frozen|is solid|has frozen|is hard|is all ice]. "
        "<mark>",
        "[Your task|The job|Today's work|The experiment|The order|The aim]: {s} [as a solid|in solid form|frozen|as "
        "ice|frozen hard]. <mark>",
        "[There should be|There must be|In the end there is|At last there should be] {s} [as a solid|in solid "
        "form|frozen|as ice|frozen hard]. <mark>",
        "[Can you|Could you|Would you|Will you] [freeze|solidify|chill and harden|freeze up] the {s}[, please|]? "
        "<mark>",
        "[A teacher|My aunt|A student|The professor|A visitor|A child] wants to see {s} [as a solid|in solid "
        "form|frozen|as ice|frozen hard]. <mark>",
        "The {s} [has to|must|should|ought to] [freeze|become solid|turn solid|go hard|turn to ice]. <mark>",
        "[Do not stop|Go on|Keep working|Work] until the {s} [is frozen|is solid|has frozen|is hard|is all ice]. "
        "<mark>",
    ),
    "change state": (
        "[Change|Alter|Transform|Switch] the state of [matter of |]the {s}[, whichever way|, as you like|]. <mark>",
        "[Make|Let|Get|Have] the {s} [change its state|pass into another state|take another state of matter]. <mark>",
        "[Turn|Bring] the {s} into [another|a different|some other] state[ of matter|]. <mark>",
        "[Whether by heat or by cold|By heat or by cold|Somehow], the {s} [must|should|has to] change its state. "
        "<mark>",
        "[I want|We want|We need] the {s} in [another|a different|some other] state[ of matter|]. <mark>",
        "[Is the {s} solid? Then melt it. Is it liquid? Freeze or boil it|Melt, freeze or boil the {s}]. <mark>",
        "[Your task|The job|The experiment|The aim]: a change of state of the {s}. <mark>",
    ),
    "temperature": (
        "[Measure|Take|Find out|Determine|Find|Check|Read off] [the temperature of the {s}|how warm the {s} is]. <box>",
        "[How hot|How warm|Of what temperature] is the {s}? [Measure it. |Use a thermometer. |Find out. |]<box>",
        "[What is|What's] the temperature of the {s}? <box>",
        "[I wonder|We wonder|Somebody asks|A student asks] how [hot|warm] the {s} is. <box>",
        "[Your task|The job|Today's work|The experiment] is to measure how [hot|warm] the {s} is. <box>",
        "[Use|Take|Find] [a|the] thermometer [for|on] the {s}. <box>",
        "The {s} [has|is at] some temperature: [measure it|find it out]. <box>",
    ),
    "melting": (
        "[Measure|Find out|Determine|Find|Work out|Establish] [the melting point of the {s}|where the {s} melts]. "
        "<box>",
        "At [what|which] [temperature|number of degrees] does the {s} melt? <box>",
        "[What is|What's] the melting point of the {s}? [Measure it. |Use a thermometer. |]<box>",
        "[I wonder|We wonder|Somebody asks|A student asks] at how many degrees the {s} melts. <box>",
        "[Your task|The job|Today's work|The experiment] is to find the melting point of the {s}. <box>",
        "[Heat|Warm] the {s} and measure it while it melts. <box>",
        "The {s} melts at some temperature: [measure it|find it out]. <box>",
    ),
    "power": (
        "[Focus on|Choose|First focus on] the {s}[ first|], then [power it|turn it on|make it run|bring it to "
        "life|get it going|switch it on|drive it|start it] [by|with|through] [a circuit|an electric circuit|wires "
        "and a source].",
        "[Build|Make|Wire|Put together|Assemble] a circuit [that powers|that runs|for|with] the {s}. [Also|First] "
        "focus on it.",
        "The {s} [must|should|has to] [run|be on|work]: [wire it up|build a circuit|connect it]. [Also|First] focus "
        "on it.",
        "[Give|Bring|Lead] [electricity|current|electric power] to the {s}[ by wires|]. [Also|First] focus on it.",
        "[Can you|Could you|Will you] make the {s} [run|work]? [Also|First] focus on it.",
        "[Connect|Wire] the {s} [up |]so that it [runs|works|is on]. [Also|First] focus on it.",
        "[Your task|The job|The experiment|The aim]: a circuit in which the {s} [runs|works|is on]. [Also|First] "
        "focus on it.",
    ),
    "source": (
        "[Focus on|Choose|First focus on] the {s}[ first|], then [power it|turn it on|make it run|bring it to "
        "life|get it going|switch it on|drive it|start it] [by|with|from] a {w} [source|source of energy|energy "
        "source].",
        "[Build|Make|Wire|Put together|Assemble] a circuit in which a {w} [source|energy source] [powers|runs] the "
        "{s}. [Also|First] focus on it.",
        "The {s} [must|should|has to] [run|be on|work] [from|by] a {w} [source|source of energy]. [Also|First] focus"
        " on it.",
        "[Give|Bring|Lead] [electricity|current|electric power] from a {w} source to the {s}. [Also|First] focus on "
        "it.",
        "[Can you|Could you|Will you] make the {s} [run|work] with {w} energy? [Also|First] focus on it.",
        "[Connect|Wire] the {s} to a {w} source[ of energy|] so that it [runs|works|is on]. [Also|First] focus on it.",
    ),
    "conduct": (
        "[Find out|Test|Determine|Check|Examine|Investigate] [whether|if] the {s} [conducts electricity|is a "
        "conductor|lets current through|carries current|is conductive]. <yes>",
        "[Does|Will] the {s} [conduct electricity|carry current|let current through]? [Test it. |Find out. |]<yes>",
        "[I wonder|We wonder|Somebody asks|A student asks] whether the {s} [conducts electricity|is a conductor|lets"
        " current through|carries current|is conductive]. <yes>",
        "[Test|Try|Examine] the {s} in a circuit: does it [conduct|carry current]? <yes>",
        "Is the {s} [a conductor|conductive|electrically conductive]? [Test it. |Find out. |]<yes>",
        "[Your task|The job|The experiment] is to find out whether the {s} [conducts electricity|is a conductor|lets"
        " current through|carries current|is conductive]. <yes>",
    ),
    "find": (
        "[Find|Look for|Search for|Go and find|Seek|Hunt for] {c}[ that you can carry|], focus on it, and "
        "[put|move|lay|place] it [in|into] the {a}.",
        "[The|Your] {a} [needs|should hold|must get|is for] {c}[ that you can carry|]: [find one|look for one], "
        "focus on it, and [put|move] it there.",
        "[Focus on|Choose] {c}[ that you can carry|] and [bring|carry|take] it [into|to] the {a}.",
        "[I want|We want|We need|Somebody wants] {c}[ that you can carry|] in the {a}. Focus on it [first|before].",
        "[Which of these things|Which of the strange things] is {c}? Focus on one and [put|bring|move] it into the "
        "{a}.",
        "[Your task|The job|The aim]: {c}[ that you can carry|] in the {a}, and before that a focus on it.",
        "[Look at|Examine] the things here until you know {c}; focus on it and [put|bring|move] it into the {a}.",
    ),
    "longest": (
        "[Focus on|Find|Find out and focus on|Choose by focus] the [animal that lives longest|longest-lived "
        "animal|animal with the longest life|animal that grows oldest|animal of the longest life span].",
        "[Which|What] animal lives longest? [Focus on it|Answer by a focus|Your focus is the answer].",
        "[I wonder|We wonder|Somebody asks|A child asks] which animal lives longest. Answer by a focus.",
        "[Of all the animals|Among the animals][ here|], [one lives|which lives] longest: focus on it.",
        "[Your task|The job|The aim]: a focus on the [animal that lives longest|longest-lived animal|animal with the"
        " longest life|animal that grows oldest|animal of the longest life span].",
    ),
    "shortest": (
        "[Focus on|Find|Find out and focus on|Choose by focus] the [animal that lives shortest|shortest-lived "
        "animal|animal with the shortest life|animal that dies youngest|animal of the shortest life span].",
        "[Which|What] animal lives shortest? [Focus on it|Answer by a focus|Your focus is the answer].",
        "[I wonder|We wonder|Somebody asks|A child asks] which animal lives shortest. Answer by a focus.",
        "[Of all the animals|Among the animals][ here|], [one lives|which lives] shortest: focus on it.",
        "[Your task|The job|The aim]: a focus on the [animal that lives shortest|shortest-lived animal|animal with "
        "the shortest life|animal that dies youngest|animal of the shortest life span].",
    ),
    "both": (
        "[Focus on|Choose by focus] the [animal that lives longest|longest-lived animal], [then|and then|and after "
        "that] on the [one that lives shortest|shortest-lived one].",
        "[Which|What] animal lives longest, [which|and which one] shortest? Focus on them in this order.",
        "[First|At first] focus on the [longest-lived animal|animal with the longest life], [then|afterwards] on the"
        " [shortest-lived one|one with the shortest life].",
        "[Your task|The job|The aim]: a focus on the longest-lived animal, and one on the shortest-lived animal "
        "after it.",
    ),
    "grow": (
        "[Grow|Raise|Cultivate|Bring up] {an_s} {last}[ from seed| from a seed|] and focus on it[ when it is there|].",
        "[From|Out of] {an_s} seed [grow|raise|get] {an_s} {last}[;|,] [then|and then] focus on it.",
        "[I want|We want|We need|You should get] {an_s} {last}: [sow|plant] a seed, [wait|take care of it] and focus "
        "on the {last}.",
        "[Can you|Could you|Will you] [grow|raise] {an_s} {last}? Focus on it [then|when it is there|at the end].",
        "[Sow|Plant] {s} and [water it|take care of it|tend it] until [there is|you see] a {last}; focus on that.",
        "[Your task|The job|The aim|Your order]: {an_s} {last}, grown from a seed, and a focus on it.",
        "[There should be|There must be|In the end there is] {an_s} {last}. Focus on it then.",
    ),
    "life": (
        "[Focus on|Follow by focus] [the stages of life|the life stages|every stage of life|each life stage] of the "
        "{s}, [from|beginning with] the {first} [to|up to] the {last}.",
        "[Watch|Follow|Observe|Study] {an_s} [grow|grow up|live]: focus on each stage, [from|first the] {first} "
        "[to|and last the] {last}.",
        "[Your task|The job|The aim]: a focus on each stage of life of the {s}, in order, {first} to {last}.",
        "[How|In which stages] does {an_s} [live|grow]? Focus on each stage in its order, {first} to {last}.",
        "[Raise|Grow] {an_s} from {first} to {last} and focus on every stage on the way.",
    ),
    "trait": (
        "[Find out|Test|Determine|Check|Investigate] whether the trait {t} is dominant or recessive in {s}. <dominant>",
        "In {s}, is {t} dominant or recessive? [Cross the plants. |Find out. |]<dominant>",
        "[Cross|Interbreed] [the two plants|the two kinds] of {s} and see whether {t} is dominant. <dominant>",
        "[I wonder|We wonder|Somebody asks|A student asks] whether {t} is a dominant trait of {s}. <dominant>",
        "[Your task|The job|The experiment]: is {t} dominant in {s}? <dominant>",
    ),
    "chemicals": (
        "[Make|Produce|Prepare|Create|Synthesise] {s} [by mixing|from other substances|by a recipe] and focus on it.",
        "[I want|We want|We need|You should get] {s}: [mix it|find its recipe|prepare it] and focus on it.",
        "[Mix|Stir together] what [gives|makes|becomes] {s}[;|,] [then|and then] focus on it.",
        "[Can you|Could you|Will you] [make|mix|prepare] {s}? Focus on it [then|at the end|when you have it].",
        "[Your task|The job|The experiment|The aim]: {s}, mixed from what there is, and a focus on it.",
        "[A recipe|Some recipe|A sheet] says how to [make|mix] {s}. [Follow it|Do it] and focus on the {s}.",
    ),
    "paint": (
        "[Make|Produce|Prepare|Create|Get] {s} [by mixing|from primary colours|by mixing paints] and focus on it.",
        "[I want|We want|We need|You should get] {s}: [mix it|mix paints|stir it together] and focus on it.",
        "[Mix|Stir] paints [to get|until you have|to make] {s}[;|,] [then|and then] focus on it.",
        "[Can you|Could you|Will you] [make|mix] {s}? Focus on it [then|at the end|when you have it].",
        "[Your task|The job|The aim]: {s}, mixed from the pots, and a focus on it.",
        "[A painter|An artist|My aunt|A child] [needs|wants|asks for] {s}: [mix it|mix some] and focus on it.",
    ),
    "steepest": (
        "[Which|What] [of|among] {s} is [steepest|the steepest|the most inclined]? [Time a block on each|Let a block"
        " slide down each|Measure each with block and stopwatch] and focus on [it|that one].",
        "[Find|Find out|Determine] the steepest of {s}[ by timing a block on each|, after you timed a block on "
        "each][, and focus on it|]. Your focus is the answer.",
        "[I wonder|We wonder|Somebody asks|A student asks] which of {s} is [steepest|the steepest|the most "
        "inclined]. [Time a block on each|Let a block slide down each|Measure each with block and stopwatch] and "
        "answer by a focus.",
        "[Your task|The job|The experiment]: a focus on the steepest of {s}. [Time a block on each|Let a block slide"
        " down each|Measure each with block and stopwatch] before.",
        "[Compare|Test|Examine] {s}: [time a block on each|let a block slide down each|measure each with block and "
        "stopwatch], and focus on the one that is [steepest|the steepest|the most inclined].",
    ),
    "friction": (
        "[Which|What] [of|among] {s} has [the most|the largest|the greatest] friction? [Time a block on each|Let a "
        "block slide down each|Measure each with block and stopwatch] and focus on [it|that one].",
        "[Find|Find out|Determine] the roughest of {s}[ by timing a block on each|, after you timed a block on "
        "each][, and focus on it|]. Your focus is the answer.",
        "[I wonder|We wonder|Somebody asks|A student asks] which of {s} has [the most|the largest|the greatest] "
        "friction. [Time a block on each|Let a block slide down each|Measure each with block and stopwatch] and "
        "answer by a focus.",
        "[Your task|The job|The experiment]: a focus on the roughest of {s}. [Time a block on each|Let a block slide"
        " down each|Measure each with block and stopwatch] before.",
        "[Compare|Test|Examine] {s}: [time a block on each|let a block slide down each|measure each with block and "
        "stopwatch], and focus on the one that has [the most|the largest|the greatest] friction.",
    ),
}


def _with_parts(grammar: str) -> str:
    for mark, part in _PARTS.items():
        grammar = grammar.replace(mark, part)
    return grammar


WORDINGS: Mapping[str, tuple[str, ...]] = {key: tuple(map(_with_parts, texts)) for key, texts in _GRAMMARS.items()}
"""Meaning to grammars."""
