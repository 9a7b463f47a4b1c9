"""Options as settings read them: values, edges, and what has no effect. No session of Spark."""
from __future__ import annotations

import pytest

from queend.spark.settings import LINK, SINK, SOURCE, OptionError, Options, SinkSettings
from queend.spark.wanted import SourceSettings


def source(streaming: bool = True, **options: str) -> SourceSettings:
    return SourceSettings.of(Options({"subscribe": "orders", **options}), streaming)


def sink(streaming: bool = False, **options: str) -> SinkSettings:
    return SinkSettings.of(Options({"queue": "orders", **options}), streaming)


@pytest.mark.parametrize(("text", "seconds"), [
    ("250", 0.25), ("0", 0), ("500ms", 0.5), ("10s", 10), ("15m", 900), ("15min", 900), ("2H", 7200), ("1h30m", 5400),
    ("1d", 86_400)])
def test_delays_as_kafka_spells_them(text: str, seconds: float) -> None:
    assert source(minOffsetsPerTrigger="5", maxTriggerDelay=text).delay == seconds


def test_defaults_are_those_of_kafka() -> None:
    one = source()
    assert (one.most, one.least, one.delay, one.strict, one.start.word) == (None, None, 900, True, "latest")
    assert one.start.strict and not one.end.strict and one.format == sink().format == "json"
    assert source(False).start.word == "earliest"


@pytest.mark.parametrize(("options", "text"), [
    ({"maxTriggerDelay": "soon"}, 'option "maxTriggerDelay" must be a number with a unit, like 500ms, 30s, 15m or 1h, '
                                  'not "soon"'),
    ({"maxTriggerDelay": "-1s"}, 'not "-1s"'),
    ({"maxOffsetsPerTrigger": "0"}, 'option "maxOffsetsPerTrigger" must be an integer from 1 to'),
    ({"maxOffsetsPerTrigger": "-5"}, 'not "-5"'),
    ({"maxOffsetsPerTrigger": "1e6"}, 'not "1e6"'),
    ({"maxOffsetsPerTrigger": str(2**63)}, f'to {2**63 - 1}, not "{2**63}"'),
    ({"minOffsetsPerTrigger": "0"}, 'option "minOffsetsPerTrigger" must be an integer from 1 to'),
    ({"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"},
     'option "minOffsetsPerTrigger" must be at most "maxOffsetsPerTrigger", which is 10, not 11'),
    ({"failOnDataLoss": "no"}, 'option "failOnDataLoss" must be true or false, not "no"'),
    ({"startingOffsetsByTimestampStrategy": "earliest"},
     'option "startingOffsetsByTimestampStrategy" must be error or latest, not "earliest"'),
    ({"valueFormat": "avro"}, 'option "valueFormat" must be json or base64 or text, not "avro"'),
    ({"minoffsetpertrigger": "1"}, 'there is no option "minoffsetpertrigger"; did you mean minOffsetsPerTrigger?'),
    ({"groupidprefix": "shop"}, 'there is no option "groupIdPrefix": a queue is read without a consumer group; the '
                                'option "commitGroup" names one whose lag shows the progress'),
    ({"kafka.group.id": "shop"}, 'there is no option "kafka.group.id": a queue is read without a consumer group; the '
                                 'option "commitGroup" names one'),
    ({"kafka.sasl.jaas.config": "x"}, 'there is no option "kafka.sasl.jaas.config": set the options "token" or'),
    ({"kafka.bootstrap.servers": "h:9092"}, 'set the option "url" to the address of the daemon'),
    ({"endingOffsets": "latest"}, 'option "endingOffsets" is for batches: a stream has no end'),
])
def test_what_cannot_be_is_said(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        source(**options)
    assert text in str(caught.value)


@pytest.mark.parametrize(("streaming", "options", "told"), [
    (False, {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"},
     ["maxOffsetsPerTrigger on a batch", "minOffsetsPerTrigger on a batch"]),
    (False, {"maxTriggerDelay": "5s", "commitGroup": "g"}, ["maxTriggerDelay on a batch", "commitGroup on a batch"]),
    (True, {"maxTriggerDelay": "5s"}, ["maxTriggerDelay without minOffsetsPerTrigger"]),
    (True, {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "5s", "commitGroup": "g", "valueFormat": "text"}, []),
    (True, {"batchRows": "5", "queryId": "q"}, ["batchRows on a read", "queryId on a read"]),
    (True, {"queue": "other"}, ["queue on a read"]),
    (False, {"fetchoffset.numretries": "3", "option.url": "x"}, ["fetchoffset.numretries on a read"]),
    (False, {"startingOffsetsByTimestampStrategy": "latest"},
     ["startingOffsetsByTimestampStrategy without startingTimestamp or startingOffsetsByTimestamp"]),
    (False, {"startingOffsetsByTimestampStrategy": "latest", "startingTimestamp": "5"}, []),
])
def test_what_has_no_effect_on_a_read_is_logged(caplog: pytest.LogCaptureFixture, streaming: bool, options: dict,
                                                told: list[str]) -> None:
    source(streaming, **options)
    assert caplog.messages == ['option "{}" has no effect {}'.format(*one.split(" ", 1)) for one in told]


def test_a_queue_to_read_may_be_called_queue(caplog: pytest.LogCaptureFixture) -> None:
    assert SourceSettings.of(Options({"queue": "orders"}), streaming=True).queues == ("orders",)
    assert not caplog.messages


def test_what_has_no_effect_on_a_write_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    sink(subscribe="orders", maxOffsetsPerTrigger="5", queryId="q", valueFormat="base64")
    sink(True, queryId="q", path="ignored, as Spark sets it")
    assert caplog.messages == ['option "subscribe" has no effect on a write',
                               'option "maxOffsetsPerTrigger" has no effect on a write',
                               'option "queryId" has no effect on a stream: its query id is that of its checkpoint']


def test_every_option_belongs_to_a_side() -> None:
    """Names of the connection have an effect on both sides, so they are neither a source's nor a sink's."""
    assert not set(LINK) & (set(SOURCE) | set(SINK))
    assert set(SOURCE) & set(SINK) == {"valueFormat"}
