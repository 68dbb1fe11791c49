"""Questions about a database, with the statements that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_envs.sql.guard import Row
from agentgym_envs.sql.tables import Layout
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

Rows = tuple[list[Row], list[Row], list[Row]]

WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "count": {
        "train": (
            "How many {s} [are there|exist|do you find|are on record|does the database hold|are in the data|are "
            "stored|are registered|are listed|can you count|do we have|turn up]?",
            "[Count|Please count|Just count|Count up|Kindly count] [all |]the {s}[ in the database|].",
            "[Tell me|Say|Find out|Work out|I want to know|Check|Show|Determine|Establish|Report|State|Let me know|"
            "I wonder|I would like to know] how many {s} there are.",
            "[Report|Return|Show|Get|I need|Tell me|Calculate|Fetch|Print|State|Look up|Determine] the number of "
            "{s}[ on record| stored here|].",
            "[In total|Altogether|All in all|In this database|All told|Overall], how many {s} [are there|do you "
            "find|do you count|exist|are recorded]?",
            "How [large|big|high|great] is the number of {s}?",
            "[What do you get when you count all {s}?|Please count all {s}: how many are there?]",
            "[Can|Could|Would|Will] you [please |][count|add up|tally] the {s}[ for me|]?",
            "[Can|Could|Would] you [tell me|find out|check|say|work out] how many {s} there are?",
            "[My boss|A friend|The auditor|Our chief|A reader|Somebody|The manager] [wants|would like|needs] to "
            "know how many {s} [there are|exist|we have].",
            "I [need|want|would like|am after|am looking for] a [count|tally] of [all |]the {s}.",
            "[For a report|For my notes|For the statistics|Out of curiosity|Just quickly], how many {s} are there?",
            "[There are|We have] some {s}. How many[ exactly| of them are there|]?",
            "{s}: how many [are there|of them exist|are on record]?",
            "Number of {s}[?|, please.]",
            "In the [records|data|entries], how many {s} [are there|can be found|do you see]?",
            "[Do you know|Have you any idea|Any idea] how many {s} [there are|exist|are stored]?",
            "[Go through|Look through|Search|Scan] the data and [count|tally] the {s}.",
        ),
        "valid": ("What is the number of {s}?",),
        "test": ("Give the count of the {s}.",),
    },
    "names": {
        "train": (
            "[Name|Show|Give me|Print|Write down|Tell me|I need|Return|Enumerate|Display|Fetch|Get|Look up|Report] "
            "[all |all of |]the {s}.",
            "[Which|What] {s} [are there|are on record|do you find|does the database know|exist|do we have|are "
            "stored|are registered|turn up]?",
            "[Show|Return|Print|I need|Write down|Get|Fetch|Display|Read out|Report] the {label} of [all|every one "
            "of] the {s}.",
            "[Which|What] are the {s}? [List|Show|Name|Give] them by {label}.",
            "[Make|Write|Prepare|Draw up|Compile|Put together|Produce] a list of [all |]the {s}.",
            "[By|With] {label}, which {s} [are there|do you find|exist]?",
            "I am [looking for|searching for|interested in|after|asking about] the {s}. [Give me|Show me|Show|Tell "
            "me|Report] the {label} of each.",
            "[Can|Could|Would|Will] you [please |][name|show me|give me|find|tell me|pick out|look up] [all |]the "
            "{s}?",
            "[I want|I would like|We would like|We want|My boss wants|A friend wants] to [know|see|have|get] [all |"
            "]the {s}.",
            "[I want|I would like|We need|My boss wants|The manager wants] to see the {label} of [each|every one] "
            "of the {s}.",
            "[Find|Search for|Look for|Pick out|Identify|Select|Single out] [all |]the {s}[ and show the {label}| "
            "and give me the {label}| and report the {label}|].",
            "[Do you know|Have you any idea] [which|what] {s} there are?",
            "The {label} of [each|every one] of the {s} is [wanted|needed|asked for|requested].",
            "{s}: [who or what are they|which are they|what are they called]?",
            "What are the {s} called?",
            "Under which {label} is each of the {s} stored?",
            "[Go through|Look through|Search|Scan] the data for the {s} and [show|return|write down] the {label} of "
            "each.",
            "I [need|want|would like] a [list|roll|register|listing] of the {s}, [by|with the] {label}.",
        ),
        "valid": ("List the {s} by {label}.",),
        "test": ("Give the {label} of each of the {s}.",),
    },
    "lookup": {
        "train": (
            "What is the {noun} of [the |]{one} {label}?",
            "What's the {noun} of [the |]{one} {label}?",
            "[Look up|Find|Tell me|Show|Return|I need|Read out|Get|Give me|Report|State|Determine|Fetch|Check|Print|"
            "Let me know] the {noun} of [the |]{one} {label}.",
            "[Which|What] {noun} does [the |]{one} {label} have?",
            "One {one} is [called|named|known as] {label}. [What is the {noun}?|Give the {noun}.|Which {noun} is "
            "stored?|Which {noun} do you find?|I need the {noun}.]",
            "In the [record|row|entry|line|data] of [the |]{one} {label}, what [is|stands as] the {noun}?",
            "[Take|Consider|Look at|Think of|Pick] the {one} {label}: what is the {noun}?",
            "The {noun} of [the |]{one} {label} is [wanted|asked for|needed|requested|what I need|what I am after|"
            "unknown to me].",
            "[Can|Could|Would|Will] you [please |][tell me|look up|find|give me|check|show me|find out] the {noun} "
            "of [the |]{one} {label}?",
            "[I want|I would like|I have|I need|We need|We want|My boss wants|A friend wants] to know the {noun} of "
            "[the |]{one} {label}.",
            "[Which|What] {noun} is [stored|recorded|given|noted|entered|listed|on record] for [the |]{one} {label}?",
            "[Do you know|Have you got|May I have|Can I have] the {noun} of [the |]{one} {label}?",
            "[I forgot|I cannot remember|I am not sure about] the {noun} of [the |]{one} {label}; [please look it "
            "up|please help].",
            "[What does the database|What does the table] [give|hold|show|state] as the {noun} of [the |]{one} "
            "{label}?",
            "The {one} {label}: what is the {noun}?",
            "{one} {label}, {noun}[?|, please.]",
            "We have one {one} [called|named] {label}. Find the {noun}.",
            "[About|Concerning|Regarding|As for|Of] the {one} {label}, I [need|want|would like] the {noun}.",
            "How does the {noun} of the {one} {label} read?",
        ),
        "valid": ("For {one} {label}, what is the {noun}?",),
        "test": ("{label} is the {label_column} of a {one}. Find its {noun}.",),
    },
    "extreme": {
        "train": (
            "Which [one |]of the {s} has {most}?",
            "[Of|Out of|From] all {s}, which [one |]has {most}?",
            "[Show|Return|Tell me|Give|Name|Find|Identify|Report|Look up|Pick out|Print] the one of the {s} [with|"
            "that has|which has] {most}.",
            "[Search|Look through|Go through|Compare|Check|Scan|Examine|Study] the {s}: which [one |]has {most}?",
            "What is the {label} of the one of the {s} [with|that has] {most}?",
            "[Take|Consider|Look at] all {s}. [Which one has {most}?|Name the one with {most}.|Show the one that "
            "has {most}.|Tell me which has {most}.]",
            "[I want|I need|Return|Show|Tell me|Print] the {label} of that one of the {s} which has {most}.",
            "[Can|Could|Would|Will] you [please |][tell me|find out|say|check|see] which of the {s} has {most}?",
            "[I want|I would like|I have|We want|My boss wants|A friend wants|Everybody wants] to know which of the "
            "{s} has {most}.",
            "[Do you know|Have you any idea|Any idea] which of the {s} [has|can show|comes with] {most}?",
            "Having {most}, which of the {s} [comes first|is at the top|leads]?",
            "Which of the {s} [is at the top|comes first|leads|is the leader] with {most}?",
            "With {most}, which [one |]of the {s} [stands out|is ahead of the others|is in front|heads the list]?",
            "{s}: which one has {most}?",
            "[Rank|Sort|Order|Arrange] the {s}: which [one |]has {most}?",
            "The one of the {s} [with|that has] {most} is [wanted|needed|asked for]. [Which is it?|What is its "
            "{label}?]",
            "[Pick|Choose|Single out|Select] from the {s} the one with {most}.",
            "[Find out|Work out|Check|See|Determine|Establish] which of the {s} has {most}.",
            "[Under|By] which {label} do you find the one of the {s} with {most}?",
        ),
        "valid": ("Find the {label} of the one with {most} among the {s}.",),
        "test": ("Among the {s}, name the one with {most}.",),
    },
    "average": {
        "train": (
            "[What is|How large is|How big is|How high is|What's] the average {noun} of [the|all] {s}?",
            "[Give|Tell me|Calculate|Return|Work out|Show|I need|Find|Determine|Compute|Report|Give me|Figure out|"
            "State] the average {noun} of [the|all] {s}.",
            "On average, [what|how large|how big|how high] is the {noun} of [the|all] {s}?",
            "[Take|Consider|Look at] [the|all] {s}: what is their average {noun}?",
            "[Average|Take the average of|Take the mean of|Compute the mean of] the {noun} over [the|all] {s}.",
            "What does the {noun} of [the|all] {s} [come to|amount to] on average?",
            "For [the|all] {s}, [work out|calculate|return|determine|report|give] the [average|mean] {noun}.",
            "[Can|Could|Would|Will] you [please |][calculate|work out|tell me|find|compute|give me] the [average|"
            "mean] {noun} of [the|all] {s}?",
            "[I want|I would like|I have|We want|My boss wants|A friend wants] to know the [average|mean] {noun} of "
            "[the|all] {s}.",
            "What is the [mean|average value of the] {noun} of [the|all] {s}?",
            "[Add up the {noun} of all {s} and divide by how many there are.|Sum the {noun} over all {s} and divide "
            "by their number.]",
            "The [average|mean] {noun} of [the|all] {s} is [wanted|needed|asked for|requested].",
            "{s}: what is the [average|mean] {noun}?",
            "Average {noun} of [the|all] {s}[?|, please.]",
            "[Taken together|Taking them together], what is the average {noun} of the {s}?",
            "[For a report|For the statistics|For my notes], what is the [average|mean] {noun} of [the|all] {s}?",
            "[Do you know|Have you got|May I have] the [average|mean] {noun} of [the|all] {s}?",
            "[Over|Across] [the|all] {s}, what is the [average|mean] {noun}?",
            "Which {noun} do the {s} have on average?",
        ),
        "valid": ("Find the mean {noun} of the {s}.",),
        "test": ("Compute how high the {noun} of the {s} is on average.",),
    },
    "per": {
        "train": (
            "For [each|every] {group}, how many {s} are there? [Give|Show|Return|Print|Report] the {group} and the "
            "number.",
            "How many {s} [does each {group} have|are there for each {group}|belong to each {group}|fall under each "
            "{group}|go with each {group}]? [Give|Show|Return|Print|Report] the {group} and the number.",
            "[Break down|Split|Group|Divide|Sort|Classify|Separate] the {s} by {group}[ and count them|]. [Show|"
            "Return|Give|Print] {group} and count.",
            "[Show|Return|Print|Tabulate|Report|Give me|Display] [each|every] {group} [and|together with|along "
            "with] [how many {s} it has|its number of {s}|the number of {s}].",
            "[I need|Show|Return|Give me|Print] two columns: the {group}, and how many {s} [there are for it|have "
            "it|go with it].",
            "For [each|every] {group} of the {s}, [show|return|give|print] that {group} and [how many there are|"
            "their number|the count].",
            "[Can|Could|Would|Will] you [please |]count the {s} for [each|every] {group}? [Show|Give|Return] the "
            "{group} and the [number|count].",
            "[I want|I would like|We want|My boss wants|The manager wants] to [know|see] how many {s} there are for "
            "[each|every] {group}. [Show|Give|Return] the {group} and the [number|count].",
            "How are the {s} [distributed|spread|divided|shared out] over the {group}? [Show|Return|Give] [each|"
            "every] {group} and its [number|count].",
            "[Make|Draw up|Prepare|Produce|Build] a table of the {s}: [one row for each {group}, with the {group} "
            "and the number|the {group} and how many there are].",
            "[Tally|Count] the {s} [separately |]for each {group}[ in turn|]; [show|return|print] the {group} and "
            "the [number|tally|count].",
            "Per {group}, [how many {s} are there|what is the number of {s}]? [Show|Return] both.",
            "The {s} [come|fall] into groups by {group}. How [large|big] is each[ group|]? [Show|Return|Give] the "
            "{group} and the [size|number].",
            "A [tally|breakdown|statistic|table] of the {s} by {group} is [wanted|needed|asked for]: the {group} "
            "and the [number|count].",
            "[Go through|Look through|Take] the {s} {group} by {group}: how many are there[ of each|]? [Show|Return|"
            "Give] the {group} and the number.",
        ),
        "valid": ("Count the {s} by {group}: {group} first, then the number.",),
        "test": ("List every {group} with its number of {s}.",),
    },
    "busiest": {
        "train": (
            "Which {parent} has [the most|the highest number of|the greatest number of|the largest count of] {s}?",
            "[Name|Show|Return|Tell me|I need|Find|Identify|Report|Look up|Print|Pick out] the {parent} [that has|"
            "with] [the most|the highest number of|the greatest number of|the greatest count of] {s}.",
            "Of all {parents}, which [one |]has [the most|the greatest number of|the highest count of] {s}?",
            "[Compare|Go through|Look through|Rank|Check|Scan|Examine] the {parents}: which one has the most {s}?",
            "The most {s} belong to which {parent}?",
            "[For|With] which {parent} [are there the most|do you find the most|do you count the most] {s}?",
            "[Can|Could|Would|Will] you [please |][tell me|find out|check|say|see] which {parent} has the most {s}?",
            "[I want|I would like|We want|My boss wants|A friend wants] to know which {parent} has the most {s}.",
            "[Do you know|Have you any idea|Any idea] which {parent} has the most {s}?",
            "[Count|Tally] the {s} of [each|every] {parent}. [Which has most?|Which one has the most?|Where do you "
            "get the highest number?|Name the one with the most.]",
            "[By|Going by] the number of {s}, which {parent} [is the biggest|comes first|is at the top|is in front|"
            "ranks highest|is number one]?",
            "[Find out|Work out|Check|Determine|Establish] which {parent} has the [most|greatest number of|highest "
            "number of] {s}.",
            "More {s} than any other {parent}: which {parent} [is that|has them]?",
            "Which {parent} has more {s} than [any other|all others|every other]?",
            "The {parent} with the most {s} is [wanted|needed|asked for]. [Which is it?|What is it called?]",
            "To which {parent} do [the most|the greatest number of] {s} belong?",
            "From the {parents}, [pick|choose|single out|select] the one with the most {s}.",
        ),
        "valid": ("Find the {parent} with the largest number of {s}.",),
        "test": ("Who or what among the {parents} leads in {s}?",),
    },
    "share": {
        "train": (
            "[What percentage|How many percent|What percent|Which percentage] of the {s} are {part}?",
            "[Tell me|Calculate|Work out|Return|Show|I need|Find|Compute|Determine|Report|State] the percentage of "
            "the {s} that are {part}.",
            "How [large|big|high] is the [share|part|portion|fraction|proportion] of {part} among the {s}, in "
            "percent?",
            "[In percent|As a percentage|In per cent|Expressed in percent], what [part|share|portion|fraction|"
            "proportion] of the {s} are {part}?",
            "[Out of|Taking] all {s}, what percentage are {part}?",
            "[How many in a hundred|How many out of a hundred] of the {s} are {part}?",
            "[Can|Could|Would|Will] you [please |][calculate|work out|tell me|compute|find] what percentage of the "
            "{s} are {part}?",
            "[I want|I would like|We want|My boss wants|The manager wants] to know what [percentage|share in "
            "percent] of the {s} are {part}.",
            "The [percentage|share in percent|proportion in percent] of {part} among the {s} is [wanted|needed|"
            "asked for].",
            "[Count|Tally] the {s} and [those|the ones] that are {part}. What percentage [is that]?",
            "[Take|Consider|Look at] the {s}: [what percentage|how many percent] of them are {part}?",
            "What is the [rate|quota|share|proportion|fraction] of {part} among the {s}, [in percent|as a "
            "percentage]?",
            "[If|When] all {s} [make|are|count as] 100 percent, how many percent are {part}?",
            "[Express|Give|State|Report] the [share|proportion|fraction] of {part} among the {s} [as a percentage|"
            "in percent].",
            "[Do you know|Have you any idea|Any idea] what percentage of the {s} are {part}?",
            "[Find out|Work out|Determine|Establish|Check] how many percent of the {s} are {part}.",
        ),
        "valid": ("Find the percentage of {part} among the {s}.",),
        "test": ("Of the {s}, give the percentage that are {part}.",),
    },
    "above": {
        "train": (
            "Which of the {s} have more than the average {noun} of all {many}?",
            "[Name|Show|Return|Print|Tell me|Identify|Report|Give me|Pick out|Look up|Write down] the {s} whose "
            "{noun} is [above|larger than|greater than|higher than|more than|bigger than] the average of all {many}.",
            "Which [of the |]{s} [lie above|are above|beat|top|surpass|outdo|go beyond|pass] the average {noun} of "
            "all {many}?",
            "[Take|Work out|Calculate|Compute|Determine] the average {noun} of all {many}. Which of the {s} [are "
            "above it|lie above it|lie higher|beat it|are higher]?",
            "[Show|Return|I need|Give me|Print|Name] those of the {s} that [have more than|lie above|are above|beat|"
            "surpass] the average {noun} of all {many}.",
            "[Can|Could|Would|Will] you [please |][name|show me|tell me|give me|pick out] those of the {s} whose "
            "{noun} is [above|higher than|larger than] the average of all {many}?",
            "[I want|I would like|We want|My boss wants|A friend wants] to know which of the {s} [are above|lie "
            "above|beat] the average {noun} of all {many}.",
            "[Compare|Check] the {noun} of the {s} with the average of all {many}. Which [ones |]are [higher|above "
            "it|larger]?",
            "[Taking|With] the average {noun} of all {many} as a [yardstick|measure|limit|bar], which of the {s} "
            "are above it?",
            "Which of the {s} show a {noun} that is [higher|greater|larger] than [what all {many} have on average|"
            "the mean of all {many}]?",
            "[Do you know|Have you any idea] which of the {s} [are above|lie above] the [mean|average] {noun} of "
            "all {many}?",
            "The average {noun} of all {many} is the [limit|bar|line|mark]. Which of the {s} [are above|lie over|"
            "pass|clear] it?",
            "[Find out|Determine|Check|Work out] which of the {s} [are above|lie above|surpass] the [mean|average] "
            "{noun} of all {many}.",
            "[Above|Over] the average {noun} of all {many}: which of the {s} [are there|do you find]?",
            "Whose {noun} among the {s} is [above|higher than|greater than] the [mean|average] of all {many}?",
        ),
        "valid": ("List the {s} that exceed the mean {noun} of all {many}.",),
        "test": ("Find the {s} with a {noun} over the average of all {many}.",),
    },
    "without": {
        "train": (
            "Which {parents} [have no|do not have any|are without|go without|lack|have not got any] {s}?",
            "[Name|Show|Return|Print|Tell me|Give me|Identify|Report|Write down|Look up] [all |the |]{parents} that "
            "[have no|do not have any|are without|lack] {s}.",
            "For which {parents} [are there no|do you find no|does the database hold no|are there not any] {s}?",
            "Which {parents} [remain|are left|stay] when [all|those] with {s} are [left out|taken away|dropped|"
            "removed|set aside|crossed out]?",
            "[Leave out|Drop|Remove|Set aside|Cross out|Ignore|Take away] the {parents} that have {s}. [Which ones "
            "remain|Which are left|What is left]?",
            "[I need|Show|Return|Give me|Print] the {parents} for which [no {s} are on record|the data has no {s}|"
            "no {s} exist|no {s} are stored].",
            "[Can|Could|Would|Will] you [please |][name|show me|tell me|give me|pick out] the {parents} that [have "
            "no|do not have any|lack] {s}?",
            "[I want|I would like|We want|My boss wants|The manager wants] to know which {parents} [have no|do not "
            "have any|lack] {s}.",
            "Not all {parents} have {s}. Which [ones |][have none|do not|are without them|lack them]?",
            "[Some|Certain] {parents} [have no|are without|lack] {s}. [Which ones?|Which are they?|Name them.]",
            "[Do you know|Have you any idea|Any idea] which {parents} [have no|do not have any] {s}?",
            "[Find out|Determine|Check|Work out] which {parents} [have no|do not have any|are without] {s}.",
            "To which {parents} do no {s} belong?",
            "Which {parents} [have not a single one of the|count none of the] {s}?",
            "[Go through|Look through|Check|Scan] the {parents}: which [ones |]have no {s}?",
            "The {parents} [without|that lack] {s} are [wanted|needed|asked for]. [Which are they?|Name them.]",
            "With which {parents} do you find no {s}?",
            "Which {parents} do not [appear|turn up|occur] with any {s}?",
        ),
        "valid": ("List all {parents} without any {s}.",),
        "test": ("Find the {parents} for which there are no {s}.",),
    },
    "several": {
        "train": (
            "Which {parents} have [at least {k}|{k} or more|not less than {k}|a minimum of {k}] {s}?",
            "[Name|Show|Return|Print|Tell me|Give me|Identify|Report|Write down|Look up|Pick out] [all |the |"
            "]{parents} [that have|with|which have] [{k} or more|at least {k}|a minimum of {k}] {s}.",
            "Which {parents} [come to|reach|count|have got] [at least {k}|{k} or more] {s}?",
            "For which {parents} [do you find|are there|do you count] [{k} or more|at least {k}] {s}?",
            "[Count the {s}.|Look at the {s}.|Take the {s}.] Which {parents} have [at least {k}|{k} or more] of "
            "them?",
            "[I need|Show|Return|Give me] the {parents} [having|that come to] [{k} {s} or more|at least {k} {s}].",
            "[Can|Could|Would|Will] you [please |][name|show me|tell me|give me|pick out] the {parents} that have "
            "[at least {k}|{k} or more] {s}?",
            "[I want|I would like|We want|My boss wants|The manager wants] to know which {parents} have [at least "
            "{k}|{k} or more] {s}.",
            "[Do you know|Have you any idea|Any idea] which {parents} have [at least {k}|{k} or more] {s}?",
            "[Find out|Determine|Check|Work out] which {parents} have [at least {k}|{k} or more] {s}.",
            "[Go through|Look through|Check|Scan] the {parents}: which [ones |]have [at least {k}|{k} or more] {s}?",
            "[Leave out|Drop|Ignore|Set aside] {parents} with [fewer than|less than] {k} {s}. [Which ones remain?|"
            "Which are left?]",
            "To which {parents} do [at least {k}|{k} or more] {s} belong?",
            "The {parents} [with|that have] [at least {k}|{k} or more] {s} are [wanted|needed|asked for]. [Which "
            "are they?|Name them.]",
            "[{k} or more|At least {k}] {s}: which {parents} [have that many|reach that|come to that]?",
            "Which {parents} have [{k}, if not more,|{k} or even more] {s}?",
            "With which {parents} do you find [at least {k}|{k} or more] {s}?",
            "[Some|Certain] {parents} have [at least {k}|{k} or more] {s}. [Which ones?|Which are they?|Name them.]",
        ),
        "valid": ("List all {parents} with no fewer than {k} {s}.",),
        "test": ("Find the {parents} for which at least {k} {s} exist.",),
    },
}  # fmt: skip
"""Wordings of each kind of question by split; those of the train split are grammars."""
NOTES: Mapping[str, str] = {
    "train": (
        "[[By|With] {term} {plural} [we mean|I mean] [{plural}|those] {over}.|{Plural} {over} are called "
        "{term}.|[Here, {term}|In this question, {term}|In this database, {term}|{Term}] means {over}.|[Call|We call] "
        "{plural} {over} {term}.|[Here|In this case], {term} {plural} are [those|the ones] {over}.|[The word "
        "{term}|{Term}] stands for {plural} {over}.]"
    ),
    "valid": "{Term} {plural} are {plural} {over}.",
    "test": "{Term} {plural} are {plural} {over}.",
}
"""Definitions of an adjective in the question by split."""
KINDS = {
    "easy": ("count", "names", "lookup", "extreme"),
    "medium": ("count", "names", "extreme", "average", "per"),
    "hard": ("count", "busiest", "share", "above", "without", "several"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer."""

    kind: str
    words: str
    sql: str
    tie: str
    """A statement whose two rows must differ so that the answer is unique; empty if it always is."""
    looks: tuple[tuple[str, str], ...]
    """Tables and columns that the statement compares with a word."""
    looked_up: tuple[str, ...]
    """What each look is about, with the value that the question names: `role keeper`."""
    tables: tuple[str, ...]
    """What the question calls a table, and its name: `players = squad`."""
    meaning: tuple[str, ...]
    """Phrases of the question and what the statement says for them: `role keeper: role = 'KEE'`."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on the rows of one table."""

    level: int
    kind: str
    words: str
    sql: str
    about: str
    """What the question says of the column and its value."""
    note: str = ""
    """Definition of a word in the question."""


