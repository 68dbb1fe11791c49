"""The wordings of requests; each belongs to one split.

Those of training requests are in `agentgym_data/todo/training.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from agentgym_py.env.wording import read_wordings

Wording = Mapping[str, tuple[str, ...]]
"""Split to its wordings; those of the train split are grammars."""
Wordings = Mapping[str, Wording]
_TRAINING = read_wordings(files("agentgym_data") / "todo" / "training.txt")


def _with_training(held_out: Wordings, part: str) -> Wordings:
    return {kind: {"train": _TRAINING[f"{part} {kind}"], **wording} for kind, wording in held_out.items()}


_HELD_OUT_DO: Wordings = {
    "complete": {
        "valid": (
            "Check off {what}.",
            "I have dealt with {what}, so record that.",
            "Let the list show {what} as finished.",
        ),
        "test": ("Finished by now: {what}. Bring the list up to date.", "Please set {what} to done."),
    },
    "due": {
        "valid": ("Change the day for {what} to {when}.", "Let me do {what} {on} instead."),
        "test": ("The new due date for {what}: {when}.", "I will only get round to {what} {on}; change the dates."),
    },
    "postpone": {
        "valid": (
            "Give me {days} more for {what} than the due date says.",
            "Shift {what} by {days} from the due date, to later.",
        ),
        "test": (
            "Make {what} due {days} later than now planned.",
            "Let {what} wait {days} longer than the due date has it.",
        ),
    },
    "undue": {
        "valid": ("Clear the day set for {what}.", "{what} shall have no day any more."),
        "test": (
            "No due date is needed any longer for {what}.",
            "Let {what} be open-ended, so strike the due date.",
        ),
    },
    "priority": {
        "valid": ("Change {what} to priority {priority}.", "Let {what} rank as priority {priority}."),
        "test": (
            "Priority {priority} is right for {what}; put that in.",
            "I now see {what} as priority {priority}; put that in.",
        ),
    },
    "label": {
        "valid": ("Put the label {label} on {what}.", "Tag {what} with the label {label}."),
        "test": (
            "The label {label} is missing on {what}; see to it.",
            "From now on {what} should carry the label {label}.",
        ),
    },
    "unlabel": {
        "valid": ("Drop the label {label} on {what}.", "Untag {what}: the label {label} goes."),
        "test": (
            "The label {label} no longer fits {what}; see to it.",
            "From now on {what} should not carry the label {label}.",
        ),
    },
    "move": {
        "valid": ("Transfer {what} into {place}.", "Relocate {what} to {place}."),
        "test": ("The right place for {what} is {place}; sort that out.", "From now on {what} belongs in {place}."),
    },
    "delete": {
        "valid": ("Throw away {what}.", "Discard {what}."),
        "test": (
            "I no longer want {what}; into the trash with that.",
            "Away with {what}: that belongs in the trash.",
        ),
    },
    "comment": {
        "valid": ('Leave the comment "{text}" on {what}.', 'Let {what} have the comment "{text}".'),
        "test": ('Note "{text}" as a comment on {what}.', 'For the record, "{text}" goes as a comment on {what}.'),
    },
    "uncomment": {
        "valid": ('Erase the comment "{text}" on {what}.', 'Wipe the comment "{text}" off {what}.'),
        "test": (
            'The comment "{text}" on {what} is out of date and can go.',
            'Nobody needs the comment "{text}" on {what} any more; clear that away.',
        ),
    },
    "rename": {
        "valid": ('Give {what} the new title "{title}".', 'Retitle {what} as "{title}".'),
        "test": (
            'The title "{title}" suits {what} better; swap it in.',
            '"{title}" is how {what} should read; correct the title.',
        ),
    },
    "repeat": {
        "valid": ("Set {what} to recur every {every}.", "Have {what} return every {every}."),
        "test": (
            "I have to do {what} every {every} from now on; set the repeat.",
            "Every {every}, {what} is to be done from now on; set the repeat.",
        ),
    },
    "stop": {
        "valid": ("End the repetition of {what}.", "Let {what} recur no longer."),
        "test": (
            "Doing {what} just once more is enough, so no repeat.",
            "The repeat is no longer wanted for {what}; take that off.",
        ),
    },
    "restore": {
        "valid": ("Undo the deletion of {what}.", "Fish {what} out of the trash."),
        "test": (
            "I should not have deleted {what}; I want it back.",
            "Deleting {what} was a mistake; reverse that.",
        ),
    },
    "reopen": {
        "valid": ("Undo the completion of {what}.", "Set {what} back to open."),
        "test": (
            "I ticked off {what} too early; it is still to be done.",
            "As it turns out {what} is not finished, so open that again.",
        ),
    },
    "add": {
        "valid": (
            'Enter "{title}" as a new task in {place}{details}.',
            'In {place}, start a task "{title}"{details}.',
        ),
        "test": (
            '{place} still lacks the task "{title}"{details}; write it down.',
            'Let {place} have one more task, "{title}"{details}.',
        ),
    },
    "project": {
        "valid": (
            'I need a new project "{project}" with the sections {sections}; {what} goes under {section}.',
            'Open a project "{project}", give it the sections {sections}, and file {what} in {section}.',
        ),
        "test": (
            'Set up "{project}" as a project divided into {sections}, and let {section} hold {what}.',
            'We want "{project}" as a project with {sections} as its sections; {section} takes in {what}.',
        ),
    },
    "rename project": {
        "valid": ("Give the project {old} the new name {new}.", "The project {old} gets a new name: {new}."),
        "test": (
            "The project {old} is to be called {new}.",
            "{new} is the better name for the project {old}; use that.",
        ),
    },
    "rename section": {
        "valid": (
            "Give the section {old} of {project} the new name {new}.",
            "The section {old} of {project} gets a new name: {new}.",
        ),
        "test": (
            "The section {old} of {project} is to be called {new}.",
            "{new} is the better name for the section {old} of {project}; use that.",
        ),
    },
    "rename label": {
        "valid": ("Give the label {old} the new name {new}.", "The label {old} gets a new name: {new}."),
        "test": (
            "The label {old} is to be called {new}.",
            "{new} is the better name for the label {old}; use that.",
        ),
    },
    "archive": {
        "valid": (
            "Put the project {project} into the archive.",
            "The archive should take in the project {project}.",
        ),
        "test": (
            "The project {project} is over; file it in the archive.",
            "We have closed the project {project}, so archive that.",
        ),
    },
    "empty section": {
        "valid": (
            "{project} can do without the section {section}: all its tasks, done or not, go into {place}.",
            "Transfer what the section {section} of {project} holds, done or not, to {place}, then drop the section.",
        ),
        "test": (
            "Close the section {section} of {project}, and let {place} take in its tasks, done or not.",
            "Let {place} have all tasks of the section {section} of {project}, done or not; then the section can go.",
        ),
    },
}
DO = _with_training(_HELD_OUT_DO, "do")
"""Kind of change to split to wordings. `{what}` is one task's title or the tasks that a filter finds."""

