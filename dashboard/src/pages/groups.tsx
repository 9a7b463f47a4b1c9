import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { get, getPage, post, remove, type Answer } from "../api";
import { Icon } from "../icons";
import { groupTitle } from "../names";
import { usePoll } from "../poll";
import { alter, go, place, to } from "../route";
import { limited, mayAdmin, mayWrite } from "../session";
import { count, many, seconds } from "../text";
import { Ask, Choice, Field, Group, GroupLink, Heading, moment, Name, Pager, PartitionLink, Press, QueueLink, Search, Shown, Table, Tag, text, Time } from "../ui";
import { Replay } from "./replay";
import { byLag } from "./topology";

const PAGE = 50;
/** Groups, or partitions of a group, that are compared by their lag: the first ones. */
const COMPARED = 1000;

/** Partitions with a lag that are listed. */
const LAGGING = 20;

type Row = Answer<"/api/v1/consumer-groups", "get">[number];

/** Paused goes before the rest: what is paused lags. */
function State({ row }: { row: Row }): JSX.Element {
  if (row.paused) return <Tag kind="warn">{row.pausedBy === "queue" ? "queue paused" : "paused"}</Tag>;
  return <Tag kind={row.state === "Stable" ? "good" : "warn"}>{row.state.toLowerCase()}</Tag>;
}

export function GroupTable({ queue, search, children }: { queue: string; search: string; children?: ComponentChildren }): JSX.Element {
  const offset = Number(place.value.query.get("offset")) || 0;
  const lag = place.value.query.get("sort") === "lag";
  const polled = usePoll((signal) => getPage("/api/v1/consumer-groups", { query: { queue, search, ...(lag ? { limit: COMPARED } : { limit: PAGE, offset }) }, signal }), `${queue}\n${search}\n${offset}\n${lag}`, 5000);
  return <>
  <div class="filters">{children}<Choice label="Sort by" value={lag ? "lag" : "name"} values={{ name: "Name", lag: "Largest lag first" }} onChange={(wanted) => alter({ sort: wanted === "lag" ? wanted : undefined, offset: undefined })} /></div>
  <Shown of={polled}>{([found, more]) => <>
    <Table caption="Consumer groups" rows={lag ? byLag(found).slice(0, PAGE) : found} none={search ? "No matching consumer groups." : offset ? "No more consumer groups." : "No consumer groups. A group exists from its first pop on."} columns={[
      { title: "Group", fills: true, cell: (row) => <GroupLink>{row.name}</GroupLink> },
      { title: "Queue", fills: true, cell: (row) => <QueueLink>{row.queueName}</QueueLink> },
      { title: "State", cell: (row) => <State row={row} /> },
      { title: "Lag", number: true, cell: (row) => count(row.totalLag) },
      { title: "Lag time", number: true, cell: (row) => seconds(row.maxTimeLag) },
      { title: "Partitions with lag", number: true, cell: (row) => count(row.partitionsWithLag) },
      { title: "Cursors", number: true, cell: (row) => count(row.members) },
      ...(found.some((one) => one.subscriptionMode) ? [{ title: "Subscription mode", cell: (row: Row) => row.subscriptionMode ?? "" }] : []),
    ]} />
    {lag ? found.length > PAGE && <p class="quiet">The {PAGE} with the largest lag of {more ? `the first ${count(COMPARED)} groups by name` : many(found.length, "group")}.</p> : <Pager offset={offset} shown={found.length} page={PAGE} more={more} />}
  </>}</Shown></>;
}

