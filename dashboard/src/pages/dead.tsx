import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import "../tools.css";
import { getText, type Answer } from "../api";
import { Chips } from "../chips";
import { Icon } from "../icons";
import { groupNames, groupTitle, partitionNames, queueNames } from "../names";
import { usePoll } from "../poll";
import { elements, member } from "../raw";
import { alter, place, to } from "../route";
import { limited, mayAdmin } from "../session";
import { count, local, many, visibleLines } from "../text";
import { Ask, Dialog, Field, GroupLink, Heading, moment, Name, Pager, QueueLink, Search, Shown, Table, Time, Words } from "../ui";
import { AllLetters, matching } from "./deadall";
import { Chosen } from "./deadchosen";
import { EditLetter } from "./deadedit";
import { ErrorTable, filterOf } from "./deaderrors";
import { keyOf, redriveOne, type Filter, type Letter } from "./deadletter";
import { EnterQueue } from "./limited";
import { Payload } from "./messages";

const PAGE = 50;
type Letters = Answer<"/api/v1/dlq", "get">;
type Open = { show: Letter } | { edit: Letter } | { all: Filter; verb: "all" | "purge" } | { chosen: "Redrive" | "Delete" };

export function DeadLetters(): JSX.Element {
  const query = place.value.query;
  const value = (name: string): string => query.get(name) ?? "";
  const set = (name: string) => (wanted: string): void => alter({ [name]: wanted, offset: undefined });
  const setError = (error: string): void => alter({ error, errorId: undefined, offset: undefined });
  const offset = Number(query.get("offset")) || 0;
  const filter: Filter = { queue: value("queue"), consumerGroup: value("group"), partition: value("partition"), error: value("error"), errorId: value("errorId"), from: moment(value("from")), to: moment(value("to")) };
  const key = JSON.stringify(filter);
  const [open, setOpen] = useState<Open | null>(null);
  const [turn, setTurn] = useState(0);
  const [picked, setPicked] = useState(new Map<string, Letter>());
  useEffect(() => setPicked(new Map()), [key]);
  const polled = usePoll(async (signal) => {
    if (limited.value && !filter.queue) return { total: 0, letters: [] };
    const raw = await getText("/api/v1/dlq", { query: { ...filter, limit: PAGE, offset }, signal });
    const answer = JSON.parse(raw) as Letters;
    const each = elements(member(raw, "messages") ?? "[]");
    return { total: answer.total, letters: answer.messages.map((one, i): Letter => ({ ...one, raw: member(each[i] ?? "{}", "data") ?? "null" })) };
  }, JSON.stringify([filter, offset]), 10_000);
  const close = (): void => { setOpen(null); setTurn(turn + 1); polled.again(); };
  const pick = (letters: Letter[], on: boolean): void => setPicked((old) => {
    const now = new Map(old);
    for (const one of letters) if (on) now.set(keyOf(one), one); else now.delete(keyOf(one));
    return now;
  });
  return <>
    <Heading title="Dead letters">
      {mayAdmin.value && filter.queue && !!polled.value?.total && <>
        <button type="button" class="main" onClick={() => setOpen({ all: filter, verb: "all" })}><Icon of="retry" />Redrive all matches</button>
        <button type="button" class="danger" onClick={() => setOpen({ all: filter, verb: "purge" })}><Icon of="delete" />Delete all matches</button></>}
    </Heading>
    <div class="filters">
      <Search label="Queue" value={filter.queue} suggest={queueNames} onChange={set("queue")} /><Search label="Group" value={filter.consumerGroup} suggest={groupNames} onChange={set("group")} />
      <Search label="Partition" value={filter.partition} suggest={partitionNames(filter.queue)} onChange={set("partition")} /><Search label="Error contains" value={filter.error} onChange={setError} />
      <Field label="Failed after" type="datetime-local" value={value("from")} onChange={(event) => set("from")(event.currentTarget.value)} />
      <Field label="Failed before" type="datetime-local" value={value("to")} onChange={(event) => set("to")(event.currentTarget.value)} />
    </div>
    <Chips of={[...[["Queue", "queue"], ["Group", "group"], ["Partition", "partition"], ["Failed after", "from"], ["Failed before", "to"]]
      .map(([label = "", name = ""]) => ({ label, value: name === "group" ? groupTitle(value(name)) : name === "from" || name === "to" ? local(value(name)) : value(name), onRemove: () => set(name)("") })),
      { label: filter.errorId ? "Error" : "Error contains", value: filter.error || (filter.errorId && "(empty)"), onRemove: () => setError("") }]} />
    {limited.value && !filter.queue ? <EnterQueue /> : <>
    {mayAdmin.value && !filter.queue && !!polled.value?.total && <p class="quiet">Choose a queue to redrive or delete all matches.</p>}
    {polled.value?.total !== 0 && <ErrorTable filter={filter} turn={turn} onShow={(row) => { const { queue, consumerGroup: group, error, errorId } = filterOf(row, filter); alter({ queue, group, error, errorId, offset: undefined }); }}
      onAct={(row, verb) => setOpen({ all: filterOf(row, filter), verb })} />}
    <section><h2>Messages</h2><Shown of={polled}>{({ total, letters }) => {
      const whole = letters.length > 0 && letters.every((one) => picked.has(keyOf(one)));
      return <>
      {total > 0 && <p class="quiet" role="status">{matching(total)} {total === 1 ? "matches" : "match"}.</p>}
      {picked.size > 0 && <div class="actions chosen" role="group" aria-label="Selection"><span>{count(picked.size)} selected</span>
        <button type="button" onClick={() => setOpen({ chosen: "Redrive" })}><Icon of="retry" />Redrive selected</button>
        <button type="button" class="danger" onClick={() => setOpen({ chosen: "Delete" })}><Icon of="delete" />Delete selected</button>
        <button type="button" onClick={() => setPicked(new Map())}>Clear selection</button></div>}
      {whole && total > letters.length && filter.queue && <p class="quiet">The {many(letters.length, "dead letter")} of this page {letters.length === 1 ? "is" : "are"} selected. “Redrive all matches” and “Delete all matches” take {matching(total)}.</p>}
      <Table caption="Dead letters" rows={letters} none={Object.values(filter).some(Boolean) ? "No matching dead letters." : "No dead letters. A message becomes one when it failed too often or was rejected."} columns={[
        ...(mayAdmin.value ? [{ title: "Select", className: "tick", head: <input type="checkbox" aria-label="Select all on this page" checked={whole} onChange={(event: { currentTarget: HTMLInputElement }) => pick(letters, event.currentTarget.checked)} />,
          cell: (row: Letter) => <input type="checkbox" aria-label={`Select ${row.transactionId} of ${groupTitle(row.consumerGroup)}`} checked={picked.has(keyOf(row))} onChange={(event) => pick([row], event.currentTarget.checked)} /> }] : []),
        { title: "Message", cell: (row) => <a href={to(["messages", row.partitionId, row.transactionId])}><Name>{row.transactionId}</Name></a> },
        ...(filter.queue ? [] : [{ title: "Queue", cell: (row: Letter) => row.queue === null ? "(deleted)" : <QueueLink>{row.queue}</QueueLink> }]), { title: "Partition", less: true, cell: (row) => row.partition === null ? "(deleted)" : <Name>{row.partition}</Name> },
        ...(filter.consumerGroup ? [] : [{ title: "Group", cell: (row: Letter) => <GroupLink>{row.consumerGroup}</GroupLink> }]), { title: "Error", fills: true, cell: (row) => <Words>{(row.errorMessage ?? "").slice(0, 1000)}</Words> },
        { title: "Failed", cell: (row) => <><Time at={row.failedAt} />{row.retryCount > 0 && <div class="quiet">after {row.retryCount === 1 ? "1 retry" : `${count(row.retryCount)} retries`}</div>}</> },
        { title: "Actions", cell: (row) => <div class="actions"><button type="button" class="small" onClick={() => setOpen({ show: row })}>View<span class="unseen"> {row.transactionId}</span></button>
          {mayAdmin.value && row.queue && <button type="button" class="small" onClick={() => setOpen({ edit: row })}>Edit<span class="unseen"> and redrive {row.transactionId}</span></button>}</div> },
      ]} />
      <Pager offset={offset} shown={letters.length} page={PAGE} more={offset + letters.length < total} />
    </>; }}</Shown></section>
    </>}
    {open && "all" in open && <AllLetters filter={open.all} verb={open.verb} onClose={close} />}
    {open && "chosen" in open && <Chosen letters={[...picked.values()]} verb={open.chosen} onDone={(one) => pick([one], false)} onClose={close} />}
    {open && "edit" in open && <EditLetter letter={open.edit} onClose={close} />}
    {open && "show" in open && <ShowLetter letter={open.show} onClose={close} />}
  </>;
}

function ShowLetter({ letter, onClose }: { letter: Letter; onClose: () => void }): JSX.Element {
  const title = <>Dead letter <Name>{letter.transactionId}</Name></>;
  const parts = <><h3>Error</h3><pre role="region" aria-label="Error" tabIndex={0}>{visibleLines(letter.errorMessage ?? "no error recorded")}</pre><h3>Payload</h3><Payload raw={letter.raw} label="Payload" /></>;
  if (mayAdmin.value && letter.queue !== null) return <Ask title={title} verb="Redrive" onClose={onClose} onDo={() => redriveOne(letter)}>{parts}</Ask>;
  return <Dialog title={title} onClose={onClose}><div class="parts">{parts}</div><div class="buttons after"><button type="button" onClick={onClose}>Close</button></div></Dialog>;
}
