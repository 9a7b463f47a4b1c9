// What the overview has seen of a daemon: the points of its charts, and what changed between two answers.
import { Ring } from "./chart";
import type { Live } from "./health";

/** The time that the charts of the overview show. */
export const SHOWN_S = 3600;
/** The page asks every 2 s: live points of an hour, and its minutes before. */
const POINTS = SHOWN_S / 2 + 60;
/** The failover buffer fills if it holds more than so many answers ago: 30 s. */
const BUFFERED = 15;

/** The latency below which a part of what was counted between two looks stayed: within its bucket at a geometric middle, in ms. */
export function quantile(now: number[], before: number[], part: number): number | null {
  const between = now.map((value, i) => value - (before[i] ?? 0));
  const all = between.reduce((sum, value) => sum + value, 0);
  if (all <= 0) return null;
  let seen = 0;
  for (let i = 0; i < between.length; i += 1) {
    const here = between[i] ?? 0;
    if (here && seen + here >= part * all) return (i ? 2 ** (i - 1) * 2 ** ((part * all - seen) / here) : 1) / 1000;
    seen += here;
  }
  return null;
}

export class Watch {
  readonly rates = new Ring(3, POINTS);
  readonly latency = new Ring(3, POINTS);
  readonly backlog = new Ring(2, POINTS);
  turn = 0;
  /** When the last answer came, by performance.now(). */
  answered = performance.now();
  private last: Live | null = null;
  private buffered: number[] = [];

  /** Messages in the failover buffer 30 s ago, or at the first look. */
  get bufferedBefore(): number {
    return this.buffered[0] ?? 0;
  }

  take(now: Live): void {
    const before = this.last;
    this.last = now;
    this.turn += 1;
    this.answered = performance.now();
    this.buffered = [...this.buffered, now.buffer.pending].slice(-BUFFERED);
    const at = Date.parse(now.at) / 1000;
    this.backlog.add(at, now.backlog ? [now.backlog.pending, now.backlog.processing] : [null, null]);
    // Another life of the daemon, or another daemon behind the same address: no difference means anything.
    if (before && before.startedAt === now.startedAt && before.host === now.host) this.compare(before, now, at);
    for (const ring of [this.rates, this.latency, this.backlog]) ring.trim(at - SHOWN_S);
  }

  private compare(before: Live, now: Live, at: number): void {
    const passed = at - Date.parse(before.at) / 1000;
    if (passed <= 0) return;
    const rate = (job: "push" | "pop" | "ack"): number => Math.max(0, (now.jobs[job].items - before.jobs[job].items) / passed);
    this.rates.add(at, [rate("push"), rate("pop"), rate("ack")]);
    const [push, pushed, ack, acked] = [now.jobs.push, before.jobs.push, now.jobs.ack, before.jobs.ack];
    const requests = push.requests - pushed.requests;
    const mean = requests > 0 ? (push.latencySumUs - pushed.latencySumUs) / requests / 1000 : null;
    this.latency.add(at, [mean, quantile(push.latencyBuckets, pushed.latencyBuckets, 0.99), quantile(ack.latencyBuckets, acked.latencyBuckets, 0.99)]);
  }
}
