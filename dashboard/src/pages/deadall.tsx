// All dead letters that match a filter, redriven or deleted.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, remove } from "../api";
import { count, many } from "../text";
import { Ask, Field, Group, Name, Problem, text, Time } from "../ui";
import { countOf, type Filter } from "./deadletter";

const STEP = 1000;
/** The daemon counts no further: there may be more. */
const COUNTED = 100_000;
export const matching = (total: number): string => `${total >= COUNTED ? "at least " : ""}${many(total, "dead letter")}`;
/** Says how many dead letters a change took, out of those that matched when they were counted. */
const did = (done: number, total: number, verb: string): string => !done ? `No dead letter was ${verb}: none matches any longer.`
  : done < Math.min(total, COUNTED) ? `${count(done)} of ${matching(total)} ${done === 1 ? "was" : "were"} ${verb}.` : `${many(done, "dead letter")} ${done === 1 ? "was" : "were"} ${verb}.`;

/** The dialog for all matches of a filter. It counts them first, and takes what matches then. */
export function AllLetters({ filter, verb, onClose }: { filter: Filter; verb: "all" | "purge"; onClose: () => void }): JSX.Element {
  const [counted, setCounted] = useState<number>();
  const [error, setError] = useState<unknown>(null);
  const [progress, setProgress] = useState("");
  const counting = useRef<Promise<number> | undefined>(undefined);
  counting.current ??= countOf(filter);
  const closed = useRef(false);
  useEffect(() => {
    counting.current?.then(setCounted, setError);
    return () => { closed.current = true; };
  }, []);
  const body = Object.fromEntries(Object.entries(filter).filter(([, one]) => one));
  const which = <>
    {error ? <Problem error={error} /> : null}
    <p class="quiet">Queue <Name>{filter.queue}</Name>{filter.consumerGroup && <>, group <Group>{filter.consumerGroup}</Group></>}{filter.partition && <>, partition <Name>{filter.partition}</Name></>}
      {(filter.error || filter.errorId) && <>, {filter.errorId ? "error" : "error contains"} “<Name>{filter.error.slice(0, 300)}</Name>”</>}{filter.from && <>, failed after <Time at={filter.from} /></>}{filter.to && <>, failed before <Time at={filter.to} /></>}.</p></>;
  const those = counted === undefined ? "the dead letters (counting…)" : matching(counted);
  if (verb === "purge") return <Ask title="Delete all matches" verb="Delete" danger confirm={filter.queue} onClose={onClose} onDo={async () => {
    const total = await counting.current ?? 0;
    return did((await remove("/api/v1/dlq", { query: filter })).deleted, total, "deleted");
  }}><p>Deletes {those} permanently.</p>{which}</Ask>;
  return <Ask title="Redrive all matches" verb="Redrive" onClose={onClose} onDo={async (form) => {
    const total = await counting.current ?? 0;
    let done = 0;
    // What fails again meanwhile stays: the loop would never end with messages that always fail.
    const [last] = (await get("/api/v1/dlq", { query: { ...filter, limit: 1 } })).messages;
    if (!last) return "None matches any more.";
    const until = filter.to && filter.to <= last.failedAt ? filter.to : last.failedAt.replace("Z", "999Z");      // the list cuts microseconds off
    for (let left = true; left && !closed.current;) {
      const answer = await post("/api/v1/dlq/redrive", { body: { ...body, to: until, oldest: true, limit: STEP, targetQueue: text(form, "target") || undefined } });
      done += answer.redriven;
      left = answer.left && answer.redriven > 0;
      setProgress(`${count(done)} of ${total >= COUNTED ? "at least" : "about"} ${count(total)} redriven.`);
    }
    return did(done, total, "redriven");
  }}><p>Pushes {those} again{counted === 1 ? ". The message is" : ", in the order in which they failed. Each message is"} delivered to the group that failed it.</p>{which}
    <Field label="Target queue" name="target" maxLength={255} hint="Optional. In another queue every group gets them." />{progress && <p role="status">{progress}</p>}</Ask>;
}
