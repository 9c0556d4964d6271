"""The list at the top of docs/decisions.md has each section once, under the folder that it is about."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "decisions.md"

ROOM = re.compile(r"^\*\*`([\w/]+)/`\*\*$", re.MULTILINE)
LINE = re.compile(r"^- \[(.+)\]\(#(.+)\)$", re.MULTILINE)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def anchor(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def problems(text):
    top = text[:SECTION.search(text).start()]
    titles = SECTION.findall(text)
    listed = [title for title, _ in LINE.findall(top)]
    found = [f"two sections are called '{title}'" for title in sorted(set(titles))
             if titles.count(title) > 1]
    found += [f"write the line - [{title}](#{anchor(title)}) below its room, once"
              for title in titles if listed.count(title) != 1]
    found += [f"no section is called '{title}'" for title in listed if title not in titles]
    found += [f"'{title}' leads to #{to}" for title, to in LINE.findall(top) if to != anchor(title)]
    found += [f"there is no folder {room}" for room in ROOM.findall(top)
              if not (ROOT / room).is_dir()]
    return found


class Decisions(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text()

    def test_each_section_is_listed_once(self):
        self.assertGreater(len(SECTION.findall(self.text)), 100)
        self.assertGreater(len(ROOM.findall(self.text)), 15)
        self.assertEqual(problems(self.text), [])

    def test_what_is_wrong_with_the_list_is_found(self):
        line = "- [Weighted draws](#weighted-draws)\n"
        for old, new in ((line, ""), (line, line + line), (line, line.replace("#w", "#v")),
                         ("## Weighted draws", "## Draws by weight"), ("**`traces/`**", "**`tracks/`**")):
            with self.subTest(new=new):
                self.assertIn(old, self.text)
                self.assertNotEqual(problems(self.text.replace(old, new)), [])


if __name__ == "__main__":
    unittest.main()
