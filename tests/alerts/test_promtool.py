"""Each alert fires when it should, says so once for all replicas, and ends by itself: judged by the real promtool."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.alerts.test_queries import ALERTS, RULES
from tests.cluster.build import build, program_path

JOB = '{instance="%s",namespace="shop",scheduledjob="nightly"}'
REPLICAS = ("a:8080", "b:8080", "c:8080")


@dataclass(frozen=True)
class Story:
    """What replicas say, a sample a minute (promtool's notation), and the minutes at which the alert is silent or fires."""

    series: dict[str, str]
    fires: tuple[int, ...]
    silent: tuple[int, ...]


def of_job(name: str, values: str) -> dict[str, str]:
    """The same of a job on three replicas."""
    return {f"scheduledjob_{name}" + JOB % replica: values for replica in REPLICAS}


def of_replicas(name: str, values: str, more: str = "") -> dict[str, str]:
    return {f'quarterjack_{name}{{instance="{replica}"{more}}}': values for replica in REPLICAS}


DAY = 24 * 60
STORIES = {
    "ScheduledJobUnhealthy": [
        Story(of_job("healthy", "1x9 0x9 1x9"), fires=(12, 19), silent=(9, 21)),
        Story(of_job("suspended", "1x30"), fires=(), silent=(0, 30)),  # of a suspended or a new job nothing is said
    ],
    "ScheduledJobFailing": [Story(of_job("consecutive_failures", "0x4 1 2 3x9 0x9"), fires=(9, 15), silent=(6, 18))],
    "ScheduledJobMissedFirings": [
        Story(of_job("last_missed_time_seconds", "600x200"), fires=(11, 69), silent=(71, 150))
    ],
    "ScheduledJobRunTooLong": [
        Story(of_job("active_since_time_seconds", f"60x{DAY + 30} _x60"), fires=(DAY + 10,), silent=(DAY, DAY + 40))
    ],
    "ScheduledJobInvalid": [
        Story(of_job("schedule_valid", "1x9 0x19 1x9"), fires=(16, 29), silent=(12, 31)),
        Story(of_job("ready", "1x9 0x19 1x9"), fires=(16, 29), silent=(12, 31)),
    ],
    "ScheduledJobStopped": [Story(of_job("stopped", "0x9 1x19 0x9"), fires=(16,), silent=(12, 31))],
    "ScheduledJobSuspendedTooLong": [
        Story(
            of_job("suspended", f"1x{7 * DAY + 30} 0x30") | of_job("scheduled_from_time_seconds", f"60x{7 * DAY + 70}"),
            fires=(7 * DAY + 5,),
            silent=(7 * DAY - 5, 7 * DAY + 40),
        ),
        Story(  # an old job that was never suspended
            of_job("suspended", f"0x{8 * DAY}") | of_job("scheduled_from_time_seconds", f"60x{8 * DAY}"),
            fires=(),
            silent=(8 * DAY,),
        ),
    ],
    "ScheduledJobDeadLetters": [Story(of_job("dead_letters", "0x9 2x9 0x9"), fires=(12,), silent=(5, 21))],
    "QuarterjackDown": [
        Story(of_replicas("ready", "1x9 0x9 1x9"), fires=(13, 19), silent=(9, 21)),
        Story(of_replicas("ready", "1x9 _x19 1x9"), fires=(25,), silent=(9, 31)),
        Story(of_replicas("ready", "1x30") | {'quarterjack_ready{instance="a:8080"}': "0x30"}, fires=(), silent=(30,)),
    ],
    "QuarterjackReplicaNotReady": [
        Story({'quarterjack_ready{instance="a:8080"}': "1x9 0x19 1x9"}, fires=(16,), silent=(9, 31))
    ],
    "QuarterjackFenceMissing": [Story(of_replicas("fence_installed", "1x9 0x19 1x9"), fires=(16,), silent=(9, 31))],
    "QuarterjackApiErrors": [
        Story(
            of_replicas("api_requests_total", "0+60x60", ',verb="POST",code="201"')
            | of_replicas("api_requests_total", "0x9 0+20x20 400x30", ',verb="POST",code="503"'),
            fires=(20, 29),
            silent=(9, 45),
        ),
        Story(  # one replica loses the race for a claim and finds it taken: that is no error
            of_replicas("api_requests_total", "0+60x60", ',verb="POST",code="409"'), fires=(), silent=(30,)
        ),
    ],
    "QuarterjackLate": [
        Story(
            {
                'scheduledjob_launch_lateness_seconds_bucket{instance="a:8080",le="5"}': "0+10x9 100x19 100+10x60",
                'scheduledjob_launch_lateness_seconds_bucket{instance="a:8080",le="10"}': "0+10x9 100+10x80",
                'scheduledjob_launch_lateness_seconds_bucket{instance="a:8080",le="+Inf"}': "0+10x9 100+10x80",
            },
            fires=(20, 30),
            silent=(9, 60),
        )
    ],
}


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program, built once."""
    build(("promtool",))
    return program_path("promtool")


def told(promtool: Path, tmp_path: Path, alert: str, story: Story) -> str:
    """What promtool finds wrong with the expectation that one alert of a name fires at some minutes, and none at others."""
    fires = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    one = {"labels": "{}", "value": 1}
    expected = {m: [one] for m in story.fires} | {m: [] for m in story.silent}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in story.series.items()],
        "promql_expr_test": [
            {"expr": f"count({fires})", "eval_time": f"{minute}m", "exp_samples": samples}
            for minute, samples in expected.items()
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    answer = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    return "" if answer.returncode == 0 else answer.stdout + answer.stderr


def test_every_alert_has_a_story() -> None:
    assert list(STORIES) == [alert["alert"] for alert in ALERTS]
    assert all(any(story.fires for story in stories) for stories in STORIES.values())


def test_promtool_finds_nothing_wrong_with_the_rules(promtool: Path) -> None:
    answer = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{len(ALERTS)} rules found" in answer.stdout


@pytest.mark.parametrize(
    ("alert", "story"),
    [
        pytest.param(name, story, id=f"{name}-{n}")
        for name, stories in STORIES.items()
        for n, story in enumerate(stories)
    ],
)
def test_an_alert_fires_once_while_it_should_and_ends_by_itself(
    promtool: Path, tmp_path: Path, alert: str, story: Story
) -> None:
    assert told(promtool, tmp_path, alert, story) == ""
