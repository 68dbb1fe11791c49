"""The wordings of training requests, as grammars (see `agentgym_py.env.wording.expand`).

`{what}` is one task's title or several tasks, so sentences avoid verbs and pronouns that depend on its number.
"""

from __future__ import annotations

from collections.abc import Mapping

Grammars = tuple[str, ...]

_LEAD = (
    "[|please |[kindly |I would like you to |I want you to |I need you to |remember to |make sure to |do not forget "
    "to |go ahead and |be so kind as to |your job is to |you should |try to ]]"
)
_ANY_LEAD = (
    "[|please |[kindly |I would like you to |I want you to |I need you to |remember to |make sure to |do not forget "
    "to |go ahead and |it is time to |we have to |we need to |I need to |I want to |I'd like to |you may |you can "
    "now |be so kind as to |your job is to |you should ]]"
)


def _asked(*acts: str, lead: str = _ANY_LEAD) -> Grammars:
    """Return grammars that ask for an act, in three of four as a command."""
    return tuple(
        f"[{lead}{act}.|{lead}{act}.|{lead}{act}.|[can|could|would|will] you {act}[, please|]?]" for act in acts
    )


DO: Mapping[str, Grammars] = {
    "complete": (
        *_asked(
            "mark {what} as [done|completed|finished|complete|accomplished]",
            "[tick|cross|strike] off {what}",
            "[complete|close|close out|finish off|conclude|finalize|wrap up] {what}",
            "[put|set|place] a [tick|check mark|check] [against|next to|beside|behind] {what}",
            "[switch|change|turn] {what} to [done|completed|finished]",
            "[flag|count|record|log|register|enter|list|treat|report] {what} as [done|finished|completed]",
            "[change|switch|update|set] the [status|state] of {what} to [done|completed|finished]",
            "let {what} be [ticked|ticked off|checked off|crossed off|marked as done]",
        ),
        "[I|we|my sister|my brother|the team|our neighbour|the intern|Dad|Mum|Grandpa|my colleague|a friend|the "
        "boss] [did|completed|finished|got through|took care of|dealt with|saw to|handled|sorted out|managed] "
        "{what}[ today| yesterday| this morning| last night| at last| already|]: [tick that off|mark that as done|"
        "cross that off|check that off|set that to done].",
        "[I|we] have [done|completed|finished|taken care of|dealt with|seen to|handled|sorted out] {what}[, so tick "
        "that off|: please mark that|].",
        "[done|finished|completed|accomplished|ready|taken care of|dealt with]: {what}.",
        "{what}: [done|completed|finished|all done|tick off|mark as done|cross off|check off|done at last|over and "
        "done with|mission accomplished|job done].",
        "[I am|We are|The team is|My wife is|My husband is|Everybody is] [done|finished|through] with {what}[: tick "
        "that off|, so check that off|].",
        "{what} can [now |]be [ticked off|marked as done|crossed off|checked off|closed|set to done|counted as "
        "finished].",
        "[there is nothing left to do about|no work is left on|all the work has been done on] {what}: [tick that "
        "off|mark that as done|check that off].",
        "{what} [got done|got finished] [today|yesterday|this morning|last night|at last|over the weekend|without "
        "trouble]: [mark it so|tick that off].",
        "[good news|great news|hooray|finally|you will like this]: {what}, [all |][done|finished|completed]!",
        "{what} [gave no trouble|went well|went fine|took an hour] and got done: [tick that off|mark that as done].",
        "[as to|as for|concerning|regarding] {what}: [all done, tick that off|finished, mark that as done|that is "
        "done, cross it off the open list].",
    ),
    "due": (
        *_asked(
            "[move|shift|reschedule|change|switch|bring|transfer] {what} to {when}",
            "[set|change|move|shift|switch|adjust|fix|alter] the [due date|deadline|due day|target date] [of|for] "
            "{what} to {when}",
            "[reschedule|schedule|plan|book|time|fix|slate|pencil in|earmark|set] {what} for {when}",
            "make {what} due {on}",
            "make {when} the [due date|deadline|due day] [of|for] {what}",
            "[give|assign to] {what} the [due date|deadline|due day] {when}",
            "[put|enter|write|note|record|choose|pick|use|take] {when} as the [due date|deadline|due day] [of|for] "
            "{what}",
            "let {what} be due {on}",
            "[put|place|enter] {what} [down |]for {when}",
        ),
        "[I want|We want|I would like|My boss wants|The customer wants|They want|I need|We need|My wife wants] "
        "{what} due {on}.",
        "the [due date|deadline|due day] [of|for] {what} [moves to|changes to|must change to|becomes|is now|should "
        "be|has to be|shall be|will be] {when}.",
        "{what}: [due {on}|move to {when}|set the due date to {when}|reschedule to {when}|new deadline {when}|plan "
        "for {when}|due date {when}|not due until {when}].",
        "{what} [should|must|shall|will|can|ought to] be due {on}.",
        "{what} [should|must|shall|can] [have|get] the [due date|deadline|due day] {when}.",
        "[I will|We will|I can|We can|Jana will|my brother will|the team will] [do|get to|deal with|take care of|"
        "see to|handle|work on|tackle|attend to] {what} {on}: [change the due date|set the due date to that day|"
        "make that the deadline|reschedule accordingly].",
        "{when} [is|shall be|should be|becomes|will be] the [new due date|due date|deadline] [of|for] {what}.",
        "[new due date|due date|deadline|due day] [of|for] {what}: {when}.",
        "{when} suits me [better|best] for {what}: [make that the due date|set that as the due date|reschedule].",
        "[as to|as for|concerning|regarding] {what}: [the due date should be|the deadline is now|please set the due "
        "date to|the new date is] {when}.",
        "{what} [can|shall|should|must] be [set|scheduled|planned|booked|rescheduled|slated] for {when}.",
        "[plans have changed|our plans changed|I changed my mind|there is a new plan]: {what} [should|must|will|"
        "shall] be due {on}.",
    ),
    "postpone": (
        *_asked(
            "[postpone|delay|defer|hold back] {what} by {days}, [counted from|on top of|starting from] the [present|"
            "current|old] [due date|deadline]",
            "[push {what} back|put {what} off|put {what} back|set {what} back|postpone {what}|delay {what}|defer "
            "{what}|hold {what} up] by {days}",
            "[move|shift|push|place|slide|set] {what} {days} [later|later than the due date says|further into the "
            "future|on from the present due date]",
            "add {days} to the [due date|deadline] [of|for] {what}",
            "[extend|push back|postpone|delay|put off|prolong|stretch] the [due date|deadline] [of|for] {what} by "
            "{days}",
            "[give|allow|grant] {what} {days} [more|extra|of extra time|beyond the present due date]",
            "let {what} [slip|slide|be delayed|be put off] by {days}",
            "[move|shift|push] the [due date|deadline] [of|for] {what} {days} [later|back|into the future|after the "
            "present one]",
        ),
        "let the [due date|deadline] [of|for] {what} be {days} later[ than now| than it is|].",
        "{what}: [{days} later|postpone by {days}|push back by {days}|due date plus {days}|put off by {days}|delay "
        "by {days}|extend the deadline by {days}|a delay of {days}|{days} more].",
        "[I need|We need|I want|We want|The team needs|My colleague asks for|The builders want|Grandma needs|Karl "
        "asks for] {days} [more|longer|extra] for {what}: [move the due date|extend the deadline|postpone "
        "accordingly|shift the due date].",
        "{what} can be [postponed|put off|pushed back|delayed|deferred] by {days}.",
        "{what} can wait {days} [more|longer|after the present due date]: [change the due date|move the due date|"
        "shift the deadline].",
        "the [due date|deadline] [of|for] {what} [should be|must be|can be|is to be] {days} later[ than now|].",
        "{days} [later|more|longer|of delay]: that is what I [want|need|would like] for {what}.",
        "[we are|I am|the team is|everybody is] [running late|late|behind] by {days}, so [postpone|delay|push back|"
        "put off] {what} by as much.",
        "{what} [should|must|will] [come|fall] due {days} later than [planned|now|the due date says].",
        "[as to|as for|concerning|regarding] {what}: [move the due date {days} later|postpone by {days}|put off by "
        "{days}|delay by {days}].",
        "[too much to do|the week is too short|I am ill|we are busy|the shop is closed], so [postpone|delay|push "
        "back|put off|defer] {what} by {days}.",
    ),
    "undue": (
        *_asked(
            "[remove|delete|cancel|unset|clear|erase|drop|strip|wipe|cut|lift|withdraw|scrap] the [due date|"
            "deadline|due day] [of|from|for] {what}",
            "take the [due date|deadline|due day] [off|away from|out of] {what}",
            "[leave|keep|list|have] {what} without [any |a ][due date|deadline|due day]",
            "[free|rid|relieve|strip] {what} of the [due date|deadline]",
            "make {what} [undated|open-ended|free of any due date]",
            "let {what} have no [due date|deadline|due day] [any more|at all|from now on]",
            "[get rid of|do away with|drop|dispense with] the [due date|deadline] [on|of|for] {what}",
        ),
        "[I want|We want|I would like|The boss wants|My sister wants|I prefer] {what} without [any|a] [due date|"
        "deadline].",
        "{what}: [remove the due date|without a due date|delete the due date|take off the due date|no due date|no "
        "deadline any more|clear the date|undated|no deadline].",
        "{what} [should|must|shall|can] [have|get|be left with] no [due date|deadline] [any more|at all|from now on].",
        "no [due date|deadline] [any more|from now on|is needed|is wanted] [for|on] {what}.",
        "{what} can be done [whenever there is time|at any time|some day]: [remove|clear|delete|drop] the [due date|"
        "deadline].",
        "[there is|we are in|I am in] no [hurry|rush] [about|with] {what}, so [take away|remove|delete|clear] the "
        "[due date|deadline].",
        "the [due date|deadline] [of|for] {what} [can go|must go|should go|has to go|is off|falls away|is to be "
        "removed|no longer counts: remove it|was a mistake: delete it].",
        "[as to|as for|concerning|regarding] {what}: [the due date can go|no due date, please|remove the due date|"
        "drop the deadline].",
        "{what} [can|should|must|shall] [do|be] without a [due date|deadline] [from now on|in future].",
    ),
    "priority": (
        *_asked(
            "[set|change|switch|move|turn|adjust|put] the priority [of|for] {what} to {priority}",
            "[give|assign to|allot to|grant] {what} [the |]priority {priority}",
            "[change|set|switch] the priority to {priority} for {what}",
            "make it priority {priority} for {what}",
            "[put|place|set|rank|rate|grade|list|file|class|treat|mark|have] {what} at priority {priority}",
            "[make {priority} the|use {priority} as the|choose {priority} as the|enter {priority} as the|select "
            "{priority} as the] priority [of|for] {what}",
            "[move|shift|bring|switch|set|change] {what} to priority {priority}",
            "let {what} have [the |]priority {priority}",
            "[rank|rate|grade|mark|flag] {what} as [a matter of |]priority {priority}",
        ),
        "priority {priority}[, please,|] for {what}.",
        "[I want|We want|I would like|The boss wants|My mother wants|The customer wants|We need|Omar wants] {what} "
        "at priority {priority}.",
        "{what}: [priority {priority}|set to priority {priority}|p{priority}|set the priority to {priority}|new "
        "priority {priority}|make it priority {priority}|level {priority} of priority|change to p{priority}].",
        "{what} [should|must|shall|ought to|can] [have|get|be at|be given|be raised or lowered to] priority "
        "{priority}.",
        "the priority [of|for] {what} [is now|becomes|should be|must be|has to be|changes to|shall be|is to be] "
        "{priority}.",
        "[I think|we decided|we agreed|it was decided|my boss says|everybody thinks] that {what} [should|must] have "
        "priority {priority}: [set it so|change that|make it so].",
        "the [right|proper|best|correct|new] priority for {what} is {priority}.",
        "how [important|urgent] is this? Priority {priority} for {what}.",
        "[as to|as for|concerning|regarding] {what}: [priority {priority} from now on|priority {priority} it is|the "
        "priority should be {priority}].",
        "{what}[, as far as I am concerned,| from now on|] at priority {priority}[, please|].",
    ),
    "label": (
        *_asked(
            "[add|attach|apply|assign|stick|pin|fix|tie|append] the [label|tag] {label} to {what}",
            "[label|tag] {what} [with|as] {label}",
            "give {what} the [label|tag] {label}",
            "[mark|equip|provide|supply] {what} with the [label|tag] {label}",
            "[put|stick|place|set|hang] the [label|tag] {label} [on|onto] {what}",
            "[use|choose|apply|pick] [the label|the tag] {label} for {what}",
            "let {what} [have|carry|bear|wear|get] the [label|tag] {label}",
            '[put|place|stick] a [label|tag] on {what}, namely [{label}|"{label}"]',
            "[add|put|place|enter] {label} [to|among] the labels of {what}",
        ),
        "[I want|We want|I would like|I need|The boss wants|My colleague wants|We need] the [label|tag] {label} on "
        "{what}.",
        "{what}: [add|attach|apply|put on|stick on|assign] the [label|tag] {label}.",
        "[label|tag] {label}: [add|attach|apply|assign] it to {what}.",
        "{what}: [label|tag] {label}, please.",
        "{what} [should|must|can|shall|ought to] [have|carry|bear|get|be given] the [label|tag] {label}.",
        "{what} [should|must|can|shall] be [labelled|tagged] [with|as] {label}.",
        "the [label|tag] {label} [belongs on|is missing on|is missing from|should be on|must be on|goes on|fits|"
        "suits|is right for] {what}: [add|attach] it.",
        "[new|one more|another] [label|tag] for {what}: {label}.",
        "[under|by] the [label|tag] {label} [I|we] want to find {what}: [attach|add] it.",
        "[as to|as for|concerning|regarding] {what}: [add the label {label}|the label {label} should be added|I "
        "miss the label {label}, add it].",
    ),
    "unlabel": (
        *_asked(
            "[remove|detach|take away|peel|tear|erase|delete|drop|withdraw|clear|unpin] the [label|tag] {label} "
            "from {what}",
            "[take|peel|pull|strip|get] the [label|tag] {label} off {what}",
            "[strip|free|rid|relieve|clear] {what} of the [label|tag] {label}",
            "[unlabel|untag] {what}: {label} [must go|has to go|can go|should go]",
            "let {what} lose the [label|tag] {label}",
            "[leave|list|keep] {what} without the [label|tag] {label}",
            "[remove|delete|drop|erase|strike] {label} from the labels of {what}",
            "[get rid of|do away with] the [label|tag] {label} on {what}",
        ),
        "[I do not want|We do not want|I don't want|Nobody wants|Nobody needs|My boss doesn't want|We no longer "
        "need] the [label|tag] {label} on {what}[: remove it|: take it off|].",
        "{what}: [remove|detach|take off|delete|drop|clear] the [label|tag] {label}.",
        "[label|tag] {label}: [remove it from|take it off|delete it from|detach it from] {what}.",
        "{what} [should|must|shall] [no longer|not] [have|carry|bear|be under] the [label|tag] {label}[: remove it|"
        ": take it off].",
        "the [label|tag] {label} [is wrong on|does not belong on|must come off|has to come off|should come off|does "
        "not fit|does not suit|has no place on|was put by mistake on] {what}[: take it off|: remove it].",
        "no [label|tag] {label} [any more |any longer |]on {what}.",
        "{what} without the [label|tag] {label}: that is how [I|we] want it.",
        "[as to|as for|concerning|regarding] {what}: [remove the label {label}|the label {label} should come off|"
        "the label {label} is out of place, remove it].",
    ),
    "move": (
        *_asked(
            "[put|get|place|stick|slot|drop|sort] {what} into {place}",
            "[file|list|place|put|store|enter|group] {what} under {place}",
            "[move|shift|transfer|bring|carry|take|drag|pull|switch|reassign|send] {what} [over |across |]to {place}",
            "[bring|move|shift|drag|drop|take|fold] {what} into {place}",
            "[store|keep|place|put|house|shelve|have] {what} in {place} [instead|from now on]",
            "let {what} go [to|into] {place}",
            "[make {place} the|choose {place} as the|use {place} as the] [place|home|new home|location] [of|for] "
            "{what}",
            "hand {what} over to {place}",
        ),
        "{what}: [move to|put into|file under|to|over to|off to|into|belongs in|bring to|transfer to|shift to] "
        "{place}.",
        "{what} [should|must|shall|ought to|can] [go|move|be moved|be put|be filed|be placed|be sent] [into|to|"
        "under] {place}.",
        "{what} [should|must|shall|will|should rather] be in {place}[: move that there|: put that there|].",
        "[I want|We want|I would like|My boss wants|The team wants|My father wants|I need|I'd rather have] {what} "
        "in {place}.",
        "the [right|proper|correct|best|new|true] [place|home|spot] for {what} is {place}.",
        "{place} is [where|the place where] {what} [should|must|ought to] be[: move that there|].",
        "[into|to] {place} with {what}[, please|]!",
        "[into|to|under] {place} [I|we] want [you to |to ][move|put|bring|file] {what}.",
        "[as to|as for|concerning|regarding] {what}: [put that into|move that to|that goes to|that belongs in] "
        "{place}.",
        "[from now on|in future], {what} [should|must|shall] [stand|live|be kept|be found|be listed] in {place}: "
        "[move that there|put that there].",
    ),
    "delete": (
        *_asked(
            "[delete|trash|remove|bin|scrap|dump|erase|ditch|drop|junk|eliminate|toss out|throw out|chuck out] {what}",
            "[send|move|throw|drag|toss|carry|shift|banish] {what} [to|into] the [trash|bin|waste basket|rubbish bin]",
            "[put|place|drop|throw|chuck|stick] {what} [in|into] the [trash|bin|waste basket|rubbish]",
            "[get rid|dispose] of {what}",
            "do away with {what}: [into the trash|delete]",
            "[remove|delete|erase|wipe|strike|take] {what} from [the|my|our] list[ altogether| for good|, it is not "
            "needed| completely]",
            "[throw|toss|chuck|clear] {what} [away|out]",
            "let {what} [vanish|disappear|go] into the [trash|bin]",
        ),
        "{what}: [delete|to the trash|trash|get rid of that|remove|into the bin|away with that|not needed, delete|"
        "throw out|scrap that|discard|no use any more, delete].",
        "[nobody needs|we don't need|I don't need|I don't want|no one cares about|there is no point in] {what} [any "
        "more|any longer]: [delete that|throw that out|into the trash with it|remove that].",
        "{what} [must|should|can|shall] [be deleted|be thrown away|be removed|be discarded|go into the trash|go in "
        "the bin|land in the trash|disappear from the list].",
        "[I want|We want|I would like|My boss wants|My wife wants] {what} [deleted|gone from the list|thrown away|"
        "removed|out of the list|in the trash|in the bin].",
        "[away|off] with {what}: [delete that|into the trash|into the bin].",
        "[into the trash|in the bin|to the waste basket|out] with {what}!",
        "[I|we|somebody] [entered|added|wrote down|put in] {what} by mistake: [delete that|trash that|remove that].",
        "the trash is the [right |proper |best |]place for {what}.",
        "[as to|as for|concerning|regarding] {what}: [delete that|into the trash|that can go in the bin|throw that "
        "away|no longer needed, delete].",
        "[plans have changed|I changed my mind|it is too late now|the project changed], so [delete|trash|remove|bin|"
        "discard] {what}.",
    ),
    "comment": (
        *_asked(
            '[add|attach|append|pin|tie] the [comment|note|remark] "{text}" to {what}',
            '[comment|remark|note] "{text}" on {what}',
            '[write|put|enter|type|jot down|record|place|post] the [comment|note|remark] "{text}" [under|on|beside] '
            "{what}",
            '[write|put|leave|enter|type|jot down|add|post] "{text}" as a [comment|note|remark] [under|on|to|for] '
            "{what}",
            '[put|write|leave|make|post|drop|set down] a [comment|note|remark] on {what}: "{text}"',
            'give {what} the [comment|note|remark] "{text}"',
            'comment on {what} [that says|as follows|with these words|in these words]: "{text}"',
            '[use|take] "{text}" as a comment [for|on] {what}',
        ),
        "{what}: [comment|add the comment|add a comment that says|note down|remark|leave the comment|comment as "
        'follows:|write as a comment] "{text}".',
        '[comment|new comment|note|a remark] [for|on|about] {what}: "{text}".',
        '"{text}": [add|write|put|leave|attach|enter|post] that as a [comment|note|remark] [on|under|to] {what}.',
        '[I want|We want|I would like|I need|My colleague wants|The boss wants] the [comment|note|remark] "{text}" '
        "on {what}.",
        '{what} [should|must|can|shall] [have|get|carry|bear|be given] the [comment|note|remark] "{text}".',
        'there should be a [comment|note|remark] on {what} that [says|reads|goes] "{text}".',
        "[so that nobody forgets|for everybody to see|so that I remember|for the record|for later]: the comment "
        '"{text}" on {what}.',
        'people who open {what} should read this comment: "{text}".',
        "[as to|as for|concerning|regarding] {what}: [add the comment|leave a comment that says|write as a comment|"
        'note down] "{text}".',
    ),
    "uncomment": (
        *_asked(
            '[delete|cancel|wipe out|drop|withdraw|take back] the [comment|note|remark] "{text}" [from|on|under] '
            "{what}",
            '[remove|strike|clear|cut|scrap|discard] the [comment|note|remark] "{text}" [from|on|under] {what}',
            '[take|get|strip] the [comment|note|remark] "{text}" [off|away from] {what}',
            '[get rid of|do away with|throw out|throw away] the [comment|note|remark] "{text}" [on|under] {what}',
            'let the [comment|note|remark] "{text}" [vanish|disappear|go] from {what}',
            '[free|rid|clear] {what} of the [comment|note|remark] "{text}"',
            '[look for|find] "{text}" among the comments on {what} and [delete|remove|erase] it',
        ),
        '{what}: [delete|remove|take off|erase|drop|clear|cancel] the [comment|note|remark] "{text}".',
        'the [comment|note|remark] "{text}" on {what}: [delete it|remove it|take it off|erase it|it has to go|away '
        "with it].",
        'the [comment|note|remark] "{text}" on {what} [can go|must go|should go|has to go|is no longer true: delete '
        "it|is out of date: remove it|is wrong: delete it|was a mistake: erase it|helps nobody: remove it].",
        "[I do not want|We do not want|Nobody needs|I no longer need|My boss does not like] the [comment|note|"
        'remark] "{text}" on {what}: [delete it|remove it|take it off|erase it].',
        'on {what} [somebody|my sister|Colin|a colleague|my son] [left|wrote|put|added] the comment "{text}": '
        "[delete it|remove it|take it off|erase it].",
        'under {what} [stands|there is|you will find] the comment "{text}": [delete it|remove it|get rid of it].',
        '{what} [should|must] [not|no longer] have the comment "{text}": [delete it|remove it].',
    ),
    "rename": (
        *_asked(
            '[rename|retitle|change|rewrite|reword] {what} to "{title}"',
            '[change|set|switch|turn|correct|edit|alter|update|reword] the [title|name|wording] of {what} to "{title}"',
            '[call|name|title|entitle] {what} "{title}" [instead|from now on]',
            '[make "{title}" the|use "{title}" as the|choose "{title}" as the|take "{title}" as the] [new |]title '
            "of {what}",
            '[replace|exchange|swap] the [title|name|wording] of {what} [by|with|for] "{title}"',
            'give {what} the [title|name] "{title}"',
            'let {what} be [called|named|titled] "{title}" [instead|from now on]',
            'let {what} [read|say] "{title}" [instead|from now on]',
        ),
        "{what}: [rename [it |]to|change the title to|new title|new name|call it|the title becomes|should read|"
        'retitle it to] "{title}".',
        "{what} [should|must|shall|ought to] [be called|be named|be renamed to|be titled|read|have the title|get "
        'the title|bear the name] "{title}".',
        "{what} is [a bad title|the wrong title|not what I meant|badly worded|wrongly worded|misleading|no longer "
        'right]: [it should be|make it|change it to|rename it to|call it] "{title}".',
        '[I|we|my boss|my aunt|the team] [meant|wanted] "{title}" [when I wrote|and not|instead of] {what}: [rename '
        "it|change the title|correct the title].",
        '"{title}" [is the better|is the right|is the new|shall be the|should be the|must be the|will be the] '
        "[title|name] of {what}[: rename it|].",
        'the [title|name] of {what} [becomes|is now|should be|must be|changes to|has to be|shall be] "{title}".',
        '[new title|new name|another title|a better title|the right title] for {what}: "{title}".',
        "[as to|as for|concerning|regarding] {what}: [the title should be|change the title to|rename it to|a better "
        'title is] "{title}".',
    ),
    "repeat": (
        *_asked(
            "make {what} [repeat|recur|come back|return|come round] every {every}",
            "[let|have] {what} [come back|repeat|recur|come up|turn up|reappear] every {every}",
            "[schedule|program|arrange|plan] {what} to [repeat|recur|come back] every {every}",
            "repeat {what} every {every}",
            "[add|set|create|enter|use] a [repeat|repetition|recurrence] [for|on] {what}: every {every}",
            "[set|change|switch|turn|adjust] the [repeat|repetition|recurrence] of {what} to every {every}",
            "turn {what} into a [repeating|recurring|regular] task, every {every}",
            "put {what} on repeat, every {every}",
            "bring {what} back every {every}",
        ),
        "[I want|We want|I would like|I need|My boss wants|My mother wants|They want] {what} to [repeat|come back|"
        "recur|return|reappear] every {every}.",
        "{what}: [repeat every {every}|every {every}, as a repeat|set the repeat to every {every}|repeats every "
        "{every}|once every {every}|recurring, every {every}|again every {every}|make it repeat every {every}].",
        "{what} [should|must|shall|has to|will] [repeat|recur|come back|be repeated|return|come round|be done] "
        "every {every}[, again and again|].",
        "[I|we|they|you|people] [have to do|must do|do|take care of] {what} every {every}: [make it repeat|set the "
        "repeat|let it repeat].",
        "every {every} {what} [should|must|shall|will] [come back|repeat|be repeated|be due again|recur|turn up "
        "again].",
        "the [repeat|repetition] of {what} [is now|becomes|should be|must be|changes to|is to be] every {every}.",
        "once is not enough for {what}: [repeat it|let it come back|make it repeat] every {every}.",
        "every {every}, [repeatedly|again and again|as a repeat|without end]: {what}.",
        "[as to|as for|concerning|regarding] {what}: [make it repeat|let it come back|it should recur|it must be "
        "repeated] every {every}.",
        "[it is not enough to do|do not just do] {what} once: it [should|must] [repeat|come back] every {every}.",
    ),
    "stop": (
        *_asked(
            "[stop|keep|prevent|hold] {what} from [repeating|recurring|coming back]",
            "let {what} [repeat|recur|come back] no more",
            "[switch off|turn off|remove|cancel|delete|drop|clear|stop|erase|take out|undo|unset|disable] the "
            "[repeat|repetition|recurrence] [of|for|on] {what}",
            "[make|have] {what} stop [repeating|recurring|coming back]",
            "[make|have] {what} [happen|come up|be due] only once, without a repeat",
            "[leave|keep|list] {what} without a [repeat|repetition]",
            "take {what} off repeat",
            "[get rid of|do away with|put an end to] the [repeat|repetition] [of|for|on] {what}",
            "[free|rid] {what} of the [repeat|repetition]",
        ),
        "[I want|We want|I would like|My boss wants|My sister wants] {what} without a [repeat|repetition].",
        "{what}: [no more repeats|stop the repeat|remove the repeat|without a repeat|repeat off|no repetition any "
        "more|once and never again|cancel the repeat|do not repeat|only once, no repeat].",
        "{what} [should|must|shall|will|need] [not|no longer] [repeat|recur|come back|be repeated].",
        "the [repeat|repetition|recurrence] [of|for|on] {what} [must|should|can|has to|is to] [end|stop|go|be "
        "removed|be cancelled|be switched off].",
        "{what} [should|must|can|will] [stop|cease|quit] [repeating|recurring|coming back].",
        "[once is enough|a single time is enough|one more time is enough|no repeat is needed] for {what}: [remove "
        "the repeat|stop the repeat|switch off the repeat|cancel the repeat].",
        "[I|we|you] [need not|do not have to|no longer have to] do {what} again and again: [remove the repeat|stop "
        "the repeat|cancel the repeat].",
        "no [repeat|repetition|more repeats] for {what}.",
        "[as to|as for|concerning|regarding] {what}: [stop the repeat|no more repeats|remove the repetition|cancel "
        "the repeat].",
    ),
    "restore": (
        *_asked(
            "[bring|fetch|get|pull|take|call] {what} back from the [trash|bin|waste basket]",
            "[restore|recover|rescue|save|retrieve|revive|resurrect|reinstate] {what}[, which I deleted|, which is "
            "in the trash|, which was deleted|, which I threw away|]",
            "[get|pick|dig|pull] {what} out of the [trash|bin|waste basket|rubbish][ again|]",
            "take {what} [back |]out of the [trash|bin]",
            "[recover|rescue|save|retrieve|salvage|reclaim] {what} from the [trash|bin|waste basket]",
            "[undelete|reverse the deletion of|take back the deletion of] {what}",
            "put {what} back [on|onto] the list, [out of the trash|from the trash|which was deleted]",
            "let {what} [return|come back] from the [trash|bin]",
        ),
        "{what} [is in the trash|was deleted|went to the trash|landed in the bin|was thrown away|got deleted|ended "
        "up in the trash|was binned]: [restore it|bring it back|take it out|recover it|get it back|I still need it|"
        "we want it back|rescue it].",
        "[I|we|somebody|my son|the intern|Paula|my colleague] [deleted|threw away|trashed|binned|removed|threw out|"
        "discarded] {what} [by mistake|by accident|too soon|too early|without thinking|although it is needed]: "
        "[restore it|bring it back|get it back|recover it|undo that].",
        "[I|we] [want|need|would like|must have] {what} back[ from the trash| out of the bin|].",
        "{what}: [out of the trash|restore|back from the trash|bring back|undelete|recover|not to be deleted after "
        "all|rescue from the bin].",
        "{what} [should|must] not [stay|remain|lie|be] in the trash[: restore it|: bring it back|].",
        "{what} should never have been [deleted|thrown away|binned|trashed|removed][: restore it|: bring it back|].",
        "it was [wrong|a mistake|an error|too early] to [delete|throw away|bin|trash|discard] {what}: [restore it|"
        "bring it back|undo that].",
        "in the trash [there is|you find|lies] {what}: [restore it|take it out|bring it back|I want it back].",
        "[as to|as for|concerning|regarding] {what}: [restore it|bring it back from the trash|get it out of the bin|"
        "it should not have been deleted, undo that].",
        "[I still need|we still need|Omar still needs|I changed my mind about|the boss asked for] {what}, which [is "
        "in the trash|was deleted|I deleted|got thrown away]: [restore it|bring it back|get it out|recover it].",
    ),
    "reopen": (
        *_asked(
            "[reopen|reactivate|uncheck|untick] {what}[, which is not done after all|, which is not done yet|, "
            "which was ticked too early|, which I did not finish|]",
            "mark {what} as [not|not yet] [done|finished|completed]",
            "[mark|list|record|flag|count] {what} as [open|open again|undone|unfinished|still to do|still open|"
            "incomplete]",
            "put {what} back [among the open tasks|on the open list|among the things to do]",
            "[untick|uncheck] {what}",
            "make {what} [open again|undone|unfinished again]",
            "[take|remove|erase|delete|wipe] the [tick|check mark] from {what}",
            "[switch|turn|change] {what} back to [open|not done|undone|unfinished]",
            "[change|set|switch] the [status|state] of {what} [back |]to [open|not done|undone]",
            "open {what} [again|once more|anew|a second time]",
            "let {what} be open [again|once more]",
        ),
        "{what} is not [done|finished|completed|complete|over] [after all|yet|in fact|really|at all]: [reopen it|"
        "mark it so|untick it|make it open again|put it back among the open tasks|uncheck it].",
        "{what} [was|got] [ticked off|marked as done|checked off|crossed off|closed|completed] [by mistake|too "
        "early|too soon|by accident|wrongly]: [reopen it|untick it|uncheck it|undo that].",
        "[I|we|somebody|my brother|the intern|Karim|my colleague] [ticked off|marked as done|checked off|crossed "
        "off|closed] {what} [by mistake|too early|too soon|by accident|though it is not finished]: [reopen it|"
        "untick it|uncheck it|undo that].",
        "{what}: [reopen|not done yet|open again|untick|not finished after all|uncheck|still to do, reopen|back to "
        "open].",
        "{what} [has to|must|needs to|should] be [done again|open again|done once more|reopened|unticked|done "
        "better]: [reopen it|open it again].",
        "there is [still |]more to do [on|for|about] {what}, [which is ticked off|which counts as done]: [reopen it|"
        "open it again|untick it].",
        "[I|we] [thought|believed] {what} was [done|finished|over], but [it is not|no|that was wrong|far from it]: "
        "[reopen it|untick it|open it again].",
        "[as to|as for|concerning|regarding] {what}: [reopen it|that is not done yet, reopen it|untick it, there is "
        "more to do|make it open again].",
    ),
    "add": (
        *_asked(
            '[add|append] [the|a|one more|another] [task|item|entry|to-do] "{title}" to {place}{details}',
            "[create|make|insert|enter|set up|open|start|write down|note|record|put down] [a task|a new task|an "
            'item|an entry|a to-do] "{title}" in {place}{details}',
            '[put|slot|write|get|insert|place] [a new task|a task|an item|a new entry|a to-do] "{title}" into '
            "{place}{details}",
            '[create|make|enter|open] a task [called|named|titled|that reads|with the title] "{title}" in '
            "{place}{details}",
            '[add|write|note|put down|list|jot down] "{title}" as a [new |]task in {place}{details}',
            'file a new task under {place}: "{title}"{details}',
            'give {place} a new task[,|:] "{title}"{details}',
            'let there be a [new |]task "{title}" in {place}{details}',
        ),
        "[I need|We need|I want|We want|I would like|My boss wants|My wife wants|The team needs] [a task|a new task|"
        'an entry|a reminder|a to-do] "{title}" in {place}{details}.',
        '[new|another|one more] [task|item|entry|to-do] [for|in] {place}: "{title}"{details}.',
        'there should be [a task|a new task|an entry|an item|one more task] "{title}" in {place}{details}.',
        '[to be added|to add|please add] to {place}: "{title}"{details}.',
        "in {place}, [a task|a new task|an item|an entry|one more task] [is missing|is needed|should be added|must "
        'be added|is to be created]: "{title}"{details}.',
        "[we must not|don't let me|I must not] [forget|overlook|miss] this[, so add it|: add it|, so put it as a "
        'task] to {place}: "{title}"{details}.',
        '"{title}": [add|create|make|enter|insert|put|write] that [as a task|as a new task|as an entry] in '
        "{place}{details}.",
        '"{title}" is [a new task|still missing and to be added|something new to do|a new to-do|one more thing to '
        "do] in {place}{details}.",
        '{place}: [add|create|insert|enter] [a task |a new task |]"{title}"{details}.',
    ),
    "project": (
        *_asked(
            '[create|open|set up|found|establish|make|begin] [a|the|a new] project "{project}" with the sections '
            "{sections}, and [put|move|bring|place|file|drop|shift] {what} into {section}",
            '[start|launch|create|build|set up|add|open] a project "{project}" that [has|holds|contains|consists '
            "of] the sections {sections}, then [move|put|bring|transfer|take|shift|drag] {what} into {section}",
            '[create|make|add|start|set up] a project [called|named|titled|by the name of] "{project}", [divide|'
            "split|part] it into the sections {sections}, and [move|put|bring|file] {what} into {section}",
            '[put|move|bring|transfer] {what} into the section {section} of a new project "{project}", which [has|'
            "gets|shall have|needs] the sections {sections}",
        ),
        '[please |]add a project "{project}" with [two sections, {sections}|the sections {sections}]; then [put|'
        "move|file|list|place] {what} under [its section |the section |]{section}.",
        "[a new project is needed|we need a new project|I want a new project|a project is missing|the boss wants a "
        'new project|here comes a new project|it is time for a new project]: "{project}", with the sections '
        "{sections}. [Put|Move|Bring|Place|Transfer|File] {what} into [its section |the section |]{section}.",
        '[please |][make|create|open|set up] a [new |]project, "{project}", and in it the sections {sections}; [put|'
        "move|then bring|then place] {what} into [the section |]{section}.",
        '[new project|project to create|project to be set up]: "{project}". [Its sections|The sections in it|'
        "Sections]: {sections}. [Put|Move|Bring|Transfer] {what} into {section}.",
        '[there should be|I would like|we want|my family wants|the team needs|let there be] a project "{project}" '
        "[with two sections|divided into two sections|that has two sections], {sections}. [Move|Put|Bring|Place] "
        "{what} into {section}.",
        'a project "{project}" [has to|must|should] be [created|added|started|opened|set up], with the sections '
        "{sections}; {what} [should|must|shall] go into {section}.",
        "{what} [should|must|shall] [get a home|have a place] in the section {section} of a new project, "
        '"{project}". [Its sections are|Give it the sections|It has the sections] {sections}.',
    ),
    "rename project": (
        *_asked(
            '[rename|retitle|change] the project {old} to [{new}|"{new}"]',
            '[change|switch|alter|set|turn|edit] the [name|title] of the project {old} to [{new}|"{new}"]',
            '[call|name|title] the project {old} "{new}" [from now on|instead]',
            '[make "{new}" the|use "{new}" as the|choose "{new}" as the|take "{new}" as the] [new |]name of the '
            "project {old}",
            'give the project {old} the [new |]title [{new}|"{new}"]',
            '[replace|exchange|swap] the name of the project {old} [by|with|for] "{new}"',
            'let the project {old} [have|bear|carry|get] the name [{new}|"{new}"]',
            'let the project {old} be [called|named|known as] "{new}" [from now on|instead]',
        ),
        'the project {old} [becomes|changes into|turns into] "{new}": rename it.',
        "project {old}: [rename [it |]to|new name|change the name to|call it|to be renamed to|from now on] [{new}|"
        '"{new}"].',
        "the project {old} [should|must|shall|will|ought to] [be called|be named|be renamed to|have the name|bear "
        'the title|get the name] [{new}|"{new}"].',
        'the name of the project {old} [is now|becomes|should be|must be|changes to|shall be|has to be] "{new}"[: '
        "rename it|: change it|].",
        '"{new}" [is a better|is the right|is the new|shall be the|should be the] name for the project {old}[: '
        "rename it|: change it|].",
        "[I want|We want|I would like|My boss wants|Everybody wants|My family wants] the project {old} [renamed to|"
        'to be called|to have the name|to be named] "{new}".',
        "[I|We|People|My friends] [never liked|do not like|misunderstand|dislike] the name of the project {old}: "
        '[make it|change it to|rename it to] "{new}".',
        '[new name|another name|a better name] for the project {old}: [{new}|"{new}"].',
    ),
    "rename section": (
        *_asked(
            '[rename|retitle|change] the section {old} [of|in] [the project |]{project} to [{new}|"{new}"]',
            "[change|switch|alter|set|turn|edit] the [name|title] of the section {old} [of|in] [the project |"
            ']{project} to [{new}|"{new}"]',
            '[call|name|title] the section {old} of [the project |]{project} "{new}" [from now on|instead]',
            '[make "{new}" the|use "{new}" as the|choose "{new}" as the|take "{new}" as the] [new |]name of the '
            "section {old} [of|in] {project}",
            'give the section {old} in {project} the [new |][name|title] [{new}|"{new}"]',
            '[replace|exchange|swap] the name of the section {old} [of|in] {project} [by|with|for] "{new}"',
            'let the section {old} of {project} [have|bear|carry|get] the name [{new}|"{new}"]',
        ),
        'in [the project |]{project}, [please |][rename|retitle] the section {old} to [{new}|"{new}"].',
        'the section {old} of {project} [becomes|changes into|turns into] "{new}": rename it.',
        "section {old} [of|in] {project}: [rename [it |]to|new name|change the name to|call it|to be renamed to] "
        '[{new}|"{new}"].',
        "the section {old} [of|in] {project} [should|must|shall|will|ought to] [be called|be named|be renamed to|"
        'have the name|bear the title|get the name] [{new}|"{new}"].',
        "the name of the section {old} [of|in] {project} [is now|becomes|should be|must be|changes to|shall be|has "
        'to be] "{new}"[: rename it|: change it|].',
        '"{new}" [is a better|is the right|is the new|shall be the|should be the] name for the section {old} [of|'
        "in] {project}[: rename it|: change it|].",
        "[I want|We want|I would like|My boss wants|Everybody wants|My family wants] the section {old} [of|in] "
        '{project} [renamed to|to be called|to have the name|to be named] "{new}".',
        "[the project |]{project} has a section {old}: [rename it to|change its name to|call it|it should be "
        'called] "{new}"[ from now on|].',
        '[new name|another name|a better name] for the section {old} [of|in] {project}: [{new}|"{new}"].',
    ),
    "rename label": (
        *_asked(
            '[rename|retitle|change] the [label|tag] {old} to [{new}|"{new}"]',
            '[change|switch|alter|set|turn|edit] the [name|wording|text] of the [label|tag] {old} to [{new}|"{new}"]',
            '[call|name] the [label|tag] {old} "{new}" [from now on|instead]',
            '[make "{new}" the|use "{new}" as the|choose "{new}" as the|take "{new}" as the] [new |]name of the '
            "[label|tag] {old}",
            'give the tag {old} the [new |]name [{new}|"{new}"]',
            '[replace|exchange|swap] the name of the [label|tag] {old} [by|with|for] "{new}"',
            'let the [label|tag] {old} [have|bear|carry|get] the name [{new}|"{new}"]',
            'let the [label|tag] {old} be [called|named] "{new}" [from now on|instead]',
        ),
        'the [label|tag] {old} [becomes|changes into|turns into] "{new}": rename it.',
        '[label|tag] {old}: [rename [it |]to|new name|change the name to|call it|to be renamed to] [{new}|"{new}"].',
        "the [label|tag] {old} [should|must|shall|will|ought to] [be called|be named|be renamed to|have the name|"
        'get the name|read] [{new}|"{new}"].',
        "the name of the [label|tag] {old} [is now|becomes|should be|must be|changes to|shall be|has to be] "
        '"{new}"[: rename it|: change it|].',
        '"{new}" [is a better|is the right|is the new|shall be the|should be the] name for the [label|tag] {old}[: '
        "rename it|: change it|].",
        "[I want|We want|I would like|My boss wants|Everybody wants] the [label|tag] {old} [renamed to|to be called|"
        'to have the name|to be named] "{new}".',
        'we have a label {old}: [rename it to|change its name to|call it|it should be called] "{new}"[ from now on|].',
        '[new name|another name|a better name] for the [label|tag] {old}: [{new}|"{new}"].',
    ),
    "archive": (
        *_asked(
            "archive the [project {project}|{project} project]",
            "[move|send|take|transfer|bring|carry|shift|file|hand] the project {project} [to|into] the archive",
            "[place|put|file|store|lay|lock|keep] the project {project} [away |]in the archive",
            "let the project {project} [go|disappear|move|retire] into the archive",
            "make the project {project} an archived project",
            "[set|mark|flag|list] the project {project} as archived",
        ),
        "[I am|We are|The team is|My brother is|Everybody is|My wife is] [done|finished|through] with the project "
        "{project}: [archive it|into the archive with it|put it in the archive].",
        "project {project}: [archive it|into the archive|to the archive|archive|to be archived|off to the archive].",
        "the project {project} [can|must|should|shall|may|has to|is ready to] be [archived|put in the archive|moved "
        "to the archive|filed in the archive].",
        "[I want|We want|I would like|My boss wants|The customer wants] the project {project} [archived|in the "
        "archive|put in the archive].",
        "[nobody|no one] [works on|uses|needs|opens] the project {project} [any more|any longer|these days|now]: "
        "[archive it|put it in the archive].",
        "the project {project} is [over|finished|ended|done|closed|history|complete|at an end]: [archive it|into "
        "the archive with it|put it in the archive].",
        "[into|to|off to] the archive with the project {project}!",
        "the archive is the [right |best |]place for the project {project}.",
        "[we have ended|we have finished|I have left|we gave up|I have completed] the project {project}: [archive "
        "it|so archive it|put it in the archive].",
    ),
    "empty section": (
        *_asked(
            "[delete|remove|scrap|drop|dissolve] the section {section} of {project}; first [put|move|bring|take|"
            "transfer] its tasks, done or not, into {place}",
            "[move|bring|transfer|shift|send|carry] the tasks, done or not, from the section {section} of {project} "
            "to {place}; then [delete|remove|drop|erase] the section",
            "[remove|delete|get rid of|do away with|dissolve|close] the section {section} [of|in] {project}, after "
            "[moving|bringing|transferring|shifting] its tasks, done or not, to {place}",
            "[move|put|bring|transfer|shift] the tasks of the section {section} of {project}, done or not, into "
            "{place} first; then [delete|remove|drop|erase] the section",
            "[empty|clear] the section {section} of {project} into {place}, with all its tasks, done or not, and "
            "then [delete|remove|scrap] the section",
            "[move|bring|put] everything, done or not, from {project} > {section} into {place} and then [delete|"
            "remove|drop] the empty section",
        ),
        "section {section} of {project}: [move|bring|transfer|shift] its tasks, done or not, to {place}, and "
        "[delete|remove|drop|scrap] it.",
        "[I do not need|we do not need|nobody needs|I do not want] the section {section} of {project} [any more|any "
        "longer]: [move|bring|put] its tasks, done or not, into {place}, then [delete|remove|erase] it.",
        "the section {section} of {project} [must go|should go|can go|has to go|is to be deleted|will be removed], "
        "but [first move|not before you move|first bring] its tasks, done or not, to {place}.",
        "the tasks of the section {section} of {project}, done or not, [should|must|shall|will] [move|go|be moved|"
        "be brought] to {place}; [after that|then|afterwards] [delete|remove|drop] the section.",
        "before you [delete|remove|erase|drop] the section {section} of {project}, [which you should,|and you "
        "should,] [move|bring|put|transfer] its tasks, done or not, into {place}.",
        "the section {section} of {project} is [not needed|superfluous|of no use]: [delete it|remove it], once [all "
        "|]its tasks, done or not, are in {place}.",
    ),
}
"""Kind of change to its wordings."""