class _QuestionBuilder:
    """Draws conditions that one row, the witness, satisfies, so that the result is not empty."""

    def __init__(
        self, layout: Layout, rows: Rows, rng: Rng, level: int, difficulty: str, kind: str, split: str
    ) -> None:
        self.layout, self.rows, self.rng, self.level, self.difficulty = layout, rows, rng, level, difficulty
        self.kind, self.split = kind, split
        self.entity, self.names = layout.domain.entities[level], layout.names[level]
        self.parent = layout.domain.entities[level - 1]
        """What the previous table holds; meaningless in the first."""
        self.conditions: list[_Condition] = []
        self.witness: dict[int, Row] = {level: rng.choice(rows[level])}
        for above in range(level - 1, -1, -1):
            link = self.cell(above + 1, layout.names[above + 1].link)
            self.witness[above] = rows[above][int(str(link)) - 1]

    def column(self, level: int, name: str) -> str:
        """Return a column with its table."""
        return f"{self.layout.names[level].table}.{name}"

    @property
    def label(self) -> str:
        """The column with the rows' names."""
        return self.column(self.level, self.names.label)

    @property
    def amount(self) -> str:
        """The column with the rows' amounts."""
        return self.column(self.level, self.names.amount)

    @property
    def parent_label(self) -> str:
        """The column with the names of the previous table's rows."""
        return self.column(self.level - 1, self.layout.names[self.level - 1].label)

    def cell(self, level: int, name: str) -> object:
        """Return the witness's value."""
        return self.witness[level][self.layout.names[level].columns().index(name)]

    def add(self, level: int, kind: str) -> None:
        """Add a condition of a kind: `choice`, `amount` or `label`."""
        self.conditions.append({"choice": self._choice, "amount": self._amount, "label": self._label}[kind](level))

    def _choice(self, level: int) -> _Condition:
        names, choice = self.layout.names[level], self.layout.domain.entities[level].choice
        stored = self.cell(level, names.choice)
        value = next(word for word, text in names.stored.items() if text == stored)
        phrase = expand(self.rng, choice.which).format(value, noun=choice.noun)
        sql = f"{self.column(level, names.choice)} = '{stored}'"
        return _Condition(level, "choice", phrase, sql, f"{choice.noun} {value}")

    def _label(self, level: int) -> _Condition:
        names = self.layout.names[level]
        label = str(self.cell(level, names.label))
        column = self.column(level, names.label)  # with the table, which the question may not name
        return _Condition(level, "label", label, f"{column} = '{label}'", label)

    def _amount(self, level: int) -> _Condition:
        names, entity = self.layout.names[level], self.layout.domain.entities[level]
        place = names.columns().index(names.amount)
        values = sorted(int(row[place] or 0) for row in self.rows[level])
        bound = values[len(values) * (3 + self.rng.below(4)) // 10]
        column, over = self.column(level, names.amount), int(self.witness[level][place] or 0) > bound
        named = self.difficulty != "easy" and over and self.rng.below(5) < 2
        phrase = self.amount_phrase(level, bound if over else bound + 1, over=over)
        if not named:
            sql = f"{column} > {bound}" if over else f"{column} < {bound + 1}"
            return _Condition(level, "amount", phrase, sql, phrase)
        term, plural = entity.amount.term, entity.plural
        note = expand(self.rng, NOTES[self.split]).format(
            term=term, Term=term.capitalize(), plural=plural, Plural=plural.capitalize(), over=phrase
        )
        return _Condition(level, "term", term, f"{column} > {bound}", term, note)

    def amount_phrase(self, level: int, bound: int, *, over: bool = True) -> str:
        """Return a comparison with a number in words."""
        amount = self.layout.domain.entities[level].amount
        return expand(self.rng, amount.over if over else amount.under).format(bound, units=amount.units)

    def phrase(self, level: int | None = None) -> str:
        """Return the rows that satisfy the conditions, in words."""
        level = self.level if level is None else level
        entity = self.layout.domain.entities[level]
        words = {condition.kind: condition.words for condition in self.conditions if condition.level == level}
        if "label" in words:
            return words["label"]
        phrase = [words.get("term", ""), entity.plural, words.get("choice", ""), words.get("amount", "")]
        if any(condition.level < level for condition in self.conditions):
            phrase += [entity.of, self.phrase(level - 1)]
        return " ".join(filter(None, phrase))

    def source(self, also: int | None = None) -> str:
        """Return FROM with the joins that the conditions need, down to the table `also`."""
        lowest = min(
            [self.level, *(condition.level for condition in self.conditions), *([] if also is None else [also])]
        )
        text = f"FROM {self.names.table}"
        for level in range(self.level, lowest, -1):
            above, link = self.layout.names[level - 1].table, self.layout.names[level].link
            text += f" JOIN {above} ON {above}.id = {self.column(level, link)}"
        return text

    def where(self, *more: str) -> str:
        """Return WHERE with all conditions."""
        conditions = [*(condition.sql for condition in self.conditions), *more]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def grouped_by_parent(self) -> str:
        """Return FROM, WHERE and GROUP BY for rows grouped by their row in the previous table."""
        parent = self.level - 1
        return f"{self.source(parent)}{self.where()} GROUP BY {self.column(parent, 'id')}"

    def question(self, sql: str, *asked: str, tie: str = "", **fields: object) -> Question:
        """Return the question in a wording of the split; `asked` is what it asks for, with the columns."""
        entity, names = self.entity, self.names
        wording = expand(self.rng, self.rng.choice(WORDINGS[self.kind][self.split]))
        most = expand(self.rng, entity.amount.most).format(units=entity.amount.units)
        text = wording.format(
            **{"s": self.phrase(), "label": names.label, "one": entity.singular, "many": entity.plural,
               "noun": entity.amount.noun, "most": most, **fields}
        )  # fmt: skip
        text = f"{text[0].upper()}{text[1:]}"
        notes = [condition.note for condition in self.conditions if condition.note]
        meaning = [f"{condition.about}: {condition.sql}" for condition in self.conditions]
        if " JOIN " not in sql and "NOT IN" not in sql:  # a single table
            sql, tie, *meaning = (part.replace(f"{names.table}.", "") for part in (sql, tie, *meaning))
        compared = [condition for condition in self.conditions if condition.kind == "choice"]
        places = [self.layout.names[condition.level] for condition in compared]
        return Question(
            self.kind,
            " ".join([text, *notes]),
            sql,
            tie,
            tuple((table.table, table.choice) for table in places),
            tuple(condition.about for condition in compared),
            self._tables(text),
            (*asked, *meaning),
        )

    def _tables(self, text: str) -> tuple[str, ...]:
        """The tables that the question names, from its own one upwards."""
        tables, text = [], text.lower()
        for level in range(self.level, -1, -1):
            entity, names = self.layout.domain.entities[level], self.layout.names[level]
            word = entity.plural if entity.plural in text else entity.singular
            if word in text:
                tables.append(f"{word} = {names.table}")
        return tuple(tables)


def draw_question(layout: Layout, rows: Rows, rng: Rng, split: str, difficulty: str) -> Question:
    """Draw a question; the caller checks that it has a good answer."""
    kind = rng.choice(KINDS[difficulty])
    level = _draw_level(kind, rng, difficulty)
    builder = _QuestionBuilder(layout, rows, rng, level, difficulty, kind, split)
    _add_conditions(builder, kind, difficulty)
    return _KINDS[kind](builder)


def _draw_level(kind: str, rng: Rng, difficulty: str) -> int:
    """The table of a question; one with labels if the question asks for them."""
    if kind == "lookup":
        return rng.below(2)
    if kind in ("names", "extreme", "above"):
        return rng.below(2) if difficulty == "easy" else 1
    if kind == "count" and difficulty == "hard":
        return 2
    return rng.below(3) if difficulty == "easy" else 1 + rng.below(2)


def _add_conditions(builder: _QuestionBuilder, kind: str, difficulty: str) -> None:
    rng, level = builder.rng, builder.level
    own_kinds = ["choice", "amount"]
    if kind == "lookup":
        return
    if difficulty == "easy":
        builder.add(level, "choice" if kind == "extreme" else rng.choice(own_kinds))
    elif difficulty == "medium":
        builder.add(level - 1, rng.choice(["choice", "amount", "label"]))
        if kind in ("count", "names", "average"):
            builder.add(level, rng.choice(own_kinds))
    elif kind == "count":
        builder.add(2, rng.choice(own_kinds))
        builder.add(1, rng.choice(own_kinds))
        builder.add(0, rng.choice([*own_kinds, "label"]))
    elif kind in ("share", "above"):
        builder.add(level - 1, rng.choice(own_kinds))
    else:
        builder.add(level, rng.choice(own_kinds))


def _count(builder: _QuestionBuilder) -> Question:
    return builder.question(f"SELECT COUNT(*) {builder.source()}{builder.where()}", "how many: COUNT(*)")


def _names(builder: _QuestionBuilder) -> Question:
    asked = f"which: {builder.names.label}"
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where()}", asked)


