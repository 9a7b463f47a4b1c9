// What a token that may read some queues only sees in place of a page that shows all queues: a field that opens one of them.
import type { JSX } from "preact";
import { go, to } from "../route";
import { session } from "../session";
import { Field, Heading, Name, text } from "../ui";

/** The queues that the token may read, as its patterns; those without a wildcard are links. */
function Allowed(): JSX.Element {
  const patterns = Object.entries(session.value?.queues ?? {}).filter(([, verbs]) => verbs.some((verb) => verb.startsWith("read"))).map(([pattern]) => pattern);
  if (!patterns.length) return <p class="quiet">The token may read no queue.</p>;
  return <p class="quiet">The token may read: {patterns.map((pattern, i) => <span key={pattern}>{i > 0 && ", "}{pattern.includes("*") ? <Name>{pattern}</Name> : <a href={to(["queues", pattern])}><Name>{pattern}</Name></a>}</span>)}.</p>;
}

/** Asks for a queue on a page that has a field for it. */
export function EnterQueue(): JSX.Element {
  return <><p class="quiet">Enter a queue: this token is limited to some queues.</p><Allowed /></>;
}

export function Limited({ title }: { title: string }): JSX.Element {
  return <>
    <Heading title={title} />
    <p>{title === "Queues" ? "Enter a queue: this token is limited to some queues, and may not list all of them." : "This page shows all queues; this token is limited to some of them. Enter a queue to open its page."}</p>
    <form class="filters" onSubmit={(event) => {
      event.preventDefault();
      const queue = text(new FormData(event.currentTarget), "queue");
      if (queue) go(to(["queues", queue]));
    }}><Field label="Queue" name="queue" required maxLength={255} /><button type="submit" class="main">Open</button></form>
    <Allowed />
  </>;
}