_TASKS = "[tasks|tasks|items|entries|to-dos|jobs]"
_OPEN = f"[all|all the|the|all of the] [open|open|unfinished|undone|outstanding|remaining|still open] {_TASKS}"
_ALL = f"[all|all the|the|all of the] {_TASKS}"
_REST = (
    "[everything open|everything undone|all that is open|everything unfinished|everything still open|whatever is "
    "open|anything open]"
)
_IN = (
    "[in|of|from|in|of] [{project}|the project {project}|the project {project}|the {project} project|my project "
    '{project}|our project {project}|the project "{project}"]'
)
_ANYWHERE = (
    "[in any project|in the whole list|in every project|in all projects|across all projects|anywhere|in whichever "
    "project|on the entire list|no matter in which project|throughout the list]"
)
_HAVING = "[with|with|under|that have|that carry|that bear|that got|that show] the [label|tag]"

WHAT: Mapping[str, Grammars] = {
    "overdue": (
        "everything [that is |]overdue " + _IN,
        "[everything|all] that is [late|past due|past its due date|past its deadline] " + _IN,
        f"[all|all the|the|all of the|all these] [overdue|overdue|late] {_TASKS} " + _IN,
        f"{_ALL} {_IN} that are [overdue|late|past due|behind schedule|already overdue|past their deadline]",
        f"{_OPEN} {_IN} whose [due date|deadline|due day] [has passed|is over|has gone by|lies in the past|is "
        "before today]",
        f"{_OPEN} {_IN} [due before today|that were due before today|that should have been done before today]",
        f"{_OPEN} {_IN} that [missed|have missed|are past] the [due date|deadline]",
        f"{_REST} {_IN} [that was due before today|whose due date has passed]",
        f"[all that is open|everything open] {_IN} [with a due date in the past|with a deadline in the past|whose "
        "day has passed|that is late|that is behind schedule]",
        f"[all|all the|the] [open|unfinished] {_TASKS} {_IN} [with a due date in the past|with a date before today|"
        "I am late with|we are late with]",
    ),
    "today": (
        "everything [that is |]due today " + _IN,
        f"{_OPEN} {_IN} [that are |]due today",
        f"{_OPEN} {_IN} with [today's date|today as the due date|today as the deadline]",
        f"{_OPEN} {_IN} whose [due date|deadline|due day] is today",
        f"{_OPEN} {_IN} [that fall due today|that must be done by today|whose day has come today|that come due today]",
        f"{_REST} {_IN} [that is due today|due on this very day|with today's date]",
        f"[today's open|all of today's open] {_TASKS} " + _IN,
        f"{_OPEN} {_IN} due on today's date",
        f"[everything open|all that is open|everything unfinished] {_IN} [planned for today|scheduled for today|"
        "with today as its due date]",
        f"{_OPEN} {_IN} [planned for today|scheduled for today|set for today|with a due date of today]",
    ),
    "nodate": (
        f"{_OPEN} {_IN} [without a|with no|that lack a|lacking a|that have no|missing a|that need a] [due date|"
        "deadline|due day]",
        f"{_REST} {_IN} [that has no|without a|with no] [due date|deadline]",
        f"{_OPEN} {_IN} whose [due date is empty|due date is blank|deadline is open|due date is unset]",
        f"{_OPEN} {_IN} [that nobody gave|that were never given|that never got] a [due date|deadline]",
        f"{_OPEN} {_IN} for which no [due date|deadline] is [set|given|fixed|known]",
        f"[all the|the] undated open {_TASKS} " + _IN,
        f"{_OPEN} {_IN} [that are not scheduled|with no day set|with no date at all|that have been left undated|"
        "that stand without a date]",
    ),
    "label": (
        f"{_OPEN} {_IN} {_HAVING} {{label}}",
        f"{_REST} {_IN} [with|under] the [label|tag] {{label}}",
        f"{_OPEN} {_IN} with {{label}} among their [labels|tags]",
        f"{_OPEN} {_IN} [labelled|tagged|marked] [as {{label}}|with the label {{label}}]",
        f"{_OPEN} {_IN} to which the [label|tag] {{label}} is [attached|assigned]",
        f"{_OPEN} {_IN} on which [you see|there is|I put|someone put] the [label|tag] {{label}}",
        f'{_OPEN} {_IN} whose labels include "{{label}}"',
        f"{_OPEN} {_IN} [bearing|carrying|having|showing|wearing] the [label|tag] {{label}}",
    ),
    "priority": (
        f"{_OPEN} {_IN} [with|at|that have|of|on|ranked at|set to] priority {{priority}}",
        f"{_REST} {_IN} [with|at|of] priority {{priority}}",
        f"[all|all the|the] open p{{priority}} {_TASKS} " + _IN,
        f"[all|all the|the] open priority {{priority}} {_TASKS} " + _IN,
        f"{_OPEN} {_IN} whose [priority|level of priority] is {{priority}}",
        f"{_OPEN} {_IN} [that were given|that someone gave|which are marked with] priority {{priority}}",
        f"{_OPEN} {_IN} that are [p{{priority}}|of the priority {{priority}}|in priority {{priority}}]",
        f"{_OPEN} {_IN} [having|bearing|carrying|of] the priority {{priority}}",
    ),
    "section": (
        f"{_OPEN} [in|from|of|under] the section {{section}} " + _IN,
        f"{_REST} under the section {{section}} " + _IN,
        f"{_OPEN} [in|from|under] {{project}} > {{section}}",
        f"{_OPEN} {_IN} [in|that are in|that stand in|under|filed in|listed in|kept in|that belong to] the section "
        f"{{section}}",
        f"{_OPEN} {_IN} whose section is {{section}}",
        f'{_OPEN} in the [section "{{section}}"|{{section}} section] {_IN}',
        f"{_OPEN} that the section {{section}} of {{project}} [holds|contains|lists|has]",
        f"{_OPEN} {_IN} [sitting in|lying in|standing in|to be found in|placed in|sorted under] the section "
        f"{{section}}",
    ),
    "anywhere label": (
        f"{_OPEN} {_HAVING} {{label}} {_ANYWHERE}",
        f"{_REST} with the [label|tag] {{label}} {_ANYWHERE}",
        f"{_OPEN} labelled {{label}} {_ANYWHERE}",
        f"{_OPEN} under the [label|tag] {{label}} ([whatever the project|whichever project has them|from all "
        "projects])",
        f"{_OPEN} {_ANYWHERE} [that have|with|that carry] the [label|tag] {{label}}",
        f'{_OPEN} {_ANYWHERE} whose labels include "{{label}}"',
        f"{_OPEN} {_ANYWHERE} [bearing|carrying|having|showing] the [label|tag] {{label}}",
    ),
    "anywhere overdue": (
        f"everything [that is |]overdue {_ANYWHERE}",
        f"[all|all the|the] [overdue|late] {_TASKS} {_ANYWHERE}",
        f"{_ALL} that are [overdue|late|past due|behind schedule] {_ANYWHERE}",
        f"{_OPEN} {_ANYWHERE} whose [due date|deadline] [has passed|is over|has gone by|is before today]",
        f"{_OPEN} {_ANYWHERE} [that were due before today|that missed the deadline]",
        f"[all|all the|the] overdue {_TASKS} [of|from] [all projects|the whole list|all my projects|every single "
        "project]",
        f"[everything open|all that is open] {_ANYWHERE} [with a due date in the past|that is late|that is behind "
        "schedule|whose due date is over]",
    ),
    "anywhere repeat": (
        f"{_OPEN} {_ANYWHERE} that [repeat|recur|come back|repeat regularly|are repeated]",
        f"[everything open and repeating|everything open that repeats|everything open that recurs] {_ANYWHERE}",
        f"[all|all the|the] [repeating|regular, repeating] open {_TASKS} {_ANYWHERE}",
        f"{_OPEN} {_ANYWHERE} that are [set to repeat|on repeat|set to recur|repeating ones]",
        f"{_OPEN} {_ANYWHERE} [with|that have] a [repeat|repetition|recurrence]",
        f"{_OPEN} {_ANYWHERE} for which a [repeat|repetition] is set",
        f"{_OPEN} {_ANYWHERE} that [keep coming back|keep repeating|come up again and again|come round regularly|"
        "have to be repeated]",
    ),
    "days": (
        f"{_OPEN} {_IN} [that are |that fall |]due [from {{start}} to {{end}}|from {{start}} until {{end}}|from "
        f"{{start}} through {{end}}]",
        f"{_REST} {_IN} [that is |]due from {{start}} [to|until|up to] {{end}}",
        f"{_OPEN} {_IN} with [due dates|deadlines|dates] from {{start}} to {{end}}",
        f"{_OPEN} {_IN} due [not before|no earlier than|no sooner than|not earlier than] {{start}} and [not after|"
        f"no later than|not later than] {{end}}",
        f"{_OPEN} {_IN} [that are |]due [between {{start}} and {{end}} (both included)|in the days from {{start}} "
        f"to {{end}}|in the period from {{start}} to {{end}}|in the time from {{start}} to {{end}}]",
        f"{_OPEN} {_IN} whose [due date|deadline|due day] is in the [span|days|time] from {{start}} to {{end}}",
        f"{_OPEN} {_IN} due on {{start}} or later, but [on {{end}} at the latest|not after {{end}}]",
        f"{_OPEN} {_IN} due on or after {{start}} and on or before {{end}}",
        f"{_OPEN} {_IN} [planned|scheduled] for the days from {{start}} to {{end}}",
        f"{_OPEN} {_IN} whose [due date|deadline] [lies|falls|is] between {{start}} and {{end}} (inclusive)",
    ),
    "earliest": (
        f"the open [task|item|entry|to-do|job] {_IN} with the earliest [due date|deadline|due day]",
        f"the open [task|item|entry|to-do|job] {_IN} that is due [first|earliest|before all others|before all the "
        "rest|sooner than the others]",
        f"the open [task|item|entry] {_IN} whose [due date|deadline|due day] is the earliest",
        f"the open [task|item|entry] {_IN} whose [due date|deadline] comes [first|before all others]",
        f"the unfinished [task|item|to-do] {_IN} that [has|shows] the earliest [due date|deadline]",
        f"the one open [task|entry|job] {_IN} that comes [first by due date|first in the order of due dates]",
        f"the open [task|entry] {_IN} with a [due date|deadline] before all [the |]others",
        f"the open [task|item|entry|to-do] {_IN} [that is due soonest|due the soonest|with the soonest due date|"
        "that is next in line by due date|whose day comes soonest]",
    ),
    "commented": (
        f"the open [task|item|entry|to-do|job] {_IN} that [has|carries|bears|got|shows] the [comment|note|remark] "
        f'"{{text}}"',
        f'the open [task|item|entry|job] {_IN} with "{{text}}" as a comment',
        f'the open [task|item|entry|job] {_IN} with the [comment|note|remark] "{{text}}"',
        f'the open [task|item|entry] {_IN} whose [comment|note|remark] is "{{text}}"',
        f"the open [task|item|entry] {_IN} [where|on which|under which] [the comment|a comment] [says|reads] "
        f'"{{text}}"',
        f"the open [task|item|entry] {_IN} [on which|under which] [somebody|someone|a colleague] [commented|wrote|"
        f'noted|remarked] "{{text}}"',
        f'the open [task|item|entry] {_IN} that has "{{text}}" among its comments',
        f'the unfinished [task|item|to-do] {_IN} that is commented "{{text}}"',
        f"the open [task|item|entry|to-do] {_IN} [on which I left|that got|under which stands] the [comment|remark] "
        f'"{{text}}"',
        f"the open [task|item|entry] {_IN} [commented with|with a comment that says|with a comment that reads] "
        f'"{{text}}"',
    ),
}
"""Kind of filter or search to its wordings."""

