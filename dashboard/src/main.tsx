import "./style.css";
import type { JSX } from "preact";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, Refused } from "./api";
import { asked, keepToken, limited, mayAdmin, session, setTheme, theme, token } from "./session";
import { go, place, to } from "./route";
import { Icon, isIcon } from "./icons";
import { groupTitle } from "./names";
import { Connection } from "./connection";
import { Dialog, Heading, Name, Problem, text } from "./ui";
import { many } from "./text";
import { Palette } from "./palette";
import { Overview } from "./pages/overview";
import { QueueList } from "./pages/queues";
import { QueuePage } from "./pages/queue";
import { GroupList, GroupPage } from "./pages/groups";
import { Leases } from "./pages/leases";
import { MessagePage, MessagesPage } from "./pages/messages";
import { DeadLetters } from "./pages/dead";
import { Traces } from "./pages/traces";
import { Daemons } from "./pages/daemons";
import { Limited } from "./pages/limited";
import { Doctor } from "./pages/doctor";
import { Maintenance, Partitions, Scheduled, SettingsPage, Streams } from "./pages/system";

/** all: the page, or its list, shows all queues. */
interface Page { title: string; key: string; show: (rest: string[]) => JSX.Element; admin?: boolean; all?: boolean }

const PAGES: Record<string, Page> = {
  overview: { title: "Overview", key: "o", show: () => <Overview />, all: true },
  queues: { title: "Queues", key: "q", show: (rest) => rest[0] === undefined ? <QueueList /> : <QueuePage key={rest[0]} queue={rest[0]} tab={rest[1] ?? "partitions"} />, all: true },
  partitions: { title: "Partitions", key: "p", show: () => <Partitions /> },
  groups: { title: "Groups", key: "g", show: (rest) => rest[0] === undefined ? <GroupList /> : <GroupPage key={rest[0]} group={rest[0]} />, all: true },
  leases: { title: "Leases", key: "l", show: () => <Leases /> },
  messages: { title: "Messages", key: "m", show: (rest) => rest[0] === undefined || rest[1] === undefined ? <MessagesPage /> : <MessagePage key={rest.join("/")} partition={rest[0]} id={rest[1]} /> },
  dead: { title: "Dead letters", key: "d", show: () => <DeadLetters /> },
  scheduled: { title: "Scheduled", key: "c", show: () => <Scheduled /> },
  traces: { title: "Traces", key: "t", show: (rest) => <Traces name={rest[0]} />, all: true },
  streams: { title: "Streams", key: "s", show: () => <Streams />, all: true },
  daemons: { title: "Daemons", key: "h", show: () => <Daemons />, all: true },
  doctor: { title: "Doctor", key: "x", show: () => <Doctor />, all: true },
  maintenance: { title: "Maintenance", key: "w", show: () => <Maintenance />, admin: true },
  settings: { title: "Settings", key: "e", show: () => <SettingsPage />, admin: true },
};

function shown(): [string, Page][] {
  return Object.entries(PAGES).filter(([name, page]) => (!page.admin || mayAdmin.value) && (!page.all || !limited.value || name === "queues"));
}

