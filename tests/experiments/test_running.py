"""What runs, what is done, and what a failure or an interrupt leaves: small commands in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from messages import assert_says

from pact_eval.experiments.plan import parse_plan
from pact_eval.experiments.running import run
from pact_eval.experiments.steps import PlannedExperiment, Step, StepOutcome

pytestmark = pytest.mark.posix


def script(
    name: str, code: str, *needs: str, out: str = "", sealed: bool = False, repeated: bool = False
) -> Step:
    """A step that runs Python code; `out` is the file that it writes."""
    words, outputs = (sys.executable, "-c", code), (Path("out", out),) if out else ()
    return Step(
        name,
        "audit",
        words,
        needs,
        outputs=outputs,
        is_sealed=sealed,
        is_repeated=repeated,
    )


def writes(name: str, *needs: str, repeated: bool = False) -> Step:
    """A step that writes its file."""
    code = f"open('out/{name}', 'a').write('x')"
    return script(name, code, *needs, out=name, repeated=repeated)


def experiment(folder: Path, steps: Sequence[Step], *, jobs: int = 1) -> PlannedExperiment:
    plan, _ = parse_plan("", folder / "plan.toml")
    return PlannedExperiment(plan, folder / "out", tuple(steps), (dict(os.environ),) * jobs)


def states(folder: Path, *steps: Step, jobs: int = 1) -> dict[str, StepOutcome]:
    outcome = run(experiment(folder, steps, jobs=jobs))
    return {step.step.name: step for step in outcome.steps}


def test_a_failed_step_stops_only_the_steps_that_need_it(tmp_path: Path) -> None:
    fails = script("fails", "print('a reason'); exit(7)")
    after, later = writes("after", "fails"), writes("later", "after")
    outcomes = states(tmp_path, fails, after, writes("other"), later)
    assert {name: one.state for name, one in outcomes.items()} == {
        "fails": "failed", "after": "not run", "other": "done", "later": "not run",
    }  # fmt: skip
    assert (outcomes["fails"].why, outcomes["fails"].exit_code) == ("exit code 7", 1)
    assert outcomes["fails"].log_lines[-1] == "a reason"
    assert outcomes["later"].why == "needs fails"


def test_only_our_commands_have_gates(tmp_path: Path) -> None:
    outcomes = states(tmp_path, script("theirs", "exit(5)"))
    assert outcomes["theirs"].exit_code == 1
    ours = Step("ours", "audit", ("pact-audit", "data", "nowhere"))
    assert states(tmp_path, ours)["ours"].exit_code == 1


def test_a_step_without_its_output_or_program_has_failed(tmp_path: Path) -> None:
    silent = script("silent", "", out="nothing")
    assert states(tmp_path, silent)["silent"].why == "exit code 0, but no out/nothing"
    absent = Step("absent", "audit", ("no-such-program",))
    failed = states(tmp_path, absent)["absent"]
    assert failed.why == "exit code 127"
    assert_says(failed.log_lines[-1], "no-such-program", "cannot be started")


def test_a_step_is_done_if_its_output_is_there(tmp_path: Path) -> None:
    assert states(tmp_path, writes("a"))["a"].state == "done"
    assert states(tmp_path, writes("a"))["a"].state == "up to date"
    assert (tmp_path / "out/a").read_text() == "x"
    (tmp_path / "out/by-hand").write_text("y")  # such as by the commands of --print
    assert states(tmp_path, writes("by-hand"))["by-hand"].state == "up to date"
    assert states(tmp_path, script("always", ""))["always"].state == "done"
    assert states(tmp_path, script("always", ""))["always"].state == "done"


def test_an_output_that_may_be_incomplete_is_not_done(tmp_path: Path) -> None:
    """A trainer that is killed may leave an adapter of half its training."""
    code = "import os; open('out/half', 'a').write('x'); os.kill(os.getpid(), 9)"
    half = script("half", code, out="half")
    assert states(tmp_path, half)["half"].why == "ended by signal 9 (SIGKILL)"
    standing = experiment(tmp_path, [half]).standing(half)
    assert (standing.state, standing.why) == ("to do", "not finished")
    sealed = script("half", code, out="half", sealed=True)
    assert experiment(tmp_path, [sealed]).standing(sealed).state == "up to date"


def test_what_another_command_made_is_kept_and_refused(tmp_path: Path) -> None:
    states(tmp_path, writes("a"))
    other = script("a", "open('out/a', 'w')", out="a")
    failed = states(tmp_path, other)["a"]
    assert (failed.state, failed.exit_code) == ("failed", 1)
    assert_says(failed.why, "out/a", "another command", "remove it", "--out")
    assert (tmp_path / "out/a").read_text() == "x"
    (tmp_path / "out/a").unlink()
    assert states(tmp_path, other)["a"].state == "done"


def test_a_repeated_step_follows_its_command_and_its_inputs(tmp_path: Path) -> None:
    states(tmp_path, writes("a", repeated=True))
    other = script("a", "open('out/a', 'a').write('z')", out="a", repeated=True)
    assert experiment(tmp_path, [other]).standing(other).why == "its command changed"
    assert states(tmp_path, other)["a"].state == "done"
    assert (tmp_path / "out/a").read_text() == "xz"
    (tmp_path / "read").write_text("")
    later = time.time() + 10
    os.utime(tmp_path / "read", (later, later))
    for is_repeated, state in ((True, "to do"), (False, "up to date")):
        fields = ((), (Path("read"),), (Path("out/a"),))
        step = Step("a", "audit", other.words, *fields, is_repeated=is_repeated)
        standing = experiment(tmp_path, [step]).standing(step)
        assert (standing.state, standing.why) == (state, "older than read")


def test_standard_output_is_complete_or_not_there(tmp_path: Path) -> None:
    for code, is_there in (("print('yes'); exit(1)", False), ("print('yes')", True)):
        words, out = (sys.executable, "-c", code), Path("out/a.txt")
        step = Step("a", "audit", words, (), (), (out,), out, is_repeated=True)
        outcome = states(tmp_path, step)["a"]
        assert (tmp_path / out).exists() == is_there
        assert outcome.log_lines[:1] == (() if is_there else ("yes",))


def test_two_jobs_run_side_by_side(tmp_path: Path) -> None:
    """Each of two steps waits for the other one."""
    wait = "import pathlib, time\nopen('out/{0}', 'w')\n"
    wait += "while not pathlib.Path('out/{1}').exists(): time.sleep(0.01)"
    pair = [script(a, wait.format(a, b), out=a) for a, b in (("a", "b"), ("b", "a"))]
    outcomes = states(tmp_path, *pair, jobs=2)
    assert {one.state for one in outcomes.values()} == {"done"}


def test_a_step_runs_once_though_two_programs_run_the_plan(tmp_path: Path) -> None:
    """Also with an edited plan: another command does not start the log anew."""
    wait = "import pathlib, time\nopen('out/started', 'a').write('x')\n"
    wait += "while not pathlib.Path('out/go').exists(): time.sleep(0.01)\nopen('out/a', 'w')"
    first: list[StepOutcome] = []
    thread = threading.Thread(
        target=lambda: first.extend(states(tmp_path, script("a", wait, out="a")).values())
    )
    thread.start()
    while not (tmp_path / "out/started").exists():
        time.sleep(0.02)
    for code in (wait, f"{wait}  # edited"):
        second = states(tmp_path, script("a", code, out="a"))["a"]
        assert second.state == "failed"
        assert_says(second.why, "another process runs this step")
    (tmp_path / "out/go").touch()
    thread.join()
    assert [outcome.state for outcome in first] == ["done"]
    assert (tmp_path / "out/started").read_text() == "x"
    assert states(tmp_path, script("a", wait, out="a"))["a"].state == "up to date"


SLEEPS = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
pathlib.Path("out/pids.part").write_text(f"{os.getpid()} {child.pid}")
os.rename("out/pids.part", "out/pids")
time.sleep(3600)
"""


