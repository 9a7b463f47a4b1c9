// Chosen dead letters, redriven or deleted one by one: what failed is told for each of them.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Refused, told } from "../api";
import { count, many } from "../text";
import { Dialog, Group, Name, Table, Words } from "../ui";
import { deleteOne, redriveOne, type Letter } from "./deadletter";

interface Failure { letter: Letter; error: string }

/** onDone: called with each letter that is no dead letter any more. */
export function Chosen({ letters, verb, onDone, onClose }: { letters: Letter[]; verb: "Redrive" | "Delete"; onDone: (letter: Letter) => void; onClose: () => void }): JSX.Element {
  const all = useRef([...letters].sort((a, b) => a.failedAt < b.failedAt ? -1 : a.failedAt > b.failedAt ? 1 : 0)).current;
  const stop = useRef(false);
  const [busy, setBusy] = useState(false);
  const [looked, setLooked] = useState(0);
  const [over, setOver] = useState(false);
  const [failures, setFailures] = useState<Failure[]>([]);
  const about = all.length === 1 ? { Redrive: "Pushes it again. The message is delivered to the group that failed it.", Delete: "Deletes it permanently." }
    : { Redrive: "Pushes them again, one by one, in the order in which they failed. Each message is delivered to the group that failed it.", Delete: "Deletes them permanently, one by one." };
  const past = verb === "Redrive" ? "redriven" : "deleted";
  const run = async (): Promise<void> => {
    setBusy(true);
    const failed: Failure[] = [];
    let at = 0;
    for (const letter of all) {
      if (stop.current) break;
      at += 1;
      try {
        await (verb === "Redrive" ? redriveOne(letter) : deleteOne(letter));
        onDone(letter);
      } catch (error) {
        failed.push({ letter, error: told(error) });
        if (error instanceof Refused && error.status === 401) stop.current = true;
      }
      setLooked(at);
      setFailures([...failed]);
    }
    setBusy(false);
    setOver(true);
  };
  const done = looked - failures.length;
  const close = (): void => { stop.current = true; onClose(); };
  return <Dialog title={`${verb} ${many(all.length, "dead letter")}`} onClose={close}>
    {!over && !busy && <p>{about[verb]}</p>}
    {(busy || over) && <p role="status">{over ? `${count(done)} of ${many(all.length, "dead letter")} ${done === 1 ? "was" : "were"} ${past}.` : `${count(looked)} of ${count(all.length)} done…`}</p>}
    {failures.length > 0 && <Table caption="Errors" rows={failures} none="" columns={[
      { title: "Message", cell: (row) => <Name>{row.letter.transactionId}</Name> },
      { title: "Group", cell: (row) => <Group>{row.letter.consumerGroup}</Group> },
      { title: "Error", cell: (row) => <Words>{row.error}</Words> }]} />}
    <div class="buttons after">
      {busy ? <button type="button" onClick={() => { stop.current = true; }}>Stop</button> : <button type="button" onClick={close}>{over ? "Close" : "Cancel"}</button>}
      {!over && <button type="button" class={verb === "Delete" ? "danger" : "main"} disabled={busy} onClick={() => void run()}>{busy ? "Working…" : verb}</button>}
    </div>
  </Dialog>;
}
