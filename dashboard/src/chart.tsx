// A chart: a bounded ring of points, drawn on a canvas. The values of the moment under the pointer, or of the last one,
// stand above as text; the arrow keys move that moment.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "./chart.css";
import { theme } from "./session";

/** How many points a chart keeps. */
export const POINTS = 300;

export class Ring {
  readonly data: (number | null)[][];

  constructor(readonly series: number, readonly most: number = POINTS) {
    this.data = Array.from({ length: series + 1 }, () => []);
  }

  add(at: number, values: (number | null)[]): void {
    [at, ...values].forEach((value, i) => {
      const line = this.data[i];
      if (!line) return;
      line.push(value);
      if (line.length > this.most) line.shift();
    });
  }

  /** Puts older points, in order of time, before those of the ring. */
  prepend(points: [number, (number | null)[]][]): void {
    const first = this.data[0]?.[0] ?? Infinity;
    const older = points.filter(([at]) => at < first);
    this.data.forEach((line, i) => line.unshift(...older.map(([at, values]) => i ? values[i - 1] ?? null : at)));
  }

  /** Drops the points before a moment. */
  trim(before: number): void {
    const gone = this.data[0]?.findIndex((at) => at !== null && at >= before) ?? 0;
    if (gone > 0) for (const line of this.data) line.splice(0, gone);
  }

  clear(): void {
    for (const line of this.data) line.length = 0;
  }
}

/** Height of the canvas of a chart, and of a small one, in pixels (style.css). */
const [TALL, SMALL] = [180, 120];

interface Line { label: string; colour: string; dash?: number[] }

/** What the axis of time shows of these moments: a minute at least. A single one uPlot would give a day. */
export function span(moments: (number | null)[]): [number, number] {
  const end = moments.at(-1) ?? Date.now() / 1000;
  return [Math.min(moments[0] ?? end, end - 60), end];
}

/** The points without a neighbour: no line shows them. */
function alone(values: ArrayLike<number | null | undefined>): number[] {
  return Array.from(values, (_, i) => i).filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);
}

const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
/** Steps of the axis of time, each at most the double of the one before: so a tick stands on each axis. */
const STEPS_S = [1, 2, 4, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 4 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 8 * DAY];

export function clock(at: number): string {
  return new Date(at * 1000).toLocaleTimeString([], { hour12: false });
}

function day(at: number): string {
  return new Date(at * 1000).toLocaleDateString([], { month: "short", day: "numeric" });
}

/** The pixels of a size in rem: a canvas knows no variables, and uPlot reads whole pixels. */
function pixels(size: string): number {
  return Math.round(parseFloat(size) * parseFloat(getComputedStyle(document.documentElement).fontSize));
}

/** none: the text in place of lines while there is no value. */
export function Chart({ title, ring, lines, write, turn, small, none = "No values yet." }: { title: string; ring: Ring; lines: Line[]; write: (value: number) => string; turn: number; small?: boolean; none?: string }): JSX.Element {
  const height = small ? SMALL : TALL;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  // The moment that the reader chose, by the pointer or by a key; null: the last one.
  const [chosen, setChosen] = useState<number | null>(null);
  const byKey = useRef(false);
  const look = theme.value;
  const moments = ring.data[0] ?? [];
  const found = chosen === null ? -1 : moments.indexOf(chosen);
  const index = found < 0 ? moments.length - 1 : found;

  const point = (wanted: number | null): void => {
    setChosen(wanted);
    const it = plot.current;
    if (it) it.setCursor(wanted === null ? { left: -10, top: -10 } : { left: it.valToPos(wanted, "x"), top: 1 }, false);
  };

  useEffect(() => {
    const host = box.current;
    if (!host) return undefined;
    const make = (): void => {
      plot.current?.destroy();
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string): string => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `${pixels(colour("--font-small"))}px system-ui` };
      plot.current = new uPlot({
        width: Math.max(200, host.clientWidth), height, padding: [8, 32, 0, 0], legend: { show: false },
        cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 7 } },
        hooks: { setCursor: [(it) => {
          if (byKey.current) return;
          const at = it.cursor.idx;
          setChosen(at === null || at === undefined || (it.cursor.left ?? -1) < 0 ? null : ring.data[0]?.[at] ?? null);
        }] },
        scales: { x: { time: true, range: () => span(ring.data[0] ?? []) }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high ? high * 1.1 : 1] } },
        axes: [{ ...axis, space: 90, size: 34, gap: 9, incrs: STEPS_S, filter: (it, ticks) => ticks.map((one) => one > (it.scales["x"]?.max ?? Infinity) ? null : one), values: (_, ticks, __, ___, step) => ticks.map((one) => one === null ? "" : step < DAY ? clock(one) : day(one)) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((one) => write(one)) }],
        series: [{}, ...lines.map((one) => ({ label: one.label, stroke: colour(one.colour), width: 2, points: { size: 5, show: () => false, filter: (it: uPlot, at: number) => alone(it.data[at] ?? []) }, ...(one.dash ? { dash: one.dash } : {}) }))],
      }, ring.data as uPlot.AlignedData, host);
      plot.current.over.addEventListener("mousemove", () => { byKey.current = false; });
    };
    make();
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, host.clientWidth), height }));
    sized.observe(host);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    return () => {
      dark.removeEventListener("change", make);
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [look]);
  useEffect(() => {
    plot.current?.setData(ring.data as uPlot.AlignedData);
    if (byKey.current) point(found < 0 ? null : chosen);
  }, [turn]);

  const values = lines.map((_, i) => {
    const value = ring.data[i + 1]?.[index];
    return value === null || value === undefined ? "–" : write(value);
  });
  const bare = ring.data.slice(1).every((line) => line.every((value) => value === null));
  const at = moments[index];
  const days = (moments.at(-1) ?? 0) - (moments[0] ?? 0) > DAY;
  const moment = at === null || at === undefined ? "" : `${days ? `${day(at)}, ` : ""}${clock(at)}`;
  const pressed = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowLeft: index - 1, ArrowRight: index + 1, PageUp: index - 10, PageDown: index + 10, Home: 0, End: moments.length - 1 };
    const wanted = steps[event.key];
    if (wanted === undefined && event.key !== "Escape") return;
    event.preventDefault();
    byKey.current = wanted !== undefined;
    point(wanted === undefined ? null : moments[Math.min(moments.length - 1, Math.max(0, wanted))] ?? null);
  };
  return <figure class="chart">
    <figcaption><h2>{title} <span class="moment">{found < 0 ? "" : moment}</span></h2>
      <ul>{lines.map((one, i) =>
        <li key={one.label}><svg class={one.colour.slice(2)} width="18" height="4" aria-hidden="true"><line x1="0" y1="2" x2="18" y2="2" {...(one.dash ? { "stroke-dasharray": "4 3" } : {})} /></svg>{one.label} <b>{values[i]}</b></li>)}</ul>
    </figcaption>
    {bare && <p class="none quiet">{none}</p>}
    <div ref={box} class={small ? "canvas small" : "canvas"} role="slider" tabIndex={0} aria-label={`${title}, by time`} aria-valuemin={0} aria-valuemax={Math.max(0, moments.length - 1)}
      aria-valuenow={Math.max(0, index)} aria-valuetext={moment ? `${moment}: ${lines.map((one, i) => `${one.label} ${values[i]}`).join(", ")}` : "no points yet"}
      onKeyDown={pressed} onBlur={() => { byKey.current = false; point(null); }} />
  </figure>;
}
