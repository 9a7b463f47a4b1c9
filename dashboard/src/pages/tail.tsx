// New messages as they arrive, the newest first.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import "../tools.css";
import { get, type Answer } from "../api";
import { placeKey, readExcerpts } from "../excerpts";
import { Icon } from "../icons";
import { usePoll } from "../poll";
import { to } from "../route";
import { count, many } from "../text";
import { Name, QueueLink, Shown, Table, Tag, Time, Words } from "../ui";
import { MessageDialog } from "./messageview";

type Row = Answer<"/api/v1/messages", "get">["messages"][number];
const EVERY_MS = 1000;
const READ = 200;      // messages a request
const KEPT = 500;

interface State { rows: Row[]; started: number; missed: boolean }

export function TailTable({ queue, partition }: { queue: string; partition: string }): JSX.Element {
  const [paused, setPaused] = useState(false);
  const [view, setView] = useState<Row | null>(null);
  const key = `${queue}\n${partition}`;
  const state = useRef<State & { key: string }>({ key, rows: [], started: Date.now(), missed: false });
  const known = useRef(new Map<string, string>());
  if (state.current.key !== key) state.current = { key, rows: [], started: Date.now(), missed: false };
  const polled = usePoll(async (signal): Promise<State> => {
    const now = state.current;
    if (paused) return now;
    const { messages } = await get("/api/v1/messages", { query: { queue, partition, limit: READ }, signal });
    const there = new Set(now.rows.map(placeKey));
    const fresh = messages.filter((one) => !there.has(placeKey(one)));
    // a full page of new messages: there may be others between them and the known ones
    const missed = now.missed || (now.rows.length > 0 && fresh.length === READ);
    const rows = [...fresh, ...now.rows].slice(0, KEPT);
    await readExcerpts(rows, known.current, signal);
    const kept = new Set(rows.map(placeKey));
    for (const one of known.current.keys()) if (!kept.has(one)) known.current.delete(one);
    if (state.current === now) state.current = { ...now, rows, missed };
    return state.current;
  }, key, paused ? 0 : EVERY_MS);
  return <Shown of={polled}>{({ rows, started, missed }) => <>
    <div class="actions looked"><span role="status"><Tag kind={paused ? "warn" : "good"}>{paused ? "paused" : "live"}</Tag></span>
      <button type="button" onClick={() => setPaused(!paused)}><Icon of={paused ? "resume" : "pause"} />{paused ? "Resume" : "Pause"}</button>
      <span class="quiet">{many(rows.length, "message")} of the last hour and newer; the newest {KEPT} are kept. Asked every second, not while the tab is hidden. Since <Time at={new Date(started).toISOString()} />.</span></div>
    {missed && <p class="note">More than {READ} messages arrived between two requests: some older ones of these are not shown.</p>}
    <Table caption="Messages" rows={rows} none="No messages yet." columns={[
      { title: "Stored", cell: (row) => <Time at={row.createdAt} /> },
      { title: "Message", cell: (row) => <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> },
      { title: "Queue", cell: (row) => <QueueLink>{row.queue}</QueueLink> }, { title: "Partition", cell: (row) => <Name>{row.partition}</Name> },
      { title: "Offset", number: true, cell: (row) => count(row.offset) },
      { title: "Payload", fills: true, cell: (row) => <Excerpt text={known.current.get(placeKey(row))} /> },
      { title: "Actions", cell: (row) => <button type="button" class="small" onClick={() => setView(row)}>View<span class="unseen"> {row.transactionId}</span></button> },
    ]} />
    {view && <MessageDialog partitionId={view.partitionId} transactionId={view.transactionId} onClose={() => setView(null)} />}
  </>}</Shown>;
}

/** The beginning of a payload on one line. */
export function Excerpt({ text }: { text: string | undefined }): JSX.Element {
  return text === undefined ? <span class="quiet">–</span> : <code class="line"><Words>{text}</Words></code>;
}
