import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, getPage } from "../api";
import { Chart, clock } from "../chart";
import { DEAD_MIN, SILENT_S, troublesOf, verdict, type Seen, type Trouble } from "../health";
import { known, past, recorded } from "../history";
import "./overview.css";
import { usePoll } from "../poll";
import { mayAdmin } from "../session";
import { bytes, count, milliseconds, seconds, short, visible } from "../text";
import { Says } from "../connection";
import { Icon } from "../icons";
import { Facts, Heading, Shown, Tag } from "../ui";
import { SHOWN_S, Watch } from "../watch";
import { TopQueues } from "./top";

const EVERY_MS = 2000;
const PROBLEMS_MS = 15_000;
/** Queues and groups of a kind that are asked for: more than are listed. */
const NAMED = 100;
/** Seconds that a message waits until its group counts as behind. */
const BEHIND_S = 300;

/** A number with its unit beside it. */
function messages(value: number | undefined): JSX.Element | string {
  return value === undefined ? "–" : <>{count(value)} <span class="unit">{value === 1 ? "message" : "messages"}</span></>;
}

/** Seconds since the last answer; 0 up to SILENT_S. A hidden tab asks nothing: its time does not count. */
function useSilence(it: Watch): number {
  const [silence, setSilence] = useState(0);
  useEffect(() => {
    const look = (): void => {
      const passed = (performance.now() - it.answered) / 1000;
      setSilence(passed > SILENT_S && !document.hidden ? Math.round(passed) : 0);
    };
    const seen = (): void => { it.answered = performance.now(); };
    const timer = window.setInterval(look, 1000);
    document.addEventListener("visibilitychange", seen);
    return () => { clearInterval(timer); document.removeEventListener("visibilitychange", seen); };
  }, [it]);
  return silence;
}

/** New dead letters, paused queues and groups, and groups that are behind. */
function useSeen(): { seen: Omit<Seen, "buffered"> | undefined; error: unknown } {
  const polled = usePoll(async (signal) => {
    const [found, [lagging], [list], [stopped]] = await Promise.all([
      get("/api/v1/analytics/worker-metrics", { signal }),
      getPage("/api/v1/consumer-groups", { query: { minLagSeconds: BEHIND_S, limit: NAMED }, signal }),
      getPage("/api/v1/resources/queues", { query: { paused: true, limit: NAMED }, signal }),
      getPage("/api/v1/consumer-groups", { query: { pausedBy: "group", limit: NAMED }, signal })]);
    const since = Date.parse(found.timeRange.to ?? "") - DEAD_MIN * 60_000;
    const dead = found.timeSeries.reduce((sum, one) => sum + (Date.parse(one.timestamp) > since ? one.dlqCount : 0), 0);
    return { dead, paused: list.queues, stopped, lagging };
  }, "problems", PROBLEMS_MS);
  return { seen: polled.value, error: polled.error };
}

function Troubles({ of }: { of: Trouble[] }): JSX.Element | null {
  if (!of.length) return null;
  return <section aria-label="Problems"><ul class="troubles">{of.map((one) => <li key={`${one.title}\n${one.names ?? ""}`} class={one.kind}>
    <Icon of="problem" /><b title={one.names && visible(one.names)}><bdi>{visible(one.title)}</bdi></b>. {one.text} <a href={one.link}>{one.where}<span class="unseen">: {visible(one.title)}</span></a>
  </li>)}</ul></section>;
}

export function Overview(): JSX.Element {
  const watch = useRef<Watch | null>(null);
  watch.current ??= new Watch();
  const it = watch.current;
  const silence = useSilence(it);
  const { seen, error } = useSeen();
  const polled = usePoll(async (signal) => {
    const now = await get("/api/v1/system/live", { signal });
    it.take(now);
    return now;
  }, "live", EVERY_MS);
  const host = polled.value?.host;
  const before = usePoll(async (signal) => {
    if (host === undefined) return null;
    const [metrics, backlog] = await Promise.all([get("/api/v1/analytics/system-metrics", { query: { hostname: host }, signal }), get("/api/v1/analytics/queue-backlog", { signal })]);
    const found = past(metrics);
    it.rates.prepend(found.rates);
    it.latency.prepend(found.latency);
    it.backlog.prepend(known(recorded(backlog)));
    it.turn += 1;
    return found.rates.length;
  }, `before\n${host ?? ""}`, 0);
  return <>
    <Heading title="Overview" />
    <Shown of={{ ...polled, error: polled.value ? undefined : polled.error }}>{(now) => {
      const troubles = troublesOf(now, { dead: 0, paused: [], stopped: [], lagging: [], ...seen, buffered: it.bufferedBefore }, mayAdmin.value);
      const health = verdict(now, polled.error, silence, troubles);
      const old = health.word === "no answer";
      return <>
        <div class={`health ${health.kind}`}><p role={old ? "alert" : "status"}><Tag kind={health.kind}>{health.word}</Tag> {health.text}{old && <Says />}</p>
          <p class="quiet">{now.host}, up {seconds((Date.parse(now.at) - Date.parse(now.startedAt)) / 1000)}, as of {clock(Date.parse(now.at) / 1000)}</p></div>
        {!old && <Troubles of={troubles} />}
        {!old && error !== undefined && <p class="note">Dead letters, groups behind, paused queues and paused groups could not be checked.</p>}
        <div class={old ? "figures old" : "figures"}><Facts of={{
          Backlog: messages(now.backlog?.pending), "In flight": messages(now.backlog?.processing),
          "Oldest pending message": now.backlog ? seconds(now.backlog.oldestSeconds) : "–", "Dead letters": messages(now.backlog?.deadLetters),
          "Failover buffer": messages(now.buffer.pending), Queues: count(now.backlog?.queues), Partitions: count(now.backlog?.partitions),
          "Client connections": count(now.connections), "Waiting long polls": count(now.parked), "Memory of this daemon": bytes(now.residentBytes),
        }} /></div>
        {!now.backlog && <p class="note">The database does not answer; the backlog is unknown.</p>}
        <div class="charts three">
          <Chart title="Messages per second" ring={it.rates} turn={it.turn} write={short} lines={[{ label: "pushed", colour: "--a" }, { label: "popped", colour: "--b", dash: [8, 4] }, { label: "acknowledged", colour: "--c", dash: [3, 3] }]} />
          <Chart title="Latency" ring={it.latency} turn={it.turn} write={milliseconds} lines={[{ label: "push mean", colour: "--a" }, { label: "push p99", colour: "--b", dash: [8, 4] }, { label: "ack p99", colour: "--c", dash: [3, 3] }]} />
          <Chart title="Backlog in messages" ring={it.backlog} turn={it.turn} write={short} lines={[{ label: "pending", colour: "--a" }, { label: "in flight", colour: "--b", dash: [8, 4] }]} />
        </div>
        <p class="quiet">Rates and latencies are of this daemon, and of its host by minute for the {SHOWN_S / 60} minutes before this page was opened. The backlog is of the whole database; in each partition, the group with most messages counts{now.backlog && now.backlog.statsAge > 2 ? `. It is ${seconds(now.backlog.statsAge)} old` : ""}. {before.error ? "What was recorded before is not available. " : ""}Percentiles are not recorded: they begin when the page is opened. Operations of transactions are not counted here, and messages taken with autoAck do not count as acknowledged; the charts of a queue count both. Updates stop while this tab is hidden.</p>
        <TopQueues />
      </>;
    }}</Shown>
  </>;
}
