"""The wordings of training requests, as grammars (see `agentgym_py.env.wording.expand`).

`{what}` is one task's title or several tasks, so sentences avoid verbs and pronouns that depend on its number.
"""

from __future__ import annotations

from collections.abc import Mapping

Grammars = tuple[str, ...]

DO: Mapping[str, Grammars] = {
    "complete": (
        "[please |]mark {what} as [done|completed].",
        "[please |]tick off {what}.",
        "[please |]complete {what}.",
        "[please |]cross off {what}.",
        "[I have done|I did|I completed|We have done|We completed] {what}: [tick that off|mark that|cross that off].",
        "done: {what}.",
        "{what}: [done|completed|tick off|mark as done|cross off].",
        "[I am|We are|The team is] done with {what}.",
    ),
    "due": (
        "[please |]move {what} to {when}.",
        "[please |]set the due date [of|for] {what} to {when}.",
        "[please |][reschedule {what} to|reschedule {what} for|schedule {what} for|plan {what} for] {when}.",
        "make {what} due {on}.",
        "[I want|We want|I would like] {what} due {on}.",
        "the due date of {what} [moves|changes|must change] to {when}.",
        "{what}: [due {on}|move to {when}|set the due date to {when}|reschedule to {when}].",
    ),
    "postpone": (
        "[please |][postpone|delay|defer] {what} by {days}, [counted from|on top of] the [present|current] due date.",
        "[please |][push {what} back|put {what} off|postpone {what}|delay {what}] by {days}.",
        "[please |]move {what} {days} later than the due date says.",
        "[please |]add {days} to the due date [of|for] {what}.",
        "let the due date [of|for] {what} be {days} later.",
        "{what}: [{days} later|postpone by {days}|push back by {days}|due date plus {days}].",
    ),
    "undue": (
        "[please |]remove the due date [of|from] {what}.",
        "[please |]take the due date off {what}.",
        "leave {what} without [any|a] due date.",
        "[please |][delete|cancel|unset] the due date [of|for] {what}.",
        "[I want|We want] {what} without [any|a] due date.",
        "{what}: [remove the due date|without a due date|delete the due date|take off the due date].",
    ),
    "priority": (
        "[please |]set the priority [of|for] {what} to {priority}.",
        "[please |][give {what}|assign to {what}] [the |]priority {priority}.",
        "change the priority to {priority} for {what}.",
        "[please |]make it priority {priority} for {what}.",
        "priority {priority}[, please,|] for {what}.",
        "[I want|We want] {what} at priority {priority}.",
        "{what}: [priority {priority}|set to priority {priority}|p{priority}|set the priority to {priority}].",
    ),
    "label": (
        "[please |][add|attach|apply|assign] the label {label} to {what}.",
        "[please |]label {what} with {label}.",
        "[please |]give {what} the label {label}.",
        "[please |]mark {what} with the label {label}.",
        "[I want|We want|I would like] the label {label} on {what}.",
        "{what}: [add|attach|apply] the label {label}.",
        "label {label}: [add|attach] it to {what}.",
    ),
    "unlabel": (
        "[please |][remove|detach|take away] the label {label} from {what}.",
        "[please |]take the label {label} off {what}.",
        "[please |][strip|free|rid] {what} of the label {label}.",
        "[I do not want|We do not want|I don't want] the label {label} on {what}.",
        "{what}: [remove|detach|take off] the label {label}.",
        "label {label}: [remove it from|take it off] {what}.",
    ),
    "move": (
        "[please |]put {what} into {place}.",
        "[please |]file {what} under {place}.",
        "[please |]move {what} [over |]to {place}.",
        "[please |][bring {what} into|send {what} to|place {what} in] {place}.",
        "let {what} go [to|into] {place}.",
        "{what}: [move to|put into|file under|to] {place}.",
    ),
    "delete": (
        "[please |][delete|trash|remove|bin|scrap|dump] {what}.",
        "[please |][send|move] {what} to the trash.",
        "[please |]put {what} [in|into] the trash.",
        "[please |]get rid of {what}.",
        "[please |]remove {what} from the list.",
        "{what}: [delete|to the trash|trash|get rid of that|remove].",
    ),
    "comment": (
        '[please |][add|attach] the comment "{text}" to {what}.',
        '[please |]comment "{text}" on {what}.',
        '[please |]write the comment "{text}" [under|on|to] {what}.',
        '[please |]write "{text}" as a comment [under|on|to] {what}.',
        '[please |][put|write] a comment on {what}: "{text}".',
        '{what}: [comment|add the comment|add a comment that says] "{text}".',
        'comment for {what}: "{text}".',
    ),
    "uncomment": (
        '[please |]delete the comment "{text}" [from|on|under] {what}.',
        '[please |]remove the comment "{text}" [from|on|under] {what}.',
        '[please |]take the comment "{text}" [off|away from] {what}.',
        '[please |]get rid of the comment "{text}" [on|under] {what}.',
        '{what}: [delete|remove|take off] the comment "{text}".',
        'the comment "{text}" on {what}: [delete|remove] it.',
    ),
    "rename": (
        '[please |]rename {what} to "{title}".',
        '[please |][change|set] the title of {what} to "{title}".',
        'let {what} be called "{title}" [instead|from now on].',
        '[please |]call {what} "{title}" [instead|from now on].',
        '[please |]make "{title}" the title of {what}.',
        '[please |]replace the title of {what} [by|with] "{title}".',
        '{what}: rename [it |]to "{title}".',
        '{what}: change the title to "{title}".',
    ),
    "repeat": (
        "[please |]make {what} repeat every {every}.",
        "let {what} [come back|repeat] every {every}.",
        "[please |]set {what} to repeat every {every}.",
        "[please |]repeat {what} every {every}.",
        "[please |][add|set] a repeat [for|on] {what}: every {every}.",
        "[I want|We want] {what} to [repeat|come back] every {every}.",
        "{what}: [repeat every {every}|every {every}, as a repeat|set the repeat to every {every}].",
    ),
    "stop": (
        "[please |]stop {what} from repeating.",
        "let {what} repeat no more.",
        "[please |]switch off the repeat [of|for] {what}.",
        "[please |][remove|cancel|delete|turn off] the repeat [of|for|on] {what}.",
        "[please |]make {what} stop repeating.",
        "[I want|We want] {what} without a repeat.",
        "{what}: [no more repeats|stop the repeat|remove the repeat|without a repeat].",
    ),
    "restore": (
        "[please |]bring {what} back from the trash.",
        "[please |]restore {what}[, which I deleted|, which is in the trash|].",
        "[please |]get {what} out of the trash[ again|].",
        "[please |]take {what} [back |]out of the trash.",
        "[please |]recover {what} from the trash.",
        "[please |]undelete {what}.",
        "{what} [is in the trash|was deleted|went to the trash]: [restore it|bring it back|take it out|recover it].",
    ),
    "reopen": (
        "[please |]reopen {what}[, which is not done after all|, which is not done yet|].",
        "[please |]mark {what} as [not|not yet] done.",
        "[please |]put {what} back among the open tasks.",
        "[please |]untick {what}.",
        "[please |]make {what} open again.",
        "{what} is not done [after all|yet]: [reopen it|mark it so|untick it].",
    ),
    "add": (
        '[please |]add [the|a] task "{title}" to {place}{details}.',
        '[please |][create|make|insert] [a task|a new task] "{title}" in {place}{details}.',
        '[please |]put [a new task|a task] "{title}" into {place}{details}.',
        '[I need|We need|I want|We want] [a task|a new task] "{title}" in {place}{details}.',
        'new task [for|in] {place}: "{title}"{details}.',
        'there should be a task "{title}" in {place}{details}.',
        'to be added to {place}: "{title}"{details}.',
    ),
    "project": (
        '[please |]create [a|the] project "{project}" with the sections {sections}, and put {what} into {section}.',
        '[please |]start a project "{project}" that has the sections {sections}, then move {what} into {section}.',
        '[please |]add a project "{project}" with [two sections, {sections}|the sections {sections}]; then [put|move|'
        "file] {what} under [its section |the section |]{section}.",
        'a new project is needed: "{project}", with the sections {sections}. [Put|Move|Bring] {what} into '
        "[its section |the section |]{section}.",
        '[please |]make a [new |]project, "{project}", and in it the sections {sections}; [put|move] {what} into '
        "[the section |]{section}.",
    ),
    "rename project": (
        "[please |]rename the project {old} to {new}.",
        "let the project {old} have the name {new}.",
        "[please |]change the name of the project {old} to {new}.",
        '[please |]call the project {old} "{new}" [from now on|instead].',
        'the project {old} [becomes|changes into] "{new}": rename it.',
        "project {old}: rename [it |]to {new}.",
        '[please |]make "{new}" the name of the project {old}.',
    ),
    "rename section": (
        "[please |]rename the section {old} [of|in] {project} to {new}.",
        "let the section {old} of {project} have the name {new}.",
        "[please |]change the name of the section {old} [of|in] {project} to {new}.",
        '[please |]call the section {old} of {project} "{new}" [from now on|instead].',
        'the section {old} of {project} [becomes|changes into] "{new}": rename it.',
        "section {old} [of|in] {project}: rename [it |]to {new}.",
        '[please |]make "{new}" the name of the section {old} [of|in] {project}.',
    ),
    "rename label": (
        "[please |]rename the label {old} to {new}.",
        "let the label {old} have the name {new}.",
        "[please |]change the name of the label {old} to {new}.",
        '[please |]call the label {old} "{new}" [from now on|instead].',
        'the label {old} [becomes|changes into] "{new}": rename it.',
        "label {old}: rename [it |]to {new}.",
        '[please |]make "{new}" the name of the label {old}.',
    ),
    "archive": (
        "[please |]archive the project {project}.",
        "[please |]move the project {project} [to|into] the archive.",
        "[please |]send the project {project} [to|into] the archive.",
        "[I am|We are] done with the project {project}: archive it.",
        "project {project}: [archive it|into the archive|to the archive].",
        "the project {project} [can|must|should] be archived.",
        "[I want|We want] the project {project} archived.",
    ),
    "empty section": (
        "[please |]delete the section {section} of {project}; first [put|move|bring] its tasks, done or not, into "
        "{place}.",
        "[please |]move the tasks, done or not, from the section {section} of {project} to {place}; then delete the "
        "section.",
        "[please |][remove|delete|get rid of] the section {section} [of|in] {project}, after [moving|bringing] its "
        "tasks, done or not, to {place}.",
        "first [move|put|bring] the tasks of the section {section} of {project}, done or not, into {place}; then "
        "[delete|remove] the section.",
        "section {section} of {project}: move its tasks, done or not, to {place}, and delete it.",
    ),
}
"""Kind of change to its wordings."""

