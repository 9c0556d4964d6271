"""Man pages, and completions for bash and zsh, from what programs say of themselves.

    help_pages.py FOLDER PROGRAM...

Each program and its subcommands are asked with --help. FOLDER is a `share`: it gets
man/man1/NAME.1, bash-completion/completions/NAME and zsh/site-functions/_NAME.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple


class Command(NamedTuple):
    words: list[str]  # the program's name, then subcommands
    about: str
    usage: str
    options: list[tuple[str, str]]  # as written, with what they take; what they do
    commands: list["Command"]


def read(program: Path, words: list[str]) -> Command:
    said = subprocess.run([program, *words[1:], "--help"], stdout=subprocess.PIPE, text=True, check=True,
                          timeout=60).stdout
    head, *parts = re.split(r"^(\w[\w ]*):\n", said, flags=re.M)
    about, usage = "", ""
    for line in head.splitlines():
        if line.startswith("Usage:"):
            usage = line[len("Usage:"):].strip()
        elif not usage:
            about = f"{about} {line.strip()}".strip()
    sections = dict(zip(parts[::2], parts[1::2]))
    options = [one for name, text in sections.items() if name != "Subcommands" for one in entries(text)]
    inner = [read(program, [*words, name]) for name, _ in entries(sections.get("Subcommands", ""))]
    return Command(words, about, usage, options, inner)


def entries(text: str) -> Iterator[tuple[str, str]]:
    """A line begins with two spaces and what it is about; what it does comes after two more, or in
    the lines below."""
    name, does = "", ""
    for line in text.splitlines():
        found = re.match(r"  (\S.*)", line)
        if found:
            if name:
                yield name, does
            name, _, does = re.sub(r"\s{2,}", "\0", found[1], count=1).partition("\0")
        elif line.strip():
            does = f"{does} {line.strip()}".strip()
    if name:
        yield name, does


def every(command: Command) -> Iterator[Command]:
    yield command
    for inner in command.commands:
        yield from every(inner)


def names_of(option: str) -> list[str]:
    return re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", option.split(" ")[0])


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def man_page(top: Command) -> str:
    name = top.words[0]
    lines = [f'.TH {name.upper()} 1 "" BatchFlow "User Commands"', ".SH NAME",
             f"{roff(name)} \\- {roff(top.about.rstrip('.'))}", ".SH SYNOPSIS",
             f".B {roff(top.usage or name)}"]
    for command in every(top):
        if command is top:
            lines.append(".SH OPTIONS")
        else:
            lines += [f".SH {roff(' '.join(command.words[1:]).upper())}", roff(command.about), ".PP",
                      f".B {roff(command.usage)}"]
        for option, does in command.options:
            lines += [".TP", f".B {roff(option)}", roff(does)]
        for inner in command.commands:
            lines += [".TP", f".B {roff(inner.words[-1])}", roff(inner.about)]
    lines += [".SH FILES", "The documents of BatchFlow are in share/doc/BatchFlow beside the programs."]
    return "\n".join(line for line in lines if line) + "\n"


def candidates(command: Command) -> str:
    options = [name for option, _ in command.options for name in names_of(option)]
    return " ".join([*(inner.words[-1] for inner in command.commands), *options])


def cases(top: Command) -> str:
    """Of a shell's `case`: the subcommands so far, and the words that may follow."""
    return "\n".join(f"    '{' '.join(command.words[1:])}') words='{candidates(command)}' ;;"
                     for command in every(top))


def levels(top: Command) -> str:
    """The subcommands, each with those before it, between bars."""
    return "|" + "|".join(" ".join(command.words[1:]) for command in every(top)) + "|"


def bash(top: Command) -> str:
    name = top.words[0]
    function = "_" + name.replace("-", "_")
    return f"""# Completion of {name} for bash.
{function}() {{
  local word path='' words='' all='{levels(top)}'
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $all == *"|${{path:+$path }}$word|"* ]] && path=${{path:+$path }}$word
  done
  case $path in
{cases(top)}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
  [ ${{#COMPREPLY[@]}} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o filenames -F {function} {name}
"""


def zsh(top: Command) -> str:
    name = top.words[0]
    return f"""#compdef {name}
# Completion of {name} for zsh.
local word where='' all='{levels(top)}'
local -a possible
for word in "${{(@)words[2,CURRENT-1]}}"; do
  [[ $all == *"|${{where:+$where }}$word|"* ]] && where=${{where:+$where }}$word
done
() {{
  local words=''
  case $where in
{cases(top)}
  esac
  possible=(${{=words}})
}}
compadd -- $possible || _files
"""


def main() -> None:
    share = Path(sys.argv[1])
    for program in map(Path, sys.argv[2:]):
        top = read(program, [program.name])
        for place, text in ((f"man/man1/{program.name}.1", man_page(top)),
                            (f"bash-completion/completions/{program.name}", bash(top)),
                            (f"zsh/site-functions/_{program.name}", zsh(top))):
            (share / place).parent.mkdir(parents=True, exist_ok=True)
            (share / place).write_text(text)


if __name__ == "__main__":
    main()