_HELD_OUT_WHAT: Wordings = {
    "overdue": {
        "valid": ("each task of {project} that is overdue", "all that is overdue in {project}"),
        "test": ("whatever is overdue in {project}", "every open task in {project} whose due date has passed"),
    },
    "today": {
        "valid": ("each open task of {project} that is due today", "all that {project} has open and due today"),
        "test": ("whatever is open and due today in {project}", "every open task in {project} with today as due date"),
    },
    "nodate": {
        "valid": ("each open task of {project} that has no due date", "all undated open tasks of {project}"),
        "test": (
            "whatever is open and has no due date in {project}",
            "every open task in {project} for which no due date is set",
        ),
    },
    "label": {
        "valid": (
            "each open task of {project} that has the label {label}",
            "all open tasks of {project} tagged {label}",
        ),
        "test": (
            "whatever is open and labelled {label} in {project}",
            "every open task in {project} that bears the label {label}",
        ),
    },
    "priority": {
        "valid": (
            "each open task of {project} that has priority {priority}",
            "all priority {priority} tasks of {project} that are open",
        ),
        "test": (
            "whatever is open and of priority {priority} in {project}",
            "every open task in {project} ranked as priority {priority}",
        ),
    },
    "section": {
        "valid": (
            "each open task that the section {section} of {project} holds",
            "all that is open under {section} in {project}",
        ),
        "test": (
            "whatever is open in the section {section} of {project}",
            "every open task that {project} keeps under {section}",
        ),
    },
    "anywhere label": {
        "valid": (
            "each open task of any project that has the label {label}",
            "all open tasks tagged {label} across all projects",
        ),
        "test": (
            "whatever is open and labelled {label} in any project",
            "every open task in any of the projects that bears the label {label}",
        ),
    },
    "anywhere overdue": {
        "valid": ("each overdue task of any project", "all that is overdue across all projects"),
        "test": (
            "whatever is overdue in any project",
            "every open task in any of the projects whose due date has passed",
        ),
    },
    "anywhere repeat": {
        "valid": ("each open task of any project that recurs", "all recurring open tasks across all projects"),
        "test": (
            "whatever repeats and is open in any project",
            "every open task in any of the projects that has a repeat",
        ),
    },
    "days": {
        "valid": (
            "each open task of {project} that is due between {start} and {end}",
            "all open tasks of {project} that fall due between {start} and {end}",
        ),
        "test": (
            "whatever is open in {project} and due in the days {start} to {end}",
            "every open task in {project} with a due date from {start} up to {end}",
        ),
    },
    "earliest": {
        "valid": (
            "that open task of {project} whose due date comes first",
            "the open task of {project} that is the first to fall due",
        ),
        "test": (
            "the one task that is due before all others open in {project}",
            "the one open task with the oldest due date in {project}",
        ),
    },
    "commented": {
        "valid": (
            'that open task of {project} which bears the comment "{text}"',
            'the open task of {project} that somebody gave the comment "{text}"',
        ),
        "test": (
            'the one open task in {project} on which "{text}" stands as a comment',
            'the one open task of {project} under which I wrote "{text}"',
        ),
    },
}
WHAT = _with_training(_HELD_OUT_WHAT, "what")
"""Which tasks; `earliest` and `commented` find one."""

