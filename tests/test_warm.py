"""The warm process forks what is asked for with its own streams, arguments and end, and leaves nothing running."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reefcore import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no warm processes there")
LOOK = "import os, sys, time; print('reefcore.figures' in sys.modules, os.getcwd(), os.environ['OWN'], *sys.argv[1:])"


def asked(module, *arguments, **options):
    command = [sys.executable, "-m", "reefcore.warm", module, *arguments]
    env = os.environ | {"OWN": "mine"}
    return subprocess.Popen(command, env=env, stdin=-1, stdout=-1, stderr=-1, text=True, **options)


def test_a_fork_is_like_a_process_of_its_own_and_ends_with_who_asked(tmp_path):
    (tmp_path / "look.py").write_text(f"{LOOK}\nprint('oh', file=sys.stderr)\nsys.exit(3)")
    (tmp_path / "stay.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    with warm.server():
        first, stays = asked("look", "one", "two", cwd=tmp_path), asked("stay", cwd=tmp_path)
        out, err = first.communicate(timeout=120)
        assert (out.split(), err, first.returncode) == (["True", str(tmp_path), "mine", "one", "two"], "oh\n", 3)
        fork = int(stays.stdout.readline())
        assert fork != stays.pid and Path(f"/proc/{fork}").exists()
        stays.kill()
        stays.wait()
        for _ in range(600):  # while the warm process imports, it notes no end
            time.sleep(0.1)
            if not Path(f"/proc/{fork}").exists():
                break
        assert not Path(f"/proc/{fork}").exists()
        last = asked("stay", cwd=tmp_path)
        fork = int(last.stdout.readline())
    assert last.wait(10) == 1 and not Path(f"/proc/{fork}").exists() and warm.PLACE not in os.environ


def test_without_a_warm_process_all_runs_by_itself(tmp_path, monkeypatch):
    (tmp_path / "look.py").write_text(LOOK)
    assert warm.ask("look", []) is None
    monkeypatch.setenv(warm.PLACE, str(tmp_path / "gone"))
    out, _ = asked("look", "one", cwd=tmp_path).communicate(timeout=60)
    assert out.split() == ["False", str(tmp_path), "mine", "one"]