def _lookup(builder: _QuestionBuilder) -> Question:
    names, entity = builder.names, builder.entity
    noun, column = builder.rng.choice([(entity.amount.noun, names.amount), (entity.choice.noun, names.choice)])
    label = str(builder.cell(builder.level, names.label))
    sql = f"SELECT {column} {builder.source()} WHERE {names.label} = '{label}'"
    asked = (f"{noun}: {column}", f"{label}: {names.label} = '{label}'")
    return builder.question(sql, *asked, noun=noun, label=label, label_column=names.label)


def _extreme(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.source()}{builder.where()} ORDER BY {builder.amount} DESC LIMIT"
    asked = (f"which: {builder.names.label}", f"most {builder.entity.amount.noun}: {builder.names.amount}")
    return builder.question(f"SELECT {builder.label} {rest} 1", *asked, tie=f"SELECT {builder.amount} {rest} 2")


def _average(builder: _QuestionBuilder) -> Question:
    asked = f"{builder.entity.amount.noun}: {builder.names.amount}"
    return builder.question(f"SELECT AVG({builder.amount}) {builder.source()}{builder.where()}", asked)


def _per(builder: _QuestionBuilder) -> Question:
    group = builder.column(builder.level, builder.names.choice)
    sql = f"SELECT {group}, COUNT(*) {builder.source()}{builder.where()} GROUP BY {group}"
    group_noun = builder.entity.choice.noun
    return builder.question(sql, f"{group_noun}: {builder.names.choice}", group=group_noun)


