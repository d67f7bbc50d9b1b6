"""The door and the operator's parser agree on schedules, zones and durations."""

from __future__ import annotations

import random
from importlib import resources
from typing import Any

import pytest

from quarterjack.durations import parse_duration
from quarterjack.schedule import Schedule, ScheduleError
from tests.cluster import Cluster
from tests.cluster.api import Answer

pytestmark = pytest.mark.api

PATH = "/apis/quarterjack.dev/v1alpha1/namespaces/default/scheduledjobs?dryRun=All&fieldValidation=Strict"
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}}
# What the door leaves to the parser: where a range of years begins, and a step from Sunday written as 7.
LEFT_TO_THE_PARSER = ("years do not wrap around", "7 is the last day of a range")

SIXTY = ["0", "07", "59", "5-1", "*/40", "30-30", "10-50/20"]
RIGHT = {
    "second": SIXTY,
    "minute": SIXTY,
    "hour": ["0", "023", "22-2", "9-17/4", "*/5"],
    "day of month": ["1", "31", "L", "LW", "15W", "28-3", "?", "1/10"],
    "month": ["1", "12", "JAN", "dec", "NOV-FEB", "*/3"],
    "day of week": ["0", "7", "sun", "FRI-MON", "5L", "FRIL", "5#2", "MON#5", "5-7", "?", "1/2"],
    "year": ["1970", "2026", "2026-2030", "2100", "*/4", "2026/2"],
}
NUMBERS = ["0", "24", "32", "60", "8", "13", "-1", "1.5", "1969", "1971"]
MARKS = ["?", "L", "LW", "32W", "#2", "L-3", "W15", "1#6", "8L", "H", "R", "", "*/0", "MONDAY", "x", "5/5/5", "1-2-3"]


def create(cluster: Cluster, **spec: Any) -> Answer:
    """Ask for a job, as a dry run."""
    document = {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": "asked-for"},
        "spec": {"template": TEMPLATE, **spec},
    }
    return cluster.api.post(PATH, document)


def parser_refuses(expression: str) -> str:
    """Why the operator's parser refuses an expression; empty where it does not."""
    try:
        Schedule.parse(expression)
    except ScheduleError as error:
        return str(error)
    return ""


def random_item(place: str, chance: random.Random) -> str:
    """One item of a field, mostly a right one."""
    if chance.random() < 0.7:
        return chance.choice(RIGHT[place])
    item = chance.choice([*NUMBERS, *MARKS, *RIGHT[chance.choice(list(RIGHT))]])
    if chance.random() < 0.3:
        item += chance.choice(["-", "/"]) + chance.choice([*NUMBERS, *RIGHT[place]])
    return item


def random_expressions(count: int) -> list[str]:
    """Expressions with a few fields of chance, the others being plain."""
    chance = random.Random(20260131)
    expressions = []
    for _ in range(count):
        places = chance.choice([list(RIGHT)[1:6], list(RIGHT)[:6], list(RIGHT)])
        fields = dict.fromkeys(places, "*")
        for place in chance.sample(places, chance.choice([1, 1, 2, 3])):
            fields[place] = ",".join(random_item(place, chance) for _ in range(chance.choice([1, 1, 1, 2])))
        expressions.append(" ".join(fields.values()))
    return expressions


def test_no_expression_is_judged_differently(served: Cluster) -> None:
    differing, refusals = [], 0
    for expression in random_expressions(600):
        refused, why = create(served, schedule=expression).status != 201, parser_refuses(expression)
        refusals += refused
        if refused != bool(why) and not any(reason in why for reason in LEFT_TO_THE_PARSER):
            differing.append((expression, refused, why))

    assert differing == []
    assert 150 < refusals < 450


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("0 9 * * *\n", id="a line break at the end"),
        pytest.param("\t0\t9  * * *", id="tabs and many spaces"),
        pytest.param("@DAILY", id="a macro in capitals"),
        pytest.param("0 0/1 * * ?", id="a step from a number, and a question mark"),
        pytest.param("0 48 10 ? * WED", id="seconds and a name"),
        pytest.param("5-1 * * * *", id="minutes that wrap around"),
        pytest.param("0 22-2 * * *", id="hours that wrap around"),
        pytest.param("*/40 * * * *", id="a step that does not part the hour evenly"),
        pytest.param("0 0 * * 5L", id="the last Friday"),
        pytest.param("0 0 * * 7", id="Sunday as 7"),
        pytest.param("0 0 30 2 *", id="a day that never comes"),
        pytest.param("0 0 0 29 2 * 2100", id="a year after the last"),
        pytest.param(" ".join([",".join(["0"] * 96), "* * * *"]), id="199 characters"),
    ],
)
def test_what_the_parser_understands_passes_the_door(served: Cluster, expression: str) -> None:
    assert parser_refuses(expression) == ""

    answer = create(served, schedule=expression)

    assert answer.status == 201, answer.text


def test_every_zone_of_the_zone_data_passes_the_door(served: Cluster) -> None:
    zones = resources.files("tzdata").joinpath("zones").read_text().split()
    places = [zone for zone in zones if zone != "Factory"]

    answer = create(served, schedule="0 9 * * *", timeZones=places)

    assert len(places) > 500
    assert answer.status == 201, answer.text


@pytest.mark.parametrize(
    "duration",
    ["1ms", "500ms", "1.5s", "90s", "10m", "1.5h", "1d", "365d", "8760h", "31536000000ms", "0.001s", "00012m"],
)
def test_a_duration_passes_the_door_and_the_parser(served: Cluster, duration: str) -> None:
    answer = create(served, interval="1h", jitter=duration)

    assert answer.status == 201, answer.text
    assert parse_duration(duration) >= 1


@pytest.mark.parametrize(
    "duration",
    ["0s", "0.0m", "365.001d", "8761h", "1h30m", "1 h", " 1h", "1H", "1w", "1e3s", "+1s", "-1s", ".5s", "1.s", "1"],
)
def test_what_is_no_duration_passes_neither(served: Cluster, duration: str) -> None:
    answer = create(served, interval="1h", jitter=duration)

    assert answer.status == 422
    assert f'spec.jitter: Invalid value: "{duration}"'.replace('"', '\\"') in answer.text
    with pytest.raises(ValueError, match="write"):
        parse_duration(duration)


@pytest.mark.parametrize(
    ("interval", "passes"),
    [
        pytest.param("1.1m", True, id="66 seconds"),
        pytest.param("0.7h", True, id="2520 seconds"),
        pytest.param("1000ms", True, id="one second"),
        pytest.param("1001ms", False, id="a millisecond over"),
        pytest.param("999ms", False, id="a millisecond under"),
        pytest.param("0.001m", False, id="60 milliseconds"),
        pytest.param("364.999d", False, id="a year less 86.4 seconds"),
        pytest.param("364.5d", True, id="a year less half a day"),
    ],
)
def test_an_interval_counts_whole_seconds(served: Cluster, interval: str, passes: bool) -> None:
    assert (create(served, interval=interval).status == 201) == passes
