"""Root folders that debootstrap made, in which tests run commands."""

import os
import shutil
import subprocess

from support import Folder

BASES = {"debian:bookworm-slim": "bookworm"}
# What runs in a root folder ends with the command: it has processes of its own.
INSIDE = 'mount -t proc proc "$0/proc" && exec chroot "$@"'


class RootFolders(Folder):
    def setUp(self):
        super().setUp()
        if os.getuid() != 0:
            self.skipTest("only root can change its root folder")
        if shutil.which("debootstrap") is None:
            self.skipTest("debootstrap is not installed")
        self.fresh = {}

    def run_it(self, *command, seconds=600):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout[-4000:]}")
        return done.stdout

    def inside(self, root, *command, user="0:0"):
        """The words of a command that runs in a root folder."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, root,
                f"--userspec={user}", root, "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                *command]

    def root_of(self, base, name):
        """A new root folder."""
        root = self.folder / name
        if base not in self.fresh:
            first = self.folder / "base"
            # What it mounts goes with it.
            done = subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", BASES[base], first],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=900)
            if done.returncode != 0:
                self.skipTest(f"debootstrap fails here: {done.stdout.strip().splitlines()[-1]}")
            self.fresh[base] = first
        self.run_it("cp", "-a", self.fresh[base], root)
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        return root
