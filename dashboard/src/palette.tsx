// The command palette: any page, queue or group by a part of its name, with the keyboard alone.
import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import "./tools.css";
import { groupNames, groupTitle, queueNames } from "./names";
import { go, to } from "./route";
import { Dialog, Name } from "./ui";

interface Target { kind: string; title: string; link: string }
const PAUSE_MS = 150;

export function Palette({ pages, onClose }: { pages: { title: string; name: string }[]; onClose: () => void }): JSX.Element {
  const [typed, setTyped] = useState("");
  const [found, setFound] = useState<Target[]>([]);
  const [at, setAt] = useState(0);
  const list = useId();
  const text = typed.trim();
  useEffect(() => {
    const abort = new AbortController();
    setFound([]);
    const timer = window.setTimeout(() => {
      const some = async (names: Promise<string[]>): Promise<string[]> => names.catch(() => []);      // a token may not list them
      void Promise.all([some(queueNames(text, abort.signal)), some(groupNames(text, abort.signal))]).then(([queues, groups]) => {
        if (abort.signal.aborted) return;
        setFound([...queues.map((name) => ({ kind: "Queue", title: name, link: to(["queues", name]) })),
          ...groups.map((name) => ({ kind: "Group", title: groupTitle(name), link: to(["groups", name]) }))]);
      });
    }, text ? PAUSE_MS : 0);
    return () => { abort.abort(); clearTimeout(timer); };
  }, [text]);
  const targets: Target[] = [...pages.filter((one) => one.title.toLowerCase().includes(text.toLowerCase())).map((one) => ({ kind: "Page", title: one.title, link: to([one.name]) })), ...found];
  // a token that is limited to queues lists none, but opens one by its name
  if (text && !found.some((one) => one.title === text)) targets.push({ kind: "Open queue", title: text, link: to(["queues", text]) });
  const chosen = Math.min(at, targets.length - 1);
  const open = (target: Target | undefined): void => {
    if (!target) return;
    onClose();
    go(target.link);
  };
  useEffect(() => document.getElementById(`${list}-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);
  return <Dialog title="Go to" onClose={onClose}>
    <input class="palette" role="combobox" aria-label="Page, queue or group" aria-expanded="true" aria-controls={list} aria-activedescendant={targets.length ? `${list}-${chosen}` : undefined} aria-autocomplete="list"
      autocomplete="off" spellcheck={false} autofocus maxLength={255} value={typed} onInput={(event) => { setTyped(event.currentTarget.value); setAt(0); }} onKeyDown={(event) => {
        const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        if (step) setAt((chosen + step + targets.length) % Math.max(targets.length, 1));
        else if (event.key === "Enter") open(targets[chosen]);
        else return;
        event.preventDefault();
      }} />
    <ul id={list} class="targets" role="listbox" aria-label="Matches">{targets.map((one, i) =>
      <li key={`${one.kind}/${one.title}`} id={`${list}-${i}`} role="option" aria-selected={i === chosen} onClick={() => open(one)}><Name>{one.title}</Name><span class="kind">{one.kind}</span></li>)}</ul>
  </Dialog>;
}
