// Who has messages: the live leases, with buttons that extend or release one, and the consumers that wait for messages.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, getPage, post, type Answer } from "../api";
import { Chips } from "../chips";
import { groupNames, groupTitle, queueNames } from "../names";
import { usePoll } from "../poll";
import { alter, place } from "../route";
import { serverNow } from "../server";
import { limited, mayWrite } from "../session";
import { count, many, seconds } from "../text";
import { Ask, Choice, Field, Group, GroupLink, Heading, Name, Pager, PartitionLink, QueueLink, Search, Shown, Table, Tag, text, Time } from "../ui";
import { EnterQueue } from "./limited";
import "./leases.css";

const PAGE = 50;
/** A daemon records its parked long polls once a minute: the last record is in one of the last two minutes. */
const PARKED_MS = 120_000;
const LONGEST_S = 31_536_000;

type Lease = Answer<"/api/v1/leases", "get">["leases"][number];
type Parked = Answer<"/api/v1/analytics/queue-parked-replicas", "get">["series"][number];
type Open = { extend: Lease } | { release: Lease };

/** How far a moment is, by the clock of the daemon; the moment itself when pointed at. */
function Distance({ at }: { at: string }): JSX.Element {
  const passed = (serverNow() - Date.parse(at)) / 1000;
  return <time dateTime={at} title={new Date(at).toLocaleString()}>{passed >= 0 ? `${seconds(passed)} ago` : `in ${seconds(-passed)}`}</time>;
}

/** The last record of each queue at each daemon. */
export function newest(series: Parked[]): Parked[] {
  const last = new Map<string, Parked>();
  for (const one of series) {
    const key = JSON.stringify([one.queueName, one.hostname, one.port]);
    const before = last.get(key);
    const at = Date.parse(one.bucket) - Date.parse(before?.bucket ?? one.bucket);
    if (!before || at > 0) last.set(key, one);
    else if (at === 0) last.set(key, { ...before, parkedCount: before.parkedCount + one.parkedCount });      // another worker
  }
  return [...last.values()].sort((a, b) => b.parkedCount - a.parkedCount || (a.queueName < b.queueName ? -1 : 1));
}

function Extend({ lease, onClose }: { lease: Lease; onClose: () => void }): JSX.Element {
  return <Ask title="Extend lease" verb="Extend" onClose={onClose} onDo={async (form) => {
    const done = await post("/api/v1/lease/{leaseId}/extend", { names: { leaseId: lease.leaseId }, body: { seconds: Number(text(form, "seconds")) } });
    if (!done.success || !done.expiresAt) throw new Error("The lease has ended. Nothing was extended.");
    return `The lease ends at ${new Date(done.expiresAt).toLocaleString()}${(done.renewed ?? 1) === 1 ? "" : `, or later, in ${many(done.renewed ?? 1, "partition")}`}.`;
  }}>
    <p>The lease <Name>{lease.leaseId}</Name> lasts at least so long from now, in every partition that it has. A lease is never shortened.</p>
    <Field label="Seconds" name="seconds" type="number" min={1} max={LONGEST_S} step={1} required defaultValue="300" />
  </Ask>;
}

function Release({ lease, onClose }: { lease: Lease; onClose: () => void }): JSX.Element {
  return <Ask title="Release lease" verb="Release" danger onClose={onClose} onDo={async () => {
    const answer = await post("/api/v1/ack", { body: { windowId: `${lease.partitionId}:${lease.leaseId}`, consumerGroup: lease.consumerGroup, status: "retry" } });
    const done = answer[0];
    if (!done?.success) throw new Error("The lease has ended. Nothing was released.");
    return "The lease was released. Its messages can be delivered again.";
  }}>
    <p>Ends the lease <Name>{lease.leaseId}</Name> of <Group>{lease.consumerGroup}</Group> in partition <Name>{lease.partition}</Name> of <Name>{lease.queue}</Name>. {many(lease.messages, "message")} can be delivered to another consumer at once; no failure is counted.</p>
    <p>If the present consumer still works, the messages are handled twice: its acknowledgments are refused.</p>
  </Ask>;
}

