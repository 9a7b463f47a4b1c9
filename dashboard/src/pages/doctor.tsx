// The findings of the doctor, worst first: what is wrong, what shows it, and what to run.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { get, Refused, type Answer } from "../api";
import { Icon } from "../icons";
import { usePoll } from "../poll";
import { count, many, visibleLines } from "../text";
import { Copy, Heading, Name, Shown, Tag, Time } from "../ui";
import "./doctor.css";

type Report = Answer<"/api/v1/system/doctor", "get">;
type Finding = Report["findings"][number];
const KINDS: Record<string, "good" | "bad" | "warn" | "plain"> = { ok: "good", notice: "plain", warning: "warn", critical: "bad" };
const LEVELS: Finding["level"][] = ["critical", "warning", "notice"];

/** A command, and a button that copies it. */
function Command({ text }: { text: string }): JSX.Element {
  const box = useRef<HTMLPreElement>(null);
  return <>
    <pre ref={box}>{visibleLines(text)}</pre>
    <Copy text={text} shown={box} small>{visibleLines(text)}</Copy>
  </>;
}

/** Characters of a long text that a card shows at first. */
const AT_FIRST = 300;

function Long({ children }: { children: string }): JSX.Element {
  const [all, setAll] = useState(false);
  if (children.length <= AT_FIRST) return <>{children}</>;
  return <>{all ? children : `${children.slice(0, AT_FIRST)}…`} <button type="button" class="small" aria-expanded={all} onClick={() => setAll(!all)}>{all ? "Show less" : `Show all ${count(children.length)} characters`}</button></>;
}

function Card({ of }: { of: Finding }): JSX.Element {
  return <article class={`finding ${KINDS[of.level] ?? "plain"}`}>
    <h2><Tag kind={KINDS[of.level] ?? "plain"}>{of.level}</Tag> <Name>{of.title}</Name></h2>
    <dl>
      <dt>Evidence</dt><dd><Long>{visibleLines(of.evidence)}</Long></dd>
      <dt>Advice</dt><dd>{visibleLines(of.advice)}</dd>
      {of.run !== undefined && <><dt>{of.run.startsWith("queend ") ? "In a shell" : "In psql"}</dt><dd><Command text={of.run} /></dd></>}
      <dt>Check</dt><dd><code>{of.check}</code></dd>
    </dl>
  </article>;
}

const FAILED = /^the check \S+ failed$/;

/** Puts checks that failed for the same reason on one card: while the database is away, nearly all do. */
function together(findings: Finding[]): Finding[] {
  const failed = findings.filter((one) => FAILED.test(one.title));
  const alike = failed.filter((one) => one.evidence === failed[0]?.evidence);
  const first = alike[0];
  if (!first || alike.length < 2) return findings;
  const card = { ...first, title: `${alike.length} checks failed`, check: alike.map((one) => one.check).join(", ") };
  return findings.flatMap((one) => one === first ? [card] : alike.includes(one) ? [] : [one]);
}

function Summary({ of }: { of: Report }): JSX.Element {
  const counts = LEVELS.map((level) => [level, of.findings.filter((one) => one.level === level).length] as const).filter(([, n]) => n);
  return <article class={`finding ${KINDS[of.status] ?? "plain"}`}>
    <p role="status">{counts.length ? counts.map(([level, n]) => <><Tag kind={KINDS[level] ?? "plain"}>{level === "critical" ? `${count(n)} critical` : many(n, level)}</Tag> </>)
      : <><Tag kind="good">ok</Tag> <b>No problems found.</b></>}</p>
    <p class="quiet">{many(of.checks.length, "check")} ran at <Time at={of.timestamp} />: {of.checks.join(", ")}.</p>
  </article>;
}

/** What the doctor says; daemons of former versions have none. */
export function Doctor(): JSX.Element {
  const polled = usePoll(async (signal) => {
    try {
      return await get("/api/v1/system/doctor", { signal });
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return null;
      throw error;
    }
  }, "doctor", 60_000);
  return <>
    <Heading title="Doctor"><button type="button" onClick={polled.again}><Icon of="retry" />Check again</button></Heading>
    <Shown of={polled}>{(found) => found === null ? <p class="note">This daemon has no doctor: <code>GET /api/v1/system/doctor</code> answers 404.</p> : <>
      <Summary of={found} />
      {together(found.findings).map((one) => <Card key={`${one.check}\n${one.title}`} of={one} />)}
    </>}</Shown>
  </>;
}
