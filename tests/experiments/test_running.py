"""Experiments on one machine, with real trainers, as a user meets them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import refuser, runner
from experiments.contents import contents
from experiments.plans import COMMAND, HYPOTHESES, started, wait_until, write_plan
from messages import assert_says

from pact_cli.main import main
from pact_eval.experiments import supervise

pytestmark = pytest.mark.posix

run, refused = runner(main), refuser(main)

ODD = COMMAND.replace("train.py", "odd_trainer.py")
ARMS = ("works", "writes_nothing", "breaks", "fails", "leaks")


def steps_of(stdout: str) -> dict[str, dict[str, object]]:
    return {step["step"]: step for step in json.loads(stdout)["steps"]}


def odd_plan(folder: Path, arms: tuple[str, ...], **settings: object) -> Path:
    plan = write_plan(folder, arms=[f"{arm} = {{}}" for arm in arms], command=ODD, **settings)  # type: ignore[arg-type]
    script = Path(__file__).with_name("odd_trainer.py")
    (folder / script.name).write_text(script.read_text())
    return plan


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The trainings of five trainers, of which one works."""
    plan = odd_plan(tmp_path_factory.mktemp("odd"), ARMS)
    words = ("experiment", plan, "--stage", "train", "--slots", 2, "--json")
    return steps_of(run(*words, code=3).stdout)  # a leak is graver than a failure


@pytest.mark.slow
def test_a_failed_training_leaves_the_others_running(odd: dict[str, dict[str, object]]) -> None:
    states = {arm: odd[f"train-{arm}-17"]["state"] for arm in ARMS}
    assert states == {"works": "done", **dict.fromkeys(ARMS[1:], "failed")}
    codes = [odd[f"train-{arm}-17"]["exit_code"] for arm in ARMS]
    assert codes == [0, 1, 1, 1, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "why"),
    [
        ("writes_nothing", "exit code 0, but no plan/adapters/writes_nothing-17/adapter_config"),
        ("breaks", "adapter not accepted: "),
        ("fails", "exit code 7"),
        ("leaks", "trained or selected on 12 families of "),
    ],
)
def test_each_failure_has_its_reason(odd: dict[str, dict[str, object]], arm: str, why: str) -> None:
    assert why in str(odd[f"train-{arm}-17"]["why"])


@pytest.mark.slow
def test_steps_that_need_a_failed_one_are_not_run(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ("fails",))
    words = ("experiment", plan, "--only", "fails", "--json")
    steps = steps_of(run(*words, code=1).stdout)
    assert {steps[name]["state"] for name in list(steps)[-3:]} == {"not run"}
    assert steps["calibrate-fails-17"]["why"] == "needs train-fails-17"
    text = run("experiment", plan, "--only", "fails", code=1).stdout
    assert_says(text, "Not run", "train-fails-17", "score-fails-17-holdout")


@pytest.mark.slow
def test_a_trainer_over_its_time_is_ended_with_its_children(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ("hangs",), timeout=3)
    words = ("experiment", plan, "--stage", "train", "--json")
    steps = steps_of(run(*words, code=1).stdout)
    assert_says(steps["train-hangs-17"]["why"], "3 s", "timeout")
    for pid in (tmp_path / "child.pid").read_text().split():
        assert gone(int(pid))


@pytest.mark.slow
def test_a_training_finds_its_checkpoint_unless_its_settings_changed(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ("resumes",))
    checkpoint = tmp_path / "plan/adapters/resumes-17/checkpoint"
    words = ("experiment", plan, "--stage", "train", "--json")
    assert "out of time" in str(steps_of(run(*words, code=1).stdout)["train-resumes-17"])
    plan.write_text(plan.read_text().replace("resumes = {}", "resumes = { set = { scale = 0.1 } }"))
    step = steps_of(run(*words, code=1).stdout)["train-resumes-17"]
    assert checkpoint.read_text() == '{"scale": 0.1}'
    assert step["exit_code"] == 1
    step = steps_of(run(*words).stdout)["train-resumes-17"]
    assert step["state"] == "done"
    assert checkpoint.read_text() == '{"scale": 0.1}'