TITLE: Grammars = (
    '[|the task |the entry |my task |the item |the to-do |our task |the job |the point ]"{title}"',
    '"{title}"',
    "the [task|entry|item|to-do] [called|named|titled|with the title|that reads|with the name|by the name of] "
    '"{title}"',
)
"""A task by its title."""

PLACE: Mapping[str, Grammars] = {
    "project": (
        "[the |the |my |our ]project {project}",
        "the [{project} project|project called {project}|project named {project}]",
        '[the project |]"{project}"',
        "{project}",
    ),
    "section": (
        "the section {section} [of|in] [the project |my project |our project |]{project}",
        "{project} > {section}",
        '[the section "{section}"|the {section} section] [of|in] [the project |]{project}',
        "the section {section} [that belongs to|that is in] [the project |]{project}",
        "the project {project}, section {section}",
    ),
}

DETAILS: Mapping[str, Grammars] = {
    "due": (
        "[due|due on|due by|with the due date|deadline|due date|to be done by|for|with the deadline|to be finished "
        "by] {due}",
    ),
    "priority": (
        "[priority|with priority|at priority|of priority|with the priority|set to priority] {priority}",
        "p{priority}",
    ),
    "label": (
        "[label|with the label|under the label|labelled|tagged|tag|with the tag|and the label|bearing the label] "
        '[{label}|{label}|"{label}"]',
    ),
}
"""Details of a new task."""