function App(): JSX.Element {
  const used = token.value;
  const who = session.value;
  const why = asked.value;
  const [error, setError] = useState<unknown>(null);
  const [attempt, setAttempt] = useState(0);
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = useState(false);
  const [open, setOpen] = useState(false);
  const here = place.value.parts;
  const at = here[0] ?? (limited.value ? "queues" : "overview");
  const page = Object.hasOwn(PAGES, at) ? PAGES[at] : undefined;
  const where = here.join("/");

  useEffect(() => {
    if (session.value) return undefined;
    const abort = new AbortController();
    let timer = 0;
    get("/api/v1/system/session", { signal: abort.signal }).then((found) => {
      session.value = found;
      asked.value = null;
      setError(null);
    }, (failed: unknown) => {
      if (abort.signal.aborted || (failed instanceof Refused && failed.status === 401)) return;
      if (failed instanceof Refused && failed.status === 403) asked.value = "The token has no role on this daemon.";
      setError(failed);
      timer = window.setTimeout(() => setAttempt((one) => one + 1), 3000);
    });
    return () => { abort.abort(); clearTimeout(timer); };
  }, [used, who === null, attempt]);

  useEffect(() => {
    const subject = here[at === "messages" ? 2 : 1];
    document.title = `${subject === undefined ? page?.title ?? "Page not found" : groupTitle(subject)} · queend`;
    setOpen(false);
    if (document.activeElement === document.body || document.activeElement instanceof HTMLAnchorElement) document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }, [where]);

  useEffect(() => {
    let leader = false;
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) setPalette(true);
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return;
      if (leader) {
        leader = false;
        const found = shown().find(([, page]) => page.key === event.key);
        if (found) { event.preventDefault(); go(to([found[0]])); }
      } else if (event.key === "g") {
        leader = true;
      } else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("main input");
        if (search) { event.preventDefault(); search.focus(); }
      } else if (event.key === ":") {
        event.preventDefault();
        setPalette(true);
      } else if (event.key === "?") {
        setHelp(true);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  if (why !== null) return <Entry why={why} />;
  if (!who) return <main class="entry"><h1>queend</h1><Problem error={error} /><p class="quiet" role="status">Connecting…</p></main>;
  return <>
    <header class={open ? "side open" : "side"}>
      <a class="skip" href={location.hash || "#/"} onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main h1")?.focus(); }}>Skip to content</a>
      <div class="brand"><span>queend</span><button type="button" class="menu" aria-expanded={open} onClick={() => setOpen(!open)}><Icon of="menu" />Menu</button></div>
      <nav aria-label="Main navigation"><ul>{shown().map(([name, one]) =>
        <li key={name}><a href={to([name])} {...(name === at ? { "aria-current": "page" as const } : {})}>{isIcon(name) && <Icon of={name} />}{one.title}</a></li>)}</ul></nav>
      <div class="who">
        <span>{who.tokens ? <><Name>{who.subject ?? "a token"}</Name> ({who.level})</> : "authentication is off"}<br />version {who.version}</span>
        {who.queues && <span>limited to {many(Object.keys(who.queues).length, "queue pattern")}</span>}
        <label class="field"><span><Icon of="theme" />Theme</span><select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as "auto" | "light" | "dark")}>
          <option value="auto">System</option><option value="light">Light</option><option value="dark">Dark</option></select></label>
        {who.tokens && <button type="button" onClick={() => { keepToken(""); session.value = null; asked.value = ""; }}>Sign out</button>}
        <button type="button" onClick={() => setHelp(true)}>Keyboard shortcuts</button>
      </div>
    </header>
    <main><Connection />{!page ? <><Heading title="Page not found" /><p class="quiet">The dashboard has no page <Name>{at}</Name>. <a href={to(["overview"])}>Overview</a></p></>
      : page.admin && !mayAdmin.value ? <><Heading title={page.title} /><p class="quiet">This page requires the admin role.</p></> : page.all && limited.value && here[1] === undefined ? <Limited title={page.title} /> : page.show(here.slice(1))}</main>
    {palette && <Palette pages={shown().map(([name, one]) => ({ name, title: one.title }))} onClose={() => setPalette(false)} />}
    {help && <Dialog title="Keyboard shortcuts" onClose={() => setHelp(false)}>
      <p><kbd>/</kbd> search · <kbd>Ctrl</kbd> <kbd>K</kbd> or <kbd>:</kbd> go to a page, queue or group · <kbd>?</kbd> keyboard shortcuts · <kbd>Esc</kbd> close</p>
      <ul class="keys">{shown().map(([name, one]) => <li key={name}><kbd>g</kbd> <kbd>{one.key}</kbd> {one.title}</li>)}</ul>
      <div class="buttons after"><button type="button" onClick={() => setHelp(false)}>Close</button></div>
    </Dialog>}
  </>;
}

function Entry({ why }: { why: string }): JSX.Element {
  return <main class="entry"><form onSubmit={(event) => {
    event.preventDefault();
    const given = text(new FormData(event.currentTarget), "token").trim().replace(/^Bearer\s+/i, "");
    if (!given) return;
    asked.value = null;
    session.value = null;
    keepToken(given);
  }}>
    <h1 tabIndex={-1}>queend</h1>
    {why && <p class="problem" role="alert"><Icon of="problem" />{why}</p>}
    <p>This daemon requires a token.</p>
    <label class="field">Token<input name="token" type="password" autocomplete="off" spellcheck={false} autofocus required /></label>
    <p class="quiet">A JSON Web Token with a role: <b>read-only</b> looks, <b>read-write</b> also pushes, pauses and seeks, <b>admin</b> does everything. Where the daemon has a shared secret (HS256), an administrator makes one with <code>queend token mint</code>.</p>
    <p class="quiet">The token stays in this tab until it is closed, and is sent to {location.host} only.</p>
    <div class="buttons"><button type="submit" class="main">Sign in</button></div>
  </form></main>;
}

setTheme(theme.value);
const host = document.getElementById("page");
if (host) render(<App />, host);
