import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, getText, post, remove, send, type Answer } from "../api";
import { usePoll } from "../poll";
import { elements, member, pretty } from "../raw";
import { alter, place, to } from "../route";
import { mayAdmin } from "../session";
import { count, many } from "../text";
import { Ask, Field, Heading, moment, Name, Pager, Search, Shown, Table, text, Time } from "../ui";
import { Payload } from "./messages";

const PAGE = 50;
const STEP = 1000;
/** The daemon counts no further: there may be more. */
const COUNTED = 100_000;
const all = (total: number): string => `${total >= COUNTED ? "at least " : ""}${many(total, "dead letter")}`;
const GONE = "This message is no longer a dead letter. Nothing was redriven.";
/** Says how many dead letters a change took, out of those that matched when the page was read. */
const did = (done: number, total: number, verb: string): string => !done ? `No dead letter was ${verb}: none matches any longer.`
  : done < Math.min(total, COUNTED) ? `${count(done)} of ${all(total)} ${done === 1 ? "was" : "were"} ${verb}.` : `${many(done, "dead letter")} ${done === 1 ? "was" : "were"} ${verb}.`;
type Letters = Answer<"/api/v1/dlq", "get">;
type Letter = Letters["messages"][number] & { raw: string };

export function DeadLetters(): JSX.Element {
  const query = place.value.query;
  const value = (name: string): string => query.get(name) ?? "";
  const set = (name: string) => (wanted: string): void => alter({ [name]: wanted, offset: undefined });
  const offset = Number(query.get("offset")) || 0;
  const filter = { queue: value("queue"), consumerGroup: value("group"), partition: value("partition"), from: moment(value("from")), to: moment(value("to")) };
  const [dialog, setDialog] = useState<"all" | "purge" | Letter | { edit: Letter } | null>(null);
  const [progress, setProgress] = useState("");
  const polled = usePoll(async (signal) => {
    const raw = await getText("/api/v1/dlq", { query: { ...filter, limit: PAGE, offset }, signal });
    const answer = JSON.parse(raw) as Letters;
    const each = elements(member(raw, "messages") ?? "[]");
    return { total: answer.total, letters: answer.messages.map((one, i): Letter => ({ ...one, raw: member(each[i] ?? "{}", "data") ?? "null" })) };
  }, JSON.stringify([filter, offset]), 10_000);
  const close = (): void => { setDialog(null); setProgress(""); polled.again(); };
  const body = Object.fromEntries(Object.entries(filter).filter(([, one]) => one));
  const place_ = (one: Letter): Record<string, unknown> => ({ partitionId: one.partitionId, offset: one.offset, consumerGroup: one.consumerGroup });
  return <>
    <Heading title="Dead letters">
      {mayAdmin.value && filter.queue && !!polled.value?.total && <>
        <button type="button" class="main" onClick={() => setDialog("all")}>Redrive all matches</button>
        <button type="button" class="danger" onClick={() => setDialog("purge")}>Delete all matches</button></>}
    </Heading>
    <div class="filters">
      <Search label="Queue" value={filter.queue} onChange={set("queue")} /><Search label="Group" value={filter.consumerGroup} onChange={set("group")} /><Search label="Partition" value={filter.partition} onChange={set("partition")} />
      <Field label="Failed after" type="datetime-local" value={value("from")} onChange={(event) => set("from")(event.currentTarget.value)} />
      <Field label="Failed before" type="datetime-local" value={value("to")} onChange={(event) => set("to")(event.currentTarget.value)} />
    </div>
    {mayAdmin.value && !filter.queue && <p class="quiet">Choose a queue to redrive or delete all matches.</p>}
    <Shown of={polled}>{({ total, letters }) => <>
      <p class="quiet" role="status">{all(total)} {total === 1 ? "matches" : "match"}.</p>
      <Table caption="Dead letters" rows={letters} none="No dead letters." columns={[
        { title: "Message", cell: (row) => <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> },
        { title: "Queue", cell: (row) => <Name>{row.queue ?? "(deleted)"}</Name> }, { title: "Partition", cell: (row) => <Name>{row.partition ?? "(deleted)"}</Name> },
        { title: "Group", cell: (row) => <Name>{row.consumerGroup}</Name> }, { title: "Error", cell: (row) => <Name>{(row.errorMessage ?? "").slice(0, 300)}</Name> },
        { title: "Retries", number: true, cell: (row) => count(row.retryCount) }, { title: "Failed", cell: (row) => <Time at={row.failedAt} /> },
        { title: "Actions", cell: (row) => <div class="actions"><button type="button" class="small" onClick={() => setDialog(row)}>View<span class="unseen"> {row.transactionId}</span></button>
          {mayAdmin.value && row.queue && <button type="button" class="small" onClick={() => setDialog({ edit: row })}>Edit and redrive<span class="unseen"> {row.transactionId}</span></button>}</div> },
      ]} />
      <Pager offset={offset} shown={letters.length} page={PAGE} more={offset + letters.length < total} />
      {dialog === "all" && <Ask title="Redrive all matches" verb="Redrive" onClose={close} onDo={async (form) => {
        let done = 0;
        // What fails again meanwhile stays: the loop would never end with messages that always fail.
        const [last] = (await get("/api/v1/dlq", { query: { ...filter, limit: 1 } })).messages;
        if (!last) return "None matches any more.";
        const until = last.failedAt.replace("Z", "999Z");      // the list cuts microseconds off
        for (let left = true; left;) {
          const answer = await post("/api/v1/dlq/redrive", { body: { to: until, ...body, oldest: true, limit: STEP, targetQueue: text(form, "target") || undefined } });
          done += answer.redriven;
          left = answer.left && answer.redriven > 0;
          setProgress(`${count(done)} of ${total >= COUNTED ? "at least" : "about"} ${count(total)} redriven.`);
        }
        return did(done, total, "redriven");
      }}><p>Pushes {all(total)} again, in the order in which they failed. Each message is delivered to the group that failed it.</p>
        <Field label="Target queue" name="target" maxLength={255} hint="Optional. In another queue every group gets them." />{progress && <p role="status">{progress}</p>}</Ask>}
      {dialog === "purge" && <Ask title="Delete all matches" verb="Delete" danger confirm={filter.queue} onClose={close} onDo={async () =>
        did((await remove("/api/v1/dlq", { query: filter })).deleted, total, "deleted")}><p>Deletes {all(total)} permanently.</p></Ask>}
    </>}</Shown>
    {dialog !== null && typeof dialog === "object" && "raw" in dialog && <Ask title={<>Dead letter <Name>{dialog.transactionId}</Name></>} verb={mayAdmin.value && dialog.queue ? "Redrive" : "Close"} onClose={close} onDo={async () => {
      if (!mayAdmin.value || !dialog.queue) return;
      const answer = await post("/api/v1/dlq/redrive", { body: { queue: dialog.queue, messages: [place_(dialog)] } });
      if (!answer.redriven) throw new Error(GONE);
    }}><p><Name>{dialog.errorMessage ?? "no error recorded"}</Name></p><Payload raw={dialog.raw} label="Payload" /></Ask>}
    {dialog !== null && typeof dialog === "object" && "edit" in dialog && <Ask title={<>Edit <Name>{dialog.edit.transactionId}</Name></>} verb="Redrive with this payload" onClose={close} onDo={async (form) => {
      const payload = text(form, "payload").trim();
      try { JSON.parse(payload); } catch { throw new Error("The payload is not valid JSON."); }
      const named = JSON.stringify(place_(dialog.edit)).slice(0, -1);
      const answer = await (await send("POST", "/api/v1/dlq/redrive", { raw: `{"queue":${JSON.stringify(dialog.edit.queue)},"messages":[${named},"payload":${payload}}]}` })).json() as { redriven: number };
      if (!answer.redriven) throw new Error(GONE);
    }}><label class="field">Payload (JSON)<textarea name="payload" spellcheck={false} defaultValue={pretty(dialog.edit.raw)[0]} /></label></Ask>}
  </>;
}
