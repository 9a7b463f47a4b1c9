// A small chart of a table's row: lines on a common scale from 0, described by a text.
import type { JSX } from "preact";
import "./spark.css";

const [WIDTH, HEIGHT] = [120, 24];

/** Draws lines of equal length, the first one on top. `label` tells what they show. */
export function Spark({ lines, label }: { lines: number[][]; label: string }): JSX.Element {
  // a single value is a line, too
  const drawn = lines.map((line) => line.length === 1 ? [...line, ...line] : line);
  const most = Math.max(0, ...lines.flat()) || 1;
  const points = (line: number[]): string => line.map((value, i) =>
    `${(i / Math.max(1, line.length - 1) * WIDTH).toFixed(1)},${(HEIGHT - 1 - value / most * (HEIGHT - 2)).toFixed(1)}`).join(" ");
  return <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
    {drawn.map((line, i) => <polyline key={i} class={"abc"[i] ?? "a"} points={points(line)} />).reverse()}
  </svg>;
}