EXCEPT: Grammars = (
    "{what} ([except|not|leaving aside|but not|without|save for|apart from|other than|excluding|leaving out|"
    "barring] those [with|under|that have|that carry] the [label|tag] {label})",
    "{what} (those [with|under|that have] the [label|tag] {label} [excepted|are not meant|stay as they are|excluded|"
    "left out|do not count|left alone|are not included])",
    "{what} [except|but not|apart from|other than|excluding|save] those [with|under|that have] the [label|tag] {label}",
    "{what} ([skip|ignore|omit|spare|exclude|pass over] those [with|under] the [label|tag] {label})",
    "{what} (only those without the [label|tag] {label})",
    "{what} (but [nothing|not one] with the [label|tag] {label})",
    "{what} ([if|just those|those] without the [label|tag] {label})",
    "{what} ([with the exception of|minus|aside from] those [with|under] the [label|tag] {label})",
    "{what} (leave those [with|under] the [label|tag] {label} [alone|as they are|untouched|out])",
)

COUNT: Grammars = (
    "[tell me|let me know|please tell me|I want to know|I wonder|then tell me|say|report] how many [there were|"
    "tasks there were|they were|you changed|tasks you changed|tasks that was].",
    "how many [were there|tasks were there|tasks did you change|did you change|tasks was that|did you find|tasks "
    "did that make|tasks had to be changed]?",
    "[tell me|give me|finish with|I need|answer with|let me have|reply with|end with] [their number|the count|the "
    "number of tasks you changed|the number of those tasks|the number of tasks concerned].",
    "[what|please, what] was [their number|the number of those tasks|the count]?",
    "[count them|count those tasks][, too|] and [tell me|report|give me] the [number|result|sum|total].",
)

