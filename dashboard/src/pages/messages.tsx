import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Chips } from "../chips";
import { placeKey, readExcerpts } from "../excerpts";
import { partitionNames, queueNames } from "../names";
import { EnterQueue } from "./limited";
import { CopyCurl, MessageDialog } from "./messageview";
import { Excerpt, TailTable } from "./tail";
import { get, getText, post, Refused, remove, send, type Answer } from "../api";
import { Icon } from "../icons";
import { usePoll } from "../poll";
import { member, pretty } from "../raw";
import { alter, go, place, to } from "../route";
import { serverNow } from "../server";
import { limited, mayWrite } from "../session";
import { bytes, count, many, roughly, visibleLines } from "../text";
import { FoundTable } from "./search";
import { ANY_TIME_H, Ask, Choice, Copy, Facts, Field, GroupLink, Heading, moment, Name, Pager, PartitionLink, QueueLink, Search, Shown, State, Table, text, Time, Words } from "../ui";

const PAGE = 50;
const SHOWN = 64 * 1024;
const STATES: Record<string, string> = { "": "Any", pending: "Pending", processing: "In flight", completed: "Consumed", dead_letter: "Dead letter" };
const RANGES: Record<string, string> = { 1: "Last hour", 24: "Last day", 168: "Last week", [ANY_TIME_H]: "Any time" };
type Message = Answer<"/api/v1/messages/{partition}/{transaction_id}", "get">;

type Found = Answer<"/api/v1/messages", "get">["messages"][number];

/** A payload as it is stored, as text and nothing else; of a long one the beginning. */
export function Payload({ raw, label, children }: { raw: string; label: string; children?: ComponentChildren }): JSX.Element {
  const [all, setAll] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const [shown, whole] = pretty(raw, all ? Infinity : SHOWN);
  return <>
    <pre ref={box} tabIndex={0} role="region" aria-label={label}>{visibleLines(shown)}{whole ? "" : "…"}</pre>
    <div class="actions payload">
      <span class="quiet">{bytes(new TextEncoder().encode(raw).length)}</span>
      {!whole && <button type="button" onClick={() => setAll(true)}>Show all</button>}
      <Copy text={raw} shown={box} onFail={() => setAll(true)}>{label}</Copy>
      {children}
    </div>
  </>;
}

/** How long a message still waits for its delivery time. */
function Due({ at }: { at: string | null | undefined }): JSX.Element | null {
  const left = at ? (Date.parse(at) - serverNow()) / 1000 : 0;
  return at && left > 0 ? <div class="quiet due" title={new Date(at).toLocaleString()}>due in {roughly(left)}</div> : null;
}

export function MessageTable({ queue, partition, status, hours }: { queue: string; partition: string; status: string; hours: number }): JSX.Element {
  const offset = Number(place.value.query.get("offset")) || 0;
  const key = JSON.stringify([queue, partition, status, hours, offset]);
  const none = offset ? "No more messages." : `No ${partition || status ? "matching messages" : queue ? "messages in this queue" : "messages"}${hours < ANY_TIME_H ? " in this time range" : ""}.`;
  const known = useRef({ key, excerpts: new Map<string, string>() });
  if (known.current.key !== key) known.current = { key, excerpts: new Map() };
  const [view, setView] = useState<{ partitionId: string; transactionId: string } | null>(null);
  const polled = usePoll(async (signal) => {
    const found = await get("/api/v1/messages", { query: { queue, partition, status, from: new Date(serverNow() - hours * 3.6e6).toISOString(), limit: PAGE + 1, offset }, signal });
    await readExcerpts(found.messages.slice(0, PAGE), known.current.excerpts, signal);
    return found;
  }, key, 5000);
  return <Shown of={polled}>{(found) => <>
    <Table caption="Messages" rows={found.messages.slice(0, PAGE)} none={none} columns={[
      { title: "Message", cell: (row) => <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> },
      ...(queue ? [] : [{ title: "Queue", cell: (row: Found) => <QueueLink>{row.queue}</QueueLink> }]), { title: "Partition", cell: (row) => <Name>{row.partition}</Name> },
      { title: "Offset", number: true, cell: (row) => count(row.offset) }, { title: "State", cell: (row) => <><State of={row.status} /><Due at={row.deliverAt} /></> },
      { title: "Consumed by", number: true, less: true, cell: (row) => row.busStatus.totalGroups ? `${count(row.busStatus.consumedBy)} of ${many(row.busStatus.totalGroups, "group")}` : "–" },
      { title: "Stored", cell: (row) => <Time at={row.createdAt} /> },
      { title: "Payload", fills: true, cell: (row) => <Excerpt text={known.current.excerpts.get(placeKey(row))} /> },
      { title: "Actions", cell: (row) => <button type="button" class="small" onClick={() => setView(row)}>View<span class="unseen"> {row.transactionId}</span></button> },
    ]} />
    {view && <MessageDialog partitionId={view.partitionId} transactionId={view.transactionId} onClose={() => setView(null)} />}
    <Pager offset={offset} shown={Math.min(PAGE, found.messages.length)} page={PAGE} more={found.messages.length > PAGE} />
  </>}</Shown>;
}

