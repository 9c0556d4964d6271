"""keeper.py SECONDS PROGRAM...: runs a program until the standard input of this one closes.

Then the program gets SIGTERM, and SIGKILL SECONDS later. So it ends with the process that has the other
end of the pipe, however that ends. A line with another number of seconds may come before. It is run as
a file (`kept.py`), needs nothing of the package, and exits as the program does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1


def _end_with_this_process() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _end_with_input(program: "subprocess.Popen[bytes]", seconds: float) -> None:
    while said := os.read(0, 4096):
        seconds = float(said.split()[-1])
    program.terminate()
    try:
        program.wait(seconds)
    except subprocess.TimeoutExpired:
        program.kill()


def main(seconds: float, command: list[str]) -> int:
    # The signal is meant for the program, which is in the same group; this process stays until that
    # ends.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_this_process)
    threading.Thread(target=_end_with_input, args=(program, seconds), daemon=True).start()
    code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
