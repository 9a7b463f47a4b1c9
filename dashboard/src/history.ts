// The last hour of this host's daemons, from the minutes that they wrote: points for the charts of the overview.
import type { Answer } from "./api";

type Metrics = Answer<"/api/v1/analytics/system-metrics", "get">;
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