WHAT: Mapping[str, Grammars] = {
    "overdue": (
        "everything [that is |]overdue in [the project |]{project}",
        "[all|all the|the] overdue tasks [in|of|from] [the project |]{project}",
        "[all|all the|the] tasks [in|of|from] [the project |]{project} that are overdue",
    ),
    "today": (
        "everything [that is |]due today in [the project |]{project}",
        "[all|all the|the] open tasks [in|of] [the project |]{project} [that are |]due today",
        "[all|all the|the] [open |]tasks [in|of] {project} with today's date",
    ),
    "nodate": (
        "[all|all the|the] open tasks [in|of] [the project |]{project} [without a|with no|that lack a] due date",
        "everything open in [the project |]{project} [that has no|without a] due date",
        "[all|all the|the] open tasks [in|of] {project} whose due date is empty",
    ),
    "label": (
        "[all|all the|the] open tasks [in|of] [the project |]{project} [with|under|that have] the label {label}",
        "everything open in [the project |]{project} with the label {label}",
        "[all|the] open tasks [in|of] {project} with {label} among their labels",
    ),
    "priority": (
        "[all|all the|the] open tasks [in|of] [the project |]{project} [with|at|that have] priority {priority}",
        "everything open in [the project |]{project} [with|at] priority {priority}",
        "[all|the] open p{priority} tasks [in|of] [the project |]{project}",
        "[all|the] open tasks [in|of] {project} whose priority is {priority}",
    ),
    "section": (
        "[all|all the|the] open tasks [in|from] the section {section} [of|in] [the project |]{project}",
        "everything open in the section {section} [of|in] [the project |]{project}",
        "[all|the] open tasks [in|from] {project} > {section}",
        "[all|the] open tasks [of|from] {project} in the section {section}",
    ),
    "anywhere label": (
        "[all|all the|the] open tasks with the label {label} [in any project|in the whole list|in every project]",
        "everything open with the label {label} [in any project|in the whole list|wherever it is]",
        "[all|the] open tasks under the label {label} in whichever project",
    ),
    "anywhere overdue": (
        "everything overdue in [any project|the whole list|every project]",
        "[all|all the|the] overdue tasks [in any project|of all projects|on the whole list|in every project]",
        "[all|the] tasks that are overdue in whichever project",
    ),
    "anywhere repeat": (
        "[all|all the|the] open tasks [in any project|in the whole list|of all projects] that repeat",
        "everything open and repeating in any project",
        "[all|all the|the] repeating open tasks [in any project|in the whole list|of all projects]",
        "[all|the] open tasks that are set to repeat in whichever project",
    ),
    "days": (
        "[all|all the|the] open tasks [in|of] [the project |]{project} [that are |]due from {start} to {end}",
        "everything open in [the project |]{project} [that is |]due from {start} to {end}",
        "[all|the] open tasks [in|of] {project} with due dates from {start} to {end}",
        "[all|the] open tasks [in|of] {project} due not before {start} and not after {end}",
    ),
    "earliest": (
        "the open task [in|of] [the project |]{project} with the earliest due date",
        "the open task [in|of] [the project |]{project} that is due [first|earliest]",
        "the open task [in|of] {project} whose due date is the earliest",
    ),
    "commented": (
        'the open task [in|of] [the project |]{project} that has the comment "{text}"',
        'the open task [in|of] [the project |]{project} with "{text}" as a comment',
        'the open task [in|of] {project} with the comment "{text}"',
        'the open task [in|of] {project} whose comment is "{text}"',
    ),
}
"""Kind of filter or search to its wordings."""

