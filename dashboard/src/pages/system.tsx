import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, getPage, post, Refused } from "../api";
import { usePoll } from "../poll";
import { alter, place, to } from "../route";
import { mayAdmin } from "../session";
import { bytes, count, seconds, visibleLines } from "../text";
import { Ask, Facts, Heading, Name, Pager, Search, Shown, Table, Tag, Time } from "../ui";
import { PartitionTable } from "./partitions";

const PAGE = 50;

export function Partitions(): JSX.Element {
  const queue = place.value.query.get("queue") ?? "";
  return <>
    <Heading title="Partitions" />
    <div class="filters"><Search label="Queue (exact name)" value={queue} onChange={(value) => alter({ queue: value, prefix: undefined, after: undefined })} /></div>
    {queue ? <PartitionTable queue={queue} /> : <p class="quiet">Enter a queue, or choose one on the page <a href={to(["queues"])}>Queues</a>.</p>}
  </>;
}

export function Scheduled(): JSX.Element {
  const query = place.value.query;
  const queue = query.get("queue") ?? "";
  const offset = Number(query.get("offset")) || 0;
  const polled = usePoll((signal) => get("/api/v1/messages/scheduled", { query: { queue, limit: PAGE + 1, offset }, signal }), `${queue}\n${offset}`, 5000);
  return <>
    <Heading title="Scheduled messages" />
    <div class="filters"><Search label="Queue (exact name)" value={queue} onChange={(value) => alter({ queue: value, offset: undefined })} /></div>
    <Shown of={polled}>{(found) => <>
      <Table caption="Scheduled messages" rows={found.scheduled.slice(0, PAGE)} none="No scheduled messages." columns={[
        { title: "Due", cell: (row) => <Time at={row.deliverAt} /> }, { title: "In", number: true, cell: (row) => seconds(Math.max(0, (Date.parse(row.deliverAt) - Date.now()) / 1000)) },
        { title: "Queue", cell: (row) => <a href={to(["queues", row.queue])}><Name>{row.queue}</Name></a> }, { title: "Partition", cell: (row) => <Name>{row.partition}</Name> },
        { title: "Messages", number: true, cell: (row) => count(row.messages) },
        { title: "First", cell: (row) => row.transactionId === null ? "" : <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> }]} />
      <Pager offset={offset} shown={Math.min(PAGE, found.scheduled.length)} page={PAGE} more={found.scheduled.length > PAGE} />
      <p class="quiet">Messages with a delivery time. Delays by <code>delayedProcessing</code> are not shown.</p>
    </>}</Shown>
  </>;
}

export function Streams(): JSX.Element {
  const offset = Number(place.value.query.get("offset")) || 0;
  const polled = usePoll((signal) => getPage("/streams/v1/queries", { query: { limit: PAGE, offset }, signal }), String(offset), 10_000);
  return <>
    <Heading title="Streams" />
    <Shown of={polled}>{([found, more]) => <>
      <Table caption="Streams" rows={found.queries} none="No streams." columns={[
        { title: "Stream", cell: (row) => <Name>{row.name}</Name> }, { title: "Source", cell: (row) => <a href={to(["queues", row.source_queue])}><Name>{row.source_queue}</Name></a> },
        { title: "Sink", cell: (row) => row.sink_queue ? <a href={to(["queues", row.sink_queue])}><Name>{row.sink_queue}</Name></a> : "–" },
        { title: "State keys", number: true, cell: (row) => row.state_keys >= 10_000 ? "10,000 or more" : count(row.state_keys) },
        { title: "Registered", cell: (row) => <Time at={row.created_at} /> }, { title: "Last registered", cell: (row) => <Time at={row.updated_at} /> }]} />
      <Pager offset={offset} shown={found.queries.length} page={PAGE} more={more} />
    </>}</Shown>
  </>;
}