def _busiest(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.grouped_by_parent()} ORDER BY COUNT(*) DESC LIMIT"
    sql, tie = f"SELECT {builder.parent_label} {rest} 1", f"SELECT COUNT(*) {rest} 2"
    return builder.question(sql, tie=tie, parent=builder.parent.singular, parents=builder.parent.plural)


def _share(builder: _QuestionBuilder) -> Question:
    entity, names = builder.entity, builder.names
    place = names.columns().index(names.amount)
    bound = builder.rng.choice(sorted(int(row[place] or 0) for row in builder.rows[builder.level])[2:-2])
    sql = f"SELECT 100.0 * SUM({builder.amount} > {bound}) / COUNT(*) {builder.source()}{builder.where()}"
    over = builder.amount_phrase(builder.level, bound)
    return builder.question(sql, f"{over}: {names.amount} > {bound}", part=f"{entity.plural} {over}")


def _above(builder: _QuestionBuilder) -> Question:
    above_average = f"{builder.amount} > (SELECT AVG({builder.names.amount}) FROM {builder.names.table})"
    asked = f"{builder.entity.amount.noun}: {builder.names.amount}"
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where(above_average)}", asked)


def _without(builder: _QuestionBuilder) -> Question:
    parent, table = builder.layout.names[builder.level - 1], builder.names.table
    inner = f"SELECT {builder.names.link} {builder.source()}{builder.where()}".replace(f"{table}.", "")
    sql = f"SELECT {parent.label} FROM {parent.table} WHERE id NOT IN ({inner})"
    return builder.question(sql, parents=builder.parent.plural)


def _several(builder: _QuestionBuilder) -> Question:
    least = 2 + builder.rng.below(2)
    sql = f"SELECT {builder.parent_label} {builder.grouped_by_parent()} HAVING COUNT(*) >= {least}"
    return builder.question(sql, parents=builder.parent.plural, k=least)


_KINDS: Mapping[str, Callable[[_QuestionBuilder], Question]] = {
    "count": _count,
    "names": _names,
    "lookup": _lookup,
    "extreme": _extreme,
    "average": _average,
    "per": _per,
    "busiest": _busiest,
    "share": _share,
    "above": _above,
    "without": _without,
    "several": _several,
}
