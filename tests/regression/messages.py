"""docs/troubleshooting.md: every message that a user can get has an entry, and no entry is for a removed message.

A message is recognised by the texts in the sources between which values are put; `counted(n, "step")` reads as
"N steps". An entry quotes them in backquotes, with `...` or a word in capitals in place of a value.
"""

import re
import unittest
from pathlib import Path

import support

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = [path for folder in ("src", "apps") for path in sorted((ROOT / folder).rglob("*.[ch]pp"))]
SCRIPTS = [ROOT / "bootstrap", ROOT / "CMakeLists.txt", *sorted((ROOT / "scripts").glob("*.sh")),
           *sorted((ROOT / "cmake").glob("*")), ROOT / "tests" / "CMakeLists.txt"]

# What ends up in a message: calls, and texts that are prepared for one.
SAYS = re.compile(r"\b(?:UserError|AgreedError|RunError|Log::warning|Log::warnOnce|Log::error|fail|failure|checkHdf5|checkedId<\w+>|check"
                  r"|error|errorAt|TomlError|SystemError|DamagedFile|ForeignFile|failFile|refuse|requireMemory|regularFileExists|fprintf|endJob"
                  r"|_actions\.(?:end|warn)|warnings\.(?:push|emplace)_back|messages\.push_back)\("
                  r"|\bstd::string (?:failure|wrong|stopped|message) = |\bRowFormat \w+\{|\breturn (?=\"OpenBLAS |\"the program was |\"Kokkos Kernels multiplies |\"the launcher |\"is empty|\"contains a|\"'\" \+ (?:text|name))")
FOREIGN = ("is required", "excludes", "requires")  # of the library that reads command lines
BEGINNINGS = ("command line: ", ", not a file", "it is closed, or the disk is full", "/\0no root")  # of messages that are found for themselves
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
CHARACTER = re.compile(r"'(?:[^'\\]|\\.)'")
COUNTED = re.compile(r'\bcounted\((?:[^()"]|\([^()"]*\))*, "(\w+)"\)')
ADJACENT = re.compile(r'(?<!\\)"\s+(?:\+\s+)?"')
COMMENT = re.compile(r"^\s*//.*$|(?<=[;{}])\s*//.*$", re.MULTILINE)
BREAK = re.compile(r"\.\.\.|: |`|(?<![\w-])[A-Z]+(?![\w-])")


def statement(text, begin):
    """From an opening bracket, or the beginning of a text, to what closes it."""
    depth, i = 0, begin
    while i < len(text) and not (depth == 0 and text[i] in ");}"):
        skipped = LITERAL.match(text, i) or CHARACTER.match(text, i)
        depth += 0 if skipped else {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[i], 0)
        i = skipped.end() if skipped else i + 1
    return text[begin:i]


def messages():
    """(place, texts) of every message that a user can get."""
    found = []
    for path in SOURCES:
        text = ADJACENT.sub("", COUNTED.sub(r'n + " \1s"', COMMENT.sub("", path.read_text())))
        for call in SAYS.finditer(text):
            texts = [part.replace('\\"', '"').replace("`", "") for part in LITERAL.findall(statement(text, call.end()))]
            message = "\0".join(texts)
            if " " in message and len(re.findall("[a-z]", message)) > 6 and message not in BEGINNINGS:
                found.append((f"{path.relative_to(ROOT)}: {call.group()}", message))
    return found


def fragments(entry):
    """The fixed texts of a quoted message."""
    parts = [part.strip(" ;,.'()") for part in BREAK.split(entry)]
    return [part for part in parts if re.search("[a-z]{2}", part)]


def holds(fixed, message):
    """Does the message contain the texts, one after another?"""
    place = 0
    for part in fixed:
        place = message.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(fixed) > 0


def entries():
    """(section, quoted message, its fixed texts), from the first columns of the tables."""
    found, section = [], ""
    for line in PAGE.read_text().splitlines():
        section = line[3:] if line.startswith("## ") else section
        if line.startswith("| `"):
            for quoted in re.findall("`([^`]+)`", line.split(" | ")[0]):
                found.append((section, quoted, fragments(quoted)))
    return found


class Messages(unittest.TestCase):
    def test_every_message_has_an_entry(self):
        told, known = messages(), [fixed for _, _, fixed in entries()]
        self.assertGreater(len(told), 100)
        missing = [f"{place}: {text!r}" for place, text in told if not any(holds(fixed, text) for fixed in known)]
        self.assertEqual(missing, [], "\n".join(missing))

    def test_every_entry_is_of_a_message(self):
        told = [text for _, text in messages()]
        scripts = [path.read_text() for path in SCRIPTS]
        faults = []
        for section, quoted, fixed in entries():
            texts = scripts if section == "Building" else told
            if not any(holds(fixed, text) for text in texts) and not any(part in quoted for part in FOREIGN):
                faults.append(f"{section}: {quoted} {fixed}")
        self.assertEqual(faults, [], "\n".join(faults))

    def test_what_is_not_there_is_seen(self):
        self.assertTrue(holds(fragments("X: has N units, ..."), "a\0 has \0 units, no more"))
        self.assertFalse(holds(fragments("N units of X"), " of \0 units"))
        self.assertFalse(holds(fragments("X: ..."), "anything"))
        self.assertEqual(statement('f(a("b)") + c), d', 2), 'a("b)") + c')


if __name__ == "__main__":
    support.main()
