import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { getPage, post } from "../api";
import { usePoll } from "../poll";
import { alter, go, place, to } from "../route";
import { mayWrite } from "../session";
import { count } from "../text";
import { Ask, Choice, Field, Heading, Name, Pager, QueueLink, Search, Shown, Table, Tag, Time, text } from "../ui";

const PAGE = 50;

export function QueueList(): JSX.Element {
  const query = place.value.query;
  const search = query.get("search") ?? "";
  const sort = query.get("sort") ?? "newest";
  const offset = Number(query.get("offset")) || 0;
  const [making, setMaking] = useState(false);
  const polled = usePoll((signal) => getPage("/api/v1/resources/queues", { query: { search, sort, limit: PAGE, offset }, signal }), `${search}\n${sort}\n${offset}`, 5000);
  return <>
    <Heading title="Queues">{mayWrite.value && <button type="button" class="main" onClick={() => setMaking(true)}>New queue</button>}</Heading>
    <div class="filters">
      <Search label="Search names" value={search} onChange={(value) => alter({ search: value, offset: undefined })} />
      <Choice label="Sort by" value={sort} values={{ newest: "Newest first", name: "Name", pending: "Largest backlog first" }} onChange={(value) => alter({ sort: value === "newest" ? undefined : value, offset: undefined })} />
    </div>
    <Shown of={polled}>{([found, more]) => <>
      <Table caption="Queues" rows={found.queues} none={search ? "No matching queues." : "No queues. The first push creates one."} columns={[
        { title: "Queue", fills: true, cell: (row) => <QueueLink>{row.name}</QueueLink> },
        { title: "State", cell: (row) => row.paused && <Tag kind="warn">paused</Tag> },
        { title: "Namespace", cell: (row) => row.namespace && <Name>{row.namespace}</Name> },
        { title: "Task", cell: (row) => row.task && <Name>{row.task}</Name> },
        { title: "Partitions", number: true, cell: (row) => count(row.partitions) },
        { title: "Pending", number: true, cell: (row) => count(row.messages.pending) },
        { title: "In flight", number: true, cell: (row) => count(row.messages.processing) },
        { title: "Stored", number: true, cell: (row) => count(row.messages.total) },
        { title: "Created", cell: (row) => <Time at={row.createdAt} /> },
      ]} />
      <Pager offset={offset} shown={found.queues.length} page={PAGE} more={more} />
    </>}</Shown>
    {making && <Ask title="New queue" verb="Create" onClose={() => setMaking(false)} onDo={async (form) => {
      const queue = text(form, "queue");
      await post("/api/v1/configure", { body: { queue, namespace: text(form, "namespace") || undefined, task: text(form, "task") || undefined } });
      go(to(["queues", queue]));
    }}>
      <Field label="Name" name="queue" required maxLength={255} />
      <Field label="Namespace" name="namespace" maxLength={255} />
      <Field label="Task" name="task" maxLength={255} />
    </Ask>}
  </>;
}
