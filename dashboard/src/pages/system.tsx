import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, getPage, post } from "../api";
import { Icon } from "../icons";
import { queueNames } from "../names";
import { usePoll } from "../poll";
import { alter, place, to } from "../route";
import { serverNow } from "../server";
import { limited, mayAdmin } from "../session";
import { count, many, seconds, unitOf } from "../text";
import { Ask, Facts, Heading, Name, Pager, PartitionLink, QueueLink, Search, Shown, Table, Tag, Time, Words } from "../ui";
import "./doctor.css";
import { EnterQueue } from "./limited";
import { PartitionTable } from "./partitions";

const PAGE = 50;

export function Partitions(): JSX.Element {
  const queue = place.value.query.get("queue") ?? "";
  return <>
    <Heading title="Partitions" />
    <div class="filters"><Search label="Queue" value={queue} suggest={queueNames} onChange={(value) => alter({ queue: value, prefix: undefined, after: undefined })} /></div>
    {queue ? <PartitionTable queue={queue} /> : <p class="quiet">Enter a queue, or choose one on the page <a href={to(["queues"])}>Queues</a>.</p>}
  </>;
}

export function Scheduled(): JSX.Element {
  const query = place.value.query;
  const queue = query.get("queue") ?? "";
  const offset = Number(query.get("offset")) || 0;
  const polled = usePoll(async (signal) => limited.value && !queue ? { scheduled: [] } : await get("/api/v1/messages/scheduled", { query: { queue, limit: PAGE + 1, offset }, signal }), `${queue}\n${offset}`, 5000);
  return <>
    <Heading title="Scheduled messages" />
    <div class="filters"><Search label="Queue" value={queue} suggest={queueNames} onChange={(value) => alter({ queue: value, offset: undefined })} /></div>
    {limited.value && !queue ? <EnterQueue /> : <Shown of={polled}>{(found) => <>
      <Table caption="Scheduled messages" rows={found.scheduled.slice(0, PAGE)} none={queue ? "No scheduled messages in this queue." : "No scheduled messages."} columns={[
        { title: "Due", cell: (row) => <Time at={row.deliverAt} /> }, { title: "In", number: true, cell: (row) => seconds(Math.max(0, (Date.parse(row.deliverAt) - serverNow()) / 1000)) },
        { title: "Queue", fills: true, cell: (row) => <QueueLink>{row.queue}</QueueLink> }, { title: "Partition", fills: true, cell: (row) => <PartitionLink queue={row.queue}>{row.partition}</PartitionLink> },
        { title: "Messages", number: true, cell: (row) => count(row.messages) },
        { title: "First message", fills: true, cell: (row) => row.transactionId === null ? "" : <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> }]} />
      <Pager offset={offset} shown={Math.min(PAGE, found.scheduled.length)} page={PAGE} more={found.scheduled.length > PAGE} />
      <p class="quiet">Messages with a delivery time. Delays by <code>delayedProcessing</code> are not shown.</p>
    </>}</Shown>}
  </>;
}

export function Streams(): JSX.Element {
  const offset = Number(place.value.query.get("offset")) || 0;
  const polled = usePoll((signal) => getPage("/streams/v1/queries", { query: { limit: PAGE, offset }, signal }), String(offset), 10_000);
  return <>
    <Heading title="Streams" />
    <Shown of={polled}>{([found, more]) => <>
      <Table caption="Streams" rows={found.queries} none="No streams. A stream processor registers its query (POST /streams/v1/queries)." columns={[
        { title: "Stream", fills: true, cell: (row) => <Name>{row.name}</Name> }, { title: "Source", fills: true, cell: (row) => <QueueLink>{row.source_queue}</QueueLink> },
        { title: "Sink", fills: true, cell: (row) => row.sink_queue && <QueueLink>{row.sink_queue}</QueueLink> },
        { title: "State keys", number: true, cell: (row) => row.state_keys >= 10_000 ? "10,000 or more" : count(row.state_keys) },
        { title: "Registered", cell: (row) => <Time at={row.created_at} /> }, { title: "Last registered", cell: (row) => <Time at={row.updated_at} /> }]} />
      <Pager offset={offset} shown={found.queries.length} page={PAGE} more={more} />
    </>}</Shown>
  </>;
}

