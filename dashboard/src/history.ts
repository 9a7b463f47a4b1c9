// What daemons recorded before the page was opened, as points of charts.
import type { Answer } from "./api";
import type { Ring } from "./chart";

type Metrics = Answer<"/api/v1/analytics/system-metrics", "get">;
export type Done = Answer<"/api/v1/analytics/queue-ops", "get">;
export type Backlogs = Answer<"/api/v1/analytics/queue-backlog", "get">;
type Point = [number, (number | null)[]];

/** Messages per second (pushed, popped, acknowledged) and the mean latency of pushes (ms), for each whole minute. Minutes without a record are null. */
export function past(found: Metrics): { rates: Point[]; latency: Point[] } {
  const minutes = new Map<number, { items: [number, number, number]; requests: number; us: number }>();
  for (const one of found.replicas.flatMap((replica) => replica.timeSeries)) {
    const at = Date.parse(one.timestamp) / 1000;
    const { push, pop, ack } = one.metrics.shared_state.sidecar_ops;
    const sum = minutes.get(at) ?? { items: [0, 0, 0], requests: 0, us: 0 };
    minutes.set(at, { items: [sum.items[0] + push.items, sum.items[1] + pop.items, sum.items[2] + ack.items], requests: sum.requests + push.count, us: sum.us + push.count * push.latency_us });
  }
  const end = Date.parse(found.timeRange.to ?? "") / 1000;
  const rates: Point[] = [];
  const latency: Point[] = [];
  // The running minute is left out: it is not over, and the live points show it.
  for (let at = Math.min(...minutes.keys()); at + 60 <= end; at += 60) {
    const one = minutes.get(at);
    rates.push([at + 30, one ? one.items.map((n) => n / 60) : [null, null, null]]);
    latency.push([at + 30, [one?.requests ? one.us / one.requests / 1000 : null, null, null]]);
  }
  return { rates, latency };
}

/** Each bucket of a range, and what was recorded in it. */
export function* buckets<T extends { bucket: string }>(of: { timeRange: Done["timeRange"]; bucketMinutes: number; series: T[] }): Generator<[number, T | undefined]> {
  const width = of.bucketMinutes * 60;
  const known = new Map(of.series.map((one) => [Date.parse(one.bucket) / 1000, one]));
  const from = Date.parse(of.timeRange.from ?? "") / 1000;
  const to = Date.parse(of.timeRange.to ?? "") / 1000;
  for (let at = from - from % width; at <= to; at += width) yield [at, known.get(at)];
}

/** Fills the charts of a queue: messages per second (pushed, popped, acknowledged), and the mean and the largest age at delivery (ms). Where nothing was done, nothing was recorded: the rates are 0 there, the ages null. */
export function fill(rates: Ring, ages: Ring, done: Done): void {
  rates.clear();
  ages.clear();
  for (const [at, one] of buckets(done)) {
    rates.add(at, one ? [one.pushPerSecond, one.popPerSecond, one.ackPerSecond] : [0, 0, 0]);
    ages.add(at, one?.popMessages ? [one.avgLagMs, Math.max(one.avgLagMs, one.maxLagMs)] : [null, null]);      // the largest is in whole ms
  }
}

/** The recorded backlog: pending messages and messages in flight. Buckets without a record are null. The last one may not be recorded yet: then it is left out. */
export function recorded(found: Backlogs): Point[] {
  const all = [...buckets(found)];
  if (all.at(-1)?.[1] === undefined) all.pop();
  return all.map(([at, one]) => [at, one ? [one.pending, one.processing] : [null, null]]);
}

/** The points from the first one with a value on. */
export function known(points: Point[]): Point[] {
  const first = points.findIndex(([, values]) => values.some((value) => value !== null));
  return first < 0 ? [] : points.slice(first);
}