def all_gone(pids: Path) -> bool:
    """Whether the processes have ended, within a few seconds."""
    left = [int(pid) for pid in pids.read_text().split()]
    for _ in range(100):
        left = [pid for pid in left if is_running(pid)]
        if not left:
            return True
        time.sleep(0.1)
    return False


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_training_over_its_time_is_ended_with_its_children(tmp_path: Path) -> None:
    step = Step("a", "train", (sys.executable, "-c", SLEEPS))
    plan, _ = parse_plan("[train]\ncommand = 'x {adapter}'\ntimeout = 5", tmp_path / "plan.toml")
    planned = PlannedExperiment(plan, tmp_path / "out", (step,), (dict(os.environ),))
    (outcome,) = run(planned).steps
    assert_says(outcome.why, "5 s", "timeout")
    assert all_gone(tmp_path / "out/pids")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_commands_and_their_children(
    tmp_path: Path, number: signal.Signals
) -> None:
    def interrupt() -> None:
        while not (tmp_path / "out/pids").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        states(tmp_path, script("a", SLEEPS))
    thread.join()
    assert all_gone(tmp_path / "out/pids")
    assert experiment(tmp_path, [writes("a")]).running_log(writes("a")).exists()


def test_the_printed_script_does_the_same(tmp_path: Path) -> None:
    out = Path("out/c.txt")
    prints = Step("c", "audit", (sys.executable, "-c", "print('c')"), ("b",), (), (out,), out)
    planned = experiment(tmp_path, [writes("a"), writes("b", "a"), prints])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").write_text("done before")
    lines = [*planned.shell_script()]
    assert [line for line in lines if line.startswith("# ")] == ["# b, after a", "# c, after b"]
    subprocess.run(["/bin/sh", "-e"], input="\n".join(lines), text=True, check=True)
    assert {step.state for step in planned.dry_run().steps} == {"up to date"}
    assert (tmp_path / "out/c.txt").read_text() == "c\n"
