// The parts all pages are made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Refused, told } from "./api";
import { Icon } from "./icons";
import "./narrow.css";
import "./long.css";
import { groupTitle, QUEUE_MODE, type Suggest } from "./names";
import type { Polled } from "./poll";
import { alter, to } from "./route";
import { silent } from "./server";
import { visible } from "./text";

/** Letters of a name that a table shows whole. */
const SHORT = 18;
/** Letters of a name from which on headings and tiles give it more room. */
const LONG = 64;
/** Hours of the time range of messages that means any time. */
export const ANY_TIME_H = 87_600;
/** Last letters of a name that a table always shows: names often differ there alone. */
const END = 7;

/** A stranger's text on one line: set apart, so that it does not turn the line around. A table leaves out the middle if the column is too narrow (long.css); the whole text stays for screen readers, for search and for copying. */
export function Name({ children }: { children: string }): JSX.Element {
  const text = visible(children);
  if (text.length <= SHORT) return <bdi class={`name short${children === "" ? " empty" : ""}`}>{text}</bdi>;
  const letters = [...text];      // a letter may be two units
  return <bdi class={`name cuttable${text.length > LONG ? " long" : ""}`} title={text}><span class="whole">{text}</span>
    <span class="cut" aria-hidden="true" data-begin={letters.slice(0, -END).join("")} data-end={letters.slice(-END).join("")} /></bdi>;
}

/** A stranger's text of several lines, in a row: a table shows the first lines of it. */
export function Words({ children }: { children: string }): JSX.Element {
  const text = visible(children.trim().replace(/\s*[\r\n]\s*/g, " "));
  return <bdi class="name words" title={text}>{text}</bdi>;
}

/** A consumer group. Consumers without a group share one, whose name is not for people. */
export function Group({ children }: { children: string }): JSX.Element {
  return children === QUEUE_MODE ? <span>{groupTitle(children)}</span> : <Name>{children}</Name>;
}

/** In a table: the name of a group, which leads to its page. */
export function GroupLink({ children }: { children: string }): JSX.Element {
  return <a href={to(["groups", children])}><Group>{children}</Group></a>;
}

/** In a table: the name of a partition, which leads to its messages. Lists of messages have the name alone. */
export function PartitionLink({ queue, children }: { queue: string; children: string }): JSX.Element {
  return <a href={to(["messages"], { queue, partition: children, hours: ANY_TIME_H })}><Name>{children}</Name></a>;
}

/** In a table: the name of a queue, which leads to its page. */
export function QueueLink({ children }: { children: string }): JSX.Element {
  return <a href={to(["queues", children])}><Name>{children}</Name></a>;
}

export function Time({ at }: { at: string | null | undefined }): JSX.Element {
  if (!at) return <span>–</span>;
  const moment = new Date(at);
  return <time dateTime={at} title={at}>{Number.isNaN(moment.getTime()) ? at : moment.toLocaleString()}</time>;
}

export function Heading({ title, children }: { title: ComponentChildren; children?: ComponentChildren }): JSX.Element {
  return <header class="heading"><h1 tabIndex={-1}>{title}</h1><div class="actions">{children}</div></header>;
}

export function Problem({ error }: { error: unknown }): JSX.Element | null {
  return error ? <p class="problem" role="alert"><Icon of="problem" />{told(error)}</p> : null;
}

