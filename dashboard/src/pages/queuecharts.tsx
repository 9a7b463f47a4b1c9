// A queue over time: what was done, from the minutes that daemons recorded; and its backlog, recorded and as the page sees it.
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { get } from "../api";
import { Chart, Ring } from "../chart";
import { fill, recorded } from "../history";
import { usePoll } from "../poll";
import { alter, place } from "../route";
import { serverNow } from "../server";
import { many, milliseconds, short } from "../text";
import { Choice, Shown } from "../ui";

const EVERY_MS = 5000;
const RECORDED_MS = 60_000;
/** Points of the backlog that the page has seen itself: an hour. */
export const SEEN = 3.6e6 / EVERY_MS;
/** Buckets of a range that a daemon records: at most those of a week. */
const BUCKETS = 200;
const RANGES: Record<string, string> = { 1: "Last hour", 6: "Last 6 hours", 24: "Last day", 168: "Last week" };

/** seen: the backlog since the page was opened; turn: changes with it. */
export function QueueCharts({ queue, seen, turn }: { queue: string; seen: Ring; turn: number }): JSX.Element {
  const hours = place.value.query.get("hours") ?? "1";
  const rates = useRef(new Ring(3)).current;
  const ages = useRef(new Ring(2)).current;
  const backlog = useRef(new Ring(2, SEEN + BUCKETS)).current;
  const looks = useRef(0);
  const range = (): { from: string; to: string } => {
    const now = serverNow();
    return { from: new Date(now - (Number(hours) || 1) * 3.6e6).toISOString(), to: new Date(now).toISOString() };
  };
  const polled = usePoll(async (signal) => {
    const done = await get("/api/v1/analytics/queue-ops", { query: { queue, ...range() }, signal });
    fill(rates, ages, done);
    looks.current += 1;
    return done;
  }, `${queue}\n${hours}`, EVERY_MS);
  const before = usePoll(async (signal) => {
    const found = recorded(await get("/api/v1/analytics/queue-backlog", { query: { queue, ...range() }, signal }));
    looks.current += 1;
    return found;
  }, `${queue}\n${hours}`, RECORDED_MS);
  return <section aria-label="Charts">
    <div class="heading"><h2>Activity</h2><Choice label="Time range" value={hours} values={RANGES} onChange={(wanted) => alter({ hours: wanted === "1" ? undefined : wanted })} /></div>
    <Shown of={polled}>{(done) => {
      backlog.clear();
      seen.data[0]?.forEach((at, i) => at !== null && backlog.add(at, seen.data.slice(1).map((line) => line[i] ?? null)));
      backlog.prepend(before.value ?? []);
      backlog.trim(Date.parse(done.timeRange.from ?? "") / 1000);
      return <>
        <div class="charts three">
          <Chart small title="Messages per second" ring={rates} turn={looks.current} write={short} lines={[{ label: "pushed", colour: "--a" }, { label: "popped", colour: "--b", dash: [8, 4] }, { label: "acknowledged", colour: "--c", dash: [3, 3] }]} />
          <Chart small title="Backlog in messages" ring={backlog} turn={looks.current + turn} write={short} lines={[{ label: "pending", colour: "--a" }, { label: "in flight", colour: "--b", dash: [8, 4] }]} />
          <Chart small title="Age at delivery" ring={ages} turn={looks.current} write={milliseconds} none="No messages were delivered." lines={[{ label: "mean", colour: "--a" }, { label: "longest", colour: "--b", dash: [8, 4] }]} />
        </div>
        <p class="quiet">Of all daemons, by {done.bucketMinutes === 1 ? "minute" : many(done.bucketMinutes, "minute")}. The backlog is recorded once a minute{before.error ? " (not available)" : ""}, and shown every 5 seconds since this page was opened. The age at delivery includes delays.</p>
      </>;
    }}</Shown>
  </section>;
}
