"""check_names.py ROOT: no two classes of one program have one name.

The linker takes one of two inline functions, destructors or tables that have one name, whichever it
meets first, and says nothing. So each class, enumeration and alias that is defined in a namespace
has one definition in the tree; those in unnamed namespaces belong to their file alone. The sources
are formatted (./dev format), which is what this relies on: definitions of a namespace begin a line.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOMS = ("core", "policies", "programs", "traces", "sim", "runtime")
OPENS = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?\{(.*)")
DEFINES = re.compile(r"^(?:template <.*> )?(?:class|struct|union|enum class|enum) (?:\[\[\w+\]\] )?"
                     r"(?:alignas\(\w+\) )?([\w:]+)(?: final)?(?: ?[:{].*| : .*)?$")
ALIAS = re.compile(r"^using (\w+) =")


def without_texts(source):
    """Comments and literals leave their lines, so that what they hold opens and closes nothing."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
    return pattern.sub(lambda match: "\n" * match.group(0).count("\n"), source)


def definitions(source):
    """The names a file defines in named namespaces, each with its line."""
    depth = 0
    spaces = []   # (name, depth outside)
    lines = without_texts(source).split("\n")
    for number, line in enumerate(lines, 1):
        opened = OPENS.match(line)
        if opened and not line.rstrip().endswith(";"):
            spaces.append((opened.group(1), depth))
        elif depth == len(spaces) and all(name for name, _ in spaces):
            found = ALIAS.match(line)
            if not found and (defined := DEFINES.match(line)):
                # One that only declares has a semicolon before any brace.
                rest = "\n".join(lines[number - 1:number + 8])
                brace, end = rest.find("{"), rest.find(";")
                found = defined if brace >= 0 and (end < 0 or brace < end) else None
            if found:
                yield "::".join([name for name, _ in spaces] + [found.group(1)]), number
        depth += line.count("{") - line.count("}")
        while spaces and depth <= spaces[-1][1]:
            spaces.pop()


def main(root):
    where = defaultdict(list)
    files = [file for room in ROOMS for kind in ("*.h", "*.hpp", "*.cpp")
             for file in sorted((root / room).rglob(kind))]
    for file in files:
        for name, line in definitions(file.read_text()):
            where[name].append(f"{file.relative_to(root)}:{line}")
    if not where:
        sys.exit(f"no classes below {root}")
    twice = {name: places for name, places in where.items() if len(places) > 1}
    for name, places in sorted(twice.items()):
        print(f"{name} is defined {len(places)} times: {', '.join(places)}")
    if twice:
        sys.exit(f"{len(twice)} names have more than one definition")
    print(f"{len(where)} names in {len(files)} files have one definition each")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