export function GroupList(): JSX.Element {
  const search = place.value.query.get("search") ?? "";
  const lagging = usePoll((signal) => get("/api/v1/consumer-groups/lagging", { query: { minLagSeconds: 300, limit: LAGGING }, signal }), "lagging", 10_000);
  return <>
    <Heading title="Consumer groups" />
    <GroupTable queue="" search={search}><Search label="Search groups" value={search} onChange={(value) => alter({ search: value, offset: undefined })} /></GroupTable>
    <section><h2>Partitions with a lag of more than 5 minutes</h2>
      <Shown of={lagging}>{(found) => <Table caption="Lagging partitions" rows={found} none="No partition has such a lag." columns={[
        { title: "Group", fills: true, cell: (row) => <GroupLink>{row.consumer_group}</GroupLink> }, { title: "Queue", fills: true, cell: (row) => <QueueLink>{row.queue_name}</QueueLink> },
        { title: "Partition", fills: true, cell: (row) => <PartitionLink queue={row.queue_name}>{row.partition_name}</PartitionLink> }, { title: "Lag", number: true, cell: (row) => count(row.offset_lag) },
        { title: "Lag time", number: true, cell: (row) => seconds(row.time_lag_seconds) },
      ]} />}</Shown>
      {(lagging.value?.length ?? 0) >= LAGGING && <p class="quiet">The {LAGGING} whose messages wait longest are shown.</p>}</section>
  </>;
}

const NONE = "The group no longer exists. Nothing was deleted.";
const SHOWN = 100;
/** Partitions where a group stands, of which a page shows the first; null: not known. */
function standing(state: { members: number } | undefined, shown: unknown[]): number | null {
  return state?.members ?? (shown.length < SHOWN ? shown.length : null);
}

