import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { get, type Answer } from "../api";
import { Chart, Ring } from "../chart";
import { usePoll } from "../poll";
import { count, milliseconds, seconds, short } from "../text";
import { Facts, Heading, Shown, Tag } from "../ui";

type Live = Answer<"/api/v1/system/live", "get">;
const EVERY_MS = 2000;

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

class Watch {
  readonly rates = new Ring(3);
  readonly latency = new Ring(3);
  readonly backlog = new Ring(2);
  turn = 0;
  private last: Live | null = null;

  take(now: Live): void {
    const before = this.last;
    this.last = now;
    this.turn += 1;
    const at = Date.parse(now.at) / 1000;
    this.backlog.add(at, now.backlog ? [now.backlog.pending, now.backlog.processing] : [null, null]);
    // Another life of the daemon, or another daemon behind the same address: no difference means anything.
    if (!before || before.startedAt !== now.startedAt || before.host !== now.host) return;
    const passed = at - Date.parse(before.at) / 1000;
    if (passed <= 0) return;
    const rate = (job: "push" | "pop" | "ack"): number => Math.max(0, (now.jobs[job].items - before.jobs[job].items) / passed);
    this.rates.add(at, [rate("push"), rate("pop"), rate("ack")]);
    const push = now.jobs.push.latencyBuckets;
    const pushed = before.jobs.push.latencyBuckets;
    this.latency.add(at, [quantile(push, pushed, 0.5), quantile(push, pushed, 0.99), quantile(now.jobs.ack.latencyBuckets, before.jobs.ack.latencyBuckets, 0.99)]);
  }
}

export function Overview(): JSX.Element {
  const watch = useRef<Watch | null>(null);
  watch.current ??= new Watch();
  const it = watch.current;
  const polled = usePoll(async (signal) => {
    const now = await get("/api/v1/system/live", { signal });
    it.take(now);
    return now;
  }, "live", EVERY_MS);
  return <>
    <Heading title="Overview" />
    <Shown of={polled}>{(now) => <>
      <p>
        {now.ready && !now.doubts.length ? <Tag kind="good">serving</Tag> : <Tag kind="bad">{now.ready ? "serving, with database problems" : "not serving"}</Tag>}{" "}
        {now.doubts.map((one) => <Tag key={one} kind="bad">{one}</Tag>)}
        {now.maintenance.push && <Tag kind="warn">push maintenance</Tag>} {now.maintenance.pop && <Tag kind="warn">delivery paused</Tag>}
        <span class="quiet"> {now.host}, up {seconds((Date.parse(now.at) - Date.parse(now.startedAt)) / 1000)}</span>
      </p>
      <Facts of={{
        Backlog: now.backlog ? count(now.backlog.pending) : "–", "In flight": now.backlog ? count(now.backlog.processing) : "–",
        "Oldest message": seconds(now.backlog?.oldestSeconds), "Dead letters": now.backlog ? count(now.backlog.deadLetters) : "–",
        Queues: now.backlog ? count(now.backlog.queues) : "–", Partitions: now.backlog ? count(now.backlog.partitions) : "–",
        Connections: count(now.connections), "Parked pops": count(now.parked), "Failover buffer": count(now.buffer.pending),
      }} />
      {!now.backlog && <p class="note">The database does not answer; the backlog is unknown.</p>}
      <div class="charts">
        <Chart title="Messages per second" ring={it.rates} turn={it.turn} write={short} lines={[{ label: "pushed", colour: "--a" }, { label: "popped", colour: "--b", dash: [8, 4] }, { label: "acknowledged", colour: "--c", dash: [3, 3] }]} />
        <Chart title="Latency" ring={it.latency} turn={it.turn} write={milliseconds} lines={[{ label: "push p50", colour: "--a" }, { label: "push p99", colour: "--b", dash: [8, 4] }, { label: "ack p99", colour: "--c", dash: [3, 3] }]} />
        <Chart title="Backlog" ring={it.backlog} turn={it.turn} write={short} lines={[{ label: "pending", colour: "--a" }, { label: "in flight", colour: "--b", dash: [8, 4] }]} />
      </div>
      <p class="quiet">Rates and latencies are of this daemon; the backlog is of the whole database{now.backlog && now.backlog.statsAge > 2 ? `, ${seconds(now.backlog.statsAge)} old` : ""}. Updates stop while this tab is hidden.</p>
    </>}</Shown>
  </>;
}