EXCEPT: Wording = {
    "train": _TRAINING["except"],
    "valid": ("{what} (but none with the label {label})", "{what} (leave out those with the label {label})"),
    "test": ("{what} (unless labelled {label})", "{what} (skip any that bear the label {label})"),
}

COUNT: Wording = {
    "train": _TRAINING["count"],
    "valid": ("Report the number of those tasks.", "Say how many that came to."),
    "test": ("I want to know, too, how many tasks that was.", "State also the number of tasks concerned."),
}
"""Asked after a change of several."""

_HELD_OUT_ASK: Wordings = {
    "count": {
        "valid": ("Work out how many tasks fit: {what}.", "Find the number of tasks for this: {what}."),
        "test": (
            "What number of tasks do you find for this: {what}?",
            "To how many tasks does this apply: {what}?",
        ),
    },
    "when": {
        "valid": ("On which date is {what} due?", "Look up the due date of {what}."),
        "test": ("Which day stands as the due date of {what}?", "By which day do I have to do {what}?"),
    },
    "where": {
        "valid": ("To which project does {what} belong?", "In which project do I find {what}?"),
        "test": ("Under which project did I file {what}?", "What is the name of the project that holds {what}?"),
    },
    "note": {
        "valid": ("Read me the comment on {what}.", "What was commented on {what}?"),
        "test": ("What did I note as a comment on {what}?", "What is written as a comment under {what}?"),
    },
    "which": {
        "valid": ("Give me the title of {what}.", "State the title of {what}."),
        "test": ("How did I word the title of {what}?", "I have forgotten the title of {what}; what is it?"),
    },
}
ASK = _with_training(_HELD_OUT_ASK, "ask")
"""Questions that change nothing."""

IF: Wording = {
    "train": _TRAINING["if"],
    "valid": (
        "Look at {what}. Should that be more than {n} tasks: {yes} If not: {no}",
        "In case there are more than {n} tasks here ({what}): {yes} In any other case: {no}",
    ),
    "test": (
        "It depends on {what}. With more than {n} of them: {yes} With fewer or as many: {no}",
        "Check {what}. Are there more than {n}? Then: {yes} Are there not? Then: {no}",
    ),
}

TITLE: Wording = {"train": _TRAINING["title"], "valid": ('"{title}"',), "test": ('"{title}"',)}
"""A task by its title."""

PLACE: Wordings = _with_training(
    {
        "project": dict.fromkeys(("valid", "test"), ("the project {project}",)),
        "section": dict.fromkeys(("valid", "test"), ("the section {section} of {project}",)),
    },
    "place",
)

DETAILS: Wordings = _with_training(
    {name: dict.fromkeys(("valid", "test"), (f"{name} {{{name}}}",)) for name in ("due", "priority", "label")},
    "detail",
)
"""Details of a new task."""

JOIN: Wording = {"train": _TRAINING["join"], "valid": ("{first} {second}",), "test": ("{first} {second}",)}
"""Two parts of a request."""

REQUEST: Wording = {"train": _TRAINING["request"], "valid": ("{request}",), "test": ("{request}",)}
"""A whole request."""