function Switched({ on }: { on: boolean }): JSX.Element {
  return on ? <Tag kind="warn">on</Tag> : <Tag kind="plain">off</Tag>;
}

export function Maintenance(): JSX.Element {
  const [switching, setSwitching] = useState<"push" | "pop" | null>(null);
  const polled = usePoll((signal) => get("/api/v1/system/maintenance", { signal }), "maintenance", 3000);
  const close = (): void => { setSwitching(null); polled.again(); };
  return <>
    <Heading title="Maintenance" />
    <Shown of={polled}>{(now) => {
      const on = switching === "push" ? now.maintenanceMode : now.popMaintenanceMode;
      return <>
        <Facts of={{ "Failover buffer": many(now.bufferedMessages, "message"), Quarantine: many(now.bufferStats.failedCount, "message"), "Database available": now.bufferStats.dbHealthy ? <Tag kind="good">yes</Tag> : <Tag kind="bad">no</Tag> }} />
        <div class="charts">
          <article class={`finding ${now.maintenanceMode ? "warn" : ""}`}><h2>Push maintenance <Switched on={now.maintenanceMode} /></h2>
            <p>While it is on, every daemon stores pushes in its failover buffer instead of the database: for work on the database. When it is switched off, they are stored there.</p>
            <div class="actions"><button type="button" onClick={() => setSwitching("push")}><Icon of={now.maintenanceMode ? "resume" : "pause"} />{now.maintenanceMode ? "Stop buffering pushes" : "Buffer all pushes"}</button></div></article>
          <article class={`finding ${now.popMaintenanceMode ? "warn" : ""}`}><h2>Pop maintenance <Switched on={now.popMaintenanceMode} /></h2>
            <p>While it is on, no daemon delivers messages: for work on consumers. Pushes and acknowledgments go on.</p>
            <div class="actions"><button type="button" onClick={() => setSwitching("pop")}><Icon of={now.popMaintenanceMode ? "resume" : "pause"} />{now.popMaintenanceMode ? "Resume all delivery" : "Pause all delivery"}</button></div></article>
        </div>
        {switching && <Ask title={switching === "push" ? "Push maintenance" : "Pop maintenance"} verb={on ? "Switch off" : "Switch on"} danger={!on} onClose={close} onDo={async () => {
          await post(switching === "push" ? "/api/v1/system/maintenance" : "/api/v1/system/maintenance/pop", { body: { enabled: !on } });
        }}><p>{switching === "push" ? (on ? "The daemons store buffered messages, and new pushes, in the database." : "Every daemon stores pushes in its failover buffer until you switch this off.") : (on ? "All daemons deliver messages again." : "No daemon delivers messages until you switch this off.")}</p></Ask>}
      </>;
    }}</Shown>
  </>;
}

/** A text in which names stand between backticks. */
function Prose({ children }: { children: string }): JSX.Element {
  return <>{children.split("`").map((part, i) => i % 2 ? <code key={i}>{part}</code> : part)}</>;
}

export function SettingsPage(): JSX.Element {
  const [search, setSearch] = useState("");
  const [changed, setChanged] = useState(false);
  const polled = usePoll((signal) => get("/api/v1/system/settings", { signal }), String(mayAdmin.value), 0);
  return <>
    <Heading title="Settings" />
    <div class="filters"><Search label="Search" value={search} onChange={setSearch} />
      <label class="field check"><input type="checkbox" checked={changed} onChange={(event) => setChanged(event.currentTarget.checked)} />Only changed settings</label></div>
    <Shown of={polled}>{(found) => <Table caption="Settings" none="No matching settings." rows={found.filter((one) => (!changed || one.changed) && `${one.name} ${one.about}`.toLowerCase().includes(search.toLowerCase()))} columns={[
      { title: "Setting", names: true, cell: (row) => <>{row.name} {row.changed && <Tag kind="plain">changed</Tag>}</> }, { title: "Value", cell: (row) => row.value === "" ? "–" : <><Words>{row.value}</Words> {unitOf(row.value, row.unit)}</> },
      { title: "Origin", cell: (row) => row.origin }, { title: "Description", cell: (row) => <Prose>{row.about}</Prose> }]} />}</Shown>
    <p class="quiet">Secrets are masked. Settings are changed in the daemon's configuration.</p>
  </>;
}
