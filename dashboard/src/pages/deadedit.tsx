// A dead letter with another payload: edited, compared with the old one, and only then pushed.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { send } from "../api";
import { difference, folded } from "../diff";
import { pretty } from "../raw";
import { many, visibleLines } from "../text";
import { Ask, Name } from "../ui";
import { GONE, placeOf, type Letter } from "./deadletter";

export function EditLetter({ letter, onClose }: { letter: Letter; onClose: () => void }): JSX.Element {
  const before = pretty(letter.raw)[0];
  const [typed, setTyped] = useState(before);
  const [reviewed, setReviewed] = useState<string | null>(null);
  const review = async (): Promise<void> => {
    const payload = typed.trim();
    try { JSON.parse(payload); } catch { throw new Error("The payload is not valid JSON."); }
    setReviewed(payload);
  };
  const title = <>Edit <Name>{letter.transactionId}</Name></>;
  if (reviewed === null) return <Ask key="edit" title={title} verb="Review changes" onClose={onClose} stay onDo={review}>
    <label class="field">Payload (JSON)<textarea name="payload" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
  </Ask>;
  const lines = difference(before, pretty(reviewed)[0]);
  const removed = lines.filter((line) => line.kind === "removed").length;
  const added = lines.filter((line) => line.kind === "added").length;
  return <Ask key="review" title={title} verb="Redrive with this payload" onClose={onClose} onDo={async () => {
    // as it was typed: JavaScript would round long numbers
    const named = JSON.stringify(placeOf(letter)).slice(0, -1);
    const answer = await (await send("POST", "/api/v1/dlq/redrive", { raw: `{"queue":${JSON.stringify(letter.queue)},"messages":[${named},"payload":${reviewed}}]}` })).json() as { redriven: number };
    if (!answer.redriven) throw new Error(GONE);
  }}>
    <p role="status">{removed + added ? `${many(removed, "line")} removed, ${many(added, "line")} added.` : "The payload is unchanged."}</p>
    {removed + added > 0 && <pre class="diff" tabIndex={0} role="region" aria-label="Changes of the payload">{folded(lines).map((line, i) =>
      typeof line === "number" ? <span key={i} class="fold">… {many(line, "unchanged line")}</span>
        : line.kind === "added" ? <ins key={i}>+ {visibleLines(line.text)}</ins>
        : line.kind === "removed" ? <del key={i}>- {visibleLines(line.text)}</del> : `  ${visibleLines(line.text)}\n`)}</pre>}
    <div class="actions"><button type="button" onClick={() => setReviewed(null)}>Edit again</button></div>
  </Ask>;
}
