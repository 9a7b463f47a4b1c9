// This daemon, and what all daemons at the database wrote about themselves.
import type { JSX } from "preact";
import { get, type Answer } from "../api";
import { SILENT_S, verdict } from "../health";
import { usePoll } from "../poll";
import { serverNow } from "../server";
import { Spark } from "../spark";
import { bytes, count, seconds } from "../text";
import { Says } from "../connection";
import { Facts, Heading, Name, Shown, Table, Tag, Time } from "../ui";

type Replica = Answer<"/api/v1/analytics/system-metrics", "get">["replicas"][number];
/** A daemon that wrote no minute for so long does not report: it writes one a minute. */
const GONE_S = 180;

/** Percent of a processor in each recorded minute. */
function cpu(replica: Replica): number[] {
  return replica.timeSeries.map(({ metrics }) => ((metrics.cpu.user_us.avg ?? 0) + (metrics.cpu.system_us.avg ?? 0)) / 100);
}

function memory(replica: Replica): number[] {
  return replica.timeSeries.map(({ metrics }) => metrics.memory.rss_bytes.last ?? 0);
}

function Reports({ last }: { last: string | undefined }): JSX.Element {
  const silent = last === undefined ? Infinity : (serverNow() - Date.parse(last)) / 1000;
  return silent > GONE_S ? <Tag kind="warn">silent for {seconds(silent)}</Tag> : <Tag kind="good">reporting</Tag>;
}

export function Daemons(): JSX.Element {
  const now = usePoll((signal) => get("/api/v1/system/live", { signal }), "live", 5000);
  const all = usePoll((signal) => get("/api/v1/analytics/system-metrics", { signal }), "daemons", 30_000);
  const past = usePoll((signal) => get("/api/v1/analytics/worker-metrics", { signal, query: { from: new Date(serverNow() - 6e5).toISOString() } }), "workers", 15_000);
  return <>
    <Heading title="Daemons" />
    <section><h2>This daemon</h2><Shown of={{ ...now, error: now.value ? undefined : now.error }}>{(one) => {
      const health = verdict(one, now.error, now.error ? SILENT_S : 0, []);
      return <>
        <p role={now.error ? "alert" : "status"}><Tag kind={health.kind}>{health.word}</Tag> {health.text}{now.error && <Says />}</p>
        <Facts of={{
          Host: <Name>{one.host}</Name>, Version: one.version, "Running since": <Time at={one.startedAt} />, Memory: bytes(one.residentBytes),
          "CPU time": seconds(one.cpuSeconds), "Client connections": count(one.connections), "Waiting long polls": count(one.parked), "Database errors": count(one.dbErrors),
        }} />
      </>;
    }}</Shown></section>
    <section><h2>All daemons at this database, last hour</h2><Shown of={all}>{(found) => <Table caption="Daemons" rows={found.replicas} none="No metrics yet. The first are written a minute after the start." columns={[
      { title: "Host", cell: (row) => <Name>{row.hostname}</Name> }, { title: "Port", number: true, cell: (row) => row.port },
      { title: "State", cell: (row) => <Reports last={row.timeSeries.at(-1)?.timestamp} /> },
      { title: "CPU", cell: (row) => <Spark lines={[cpu(row)]} label={`CPU by minute, at most ${Math.max(0, ...cpu(row)).toFixed(1)} %`} /> },
      { title: "CPU, last minute", number: true, cell: (row) => `${(cpu(row).at(-1) ?? 0).toFixed(1)} %` },
      { title: "Memory", cell: (row) => <Spark lines={[memory(row)]} label={`memory by minute, at most ${bytes(Math.max(0, ...memory(row)))}`} /> },
      { title: "Memory, last", number: true, cell: (row) => bytes(memory(row).at(-1) ?? 0) },
      { title: "Free connections", number: true, cell: (row) => { const pool = row.timeSeries.at(-1)?.metrics.database; return pool ? `${count(pool.pool_idle.last)} of ${count(pool.pool_size.last)}` : "–"; } }]} />}</Shown></section>
    <section><h2>Workers of all daemons</h2><Shown of={past}>{(found) => <Table caption="Workers" rows={found.workers} none="No metrics yet. The first are written a minute after the start." columns={[
      { title: "Host", cell: (row) => <Name>{row.hostname}</Name> }, { title: "Worker", number: true, cell: (row) => count(row.workerId) },
      { title: "Loop lag", number: true, cell: (row) => `${count(row.avgEventLoopLagMs)} ms (max ${count(row.maxEventLoopLagMs)} ms)` }, { title: "Free connections", number: true, cell: (row) => `${row.freeSlots} of ${row.dbConnections}` },
      { title: "Jobs waiting", number: true, cell: (row) => count(row.jobQueueSize) }, { title: "Messages", number: true, cell: (row) => count(row.messagesProcessed) }, { title: "Last seen", cell: (row) => <Time at={row.lastSeen} /> }]} />}</Shown></section>
  </>;
}