@pytest.mark.slow
def test_an_adapter_is_checked_again_if_the_holdout_changes(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ("leaks_later",))
    checks = 'checks = ["schema"]'  # so few families have shortcuts
    plan.write_text(plan.read_text().replace("[data]", f"[data]\n{checks}"))
    holdout = tmp_path / "data/holdout.jsonl"
    lines = holdout.read_bytes().splitlines(keepends=True)
    later = [line for line in lines if b'"healthcare-01"' in line]
    (tmp_path / "later.jsonl").write_bytes(b"".join(later))
    before = b"".join(line for line in lines if line not in later)
    holdout.write_bytes(before)
    words = ("experiment", plan, "--stage", "train", "--json")
    assert steps_of(run(*words).stdout)["train-leaks_later-17"]["state"] == "done"
    weights = tmp_path / "plan/adapters/leaks_later-17/adapter_model.safetensors"
    trained = weights.stat().st_mtime_ns
    holdout.write_bytes(b"".join(lines))
    for _ in range(2):  # it is not trained again, and it is refused again
        step = steps_of(run(*words, code=3).stdout)["train-leaks_later-17"]
        assert (step["state"], step["exit_code"]) == ("failed", 3)
        assert_says(step["why"], "adapter not accepted", "trained or selected on 6 families")
    holdout.write_bytes(before)
    assert steps_of(run(*words).stdout)["train-leaks_later-17"]["state"] == "up to date"
    assert weights.stat().st_mtime_ns == trained


@pytest.mark.slow
def test_a_step_that_another_process_holds_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = odd_plan(tmp_path, ("fails", "works"))
    run("experiment", plan, "--stage", "train", "--only", "fails", code=1)
    # A process of another experiment, which was started before the plan was changed.
    plan.write_text(plan.read_text().replace("fails = {}", "fails = { set = { scale = 0.1 } }"))
    lock = tmp_path / "plan/locks/train-fails-17.lock"
    sleep = [sys.executable, "-c", "import time; time.sleep(3600)"]
    command = [sys.executable, "-P", supervise.__file__, str(lock), "5", *sleep]
    holder = lock.with_suffix(".holder")
    holder.unlink()
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        wait_until(lambda: holder.exists() and bool(holder.read_text()))
        monkeypatch.setattr(supervise, "LOCK_SECONDS", 0.5)
        steps = steps_of(run("experiment", plan, "--stage", "train", "--json", code=1).stdout)
    assert steps["train-works-17"]["state"] == "done"
    failed = steps["train-fails-17"]
    assert (failed["state"], failed["exit_code"]) == ("failed", 1)
    assert_says(failed["why"], "train-fails-17.lock", holder.read_text(), "still works on this")


