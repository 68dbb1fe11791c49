"""What people ask for, in words: each wording belongs to one split."""

from __future__ import annotations

from collections.abc import Mapping

Wordings = Mapping[str, Mapping[str, tuple[str, ...]]]

DO: Wordings = {
    "complete": {
        "train": ("Mark {what} as done.", "Tick off {what}.", "Complete {what}."),
        "valid": ("Check off {what}.", "I have dealt with {what}, so record that."),
        "test": ("Finished by now: {what}. Bring the list up to date.", "Please set {what} to done."),
    },
    "due": {
        "train": ("Move {what} to {when}.", "Set the due date of {what} to {when}.", "Reschedule {what} to {when}."),
        "valid": ("Change the day for {what} to {when}.", "Let me do {what} {on} instead."),
        "test": ("The new due date for {what}: {when}.", "I will only get round to {what} {on}; change the dates."),
    },
    "postpone": {
        "train": ("Postpone {what} by {days}, counted from the present due date.", "Push {what} back by {days}."),
        "valid": ("Give me {days} more for {what} than the due date says.",),
        "test": ("Make {what} due {days} later than now planned.",),
    },
    "undue": {
        "train": ("Remove the due date of {what}.", "Take the due date off {what}."),
        "valid": ("Clear the day set for {what}.",),
        "test": ("No due date is needed any longer for {what}.",),
    },
    "priority": {
        "train": ("Set the priority of {what} to {priority}.", "Give {what} priority {priority}."),
        "valid": ("Change {what} to priority {priority}.",),
        "test": ("Priority {priority} is right for {what}; put that in.",),
    },
    "label": {
        "train": ("Add the label {label} to {what}.", "Label {what} with {label}."),
        "valid": ("Put the label {label} on {what}.",),
        "test": ("The label {label} is missing on {what}; see to it.",),
    },
    "unlabel": {
        "train": ("Remove the label {label} from {what}.", "Take the label {label} off {what}."),
        "valid": ("Drop the label {label} on {what}.",),
        "test": ("The label {label} no longer fits {what}; see to it.",),
    },
    "move": {
        "train": ("Put {what} into {place}.", "File {what} under {place}."),
        "valid": ("Transfer {what} into {place}.",),
        "test": ("The right place for {what} is {place}; sort that out.",),
    },
    "delete": {
        "train": ("Delete {what}.", "Send {what} to the trash."),
        "valid": ("Throw away {what}.",),
        "test": ("I no longer want {what}; into the trash with that.",),
    },
    "comment": {
        "train": ('Add the comment "{text}" to {what}.', 'Comment "{text}" on {what}.'),
        "valid": ('Leave the comment "{text}" on {what}.',),
        "test": ('Note "{text}" as a comment on {what}.',),
    },
    "rename": {
        "train": ('Rename {what} to "{title}".', 'Change the title of {what} to "{title}".'),
        "valid": ('Give {what} the new title "{title}".',),
        "test": ('The title "{title}" suits {what} better; swap it in.',),
    },
    "repeat": {
        "train": ("Make {what} repeat every {every}.", "Let {what} come back every {every}."),
        "valid": ("Set {what} to recur every {every}.",),
        "test": ("I have to do {what} every {every} from now on; set the repeat.",),
    },
    "stop": {
        "train": ("Stop {what} from repeating.", "Let {what} repeat no more."),
        "valid": ("End the repetition of {what}.",),
        "test": ("Doing {what} just once more is enough, so no repeat.",),
    },
    "restore": {
        "train": ("Bring {what} back from the trash.", "Restore {what}, which I deleted."),
        "valid": ("Undo the deletion of {what}.",),
        "test": ("I should not have deleted {what}; I want it back.",),
    },
    "reopen": {
        "train": ("Reopen {what}, which is not done after all.", "Mark {what} as not done."),
        "valid": ("Undo the completion of {what}.",),
        "test": ("I ticked off {what} too early; it is still to be done.",),
    },
    "add": {
        "train": ('Add the task "{title}" to {place}{details}.', 'Create a task "{title}" in {place}{details}.'),
        "valid": ('Enter "{title}" as a new task in {place}{details}.',),
        "test": ('{place} still lacks the task "{title}"{details}; write it down.',),
    },
    "project": {
        "train": ('Create a project "{project}" with the sections {sections}, and put {what} into {section}.',),
        "valid": ('I need a new project "{project}" with the sections {sections}; {what} goes under {section}.',),
        "test": ('Set up "{project}" as a project divided into {sections}, and let {section} hold {what}.',),
    },
    "rename project": {
        "train": ("Rename the project {old} to {new}.",),
        "valid": ("Give the project {old} the new name {new}.",),
        "test": ("The project {old} is to be called {new}.",),
    },
    "rename section": {
        "train": ("Rename the section {old} of {project} to {new}.",),
        "valid": ("Give the section {old} of {project} the new name {new}.",),
        "test": ("The section {old} of {project} is to be called {new}.",),
    },
    "rename label": {
        "train": ("Rename the label {old} to {new}.",),
        "valid": ("Give the label {old} the new name {new}.",),
        "test": ("The label {old} is to be called {new}.",),
    },
    "archive": {
        "train": ("Archive the project {project}.",),
        "valid": ("Put the project {project} into the archive.",),
        "test": ("The project {project} is over; file it in the archive.",),
    },
    "empty section": {
        "train": ("Delete the section {section} of {project}; first put its tasks, done or not, into {place}.",),
        "valid": ("{project} can do without the section {section}: all its tasks, done or not, go into {place}.",),
        "test": ("Close the section {section} of {project}, and let {place} take in its tasks, done or not.",),
    },
}
"""Kind of change to split to wordings. `{what}` is one task's title or the tasks that a filter finds."""