ASK: Mapping[str, Grammars] = {
    "count": (
        *_asked(
            "[count|count up|tally] {what}",
            "[tell me|give me|find out|work out|name|state|report|say] the [number|count|total] of tasks: {what}",
            "[tell me|let me know|find out|check|look up|see] how many there are: {what}",
            "give me the [count|number|total|tally] of {what}",
            lead=_LEAD,
        ),
        "[tell me|I need] the number of tasks: {what}.",
        "how many [tasks are these|are there|are these|do you find|do you count|tasks do you see|have we got|can "
        "you find]: {what}?",
        "{what}: how many[ tasks| of them| are there| are these| do I have| in total|]?",
        "[I need|We need|My boss wants|Clara asks for] the [count|number|total] of {what}.",
        "[what is|what's] the [number|count|total|total number] of {what}?",
        "[I wonder|I want to know|we would like to know|my wife asks] how many [tasks these are|there are]: {what}.",
        "{what}: [count them.|their number, please.|what is their number?|give me the number.]",
    ),
    "when": (
        *_asked(
            "[tell me|find out|give me|name|state|say|show me|check|report] the [due date|deadline|due day|target "
            "date] of {what}",
            "[tell me|let me know|find out|look up|say|check] when {what} is due",
            "[tell me|let me know|find out|look up|say] [what|which|on what] day {what} is due",
            "[tell me|let me know|find out] by [what|which] [day|date] {what} [has to|must|should] be done",
            lead=_LEAD,
        ),
        "[when|for when|on which day|on what date] is {what} [due|due, please|planned|scheduled]?",
        "what is the [due date|deadline|due day|date] of {what}?",
        "[what|which] [day|date] is {what} due?",
        "{what}: [when is that due|what is the due date|which due date|what deadline|due when|until when|due on "
        "what day]?",
        "[I want to know|I need to know|I wonder|I forgot|I have to know|my boss asks|I can't remember] [when "
        "{what} is due|the due date of {what}].",
        "[I need|We need|I want|My sister wants] the [due date|deadline|due day] of {what}.",
        "[when|by when|by what date] [must I|should we|do we have to|do I have to|does Nora have to|shall we] [do|"
        "complete|deal with|get through with|take care of] {what}?",
        "when does {what} [fall due|come due|have to be done|have to be ready|need to be finished]?",
        "how long [is there|do I have|do we have] for {what}? The [due date|deadline] is what I need.",
    ),
    "where": (
        *_asked(
            "[tell me|find out|look up|give me|name|state|say|show me|report] the project of {what}",
            "[tell me|let me know|find out|look up|say|check] [which|what] project {what} [is in|is part of|belongs "
            "to|is filed under|is listed in|stands in]",
            "[tell me|let me know|find out] the [name|title] of the project [of|with|that has|that contains|that "
            "holds] {what}",
            lead=_LEAD,
        ),
        "[which|what] project is {what} [in|part of|filed under|kept in|listed in|stored in|placed in]?",
        "[what|which] project [has|contains|lists|holds|includes|owns|comprises] {what}?",
        "{what}: [which|what] project is that in?",
        "{what}: [in which project|which project|what project]?",
        "[I want to know|I need to know|I wonder|I forgot|I can't remember|my boss asks] [which|what] project "
        "{what} [is in|belongs to|is part of].",
        "[under|in|into] [which|what] project does {what} [belong|fall|go|stand]?",
        "[in|under] [which|what] project [is {what}|can I find {what}|did I put {what}|did we file {what}|should I "
        "look for {what}]?",
        "where [is|do I find|did I put|do we keep|can I find|do you see] {what}, [that is, |I mean |]in [which|"
        "what] project?",
        "[I need|We need|I want] the [project|name of the project] of {what}.",
    ),
    "note": (
        *_asked(
            "[tell me|quote|repeat|show me|give me|read out|look up|state|cite|copy out|find|report] the [comment|"
            "note|remark] [on|under|of] {what}",
            "[tell me|let me know|find out|look up] what the [comment|note|remark] on {what} says",
            "[tell me|let me know|find out] what [is written|stands|somebody wrote] in the comment [on|under] {what}",
            lead=_LEAD,
        ),
        "what does the [comment|note|remark] [on|under|for] {what} say?",
        "what is the [comment|note|remark] [on|under|of] {what}?",
        "{what}: what does the [comment|note|remark] say?",
        "{what}: [the comment, please|what is the comment|which comment|what comment is there]?",
        "how does the [comment|note|remark] [on|under] {what} [read|go]?",
        "[what|which] [comment|note|remark] [is there on|stands under|is attached to|belongs to|does one find on|do "
        "you see on] {what}?",
        "what [did somebody|did someone|did we|did I|did my colleague] [write|note|remark|put|comment] [under|on] "
        "{what}? [Quote the comment|Give me the comment|The whole comment, please].",
        "[I need|We need|I want|I forgot|I would like to read|I can't remember] the [comment|note|remark] [on|"
        "under] {what}.",
        "[I want to know|I need to know|I wonder|my boss asks] what the [comment|note|remark] on {what} says.",
    ),
    "which": (
        *_asked(
            "[name|find|identify|look up|look for|search for] {what} and [tell me|give me|say|report] [the title|"
            "its title]",
            "[tell me|quote|find out|name|show me|look up|report] the [title|name] of {what}",
            "[tell me|let me know|find out|say] what {what} is [called|named|titled]",
            "[tell me|let me know|find out|say] how {what} is [called|titled]",
            "name {what}",
            lead=_LEAD,
        ),
        "what is the [title|name|wording] of {what}?",
        "[what|how] is {what} called?",
        "{what}: what is [its title|it called|its name|the title|the name]?",
        "[I want to know|I need to know|I wonder|I forgot|my boss asks|I can't remember] [what {what} is called|the "
        "title of {what}].",
        "[what|which] title does {what} [have|bear|carry]?",
        "[I need|We need|I want|I am looking for] the [title|name] of {what}.",
        "[which task|which one] is {what}? [Its title, please|Give me its title|Tell me the title].",
        "[I am looking|we are looking|my colleague is looking] for {what}: [what is its title|what is it called|how "
        "is it called]?",
    ),
}

