// A live chart: a bounded ring of points, drawn on a canvas; its last values stand below as text for those who do not see it.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { theme } from "./session";

/** How many points a chart keeps. */
export const POINTS = 300;

export class Ring {
  readonly data: (number | null)[][];

  constructor(readonly series: number) {
    this.data = Array.from({ length: series + 1 }, () => []);
  }

  add(at: number, values: (number | null)[]): void {
    [at, ...values].forEach((value, i) => {
      const line = this.data[i];
      if (!line) return;
      line.push(value);
      if (line.length > POINTS) line.shift();
    });
  }

  clear(): void {
    for (const line of this.data) line.length = 0;
  }
}

interface Line { label: string; colour: string; dash?: number[] }

/** What the axis of time shows of these moments: a minute at least. A single one uPlot would give a day. */
export function span(moments: (number | null)[]): [number, number] {
  const end = moments.at(-1) ?? Date.now() / 1000;
  return [Math.min(moments[0] ?? end, end - 60), end];
}

export function Chart({ title, ring, lines, write, turn }: { title: string; ring: Ring; lines: Line[]; write: (value: number) => string; turn: number }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const look = theme.value;
  useEffect(() => {
    const host = box.current;
    if (!host) return undefined;
    const make = (): void => {
      plot.current?.destroy();
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string): string => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
      plot.current = new uPlot({
        width: Math.max(200, host.clientWidth), height: 180, padding: [8, 32, 0, 0], legend: { show: false }, cursor: { show: false },
        scales: { x: { time: true, range: () => span(ring.data[0] ?? []) }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high ? high * 1.1 : 1] } },
        axes: [{ ...axis, space: 90, values: (_, ticks) => ticks.map((one) => new Date(one * 1000).toLocaleTimeString([], { hour12: false })) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((one) => write(one)) }],
        series: [{}, ...lines.map((one) => ({ label: one.label, stroke: colour(one.colour), width: 2, points: { show: () => ring.data[0]?.length === 1 }, ...(one.dash ? { dash: one.dash } : {}) }))],
      }, ring.data as uPlot.AlignedData, host);
    };
    make();
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, host.clientWidth), height: 180 }));
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
  useEffect(() => plot.current?.setData(ring.data as uPlot.AlignedData), [turn]);
  return <figure class="chart">
    <figcaption><h2>{title}</h2>
      <ul>{lines.map((one, i) => {
        const last = ring.data[i + 1]?.at(-1);
        return <li key={one.label}><svg class={one.colour.slice(2)} width="18" height="4" aria-hidden="true"><line x1="0" y1="2" x2="18" y2="2" {...(one.dash ? { "stroke-dasharray": "4 3" } : {})} /></svg>{one.label} <b>{last === null || last === undefined ? "–" : write(last)}</b></li>;
      })}</ul>
    </figcaption>
    <div ref={box} class="canvas" aria-hidden="true" />
  </figure>;
}