WHAT: Wordings = {
    "overdue": {
        "train": ("everything overdue in {project}", "all overdue tasks in {project}"),
        "valid": ("each task of {project} that is overdue",),
        "test": ("whatever is overdue in {project}",),
    },
    "today": {
        "train": ("everything due today in {project}", "all open tasks in {project} due today"),
        "valid": ("each open task of {project} that is due today",),
        "test": ("whatever is due today in {project}",),
    },
    "nodate": {
        "train": ("all open tasks in {project} without a due date",),
        "valid": ("each open task of {project} that has no due date",),
        "test": ("whatever is open and has no due date in {project}",),
    },
    "label": {
        "train": ("all open tasks in {project} with the label {label}",),
        "valid": ("each open task of {project} that has the label {label}",),
        "test": ("whatever is open and labelled {label} in {project}",),
    },
    "priority": {
        "train": ("all open tasks in {project} with priority {priority}",),
        "valid": ("each open task of {project} that has priority {priority}",),
        "test": ("whatever is open and of priority {priority} in {project}",),
    },
    "section": {
        "train": ("all open tasks in the section {section} of {project}",),
        "valid": ("each open task that the section {section} of {project} holds",),
        "test": ("whatever is open in the section {section} of {project}",),
    },
    "anywhere label": {
        "train": ("all open tasks with the label {label} in any project",),
        "valid": ("each open task of any project that has the label {label}",),
        "test": ("whatever is open and labelled {label} in any project",),
    },
    "anywhere overdue": {
        "train": ("everything overdue in any project",),
        "valid": ("each overdue task of any project",),
        "test": ("whatever is overdue in any project",),
    },
    "days": {
        "train": ("all open tasks in {project} due from {start} to {end}",),
        "valid": ("each open task of {project} that is due between {start} and {end}",),
        "test": ("whatever is open in {project} and due in the days {start} to {end}",),
    },
    "earliest": {
        "train": ("the open task in {project} with the earliest due date",),
        "valid": ("that open task of {project} whose due date comes first",),
        "test": ("the one task that is due before all others open in {project}",),
    },
    "commented": {
        "train": ('the open task in {project} that has the comment "{text}"',),
        "valid": ('that open task of {project} which bears the comment "{text}"',),
        "test": ('the one open task in {project} on which "{text}" stands as a comment',),
    },
}
"""Which tasks; the last two find one."""

EXCEPT: Mapping[str, tuple[str, ...]] = {
    "train": ("{what} (except those with the label {label})",),
    "valid": ("{what} (but none with the label {label})",),
    "test": ("{what} (unless labelled {label})",),
}

COUNT: Mapping[str, tuple[str, ...]] = {
    "train": ("Tell me how many there were.", "How many were there?"),
    "valid": ("Report the number of those tasks.",),
    "test": ("I want to know, too, how many tasks that was.",),
}
"""Asked after a change of several."""

ASK: Wordings = {
    "count": {
        "train": ("Count {what}.", "Tell me the number of tasks: {what}."),
        "valid": ("Work out how many tasks fit: {what}.",),
        "test": ("What number of tasks do you find for this: {what}?",),
    },
    "when": {
        "train": ("When is {what} due?", "Tell me the due date of {what}."),
        "valid": ("On which date is {what} due?",),
        "test": ("Which day stands as the due date of {what}?",),
    },
    "where": {
        "train": ("Which project is {what} in?", "Tell me the project of {what}."),
        "valid": ("To which project does {what} belong?",),
        "test": ("Under which project did I file {what}?",),
    },
    "note": {
        "train": ("What does the comment on {what} say?",),
        "valid": ("Read me the comment on {what}.",),
        "test": ("What did I note as a comment on {what}?",),
    },
    "which": {
        "train": ("What is the title of {what}?", "Name {what}."),
        "valid": ("Give me the title of {what}.",),
        "test": ("How did I word the title of {what}?",),
    },
}
"""Questions that change nothing."""

IF: Mapping[str, tuple[str, ...]] = {
    "train": ("Count {what}. If there are more than {n}: {yes} Otherwise: {no}",),
    "valid": ("Look at {what}. Should that be more than {n} tasks: {yes} If not: {no}",),
    "test": ("It depends on {what}. With more than {n} of them: {yes} With fewer or as many: {no}",),
}