@pytest.mark.slow
def test_an_audit_that_fails_stops_the_experiment(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    holdout = tmp_path / "data/holdout.jsonl"
    holdout.write_bytes(b"no record\n" + holdout.read_bytes())
    steps = steps_of(run("experiment", plan, "--json", code=3).stdout)
    assert steps.pop("audit")["state"] == "failed"
    assert {step["state"] for step in steps.values()} == {"not run"}


@pytest.mark.slow
def test_registered_hypotheses_are_locked(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, arms=("mine = {}", "weak = {}"), hypotheses=True)
    run("experiment", plan, "--stage", "register")
    lock = (tmp_path / "hypotheses.lock").read_bytes()
    (tmp_path / "hypotheses.toml").write_text(HYPOTHESES.format(points=1))
    text = refused("experiment", plan, code=5)
    assert "by_more_than" in text
    assert (tmp_path / "hypotheses.lock").read_bytes() == lock
    # Other data than those that were registered: the step is refused, and the lock stays.
    (tmp_path / "hypotheses.toml").write_text(HYPOTHESES.format(points=2))
    holdout = tmp_path / "data/holdout.jsonl"
    holdout.write_bytes(b"".join(holdout.read_bytes().splitlines(keepends=True)[:-2]))
    run("experiment", plan, "--stage", "register", code=5)
    assert (tmp_path / "hypotheses.lock").read_bytes() == lock


def gone(pid: int) -> bool:
    """Whether a process has ended, within a few seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_driver_ends_the_trainer_and_its_children(
    tmp_path: Path, number: signal.Signals
) -> None:
    plan = odd_plan(tmp_path, ("hangs",))
    driver = started(plan, "--stage", "train")
    wait_until((tmp_path / "child.pid").exists)
    time.sleep(0.5)
    driver.send_signal(number)
    assert driver.wait(60) == (1 if number != signal.SIGKILL else -signal.SIGKILL)
    for pid in (tmp_path / "child.pid").read_text().split():
        assert gone(int(pid))


def test_a_killed_trainer_is_a_failed_step_and_the_next_command_repeats_it(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ("hangs",))
    driver = started(plan, "--stage", "train")
    wait_until((tmp_path / "child.pid").exists)
    time.sleep(0.5)
    os.kill(int((tmp_path / "child.pid").read_text().split()[0]), signal.SIGKILL)
    assert driver.wait(60) == 1
    events = [
        json.loads(line) for line in (tmp_path / "plan/events.jsonl").read_text().splitlines()
    ]
    assert events[-2]["event"] == "failed"
    assert "SIGKILL" in events[-2]["why"]
    dry = steps_of(run("experiment", plan, "--stage", "train", "--dry-run", "--json").stdout)
    assert dry["train-hangs-17"]["why"] == "not finished"
    assert dry["audit"]["state"] == "up to date"


@pytest.mark.slow
def test_one_experiment_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    plan = odd_plan(tmp_path, ("hangs",))
    driver = started(plan, "--stage", "train")
    wait_until((tmp_path / "child.pid").exists)
    try:
        assert "another pact-eval experiment" in refused("experiment", plan, "--stage", "train")
    finally:
        driver.terminate()
        driver.wait(60)


@pytest.mark.slow
def test_a_trainer_without_an_import_of_ours_is_enough(whole: Path) -> None:
    for script in ("train.py", "slow_train.py"):
        assert "pact" not in whole.with_name(script).read_text().split('"""')[2]
    folder = whole.with_suffix("")
    for name in ("runs/base", "runs/mine-17", "runs/weak-17", "ablated/base", "ablated/weak-17"):
        assert (folder / name / "predictions.parquet").is_file()
    calibrators = sorted(path.parent.name for path in (folder / "runs").glob("*/calibration.json"))
    assert calibrators == ["mine-17", "weak-17"]
    assert "H1" in (folder / "scorecard.txt").read_text()
    assert "REGISTERED BEFORE THE RUNS" in (folder / "scorecard.txt").read_text().upper()
    assert (folder / "page.html").is_file()
    assert list((folder / "paper").glob("*.svg"))


@pytest.mark.slow
def test_a_repeated_command_does_nothing(whole: Path) -> None:
    before = contents(whole.with_suffix(""))
    steps = steps_of(run("experiment", whole, "--slots", 2, "--json").stdout)
    assert {step["state"] for step in steps.values()} == {"up to date"}
    assert contents(whole.with_suffix("")) == before


@pytest.mark.slow
def test_only_what_reads_a_changed_file_is_repeated(whole: Path, tmp_path: Path) -> None:
    whole = shutil.copytree(whole.parent, tmp_path / "copy", symlinks=True) / whole.name
    trainer = whole.with_name("slow_train.py")
    trainer.write_text(trainer.read_text() + "# a comment\n")
    dry = steps_of(run("experiment", whole, "--dry-run", "--json").stdout)
    assert dry["train-mine-17"]["why"] == "slow_train.py changed"
    assert_says(dry["score-mine-17-holdout"]["why"], "if train-mine-17 changes")
    assert dry["score-base-holdout"]["state"] == "up to date"
    # The new trainer makes the same adapters, so nothing else is repeated.
    steps = steps_of(run("experiment", whole, "--slots", 2, "--json").stdout)
    repeated = [name for name, step in steps.items() if step["state"] == "done"]
    assert repeated == ["train-mine-17", "train-weak-17"]


@pytest.mark.slow
def test_a_step_that_was_killed_before_its_receipt_runs_again(whole: Path, tmp_path: Path) -> None:
    """Every kind of step: its outputs are there, and its receipt says that it only began."""
    whole = shutil.copytree(whole.parent, tmp_path / "copy", symlinks=True) / whole.name
    before = contents(whole.with_suffix(""))
    killed = ("audit", "split", "ablate", "register", "calibrate-mine-17", "scorecard", "page")
    for name in killed:
        receipt = whole.with_suffix("") / "receipts" / f"{name}.json"
        receipt.write_text(json.dumps(json.loads(receipt.read_bytes()) | {"outputs": None}))
    steps = steps_of(run("experiment", whole, "--slots", 2, "--json").stdout)
    assert [name for name, step in steps.items() if step["state"] == "done"] == [*killed]
    assert contents(whole.with_suffix("")) == before
