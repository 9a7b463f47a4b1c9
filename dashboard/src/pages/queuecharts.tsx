// A queue over time: what was done, from the minutes the daemons wrote; its backlog, as it is seen while the page is open.
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { get, type Answer } from "../api";
import { Chart, Ring } from "../chart";
import { usePoll } from "../poll";
import { alter, place } from "../route";
import { serverNow } from "../server";
import { many, short } from "../text";
import { Choice, Shown } from "../ui";

type Done = Answer<"/api/v1/analytics/queue-ops", "get">;
const EVERY_MS = 5000;
const RANGES: Record<string, string> = { 1: "Last hour", 6: "Last 6 hours", 24: "Last day", 168: "Last week" };

/** A point for each bucket of the range: where nothing was done, none was written. */
export function fill(ring: Ring, done: Done): void {
  const width = done.bucketMinutes * 60;
  const known = new Map(done.series.map((one) => [Date.parse(one.bucket) / 1000, one]));
  const from = Date.parse(done.timeRange.from ?? "") / 1000;
  const to = Date.parse(done.timeRange.to ?? "") / 1000;
  ring.clear();
  for (let at = from - from % width; at <= to; at += width) {
    const one = known.get(at);
    ring.add(at, one ? [one.pushPerSecond, one.popPerSecond, one.ackPerSecond] : [0, 0, 0]);
  }
}

export function QueueCharts({ queue, backlog, turn }: { queue: string; backlog: Ring; turn: number }): JSX.Element {
  const hours = place.value.query.get("hours") ?? "1";
  const rates = useRef(new Ring(3));
  const looks = useRef(0);
  const polled = usePoll(async (signal) => {
    const now = serverNow();
    const done = await get("/api/v1/analytics/queue-ops", { query: { queue, from: new Date(now - (Number(hours) || 1) * 3.6e6).toISOString(), to: new Date(now).toISOString() }, signal });
    fill(rates.current, done);
    looks.current += 1;
    return done;
  }, `${queue}\n${hours}`, EVERY_MS);
  return <>
    <div class="filters"><Choice label="Time range" value={hours} values={RANGES} onChange={(wanted) => alter({ hours: wanted })} /></div>
    <Shown of={polled}>{(done) => <>
      <div class="charts">
        <Chart title="Messages per second" ring={rates.current} turn={looks.current} write={short} lines={[{ label: "pushed", colour: "--a" }, { label: "popped", colour: "--b", dash: [8, 4] }, { label: "acknowledged", colour: "--c", dash: [3, 3] }]} />
        <Chart title="Backlog in messages" ring={backlog} turn={turn} write={short} lines={[{ label: "pending", colour: "--a" }, { label: "in flight", colour: "--b", dash: [8, 4] }]} />
      </div>
      <p class="quiet">Rates are of all daemons, in intervals of {many(done.bucketMinutes, "minute")}. The backlog is shown since this page was opened: one point every 5 seconds, at most 300.</p>
    </>}</Shown>
  </>;
}