export function MessagesPage(): JSX.Element {
  const query = place.value.query;
  const value = (name: string): string => query.get(name) ?? "";
  const hours = Number(value("hours")) || 24;
  const [pushing, setPushing] = useState(false);
  const tail = value("tail") !== "" && value("text") === "";
  const set = (name: string) => (wanted: string): void => alter({ [name]: wanted, offset: undefined });
  return <>
    <Heading title="Messages">
      <button type="button" aria-pressed={tail} onClick={() => alter({ tail: tail ? undefined : 1, text: undefined, status: undefined, hours: undefined, offset: undefined })}>Live tail</button>
      {mayWrite.value && <button type="button" class="main" onClick={() => setPushing(true)}><Icon of="push" />Push</button>}</Heading>
    <div class="filters">
      <Search label="Queue" value={value("queue")} suggest={queueNames} onChange={set("queue")} />
      <Search label="Partition" value={value("partition")} suggest={partitionNames(value("queue"))} onChange={set("partition")} />
      <Search label="Payload contains" value={value("text")} onChange={set("text")} />
      {!value("text") && !tail && <Choice label="State" value={value("status")} values={STATES} onChange={set("status")} />}
      {!tail && <Choice label="Time range" value={value("hours") || "24"} values={RANGES} onChange={set("hours")} />}
    </div>
    <Chips of={[["Queue", "queue"], ["Partition", "partition"], ["Payload contains", "text"]].map(([label = "", name = ""]) => ({ label, value: value(name), onRemove: () => set(name)("") }))
      .concat([{ label: "State", value: value("status") && (STATES[value("status")] ?? value("status")), onRemove: () => set("status")("") },
        { label: "Time range", value: value("hours") && (RANGES[value("hours")] ?? value("hours")), onRemove: () => set("hours")("") }])} />
    {limited.value && !value("queue") ? <EnterQueue /> : tail ? <TailTable queue={value("queue")} partition={value("partition")} /> : value("text") ? <FoundTable queue={value("queue")} partition={value("partition")} text={value("text")} hours={hours} />
      : <MessageTable queue={value("queue")} partition={value("partition")} status={value("status")} hours={hours} />}
    {pushing && <PushForm queue={value("queue")} onClose={() => setPushing(false)} />}
  </>;
}

export function PushForm({ queue, onClose }: { queue: string; onClose: () => void }): JSX.Element {
  return <Ask title="Push message" verb="Push" onClose={onClose} onDo={async (form) => {
    const payload = text(form, "payload").trim() || "null";
    try { JSON.parse(payload); } catch { throw new Error("The payload is not valid JSON. Put text in double quotes."); }
    const item: Record<string, unknown> = { queue: text(form, "queue"), partition: text(form, "partition") || undefined, transactionId: text(form, "id") || undefined, deliverAt: moment(text(form, "at")) };
    const members = JSON.stringify(item).slice(1, -1);
    // as it was typed: JavaScript would round long numbers
    const answer: unknown = await (await send("POST", "/api/v1/push", { raw: `{"items":[{${members},"payload":${payload}}]}` })).json();
    const one = Array.isArray(answer) ? answer[0] as { status: string; transaction_id: string; error?: string } : undefined;
    if (!one || one.status === "failed") throw new Error(one?.error ?? "The message was not stored.");
    return one.status === "duplicate" ? "Duplicate: a message with this transaction id already exists. Nothing was stored." : `Message ${one.transaction_id} is ${one.status}.`;
  }}>
    <Field label="Queue" name="queue" required maxLength={255} defaultValue={queue} />
    <Field label="Partition" name="partition" maxLength={255} placeholder="Default" />
    <label class="field">Payload (JSON)<textarea name="payload" spellcheck={false} defaultValue={'{"hello": "world"}'} /></label>
    <Field label="Transaction id" name="id" maxLength={255} hint="Optional. Duplicates in the partition are not stored again." />
    <Field label="Deliver at" name="at" type="datetime-local" step={1} />
  </Ask>;
}