IF: Grammars = (
    "[count|first count|find|look for] {what}. [If there are|If you find|If that is|If you count|In case there are|"
    "Should there be|If these are] more than {n}: {yes} "
    "[Otherwise|Else|If not|If there are {n} or fewer|In the other case|If there are not so many|Failing that]: {no}",
    "[count|first count|find|look for] {what}. If there are [{n} or fewer|at most {n}|not more than {n}|no more than "
    "{n}]: {no} "
    "[Otherwise|Else|If there are more|If there are more than {n}|In the other case|If it is more]: {yes}",
    "[how many are there of this|how many are these|how many do you find|what is the number of these]: {what}? [More "
    "than {n}|If more than {n}|If it is more than {n}|Over {n}|Above {n}]: {yes} "
    "[{n} or fewer|If {n} or fewer|Otherwise|Not more than {n}|Up to {n}|If not]: {no}",
    "[it depends on the number of|what to do depends on the number of|the next step depends on the number of] "
    "these: {what}. [More than {n}|If it is above {n}|If that exceeds {n}|If it is greater than {n}|When it is "
    "higher than {n}]: {yes} [Otherwise|If not|Else|{n} or less]: {no}",
    "[let me see|tell apart two cases|two cases|here is a choice]: {what}. [With more than {n} of these|If they are "
    "more than {n}|If their number exceeds {n}]: {yes} [With {n} or fewer|In the other case|If they are {n} or "
    "fewer|Otherwise]: {no}",
    "[look at|consider|take] {what}. [Are there more than {n}? Then|Are these more than {n}? If so|More than {n} of "
    "these? In that case]: {yes} [If not|Otherwise|Not more]: {no}",
    "[look at|consider|take|count] {what}. [Are there {n} or fewer? Then|At most {n} of these? In that case|Not "
    "more than {n}? Then]: {no} [If there are more|Otherwise|But if there are more than {n}]: {yes}",
)

