// How messages pass through a queue: what is pushed, where it waits, and how far behind each group is.
import type { JSX } from "preact";
import { get, getPage, type Answer } from "../api";
import { QUEUE_MODE } from "../names";
import { usePoll } from "../poll";
import { to } from "../route";
import { serverNow } from "../server";
import { count, seconds, short } from "../text";
import { GroupLink, Name, Shown, Tag } from "../ui";
import "./topology.css";

type Row = Answer<"/api/v1/consumer-groups", "get">[number];
type Done = Answer<"/api/v1/analytics/queue-ops", "get">;
const SHOWN = 4;
/** Partitions whose backlogs are compared: those whose messages wait longest. */
const COMPARED = 500;
/** The range in which the newest minutes are. */
const NEWEST_MS = 180_000;
const EVERY_MS = 5000;

/** The messages pushed per second in the newest minute that is over, or that runs if it is the only one. */
export function pushed(done: Done): number {
  const now = Date.parse(done.timeRange.to ?? "");
  const last = done.series.filter((one) => one.pushMessages > 0).at(-1);
  return last && now - Date.parse(last.bucket) < 2 * done.bucketMinutes * 60_000 ? last.pushPerSecond : 0;
}

/** The groups with the largest lag first. */
export function byLag(groups: Row[]): Row[] {
  return [...groups].sort((a, b) => b.totalLag - a.totalLag || b.maxTimeLag - a.maxTimeLag);
}

export function Topology({ queue, paused }: { queue: string; paused: boolean }): JSX.Element {
  const polled = usePoll(async (signal) => {
    const [done, [rows, more]] = await Promise.all([
      get("/api/v1/analytics/queue-ops", { query: { queue, from: new Date(serverNow() - NEWEST_MS).toISOString() }, signal }),
      getPage("/api/v1/consumer-groups", { query: { queue, limit: 1000 }, signal })]);
    const groups = byLag(rows);
    const slowest = groups[0];
    const hot = await get("/api/v1/resources/queues/{queue}/depth", { names: { queue }, query: { group: slowest?.name ?? QUEUE_MODE, limit: COMPARED }, signal });
    return { rate: pushed(done), groups, more, hot: [...hot.partitions].sort((a, b) => b.pending - a.pending).slice(0, SHOWN), waiting: hot.partitionsPending };
  }, queue, EVERY_MS);
  return <Shown of={polled}>{({ rate, groups, more, hot, waiting }) => <section class="topology" aria-label="Topology">
    <div><h2>Producers</h2><p>{rate ? `${short(rate)} messages per second` : "no pushes in the last minute"}</p></div>
    <span class="arrow" aria-hidden="true">→</span>
    <div><h2>{hot.length ? "Partitions with the largest lag" : "Partitions"} {paused && <Tag kind="warn">paused</Tag>}</h2>
      {hot.length ? <ul>{hot.map((one) => <li key={one.partition}>
        <a href={to(["queues", queue, "messages"], { partition: one.partition })}><Name>{one.partition}</Name></a><span>lag {count(one.pending)}</span></li>)}</ul> : <p class="quiet">No messages wait.</p>}
      {waiting > hot.length && <p class="quiet"><a href={to(["queues", queue, "partitions"], { sort: "backlog" })}>and {count(waiting - hot.length)} more {waiting - hot.length === 1 ? "partition" : "partitions"}</a></p>}</div>
    <span class="arrow" aria-hidden="true">→</span>
    <div><h2>Groups</h2>
      {groups.length ? <ul>{groups.slice(0, SHOWN).map((one) => <li key={one.name}>
        <GroupLink>{one.name}</GroupLink>
        <span>{one.totalLag ? `lag ${count(one.totalLag)}, ${seconds(one.maxTimeLag)}` : "no lag"} {one.paused && <Tag kind="warn">paused</Tag>}</span></li>)}</ul> : <p class="quiet">No group has consumed messages of this queue.</p>}
      {groups.length > SHOWN && <p class="quiet"><a href={to(["queues", queue, "groups"])}>and {more ? "more groups" : groups.length - SHOWN === 1 ? "1 more group" : `${count(groups.length - SHOWN)} more groups`}</a></p>}</div>
  </section>}</Shown>;
}