export function Daemons(): JSX.Element {
  const now = usePoll((signal) => get("/api/v1/system/live", { signal }), "live", 5000);
  const past = usePoll((signal) => get("/api/v1/analytics/worker-metrics", { signal, query: { from: new Date(Date.now() - 6e5).toISOString() } }), "workers", 15_000);
  return <>
    <Heading title="Daemons" />
    <section><h2>This daemon</h2><Shown of={now}>{(one) => <Facts of={{
      Host: <Name>{one.host}</Name>, Version: one.version, State: one.ready ? <Tag kind="good">serving</Tag> : <Tag kind="bad">not serving</Tag>,
      Database: one.doubts.length ? one.doubts.join(", ") : "healthy", "Running since": <Time at={one.startedAt} />, Memory: bytes(one.residentBytes),
      "CPU time": seconds(one.cpuSeconds), Connections: count(one.connections), "Parked pops": count(one.parked), "Database errors": count(one.dbErrors),
    }} />}</Shown></section>
    <section><h2>Workers of all daemons</h2><Shown of={past}>{(found) => <Table caption="Workers" rows={found.workers} none="No metrics yet. The first are written a minute after the start." columns={[
      { title: "Host", cell: (row) => <Name>{row.hostname}</Name> }, { title: "Worker", number: true, cell: (row) => count(row.workerId) },
      { title: "Loop lag, ms", number: true, cell: (row) => `${row.avgEventLoopLagMs} (max ${row.maxEventLoopLagMs})` }, { title: "Free connections", number: true, cell: (row) => `${row.freeSlots} of ${row.dbConnections}` },
      { title: "Jobs waiting", number: true, cell: (row) => count(row.jobQueueSize) }, { title: "Messages", number: true, cell: (row) => count(row.messagesProcessed) }, { title: "Last seen", cell: (row) => <Time at={row.lastSeen} /> }]} />}</Shown></section>
  </>;
}

const LEVELS: Record<string, "good" | "bad" | "warn" | "plain"> = { ok: "good", warning: "warn", critical: "bad", error: "bad" };

/** What the doctor says, worst first; a daemon of before has none. */
export function Doctor(): JSX.Element {
  const polled = usePoll(async (signal) => {
    try {
      return await get("/api/v1/system/doctor", { signal });
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return null;
      throw error;
    }
  }, "doctor", 60_000);
  return <>
    <Heading title="Doctor"><button type="button" onClick={polled.again}>Check again</button></Heading>
    <Shown of={polled}>{(found) => found === null ? <p class="note">This daemon has no doctor: <code>GET /api/v1/system/doctor</code> answers 404.</p> : <>
      <p><Tag kind={LEVELS[found.status] ?? "plain"}>{found.status}</Tag> <span class="quiet">checked <Time at={found.timestamp} />: {found.checks.join(", ")}</span></p>
      {!found.findings.length && <p>No problems found.</p>}
      {found.findings.map((one, at) => <section key={at} class="chart">
        <h2><Tag kind={LEVELS[one.level] ?? "plain"}>{one.level}</Tag> <Name>{one.title}</Name></h2>
        <p>{visibleLines(one.evidence)}</p><p><b>Advice:</b> {visibleLines(one.advice)}</p>
      </section>)}
    </>}</Shown>
  </>;
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
        <Facts of={{ Pushes: now.maintenanceMode ? <Tag kind="warn">buffered</Tag> : <Tag kind="good">stored</Tag>, Pops: now.popMaintenanceMode ? <Tag kind="warn">paused</Tag> : <Tag kind="good">delivered</Tag>,
          "Failover buffer": count(now.bufferedMessages), Quarantined: count(now.bufferStats.failedCount), "Database available": now.bufferStats.dbHealthy ? "yes" : "no" }} />
        <div class="actions"><button type="button" onClick={() => setSwitching("push")}>{now.maintenanceMode ? "Stop buffering pushes" : "Buffer all pushes"}</button>
          <button type="button" onClick={() => setSwitching("pop")}>{now.popMaintenanceMode ? "Resume all delivery" : "Pause all delivery"}</button></div>
        {switching && <Ask title={switching === "push" ? "Push maintenance" : "Pop maintenance"} verb={on ? "Switch off" : "Switch on"} danger={!on} onClose={close} onDo={async () => {
          await post(switching === "push" ? "/api/v1/system/maintenance" : "/api/v1/system/maintenance/pop", { body: { enabled: !on } });
        }}><p>{switching === "push" ? (on ? "The daemons store buffered messages, and new pushes, in the database." : "Every daemon stores pushes in its failover buffer until you switch this off.") : (on ? "All daemons deliver messages again." : "No daemon delivers messages until you switch this off.")}</p></Ask>}
      </>;
    }}</Shown>
  </>;
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
      { title: "Setting", cell: (row) => <>{row.name} {row.changed && <Tag kind="plain">changed</Tag>}</> }, { title: "Value", cell: (row) => row.value === "" ? "–" : <><Name>{row.value}</Name> {row.unit}</> },
      { title: "Origin", cell: (row) => row.origin }, { title: "Description", cell: (row) => row.about }]} />}</Shown>
    <p class="quiet">Secrets are masked. Settings are changed in the daemon's configuration.</p>
  </>;
}