export function Leases(): JSX.Element {
  const query = place.value.query;
  const value = (name: string): string => query.get(name) ?? "";
  const set = (name: string) => (wanted: string): void => alter({ [name]: wanted, offset: undefined });
  const queue = value("queue");
  const group = value("group");
  const sort = value("sort") === "idle" ? "idle" : "expires";
  const offset = Number(value("offset")) || 0;
  return <>
    <Heading title="Consumers and leases" />
    <div class="filters">
      <Search label="Queue" value={queue} suggest={queueNames} onChange={set("queue")} /><Search label="Group" value={group} suggest={groupNames} onChange={set("group")} />
      <Choice label="Sort by" value={sort} values={{ expires: "Ends first", idle: "Silent for longest" }} onChange={(wanted) => set("sort")(wanted === "idle" ? wanted : "")} />
    </div>
    <Chips of={[["Queue", "queue"], ["Group", "group"]].map(([label = "", name = ""]) => ({ label, value: name === "group" ? groupTitle(value(name)) : value(name), onRemove: () => set(name)("") }))} />
    {limited.value && !queue ? <EnterQueue /> : <>
      <LeaseTable queue={queue} group={group} sort={sort} offset={offset} /><Waiting queue={queue} /></>}
  </>;
}

function LeaseTable({ queue, group, sort, offset }: { queue: string; group: string; sort: string; offset: number }): JSX.Element {
  const [open, setOpen] = useState<Open | null>(null);
  const polled = usePoll((signal) => getPage("/api/v1/leases", { query: { queue, consumerGroup: group, sort, limit: PAGE, offset }, signal }), `${queue}\n${group}\n${sort}\n${offset}`, 5000);
  const close = (): void => { setOpen(null); polled.again(); };
  return <section><h2>Leases</h2><Shown of={polled}>{([found, more]) => <>
    {(found.total > 0 || !found.complete) && <p class="quiet" role="status">{many(found.total, "lease")}{found.complete ? "" : ", among the 10,000 partitions whose leases end first"}.</p>}
    <Table caption="Leases" rows={found.leases} none={queue || group ? "No matching leases." : "No leases. No consumer has messages that it has not acknowledged."} columns={[
      { title: "Group", fills: true, cell: (row) => <GroupLink>{row.consumerGroup}</GroupLink> },
      { title: "Queue", fills: true, cell: (row) => <QueueLink>{row.queue}</QueueLink> },
      { title: "Partition", fills: true, cell: (row) => <PartitionLink queue={row.queue}>{row.partition}</PartitionLink> },
      { title: "Messages", number: true, cell: (row) => count(row.messages) },
      { title: "Last activity", cell: (row) => <Distance at={row.lastActivityAt} /> },
      { title: "Ends", cell: (row) => <Distance at={row.expiresAt} /> },
      { title: "Deliveries", number: true, cell: (row) => row.leasesLapsed ? <Tag kind="bad">{many(row.leasesLapsed, "lease")} expired</Tag> : row.deliveries > 1 ? <Tag kind="warn">{count(row.deliveries)}</Tag> : count(row.deliveries) },
      { title: "Lease id", cell: (row) => <span class="line lease" title={row.leaseId}>{row.leaseId}</span> },
      ...(mayWrite.value ? [{ title: "Actions", cell: (row: Lease) => <div class="actions">
        <button type="button" class="small" onClick={() => setOpen({ extend: row })}>Extend<span class="unseen"> the lease of {row.partition}</span></button>
        <button type="button" class="small danger" onClick={() => setOpen({ release: row })}>Release<span class="unseen"> the lease of {row.partition}</span></button></div> }] : []),
    ]} />
    <Pager offset={offset} shown={found.leases.length} page={PAGE} more={more} />
    {found.leases.length > 0 && <p class="quiet">Last activity: the delivery, or the last acknowledgment since. The daemon knows no names of consumers: the consumer that has a lease received its id as <code>leaseId</code> with the messages.</p>}
  </>}</Shown>
    {open && "extend" in open && <Extend lease={open.extend} onClose={close} />}
    {open && "release" in open && <Release lease={open.release} onClose={close} />}
  </section>;
}

function Waiting({ queue }: { queue: string }): JSX.Element {
  const polled = usePoll((signal) => get("/api/v1/analytics/queue-parked-replicas", { query: { queue, from: new Date(serverNow() - PARKED_MS).toISOString() }, signal }), queue, 15_000);
  return <section><h2>Consumers that wait for messages</h2><Shown of={polled}>{(found) => <>
    <Table caption="Waiting consumers" rows={newest(found.series)} none="No consumer waits in a long poll." columns={[
      { title: "Queue", cell: (row) => <QueueLink>{row.queueName}</QueueLink> },
      { title: "Daemon", cell: (row) => <Name>{`${row.hostname}:${row.port}`}</Name> },
      { title: "Long polls", number: true, cell: (row) => row.parkedCount >= 10 ? count(row.parkedCount) : String(Math.round(row.parkedCount * 10) / 10) },
      { title: "Minute", cell: (row) => <Time at={row.bucket} /> },
    ]} />
    {found.series.length > 0 && <p class="quiet">Parked long polls, on average over the last minute that was recorded.</p>}
  </>}</Shown></section>;
}
