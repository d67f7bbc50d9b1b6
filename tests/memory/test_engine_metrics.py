"""The metrics of whole replicas: the same on each, gone with their job, and observed once for each firing."""

from __future__ import annotations

from .actors import delete
from .engine import Scene, play
from .faults import Plan
from .resources import JOBS
from .scrape import metrics_text, scrape, value
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0


def added_up(scene: Scene, name: str) -> float:
    """A counter or histogram over all replicas."""
    return sum(value(operator.running, name) or 0 for operator in scene.operators.values())


def test_every_replica_says_the_same_of_a_job() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job()
        scene.start("a", "b", "c")
        await scene.at(DUE + 50)

        of_jobs = [
            [
                line
                for line in metrics_text(o.running).splitlines()
                if line.startswith("scheduledjob_") and "job=" in line
            ]
            for o in scene.operators.values()
        ]

        gauges = [[line for line in lines if "_total" not in line] for lines in of_jobs]
        assert gauges[0] == gauges[1] == gauges[2]
        assert 'scheduledjob_healthy{namespace="default",scheduledjob="job"} 1' in gauges[0]
        assert len([line for lines in of_jobs for line in lines if "runs_total" in line]) == 1

    play(scenario, start=BEGIN)


def test_the_series_of_a_job_go_with_it() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job("gone")
        scene.job("stays")
        scene.start("a", "b")
        await scene.at(DUE + 50)

        delete(scene.api, JOBS, "gone")
        await scene.at(DUE + 52)

        pages = [metrics_text(operator.running) for operator in scene.operators.values()]
        assert all("gone" not in page for page in pages)
        assert all("stays" in page for page in pages)

    play(scenario, start=BEGIN)


def test_each_firing_is_observed_once_by_all_replicas_together() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job()
        scene.end.after_seconds = 7
        scene.start("a", "b", "c", plan=Plan(answer_seconds=0.1))

        await scene.at(DUE + 4 * 60 + 50)

        for name in ("claim_lateness", "launch_lateness", "start_lateness", "run_duration"):
            assert added_up(scene, f"scheduledjob_{name}_seconds_count") == 5, name
        assert added_up(scene, "scheduledjob_run_duration_seconds_sum") == 5 * 7
        assert 0.5 <= added_up(scene, "scheduledjob_claim_lateness_seconds_sum") < 2.5
        claims = added_up(scene, "scheduledjob_claim_lateness_seconds_sum")
        assert added_up(scene, "scheduledjob_launch_lateness_seconds_sum") > claims
        assert added_up(scene, "scheduledjob_runs_total") == 5

    play(scenario, start=BEGIN)


def test_lateness_is_counted_from_the_jittered_start() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(schedule="*/2 * * * *", jitter="100s")
        scene.start("a", "b")

        await scene.at(DUE + 20 * 60)

        firings = added_up(scene, "scheduledjob_claim_lateness_seconds_count")
        assert firings >= 10
        assert added_up(scene, "scheduledjob_claim_lateness_seconds_sum") < 0.5 * firings
        assert added_up(scene, "scheduledjob_start_lateness_seconds_count") == 0

    play(scenario, start=BEGIN)


def test_a_replica_tells_of_itself() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job()
        scene.start("a", "b")
        await scene.at(DUE + 30)

        engine = scene.operators["a"].running
        found = {name: value(engine, f"quarterjack_{name}") for name in ("ready", "members", "scheduledjobs")}

        assert found == {"ready": 1, "members": 2, "scheduledjobs": 1}
        assert added_up(scene, "quarterjack_claims_total") == 1
        assert (value(engine, "quarterjack_api_requests_total", verb="GET", code="200") or 0) > 0
        assert {metric.name for metric in scrape(engine)} >= {
            "quarterjack_clock_skew_seconds",
            "quarterjack_build_info",
        }

    play(scenario, start=BEGIN)
