"""docs/architecture.md names files, functions and types that are there, and a function that is said
to be about an event or a command is about it. A room includes and links the rooms that its row names, and no others."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs" / "architecture.md"
STATE = "Where state lives"
WALKS = ("The life of one batch", "The life of one simulated batch",
         "The life of a policy's parameter", STATE, "Which thread touches what", "Ten questions")

CODE = re.compile(r"`([^`\n]+)`")
# A path with a folder: a file of the repository, not a command or a name.
FILE = re.compile(r"[\w.-]+(/[\w.-]+)+\.(h|hpp|cpp|c|py|md|yaml|json|cmake|sh)")


def sections(text):
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def rows(section):
    """The cells of each row of its tables, without the heads."""
    found = []
    for line in section.splitlines():
        if not line.startswith("|"):
            head = True
        elif re.fullmatch(r"[|\s-]+", line):
            head = False
        elif not head:
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def stops(text, title):
    """(file, names) of each row: its last two cells, or `Owner` in `file` of the table of state."""
    table = rows(sections(text)[title])
    if title == STATE:
        owners = [CODE.findall(row[1]) for row in table]
        return [(owner[1:], owner[:1]) for owner in owners if owner]
    return [(CODE.findall(row[-2]), CODE.findall(row[-1])) for row in table]


def files(text):
    return {code for code in CODE.findall(text) if FILE.fullmatch(code)}


def defines_python(source, name):
    *owners, last = name.split(".")
    return (all(re.search(rf"^class {owner}\b", source, re.MULTILINE) for owner in owners) and
            re.search(rf"^\s*(def|class) {last}\b", source, re.MULTILINE) is not None)


# What stands before the name of a function where it is declared, and not where it is called.
DECLARED = r"(?!return\b|throw\b|else\b)\w[^;={}()]*[\s&*>]"


def function_pattern(name):
    """Finds the definition of `A::b`, or of `A::on(B)`, the one that takes a B."""
    name, _, argument = name.partition("(")
    takes = rf"\([^)]*\b{argument[:-1]}\b" if argument else r"\("
    return rf"^(\w.*\b)?{name}{takes}"


def defines_cpp(source, name):
    """`A::b`: a function that is defined there, or is declared in class A. `A::on(B)`: the one that
    takes a B. `A`: a type, a function or a variable."""
    if "::" in name and re.search(function_pattern(name), source, re.MULTILINE):
        return True
    name, _, argument = name.partition("(")
    owner, _, last = name.rpartition("::")
    takes = rf"\([^)]*\b{argument[:-1]}\b" if argument else r"\("
    if owner:
        kind = owner.rpartition("::")[2]
        return (re.search(rf"^\s*(class|struct) {kind}\b", source, re.MULTILINE) is not None and
                re.search(rf"^\s+{DECLARED}{last}{takes}", source, re.MULTILINE) is not None)
    as_type = rf"^\s*(class|struct|enum class|enum|using) {last}\b"
    as_function = rf"^{DECLARED}{last}{takes}"
    as_variable = rf"^(extern |inline |constexpr |const )+[\w:<> ]+\b{last}\b"
    return any(re.search(one, source, re.MULTILINE)
               for one in (as_type, as_function, as_variable))


def problems_of_stop(paths, names):
    if len(paths) != 1:
        return [f"names {len(paths)} files: {paths}"]
    path = ROOT / paths[0]
    if not path.is_file():
        return [f"{paths[0]} is not there"]
    if not names:
        return [f"{paths[0]}: no name"]
    source = path.read_text()
    defines = defines_python if path.suffix == ".py" else defines_cpp
    return [f"{paths[0]} has no {name}" for name in names if not defines(source, name)]


def messages():
    """The names of all events and commands."""
    source = (ROOT / "core/engine/event.h").read_text()
    lists = re.findall(r"^using (?:Event|Command) =\s+std::variant<([^>]*)>", source, re.MULTILINE)
    return {name for one in lists for name in re.findall(r"\w+", one)}


def definitions(source, name):
    """The texts of all functions of that name, each from its first line to its closing brace."""
    return [source[begin.start():source.index("\n}", begin.end())]
            for begin in re.finditer(function_pattern(name), source, re.MULTILINE)]


def missing_messages(text, title):
    """The events and commands of which no function says anything that the row names."""
    known = messages()
    found = []
    for row in rows(sections(text)[title]):
        said = known & set(CODE.findall(row[-3]))
        paths, names = CODE.findall(row[-2]), CODE.findall(row[-1])
        if title == STATE or not said or len(paths) != 1 or not paths[0].endswith(".cpp"):
            continue
        source = (ROOT / paths[0]).read_text()
        bodies = "\n".join(body for name in names for body in definitions(source, name))
        found += [f"{title}: {names} of {paths[0]} have no {message}" for message in sorted(said)
                  if not re.search(rf"\b{message}\b", bodies)]
    return found


def problems(text):
    """What of the map is not there."""
    found = [f"{file} is not there" for file in sorted(files(text)) if not (ROOT / file).is_file()]
    for title in WALKS:
        for paths, names in stops(text, title):
            found += [f"{title}: {one}" for one in problems_of_stop(paths, names)]
    return found


# What comes with core, and what a row names of other packages, each by how its headers begin.
WITH_CORE = ("std", "fmt", "Eigen")
PACKAGES = {"OpenSSL": "openssl/", "nlohmann-json": "nlohmann/", "CLI11": "CLI/", "zlib": "zlib.h", "zstd": "zstd.h",
            "CUDA": "cuda", "nvJPEG": "nvjpeg", "yaml-cpp": "yaml-cpp/", "SimGrid": "simgrid/", "liburing": "liburing.h", "libpng": "png.h",
            "libwebp": "webp/", "libtiff": "tiffio.h", "libavif": "avif/", "libsndfile": "sndfile.h", "FFmpeg": "libav",
            "libjpeg-turbo": "jpeglib.h", "Boost.Asio": "boost/"}


def rooms(text):
    """Of each room of C++: the rooms, files and packages that its row names."""
    table = {CODE.findall(row[0])[0].rstrip("/"): re.split(r"[,;] ", row[3])
             for row in rows(sections(text)["The rooms"]) if row[1].startswith("`") and row[3] != "everything"}
    by_name = {}
    for room in table:
        by_name.setdefault(room.rpartition("/")[2], set()).add(room)
        by_name.setdefault(room.partition("/")[0], set()).add(room)
    for whole in ("policies", "sim"):  # rooms that have rooms in them
        by_name[whole] = {whole}
    named = {}
    for room, words in table.items():
        named[room] = {room}
        for word in words:
            named[room] |= by_name.get(word, {word.strip("`")})
    return named


def room_of(path, named):
    """The room that has this file; empty: none."""
    return max((room for room in named if path.startswith(room + "/")), key=len, default="")


def crossings(text):
    """The includes and links that no row allows, and the words of rows that name nothing."""
    named = rooms(text)
    found = [f"{room}: {word} is nothing" for room, words in named.items() for word in sorted(words)
             if word not in named and word not in PACKAGES and word not in WITH_CORE
             and not (ROOT / word).is_file()]
    for top in sorted({room.partition("/")[0] for room in named}):
        for path in sorted((ROOT / top).rglob("*")):
            file = str(path.relative_to(ROOT))
            if path.suffix in (".h", ".hpp", ".cpp", ".cu"):
                found += file_crossings(file, path.read_text(), named)
            elif path.name == "CMakeLists.txt":
                found += link_crossings(file, path.read_text(), named)
    return found


def file_crossings(file, source, named):
    room = room_of(file, named)
    if not room:
        return [f"{file} is in no room"]
    found = []
    for header in re.findall(r'^ *# *include [<"]([^">]+)', source, re.MULTILINE):
        into = room_of(header, named)
        package = [name for name, begins in PACKAGES.items() if header.startswith(begins)]
        if (into and into not in named[room] and header not in named[room]) or \
           (package and package[0] not in named[room]):
            found.append(f"{file} includes {header}")
    return found


def link_crossings(file, source, named):
    by_name = {room.rpartition("/")[2]: room for room in named}
    libraries = re.findall(r"batchflow_library\((\w+)[^)]*?LINKS([^)]*)\)", source)
    libraries += re.findall(r"target_link_libraries\(batchflow_(\w+) PUBLIC([^)]*)\)", source)
    return [f"{file}: {name} links {link}" for name, links in libraries if name in by_name
            for link in re.findall(r"batchflow::(\w+)", links)
            if link in by_name and by_name[link] not in named[by_name[name]]]


class Architecture(unittest.TestCase):
    def setUp(self):
        self.text = MAP.read_text()

    def test_what_it_names_is_there(self):
        self.assertEqual(problems(self.text), [])

    def test_functions_have_the_messages_that_it_says(self):
        for title in WALKS:
            self.assertEqual(missing_messages(self.text, title), [])

    def test_each_walk_has_stops(self):
        counts = {title: len(stops(self.text, title)) for title in WALKS}
        self.assertEqual(counts["Ten questions"], 10)
        for title, count in counts.items():
            self.assertGreaterEqual(count, 8, title)

    def test_each_room_says_where_to_begin(self):
        for row in rows(sections(self.text)["The rooms"]):
            self.assertTrue(files(row[-1]), row[0])

    def test_rooms_keep_to_their_rows(self):
        self.assertGreater(len(rooms(self.text)), 25)
        self.assertEqual(crossings(self.text), [])

    def test_links_of_each_room_of_the_runtime_are_checked(self):
        source = (ROOT / "tools/cmake/BatchFlow.cmake").read_text()
        listed = {name for names in re.findall(r"set\(runtime(?:_with_packages)? ([\w ]+)\)", source)
                  for name in names.replace("gpu_memory", "gpu").replace("gpu_decode", "gpu").split()}
        self.assertEqual({room.partition("/")[2] for room in rooms(self.text) if room.startswith("runtime/")}, listed)

    def test_files_are_named_by_their_whole_path(self):
        self.assertGreater(len(files(self.text)), 100)
        names = {code for code in CODE.findall(self.text)
                 if re.fullmatch(r"[\w-]+\.(h|cpp|py)", code)}
        self.assertEqual(names, set())

    def test_it_stays_short(self):
        self.assertLessEqual(len(self.text.splitlines()), 300)


class Canaries(unittest.TestCase):
    """A wrong name is found, of each kind."""

    def setUp(self):
        self.text = MAP.read_text()

    def changed(self, old, new):
        self.assertIn(old, self.text)
        return problems(self.text.replace(old, new))

    def test_a_file_that_is_not_there(self):
        row = self.changed("| `runtime/client/loader.cpp` |", "| `runtime/client/no_loader.cpp` |")
        self.assertIn("runtime/client/no_loader.cpp is not there", row)

    def test_each_wrong_name(self):
        for title in WALKS:
            for paths, names in stops(self.text, title):
                for name in names:
                    wrong = re.sub(r"\w+$", "no_such_name", name.partition("(")[0])
                    self.assertEqual(problems_of_stop(paths, [wrong]),
                                     [f"{paths[0]} has no {wrong}"])

    def test_a_function_that_is_not_about_the_message(self):
        for right, wrong, message in (
                ("`Membership::admit`", "`Membership::joined`", "Admit"),
                ("`RankArrivals::begin`", "`RankArrivals::join`", "JobJoined"),
                ("`Backend::on(Read)`", "`Backend::on(Cancel)`", "Read"),
                ("`Reads::open`, `Reads::send_read`", "`Reads::open`", "Read"),
                ("`Assembly::transferred`", "`Assembly::lost_block`", "TransferDone")):
            self.assertIn(right, self.text)
            text = self.text.replace(right, wrong)
            found = [one for title in WALKS for one in missing_messages(text, title)]
            self.assertEqual(len(found), 1, wrong)
            self.assertTrue(found[0].endswith(f"have no {message}"), found)

    def test_a_function_of_another_class(self):
        self.assertTrue(problems_of_stop(["core/engine/reads.cpp"], ["Items::open"]))
        self.assertTrue(problems_of_stop(["python/batchflow/loader.py"], ["Session._open"]))

    def test_a_function_that_is_only_called(self):
        self.assertTrue(problems_of_stop(["sim/planned_runs.cpp"], ["simulate"]))
        self.assertTrue(problems_of_stop(["python/batchflow/loader.py"], ["make_batch"]))

    def test_an_overload_that_takes_something_else(self):
        self.assertTrue(problems_of_stop(["sim/world/backend.cpp"], ["Backend::on(JobJoined)"]))

    def test_a_call_is_no_definition(self):
        for call in ("  return step(now);", "  step(now);", "  engine.step(now);", "  a = step();"):
            self.assertFalse(defines_cpp(f"struct Engine {{\n{call}\n", "Engine::step"), call)
            self.assertFalse(defines_cpp(f"void run() {{\n{call}\n}}\n", "step"), call)

    def test_a_name_in_a_comment(self):
        self.assertFalse(defines_cpp("// Calls step() now and then.\nint other();\n", "step"))

    def test_a_room_that_crosses_its_row(self):
        row = "| core, batch, failpoint; nlohmann-json |"
        for without, one in (("| core, failpoint; nlohmann-json |", "protocol links batch"),
                             ("| core, failpoint; nlohmann-json |", "messages.h includes runtime/batch/batch_spec.h"),
                             ("| core, batch, failpoint |", "includes nlohmann/json.hpp"),
                             ("| core, batch, failpoints; nlohmann-json |", "failpoints is nothing")):
            self.assertIn(row, self.text)
            found = crossings(self.text.replace(row, without))
            self.assertTrue(any(line.endswith(one) for line in found), (one, found))

    def test_a_file_in_no_room(self):
        row = re.search(r"^\| `runtime/toys/`.*\n", self.text, re.MULTILINE)[0]
        self.assertIn("runtime/toys/toy_job.h is in no room", crossings(self.text.replace(row, "")))

    def test_a_row_without_a_name(self):
        self.assertTrue(problems_of_stop(["core/engine/event.h"], []))
        self.assertTrue(problems_of_stop([], ["Event"]))


if __name__ == "__main__":
    unittest.main()
