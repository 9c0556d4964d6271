"""run_reported.py FILE [CLASS[.TEST]]: as run.py, with nodes and jobs under ThreadSanitizer
(BATCHFLOW_SANITIZER is its library, for jobs). It fails when a process reports anything, also one
that ends before anybody asks how."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="batchflow-") as folder:
        env = dict(os.environ, TSAN_OPTIONS=f"log_path={folder}/report exitcode=0")
        run = Path(__file__).with_name("run.py")
        ended = subprocess.run([sys.executable, str(run), *sys.argv[1:]], env=env)
        reports = sorted(Path(folder).glob("report.*"))
        for report in reports:
            print(report.read_text(errors="replace"))
        sys.exit(1 if reports else ended.returncode)
