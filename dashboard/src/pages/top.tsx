// The queues with the largest backlog, and what was pushed and acknowledged in each of them in the last hour.
import type { JSX } from "preact";
import { get, getPage } from "../api";
import { buckets, type Done } from "../history";
import { usePoll } from "../poll";
import { to } from "../route";
import { Spark } from "../spark";
import { count } from "../text";
import { QueueLink, Shown, Table, Tag } from "../ui";

const SHOWN = 5;

/** Pushed and acknowledged messages per second, by the minutes of the range; 0 where none was recorded. */
function byMinute(done: Done): [number[], number[]] {
  const each = [...buckets(done)].map(([, one]) => one);
  return [each.map((one) => one?.pushPerSecond ?? 0), each.map((one) => one?.ackPerSecond ?? 0)];
}

function Sparkline({ queue }: { queue: string }): JSX.Element {
  const polled = usePoll((signal) => get("/api/v1/analytics/queue-ops", { query: { queue }, signal }), queue, 60_000);
  if (!polled.value) return <span class="quiet">{polled.error ? "not available" : "Loading…"}</span>;
  const sum = (key: "pushMessages" | "ackSuccess"): string => count(polled.value?.series.reduce((all, one) => all + one[key], 0));
  return <Spark lines={byMinute(polled.value)} label={`${sum("pushMessages")} pushed, ${sum("ackSuccess")} acknowledged in the last hour`} />;
}

export function TopQueues(): JSX.Element {
  const polled = usePoll((signal) => getPage("/api/v1/resources/queues", { query: { sort: "pending", limit: SHOWN }, signal }), "top", 10_000);
  return <section class="top"><div class="heading"><h2>Largest backlogs</h2><a href={to(["queues"], { sort: "pending" })}>All queues</a></div>
    <Shown of={polled}>{([found]) => <>
      <Table caption="Largest backlogs" rows={found.queues} none="No queues. The first push creates one." columns={[
        { title: "Queue", fills: true, cell: (row) => <><QueueLink>{row.name}</QueueLink> {row.paused && <Tag kind="warn">paused</Tag>}</> },
        { title: "Pending", number: true, cell: (row) => count(row.messages.pending) },
        { title: "In flight", number: true, cell: (row) => count(row.messages.processing) },
        { title: "Dead letters", number: true, cell: (row) => row.deadLetters ? <a href={to(["dead"], { queue: row.name })}>{count(row.deadLetters)}</a> : "0" },
        { title: "Last hour", cell: (row) => <Sparkline key={row.name} queue={row.name} /> },
      ]} />
      {found.queues.length > 0 && <p class="quiet">Last hour: <svg class="a" width="18" height="4" aria-hidden="true"><line x1="0" y1="2" x2="18" y2="2" /></svg> pushed and <svg class="b" width="18" height="4" aria-hidden="true"><line x1="0" y1="2" x2="18" y2="2" stroke-dasharray="4 3" /></svg> acknowledged, by minute; each queue has its own scale.</p>}
    </>}</Shown>
  </section>;
}