JOIN: Grammars = (
    "{first} {second}",
    "{first} [Then|Next|Also|After that|Second|In addition|Besides|Afterwards|Moreover|And|And also|Apart from that|"
    "Later|One more thing|Another thing|While you are at it|As well|On top of that|Finally|And then]: {second}",
    "[First|Number one|One|A|Firstly|To begin with|Start with this|First thing|Step one|Job one]: {first} [Second|"
    "Number two|Then|Two|B|Secondly|Next|Step two|Second thing|And then]: {second}",
    "[Two things.|Two tasks for you.|I have two wishes.|Two changes, please.|Please do both of these.|There are two "
    "things to do.|A pair of jobs.] {first} {second}",
    "1. {first} 2. {second}",
)
"""Two parts of a request."""

REQUEST: Grammars = (
    "{request}",
    "{request}",
    "[Hello.|Hi.|Good morning.|Here is what I need:|For the list:|Good evening.|Hey there.|Dear assistant!|Quick "
    "one:|A small job:|When you have a minute:|Can you help?|One request:|I need some help.|Listen:|My request:|As "
    "to my list:|Before I forget:|Something to do:|Here we go.|Good afternoon.|Hello again.|Morning!|It is me "
    "again.|My boss just called.|About the to-do list:|To do now:|This is urgent.|No hurry, but:|Sorry to bother "
    "you.|I am on the train.|Busy day today.] {request}",
    "{request} [Thanks.|Thank you.|That is all.|Nothing else.|Many thanks.|Cheers.|Thanks a lot.|That would be "
    "great.|That's it.|Leave the rest alone.|Thank you very much.|I would be grateful.|Bye.|See you later.|Nothing "
    "more for now.|Leave everything else as it is.|Have a nice day.|I am counting on you.|That will do.|Much "
    "obliged.|Best wishes.|Please be careful.|Talk to you soon.]",
)
"""A whole request."""