/** Ends a text with a full stop. */
function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** What was asked for, or why it is not there. What was there before stays while the daemon does not answer. */
export function Shown<T>({ of, children }: { of: Polled<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  const old = of.value !== undefined;
  const unsaid = of.error && !(silent.value && of.error instanceof Refused && of.error.status === 0);      // else the top of the page says it
  return <>
    {unsaid && <p class="problem" role="alert"><Icon of="problem" />{sentence(told(of.error))}{old && " The last answer is shown below. It may be old."}</p>}
    {of.value !== undefined ? children(of.value) : of.error ? <p class="again">{!unsaid && <span class="quiet">Not loaded.</span>} <button type="button" onClick={of.again}><Icon of="retry" />Try again</button></p> : <p class="quiet loading" role="status">Loading…</p>}
  </>;
}

export interface Column<T> {
  title: string;
  /** Shown in place of the title. */
  head?: ComponentChildren;
  className?: string;
  /** The column takes the width that the others leave, or shares it with other such columns. */
  fills?: boolean;
  /** The column is left out where the table has no room for all of them. */
  less?: boolean;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
  /** The cell is the heading of its row. */
  names?: boolean;
}

/** The class of a table of so many columns: the more there are, the less room a name has. */
const sizeOf = (columns: number): string => columns >= 9 ? "of9" : columns >= 7 ? "of7" : columns >= 5 ? "of5" : "";

function classOf<T>(one: Column<T>, all: Column<T>[]): string {
  const shared = all.filter((other) => other.fills).length;
  return [one.className, one.number && "number", one.fills && (shared > 1 ? `fills by${shared}` : "fills"), one.less && "less"].filter(Boolean).join(" ");
}

/** On a narrow screen each row is a card with the titles beside its values (narrow.css). The roles keep it a table for screen readers then. */
export function Table<T>({ caption, columns, rows, none }: { caption: string; columns: Column<T>[]; rows: T[]; none: string }): JSX.Element {
  if (!rows.length) return <p class="quiet">{none}</p>;
  return <div class="wide" role="region" aria-label={caption} tabIndex={0}>
    <table role="table" class={sizeOf(columns.length)}>
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup"><tr role="row">{columns.map((one) => <th key={one.title} scope="col" role="columnheader" class={classOf(one, columns)}>{one.head ?? one.title}</th>)}</tr></thead>
      <tbody role="rowgroup">{rows.map((row, at) => <tr key={at} role="row">{columns.map((one) => {
        const named = { key: one.title, "data-title": one.title, class: classOf(one, columns) };
        return one.names ? <th {...named} scope="row" role="rowheader">{one.cell(row)}</th> : <td {...named} role="cell">{one.cell(row)}</td>;
      })}</tr>)}</tbody>
    </table>
  </div>;
}

export function Pager({ offset, shown, page, more }: { offset: number; shown: number; page: number; more: boolean }): JSX.Element | null {
  if (!offset && !more) return null;
  return <nav class="pager" aria-label="Pages of the list">
    <button type="button" disabled={!offset} onClick={() => alter({ offset: Math.max(0, offset - page) || undefined })}>Previous</button>
    <span>{shown ? `${offset + 1}–${offset + shown}` : "none"}</span>
    <button type="button" disabled={!more} onClick={() => alter({ offset: offset + page })}>Next</button>
  </nav>;
}

/** A field that takes effect when typing pauses. suggest: the names that complete what was typed. */
export function Search({ label, value, suggest, onChange }: { label: string; value: string; suggest?: Suggest; onChange: (value: string) => void }): JSX.Element {
  const [text, setText] = useState(value);
  const [names, setNames] = useState<string[]>([]);
  const timer = useRef(0);
  const asked = useRef<AbortController | null>(null);
  const list = useId();
  const latest = useRef(suggest);
  latest.current = suggest;
  useEffect(() => setText(value), [value]);
  useEffect(() => () => { clearTimeout(timer.current); asked.current?.abort(); }, []);
  const complete = (typed: string): void => {
    asked.current?.abort();
    const mine = asked.current = new AbortController();
    latest.current?.(typed, mine.signal).then((found) => { if (!mine.signal.aborted) setNames(found); }, () => undefined);      // the field works without them
  };
  return <label class="field search">{label}
    <input type="search" value={text} maxLength={255} autocomplete="off" spellcheck={false} {...(suggest ? { list } : {})} onFocus={() => complete(text)} onInput={(event) => {
      const wanted = event.currentTarget.value;
      setText(wanted);
      clearTimeout(timer.current);
      timer.current = window.setTimeout(() => { complete(wanted); onChange(wanted); }, 300);
    }} />
    {suggest && <datalist id={list}>{names.map((name) => <option key={name} value={name}>{name === QUEUE_MODE && groupTitle(name)}</option>)}</datalist>}
  </label>;
}

export function Field({ label, hint, ...input }: { label: string; hint?: string } & JSX.IntrinsicElements["input"]): JSX.Element {
  const id = useId();
  return <label class="field">{label}
    <input autocomplete="off" spellcheck={false} {...(hint ? { "aria-describedby": id } : {})} {...input} />
    {hint && <small id={id}>{hint}</small>}
  </label>;
}

export function Choice({ label, value, values, onChange }: { label: string; value: string; values: Record<string, string>; onChange: (value: string) => void }): JSX.Element {
  return <label class="field">{label}
    <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {Object.entries(values).map(([key, text]) => <option key={key} value={key} selected={key === value}>{text}</option>)}
    </select>
  </label>;
}

export function Facts({ of }: { of: Record<string, ComponentChildren> }): JSX.Element {
  return <dl class="facts">{Object.entries(of).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Tag({ kind, children }: { kind: "good" | "bad" | "warn" | "plain"; children: ComponentChildren }): JSX.Element {
  return <span class={`tag ${kind}`}>{children}</span>;
}

const kinds: Record<string, "good" | "bad" | "warn" | "plain"> = { completed: "good", dead_letter: "bad", processing: "warn" };
const states: Record<string, string> = { processing: "in flight", completed: "consumed", dead_letter: "dead letter" };
/** How a message stands, in the words of the rest of the page. */
export function State({ of }: { of: string }): JSX.Element {
  return <Tag kind={kinds[of] ?? "plain"}>{states[of] ?? of}</Tag>;
}

/** A button that does something at once, and tells what went wrong. */
export function Press({ onDo, children }: { onDo: () => Promise<unknown>; children: ComponentChildren }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  return <>
    <button type="button" disabled={busy} onClick={async () => {
      setBusy(true);
      setError(null);
      try { await onDo(); } catch (wrong) { setError(wrong); } finally { setBusy(false); }
    }}>{children}</button>
    <Problem error={error} />
  </>;
}

/** A button that copies a text. Where the browser does not allow it, as over plain HTTP, selects `shown`, which has the text. onFail: called before. */
export function Copy({ text, shown, small, onFail, children }: { text: string; shown: { current: HTMLElement | null }; small?: boolean; onFail?: () => void; children?: ComponentChildren }): JSX.Element {
  const [said, setSaid] = useState("");
  const select = (): void => {
    onFail?.();
    window.setTimeout(() => {      // when the whole text is on the page
      if (shown.current) getSelection()?.selectAllChildren(shown.current);
      setSaid("selected: press Ctrl+C or ⌘C");
    });
  };
  return <>
    <button type="button" class={small ? "small" : ""} onClick={() => {
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => setSaid("copied"), select);
      else select();
    }}><Icon of="copy" />Copy<span class="unseen"> {children}</span></button> <span class="quiet" role="status">{said}</span>
  </>;
}

/** A dialog of the browser: it holds the focus, and Escape closes it. */
export function Dialog({ title, onClose, children }: { title: ComponentChildren; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {      // before the next key: an effect runs after the next frame, and Escape would be lost until then
    const before = document.activeElement;
    box.current?.showModal();
    return () => { if (before instanceof HTMLElement) before.focus(); };
  }, []);
  return <dialog ref={box} aria-labelledby={id} onClose={onClose} onCancel={onClose}>
    <h2 id={id}>{title}</h2>
    {children}
  </dialog>;
}

/** A form in a dialog: does what it is for, tells what went wrong, and closes when it went well. `confirm`: what has to be typed first. `stay`: the dialog stays open. */
export function Ask({ title, verb, danger, confirm, stay, onDo, onClose, children }: {
  title: ComponentChildren; verb: string; danger?: boolean; confirm?: string | undefined; stay?: boolean; onDo: (form: FormData) => Promise<string | void>;
  onClose: () => void; children?: ComponentChildren;
}): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [done, setDone] = useState("");
  const [typed, setTyped] = useState("");
  const run = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const said = await onDo(new FormData(event.currentTarget as HTMLFormElement));
      if (said) setDone(said);
      else if (!stay) onClose();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return <Dialog title={title} onClose={onClose}>
    <form onSubmit={(event) => void run(event)}>
      {!done && children}
      {!done && confirm !== undefined && <label class="field"><span>To confirm, type <Name>{confirm}</Name></span>
        <input value={typed} autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>}
      <Problem error={error} />
      {done && <p role="status">{done}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>{done ? "Close" : "Cancel"}</button>
        {!done && <button type="submit" class={danger ? "danger" : "main"} disabled={busy || (confirm !== undefined && typed !== confirm)}>{busy ? "Working…" : verb}</button>}
      </div>
    </form>
  </Dialog>;
}

export function text(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}

/** A moment of a field of the browser's own kind, which is local, as the daemon takes it. */
export function moment(value: string): string | undefined {
  const at = value ? new Date(value) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
}