export function GroupPage({ group }: { group: string }): JSX.Element {
  const [seeking, setSeeking] = useState<{ queue: string; partition?: string } | null>(null);
  const [deleting, setDeleting] = useState<{ queue?: string; partitions: number | null } | null>(null);
  const [kind, setKind] = useState("end");
  const [replaying, setReplaying] = useState<string | null>(null);
  const lag = place.value.query.get("sort") === "lag";
  const polled = usePoll(async (signal) => {
    const shown = get("/api/v1/consumer-groups/{group}", { names: { group }, query: { limit: lag ? COMPARED : SHOWN }, signal });
    const state = async (queue?: string): Promise<Row[]> => (await getPage("/api/v1/consumer-groups", { query: { queue, search: group, limit: 1000 }, signal }))[0];
    // a token that is limited to queues may ask for the state in one of them
    const [places, rows] = await Promise.all([shown, limited.value ? Promise.all(Object.keys(await shown).map(state)).then((all) => all.flat()) : state()]);
    const states = new Map(rows.filter((row) => row.name === group).map((row) => [row.queueName, row]));
    return [...new Set([...Object.keys(places), ...states.keys()])].map((queue) => {
      const all = places[queue]?.partitions ?? [];
      return { queue, state: states.get(queue), more: all.length >= COMPARED, partitions: lag ? all.sort((a, b) => b.offsetLag - a.offsetLag || b.timeLagSeconds - a.timeLagSeconds).slice(0, SHOWN) : all };
    });
  }, `${group}\n${lag}`, 5000);
  const close = (): void => { setSeeking(null); setDeleting(null); polled.again(); };
  return <>
    <Heading title={<><span class="quiet">Group </span><Group>{group}</Group></>} />
    <Shown of={polled}>{(found) => <>
      {!found.length && <p class="quiet">The group does not exist. It is created by its first pop. See the page <a href={to(["groups"])}>Groups</a>.</p>}
      {found.length > 0 && <div class="filters"><Choice label="Sort by" value={lag ? "lag" : "creation"} values={{ creation: "Creation", lag: "Largest lag first" }} onChange={(wanted) => alter({ sort: wanted === "lag" ? wanted : undefined })} /></div>}
      {found.map(({ queue, state, partitions, more }) => <section key={queue}>
        <div class="heading"><h2>In <a href={to(["queues", queue])}><Name>{queue}</Name></a> {state && <State row={state} />}</h2><div class="actions">
          {mayWrite.value && <Press onDo={async () => {
            await post(state?.pausedBy === "group" ? "/api/v1/consumer-groups/{group}/queues/{queue}/resume" : "/api/v1/consumer-groups/{group}/queues/{queue}/pause", { names: { group, queue } });
            polled.again();
          }}><Icon of={state?.pausedBy === "group" ? "resume" : "pause"} />{state?.pausedBy === "group" ? "Resume" : "Pause"}<span class="unseen"> in {queue}</span></Press>}
          {mayWrite.value && <button type="button" onClick={() => setSeeking({ queue })}>Seek</button>}
          <button type="button" aria-expanded={replaying === queue} onClick={() => setReplaying(replaying === queue ? null : queue)}><Icon of="retry" />Replay<span class="unseen"> in {queue}</span></button>
          {mayAdmin.value && <button type="button" class="danger" onClick={() => setDeleting({ queue, partitions: standing(state, partitions) })}><Icon of="delete" />Delete in this queue</button>}</div></div>
        {replaying === queue && <Replay group={group} queue={queue} onMoved={polled.again} />}
        <Table caption={`Partitions of ${queue}`} rows={partitions} none="The group has not consumed messages of this queue." columns={[
          { title: "Partition", fills: true, cell: (row) => <PartitionLink queue={queue}>{row.partition}</PartitionLink> },
          { title: "Next offset", number: true, cell: (row) => count(row.offset) }, { title: "Head", number: true, cell: (row) => count(row.head) },
          { title: "Lag", number: true, cell: (row) => count(row.offsetLag) }, { title: "Lag time", number: true, cell: (row) => seconds(row.timeLagSeconds) },
          { title: "Consumed", number: true, cell: (row) => count(row.totalConsumed) },
          { title: "Lease", cell: (row) => row.standsSince ? <Tag kind="bad">blocked</Tag> : row.leaseActive ? <a href={to(["leases"], { queue, group })}><Tag kind="good">active</Tag></a> : "" },
          { title: "Last consumed", cell: (row) => <Time at={row.lastConsumedAt} /> },
          { title: "Actions", cell: (row) => mayWrite.value && <button type="button" class="small" onClick={() => setSeeking({ queue, partition: row.partition })}>Seek<span class="unseen"> in {row.partition}</span></button> },
        ]} />
        {partitions.length >= SHOWN && <p class="quiet">{!lag ? `Only the first ${SHOWN} partitions are shown.` : `The ${SHOWN} with the largest lag${more ? ` of the first ${count(COMPARED)} partitions` : ""} are shown.`}</p>}
      </section>)}
      {mayAdmin.value && found.length > 0 && <button type="button" class="danger" onClick={() => setDeleting({ partitions: found.reduce((sum: number | null, one) => { const more = standing(one.state, one.partitions); return sum === null || more === null ? null : sum + more; }, 0) })}><Icon of="delete" />Delete in all queues</button>}
    </>}</Shown>
    {seeking && <Ask title={seeking.partition === undefined ? "Seek in all partitions" : "Seek in one partition"} verb="Seek" onClose={close} onDo={async (form) => {
      const body = kind === "end" ? { toEnd: true } : kind === "time" ? { timestamp: moment(text(form, "at")) } : { offset: Number(text(form, "offset")) };
      const names = { group, queue: seeking.queue };
      if (seeking.partition === undefined) return `Moved the cursors of ${many((await post("/api/v1/consumer-groups/{group}/queues/{queue}/seek", { names, body })).partitionsUpdated, "partition")}.`;
      const done = await post("/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", { names: { ...names, partition: seeking.partition }, body });
      return done.updated ? "The cursor was moved." : "The cursor was already at this position.";
    }}>
      <p>Moving forward skips messages; moving back delivers them again.</p>
      <Choice label="Position" value={kind} values={{ end: "End", time: "Time", offset: "Offset" }} onChange={setKind} />
      {kind === "time" && <Field label="Time" name="at" type="datetime-local" step={1} required />}
      {kind === "offset" && <Field label="Offset" name="offset" type="number" min={0} required defaultValue="0" />}
    </Ask>}
    {deleting && <Ask title="Delete group" verb="Delete" danger confirm={groupTitle(group)} onClose={close} onDo={async () => {
      if (deleting.queue === undefined) {
        if (!(await remove("/api/v1/consumer-groups/{group}", { names: { group } })).existed) throw new Error(NONE);
        go(to(["groups"]));
      } else if (!(await remove("/api/v1/consumer-groups/{group}/queues/{queue}", { names: { group, queue: deleting.queue } })).existed) throw new Error(NONE);
    }}><p>Deletes the cursors of the group{deleting.partitions === null ? "" : ` in ${many(deleting.partitions, "partition")}`}{deleting.queue === undefined ? " of all its queues" : ""}. Messages are kept. If the group is used again, it starts as a new group.</p></Ask>}
  </>;
}