TITLE: Grammars = ('[|the task |the entry |my task ]"{title}"',)
"""A task by its title."""

PLACE: Mapping[str, Grammars] = {
    "project": ("[the |the |my |our ]project {project}",),
    "section": ("the section {section} [of|in] [the project |]{project}", "{project} > {section}"),
}

DETAILS: Mapping[str, Grammars] = {
    "due": ("[due|due on|with the due date] {due}",),
    "priority": ("[priority|with priority|at priority] {priority}", "p{priority}"),
    "label": ("[label|with the label|under the label] {label}",),
}
"""Details of a new task."""

EXCEPT: Grammars = (
    "{what} ([except|not|leaving aside|but not|without] those [with|under] the label {label})",
    "{what} (those [with|under] the label {label} [excepted|are not meant|stay as they are])",
)

COUNT: Grammars = (
    "[tell me|let me know] how many [there were|tasks there were|they were].",
    "how many [were there|tasks were there|tasks did you change|did you change]?",
    "[tell me|give me|finish with] [their number|the count|the number of tasks you changed].",
)

ASK: Mapping[str, Grammars] = {
    "count": (
        "[please |]count {what}.",
        "[tell me|I need] the number of tasks: {what}.",
        "how many [tasks are these|are there]: {what}?",
        "{what}: how many[ tasks| of them| are there|]?",
        "[give me|tell me|please give me|I need] the count of {what}.",
    ),
    "when": (
        "when is {what} due?",
        "[tell me|please tell me|I need|give me|find out] the due date of {what}.",
        "what is the due date of {what}?",
        "[what|which] day is {what} due?",
        "{what}: [when is that due|what is the due date]?",
        "[tell me|please tell me|I want to know|I need to know] when {what} is due.",
    ),
    "where": (
        "which project is {what} in?",
        "[tell me|please tell me|I need|give me|find out] the project of {what}.",
        "[what|which] project [has|contains|lists] {what}?",
        "{what}: [which|what] project is that in?",
        "[tell me|please tell me|I want to know|I need to know] which project {what} is in.",
    ),
    "note": (
        "what does the comment on {what} say?",
        "[tell me|please tell me|I need|quote] the comment on {what}.",
        "what is the comment [on|under] {what}?",
        "[repeat|show me|please show me] the comment [on|under] {what}.",
        "{what}: what does the comment say?",
    ),
    "which": (
        "what is the title of {what}?",
        "[name|please name] {what}.",
        "what is {what} called?",
        "[tell me|please tell me|I need|quote] the title of {what}.",
        "{what}: what is [its title|it called]?",
        "[tell me|please tell me|I want to know|I need to know] what {what} is called.",
    ),
}

IF: Grammars = (
    "[count|first count|find] {what}. [If there are|If you find|If that is] more than {n}: {yes} "
    "[Otherwise|Else|If not|If there are {n} or fewer]: {no}",
    "[count|first count|find] {what}. If there are [{n} or fewer|at most {n}]: {no} "
    "[Otherwise|Else|If there are more]: {yes}",
    "[how many are there of this|how many are these]: {what}? [More than {n}|If more than {n}]: {yes} "
    "[{n} or fewer|If {n} or fewer|Otherwise]: {no}",
)

JOIN: Grammars = (
    "{first} {second}",
    "{first} [Then|Next|Also|After that|Second]: {second}",
    "[First|Number one]: {first} [Second|Number two|Then]: {second}",
)
"""Two parts of a request."""

REQUEST: Grammars = (
    "{request}",
    "[Hello.|Hi.|Good morning.|Here is what I need:|For the list:] {request}",
    "{request} [Thanks.|Thank you.|That is all.|Nothing else.]",
)
"""A whole request."""
