"""remembered.py begin BUILD [--again] CTEST_ARGUMENT... chooses the tests to run, and remembered.py end
BUILD remembers which of them passed. ./dev test calls the first before ctest, the second after it.

A test that passed is left out as long as its key is the same. The key is a hash of
- the test's command and properties;
- the programs that it may run. A program that can start no other is alone. For any other test they
  are all programs and libraries of the build, without the test programs that its command does not name;
- the files of the checkout. Sources that only a compiler reads count by their names, and not at all
  in tests/. Pages (*.md) do not count for a test if its file names none;
- what is installed, the kernel, the user, and variables of the environment that tests may read.

`begin` prints how many tests are left out, how many are to be run, and a regular expression of the
names of the former. It forgets all tests that are to be run, and `end` adds those that passed, if
their keys are still the same. So does the next `begin` if a run was interrupted. Without git, or
without dpkg, which tells what is installed, no test is remembered.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from glob import glob
from pathlib import Path

# These read C++ sources, commits, or traces outside the checkout.
ALWAYS_RUN = re.compile(r"boundaries\..*|commits\..*|docs\.(architecture|versions)|"
                        r"traces\.shared_traces|sim\.replay_cuts|policies\.eviction_counts")
# Only a compiler reads these: no examples of pages, and no headers for users.
FOR_COMPILERS = re.compile(r"(?!docs/|.*/batchflow(_step)?\.h).*\.(cpp|h|hpp)")
# The file of a test, by a word of its command; it and what it may share with other tests.
TEST_FILE = re.compile(r"(?:--source-file=\*|.*/tests/python)/(\w+_test\.cpp|test_\w+\.py)")
TEST_SOURCE = re.compile(r"tests/(.*\.(cpp|h)|python/.*\.py)")
# A string that names a page, or the folder of pages.
NAMES_PAGE = re.compile(r'"[^"\n]*(\bdocs\b|\.md\b)')
# A program that imports none of these starts no other program and loads no library of the build.
STARTS_OTHERS = re.compile(r" UND (popen|system|exec[lv]\w*|fexecve|posix_spawnp?|dlm?open)\b|"
                           r"NEEDED.*\[libbatchflow")
PROGRAMS = ("bin/*", "lib/*", "steps/*", "tests/*.so")
BY_HAND = ("/usr/local/bin/*", "/usr/local/lib/*", "/usr/local/lib/python3*/*-packages/*-info",
           "~/.local/lib/python3*/*-packages/*-info")
ENVIRONMENT = re.compile(r"BATCHFLOW_|PYTHON|LD_|LC_|[A-Z]+SAN_OPTIONS$|"
                         r"(LANG|PATH|HOME|TMPDIR|TZ|XDG_RUNTIME_DIR)$")
PASSED = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.+ +Passed ", re.MULTILINE)


def load(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {}


def save(file, content):
    new = file.with_name(file.name + ".new")
    new.write_text(json.dumps(content, indent=1))
    new.replace(file)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def digest(*content):
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_digest(path):
    """Of its content and whether it may be executed."""
    hashed = hashlib.blake2b()
    with open(path, "rb") as file:
        hashed.update(b"%o" % (os.fstat(file.fileno()).st_mode & 0o111))
        while part := file.read(1 << 20):
            hashed.update(part)
    return hashed.hexdigest()


def is_alone(program):
    """Whether this program can start no other. One that readelf cannot read may start any."""
    read = subprocess.run(["readelf", "--wide", "--dynamic", "--dyn-syms", program],
                          capture_output=True, text=True)
    return (read.returncode == 0 and "Dynamic section" in read.stdout and
            not STARTS_OTHERS.search(read.stdout))


def programs_of(build, known):
    """[state, hash, is alone] of each program and library. A file is read only if its state is new."""
    found = {}
    for path in [one for place in PROGRAMS for one in build.glob(place)]:
        if path.is_file():
            file = path.stat()
            state = [file.st_size, file.st_mtime_ns, file.st_ino]
            before = known.get(str(path))
            found[str(path)] = (before if before and before[0] == state else
                                [state, file_digest(path), is_alone(path)])
    return found


def surroundings():
    """What is installed by dpkg and beside it, the kernel, the user and the environment."""
    by_hand = [path for pattern in BY_HAND for path in glob(os.path.expanduser(pattern))]
    environment = {name: value for name, value in os.environ.items() if ENVIRONMENT.match(name)}
    return [output_of("dpkg-query", "-W"),
            [(path, os.lstat(path).st_mtime_ns) for path in sorted(by_hand)],
            os.uname().release, os.getuid(), environment]


def files_of_checkout():
    if not Path(".git").exists():
        raise OSError("not a clone")
    listed = output_of("git", "-c", f"safe.directory={Path.cwd()}", "ls-files", "-z", "--cached",
                       "--others", "--exclude-standard")
    return sorted({path for path in listed.split("\0") if Path(path).is_file()})


class Dependencies:
    """What the tests of a build depend on, with the checkout in the working folder."""

    def __init__(self, build, known_programs):
        self.programs = programs_of(build, known_programs)
        files = files_of_checkout()
        sources = {path for path in files if FOR_COMPILERS.fullmatch(path)}
        pages = {path: file_digest(path) for path in files if path.endswith(".md")}
        others = {path: file_digest(path) for path in files
                  if path not in sources and path not in pages}
        names = [path for path in files if path not in sources or not path.startswith("tests/")]
        self.pages = digest(pages)
        self.others = digest(surroundings(), names, others)
        self.naming_pages = {Path(path).name for path in files if TEST_SOURCE.fullmatch(path) and
                             NAMES_PAGE.search(Path(path).read_text(errors="replace"))}

    def may_read_pages(self, command):
        """A test of one file may if a page is named there, or in a file that tests share."""
        file = [match[1] for word in command if (match := TEST_FILE.fullmatch(word))]
        return not file or any(name == file[0] or not re.fullmatch(r"\w+_test\.cpp|test_\w+\.py", name)
                               for name in self.naming_pages)

    def key(self, test):
        """None if the test must always run."""
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        command = test.get("command")
        if not command or "long" in properties.get("LABELS", []) or ALWAYS_RUN.fullmatch(test["name"]):
            return None
        own = self.programs.get(command[0])
        programs = own[1] if own and own[2] else [
            (path, one[1]) for path, one in sorted(self.programs.items())
            if not Path(path).name.startswith("test_") or path in " ".join(command)]
        return digest(command, properties, programs, self.others,
                       self.pages if self.may_read_pages(command) else "")


def keys_of(tests, build, memory):
    try:
        dependencies = Dependencies(build, memory.get("programs", {}))
    except (OSError, subprocess.CalledProcessError):  # no git, no dpkg
        return {test["name"]: None for test in tests}
    memory["programs"] = dependencies.programs
    return {test["name"]: dependencies.key(test) for test in tests}


def begin(build, again, arguments):
    end(build)
    memory = load(build / "passed.json")
    listed = output_of("ctest", "--test-dir", str(build), "--show-only=json-v1", *arguments)
    tests = json.loads(listed)["tests"]
    keys = keys_of(tests, build, memory)
    passed = memory.get("passed", {})
    left_out = [] if again else [name for name, key in keys.items() if key and passed.get(name) == key]
    running = [test for test in tests if test["name"] not in left_out]
    memory["passed"] = {name: key for name, key in passed.items()
                        if name in left_out or name not in keys}
    save(build / "passed.json", memory)
    for output in build.glob("ctest.out*"):
        output.unlink()
    save(build / "running.json", {"tests": running, "keys": keys})
    print(len(left_out), len(running),
          "^(" + "|".join(re.escape(name) for name in left_out) + ")$" if left_out else "")


def end(build):
    running = load(build / "running.json")
    # While ctest runs, and after it was killed, the file's name has a further ending.
    passed = {name for output in build.glob("ctest.out*")
              for name in PASSED.findall(output.read_text(errors="replace"))}
    if running and passed:
        memory = load(build / "passed.json")
        # ctest is not asked again, which would empty its log.
        keys = keys_of(running["tests"], build, memory)
        memory.setdefault("passed", {}).update(
            {name: key for name, key in keys.items()
             if name in passed and key and key == running["keys"][name]})
        save(build / "passed.json", memory)
    (build / "running.json").unlink(missing_ok=True)


if __name__ == "__main__":
    build_folder = Path(sys.argv[2]).absolute()
    if sys.argv[1] == "begin":
        rest = [word for word in sys.argv[3:] if word != "--again"]
        begin(build_folder, "--again" in sys.argv, rest)
    else:
        end(build_folder)
