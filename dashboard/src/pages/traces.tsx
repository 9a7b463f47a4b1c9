import type { JSX } from "preact";
import { get } from "../api";
import { usePoll } from "../poll";
import { go, place, to } from "../route";
import { count } from "../text";
import { GroupLink, Heading, Name, Pager, QueueLink, Search, Shown, Table, Time, Words } from "../ui";

const PAGE = 50;

export function Traces({ name }: { name: string | undefined }): JSX.Element {
  return name === undefined ? <TraceNames /> : <TraceOf name={name} />;
}

function TraceNames(): JSX.Element {
  const offset = Number(place.value.query.get("offset")) || 0;
  const polled = usePoll((signal) => get("/api/v1/traces/names", { query: { limit: PAGE, offset }, signal }), String(offset), 10_000);
  return <>
    <Heading title="Traces" />
    <div class="filters"><Search label="Name (exact)" value="" onChange={(value) => { if (value) go(to(["traces", value])); }} /></div>
    <Shown of={polled}>{(found) => <>
      <Table caption="Trace names" rows={found.trace_names} none="No traces." columns={[
        { title: "Name", fills: true, cell: (row) => <a href={to(["traces", row.trace_name])}><Name>{row.trace_name}</Name></a> },
        { title: "Traces", number: true, cell: (row) => count(row.trace_count) }, { title: "Messages", number: true, cell: (row) => count(row.message_count) }, { title: "Last seen", cell: (row) => <Time at={row.last_seen} /> }]} />
      <Pager offset={offset} shown={found.trace_names.length} page={PAGE} more={offset + found.trace_names.length < found.total} />
    </>}</Shown>
  </>;
}

function TraceOf({ name }: { name: string }): JSX.Element {
  const offset = Number(place.value.query.get("offset")) || 0;
  const polled = usePoll((signal) => get("/api/v1/traces/by-name/{name}", { names: { name }, query: { limit: PAGE, offset }, signal }), `${name}\n${offset}`, 10_000);
  return <>
    <Heading title={<><span class="quiet">Trace </span><Name>{name}</Name></>}><a class="button" href={to(["traces"])}>All names</a></Heading>
    <Shown of={polled}>{(found) => <>
      <Table caption="Traces" rows={found.traces} none="No traces with this name." columns={[
        { title: "Time", cell: (row) => <Time at={row.created_at} /> }, { title: "Event", cell: (row) => <Name>{row.event_type}</Name> },
        { title: "Queue", cell: (row) => row.queue_name === null ? "(deleted)" : <QueueLink>{row.queue_name}</QueueLink> },
        { title: "Message", cell: (row) => <a href={to(["messages", row.partition_id, row.transaction_id])}><Name>{row.transaction_id}</Name></a> },
        { title: "Group", cell: (row) => <GroupLink>{row.consumer_group}</GroupLink> }, { title: "Data", fills: true, cell: (row) => <Words>{JSON.stringify(row.data).slice(0, 2000)}</Words> }]} />
      <Pager offset={offset} shown={found.traces.length} page={PAGE} more={offset + found.traces.length < found.total} />
    </>}</Shown>
  </>;
}