export function MessagePage({ partition, id }: { partition: string; id: string }): JSX.Element {
  const [dialog, setDialog] = useState<"bury" | "delete" | "retry" | null>(null);
  const names = { partition, transaction_id: id };
  const polled = usePoll(async (signal) => {
    const raw = await getText("/api/v1/messages/{partition}/{transaction_id}", { names, signal });
    const traces = await get("/api/v1/traces/{partition}/{transaction_id}", { names, signal });
    return { message: JSON.parse(raw) as Message, payload: member(raw, "payload") ?? "null", traces: traces.traces };
  }, `${partition}\n${id}`, 0);
  const close = (): void => { setDialog(null); polled.again(); };
  const gone = polled.value === undefined && polled.error instanceof Refused && polled.error.status === 404;
  return <>
    <Heading title={<><span class="quiet">Message </span><Name>{id}</Name></>}>
      {mayWrite.value && polled.value && <>
        {polled.value.message.status === "dead_letter" ? <button type="button" class="main" onClick={() => setDialog("retry")}><Icon of="retry" />Redrive</button>
          : <button type="button" onClick={() => setDialog("bury")}><Icon of="dead" />Move to dead letters</button>}
        <button type="button" class="danger" onClick={() => setDialog("delete")}><Icon of="delete" />Delete</button></>}
    </Heading>
    {gone ? <p class="quiet">The message does not exist. It was deleted, or retention removed it. See the page <a href={to(["messages"])}>Messages</a>.</p> : <Shown of={polled}>{({ message, payload, traces }) => <>
      <Facts of={{
        State: <State of={message.status} />, Queue: <QueueLink>{message.queue}</QueueLink>, Partition: <PartitionLink queue={message.queue}>{message.partition}</PartitionLink>,
        Offset: count(message.offset), Stored: <Time at={message.createdAt} />, ...(message.deliverAt && { Due: <Time at={message.deliverAt} /> }), ...(message.producerSub && { Producer: <Name>{message.producerSub}</Name> }),
        ...(message.leaseExpiresAt && { "Lease until": <Time at={message.leaseExpiresAt} /> }), Encrypted: message.isEncrypted ? "yes" : "no",
      }} />
      {message.errorMessage !== null && <p class="problem"><Name>{message.errorMessage}</Name></p>}
      <section><h2>Payload</h2><Payload raw={payload} label="Payload"><CopyCurl queue={message.queue} partition={message.partition} traceId={message.traceId} payload={payload} /></Payload></section>
      <section><h2>Groups</h2><Table caption="Groups" rows={message.consumerGroups} none="No group has consumed this partition." columns={[
        { title: "Group", cell: (row) => <GroupLink>{row.name}</GroupLink> }, { title: "Consumed", cell: (row) => row.consumed ? "yes" : "no" }, { title: "Lease until", cell: (row) => <Time at={row.leaseExpiresAt} /> }]} /></section>
      <section><h2>Traces</h2><Table caption="Traces" rows={traces} none="No traces." columns={[
        { title: "Time", cell: (row) => <Time at={row.created_at} /> }, { title: "Event", cell: (row) => <Name>{row.event_type}</Name> }, { title: "Group", cell: (row) => <GroupLink>{row.consumer_group}</GroupLink> },
        { title: "Names", cell: (row) => row.trace_names.map((name) => <a key={name} href={to(["traces", name])}><Name>{name}</Name> </a>) }, { title: "Data", cell: (row) => <Words>{JSON.stringify(row.data)}</Words> }]} /></section>
    </>}</Shown>}
    {dialog === "bury" && <Ask title="Move to dead letters" verb="Move" danger onClose={close} onDo={async (form) => {
      const done = await post("/api/v1/messages/{partition}/{transaction_id}/dlq", { names, body: { consumerGroup: text(form, "group") || undefined, error: text(form, "error") || undefined } });
      return done.moved ? undefined : "The message is already a dead letter of this group. Nothing was moved.";
    }}><p>No group receives the message any more.</p><Field label="Group" name="group" maxLength={255} hint="Empty: consumers without a group." /><Field label="Reason" name="error" maxLength={255} /></Ask>}
    {dialog === "delete" && <Ask title="Delete message" verb="Delete" danger onClose={() => setDialog(null)} onDo={async () => {
      if (!(await remove("/api/v1/messages/{partition}/{transaction_id}", { names })).success) throw new Error("The message no longer exists. Nothing was deleted.");
      go(to(["messages"]));
    }}><p>Deletes the message with its dead letters and traces.</p></Ask>}
    {dialog === "retry" && <Ask title="Redrive message" verb="Redrive" onClose={() => setDialog(null)} onDo={async () => {
      const done = await post("/api/v1/messages/{partition}/{transaction_id}/retry", { names });
      go(to(["messages", partition, done.newTransactionId]));
    }}><p>Pushes the message to its partition again and removes the dead letter.</p></Ask>}
  </>;
}
