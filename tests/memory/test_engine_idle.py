"""What an operator with nothing to do asks of the API server."""

from __future__ import annotations

from collections import Counter

from .actors import objects
from .engine import Scene, play
from .resources import PODS
from .virtual import START

BEGIN = START + 50  # the first firings are due ten seconds later
JOBS = 501  # two pages of a list


def test_an_idle_operator_renews_its_membership_and_asks_for_next_to_nothing_else() -> None:
    """Each job has two finished Pods."""

    async def scenario() -> None:
        scene = Scene()
        for number in range(JOBS):
            scene.job(f"job-{number}", schedule="1,2 9 2 3 *", concurrencyPolicy="Allow")
        scene.start("a", "b")
        await scene.at(600)
        assert len(objects(scene.api, PODS)) == 2 * JOBS
        before = Counter(scene.api.counts)

        await scene.at(600 + 3600)

        hourly = {asked: count / 2 for asked, count in (scene.api.counts - before).items()}
        renewals, resumed = hourly.pop(("PATCH", "leases")), [hourly.pop(("WATCH", r)) for r in ("leases", "pods")]
        assert 1100 < renewals < 1300
        assert max(resumed) < 17
        for kind in ("scheduledjobs", "scheduledjobruns"):
            hourly.pop(("WATCH", kind))  # kopf's, of which a reflector stands here
        # a page of metadata of 500 jobs each minute, a probe of the fence each minute, a look for old memberships each five
        assert hourly.pop(("LIST", "scheduledjobs")) <= 2 * 60
        assert hourly.pop(("POST", "leases")) <= 61
        assert hourly.pop(("LIST", "leases")) <= 12
        assert hourly == {}
        assert len(objects(scene.api, PODS)) == 2 * JOBS

    play(scenario, start=BEGIN)
